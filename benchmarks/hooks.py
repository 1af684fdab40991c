"""What hooks cost where none is used: the time of their calls, beside the time of a training step.

python benchmarks/hooks.py
"""

from __future__ import annotations

import statistics
import timeit

import numpy as np

from tinyattn import no_grad, ops
from tinyattn.models import GPT, GPTConfig
from tinyattn.nn import NO_HOOKS, Hooks

SIZES = {"tiny": (2, 64, 32), "A5": (4, 256, 128)}  # layers, width, tokens of a sequence


class Counting(Hooks):
    """Hooks that count their calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def inside(self, part: str) -> Hooks:
        """Count this call; the parts count in the same place."""
        self.calls += 1
        return self

    def __call__(self, name: str, x):  # type: ignore[no-untyped-def]
        """Count this call."""
        self.calls += 1
        return x


def main() -> None:
    """Print a row for each size."""
    rounds = 100_000
    each = min(timeit.repeat(lambda: NO_HOOKS("attention", None), number=rounds)) / rounds
    inside = min(timeit.repeat(lambda: NO_HOOKS.inside("attention"), number=rounds)) / rounds
    for name, (layers, width, length) in SIZES.items():
        model = GPT(GPTConfig(vocabulary=256, context=length, layers=layers, width=width))
        ids = np.random.default_rng(0).integers(1, 256, size=(1, length))
        counting = Counting()
        with no_grad():
            for layer in model.layers:
                layer(model.embedding(ids), causal=True, hooks=counting)
        calls = counting.calls + 1 + 2 * layers  # and GPT's own: the embedding, each layer

        def step(model: GPT = model, ids: np.ndarray = ids) -> None:
            ops.cross_entropy(model(ids), ids).backward()

        seconds = statistics.median(timeit.repeat(step, number=1, repeat=20))
        spent = calls * max(each, inside)
        print(f"{name}: {calls} calls, {1e6 * spent:.1f} µs of {1e3 * seconds:.1f} ms for one "
              f"sequence: {spent / seconds:.2%}")  # fmt: skip


if __name__ == "__main__":
    main()
