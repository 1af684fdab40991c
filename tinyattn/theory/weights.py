"""Chapter 7: bounds on attention weights.

The chapters before built attention and trained with it. This chapter asks what attention can do. It
checks claims of five answer sheets (students' solutions of two problem sets, 000 to 004, not in
the package). Their constructions are functions here, with weights from `ops.attention`, which the
models use. Its output is the weights if the values are the rows of the identity matrix.

Weights are a softmax of scores, so only differences of scores matter. The bounds below give the
lead that the largest score needs, and how far weights can move (derivations/03_softmax.md and
derivations/07_copying.md). Throughout theory/ n is the number of keys, as in the sheets.
"""

from __future__ import annotations

import math
from typing import Any

from tinyattn import ops
from tinyattn.tensor import Tensor


def weights_of(scores: Tensor, *, causal: bool = False) -> Tensor:
    """The attention weights of given scores.

    With the identity matrix as keys, the scores of a query are its own elements.

    Forward: α = softmax(s), the output of `ops.attention` for the identity matrix as values
    Shapes:  (.., T, n) -> (.., T, n), or one row, (n,) -> (n,)
    Units:   nats -> weights
    Source:  derivations/03_softmax.md

    Args: causal: whether later keys are masked; the last query is at the position of the last key.
    """
    identity = scores.xp.eye(scores.shape[-1], dtype=scores.dtype)
    queries = scores[None] if scores.ndim == 1 else scores
    weights = ops.attention(queries, identity, identity, causal=causal, scale=1.0)
    return weights[0] if scores.ndim == 1 else weights


def weight_bounds(gap: float, n: int) -> tuple[float, float]:
    """The bounds of the largest of n weights, if its score exceeds the second score by `gap`.

    Forward: 1/(1 + (n - 1) e^-gap) ≤ α ≤ 1/(1 + e^-gap); α is the first if all other scores are
             equal, and comes near the second if all but one of them are far below
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
    """The lead with which `many` of n keys, of equal scores, have together the weight 1 - `error`.

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
    """How far the share of one key in the weight of two differs from ½.

    Forward: |α_a/(α_a + α_b) - ½| = ½ tanh(|s_a - s_b|/2)
    Units:   difference nats -> share
    Source:  derivations/08_averaging.md
    """
    return math.tanh(abs(difference) / 2) / 2


def largest_move(change: Any) -> float:
    """The largest change of the weights, in total variation, for a change of the scores.

    Forward: ½ Σ_i |Δα_i| ≤ tanh(r/4), r = max Δs - min Δs
    Shapes:  change Δs (n,)
    Raises:  ValueError unless it is one row
    Source:  derivations/03_softmax.md
    """
    moved = Tensor(change)
    one_row("largest_move", moved)
    return math.tanh((moved.max() - moved.min()).item() / 4)


def jacobian(weights: Tensor) -> Tensor:
    """The derivatives of the weights of one query by its scores: ∂α_i/∂s_j.

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
    """Check an argument that must be the scores or weights of one query.

    Raises: ValueError unless it has one axis and at least one element.
    """
    if numbers.ndim != 1 or not numbers.size:
        raise ValueError(f"{where}: takes one row of numbers, (n,); got {numbers.shape}")
