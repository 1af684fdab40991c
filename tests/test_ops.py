"""Every operation: its value, its gradient, and the rules for all operations."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import CASES, Case, cotangent_of, every_case, normal
from numpy.testing import assert_allclose, assert_array_equal

import tinyattn
from tinyattn import Tensor, gradcheck, ops
from tinyattn.backend import asarray, asnumpy
from tinyattn.op import op as make_op
from tinyattn.rng import DropoutRNG
from tinyattn.tensor import OPS

# The table of cases ------------------------------------------------------------------------


def test_every_op_has_cases() -> None:
    assert CASES.keys() == OPS.keys()


def test_every_op_is_public() -> None:
    assert OPS.keys() - {*ops.__all__} == set()
    assert {*ops.__all__} - OPS.keys() == {"split", "stack"}  # composed of other ops
    assert sorted({*ops.__all__}) == ops.__all__
    assert all(getattr(ops, name) is OPS[name] for name in OPS)


@every_case
def test_value_is_that_of_numpy(name: str, case: Case, device: str) -> None:
    y = case.call(name, case.leaves(device))
    expected = case.expected()
    assert y.shape == np.shape(expected)
    assert y.device == device
    assert_allclose(y.numpy(), expected, rtol=1e-12, atol=1e-14)


@every_case
def test_gradient_is_the_slope(name: str, case: Case, device: str) -> None:
    assert gradcheck(lambda *leaves: case.call(name, leaves), *case.leaves(device))


@every_case
def test_float32_stays_float32(name: str, case: Case, device: str) -> None:
    leaves = case.leaves(device, "float32")
    y, gradients = case.gradients(name, leaves, cotangent_of(case))
    assert {a.dtype for a in (y, *gradients)} == {np.dtype("float32")}
    assert_allclose(y, case.expected(), rtol=2e-5, atol=2e-5)


@every_case
def test_every_device_gives_the_same_values(name: str, case: Case, device: str) -> None:
    """Values and gradients; on the CPU itself a second run repeats the first."""
    u = cotangent_of(case)
    here, leaves = case.gradients(name, case.leaves(), u), case.leaves(device)
    there = case.gradients(name, leaves, u)
    for a, b in zip([there[0], *there[1]], [here[0], *here[1]], strict=True):
        assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    for leaf in leaves:
        assert (leaf.grad.shape, type(leaf.grad)) == (leaf.shape, type(leaf.data))


@every_case
def test_inputs_do_not_change(name: str, case: Case, device: str) -> None:
    leaves = case.leaves(device)
    arguments = case.with_floats([asnumpy(leaf.data).copy() for leaf in leaves])
    case.gradients(name, leaves, cotangent_of(case))
    now = case.with_floats([leaf.numpy() for leaf in leaves])
    for before, after in zip(arguments, now, strict=True):
        assert_array_equal(after, before)


@every_case
def test_order_in_memory_does_not_matter(name: str, case: Case, device: str) -> None:
    """A transposed tensor is a view whose rows are not contiguous in memory."""
    flipped = [Tensor(asnumpy(x.data).T, device=device, requires_grad=True) for x in case.leaves()]
    y = case.call(name, [x.transpose() for x in flipped])
    u = cotangent_of(case)
    y.backward(asarray(u, device=device))
    expected, gradients = case.gradients(name, case.leaves(), u)
    assert_allclose(y.numpy(), expected, rtol=1e-12, atol=1e-14)
    for x, gradient in zip(flipped, gradients, strict=True):
        assert_allclose(asnumpy(x.grad).T, gradient, rtol=1e-12, atol=1e-13)


def test_stack_is_numpys_and_split_takes_it_apart(device: str) -> None:
    a, b = (Tensor(normal(2, 3), device=device) for _ in "ab")
    for axis in (0, 1, -1):
        stacked = ops.stack([a, b], axis=axis)
        assert_array_equal(stacked.numpy(), np.stack([a.numpy(), b.numpy()], axis=axis))
        parts = ops.split(stacked, 2, axis=axis)
        assert_array_equal(parts[1].numpy(), ops.expand_dims(b, axis=axis).numpy())
    sizes = [p.shape for p in ops.split(a, [1, 0, 2], axis=1)]
    assert sizes == [(2, 1), (2, 0), (2, 2)]


# Slopes by convention, and extreme values -----------------------------------------------------


def slope(function: Callable[[Tensor], Tensor], x: Any, device: str) -> list[float]:
    leaf = Tensor(x, requires_grad=True, device=device)
    y = function(leaf)
    y.backward(asarray(np.ones(y.shape), device=device))
    return list(asnumpy(leaf.grad).ravel())


CHOSEN_SLOPES: dict[str, tuple[Callable[[Tensor], Tensor], list[float], list[float]]] = {
    "max shares a tie": (lambda x: x.max(), [2, 5, 5, 5], [0, 1 / 3, 1 / 3, 1 / 3]),
    "min shares a tie": (lambda x: x.min(), [2, 2, 5], [0.5, 0.5, 0]),
    "maximum shares a tie": (lambda x: ops.maximum(x, 1.0), [0, 1, 2], [0, 0.5, 1]),
    "minimum shares a tie": (lambda x: ops.minimum(1.0, x), [0, 1, 2], [1, 0.5, 0]),
    "clip ends where the limits are": (lambda x: x.clip(0, 1), [-1, 0, 1, 2], [0, 1, 1, 0]),
    "absolute is flat at 0": (lambda x: abs(x), [-1, 0, 1], [-1, 0, 1]),
    "relu is flat at 0": (ops.relu, [-1, 0, 1], [0, 0, 1]),
    "norm is flat at 0": (lambda x: x.norm(), [0, 0], [0, 0]),
    "std is flat where all are equal": (lambda x: x.std(), [3, 3, 3], [0, 0, 0]),
    "x⁰ is flat at 0": (lambda x: x**0, [0, 2], [0, 0]),
    "x⁰ is flat at 0, from a table": (lambda x: x ** [0, 0], [0, 2], [0, 0]),
    "0ˣ is flat": (lambda x: 0.0**x, [0, 2], [0, 0]),
    "softmax is flat far out": (lambda x: x.softmax()[0], [1e4, 0, -1e4], [0, 0, 0]),
    "log_softmax is exact far out": (lambda x: x.log_softmax()[1], [1e4, 0], [-1, 1]),
    "logsumexp is a max far out": (lambda x: x.logsumexp(), [1e4, 0, -1e4], [1, 0, 0]),
    "logsumexp of impossibilities": (lambda x: x.logsumexp(), [-math.inf, -math.inf], [0, 0]),
    "sigmoid is flat far out": (lambda x: x.sigmoid(), [-1e4, 1e4], [0, 0]),
    "tanh is flat far out": (lambda x: x.tanh(), [-1e4, 1e4], [0, 0]),
    "gelu is a switch far out": (ops.gelu, [-1e3, 1e3], [0, 1]),
    "gelu by tanh is a switch far out": (lambda x: ops.gelu(x, exact=False), [-1e3, 1e3], [0, 1]),
    "layer norm of equals": (
        lambda x: ops.layer_norm(x, [1, 1], [0, 0], eps=1.0)[0], [7, 7], [0.5, -0.5]),
    "logsumexp of equals shares, however large": (
        lambda x: x.logsumexp(), [1e16, 1e16], [0.5, 0.5]),
    "a negative power of 0 falls without end": (lambda x: 0.0**x, [-1], [-math.inf]),
}  # fmt: skip

NOT_CHOSEN: dict[str, Callable[[Tensor], Tensor]] = {
    "where": lambda x: ops.where(x > 0, x, 0.0),
    "where, the other way": lambda x: ops.where(x < 0, 0.0, x),
    "relu": ops.relu,
    "clip": lambda x: x.clip(low=0.0),
    "maximum": lambda x: ops.maximum(x, 0.0),
    "minimum": lambda x: -ops.minimum(-x, 0.0),
    "max": lambda x: ops.stack([x, x.detach() * 0.0]).max(axis=0),
    "min": lambda x: -ops.stack([-x, x.detach() * 0.0]).min(axis=0),
    "tril": lambda x: ops.tril(ops.stack([x, x]))[0],
}
"""Operations that give 0 for a negative number, which then contributes nothing, else x."""

STEEP_AT_0: dict[str, Callable[[Tensor], Tensor]] = {
    "sqrt": ops.sqrt, "log": ops.log, "a power": lambda y: y**0.25,
    "powers": lambda y: y ** [0.5, 0.5], "1/y": lambda y: 1 / y, "y⁻²": lambda y: y**-2,
    "a quotient": lambda y: [1.0, 1.0] / y, "abs": lambda y: abs(y).sqrt(),
}  # fmt: skip


@pytest.mark.parametrize("claim", CHOSEN_SLOPES)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_slope(claim: str, device: str) -> None:
    function, x, expected = CHOSEN_SLOPES[claim]
    assert_allclose(slope(function, np.array(x, float), device), expected, atol=1e-12)


@pytest.mark.parametrize("steep", STEEP_AT_0)
@pytest.mark.parametrize("choice", NOT_CHOSEN)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_what_was_not_chosen_contributes_nothing_however_steep_it_is(
    choice: str, steep: str, device: str
) -> None:
    """0·∞ would be NaN."""

    def after(x: Tensor) -> Tensor:
        return STEEP_AT_0[steep](NOT_CHOSEN[choice](x))

    expected = slope(STEEP_AT_0[steep], np.array([4.0, 4.0]), device)[0]
    assert slope(after, np.array([4.0, -9.0]), device) == [expected, 0]


STEEP_AND_UNUSED: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "sqrt": (ops.sqrt, 0.0), "log": (ops.log, 0.0), "a power": (lambda x: x**0.5, 0.0),
    "powers": (lambda x: x ** [0.5, 0.5], 0.0), "exponents": (lambda x: [0.0, 0.0] ** x, -1.0),
    "sigmoid": (ops.sigmoid, math.nan), "tanh": (ops.tanh, math.nan), "erf": (ops.erf, math.nan),
    "1/x": (lambda x: 1 / x, 0.0), "a quotient": (lambda x: x / [2.0, 0.0], 0.0),
    "norm": (lambda x: x.expand_dims(1).norm(axis=1), 0.0),
    "exp": (ops.exp, 1e4),
}  # fmt: skip


@pytest.mark.parametrize("name", STEEP_AND_UNUSED)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:overflow", "ignore:invalid value")
def test_what_is_not_used_afterwards_contributes_nothing_either(name: str, device: str) -> None:
    """A gradient of 0 stays 0 where the slope is infinite."""
    function, at = STEEP_AND_UNUSED[name]
    used = asarray(np.array([True, False]), device=device)
    found = slope(lambda x: ops.where(used, function(x), 0.0), np.array([2.0, at]), device)
    assert math.isfinite(found[0]) and found[1] == 0


# Far from 0, where few digits are left: function, x, value, slope; float32 unless given
FAR_OUT: dict[str, tuple[Callable[[Tensor], Tensor], list[float], list[float], list[float]]] = {
    "sigmoid near 0": (
        ops.sigmoid, [-12, -15, -17, -20],
        [6.144174e-06, 3.059022e-07, 4.139938e-08, 2.061154e-09],
        [6.144137e-06, 3.059021e-07, 4.139938e-08, 2.061154e-09]),
    "sigmoid near 1": (ops.sigmoid, [17, 20], [1, 1], [4.139938e-08, 2.061154e-09]),
    "log of sigmoid": (lambda x: x.sigmoid().log(), [-20, -60], [-20, -60], [1, 1]),
    "tanh near ±1": (ops.tanh, [-10, 12], [-1, 1], [8.244614e-09, 1.510054e-10]),
    "gelu": (
        ops.gelu, [-1e4, -10, -5, -3.6, 1e4],
        [0, -7.619853e-23, -1.4332579e-06, -5.727911e-04, 1e4],
        [0, -7.618400e-22, -7.146946e-06, -2.043739e-03, 1]),
    "gelu beside a NaN": (
        ops.gelu, [math.nan, -10, math.inf, -math.inf], [math.nan, -7.619853e-23, math.inf, 0],
        [math.nan, -7.618400e-22, 1, 0]),
    "gelu by tanh": (
        lambda x: ops.gelu(x, exact=False), [-3e38, -8, -5, 3e38, math.inf],
        [0, -3.107783e-21, -2.291796e-07, 3e38, math.inf],
        [0, -4.714785e-20, -1.546362e-06, 1, 1]),
    "tanh beyond the end": (ops.tanh, [-3e38, 3e38], [-1, 1], [0, 0]),
    "max beside a NaN": (lambda x: x.max(), [math.nan, 1], [math.nan], [0, 0]),
    "norm of large": (ops.norm, [3e25, 4e25], [5e25], [0.6, 0.8]),
    "norm of small": (ops.norm, [3e-25, 4e-25], [5e-25], [0.6, 0.8]),
    "norm of the smallest": (ops.norm, [1e-44, 0], [1e-44], [1, 0]),
    "std of large": (ops.std, [1e20, -1e20], [1e20], [0.5, -0.5]),
    "std of small": (ops.std, [1e-30, 3e-30], [1e-30], [-0.5, 0.5]),
    "std of large equals": (ops.std, [3e38, 3e38], [0], [0, 0]),
    "var of large": (ops.var, [1e19, 1.5e19, 1e19, 1.5e19], [6.25e36],
                     [-1.25e18, 1.25e18, -1.25e18, 1.25e18]),
    "layer norm of large": (
        lambda x: ops.layer_norm(x, [1, 1], [0, 0])[0], [1e20, -1e20], [1], [0, 0]),
    "layer norm of small": (
        lambda x: ops.layer_norm(x, [1, 1], [0, 0], eps=0.0)[0], [3e-25, -1e-25], [1], [0, 0]),
    "layer norm of what a tiny eps hides": (
        lambda x: ops.layer_norm(x, [1, 1], [0, 0], eps=1e-36)[0], [1e-38, -1e-38], [1e-20],
        [5e17, -5e17]),
    "layer norm of what eps hides": (
        lambda x: ops.layer_norm(x, [1, 1], [0, 0])[0], [1e-25, -1e-25], [3.162278e-23],
        [158.1139, -158.1139]),
    "logsumexp": (lambda x: x.logsumexp(), [1e9, 1e9], [1e9], [0.5, 0.5]),
}  # fmt: skip
FAR_OUT_IN_FLOAT64: dict[str, tuple[Callable[[Tensor], Tensor], list[float], list, list]] = {
    "gelu": (ops.gelu, [-30, -10, -5, 1e306],
             [-1.4720141781e-196, -7.6198530242e-23, -1.4332578594e-06, 1e306],
             [-4.4160316907e-195, -7.6184000965e-22, -7.1469460018e-06, 1]),
    "gelu by tanh": (lambda x: ops.gelu(x, exact=False), [-1e306, 1e306], [0, 1e306], [0, 1]),
    "norm": (ops.norm, [3e200, 4e200], [5e200], [0.6, 0.8]),
    "sigmoid": (ops.sigmoid, [-40, -700], [4.248354255e-18, 9.859676543759e-305],
                [4.248354255e-18, 9.859676543759e-305]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "name"),
    [*(("float32", n) for n in FAR_OUT), *(("float64", n) for n in FAR_OUT_IN_FLOAT64)],
)
def test_values_and_slopes_far_from_0_keep_their_digits(dtype: str, name: str, device: str) -> None:
    table = FAR_OUT if dtype == "float32" else FAR_OUT_IN_FLOAT64
    function, at, value, slopes = table[name]
    if device == "strict" and name.startswith(("gelu", "layer norm")):
        pytest.skip("the kernels keep them; the formulas are the textbook's")
    x = Tensor(at, dtype=dtype, device=device, requires_grad=True)
    y = function(x)
    y.backward(asarray(np.ones(y.shape, dtype), device=device))
    assert_allclose(np.ravel(y.numpy()), np.array(value, dtype), rtol=2e-6)
    assert_allclose(asnumpy(x.grad), np.array(slopes, dtype), rtol=5e-6, atol=1e-45)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("of", ["keys", "values", "queries"])
@pytest.mark.parametrize("how", ["allowed", "causal", "allowed, with dropout"])
@pytest.mark.parametrize("T", [5, 70])
def test_hidden_keys_and_values_may_be_nan(
    T: int, how: str, of: str, bad: float, device: str
) -> None:
    """The last three positions are hidden from the others, and their outputs are not used."""
    q, k, v, u = (np.random.default_rng(seed).normal(size=(2, T, 4)) for seed in range(4))
    u[:, -3:] = 0
    allowed = np.tri(T, dtype=bool) if how == "causal" else np.ones((T, T), bool)
    allowed[:-3, -3:] = False
    options = {"dropout": 0.3} if "dropout" in how else {}

    def run(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
        leaves = [Tensor(a, requires_grad=True, device=device) for a in (q, k, v)]
        dropout_rng = {"dropout_rng": DropoutRNG(5)} if options else {}
        mask = () if how == "causal" else (asarray(allowed, device=device),)
        y = ops.attention(*leaves, *mask, causal=how == "causal", **options, **dropout_rng)
        y.backward(asarray(u, device=device))
        return [y.numpy()[:, :-3], *(asnumpy(leaf.grad) for leaf in leaves)]

    expected = run(q, k, v)
    spoilt = {"queries": q, "keys": k, "values": v}
    spoilt[of] = spoilt[of].copy()
    spoilt[of][:, -2] = bad
    for a, b in zip(run(*spoilt.values()), expected, strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_a_query_without_allowed_keys_may_be_nan(device: str) -> None:
    q, k = (Tensor(x, requires_grad=True, device=device)
            for x in ([[-math.inf, 1.0], [1.0, 1.0]], [[1.0, 2.0], [3.0, 4.0]]))  # fmt: skip
    allowed = asarray(np.array([[False, False], [True, False]]), device=device)
    y = ops.attention(q, k, Tensor([[5.0], [7.0]], device=device), allowed)
    y.backward(asarray(np.ones((2, 1)), device=device))
    assert_array_equal(y.numpy(), [[0], [5]])
    for leaf in (q, k):
        assert_array_equal(asnumpy(leaf.grad), np.zeros((2, 2)))


def test_hidden_keys_may_be_more_than_there_are_queries(device: str) -> None:
    """The last query is at the position of the last key, also where values are not finite."""
    q, k, v = (Tensor(normal(2, n, 3), device=device) for n in (4, 9, 9))
    spoilt = v.numpy()
    spoilt[:, 7] = math.inf
    y, expected = (ops.attention(q, k, w, causal=True).numpy()
                   for w in (Tensor(spoilt, device=device), v))  # fmt: skip
    assert_allclose(y[:, :2], expected[:, :2], rtol=1e-12)
    assert (y[:, 2:] == math.inf).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_softmax_and_cross_entropy_ignore_may_be_nan(bad: float, device: str) -> None:
    z = Tensor([1.0, bad, 2.0], requires_grad=True, device=device)
    ops.softmax(z, asarray(np.array([True, False, True]), device=device)).backward(
        asarray(np.array([1.0, bad, 3.0]), device=device)
    )
    p = 1 / (1 + math.e)
    assert_allclose(asnumpy(z.grad), [-2 * p * (1 - p), 0, 2 * p * (1 - p)], rtol=1e-12)
    z = Tensor([[0.0, 0.0], [bad, 1.0]], requires_grad=True, device=device)
    loss = ops.cross_entropy(z, asarray(np.array([0, -1]), device=device), ignore=-1)
    loss.backward()
    assert_allclose(loss.item(), math.log(2))
    assert_array_equal(asnumpy(z.grad), [[-0.5, 0.5], [0, 0]])


def test_the_loss_of_impossible_classes_is_infinite_and_others_stay_exact(device: str) -> None:
    z = Tensor([-math.inf, 0.0, 0.0], device=device)
    assert_array_equal(z.softmax().numpy(), [0, 0.5, 0.5])
    assert_allclose(z.log_softmax().numpy(), [-math.inf, -math.log(2), -math.log(2)])
    assert_allclose(ops.cross_entropy(z, asarray(np.array(1), device=device)).item(), math.log(2))


def test_cross_entropy_of_nothing_is_zero(device: str) -> None:
    z = Tensor(normal(2, 3), requires_grad=True, device=device)
    loss = ops.cross_entropy(z, asarray(np.array([-1, -1]), device=device), ignore=-1)
    loss.backward()
    assert loss.item() == 0
    assert_array_equal(asnumpy(z.grad), np.zeros((2, 3)))


# Dtypes, devices and plain operands ------------------------------------------------------------


@pytest.mark.parametrize("number", [2, 2.0, True, np.float64(2), np.int64(2), np.array([1.0, 2.0])])
def test_plain_operands_get_the_dtype_of_the_tensor(number: Any) -> None:
    x = Tensor([1.0, 2.0], dtype="float32")
    for y in (x + number, number - x, x * number, number / x, x**number, ops.maximum(number, x)):
        assert y.dtype == np.float32
    options = [x.clip(np.float64(1)), ops.pad(x, np.int64(1), value=np.float64(1))]
    assert [y.dtype for y in options] == [np.float32, np.float32]


def test_an_op_converts_plain_numbers_to_a_tensor() -> None:
    assert_array_equal(ops.add([1, 2], 3).numpy(), [4, 5])
    assert ops.exp(0).item() == 1


def test_a_tensor_takes_over_the_operators_of_arrays() -> None:
    x = Tensor([2.0, 4.0])
    for y in (np.ones(2) + x, np.ones(2) / x, np.ones((3, 2)) @ x):
        assert isinstance(y, Tensor)


def test_operators_are_ops() -> None:
    a, b = Tensor(np.array([[1.0, 2], [3, 4]])), Tensor(np.array([[5.0, 6], [7, 8]]))
    pairs = [(a + b, ops.add), (a - b, ops.subtract), (a * b, ops.multiply), (a / b, ops.divide),
             (a**b, ops.power), (a @ b, ops.matmul)]  # fmt: skip
    for y, op in pairs:
        assert_array_equal(y.numpy(), op(a, b).numpy())
    assert_array_equal((-a).numpy(), ops.negative(a).numpy())
    assert_array_equal(a.T.numpy(), ops.transpose(a).numpy())
    assert_array_equal(a.reshape(4, 1).numpy(), ops.reshape(a, (4, 1)).numpy())
    assert_array_equal((a > 2).astype(float), [[0, 0], [1, 1]])


def test_data_may_change_after_the_op() -> None:
    """The ids of all batches are often written to one array; the graph needs those of its batch."""
    ids, index, wanted = np.array([0, 1]), np.array([1, 1]), np.array([True, False])
    weight = Tensor(np.ones((3, 1)), requires_grad=True)
    y = ops.embedding(weight, ids) + weight[index] + ops.where(wanted[:, None], weight[:2], 0.0)
    ids[:], index[:], wanted[:] = 2, 2, False
    y.backward(np.ones((2, 1)))
    assert_array_equal(weight.grad, [[2], [3], [0]])


def test_einsum_takes_the_equation_first_as_numpy_does() -> None:
    a, b = normal(2, 3), normal(3, 4)
    assert_allclose(ops.einsum("ij,jk->ik", a, b).numpy(), a @ b)


# Errors ----------------------------------------------------------------------------------------

M = np.arange(6.0).reshape(2, 3)
Mistake = Callable[[Any], Any]  # takes x, the matrix M as a tensor

MISTAKES: dict[str, tuple[type[Exception], Mistake]] = {
    r"add: .*broadcast.*\(2, 3\) and \(2, 2\)": (ValueError, lambda x: x + x[:, :2]),
    r"add: argument 'b' is missing": (TypeError, lambda x: ops.add(x)),
    r"exp: takes 1 arrays": (TypeError, lambda x: ops.exp(x, 1)),
    r"exp: unexpected argument 'base'; there are x": (TypeError, lambda x: ops.exp(x, base=2)),
    r"softmax: unexpected argument 'dim'; did you mean 'axis'": (
        TypeError, lambda x: ops.softmax(x, dim=-1)),
    r"sum: unexpected argument 'keepdim'; did you mean 'keepdims'": (
        TypeError, lambda x: x.sum(axis=0, keepdim=True)),
    r"dropout: unexpected argument 'p'; did you mean 'rate'": (
        TypeError, lambda x: ops.dropout(x, p=0.5, dropout_rng=None)),
    r"embedding: unexpected argument 'weights'; did you mean 'weight'": (
        TypeError, lambda x: ops.embedding(weights=x, ids=[0])),
    r"clip: low is an option, which has no gradient; got a Tensor": (
        TypeError, lambda x: x.clip(low=Tensor(0.5))),
    r"clip: limits must be numbers; got ndarray; use maximum": (
        TypeError, lambda x: x.clip(low=np.array([0.5, 1.0, 1.0]))),
    r"pad: value must be a number": (TypeError, lambda x: ops.pad(x, 1, value=np.ones(2))),
    r"einsum: needs arrays; got \(2, 3\) and 2.0": (
        TypeError, lambda x: ops.einsum("ij,->ij", x, 2.0)),
    r"concatenate: .*\(2, 3\) and 1.0": (ValueError, lambda x: ops.concatenate([x, 1.0])),
    r"multiply: operands must be real": (TypeError, lambda x: x * [1j, 1, 1]),
    r"add: tensors must share one dtype": (TypeError, lambda x: x + x.astype("float32")),
    r"matmul: inner sizes.*3 != 2; did you mean b.swapaxes": (ValueError, lambda x: x @ x),
    r"matmul: the right operand is a number": (ValueError, lambda x: x @ 2),
    r"linear: weight must be \(3, any\)": (ValueError, lambda x: ops.linear(x, x)),
    r"linear: bias must be \(2,\)": (ValueError, lambda x: ops.linear(x, x.T, x)),
    r"layer_norm: gain and bias must be \(3,\)": (
        ValueError, lambda x: ops.layer_norm(x, x[0], x[0, :2])),
    r"layer_norm: gain and bias must be \(3,\).*got NoneType and NoneType; .* ones and zeros": (
        ValueError, lambda x: ops.layer_norm(x, None, None)),
    r"layer_norm: x must be \(..., C\) with C at least 1": (
        ValueError, lambda x: ops.layer_norm(x[:, :0], x[0, :0], x[0, :0])),
    r"einsum: .* is for 2 operands; got 1": (ValueError, lambda x: ops.einsum("i,j", x)),
    r"einsum: 'i' names 1 axes": (ValueError, lambda x: ops.einsum("i->", x)),
    r"einsum: axis 'j' has sizes": (ValueError, lambda x: ops.einsum("ij,ij->j", x, x[:, :2])),
    r"concatenate: needs at least one": (ValueError, lambda x: ops.concatenate([])),
    r"concatenate: .*must match": (ValueError, lambda x: ops.concatenate([x, x[:, :2]])),
    r"split: sizes must add up to 3": (ValueError, lambda x: ops.split(x, [1, 1], axis=1)),
    r"split: sizes must add up to 2,.* 3 equal parts do not; give a list of sizes": (
        ValueError, lambda x: ops.split(x, 3)),
    r"split: sizes must be whole numbers; got \[1.0, 1.0\]": (
        TypeError, lambda x: ops.split(x, [1.0, 1.0])),
    r"stack: needs at least one tensor": (ValueError, lambda x: ops.stack([])),
    r"stack: .*must match": (ValueError, lambda x: ops.stack([x, x[:, :2]])),
    r"stack: axis 5 is out of bounds": (ValueError, lambda x: ops.stack([x, x], axis=5)),
    r"cumsum: axis must be one whole number, or None": (
        TypeError, lambda x: x.cumsum(axis=(0, 1))),
    r"mean: np.mean would lose the gradient of a Tensor x: write ops.mean\(x\)": (
        TypeError, lambda x: np.mean(x)),
    r"take: indices must be indices; got 18446744073709551615": (
        IndexError, lambda x: ops.take(x, np.array([2**64 - 1], np.uint64))),
    r"getitem: index 18446744073709551615 is out of bounds": (
        IndexError, lambda x: x[np.array([2**64 - 1], np.uint64)]),
    r"split: axis 2 is out of bounds": (ValueError, lambda x: ops.split(x, 3, axis=2)),
    r"reshape: .*\(2, 3\)": (ValueError, lambda x: x.reshape(4, 2)),
    r"transpose: axis 2 is out of bounds": (ValueError, lambda x: x.transpose(0, 2)),
    r"squeeze: ": (ValueError, lambda x: x.squeeze(axis=0)),
    r"broadcast_to: ": (ValueError, lambda x: x.broadcast_to((3, 2))),
    r"sum: axis 2 is out of bounds": (ValueError, lambda x: x.sum(axis=2)),
    r"mean: axis 2 is out of bounds for the 2 axes of shape \(2, 3\)": (
        ValueError, lambda x: x.mean(axis=2)),
    r"max: axis -3 is out of bounds": (ValueError, lambda x: x.max(axis=(0, -3))),
    r"var: axis 5 is out of bounds": (ValueError, lambda x: x.var(axis=5)),
    r"logsumexp: axis 2 is out of bounds": (ValueError, lambda x: x.logsumexp(axis=2)),
    r"cumsum: axis 2 is out of bounds": (ValueError, lambda x: x.cumsum(axis=2)),
    r"std: an axis is named twice in \(0, -2\)": (ValueError, lambda x: x.std(axis=(0, -2))),
    r"norm: axis must be None, a whole number or a tuple; got 0.5": (
        TypeError, lambda x: x.norm(axis=0.5)),
    r"mean: needs at least one": (ValueError, lambda x: x[:0].mean()),
    r"max: needs at least one": (ValueError, lambda x: x[:0].max(axis=0)),
    r"min: needs at least one": (ValueError, lambda x: x[:0].min(axis=0)),
    r"var: needs at least one": (ValueError, lambda x: x[:0].var()),
    r"std: needs at least one": (ValueError, lambda x: x[:0].std()),
    r"logsumexp: needs at least one": (ValueError, lambda x: x[:, :0].logsumexp()),
    r"softmax: ": (ValueError, lambda x: x[:, :0].softmax()),
    r"log_softmax: ": (ValueError, lambda x: x[:, :0].log_softmax()),
    r"softmax: allowed must be boolean": (TypeError, lambda x: ops.softmax(x, [1, 0, 1])),
    r"softmax: allowed must broadcast to x \(2, 3\); got \(4, 1, 1\)": (
        ValueError, lambda x: ops.softmax(x, np.ones((4, 1, 1), bool))),
    r"where: condition must be boolean": (TypeError, lambda x: ops.where([1, 0, 1], x, 0.0)),
    r"clip: low must not be above high": (ValueError, lambda x: x.clip(1, 0)),
    r"getitem: ": (IndexError, lambda x: x[2]),
    r"getitem: .*out of bounds": (IndexError, lambda x: x[[0, 2]]),
    r"getitem: too many": (IndexError, lambda x: x[0, 0, 0]),
    r"take: index 2": (IndexError, lambda x: ops.take(x, np.array([2]))),
    r"take: axis 2 is out of bounds": (ValueError, lambda x: ops.take(x, [0], axis=2)),
    r"gather: indices must have x's shape": (ValueError, lambda x: ops.gather(x, [[0]])),
    r"gather: index 3": (IndexError, lambda x: ops.gather(x, [[0], [3]])),
    r"gather: axis 2 is out of bounds": (ValueError, lambda x: ops.gather(x, [[0]], axis=2)),
    r"scatter_add: values must have the shape": (
        ValueError, lambda x: ops.scatter_add(x, [[0], [1]], x)),
    r"embedding: ids must be integers": (TypeError, lambda x: ops.embedding(x, [0.5])),
    r"embedding: ids must be integers; got bool": (
        TypeError, lambda x: ops.embedding(x, [True, False])),
    r"take: indices must be integers; got bool": (
        TypeError, lambda x: ops.take(x, np.array([True, True]))),
    r"gather: indices must be integers; got bool": (
        TypeError, lambda x: ops.gather(x, np.ones((2, 3), bool))),
    r"scatter_add: indices must be integers; got bool": (
        TypeError, lambda x: ops.scatter_add(x, np.ones((2, 3), bool), x)),
    r"cross_entropy: targets must be integers; got bool": (
        TypeError, lambda x: ops.cross_entropy(x, np.ones(2, bool))),
    r"embedding: weight must be \(V, C\), .*got \(3,\)": (
        ValueError, lambda x: ops.embedding(x[0], [0])),
    r"embedding: weight must be \(V, C\), .*got \(1, 2, 3\)": (
        ValueError, lambda x: ops.embedding(x.expand_dims(0), [0])),
    r"embedding: ids must lie in 0..1; got -1..0": (
        IndexError, lambda x: ops.embedding(x, [0, -1])),
    r"rotate: cos must be an array on x's device; got tuple": (
        TypeError, lambda x: ops.rotate(x[:, :2], cos=[[1.0], [1.0]], sin=[[0.0], [0.0]])),
    r"rotate: .*got x \(2, 3\)": (ValueError, lambda x: ops.rotate(x, x[:, 0].data, x[:, 0].data)),
    r"cross_entropy: targets must have shape \(2,\)": (
        ValueError, lambda x: ops.cross_entropy(x, [0])),
    r"cross_entropy: targets must lie in 0..2; got 0..3": (
        IndexError, lambda x: ops.cross_entropy(x, [0, 3])),
    r"dropout: rate must be at least 0 and at most 255/256": (
        ValueError, lambda x: ops.dropout(x, rate=1.0, dropout_rng=DropoutRNG(0))),
    r"attention: q and k must have equal widths": (
        ValueError, lambda x: ops.attention(x, x[:, :2], x)),
    r"attention: the axes of .* must broadcast; got \(2, 1, 3\), \(5, 1, 3\)": (
        ValueError, lambda x: ops.attention(*[Tensor(np.ones((n, 1, 3))) for n in (2, 5, 1)]),
    ),
    r"attention: each key needs one value": (ValueError, lambda x: ops.attention(x, x, x[:1])),
    r"attention: q, k and v must be": (ValueError, lambda x: ops.attention(x, x, x[0])),
    r"attention: allowed must be boolean": (
        TypeError, lambda x: ops.attention(x, x, x, np.ones((2, 2)))),
    r"cannot be assigned to in place": (TypeError, lambda x: x.__setitem__(0, 1.0)),
}  # fmt: skip


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_raises_an_error(message: str) -> None:
    error, mistake = MISTAKES[message]
    with pytest.raises(error, match=message):
        mistake(Tensor(M))


def test_an_op_without_a_gradient_raises_an_error_that_names_what_to_return(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tinyattn.op.OPS", dict(OPS))

    def twice(xp: Any, x: Any) -> Any:
        return x * 2

    def pair(xp: Any, a: Any, b: Any) -> Any:
        return a + b, (lambda g: g,)

    def bare(xp: Any, x: Any) -> Any:
        return x * 2, lambda g: g * 2

    def crooked(xp: Any, x: Any) -> Any:
        return x * 2, (lambda g: g.sum() * x[0],)

    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match=r"twice: an op returns its value and its vjp"):
        make_op(twice)(x)
    with pytest.raises(TypeError, match=r"pair: an op returns .* a tuple of 2 functions of g"):
        make_op(pair)(x, x)
    with pytest.raises(TypeError, match=r"bare: its vjp must return 1 gradients in a tuple"):
        make_op(bare)(x).sum().backward()
    with pytest.raises(RuntimeError, match=r"crooked: .* shape \(\) for an input of shape \(2,\)"):
        make_op(crooked)(x).sum().backward()


def test_a_users_function_may_have_the_name_of_a_formula(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is not replaced by the package's kernel, and does not replace the package's formula."""
    monkeypatch.setattr("tinyattn.op.OPS", dict(OPS))

    def gelu(xp: Any, x: Any) -> Any:
        return x * 1000, (lambda g: g * 1000,)

    x = Tensor([1.0, 2.0])
    ours = ops.gelu(x).numpy()
    assert make_op(gelu)(x).numpy().tolist() == [1000.0, 2000.0]
    assert_array_equal(ops.gelu(x, exact=True).numpy(), ours)
    with tinyattn.formulas("gelu"):
        assert_allclose(ops.gelu(x).numpy(), ours, rtol=1e-15)
        assert make_op(gelu)(x).numpy().tolist() == [1000.0, 2000.0]


