"""Chapter 6: bilinear attention, one matrix instead of two.

A score is a query times a key, and both are linear in their inputs: x W_q W_kᵀ zᵀ. Only the product
W_q W_kᵀ matters, so one matrix can replace the two (derivations/15_bilinear.md). It has more
elements, but its rank shows how many dimensions a head really uses.
"""

from __future__ import annotations

import math

import numpy as np

from tinyattn.attention.multihead import MultiHead, split_heads
from tinyattn.nn import Linear, normal
from tinyattn.tensor import Tensor


class Bilinear(MultiHead):
    """Attention with one matrix W_h per head instead of W_q and W_k.

    Forward: y_h = softmax((x W_h + u_h) zᵀ/√C) z W_v for head h; y = [y_1 .. y_H] W_o + b_o
    Shapes:  x (B, T, C), context z (B, S, C), W_h (C, C), u_h (C,), W_v (C, D) -> y (B, T, C)
    Units:   scores in nats
    Raises:  ValueError if H does not divide C, or shapes do not fit
    Source:  answer sheet 003 (a student's published solutions), problems 3 and 5. Differs: u_h
             comes from the bias of the queries (a bias of the keys adds the same to all scores of a
             query, which softmax ignores); 1/√C is outside W_h, so that the learning rate of other
             matrices suits W_h

    The weight of `query`, (C, H·C), is W_1 .. W_H side by side, and its bias u_1 .. u_H.
    """

    multiply_adds = "H·T·C² + 2·T·C² + H·T²·C + T²·C"
    kept_elements = "H·T·C + 2·T·C"

    @property
    def query_width(self) -> int:
        """C: a key is the whole vector of a position."""
        return self.width

    def build(self, rng: np.random.Generator) -> None:
        """Make three linear maps: to queries, to values, and of the output."""
        C = self.width
        self.scale = 1 / math.sqrt(C)
        # The initial size of W_q W_kᵀ·√C/√D if W_q and W_k are N(0, 0.02²), as in CS224N's A5.
        self.query = Linear(C, self.heads * C, rng=rng, init=normal(0.02**2 * math.sqrt(C)))
        self.value, self.out = (Linear(C, C, rng=rng) for _ in range(2))

    def queries_and_keys(self, x: Tensor, z: Tensor, start: int = 0) -> tuple[Tensor, Tensor]:
        """Queries (B, H, T, C), and keys (B, 1, S, C), which are the vectors of the positions."""
        q_BHTC, k_B1SC = split_heads(self.query(x), self.heads), z.expand_dims(1)
        if self.rotary is not None:
            q_BHTC, k_B1SC = self.rotary(q_BHTC, start), self.rotary(k_B1SC, start)
        return q_BHTC, k_B1SC

    def matrices(self) -> np.ndarray:
        """W_h of every head on the host, (H, C, C)."""
        return _by_head(self.query, self.heads)[0]


def merge(block: MultiHead) -> Bilinear:
    """The bilinear block with the same outputs. Both blocks share the value and output maps.

    Forward: W_h = W_q W_kᵀ·√C/√D, u_h = W_k b_q·√C/√D
    Raises:  ValueError for rotary attention: there a score depends on the distance of query and
             key, so no single matrix gives it
    Source:  answer sheet 003, problem 5 (a); derivations/15_bilinear.md
    """
    if type(block) is not MultiHead:
        raise ValueError(f"merge: needs a MultiHead block; got {type(block).__name__}")
    if block.rotary is not None:
        raise ValueError(
            "merge: with rotary positions a score depends on the distance of query and key, and no "
            "single matrix gives that"
        )
    C, H = block.width, block.heads
    made = Bilinear(C, H, max_length=block.max_length, rng=np.random.default_rng(0),
                    dropout=block.dropout.rate)  # fmt: skip
    (q, b), (k, _) = _by_head(block.query, H), _by_head(block.key, H)
    ratio = block.scale / made.scale
    w_HCC = q @ k.swapaxes(1, 2) * ratio
    u_HC = (k @ b[..., None])[..., 0] * ratio
    _fill(made.query, w_HCC.transpose(1, 0, 2), u_HC)
    made.to(block.query.weight.device)
    made.value, made.out = block.value, block.out
    return made


def factor(block: Bilinear) -> MultiHead:
    """The multi-head block whose scores are nearest, in the sense of least squares.

    Both blocks share the value and output maps.

    Forward: [W_h; u_h] ≈ [W_q; b_q] W_kᵀ·√C/√D, u_h and b_q as one more row, from the D
             largest singular values; the root of each is a factor of both matrices
    Raises:  ValueError for rotary attention, which rotates other pairs if heads are narrower
    Source:  Eckart and Young 1936; exact if [W_h; u_h] has rank D at most, as after `merge`
    """
    if block.rotary is not None:
        raise ValueError("factor: rotary positions rotate C dimensions here, but D in multi-head")
    C, H = block.width, block.heads
    D = C // H
    made = MultiHead(C, H, max_length=block.max_length, rng=np.random.default_rng(0),
                     dropout=block.dropout.rate)  # fmt: skip
    w_HCC, u_HC = _by_head(block.query, H)
    left, size, right = np.linalg.svd(np.concatenate([w_HCC, u_HC[:, None]], axis=1))
    root = np.sqrt(size[:, None, :D] * block.scale / made.scale)
    queries = left[:, :, :D] * root  # (H, C + 1, D)
    k_HCD = right[:, :D].swapaxes(1, 2) * root
    _fill(made.query, queries[:, :C].transpose(1, 0, 2), queries[:, C])
    _fill(made.key, k_HCD.transpose(1, 0, 2), np.zeros_like(queries[:, C]))
    made.to(block.query.weight.device)
    made.value, made.out = block.value, block.out
    return made


def score_parameters(width: int, head_width: int) -> tuple[int, int]:
    """The sizes of W_q and W_k together, 2IJ, and of W_h, J², for J = width, I = head_width."""
    return 2 * head_width * width, width * width


def _by_head(linear: Linear, heads: int) -> tuple[np.ndarray, np.ndarray]:
    """Weight (H, C, D) and bias (H, D) of every head of a linear map (C, H·D)."""
    n_in, n_out = linear.weight.shape
    bias = linear.bias.numpy() if linear.bias is not None else np.zeros(n_out)
    weight = linear.weight.numpy().reshape(n_in, heads, n_out // heads)
    return weight.transpose(1, 0, 2), bias.reshape(heads, n_out // heads)


def _fill(linear: Linear, weight_CHD: np.ndarray, bias_HD: np.ndarray) -> None:
    """The reverse of `_by_head`: give a linear map these weights and biases."""
    assert linear.bias is not None
    linear.weight = linear.weight.like(weight_CHD.reshape(linear.weight.shape))
    linear.bias = linear.bias.like(bias_HD.reshape(linear.bias.shape))
