"""Each twin in CUDA gives what its formula gives, in both precisions, for all shapes.

The formula is run by NumPy. With dropout the very same weights are dropped.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gpu import needs_gpu
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn.backend import asarray, asnumpy, get_device, is_array
from tinyattn.dispatch import KERNELS
from tinyattn.noise import Noise
from tinyattn.parallel.shards import clip_factor
from tinyattn.tensor import OPS
from tinyattn.training import OPTIMIZERS, Optimizer

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}


def both_ways(dtype: str) -> dict[str, float]:
    return {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}


precision = st.sampled_from(list(TOLERANCE))
seeds = st.integers(0, 10_000)
small = st.integers(1, 5)
width = st.integers(1, 70)  # up to more than two warps
shapes = st.integers(1, 5).flatmap(lambda axes: st.tuples(*[st.integers(1, 5)] * axes))

pytestmark = needs_gpu


def moved(value: Any, device: str) -> Any:
    if isinstance(value, (list, tuple)):
        return [moved(one, device) for one in value]
    return asarray(value, device=device) if isinstance(value, np.ndarray) else value


def results(function: Callable, device: str, arrays: list, options: dict, u: np.ndarray | None
            ) -> tuple[np.ndarray, list]:  # fmt: skip
    """The value, and every gradient for the cotangent u."""
    xp = get_device(device).xp
    y, vjp = function(xp, *moved(arrays, device), **options)
    y = y if is_array(y) else np.asarray(y)
    g = moved(np.ones(y.shape, y.dtype) if u is None else u.reshape(y.shape), device)
    pulled = vjp(g) if callable(vjp) else [f(g) if f else None for f in vjp]
    return asnumpy(y), [None if a is None else asnumpy(a) for a in pulled]


def assert_alike(name: str, arrays: list, options: dict, size: int | None = None) -> None:
    """Twin and formula, of `arrays` whose first one sets precision; y has `size` numbers."""
    dtype = arrays[0].dtype
    u = None if size is None else np.random.default_rng(1).normal(size=size).astype(dtype)
    plain = results(OPS[name].__wrapped__, "cpu", arrays, options | noise_of(options), u)
    twin = results(KERNELS[name, "cuda"].run, "cuda", arrays, options | noise_of(options), u)
    assert twin[0].dtype == dtype and twin[0].shape == plain[0].shape
    tolerance = {"rtol": TOLERANCE[str(dtype)], "atol": TOLERANCE[str(dtype)]}
    assert_allclose(twin[0], plain[0], **tolerance)
    for array, mine, theirs in zip(arrays, twin[1], plain[1], strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert mine.shape == array.shape and mine.dtype == dtype
            assert_allclose(mine, theirs, **tolerance)


def noise_of(options: dict) -> dict:
    """A source of random bits is used up, so each gets its own."""
    return {"noise": Noise(3, step=7, first_row=5)} if "noise" in options else {}


def draw(seed: int, dtype: str, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def in_memory(x: np.ndarray, how: str) -> np.ndarray:
    """x, lying in memory in another order or with gaps."""
    if how == "turned":
        return np.ascontiguousarray(x.swapaxes(0, -1)).swapaxes(0, -1)
    return np.repeat(x, 2, axis=-1)[..., ::2] if how == "gaps" else x


orders = st.sampled_from(["plain", "turned", "gaps"])


@given(precision, small, small, width, orders, seeds)
def test_layer_norm(dtype: str, B: int, T: int, C: int, how: str, seed: int) -> None:
    x, gain, bias = draw(seed, dtype, (B, T, C), (C,), (C,))
    arrays = [in_memory(a, how) for a in (3 * x + 1, gain, bias)]
    assert_alike("layer_norm", arrays, {"eps": 1e-3}, B * T * C)


@given(precision, st.sampled_from([511, 513, 1111]), st.integers(1, 70), seeds)
@settings(max_examples=5)
def test_layer_norm_of_many_rows(dtype: str, rows: int, C: int, seed: int) -> None:
    x, gain, bias = draw(seed, dtype, (rows, C), (C,), (C,))
    assert_alike("layer_norm", [x, gain, bias], {"eps": 1.0}, rows * C)


@given(precision, small, width, st.booleans(), orders, seeds)
def test_gelu(dtype: str, B: int, T: int, exact: bool, how: str, seed: int) -> None:
    x = 6 * draw(seed, dtype, (B, T))[0]
    assert_alike("gelu", [in_memory(x, how)], {"exact": exact}, B * T)


@given(precision, small, small, st.integers(1, 40), st.booleans(), st.booleans(), seeds)
def test_cross_entropy(
    dtype: str, B: int, T: int, V: int, ignores: bool, divides: bool, seed: int
) -> None:
    z = 4 * draw(seed, dtype, (B, T, V))[0]
    targets = np.random.default_rng(seed).integers(0, V, (B, T))
    options = {"ignore": 0 if ignores else None, "divisor": 7.0 if divides else None}
    assert_alike("cross_entropy", [z, targets], options, 1)


@given(precision, st.integers(1, 9), width, small, st.integers(1, 70), seeds)
def test_embedding(dtype: str, V: int, C: int, B: int, T: int, seed: int) -> None:
    weight = draw(seed, dtype, (V, C))[0]
    ids = np.random.default_rng(seed).integers(0, V, (B, T))
    assert_alike("embedding", [weight, ids], {}, B * T * C)


@given(precision, small, small, small, st.integers(1, 9), st.booleans(), orders, seeds)
def test_linear(
    dtype: str, B: int, T: int, C: int, F: int, bias: bool, how: str, seed: int
) -> None:
    x, weight, b = draw(seed, dtype, (B, T, C), (C, F), (F,))
    arrays = [in_memory(x, how), weight, *([b] if bias else [])]
    if bias:
        assert_alike("linear", arrays, {}, B * T * F)
    else:
        u = draw(1, dtype, (B, T, F))[0]
        plain = results(OPS["linear"].__wrapped__, "cpu", arrays, {}, u)
        twin = results(KERNELS["linear", "cuda"].run, "cuda", arrays, {}, u)
        for mine, theirs in zip([twin[0], *twin[1][:2]], [plain[0], *plain[1][:2]], strict=True):
            assert_allclose(mine, theirs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@given(precision, small, small, small, orders, seeds)
def test_rotate(dtype: str, B: int, T: int, pairs: int, how: str, seed: int) -> None:
    x, angles = draw(seed, dtype, (B, 2, T, 2 * pairs), (T, pairs))
    for device, function in (
        ("cpu", OPS["rotate"].__wrapped__),
        ("cuda", KERNELS["rotate", "cuda"].run),
    ):
        options = {"cos": moved(np.cos(angles), device), "sin": moved(np.sin(angles), device)}
        found = results(function, device, [in_memory(x, how)], options, x)
        if device == "cpu":
            plain = found
    for mine, theirs in zip([found[0], *found[1]], [plain[0], *plain[1]], strict=True):
        assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


@given(precision, shapes, st.sampled_from([0.1, 0.5, 0.997]),
       orders, seeds)  # fmt: skip
def test_dropout(dtype: str, shape: tuple[int, ...], rate: float, how: str, seed: int) -> None:
    x = draw(seed, dtype, shape)[0]
    rate = min(rate, 255 / 256)
    assert_alike("dropout", [in_memory(x, how)], {"rate": rate, "noise": None}, x.size)


@given(precision, small, small, st.integers(1, 40), st.integers(1, 40), small, small,
       st.booleans(), st.sampled_from([0.0, 0.3]), st.sampled_from([None, 1, 3, 4]), orders,
       seeds)  # fmt: skip
def test_attention(
    dtype: str, B: int, H: int, T: int, S: int, D: int, E: int, causal: bool,
    rate: float, masked: int | None, how: str, seed: int,
) -> None:  # fmt: skip
    shapes = (B, H, T, D), (B, H, S, D), (B, H, S, E)
    arrays = [in_memory(a, how) for a in draw(seed, dtype, *shapes)]
    options = {"causal": causal, "scale": 0.7, "dropout": rate, "noise": None}
    if masked is not None:  # with that many axes of their own
        shape = (B, H, T, S)[-masked:] if masked < 4 else (B, 1, T, S)
        arrays.append(in_memory(np.random.default_rng(seed).random(shape) < 0.6, how))
        plain = OPS["attention"].__wrapped__
        u = draw(1, dtype, (B, H, T, E))[0]
        found = [results(f, d, arrays, options | noise_of(options), u)
                 for f, d in ((plain, "cpu"), (KERNELS["attention", "cuda"].run, "cuda"))]  # fmt: skip
        for theirs, mine in zip(*([y, *g[:3]] for y, g in found), strict=True):
            assert_allclose(mine, theirs, rtol=2e-5, atol=2e-5)
        return
    plain, twin = (
        results(f, d, arrays, options | noise_of(options), draw(1, dtype, (B, H, T, E))[0])
        for f, d in (
            (OPS["attention"].__wrapped__, "cpu"),
            (KERNELS["attention", "cuda"].run, "cuda"),
        )
    )
    for theirs, mine in zip([plain[0], *plain[1][:3]], [twin[0], *twin[1][:3]], strict=True):
        assert_allclose(mine, theirs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@given(precision, small, st.integers(2, 40), st.booleans(), st.sampled_from([0.0, 0.3]),
       st.sampled_from([np.nan, np.inf, -np.inf]), st.integers(0, 2), orders, seeds)  # fmt: skip
def test_what_attention_hides_may_be_no_number(
    dtype: str, H: int, T: int, causal: bool, rate: float, bad: float, of: int, how: str, seed: int
) -> None:
    """The last position is hidden from all others, and nobody uses what it finds."""
    arrays = [in_memory(a, how).copy() for a in draw(seed, dtype, *[(2, H, T, 3)] * 3)]
    u = draw(1, dtype, (2, H, T, 3))[0]
    allowed = np.ones((T, T), bool)
    allowed[:-1, -1] = False
    arrays[of][..., -1, :], u[..., -1, :] = bad, 0
    options = {"causal": causal, "dropout": rate, "noise": None}
    plain, twin = (
        results(f, d, [*arrays, allowed], options | noise_of(options), u)
        for f, d in (
            (OPS["attention"].__wrapped__, "cpu"),
            (KERNELS["attention", "cuda"].run, "cuda"),
        )
    )
    assert np.isfinite(twin[0][..., :-1, :]).all()
    assert_allclose(twin[0][..., :-1, :], plain[0][..., :-1, :], **both_ways(dtype))
    for theirs, mine in zip(plain[1][:3], twin[1][:3], strict=True):
        assert np.isfinite(mine).all()
        assert_allclose(mine, theirs, **both_ways(dtype))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("size", [1e-25, 1e-12, 1.0, 1e15, 1e25])
@pytest.mark.parametrize("eps", [0.0, 1e-36, 1e-5])
def test_layer_norm_of_any_size(dtype: str, size: float, eps: float) -> None:
    x, gain, bias = draw(0, dtype, (3, 70), (70,), (70,))
    plain, twin = (
        results(f, d, [(x * size).astype(dtype), gain, bias], {"eps": eps}, x)
        for f, d in (
            (OPS["layer_norm"].__wrapped__, "cpu"),
            (KERNELS["layer_norm", "cuda"].run, "cuda"),
        )
    )
    for theirs, mine in zip([plain[0], *plain[1]], [twin[0], *twin[1]], strict=True):
        scale = np.abs(theirs).max()
        assert_allclose(mine / scale, theirs / scale, **both_ways(dtype))


@given(precision, st.lists(st.integers(1, 300), min_size=1, max_size=4), seeds)
def test_add_each(dtype: str, sizes: list[int], seed: int) -> None:
    sizes = sizes * 50  # more than fit one launch, if there are three
    sums, values = (draw(s, dtype, *[(n,) for n in sizes]) for s in (seed, seed + 1))
    there = moved(sums, "cuda")
    KERNELS["add_each", "cuda"].run(get_device("cuda").xp, there, moved(values, "cuda"))
    for mine, a, b in zip(there, sums, values, strict=True):
        assert_array_equal(asnumpy(mine), a + b)


@pytest.mark.parametrize("kind", OPTIMIZERS.values())
def test_a_gradient_that_is_no_number_moves_nothing(kind: type[Optimizer]) -> None:
    shape = (3, 4)
    arrays = draw(0, "float32", *[shape] * (2 + len(kind.moments)))
    arrays[1][:] = np.nan
    there = moved(arrays, "cuda")
    run = KERNELS[kind.rule.__name__, "cuda"].run
    run(get_device("cuda").xp, *there, t=3, rate=0.1, decay=0.1, **kind.numbers)
    for mine, before in zip(there, arrays, strict=True):
        assert_array_equal(asnumpy(mine), before)


@pytest.mark.parametrize(
    ("losses", "squares", "failed"),
    [([1.0], [4.0], 0), ([1.0, 2.0], [4.0, 12.0], 0), ([1.0], [0.25], 0), ([0.0], [0.0], 0),
     ([np.nan], [4.0], 1), ([1.0], [np.inf], 1), ([1.0, np.inf], [1.0], 1)],
)  # fmt: skip
def test_clip_factor(losses: list[float], squares: list[float], failed: int) -> None:
    """What is not a number is remembered, and then there is no norm any more."""
    xp = get_device("cuda").xp
    flag = xp.zeros(1, xp.int32)

    def measure(losses: list[float], squares: list[float]) -> tuple[float, ...]:
        arrays = [[asarray(np.float32(n)[None], device="cuda")[0] for n in numbers]
                  for numbers in (losses, squares)]  # fmt: skip
        return tuple(float(n) for n in KERNELS["clip_factor", "cuda"].run(xp, *arrays, 1.5, flag))

    found = measure(losses, squares)
    assert int(flag[0]) == failed
    if failed:
        assert not np.isfinite(found[:2]).all() and np.isnan(found[2])
        loss, norm, factor = measure([1.0], [1.0])
        assert loss == 1 and np.isnan(norm) and np.isnan(factor)
    else:
        arrays = [[np.float32(n) for n in numbers] for numbers in (losses, squares)]
        assert found == pytest.approx(clip_factor(np, *arrays, 1.5, np.zeros(1)), rel=1e-6)


def test_a_target_that_does_not_exist_is_noticed_by_the_step() -> None:
    """A GPU cannot raise: the loss is no number, and clip_factor remembers that."""
    z, targets = np.zeros((2, 3), np.float32), np.array([1, 3])
    y = KERNELS["cross_entropy", "cuda"].run(get_device("cuda").xp, *moved([z, targets], "cuda"))[0]
    assert np.isnan(float(y))
