"""What all contenders share: model sizes, batch, prompts, initial values, hyperparameters.

A contender is a program that computes the same as the others, with its own library in its own
environment. This file needs only NumPy, so every environment can import it. Next: the protocol of a
contender (serving.py).
"""

import argparse
from typing import Any

import numpy as np

SIZES = {
    # Stanford CS224N assignment 5
    "a5": {"vocabulary": 256, "context": 128, "layers": 4, "heads": 8, "width": 256},
    "tiny": {"vocabulary": 256, "context": 64, "layers": 2, "heads": 2, "width": 64},
}
ADAM: dict[str, Any] = {
    "learning_rate": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1,
}  # fmt: skip


def options() -> argparse.ArgumentParser:
    """The options of every contender; some add their own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=SIZES, default="a5")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--gelu", choices=["exact", "tanh"], default="exact")
    parser.add_argument("--threads", type=int, default=2, help="if the library has this setting")
    parser.add_argument("--keep", action="store_true", help="let the C library keep freed memory")
    return parser


def choose(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the options; with --keep, freed memory is kept, as in tinyattn's commands."""
    chosen = parser.parse_args()
    if chosen.keep:
        from tinyattn.parallel.threads import keep_freed_memory

        keep_freed_memory(np)
    return chosen


def batch(size: dict[str, int], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Random ids with targets; a quarter of the targets is PAD (id 0), as in real batches."""
    rng = np.random.default_rng(0)
    T = size["context"]
    ids = rng.integers(1, size["vocabulary"], (rows, T + 1))
    targets = ids[:, 1:].copy()
    targets[np.arange(T) >= rng.integers(T // 2, T + 1, rows)[:, None]] = 0
    return ids[:, :-1], targets


def prompts(size: dict[str, int], rows: int) -> list[np.ndarray]:
    """Prompts: one of 8 tokens, or many of 8 to 40."""
    rng = np.random.default_rng(2)
    lengths = [8] if rows == 1 else rng.integers(8, 41, rows).tolist()
    return [rng.integers(1, size["vocabulary"], length) for length in lengths]


def shapes(size: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """Every parameter of the GPT by its name in tinyattn; matrices are (n_in, n_out)."""
    V, T, C = size["vocabulary"], size["context"], size["width"]
    found: dict[str, tuple[int, ...]] = {"embedding.weight": (V, C), "positions.weight": (T, C)}
    for i in range(size["layers"]):
        layer = f"layers.{i}"
        for norm in ("norm_1", "norm_2"):
            found |= {f"{layer}.{norm}.gain": (C,), f"{layer}.{norm}.bias": (C,)}
        maps = {f"attention.{name}": (C, C) for name in ("query", "key", "value", "out")}
        maps |= {"feedforward.expand": (C, 4 * C), "feedforward.contract": (4 * C, C)}
        for name, shape in maps.items():
            found |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[1:]}
    return found | {"norm.gain": (C,), "norm.bias": (C,), "head.weight": (C, V)}


def decays(name: str) -> bool:
    """Whether a parameter gets weight decay: matrices do; biases, gains and tables do not."""
    return name.endswith("weight") and not name.startswith(("embedding", "positions"))


def initial_values(size: dict[str, int]) -> dict[str, np.ndarray]:
    """N(0, 0.02²) for weights, 1 for gains, 0 for biases."""
    rng = np.random.default_rng(1)
    values = {}
    for name, shape in sorted(shapes(size).items()):
        if name.endswith("weight"):
            values[name] = rng.standard_normal(shape, np.float32) * np.float32(0.02)
        else:
            values[name] = np.full(shape, name.endswith("gain"), np.float32)
    return values
