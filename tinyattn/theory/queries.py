"""Chapter 7: queries that copy a value, average values or mix them.

With orthonormal keys any scores are possible: the score of a key is its coefficient in the query.
So a query can copy one value, average several, or give any convex combination with positive
weights. A query with negative scores for all other keys does not depend on the norms of the chosen
ones (derivations/07_copying.md, derivations/08_averaging.md, derivations/11_two_heads.md). The
functions assume orthonormal keys, as `orthonormal` draws them, and do not check it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinyattn import ops
from tinyattn.backend import asarray
from tinyattn.tensor import Tensor

ROUNDING = 1e-6
"""The largest allowed |Σ weights - 1|: float32, and decimals that a person has typed, round."""


def orthonormal(rng: np.random.Generator, n: int, width: int) -> np.ndarray:
    """n random orthonormal vectors of `width` elements, as rows.

    Shapes:  (n, D), D = width
    Raises:  ValueError if n is larger than the width: there are no such vectors
    """
    if not 0 <= n <= width:
        raise ValueError(f"orthonormal: there are no {n} orthonormal vectors of {width} elements; "
                         "n must be at most the width")  # fmt: skip
    return np.linalg.qr(rng.standard_normal((width, n)))[0].T


def query_of(keys: Tensor, scores: Any) -> Tensor:
    """The query that gives the keys these scores.

    Forward: q = Σ_i s_i k_i
    Shapes:  keys (n, D), scores (n,) -> (D,)
    Raises:  ValueError if there is not one score for each key
    Source:  derivations/08_averaging.md
    """
    wanted = asarray(scores, keys.dtype, device=keys.device)
    if keys.ndim != 2 or wanted.shape != keys.shape[:1]:
        raise ValueError("query_of: needs keys (n, D) and a score for each; "
                         f"got {keys.shape} and {wanted.shape}")  # fmt: skip
    return ops.matmul(wanted, keys)


def copying_query(keys: Tensor, j: int, size: float) -> Tensor:
    """A query that copies one value.

    Forward: q = M k_j, M = size, so that α_j = 1/(1 + (n - 1) e^-M)
    Shapes:  keys (n, D) -> (D,)
    Raises:  ValueError unless 0 ≤ j < n
    Source:  answer sheets 001 and 004, question 1 (a)
    """
    if not 0 <= j < keys.shape[0]:
        raise ValueError(f"copying_query: j must be from 0 to {keys.shape[0] - 1}; got {j}")
    return averaging_query(keys, [j], size)


def averaging_query(keys: Tensor, chosen: Sequence[int], size: float) -> Tensor:
    """A query that averages some values; in the sheets, two.

    Forward: q = M Σ_{i chosen} k_i, M = size; each chosen key has the weight of `averaging_weight`
    Shapes:  keys (n, D) -> (D,)
    Raises:  ValueError if no index is chosen, one twice, or one outside 0..n-1
    Source:  sheets 000, 001, 002 and 004, question 1 (b)
    """
    _check_chosen("averaging_query", keys, chosen)
    return family_query(keys, chosen, size, 0.0)


def repelling_query(keys: Tensor, chosen: Sequence[int], size: float) -> Tensor:
    """A query that averages the same values by negative scores for all other keys.

    It is orthogonal to the chosen keys, so their norms do not matter.

    Forward: q = -L Σ_{i not chosen} k_i, L = size; weights are those of `averaging_weight`, and the
             chosen keys may have any norm
    Shapes:  keys (n, D) -> (D,)
    Raises:  as `averaging_query`
    Source:  derivations/11_two_heads.md; a member of sheet 002's family that no sheet mentions
    """
    _check_chosen("repelling_query", keys, chosen)
    return family_query(keys, chosen, 0.0, -size)


def family_query(
    keys: Tensor, chosen: Sequence[int], inside: float, outside: float, extra: Any = None
) -> Tensor:
    """The family of queries in sheet 002; the weights depend on `inside - outside` only.

    Forward: q = c_1 Σ_{i chosen} k_i + c_2 Σ_{i not chosen} k_i + x, c_1 = inside, c_2 = outside
    Shapes:  keys (n, D), extra x (D,), orthogonal to all keys -> (D,)
    Raises:  as `averaging_query`; ValueError for an extra of another shape
    Source:  sheet 002, question 1 (b)
    """
    _check_chosen("family_query", keys, chosen)
    if extra is not None and np.shape(extra) != keys.shape[1:]:
        raise ValueError(f"family_query: extra must have shape {keys.shape[1:]}, as a key has; "
                         f"got {np.shape(extra)}")  # fmt: skip
    query = query_of(keys, [inside if i in chosen else outside for i in range(keys.shape[0])])
    return query if extra is None else query + extra


def distribution_query(keys: Tensor, weights: Sequence[float]) -> Tensor:
    """The query that gives the keys these weights, which are positive and sum to 1.

    Forward: q = Σ_i ln p_i k_i
    Shapes:  keys (n, D), weights (n,) -> (D,)
    Raises:  ValueError unless each key has a positive weight, and they sum to 1
    Source:  derivations/08_averaging.md
    """
    n = keys.shape[0]
    if len(weights) != n or not min(weights) > 0 or abs(sum(weights) - 1) > ROUNDING:
        raise ValueError(f"distribution_query: needs weights above 0 that sum to 1, one for each "
                         f"of the {n} keys; got {list(weights)}")  # fmt: skip
    return query_of(keys, [math.log(p) for p in weights])


def averaging_weight(n: int, size: float, many: int = 2) -> float:
    """The exact weight of each of `many` chosen keys.

    Forward: α = 1/(k + (n - k) e^-M), k = many, M = size
    Raises:  ValueError unless 1 ≤ many ≤ n, and for a size that is NaN
    Source:  derivations/08_averaging.md
    """
    if math.isnan(size) or not 1 <= many <= n:
        raise ValueError("averaging_weight: needs 1 <= many <= n and a size that is a number; "
                         f"got {many}, {n} and {size}")  # fmt: skip
    if many == n:
        return 1 / n
    rest = math.exp(-abs(size))  # for a negative M, e^-M could overflow
    return 1 / (many + (n - many) * rest) if size >= 0 else rest / (many * rest + n - many)


def averaging_error(n: int, size: float, heads: int = 1) -> float:
    """The weight of the mean of the n - 2 other values in the output.

    c - (v_a + v_b)/2 is this weight times (mean of the others - (v_a + v_b)/2).

    Forward: one head (n - 2)/(n - 2 + 2 e^M); two heads, one for each, (n - 2)/(n - 1 + e^M)
    Raises:  ValueError unless heads is 1 or 2, and n at least 2, and for a size that is NaN
    Source:  derivations/08_averaging.md, derivations/11_two_heads.md
    """
    if heads not in (1, 2) or n < 2 or math.isnan(size):
        raise ValueError("averaging_error: needs 1 or 2 heads, n >= 2 and a size that is a number; "
                         f"got {heads}, {n} and {size}")  # fmt: skip
    if n == 2:  # there are no others
        return 0.0
    # The weight of the others: a score M for the chosen keys is a score -M for the others.
    rivals = n - 2 if heads == 1 else n - 1
    return (n - 2) * averaging_weight(n, -size, rivals)


def _check_chosen(where: str, keys: Tensor, chosen: Sequence[int]) -> None:
    """Raises: ValueError if no index is chosen, one twice, or one outside 0..n-1."""
    n, named = keys.shape[0], set(chosen)
    if not named or len(named) < len(chosen) or not named <= set(range(n)):
        raise ValueError(f"{where}: chosen must name some of the {n} keys, each once; "
                         f"got {list(chosen)}")  # fmt: skip
