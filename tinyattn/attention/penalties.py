"""Chapter 6: penalties on attention weights, for heads that attend to few and near positions.

A dependency parse links a word to few others, mostly near ones. Answer sheet 003 (a student's
published solutions) asks for losses that make heads do the same. `focus` is the entropy of a head's
weights. `near` is the mean squared distance of the keys that it attends to, up to a cap, so that a
few far keys stay cheap (derivations/20_penalties.md). Such a term can only hurt a model that finds
the best parameters, but in practice no model finds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tinyattn import ops
from tinyattn.attention.refusals import ABILITIES
from tinyattn.backend import Array, asarray, asnumpy
from tinyattn.checks import settle
from tinyattn.tensor import Tensor

HEAVIEST = 1e6
"""The largest weight of a penalty: with it, the other loss of some nats no longer matters. With far
larger weights, sums are no longer finite in float32."""


def focus(weights_BHTS: Tensor) -> Tensor:
    """The entropy of each query's weights: 0 for a single key, ln S for S equal weights.

    Forward: H_t = -Σ_s α_ts ln α_ts, where 0 ln 0 = 0
    Shapes:  (B, H, T, S) -> (B, H, T); also (T, S) -> (T,), and (S,) -> ()
    Units:   nats
    Source:  Shannon 1948; answer sheet 003, problem 1 (b)
    """
    least = float(np.finfo(weights_BHTS.dtype).tiny)  # the least argument of ln
    return -(weights_BHTS * ops.log(ops.maximum(weights_BHTS, least))).sum(axis=-1)


def near(weights_BHTT: Tensor, cap: float) -> Tensor:
    """The mean squared distance of each query from its keys, by their weights, at most `cap`.

    Forward: d_t = min(cap, Σ_s α_ts (t - s)²)
    Shapes:  (B, H, T, T) -> (B, H, T)
    Units:   positions²
    Raises:  ValueError if there are not as many keys as queries
    Source:  answer sheet 003, problem 1 (c)
    """
    T, S = weights_BHTT.shape[-2:]
    if T != S:
        raise ValueError(f"near: needs as many keys as queries; got weights {weights_BHTT.shape}")
    places = np.arange(T, dtype=float)
    squares = asarray((places[:, None] - places) ** 2, device=weights_BHTT.device)
    return ops.minimum((weights_BHTT * squares).sum(axis=-1), float(cap))


@dataclass(frozen=True)
class Penalty:
    """The weights of the two penalties in the loss, and the cap of `near`.

    Raises: ValueError for a weight below 0 or above HEAVIEST, or a cap that is not above 0
        in float32.
    """

    focus: float = 0.0  # weight of the penalty on the entropy of attention weights
    near: float = 0.0  # weight of the penalty on the distance to which heads attend
    cap: float = 64.0  # positions²: more than 8 positions cost no more

    def __post_init__(self) -> None:
        settle(self, above=("cap",), most={"focus": HEAVIEST, "near": HEAVIEST})

    def __bool__(self) -> bool:
        return self.focus > 0 or self.near > 0

    def check(self, attention: str, cannot: Mapping[str, str]) -> None:
        """Raises: ValueError if the attention type `attention` does not allow this penalty."""
        for name in ("focus", "near"):
            if getattr(self, name) and name in cannot:
                raise ValueError(
                    f"penalty {name}: {attention!r} cannot {ABILITIES[name]}: {cannot[name]}"
                )

    def __call__(self, layers: Sequence[Tensor], counts: Array, divisor: float) -> Tensor:
        """The term that is added to the loss.

        Forward: λ_focus·mean H + λ_near·mean d, over the layers, their heads, and the queries
                 where `counts` is True, whose number is `divisor`
        Shapes:  layers: weights (B, H, T, S) of each; counts (B, T) boolean -> ()
        Source:  answer sheet 003, problem 1
        """
        total = Tensor(0.0, dtype=layers[0].dtype, device=layers[0].device)
        for weights in layers:
            if self.focus:
                total = total + self.focus * _mean(focus(weights), counts, divisor)
            if self.near:
                total = total + self.near * _mean(near(weights, self.cap), counts, divisor)
        return total * (1 / len(layers))


def head_statistics(
    layers: Sequence[Tensor], counts: Array, cap: float, cannot: Mapping[str, str]
) -> dict[str, float]:
    """The mean entropy of the heads, in nats, and their mean capped squared distance, positions².

    A statistic whose penalty `cannot` excludes is left out. Shapes: as for `Penalty`.
    """
    number = max(1.0, float(np.count_nonzero(asnumpy(counts))))
    found = {}
    if "focus" not in cannot:
        found["entropy"] = [_mean(focus(w), counts, number).item() for w in layers]
    if "near" not in cannot:
        found["distance"] = [_mean(near(w, cap), counts, number).item() for w in layers]
    return {name: sum(values) / len(values) for name, values in found.items()}


def _mean(values_BHT: Tensor, counts: Array, divisor: float) -> Tensor:
    """The mean over the heads, and over the queries where `counts` is True."""
    heads = values_BHT.shape[1]
    # Selected, not multiplied by 0: the values of other queries may be NaN.
    total: Tensor = ops.sum(ops.where(counts[:, None, :], values_BHT, 0.0))
    return total * (1 / (heads * divisor))
