"""Every operation: the right value, the right gradient, and the rules of the house."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import CASES, Case, cotangent_of, every_case, normal
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor, backend, gradcheck, ops
from tinyattn.backend import asarray, asnumpy
from tinyattn.noise import Noise
from tinyattn.tensor import OPS

# The table of cases ------------------------------------------------------------------------


def test_every_op_has_cases() -> None:
    assert CASES.keys() == OPS.keys()


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
def test_every_device_gives_the_same_numbers(name: str, case: Case, device: str) -> None:
    """Values and gradients; on the CPU itself this says that a second run repeats the first."""
    u = cotangent_of(case)
    here, leaves = case.gradients(name, case.leaves(), u), case.leaves(device)
    there = case.gradients(name, leaves, u)
    for a, b in zip([there[0], *there[1]], [here[0], *here[1]], strict=True):
        assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    for leaf in leaves:
        assert (leaf.grad.shape, type(leaf.grad)) == (leaf.shape, type(leaf.data))


@every_case
def test_inputs_are_left_alone(name: str, case: Case, device: str) -> None:
    leaves = case.leaves(device)
    arguments = case.with_floats([asnumpy(leaf.data).copy() for leaf in leaves])
    case.gradients(name, leaves, cotangent_of(case))
    now = case.with_floats([leaf.numpy() for leaf in leaves])
    for before, after in zip(arguments, now, strict=True):
        assert_array_equal(after, before)


@every_case
def test_order_in_memory_does_not_matter(name: str, case: Case, device: str) -> None:
    """A transposed tensor is a view whose rows are not next to one another in memory."""
    turned = [Tensor(asnumpy(x.data).T, device=device, requires_grad=True) for x in case.leaves()]
    y = case.call(name, [x.transpose() for x in turned])
    u = cotangent_of(case)
    y.backward(asarray(u, device=device))
    expected, gradients = case.gradients(name, case.leaves(), u)
    assert_allclose(y.numpy(), expected, rtol=1e-12, atol=1e-14)
    for x, gradient in zip(turned, gradients, strict=True):
        assert_allclose(asnumpy(x.grad).T, gradient, rtol=1e-12, atol=1e-13)


@every_case
def test_tiles_do_not_show(name: str, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = case.gradients(name, case.leaves(), cotangent_of(case))
    monkeypatch.setattr(backend, "TILE", 4)  # several tiles even for the small arrays here
    tiled = case.gradients(name, case.leaves(), cotangent_of(case))
    for a, b in zip([whole[0], *whole[1]], [tiled[0], *tiled[1]], strict=True):
        assert_allclose(b, a, rtol=1e-12, atol=1e-14)


def test_stack_is_numpys_and_split_takes_it_apart(device: str) -> None:
    a, b = (Tensor(normal(2, 3), device=device) for _ in "ab")
    for axis in (0, 1, -1):
        stacked = ops.stack([a, b], axis=axis)
        assert_array_equal(stacked.numpy(), np.stack([a.numpy(), b.numpy()], axis=axis))
        parts = ops.split(stacked, 2, axis=axis)
        assert_array_equal(parts[1].numpy(), ops.expand_dims(b, axis=axis).numpy())
    sizes = [p.shape for p in ops.split(a, [1, 0, 2], axis=1)]
    assert sizes == [(2, 1), (2, 0), (2, 2)]


# Where slopes are a matter of choice, and numbers are extreme ---------------------------------


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
}  # fmt: skip


@pytest.mark.parametrize("claim", CHOSEN_SLOPES)
def test_slope(claim: str, device: str) -> None:
    function, x, expected = CHOSEN_SLOPES[claim]
    assert_allclose(slope(function, np.array(x, float), device), expected, atol=1e-12)


def test_impossible_classes_cost_infinitely_many_nats_and_others_stay_exact(device: str) -> None:
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


# Precision, places and plain operands ----------------------------------------------------------


@pytest.mark.parametrize("number", [2, 2.0, True, np.float64(2), np.int64(2), np.array([1.0, 2.0])])
def test_plain_operands_adopt_the_precision(number: Any) -> None:
    x = Tensor([1.0, 2.0], dtype="float32")
    for y in (x + number, number - x, x * number, number / x, x**number, ops.maximum(number, x)):
        assert y.dtype == np.float32
    options = [x.clip(np.float64(1)), ops.pad(x, np.int64(1), value=np.float64(1))]
    assert [y.dtype for y in options] == [np.float32, np.float32]


def test_an_op_turns_plain_numbers_into_a_tensor() -> None:
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


def test_data_may_be_changed_after_the_op_has_read_it() -> None:
    """A batch's ids are often written into one array; the graph must not see the next batch."""
    ids, index, wanted = np.array([0, 1]), np.array([1, 1]), np.array([True, False])
    weight = Tensor(np.ones((3, 1)), requires_grad=True)
    y = ops.embedding(weight, ids) + weight[index] + ops.where(wanted[:, None], weight[:2], 0.0)
    ids[:], index[:], wanted[:] = 2, 2, False
    y.backward(np.ones((2, 1)))
    assert_array_equal(weight.grad, [[2], [3], [0]])


def test_einsum_takes_the_equation_first_as_numpy_does() -> None:
    a, b = normal(2, 3), normal(3, 4)
    assert_allclose(ops.einsum("ij,jk->ik", a, b).numpy(), a @ b)


# Mistakes that are told ------------------------------------------------------------------------

M = np.arange(6.0).reshape(2, 3)
Mistake = Callable[[Any], Any]  # takes x, the matrix M as a tensor

