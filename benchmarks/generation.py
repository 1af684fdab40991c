"""Where the time of a generated token goes: python benchmarks/generation.py

The model of A5 (assignment 5 of Stanford CS224N) generates 120 tokens for 1 and for 32 prompts of 8
tokens, greedily, with its cache, in one thread. (compare.py does the same with one prompt; with 32,
of different lengths, it uses all cores.) For each token every matrix of the model is multiplied
once, and every operation is called once. Both are also measured alone, in turn with the generation:
the matrix products in plain NumPy, the calls as additions of two scalars.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from machine import machine

from tinyattn import Tensor, ops
from tinyattn.graph import no_grad
from tinyattn.measure.observer import observed
from tinyattn.models import GPT, GPTConfig
from tinyattn.models.generate import generate
from tinyattn.parallel.threads import keep_freed_memory, one_blas_thread

A5 = GPTConfig(vocabulary=256)
ROUNDS, PROMPT, COUNT = 11, 8, 120
CALLS = 1000


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def run(model: GPT, prompts: np.ndarray) -> None:
    for _ in generate(model, prompts, COUNT, temperature=0):
        pass


def calls(model: GPT, prompts: np.ndarray) -> float:
    """How many operations are called per token."""
    called = 0

    def count(name: str, function: Callable[..., Any], reason: str) -> Callable[..., Any]:
        nonlocal called
        called += 1
        return function

    with observed(count):
        run(model, prompts)
    return called / COUNT


def parts(rows: int) -> tuple[float, float, float, float]:
    """Milliseconds per token, of its matrix products and of its calls; and how many calls."""
    rng = np.random.default_rng(0)
    model = GPT(A5, seed=0)
    prompts = rng.integers(1, A5.vocabulary, (rows, PROMPT))
    tables = ("embedding.weight", "positions.weight")
    matrices = [p.data for name, p in model.named_parameters()
                if p.ndim == 2 and name not in tables]  # fmt: skip
    factors = {len(w): rng.standard_normal((rows, len(w)), np.float32) for w in matrices}
    one = Tensor(1.0)

    def products() -> None:
        for _ in range(COUNT):
            for w in matrices:
                factors[len(w)] @ w

    def additions() -> None:
        with no_grad():
            for _ in range(CALLS):
                ops.add(one, one)

    per_token = calls(model, prompts)
    scales = {"token": 1 / COUNT, "products": 1 / COUNT, "calls": per_token / CALLS}
    actions = {"token": lambda: run(model, prompts), "products": products, "calls": additions}
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(ROUNDS):
        for name, action in actions.items():
            taken[name].append(1000 * scales[name] * seconds(action))
    token, product, call = (statistics.median(times) for times in taken.values())
    return token, product, call, per_token


def main() -> None:
    keep_freed_memory(np)
    print("batch    a token of each   products     calls     the rest")
    with one_blas_thread():
        for rows in (1, 32):
            token, product, call, count = parts(rows)
            print(f"{rows:5} {token:14.2f} ms {product:7.2f} ms {call:6.2f} ms "
                  f"{token - product - call:9.2f} ms   {count:.0f} calls")  # fmt: skip
    print(machine())


if __name__ == "__main__":
    main()
