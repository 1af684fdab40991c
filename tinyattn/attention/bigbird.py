"""Chapter 6: BigBird, attention to a few keys, not always the same ones.

In BigBird a query attends to its neighbourhood, to the beginning of the sequence, and to some
random positions. The beginning attends to everything. The lists of keys are short for sequences of
any length, and yet two positions are only a few hops apart (derivations/17_bigbird.md). In this
file a block is a run of K positions, as in the paper.
"""

from __future__ import annotations

import functools
import math
from typing import ClassVar

import numpy as np

from tinyattn import ops
from tinyattn.attention.block import Call
from tinyattn.attention.multihead import MultiHead
from tinyattn.attention.segments import in_segments, joined
from tinyattn.backend import Array, asarray, asnumpy
from tinyattn.tensor import Tensor


class BigBird(MultiHead):
    """Attention to a window, to the first blocks, and to random blocks.

    Forward: as multi-head attention, where a query in block i attends to the keys in the blocks
             that `pattern` lists for i, and the first `global_blocks` attend to everything. If
             causal, a query attends to those of these keys that are not after it
    Shapes:  x (B, T, C), W_q, W_k, W_v (C, D), W_o (C, C) -> y (B, T, C)
    Units:   scores in nats
    Raises:  ValueError for a size below 0, an even window, or if H does not divide C
    Source:  Zaheer and others 2020, section 2 (their internal construction: the global positions
             belong to the sequence). Differs: all heads and layers share one random pattern

    Args:
        block: K, number of positions per block.
        window_blocks: odd number of blocks in the window. The query's own block is in the middle,
            or the last one if causal.
        global_blocks: number of blocks at the beginning that attend to all blocks, and to which
            all blocks attend.
        random_blocks: number of further blocks, drawn for each block of queries.
        seed: seed of these draws.
    """

    cannot: ClassVar[dict[str, str]] = {
        "context": "its window is around the query's own position",
        "mask": "it selects the keys of a query itself",
        "cache": "it gathers keys for a whole block of queries",
    }
    multiply_adds = "4·T·C² + 2·G·K·T·C + 2·(T - G·K)·K·N·C"
    kept_elements = "4·T·C + 2·(T - G·K)·N·C"

    def build(
        self,
        rng: np.random.Generator,
        *,
        block: int = 8,
        window_blocks: int = 3,
        global_blocks: int = 1,
        random_blocks: int = 2,
        seed: int = 0,
    ) -> None:
        """Make the parameters of multi-head attention."""
        super().build(rng)
        if block < 1 or window_blocks < 1 or window_blocks % 2 == 0:
            raise ValueError(
                "BigBird: block must be at least 1 and window_blocks odd; got "
                f"{block} and {window_blocks}"
            )
        if min(global_blocks, random_blocks, seed) < 0:
            raise ValueError(
                "BigBird: global_blocks, random_blocks and seed must be at least 0; got "
                f"{global_blocks}, {random_blocks} and {seed}"
            )
        # More blocks than the longest sequence has would cost time and change nothing else.
        self.block = min(block, self.max_length)
        every = math.ceil(self.max_length / self.block)
        self.window_blocks = min(window_blocks, 2 * every + 1)
        self.global_blocks = min(global_blocks, every)
        self.random_blocks = min(random_blocks, every)
        self.seed = seed

    def sizes(self) -> dict[str, int]:
        """C, H, K, N (blocks in a query's list) and G (blocks that attend to everything)."""
        N = self.window_blocks + self.global_blocks + self.random_blocks
        return super().sizes() | {"K": self.block, "N": N, "G": self.global_blocks}

    def pattern(self, blocks: int, causal: bool) -> np.ndarray:
        """The blocks that each block attends to: (blocks, N), filled up with -1.

        Without `causal` the first `global_blocks` blocks attend to everything; their rows list only
        some of it.
        """
        return pattern(
            blocks, self.window_blocks, self.global_blocks, self.random_blocks, self.seed, causal
        )

    def attend(self, q_BHTD: Tensor, k_BHSD: Tensor, v_BHSE: Tensor, call: Call) -> Tensor:
        """The output of each query: it attends to the blocks in its list."""
        K, T, causal = self.block, q_BHTD.shape[2], call.causal
        lists_MN = self.pattern(math.ceil(T / K), causal)
        # The first blocks attend to everything; if causal, their lists contain all up to them.
        first = 0 if causal else min(self.global_blocks, len(lists_MN))
        parts = []
        if first:
            start = q_BHTD[:, :, : first * K]
            parts.append(super().attend(start, k_BHSD, v_BHSE, call))
        if first < len(lists_MN):
            lists_MN = lists_MN[first:]
            chosen_MN = np.maximum(lists_MN, 0)
            y_BHMKE = ops.attention(
                in_segments(q_BHTD[:, :, first * K :], K),
                _gathered(k_BHSD, chosen_MN, K), _gathered(v_BHSE, chosen_MN, K),
                self._mask(lists_MN, T, causal, call.allowed, q_BHTD),
                scale=self.scale, dropout=self.dropout.rate, dropout_rng=call.dropout_rng,
            )  # fmt: skip
            parts.append(joined(y_BHMKE, T - first * K))
        return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=2)

    def _mask(
        self, lists_MN: np.ndarray, T: int, causal: bool, allowed: Array | None, like: Tensor
    ) -> Array:
        """The attention mask of the gathered keys: (M, K, S) or (.., M, 1, S), S = N·K.

        It is False for the padding of lists and of the last block; if causal, for keys after the
        query, too.
        """
        K, M = self.block, len(lists_MN)
        places_MS = (lists_MN[..., None] * K + np.arange(K)).reshape(M, -1)  # below 0 for no block
        mask = ((places_MS >= 0) & (places_MS < T))[:, None]
        if causal:
            queries_MK1 = np.arange(M * K).reshape(M, K, 1)
            mask = mask & (places_MS[:, None] <= queries_MK1)
        found = asarray(mask, device=like.device)
        if allowed is not None:
            allowed = like.xp.atleast_2d(allowed)
            keys = like.xp.broadcast_to(allowed, (*allowed.shape[:-1], T))
            where = asarray(places_MS.clip(0, T - 1), device=like.device)
            found = found & keys[..., where].swapaxes(-2, -3)  # (.., 1, M, S) -> (.., M, 1, S)
        return found