MISTAKES: dict[str, tuple[type[Exception], Mistake]] = {
    r"add: .*broadcast.*\(2, 3\) and \(2, 2\)": (ValueError, lambda x: x + x[:, :2]),
    r"add: argument 'b' is missing": (TypeError, lambda x: ops.add(x)),
    r"exp: takes 1 arrays": (TypeError, lambda x: ops.exp(x, 1)),
    r"exp: .*unexpected.*'base'": (TypeError, lambda x: ops.exp(x, base=2)),
    r"multiply: operands must be real": (TypeError, lambda x: x * [1j, 1, 1]),
    r"add: tensors must share one precision": (TypeError, lambda x: x + x.astype("float32")),
    r"matmul: inner sizes.*3 != 2; did you mean b.swapaxes": (ValueError, lambda x: x @ x),
    r"matmul: the right operand is a number": (ValueError, lambda x: x @ 2),
    r"linear: weight must be \(3, any\)": (ValueError, lambda x: ops.linear(x, x)),
    r"linear: bias must be \(2,\)": (ValueError, lambda x: ops.linear(x, x.T, x)),
    r"layer_norm: gain and bias must be \(3,\)": (
        ValueError, lambda x: ops.layer_norm(x, x[0], x[0, :2])),
    r"einsum: .* is for 2 operands; got 1": (ValueError, lambda x: ops.einsum("i,j", x)),
    r"einsum: 'i' names 1 axes": (ValueError, lambda x: ops.einsum("i->", x)),
    r"einsum: axis 'j' has sizes": (ValueError, lambda x: ops.einsum("ij,ij->j", x, x[:, :2])),
    r"concatenate: needs at least one": (ValueError, lambda x: ops.concatenate([])),
    r"concatenate: .*must match": (ValueError, lambda x: ops.concatenate([x, x[:, :2]])),
    r"split: sizes must add up to 3": (ValueError, lambda x: ops.split(x, [1, 1], axis=1)),
    r"split: sizes must add up to 2,": (ValueError, lambda x: ops.split(x, 3)),
    r"reshape: .*\(2, 3\)": (ValueError, lambda x: x.reshape(4, 2)),
    r"transpose: axis 2 is out of bounds": (ValueError, lambda x: x.transpose(0, 2)),
    r"squeeze: ": (ValueError, lambda x: x.squeeze(axis=0)),
    r"broadcast_to: ": (ValueError, lambda x: x.broadcast_to((3, 2))),
    r"sum: axis 2 is out of bounds": (ValueError, lambda x: x.sum(axis=2)),
    r"mean: needs at least one": (ValueError, lambda x: x[:0].mean()),
    r"max: needs at least one": (ValueError, lambda x: x[:0].max(axis=0)),
    r"min: needs at least one": (ValueError, lambda x: x[:0].min(axis=0)),
    r"var: needs at least one": (ValueError, lambda x: x[:0].var()),
    r"std: needs at least one": (ValueError, lambda x: x[:0].std()),
    r"logsumexp: needs at least one": (ValueError, lambda x: x[:, :0].logsumexp()),
    r"softmax: ": (ValueError, lambda x: x[:, :0].softmax()),
    r"log_softmax: ": (ValueError, lambda x: x[:, :0].log_softmax()),
    r"softmax: allowed must be boolean": (TypeError, lambda x: ops.softmax(x, [1, 0, 1])),
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
    r"embedding: ids must lie in 0..1; got -1..0": (
        IndexError, lambda x: ops.embedding(x, [0, -1])),
    r"rotate: .*got x \(2, 3\)": (ValueError, lambda x: ops.rotate(x, x[:, 0].data, x[:, 0].data)),
    r"cross_entropy: targets must have shape \(2,\)": (
        ValueError, lambda x: ops.cross_entropy(x, [0])),
    r"cross_entropy: targets must lie in 0..2; got 0..3": (
        IndexError, lambda x: ops.cross_entropy(x, [0, 3])),
    r"dropout: rate must be at least 0 and at most 255/256": (
        ValueError, lambda x: ops.dropout(x, rate=1.0, noise=Noise(0))),
    r"attention: q and k must be equally wide": (
        ValueError, lambda x: ops.attention(x, x[:, :2], x)),
    r"attention: the axes before .* equal in q, k and v, or 1; got \(2, 1, 3\), \(5, 1, 3\)": (
        ValueError, lambda x: ops.attention(*[Tensor(np.ones((n, 1, 3))) for n in (2, 5, 1)]),
    ),
    r"attention: each key needs one value": (ValueError, lambda x: ops.attention(x, x, x[:1])),
    r"attention: q, k and v must be": (ValueError, lambda x: ops.attention(x, x, x[0])),
    r"attention: allowed must be boolean": (
        TypeError, lambda x: ops.attention(x, x, x, np.ones((2, 2)))),
    r"cannot be assigned to in place": (TypeError, lambda x: x.__setitem__(0, 1.0)),
}  # fmt: skip


@pytest.mark.parametrize("message", MISTAKES)
def test_mistake_is_told(message: str) -> None:
    error, mistake = MISTAKES[message]
    with pytest.raises(error, match=message):
        mistake(Tensor(M))


def test_devices_do_not_mix() -> None:
    there = Tensor(M, device="strict")
    for mistake in (lambda: there + Tensor(M), lambda: Tensor(M) @ there.T, lambda: there * M):
        with pytest.raises(TypeError, match=r"\.to\(device\)"):
            mistake()


def test_indices_from_the_host_are_checked_before_a_device_reads_out_of_range() -> None:
    for index in (2, [0, 2], (slice(None), np.array([3])), np.array([0, -3])):
        with pytest.raises(IndexError, match="out of bounds"):
            Tensor(M, device="strict")[index]
