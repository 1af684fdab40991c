"""What the compiled loops promise besides the results of their formulas (test_kernels.py)."""

import math
import subprocess
import sys

import numpy as np
import pytest

from tinyattn import Tensor, ops
from tinyattn.dispatch import KERNELS, choose
from tinyattn.nn import Parameter
from tinyattn.rng import DropoutRNG
from tinyattn.training import AdamW

pytest.importorskip("numba")


def test_numba_is_imported_at_the_first_call_only() -> None:
    code = "import sys, tinyattn; print('numba' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_float32_is_computed_by_loops_and_float64_by_numpy() -> None:
    for dtype, room in (("float32", "numba"), ("float64", "cpu")):
        x = np.zeros((2, 3), dtype)
        run, _ = choose(ops.gelu.__wrapped__, "cpu", (np, x), {})
        assert run is KERNELS["gelu", room].run


def test_the_exponential_is_right_to_two_units_in_the_last_place() -> None:
    from numba import njit

    from tinyattn.kernels.numba.loops import exponential

    @njit
    def each(x: np.ndarray) -> np.ndarray:
        y = np.empty_like(x)
        for i in range(x.size):
            y[i] = exponential(x[i])
        return y

    x = np.concatenate([np.linspace(-103, 88, 400_001), np.linspace(-1, 1, 200_001)])
    x = x.astype(np.float32)
    right = np.exp(x.astype(np.float64))
    units = np.spacing(np.maximum(right, 2.0**-126).astype(np.float32)).astype(np.float64)
    assert (abs(each(x) - right) / units).max() < 2
    ends = each(np.array([0, -np.inf, -104, np.nan], np.float32))
    np.testing.assert_array_equal(ends, np.array([1, 0, 0, np.nan], np.float32))


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 127, 128])
def test_dropout_drops_the_same_elements_as_numpy(width: int) -> None:
    x = np.ones((3, 5, width), np.float32)
    calls = [KERNELS["dropout", room].run(np, x, rate=0.3, dropout_rng=DropoutRNG(7, step=2))[0]
             for room in ("cpu", "numba")]  # fmt: skip
    np.testing.assert_array_equal(*calls)


def test_attention_drops_the_same_weights_as_numpy() -> None:
    q = np.random.default_rng(0).standard_normal((2, 3, 70, 4)).astype(np.float32)
    v = np.broadcast_to(np.eye(70, dtype=np.float32), (2, 3, 70, 70)).copy()
    weights = [
        KERNELS["attention", room].run(
            np, q, q, v, causal=True, dropout=0.4, dropout_rng=DropoutRNG(7)
        )[0]
        for room in ("cpu", "numba")
    ]
    np.testing.assert_array_equal(*(w == 0 for w in weights))
    np.testing.assert_allclose(*weights, atol=1e-6)


def test_a_long_sum_keeps_its_digits() -> None:
    """As long as a cache may be; the values of all keys are about 1."""
    v = np.random.default_rng(0).uniform(0.9, 1.1, (1, 1, 40_000, 4)).astype(np.float32)
    q, k = np.zeros((1, 1, 1, 4), np.float32), np.zeros_like(v)
    y = ops.attention(Tensor(q), Tensor(k), Tensor(v)).numpy()
    np.testing.assert_allclose(y[0, 0, 0], v[0, 0].mean(axis=0, dtype=np.float64), rtol=1e-6)


def test_adamw_takes_a_whole_number_and_small_rates() -> None:
    w = Parameter(np.ones(3, np.float32))
    for decay, wanted in ((0, 1.0), (1, math.exp(-3e-4))):
        w.data = np.ones(3, np.float32)
        rule = AdamW([("w", w)], weight_decay=decay, decays=lambda parameter: True)
        for _ in range(300):
            w.grad = np.zeros(3, np.float32)
            rule.step(1e-6)
        np.testing.assert_allclose(1 - w.numpy(), 1 - wanted, rtol=0.05)