@pytest.mark.parametrize("scale", [1.0, 1e-30])
def test_options_do_not_widen(scale: float) -> None:
    """NumPy scalars and arrays without axes are treated as Python numbers."""
    x = Tensor(np.array([[1.0, 2.0]]) * scale, dtype="float32", requires_grad=True)
    half, one = np.array(0.5), np.float64(1)
    for y in (
        x.clip(low=half), x.clip(high=half), ops.pad(x, np.array(1), value=half),
        ops.attention(x, x, x, scale=half), ops.layer_norm(x, [1, 1], [0, 0], eps=half),
        ops.cross_entropy(x, [0], divisor=half),
        ops.dropout(x, rate=half, dropout_rng=DropoutRNG(0)),
        x.clip(half, one), x.sum(axis=np.array(0)),
    ):  # fmt: skip
        x.zero_grad()
        y.backward(np.ones(y.shape, np.float32))
        assert (y.dtype, x.grad.dtype) == (np.float32, np.float32)


def test_axes_and_shapes_may_be_lists_and_arrays() -> None:
    x = Tensor(np.arange(6.0).reshape(1, 2, 3), requires_grad=True)
    for axes in ([2, 0], np.array([2, 0]), (np.int64(2), np.int8(0))):
        assert_array_equal(x.sum(axis=axes).numpy(), [3, 12])
    for y in (x.reshape(np.array([3, 2])), x.broadcast_to(np.array([4, 2, 3])), x[np.int64(0)],
              x.swapaxes(np.int64(0), np.int64(1)), x.expand_dims(np.int64(0)),
              x.transpose(np.array([2, 0, 1])), x.squeeze(np.int64(0)), x[[]], x[np.array([])],
              ops.take(x, []), ops.concatenate([x, x], axis=np.int64(1)), ops.flip(x, [0, 1]),
              *ops.split(x, np.int64(3), axis=np.int64(2)),
              *ops.split(x, np.array([1, 2]), axis=2)):  # fmt: skip
        x.zero_grad()
        y.backward(np.ones(y.shape))
        assert x.grad.shape == x.shape and x.grad.sum() == y.size


def test_devices_do_not_mix() -> None:
    there = Tensor(M, device="strict")
    for mistake in (lambda: there + Tensor(M), lambda: Tensor(M) @ there.T, lambda: there * M):
        with pytest.raises(TypeError, match=r"\.to\(device\)"):
            mistake()


def test_indices_from_the_host_are_checked_before_a_device_uses_them() -> None:
    for index in (2, [0, 2], (slice(None), np.array([3])), np.array([0, -3])):
        with pytest.raises(IndexError, match="out of bounds"):
            Tensor(M, device="strict")[index]
