"""Chapter 10, continued: queries that copy, average and mix.

With orthonormal keys a query can have any scores it likes: the score of a key is its coefficient.
So a query can copy one value, average two or more, or take any mixture. A query that keeps away
from all other keys, instead of going to the chosen ones, does not even hear how long these are
(derivations/07_copying.md, derivations/08_averaging.md, derivations/11_two_heads.md). Next: getting
a value back out of a sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinyattn import ops
from tinyattn.backend import asarray
from tinyattn.tensor import Tensor


def query_of(keys: Tensor, scores: Any) -> Tensor:
    """The query with these scores, if the keys are orthonormal.

    Forward: q = Σ_i s_i k_i
    Shapes:  keys (n, D), scores (n,) -> (D,)
    Raises:  ValueError if there is not one score for each key
    Source:  derivations/08_averaging.md
    """
    wanted = asarray(scores, keys.dtype, device=keys.device)
    if wanted.shape != keys.shape[:1]:
        raise ValueError(f"query_of: needs a score for each of the {keys.shape[0]} keys; "
                         f"got {wanted.shape}")  # fmt: skip
    return ops.matmul(wanted, keys)


def copying_query(keys: Tensor, j: int, size: float) -> Tensor:
    """A query that copies one value.

    Forward: q = M k_j, M = size; with orthonormal keys α_j = 1/(1 + (n - 1) e^-M)
    Shapes:  keys (n, D) -> (D,)
    Source:  sheets 001 and 004, question 1 (a)
    """
    return averaging_query(keys, [j], size)


def averaging_query(keys: Tensor, chosen: Sequence[int], size: float) -> Tensor:
    """A query that takes the mean of some values; of two, in the sheets.

    Forward: q = M Σ_{i chosen} k_i, M = size; with orthonormal keys each chosen one has the weight
             of `averaging_weight`
    Shapes:  keys (n, D) -> (D,)
    Raises:  ValueError if none is chosen, one twice, or one that is not there
    Source:  sheets 000, 001, 002 and 004, question 1 (b)
    """
    return family_query(keys, chosen, size, 0.0)


def repelling_query(keys: Tensor, chosen: Sequence[int], size: float) -> Tensor:
    """A query that takes the same mean by staying away from all others.

    It is orthogonal to the chosen keys, so that their lengths do not matter at all.

    Forward: q = -L Σ_{i not chosen} k_i, L = size; with orthonormal keys, of which the chosen may
             have any length, weights are those of `averaging_weight`
    Shapes:  keys (n, D) -> (D,)
    Raises:  as `averaging_query`
    Source:  derivations/11_two_heads.md; a member of sheet 002's family that no sheet notices
    """
    return family_query(keys, chosen, 0.0, -size)


def family_query(
    keys: Tensor, chosen: Sequence[int], inside: float, outside: float, extra: Any = None
) -> Tensor:
    """Sheet 002's whole family; weights depend on `inside - outside` alone.

    Forward: q = c_1 Σ_{i chosen} k_i + c_2 Σ_{i not chosen} k_i + x, c_1 = inside, c_2 = outside
    Shapes:  keys (n, D), extra x (D,), orthogonal to all keys -> (D,)
    Raises:  ValueError if none is chosen, one twice, or one that is not there
    Source:  sheet 002, question 1 (b)
    """
    n = keys.shape[0]
    if not chosen or len(set(chosen)) < len(chosen) or not all(0 <= i < n for i in chosen):
        raise ValueError(f"query: chosen must name some of the {n} keys, each once; got {chosen}")
    query = query_of(keys, [inside if i in chosen else outside for i in range(n)])
    return query if extra is None else query + extra


def distribution_query(keys: Tensor, weights: Sequence[float]) -> Tensor:
    """The query with these weights, which may be any that are positive and sum to 1.

    Forward: q = Σ_i ln p_i k_i, for orthonormal keys
    Shapes:  keys (n, D), weights (n,) -> (D,)
    Raises:  ValueError for a weight that is not positive
    Source:  derivations/08_averaging.md
    """
    if min(weights) <= 0:
        raise ValueError(f"distribution_query: weights must be above 0; got {min(weights)}")
    return query_of(keys, [math.log(p) for p in weights])


def averaging_weight(n: int, size: float, chosen: int = 2) -> float:
    """The weight of each chosen key, exactly.

    Forward: α = 1/(k + (n - k) e^-M), k = chosen, M = size
    Source:  derivations/08_averaging.md
    """
    return 1 / (chosen + (n - chosen) * math.exp(-size))


def averaging_error(n: int, size: float, heads: int = 1) -> float:
    """How much of the output is not the mean of the two values, but that of the n - 2 others.

    c - (v_a + v_b)/2 is this number times (mean of the others - (v_a + v_b)/2).

    Forward: one head (n - 2)/(n - 2 + 2 e^M); two heads, one for each, (n - 2)/(n - 1 + e^M)
    Raises:  ValueError unless heads is 1 or 2
    Source:  derivations/08_averaging.md, derivations/11_two_heads.md
    """
    if heads not in (1, 2):
        raise ValueError(f"averaging_error: heads must be 1 or 2; got {heads}")
    rest = math.exp(-size)
    below = (n - 2) * rest + 2 if heads == 1 else (n - 1) * rest + 1
    return (n - 2) * rest / below
