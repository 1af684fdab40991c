"""Reports about indices that repeat, and about operands whose shapes differ."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyattn import Tensor, ops
from tinyattn.backend import asarray, asnumpy
from tinyattn.nn import Embedding


def leaf(values: Any, device: str = "cpu", dtype: Any = np.float64) -> Tensor:
    return Tensor(np.array(values, dtype), requires_grad=True, device=device)


def close(actual: Any, expected: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(asnumpy(actual), expected, rtol=0, atol=tolerance)


def from_one(shape: tuple[int, ...]) -> np.ndarray:
    """1, 2, 3, ... in a shape."""
    return np.arange(1.0, np.prod(shape, dtype=int) + 1).reshape(shape)


def added_one_by_one(shape: tuple[int, ...], index: Any, g: np.ndarray) -> np.ndarray:
    """The gradient of x[index] by a slow loop over all elements of the index."""
    places = np.arange(np.prod(shape, dtype=int)).reshape(shape)[index].ravel()
    out = np.zeros(shape)
    for place, value in zip(places, g.ravel(), strict=True):
        out.ravel()[place] += value
    return out


# repeated indices -----------------------------------------------------------------------

IDS = [3, 1, 3, 3, -1]
UPSTREAM = np.arange(10.0).reshape(5, 2)
SUMMED = [[0, 0], [2, 3], [0, 0], [18, 22]]  # a plain += leaves [8, 9] in the last row


def test_an_element_indexed_twice_receives_both_gradients(device: str) -> None:
    """HIPS/autograd#39."""
    x = leaf([1.0], device)
    x[[0, 0]].sum().backward()
    close(x.grad, [2])


LOOKUPS: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "list": lambda w, ids: w[list(IDS)],
    "host array": lambda w, ids: w[np.array(IDS)],
    "device array": lambda w, ids: w[ids],
    "with a slice": lambda w, ids: w[ids, :],
    "with dots": lambda w, ids: w[ids, ...],
    "two arrays": lambda w, ids: w[ids[:, None], asarray(np.array([[0, 1]]), device=w.device)],
    "take": lambda w, ids: ops.take(w, ids),
    "take along the last axis": lambda w, ids: ops.take(w.T, ids, axis=-1).T,
    "method take": lambda w, ids: w.take(ids, axis=0),
    "gather": lambda w, ids: w.gather(_wide(w, ids), axis=0),
    "gather along the last axis": lambda w, ids: w.T.gather(_wide(w, ids).T, axis=-1).T,
}


def _wide(w: Tensor, ids: Any) -> Any:
    """The ids once for each column, as gather wants them."""
    return ids[:, None] + asarray(np.array([[0, 0]]), device=w.device)


