"""What every contender of a benchmark shares: sizes, batch, initial values, and a step server.

A contender is a program that builds the same model from the same numbers, says `ready`, and then
does one training step for each line it reads, answering with seconds and loss as JSON. So two of
them can be kept alive side by side and take steps in turn, under the same conditions.
"""

import argparse
import json
import resource
import sys
import time

import numpy as np

SIZES = {
    # Stanford CS224N assignment 5
    "a5": {"vocabulary": 256, "context": 128, "layers": 4, "heads": 8, "width": 256},
    "tiny": {"vocabulary": 256, "context": 64, "layers": 2, "heads": 2, "width": 64},
}
ADAM = {"learning_rate": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=SIZES, default="a5")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--gelu", choices=["exact", "tanh"], default="exact")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def batch(size: dict, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Random ids with targets; a quarter of the targets is PAD (id 0), as in real batches."""
    rng = np.random.default_rng(0)
    T = size["context"]
    text = rng.integers(1, size["vocabulary"], (rows, T + 1))
    targets = text[:, 1:].copy()
    targets[np.arange(T) >= rng.integers(T // 2, T + 1, rows)[:, None]] = 0
    return text[:, :-1], targets


def initial_values(shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """N(0, 0.02²) for weights, 1 for gains, 0 for biases; by name, so both contenders agree."""
    rng = np.random.default_rng(1)
    values = {}
    for name in sorted(shapes):
        if name.endswith("weight"):
            values[name] = rng.standard_normal(shapes[name], np.float32) * np.float32(0.02)
        else:
            values[name] = np.full(shapes[name], name.endswith("gain"), np.float32)
    return values


def serve(step) -> None:
    """Answer each line on stdin with one step. step() -> loss."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print("ready", flush=True)
    for _ in sys.stdin:
        usage, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        loss = float(step())
        seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime
        answer = {
            "seconds": seconds,
            "cpu": cpu,
            "loss": loss,
            "peak_mb": after.ru_maxrss / 1024,
            "step_mb": (after.ru_maxrss - before) / 1024,
        }
        print(json.dumps(answer), flush=True)
