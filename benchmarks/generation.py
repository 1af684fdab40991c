"""Where the time of a generated token goes: python benchmarks/generation.py

The model of A5 (assignment 5 of Stanford CS224N) generates 120 tokens for 1 and for 32 prompts of 8
tokens, greedily, with its cache, in one thread. (compare.py does the same with one prompt; with 32,
of different lengths, it uses all cores.) The same is done without the file that computes a token on
arrays (kernels/cpu/decoding.py), so with a tensor for each result. For each token every matrix of
the model is multiplied once; these products are also measured alone, in turn with the generation.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from machine import machine

from tinyattn.models import GPT, GPTConfig
from tinyattn.models.generate import generate
from tinyattn.parallel.threads import keep_freed_memory, one_blas_thread
from tinyattn.services import SERVICES

A5 = GPTConfig(vocabulary=256)
ROUNDS, PROMPT, COUNT = 11, 8, 120


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def run(model: GPT, prompts: np.ndarray) -> None:
    for _ in generate(model, prompts, COUNT, temperature=0):
        pass


@contextmanager
def with_tensors() -> Iterator[None]:
    """A context in which the model itself computes every token."""
    decoding = SERVICES.pop(("next_logits", "cpu"))
    try:
        yield
    finally:
        SERVICES["next_logits", "cpu"] = decoding


def parts(rows: int) -> tuple[float, float, float]:
    """Milliseconds per token, with tensors, and of the matrix products alone."""
    rng = np.random.default_rng(0)
    model = GPT(A5, seed=0)
    prompts = rng.integers(1, A5.vocabulary, (rows, PROMPT))
    tables = ("embedding.weight", "positions.weight")
    matrices = [p.data for name, p in model.named_parameters()
                if p.ndim == 2 and name not in tables]  # fmt: skip
    factors = {len(w): rng.standard_normal((rows, len(w)), np.float32) for w in matrices}

    def slowly() -> None:
        with with_tensors():
            run(model, prompts)

    def products() -> None:
        for _ in range(COUNT):
            for w in matrices:
                factors[len(w)] @ w

    actions = {"token": lambda: run(model, prompts), "tensors": slowly, "products": products}
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(ROUNDS):
        for name, action in actions.items():
            taken[name].append(1000 / COUNT * seconds(action))
    token, tensors, product = (statistics.median(times) for times in taken.values())
    return token, tensors, product


def main() -> None:
    keep_freed_memory(np)
    print("batch    a token of each   with tensors  ratio   products   the rest")
    with one_blas_thread():
        for rows in (1, 32):
            token, tensors, product = parts(rows)
            print(f"{rows:5} {token:15.2f} ms {tensors:11.2f} ms {token / tensors:6.2f} "
                  f"{product:7.2f} ms {token - product:7.2f} ms")  # fmt: skip
    print(machine())


if __name__ == "__main__":
    main()
