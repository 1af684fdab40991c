"""Arrays that kernels use again and again: no result shares memory with them."""

import threading

import numpy as np
import pytest

from tinyattn import Tensor, formulas, ops
from tinyattn.dispatch import KERNELS, ROOMS
from tinyattn.kernels.cpu.tiles import SMALL, TILE, scratch
from tinyattn.rng import DropoutRNG

HERE = [room for room in ROOMS["cpu"] if ("attention", room) in KERNELS]


def test_an_array_is_used_again_by_its_thread_only() -> None:
    first = scratch.array("test", (2, SMALL), np.float32)
    assert np.shares_memory(first, scratch.array("test", (SMALL,), np.float32))
    assert not np.shares_memory(first, scratch.array("other", (SMALL,), np.float32))
    assert not np.shares_memory(first, scratch.array("test", (SMALL,), np.float64))
    found = []
    thread = threading.Thread(target=lambda: found.append(scratch.array("test", (SMALL,), "f4")))
    thread.start()
    thread.join()
    assert not np.shares_memory(first, found[0])


@pytest.mark.parametrize("size", [0, 1, SMALL - 1, TILE + 1])
def test_a_small_or_very_large_array_is_new(size: int) -> None:
    one, two = (scratch.array("test", (size,), np.float32) for _ in range(2))
    assert one.shape == (size,) and not np.shares_memory(one, two)


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("room", HERE)
def test_no_result_of_attention_changes_with_the_next_call(room: str, rate: float) -> None:
    def results(seed: int) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        leaves = [Tensor(rng.standard_normal((1, 4, 150, 8), np.float32), requires_grad=True)
                  for _ in range(3)]  # fmt: skip
        y = ops.attention(*leaves, causal=True, dropout=rate, dropout_rng=DropoutRNG(seed))
        y.sum().backward()
        return [y.data, *(leaf.grad for leaf in leaves)]

    with formulas("numba" if room == "cpu" else "0"):
        first = results(1)
        before = [array.copy() for array in first]
        results(2)
    for now, then in zip(first, before, strict=True):
        np.testing.assert_array_equal(now, then)