@pytest.mark.parametrize("name", LOOKUPS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_row_indexed_by_many_ids_receives_the_sum(name: str, dtype: Any, device: str) -> None:
    """HIPS/autograd#743, chainer/chainer#1920, cupy/cupy#1658: -1 names row 3 too."""
    table = leaf(np.zeros((4, 2)), device, dtype)
    y = LOOKUPS[name](table, asarray(np.array(IDS), device=device))
    assert y.shape == (5, 2)
    y.backward(UPSTREAM)
    close(table.grad, SUMMED)
    assert table.grad.dtype == dtype


def test_the_embedding_layer_sums_gradients_and_refuses_negative_ids(device: str) -> None:
    """For an embedding table -1 is a mistake, not the last row."""
    layer = Embedding(4, 2, rng=np.random.default_rng(0))
    layer.to(device)
    ids = asarray(np.array([3, 1, 3, 3, 3]), device=device)
    layer(ids).backward(UPSTREAM)
    close(layer.weight.grad, SUMMED)
    for wrong in ([0, -1], [4], [[0, 99]]):
        with pytest.raises(IndexError, match=r"embedding: ids must lie in 0\.\.3"):
            ops.embedding(Tensor(np.zeros((4, 2))), np.array(wrong))
    with pytest.raises(TypeError, match="integers"):
        ops.embedding(Tensor(np.zeros((4, 2))), np.array([0.0, 1.0]))


INDICES: dict[str, Any] = {
    "one array": np.array([2, 0, 2, 2]),
    "two-dimensional array": np.array([[0, 0], [1, 0]]),
    "small integers": np.array([1, 1, 1], np.int8),
    "unsigned integers": np.array([1, 1, 1], np.uint8),
    "negative and positive": np.array([-1, 2, -3, 0]),
    "arrays for two axes": (np.array([0, 0, 2]), np.array([1, 1, 3])),
    "arrays that broadcast": (np.array([[0], [2]]), np.array([3, 3, 0])),
    "array after a slice": (slice(None), np.array([3, 3, 0])),
    "array before a slice": (np.array([1, 1]), slice(1, 3)),
    "arrays around a slice": (np.array([0, 0]), slice(None), np.array([1, 1])),
    "array after dots": (..., np.array([1, 1, 0])),
    "array and integer": (1, np.array([0, 0])),
    "array and new axis": (None, np.array([0, 0, 1])),
    "array of shape ()": np.array(1),
    "empty array": np.array([], np.int64),
    "empty list": [],
    "nested list": [[0, 0], [2, 0]],
    "mask of an axis": np.array([True, False, True]),
    "mask of all axes": np.arange(24).reshape(3, 4, 2) % 3 == 0,
    "mask and array": (np.array([True, False, True]), np.array([1, 1])),
    "no element of a mask": np.zeros(3, bool),
    "list of booleans": [True, False, True],
    "backwards": slice(None, None, -1),
    "every other from the end": (slice(None), slice(-1, None, -2)),
    "integer": -1,
    "integers": (1, 2, 0),
    "nothing": (),
    "dots": ...,
    "new axes": (None, ..., None),
}


@pytest.mark.parametrize("name", INDICES)
def test_every_index_has_the_gradient_of_a_loop(name: str, device: str) -> None:
    """All index types of NumPy."""
    values, index = np.arange(24.0).reshape(3, 4, 2), INDICES[name]
    x = leaf(values, device)
    y = x[index]
    close(y.data, values[index])
    g = from_one(y.shape)
    y.backward(g)
    close(x.grad, added_one_by_one((3, 4, 2), index, g))


def test_take_along_every_axis_with_ids_of_every_rank(device: str) -> None:
    """Repeated ids along the first, middle and last axis."""
    values = np.arange(24.0).reshape(3, 4, 2)
    for axis in (0, 1, 2, -1, -2, -3):
        for ids in (np.array([1, 1, 0]), np.array([[1, 1], [0, 1]]), np.array(1)):
            x = leaf(values, device)
            y = ops.take(x, asarray(ids, device=device), axis=axis)
            close(y.data, np.take(values, ids, axis=axis))
            g = from_one(y.shape)
            y.backward(g)
            index = (slice(None),) * (axis % 3) + (ids,)
            close(x.grad, added_one_by_one((3, 4, 2), index, g))


def test_scatter_add_keeps_every_addition(device: str) -> None:
    """The same mistake in forward."""
    x, v = leaf([1.0, 1, 1], device), leaf([1.0, 2, 4, 8], device)
    y = ops.scatter_add(x, asarray(np.array([0, 0, 2, 0]), device=device), v)
    close(y.data, [12, 1, 5])
    y.backward(np.array([10.0, 20.0, 30.0]))
    close(x.grad, [10, 20, 30])
    close(v.grad, [10, 10, 30, 10])


def test_gather_is_the_transpose_of_scatter_add(device: str) -> None:
    """<gather x, v> = <x, scatter v>."""
    rng = np.random.default_rng(0)
    for axis in (0, 1, -1):
        values, ids = rng.normal(size=(3, 4)), rng.integers(0, 3, (3, 4))
        v = rng.normal(size=(3, 4))
        there = asarray(ids, device=device)
        read = ops.gather(Tensor(values, device=device), there, axis=axis).numpy()
        zeros = Tensor(np.zeros((3, 4)), device=device)
        added = ops.scatter_add(zeros, there, Tensor(v, device=device), axis=axis).numpy()
        assert np.vdot(read, v) == pytest.approx(np.vdot(values, added))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_thousand_uses_of_one_row(dtype: Any, device: str) -> None:
    """A token that is frequent in a batch, such as the space."""
    layer = leaf(np.zeros((3, 2)), device, dtype)
    ids = np.zeros((8, 128), np.int64)
    ids[::2, ::4] = 2
    ops.embedding(layer, asarray(ids, device=device)).backward(np.ones((8, 128, 2)))
    close(layer.grad, [[896, 896], [0, 0], [128, 128]])


def test_an_index_out_of_range_is_an_error_on_every_device(device: str) -> None:
    """A GPU would read other memory without an error."""
    x = Tensor(np.zeros((3, 2)), device=device)
    for index in (3, -4, [0, 3], np.array([-4]), (0, 2), (slice(None), [2])):
        with pytest.raises(IndexError, match="out of bounds"):
            x[index]


# shapes of matmul -----------------------------------------------------------------------

TABLE = [
    ((3,), (3,), [-4], [-2, -1, 0], [1, 2, 3]),
    ((2, 3), (3,), [-4, -13], [-2, -1, 0, -4, -2, 0], [9, 12, 15]),
    ((3,), (3, 2), [4, 10], [-4, 2, 8], [1, 2, 2, 4, 3, 6]),
    ((3,), (2, 3, 2), [4, 10, 40, 46], [28, 48, 68], [1, 2, 2, 4, 3, 6, 3, 4, 6, 8, 9, 12]),
    ((2, 2, 3), (3,), [-4, -13, -22, -31],
     [-2, -1, 0, -4, -2, 0, -6, -3, 0, -8, -4, 0], [70, 80, 90]),
    ((2, 3), (2, 3, 2), [4, 10, 4, 19, 40, 46], [46, 74, 102, 58, 102, 146],
     [13, 18, 17, 24, 21, 30, 33, 38]),
    ((2, 1, 2, 3), (3, 3, 2), [], [246, 312, 378, 300, 390, 480], [254, 276, 286, 312, 318, 348]),
]  # fmt: skip

MATMUL_PRECISIONS: dict[str, Callable[[Any, Any], Tensor]] = {
    "@": lambda a, b: a @ b,
    "ops.matmul": ops.matmul,
    "einsum": lambda a, b: ops.einsum(_equation(a, b), a, b),
}


def _equation(a: Any, b: Any) -> str:
    left = "...ij" if len(a.shape) > 1 else "j"
    right = "...jk" if len(b.shape) > 1 else "j"
    return f"{left},{right}->...{'i' * (len(a.shape) > 1)}{'k' * (len(b.shape) > 1)}"


def operands(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """1, 2, 3, ... and -2, -1, 0, ..."""
    return from_one(a), from_one(b) - 3


def basis_gradients(a: np.ndarray, b: np.ndarray, g: np.ndarray) -> list[np.ndarray]:
    """A matrix product is linear in each factor, so unit matrices give its gradient."""
    grads = [np.zeros(a.shape), np.zeros(b.shape)]
    for k, factor in enumerate((a, b)):
        for place in range(factor.size):
            unit = np.zeros(factor.shape)
            unit.ravel()[place] = 1
            grads[k].ravel()[place] = (g * (unit @ b if k == 0 else a @ unit)).sum()
    return grads


@pytest.mark.parametrize(("a", "b", "out", "da", "db"), TABLE, ids=lambda v: str(v)[:14])
@pytest.mark.parametrize("product", MATMUL_PRECISIONS)
def test_the_table_of_shapes(
    a: tuple[int, ...], b: tuple[int, ...], out: Any, da: Any, db: Any, product: str, device: str
) -> None:
    """harvard-edge/cs249r_book#1781, facebookresearch/CrypTen#140, flashlight/flashlight#760,
    joey00072/Tinytorch#3."""
    x, y = (leaf(values, device) for values in operands(a, b))
    z = MATMUL_PRECISIONS[product](x, y)
    z.backward(from_one(z.shape))
    for got, expected in ((z.data, out), (x.grad, da), (y.grad, db)):
        close(asnumpy(got).ravel()[: len(expected)], expected)
    assert x.grad.shape == a and y.grad.shape == b
    for got, expected in zip((x, y), basis_gradients(*operands(a, b), from_one(z.shape)),
                             strict=True):  # fmt: skip
        close(got.grad, expected)


LEADING = [(), (1,), (2,), (3, 1), (1, 2), (3, 2), (1, 1)]


@pytest.mark.parametrize("left", LEADING, ids=str)
@pytest.mark.parametrize("right", LEADING, ids=str)
def test_stacks_of_matrices_and_vectors_broadcast(
    left: tuple[int, ...], right: tuple[int, ...], device: str
) -> None:
    """Every pair of leading axes, with a matrix or a vector on either side."""
    try:
        np.broadcast_shapes(left, right)
    except ValueError:
        x, y = (leaf(v, device) for v in operands((*left, 2, 3), (*right, 3, 2)))
        with pytest.raises(ValueError, match="matmul"):
            x @ y
        return
    for a, b in [((*left, 2, 3), (*right, 3, 2)), ((*left, 2, 3), (3,)), ((3,), (*right, 3, 2)),
                 ((*left, 1, 3), (*right, 3, 1))]:  # fmt: skip
        x, y = (leaf(v, device) for v in operands(a, b))
        z = x @ y
        g = from_one(z.shape)
        z.backward(g)
        assert x.grad.shape == a and y.grad.shape == b
        for got, expected in zip((x, y), basis_gradients(*operands(a, b), g), strict=True):
            close(got.grad, expected)


def test_a_plain_array_or_a_float32_tensor_gives_the_same_product(device: str) -> None:
    """Constants on either side, and the other dtype."""
    for a, b, *_ in TABLE:
        g = from_one(np.matmul(*operands(a, b)).shape)
        da, db = basis_gradients(*operands(a, b), g)
        for dtype in (np.float64, np.float32):
            x, y = (leaf(v, device, dtype) for v in operands(a, b))
            (x @ y.data).backward(g)
            (x.data @ y).backward(g)
            close(x.grad, da)
            close(y.grad, db)
            assert x.grad.dtype == y.grad.dtype == dtype


def test_only_one_operand_needs_a_gradient(device: str) -> None:
    """For every shape of the other operand."""
    for a, b, *_ in TABLE:
        va, vb = operands(a, b)
        g = from_one(np.matmul(va, vb).shape)
        for k in (0, 1):
            pair = [Tensor(v, requires_grad=i == k, device=device) for i, v in enumerate((va, vb))]
            (pair[0] @ pair[1]).backward(g)
            close(pair[k].grad, basis_gradients(va, vb, g)[k])
            assert pair[1 - k].grad is None


def test_transposed_and_sliced_operands_give_the_same_product(device: str) -> None:
    """The memory order of an operand is not its shape."""
    va, vb = operands((4, 2, 3), (2, 4, 3))
    x, y = leaf(va, device), leaf(vb, device)
    z = x.swapaxes(0, 1)[:, ::2] @ y.swapaxes(-1, -2)[..., ::-1]
    g = from_one(z.shape)
    z.backward(g)
    da, db = basis_gradients(va.swapaxes(0, 1)[:, ::2], vb.swapaxes(-1, -2)[..., ::-1], g)
    close(asnumpy(x.grad).swapaxes(0, 1)[:, ::2], da)
    close(asnumpy(y.grad).swapaxes(-1, -2)[..., ::-1], db)
    assert not asnumpy(x.grad)[1::2].any()


@pytest.mark.parametrize("sizes", [(0, 3, 2), (2, 0, 2), (2, 3, 0)], ids=str)
def test_products_with_an_empty_axis(sizes: tuple[int, int, int], device: str) -> None:
    """An empty axis gives zeros or an empty result, and gradients of the right shape."""
    m, k, n = sizes
    x, y = leaf(np.ones((m, k)), device), leaf(np.ones((k, n)), device)
    z = x @ y
    close(z.data, np.zeros((m, n)))
    z.backward(np.ones((m, n)))
    close(x.grad, np.zeros((m, k)))
    close(y.grad, np.zeros((k, n)))


@pytest.mark.parametrize(
    ("a", "b"), [((3,), (2,)), ((2, 3), (2, 3)), ((2, 3), (2,)), ((3,), (2, 2)), ((), (3,)),
                 ((3,), ()), ((2, 2, 3), (4, 3, 2))], ids=str,
)  # fmt: skip
def test_shapes_that_do_not_fit_are_named(
    a: tuple[int, ...], b: tuple[int, ...], device: str
) -> None:
    """The error contains both shapes, or which operand is a scalar."""
    with pytest.raises(ValueError, match=r"matmul: (.*\(.*\(|.*is a number)"):
        leaf(np.ones(a), device) @ leaf(np.ones(b), device)


def test_linear_takes_rows_of_any_rank(device: str) -> None:
    """Also without rows; gradients of bias and weight keep their shapes."""
    for shape in [(3,), (1, 3), (2, 3), (2, 4, 3), (0, 3), (2, 0, 3), (1, 1, 1, 3)]:
        vx, vw = operands(shape, (3, 2))
        x, w, b = leaf(vx, device), leaf(vw, device), leaf([0.5, -0.5], device)
        y = ops.linear(x, w, b)
        g = from_one(y.shape)
        y.backward(g)
        da, dw = basis_gradients(vx, vw, g)
        close(y.data, vx @ vw + [0.5, -0.5])
        close(x.grad, da)
        close(w.grad, dw)
        close(b.grad, g.reshape(-1, 2).sum(axis=0))
    for wrong in ((2, 2), (3,), (1, 2), (1,)):
        with pytest.raises(ValueError, match=r"linear: bias must be \(2,\)"):
            ops.linear(leaf(np.ones((2, 3)), device), leaf(np.ones((3, 2)), device),
                       leaf(np.ones(wrong), device))  # fmt: skip


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "power": lambda a, b: a**b,
}
SHAPES = [(), (1,), (3,), (1, 1), (2, 1), (1, 3), (2, 3), (4, 1, 1), (4, 2, 1), (4, 2, 3)]


@pytest.mark.parametrize("name", [*BINARY, "maximum", "minimum", "where"])
def test_every_binary_operation_sums_over_what_was_broadcast(name: str, device: str) -> None:
    """The gradient has the operand's shape, and is that of the explicitly broadcast operand."""
    rng = np.random.default_rng(0)
    for a in SHAPES:
        for b in SHAPES:
            va, vb = rng.uniform(0.5, 2, a), rng.uniform(0.5, 2, b)
            full = np.broadcast_shapes(a, b)
            mask = asarray(rng.random(full) < 0.5, device=device)
            function = BINARY.get(name) or getattr(ops, name)
            extra = (mask,) if name == "where" else ()
            x, y = leaf(va, device), leaf(vb, device)
            z = function(*extra, x, y)
            assert z.shape == full
            g = rng.normal(size=full)
            z.backward(g)
            wide = [leaf(np.broadcast_to(v, full), device) for v in (va, vb)]
            function(*extra, *wide).backward(g)
            for operand, whole, shape in zip((x, y), wide, (a, b), strict=True):
                axes = tuple(range(len(full) - len(shape))) + tuple(
                    len(full) - len(shape) + i for i, n in enumerate(shape) if n == 1
                )
                assert operand.grad.shape == shape
                close(operand.grad, asnumpy(whole.grad).sum(axis=axes).reshape(shape))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_attention_over_leading_axes_that_differ(data: st.DataObject) -> None:
    """Shared keys, or one query for many contexts: the same as with explicitly broadcast arrays."""
    lead = st.sampled_from(LEADING)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    shapes = [(*data.draw(lead), n, 2) for n in (3, 4, 4)]
    try:
        full = np.broadcast_shapes(*[s[:-2] for s in shapes])
    except ValueError:
        return
    values = [rng.normal(size=s) for s in shapes]
    narrow = [leaf(v) for v in values]
    y = ops.attention(*narrow)
    g = rng.normal(size=y.shape)
    y.backward(g)
    wide = [leaf(np.broadcast_to(v, (*full, *v.shape[-2:]))) for v in values]
    z = ops.attention(*wide)
    z.backward(g)
    close(y.data, z.data)
    for one, all_of_it in zip(narrow, wide, strict=True):
        extra = tuple(range(len(full) + 2 - one.ndim))
        total = all_of_it.grad.sum(axis=extra)
        stretched = tuple(i for i, n in enumerate(one.shape) if n == 1 != total.shape[i])
        assert one.grad.shape == one.shape
        close(one.grad, total.sum(axis=stretched, keepdims=True))


EINSUMS = [
    ("i,i->", (3,), (3,)),
    ("i,j->ij", (3,), (2,)),
    ("ij,j->i", (2, 3), (3,)),
    ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
    ("...ij,...jk->...ik", (2, 1, 2, 3), (3, 3, 2)),
    ("ij,ij->ij", (1, 3), (2, 3)),
    ("ij,jk->", (2, 3), (3, 2)),
    ("ii,i->i", (3, 3), (3,)),
    ("ij,ik->kj", (2, 3), (2, 2)),
    ("ij,k->k", (2, 3), (2,)),
]


@pytest.mark.parametrize(("equation", "a", "b"), EINSUMS, ids=lambda v: str(v))
def test_sums_of_products_have_the_gradients_of_their_unit_tensors(
    equation: str, a: tuple[int, ...], b: tuple[int, ...], device: str
) -> None:
    """With einsum: inner, outer, batched, broadcast, diagonal."""
    va, vb = operands(a, b)
    x, y = leaf(va, device), leaf(vb, device)
    z = ops.einsum(equation, x, y)
    expected = np.einsum(equation, va, vb)
    close(z.data, expected)
    g = from_one(expected.shape)
    z.backward(g)
    for k, operand in enumerate((x, y)):
        grad = np.zeros(operand.shape)
        for place in range(grad.size):
            unit = np.zeros(operand.shape)
            unit.ravel()[place] = 1
            pair = (unit, vb) if k == 0 else (va, unit)
            grad.ravel()[place] = (g * np.einsum(equation, *pair)).sum()
        close(operand.grad, grad)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ops.concatenate([x, x], 1, 2),
        lambda x: ops.concatenate([x, x], 1, axis=0),
        lambda x: ops.sum(x, 0, axis=1),
        lambda x: ops.sum(x, 0, False, 3),
        lambda x: ops.einsum("ij->ji", x, equation="ij->ij"),
    ],
)
def test_an_unknown_option_is_not_ignored(call: Any) -> None:
    with pytest.raises(TypeError, match=r"got more|given twice"):
        call(Tensor(np.ones((2, 2))))


def test_concatenate_takes_its_axis_by_position_as_in_numpy() -> None:
    a = np.arange(6.0).reshape(2, 3)
    assert (ops.concatenate([a, a], 1).numpy() == np.concatenate([a, a], 1)).all()
