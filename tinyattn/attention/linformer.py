"""Chapter 6: Linformer, fewer keys, made from all of them.

Linformer multiplies keys and values, along the positions, by a learned matrix with R rows: T
queries then attend to R keys. Each of these keys is a mixture of all positions, earlier and later
ones, so no mask can make Linformer causal (derivations/18_linformer.md). The variant below is
causal: it mixes only the positions of segments that end before the query's own.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from tinyattn import ops
from tinyattn.attention.block import Call
from tinyattn.attention.multihead import MultiHead
from tinyattn.attention.segments import in_segments, segment_attention, segment_weights
from tinyattn.backend import Array
from tinyattn.nn import Parameter, Role, normal
from tinyattn.tensor import Tensor


class Linformer(MultiHead):
    """Attention to R learned mixtures of the keys.

    Forward: y_h = softmax(x W_q (E x W_k)ᵀ/√D) F x W_v for head h; y = [y_1 .. y_H] W_o + b_o
    Shapes:  x (B, T, C), E, F (R, N), W_q, W_k, W_v (C, D), W_o (C, C) -> y (B, T, C); N is
             `max_length`, and the first T columns of E and F are used
    Units:   scores in nats
    Raises:  ValueError for a causal call, for a sequence longer than N, or if H does not divide C
    Source:  Wang and others 2020, equation 7; the heads share E and F (their "headwise"), whose
             initial elements are N(0, 1/R)

    Args:
        rows: R, number of mixtures.
    """

    cannot: ClassVar[dict[str, str]] = {
        "causal": "each of its keys is a mixture of all positions, and a mask cannot take the "
        "later ones out; use linformer-causal",
        "context": "its projections are for positions of its own sequence",
        "mask": "its keys are mixtures, the same for every query",
        "cache": "every new position changes all its keys",
        "any length": "each position has learned columns in E and F",
        "near": "its weights are on mixtures, which have no distance from a query",
    }
    multiply_adds = "4·T·C² + 4·T·R·C"
    kept_elements = "4·T·C + 2·R·C"

    def build(self, rng: np.random.Generator, *, rows: int = 32) -> None:
        """Make the parameters of multi-head attention, and E and F."""
        super().build(rng)
        if rows < 1:
            raise ValueError(f"Linformer: rows must be at least 1; got {rows}")
        self.rows = rows
        self.mix_keys, self.mix_values = _mixtures(rows, self.max_length, rng)  # E and F

    def sizes(self) -> dict[str, int]:
        """C, H and R."""
        return super().sizes() | {"R": self.rows}

    def attend(self, q_BHTD: Tensor, k_BHSD: Tensor, v_BHSE: Tensor, call: Call) -> Tensor:
        """The output of each query: it attends to the mixtures, without masked positions."""
        k_BHRD = _mixed(self.mix_keys, k_BHSD, call.allowed)
        v_BHRE = _mixed(self.mix_values, v_BHSE, call.allowed)
        return ops.attention(
            q_BHTD, k_BHRD, v_BHRE,
            scale=self.scale, dropout=self.dropout.rate, dropout_rng=call.dropout_rng,
        )  # fmt: skip

    def weigh(self, x: Tensor, call: Call) -> Tensor:
        """The weights of every head on the R mixtures, (B, H, T, R)."""
        q_BHTD, k_BHSD = self.queries_and_keys(x, x)
        k_BHRD = _mixed(self.mix_keys, k_BHSD, call.allowed)
        return ops.softmax(q_BHTD @ k_BHRD.swapaxes(-1, -2) * self.scale)

    def weighted_values(self, x: Tensor, call: Call) -> Tensor:
        """The R mixtures of the values, (B, H, R, D)."""
        return _mixed(self.mix_values, super().weighted_values(x, call), call.allowed)


def _mixtures(rows: int, positions: int, rng: np.random.Generator) -> list[Parameter]:
    """Two matrices (rows, positions)."""
    init, shape = normal(1 / math.sqrt(rows)), (rows, positions)
    return [Parameter(init(shape, rng), role=Role.MIXING) for _ in range(2)]


def _mixed(mix: Tensor, x_BHSD: Tensor, allowed: Array | None) -> Tensor:
    """R mixtures of the positions that are not masked: (B, H, R, D)."""
    if allowed is not None:
        x_BHSD = ops.where(_as_column(allowed), x_BHSD, 0.0)
    return mix[:, : x_BHSD.shape[2]] @ x_BHSD


def _as_column(allowed: Array) -> Array:
    """A mask of keys (..., 1, S) as (..., S, 1), to fit keys (..., S, D)."""
    return allowed[..., None] if allowed.ndim < 2 else allowed.swapaxes(-1, -2)


class LinformerCausal(MultiHead):
    """Attention to R learned mixtures of each earlier segment, and to the own segment.

    Forward: keys of segment j: E x_j W_k, values F x_j W_v; a query of segment i attends to those
             of the segments j < i, and in its own segment to every position up to itself
    Shapes:  x (B, T, C), x_j (K, C), E, F (R, K), W_q, W_k, W_v (C, D), W_o (C, C) -> y (B, T, C)
    Units:   scores in nats
    Raises:  ValueError for a call that is not causal, or if H does not divide C
    Source:  ours, after Wang and others 2020. With R = K and E = F = I it is dense causal attention

    Args:
        segment: K, positions per segment; 0 means √(R·max_length), which needs the least work.
        rows: R, mixtures per segment, at most K.
    """

    cannot: ClassVar[dict[str, str]] = {
        "bidirectional": "it is causal by construction; use linformer",
        "context": "its segments are parts of its own sequence",
        "padding": "it is causal: padding is after the sequence, where no query attends to it",
        "mask": "its keys are mixtures, the same for every query",
        "cache": "a segment is mixed only when it is complete",
        "near": "its weights are on mixtures, which have no distance from a query",
    }
    multiply_adds = "4·T·C² + 2·T·R·C + 2·T·(K + R·T/K)·C"
    kept_elements = "6·T·C + 2·R·T/K·C + 2·R·T/K·T/K·C"

    def build(self, rng: np.random.Generator, *, segment: int = 0, rows: int = 4) -> None:
        """Make the parameters of multi-head attention, and E and F."""
        super().build(rng)
        segment = segment or max(rows, round(math.sqrt(rows * self.max_length)))
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
        """The output of each query: it attends to earlier mixtures and to its own segment."""
        return segment_attention(
            q_BHTD, k_BHSD, v_BHSE,
            self._mixed(self.mix_keys, k_BHSD), self._mixed(self.mix_values, v_BHSE),
            K=self.segment, scale=self.scale,
            dropout=self.dropout.rate, dropout_rng=call.dropout_rng,
        )  # fmt: skip

    def weigh(self, x: Tensor, call: Call) -> Tensor:
        """The weights on the T positions, then on the N mixtures of complete segments."""
        q_BHTD, k_BHSD = self.queries_and_keys(x, x)
        mixed = self._mixed(self.mix_keys, k_BHSD)
        return segment_weights(q_BHTD, k_BHSD, mixed, K=self.segment, scale=self.scale)

    def weighted_values(self, x: Tensor, call: Call) -> Tensor:
        """The values of the T positions, then of the N mixtures: (B, H, T + N, D)."""
        v_BHTD = super().weighted_values(x, call)
        return ops.concatenate([v_BHTD, self._mixed(self.mix_values, v_BHTD)], axis=2)

    def _mixed(self, mix: Tensor, x_BHTD: Tensor) -> Tensor:
        """R mixtures of every complete segment: (B, H, N, D), N = R·⌊T/K⌋."""
        B, H, T, D = x_BHTD.shape
        whole = T // self.segment
        segments = in_segments(x_BHTD[:, :, : whole * self.segment], self.segment)
        return (mix @ segments).reshape(B, H, whole * self.rows, D)
