"""Chapter 7: what is true of attention weights, whatever they are used for.

The chapters before built attention and trained with it. This one asks what it can and cannot do, by
the claims of five answer sheets to two problem sets (000 to 004, not part of the package). Every
construction in them is a function here, and its weights come from `ops.attention`, the operation
that models use. It keeps no weights, but a query reads them from values that are the identity.

Weights are a softmax of scores, so they depend on differences of scores only. The bounds below say
by how much a score must lead, and how far weights can move (derivations/03_softmax.md and
derivations/07_copying.md). Throughout theory/ n is the number of keys, as in the sheets.
"""

from __future__ import annotations

import math
from typing import Any

from tinyattn import ops
from tinyattn.tensor import Tensor


def weights_of(scores: Tensor, *, causal: bool = False) -> Tensor:
    """The weights that attention gives to scores.

    With the identity as keys, the scores of a query are its own numbers.

    Forward: α = softmax(s), read from the identity by `ops.attention`
    Shapes:  (.., T, n) -> (.., T, n), or one row, (n,) -> (n,)
    Units:   nats -> weights
    Source:  derivations/03_softmax.md

    Args: causal: whether later keys are hidden, if the last query stands at the last key.
    """
    identity = scores.xp.eye(scores.shape[-1], dtype=scores.dtype)
    queries = scores[None] if scores.ndim == 1 else scores
    weights = ops.attention(queries, identity, identity, causal=causal, scale=1.0)
    return weights[0] if scores.ndim == 1 else weights


def weight_bounds(gap: float, n: int) -> tuple[float, float]:
    """Between what the largest of n weights lies, if its score leads the second by `gap`.

    Forward: 1/(1 + (n - 1) e^-gap) ≤ α ≤ 1/(1 + e^-gap); the first is reached when all rivals tie,
             the second when all but one are far behind
    Units:   gap nats -> weights
    Raises:  ValueError for a gap below 0, or fewer than 2 keys
    Source:  derivations/07_copying.md
    """
    if not (gap >= 0 and n >= 2):
        raise ValueError(
            f"weight_bounds: gap must be at least 0 and n at least 2; got {gap} and {n}"
        )
    rival = math.exp(-gap)
    return 1 / (1 + (n - 1) * rival), 1 / (1 + rival)


def lead_needed(n: int, error: float, many: int = 1) -> float:
    """The lead that gives `many` of n keys, equally high, all weight but `error`.

    Forward: gap = ln((n - k)(1 - η)/(k η)), k = many, η = error
    Units:   nats
    Raises:  ValueError unless 0 < error < 1 and 1 ≤ many < n
    Source:  derivations/07_copying.md
    """
    if not (0 < error < 1 and 1 <= many < n):
        raise ValueError(
            f"lead_needed: needs 0 < error < 1 and 1 <= many < n; got {error}, {many} and {n}"
        )
    return math.log((n - many) * (1 - error) / (many * error))


def imbalance(difference: float) -> float:
    """How far from ½ each of two keys' share of their common weight is.

    Forward: |α_a/(α_a + α_b) - ½| = ½ tanh(|s_a - s_b|/2)
    Units:   difference nats -> share
    Source:  derivations/08_averaging.md
    """
    return math.tanh(abs(difference) / 2) / 2


def largest_move(change: Any) -> float:
    """The most that any weights can move, in total variation, when scores change so.

    Forward: ½ Σ_i |Δα_i| ≤ tanh(r/4), r = max Δs - min Δs
    Shapes:  change Δs (n,)
    Raises:  ValueError unless it is one row
    Source:  derivations/03_softmax.md
    """
    moved = Tensor(change)
    one_row("largest_move", moved)
    return math.tanh((moved.max() - moved.min()).item() / 4)


def jacobian(weights: Tensor) -> Tensor:
    """How the weights of one query move with its scores: ∂α_i/∂s_j.

    Forward: J = diag(α) - α αᵀ
    Shapes:  (n,) -> (n, n)
    Raises:  ValueError unless the weights are one row
    Source:  derivations/03_softmax.md
    """
    one_row("jacobian", weights)
    n = weights.shape[0]
    identity = weights.xp.eye(n, dtype=weights.dtype)
    found: Tensor = weights * identity - ops.matmul(weights.reshape(n, 1), weights.reshape(1, n))
    return found


def one_row(where: str, numbers: Tensor) -> None:
    """What all takes one query at a time refuses two.

    Raises: ValueError unless there is one axis, with a number on it at least.
    """
    if numbers.ndim != 1 or not numbers.size:
        raise ValueError(f"{where}: takes one row of numbers, (n,); got {numbers.shape}")
