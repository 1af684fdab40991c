"""Chapter 6: fewer keys, made from all of them.

Linformer multiplies keys and values, along the positions, by a learned matrix with few rows: T
queries then meet R keys. Each of these is a mixture of every position, the future too, so
Linformer looks both ways by nature and no mask can change that (derivations/18_linformer.md). A
variant that mixes only what lies wholly in the past does.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from tinyattn import ops
from tinyattn.attention.block import Call
from tinyattn.attention.multihead import MultiHead
from tinyattn.attention.segments import in_segments, look_back, look_back_weights
from tinyattn.backend import Array
from tinyattn.nn import Parameter, Role, normal
from tinyattn.tensor import Tensor


class Linformer(MultiHead):
    """Attention to R learned mixtures of the keys.

    Forward: Y_h = softmax(X Q_h (E X K_h)ᵀ/√D) F X V_h for head h; y = [Y_1 .. Y_H] W + b
    Shapes:  x X (B, T, C), E, F (R, N), Q_h, K_h, V_h (C, D), W (C, C) -> y (B, T, C); N is
             `longest`, and the first T columns of E and F are used
    Units:   scores in nats
    Raises:  ValueError if it is asked to be causal, for a longer sequence, or if H does not
             divide C
    Source:  Wang and others 2020, equation 7; E and F are shared by the heads (their "headwise")
             and begin as N(0, 1/R)

    Args:
        rows: R.
    """

    cannot: ClassVar[dict[str, str]] = {
        "causal": "each of its keys is a mixture of all positions, the future too, and a mask "
        "comes too late; use linformer-causal",
        "context": "its projections are for positions of its own sequence",
        "mask": "its keys are mixtures, the same for every query",
        "cache": "every new position changes all its keys",
        "any length": "each position has learned columns in E and F",
        "near": "its weights are on mixtures of positions, which stand nowhere",
    }
    multiply_adds = "4·T·C² + 4·T·R·C"
    kept_numbers = "4·T·C + 2·R·C"

    def build(self, rng: np.random.Generator, *, rows: int = 32) -> None:
        """Those of multi-head attention, and E and F."""
        super().build(rng)
        if rows < 1:
            raise ValueError(f"Linformer: rows must be at least 1; got {rows}")
        self.rows = rows
        self.mix_keys, self.mix_values = _mixtures(rows, self.longest, rng)  # E and F

    def sizes(self) -> dict[str, int]:
        """C, H and R."""
        return super().sizes() | {"R": self.rows}

    def attend(self, q_BHTD: Tensor, k_BHSD: Tensor, v_BHSE: Tensor, call: Call) -> Tensor:
        """What each query reads from the mixtures; hidden positions are left out of them."""
        k_BHRD = _mixed(self.mix_keys, k_BHSD, call.allowed)
        v_BHRE = _mixed(self.mix_values, v_BHSE, call.allowed)
        return ops.attention(
            q_BHTD, k_BHRD, v_BHRE,
            scale=self.scale, dropout=self.dropout.rate, noise=call.noise,
        )  # fmt: skip

    def weigh(self, x: Tensor, call: Call) -> Tensor:
        """The weights of every head on the R mixtures, (B, H, T, R)."""
        q_BHTD, k_BHSD = self.queries_and_keys(x, x)
        k_BHRD = _mixed(self.mix_keys, k_BHSD, call.allowed)
        return ops.softmax(q_BHTD @ k_BHRD.swapaxes(-1, -2) * self.scale)


def _mixtures(rows: int, positions: int, rng: np.random.Generator) -> list[Parameter]:
    """Two matrices (rows, positions)."""
    init, shape = normal(1 / math.sqrt(rows)), (rows, positions)
    return [Parameter(init(shape, rng), role=Role.MIXING) for _ in range(2)]


def _mixed(mix: Tensor, x_BHSD: Tensor, allowed: Array | None) -> Tensor:
    """R mixtures of the positions that are not hidden: (B, H, R, D)."""
    if allowed is not None:
        x_BHSD = ops.where(_as_column(allowed), x_BHSD, 0.0)
    return mix[:, : x_BHSD.shape[2]] @ x_BHSD


def _as_column(allowed: Array) -> Array:
    """A mask of keys (..., 1, S) as (..., S, 1), to fit keys (..., S, D)."""
    return allowed[..., None] if allowed.ndim < 2 else allowed.swapaxes(-1, -2)


class LinformerCausal(MultiHead):
    """Attention to learned mixtures of the past, R for each finished segment, and to one's own.

    Forward: keys of segment j: E X_j K_h, values F X_j V_h; a query of segment i sees those of
             the segments j < i, and in its own segment every position up to itself
    Shapes:  x X (B, T, C), X_j (K, C), E, F (R, K), Q_h, K_h, V_h (C, D), W (C, C) -> y (B, T, C)
    Units:   scores in nats
    Raises:  ValueError if it is not asked to be causal, or if H does not divide C
    Source:  ours, after Wang and others 2020. With R = K and E = F = I it is dense causal attention

    Args:
        segment: K; 0 stands for √(R·longest), which makes the least work.
        rows: R, at most K.
    """

    cannot: ClassVar[dict[str, str]] = {
        "bidirectional": "it is made for the past; use linformer",
        "context": "segments are cut from its own sequence",
        "padding": "it is causal: what fills a text up stands behind it and is not seen",
        "mask": "its keys are mixtures, the same for every query",
        "cache": "a segment is mixed only when it is finished",
        "near": "its weights are on mixtures of positions, which stand nowhere",
    }
    multiply_adds = "4·T·C² + 2·T·R·C + 2·T·(K + R·T/K)·C"
    kept_numbers = "6·T·C + 2·R·T/K·C + 2·R·T/K·T/K·C"

    def build(self, rng: np.random.Generator, *, segment: int = 0, rows: int = 4) -> None:
        """Those of multi-head attention, and E and F."""
        super().build(rng)
        segment = segment or max(rows, round(math.sqrt(rows * self.longest)))
        if not 1 <= rows <= segment:
            raise ValueError(
                f"LinformerCausal: rows must be at least 1, and at most segment unless that is 0; "
                f"got {rows} and {segment}"
            )
        self.segment, self.rows = segment, rows
        self.mix_keys, self.mix_values = _mixtures(rows, segment, rng)  # E and F

    def sizes(self) -> dict[str, int]:
        """C, H, K and R."""
        return super().sizes() | {"K": self.segment, "R": self.rows}

    def attend(self, q_BHTD: Tensor, k_BHSD: Tensor, v_BHSE: Tensor, call: Call) -> Tensor:
        """What each query reads from the finished segments' mixtures and from its own segment."""
        return look_back(
            q_BHTD, k_BHSD, v_BHSE,
            self._mixed(self.mix_keys, k_BHSD), self._mixed(self.mix_values, v_BHSE),
            K=self.segment, scale=self.scale, dropout=self.dropout.rate, noise=call.noise,
        )  # fmt: skip

    def weigh(self, x: Tensor, call: Call) -> Tensor:
        """The weights on the T positions, then on the N mixtures of finished segments."""
        q_BHTD, k_BHSD = self.queries_and_keys(x, x)
        mixed = self._mixed(self.mix_keys, k_BHSD)
        return look_back_weights(q_BHTD, k_BHSD, mixed, K=self.segment, scale=self.scale)

    def _mixed(self, mix: Tensor, x_BHTD: Tensor) -> Tensor:
        """R mixtures of every whole segment: (B, H, N, D), N = R·⌊T/K⌋."""
        B, H, T, D = x_BHTD.shape
        whole = T // self.segment
        segments = in_segments(x_BHTD[:, :, : whole * self.segment], self.segment)
        return (mix @ segments).reshape(B, H, whole * self.rows, D)
