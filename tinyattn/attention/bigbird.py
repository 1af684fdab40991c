"""Chapter 6: a few keys, but not always the same.

BigBird lets a query see its neighbourhood, the beginning of the text, which sees everything in
turn, and some random places. Each list is short whatever the length of the sequence, and yet two
positions are never more than a few hops apart (derivations/17_bigbird.md).
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

    Forward: as multi-head attention, where a query in block i sees the keys in the blocks that
             `pattern` lists for i, and the first `global_blocks` see everything. If causal, a
             query sees of all these what is not after it
    Shapes:  x X (B, T, C), Q_h, K_h, V_h (C, D), W (C, C) -> y (B, T, C)
    Units:   scores in nats
    Raises:  ValueError for a size below 0, an even window, or if H does not divide C
    Source:  Zaheer and others 2020, section 2 (their internal construction: the global positions
             belong to the text). Differs: all heads and layers share one random pattern

    Args:
        block: K, positions a block.
        window_blocks: blocks around one's own, half of them before it; all before it if causal.
        global_blocks: blocks at the beginning that see all and are seen by all.
        random_blocks: further blocks, drawn for each block of queries.
        seed: of these draws.
    """

    cannot: ClassVar[dict[str, str]] = {
        "context": "its window lies around a query's own place",
        "mask": "it decides itself which pairs meet",
        "cache": "its keys are gathered a block of queries at a time",
    }
    multiply_adds = "4·T·C² + 2·G·K·T·C + 2·(T - G·K)·K·N·C"
    kept_numbers = "4·T·C + 2·(T - G·K)·N·C"

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
        """Those of multi-head attention."""
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
        # More than the longest sequence has would change nothing but the work.
        self.block = min(block, self.longest)
        every = math.ceil(self.longest / self.block)
        self.window_blocks = min(window_blocks, 2 * every + 1)
        self.global_blocks = min(global_blocks, every)
        self.random_blocks = min(random_blocks, every)
        self.seed = seed

    def sizes(self) -> dict[str, int]:
        """C, H, K, N, the blocks in a query's list, and G, those whose queries see everything."""
        N = self.window_blocks + self.global_blocks + self.random_blocks
        return super().sizes() | {"K": self.block, "N": N, "G": self.global_blocks}

    def pattern(self, blocks: int, causal: bool) -> np.ndarray:
        """Which blocks each of so many blocks looks at: (blocks, N), filled up with -1.

        Without `causal`, the first `global_blocks` rows do not say it all: these see everything.
        """
        return pattern(
            blocks, self.window_blocks, self.global_blocks, self.random_blocks, self.seed, causal
        )

    def attend(self, q_BHTD: Tensor, k_BHSD: Tensor, v_BHSE: Tensor, call: Call) -> Tensor:
        """What each query reads from the blocks in its list."""
        K, T, causal = self.block, q_BHTD.shape[2], call.causal
        lists_MN = self.pattern(math.ceil(T / K), causal)
        # The first blocks see everything; if causal, everything up to them is in their lists.
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
                self._seen(lists_MN, T, causal, call.allowed, q_BHTD),
                scale=self.scale, dropout=self.dropout.rate, noise=call.noise,
            )  # fmt: skip
            parts.append(joined(y_BHMKE, T - first * K))
        return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=2)

    def _seen(
        self, lists_MN: np.ndarray, T: int, causal: bool, allowed: Array | None, like: Tensor
    ) -> Array:
        """Which of the gathered keys may be attended to: (M, K, S) or (.., M, 1, S), S = N·K.

        Not those that fill lists or the last block up; if causal, none that stand behind.
        """
        K, M = self.block, len(lists_MN)
        places_MS = (lists_MN[..., None] * K + np.arange(K)).reshape(M, -1)  # below 0 for no block
        seen = ((places_MS >= 0) & (places_MS < T))[:, None]
        if causal:
            queries_MK1 = np.arange(M * K).reshape(M, K, 1)
            seen = seen & (places_MS[:, None] <= queries_MK1)
        found = asarray(seen, device=like.device)
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
    """The blocks that each block of queries looks at, each once: (blocks, N), filled up with -1.

    Row i has the first blocks, those in the window, and random ones, drawn from the generator of
    (seed, i) among the rest. If causal, only blocks up to i are there, and the row does not
    depend on how many follow: a text can grow, and its beginning is computed as before.
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


def hops(sees: Array) -> np.ndarray:
    """How many layers it takes until position t can know of position s: (T, T); -1 for never.

    Shapes: sees (T, T) boolean, whether t sees s in one layer; it always knows of itself (0 hops)
    Source: the shortest paths of the graph that Zaheer and others 2020, section 2, speak of
    """
    step = asnumpy(sees) | np.eye(len(sees), dtype=bool)
    distance = np.where(np.eye(len(sees), dtype=bool), 0, -1)
    reached = distance == 0
    for layers in range(1, len(sees) + 1):
        now = (step.astype(np.float32) @ reached.astype(np.float32)) > 0
        if (now == reached).all():
            break
        distance[now & ~reached] = layers
        reached = now
    return distance


def _gathered(x_BHSD: Tensor, chosen_MN: np.ndarray, K: int) -> Tensor:
    """The blocks of keys or values that each block of queries looks at: (B, H, M, N·K, D)."""
    B, H, _, D = x_BHSD.shape
    M, N = chosen_MN.shape
    blocks = in_segments(x_BHSD, K).take(asarray(chosen_MN, device=x_BHSD.device), axis=2)
    return blocks.reshape(B, H, M, N * K, D)