@functools.lru_cache(maxsize=256)
def pattern(
    blocks: int, window: int, first: int, random: int, seed: int, causal: bool
) -> np.ndarray:
    """The blocks that each block of queries attends to, each once: (blocks, N), filled up with -1.

    Row i lists the first blocks, those in the window, and random other blocks, drawn with the
    generator of (seed, i). If causal, it lists only blocks up to i and does not depend on the
    number of blocks after i. So a longer sequence does not change the output at its beginning.
    """
    lists = np.full((blocks, window + first + random), -1)
    before, after = (window - 1, 0) if causal else (window // 2, window // 2)
    for i in range(blocks):
        stop = i + 1 if causal else blocks
        near = range(max(0, i - before), min(stop, i + after + 1))
        chosen = dict.fromkeys([*range(min(first, stop)), *near])
        wanted = min(len(chosen) + random, stop)
        draw = np.random.default_rng([seed, i])
        while len(chosen) < wanted:
            chosen.setdefault(int(draw.integers(stop)))
        lists[i, : len(chosen)] = list(chosen)
    lists.flags.writeable = False
    return lists


def hops(attends: Array) -> np.ndarray:
    """The number of layers after which position t depends on position s: (T, T); -1 for never.

    Shapes: attends (T, T) boolean: t attends to s in one layer; t always depends on itself (0 hops)
    Source: the shortest paths in the graph of Zaheer and others 2020, section 2
    """
    step = asnumpy(attends) | np.eye(len(attends), dtype=bool)
    distance = np.where(np.eye(len(attends), dtype=bool), 0, -1)
    reached = distance == 0
    for layers in range(1, len(attends) + 1):
        now = (step.astype(np.float32) @ reached.astype(np.float32)) > 0
        if (now == reached).all():
            break
        distance[now & ~reached] = layers
        reached = now
    return distance


def _gathered(x_BHSD: Tensor, chosen_MN: np.ndarray, K: int) -> Tensor:
    """The blocks of keys or values that each block of queries attends to: (B, H, M, N·K, D)."""
    B, H, _, D = x_BHSD.shape
    M, N = chosen_MN.shape
    blocks = in_segments(x_BHSD, K).take(asarray(chosen_MN, device=x_BHSD.device), axis=2)
    return blocks.reshape(B, H, M, N * K, D)
