"""The strict device refuses what would fail on a GPU, and accepts everything else."""

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import strict
from strict import Array, DeviceError, counts, xp
from strict.indexing import points_twice

HOST = np.arange(32, dtype=np.float32).reshape(4, 8)
Action = Callable[[], object]


def device(values: object = HOST, dtype: Any = None) -> Array:
    """A new device array."""
    return strict.put(values, dtype)


def ids(*values: int) -> Array:
    """A device array of integers."""
    return strict.put(list(values), np.int64)


def assign(key: object, value: object, array: Array | None = None) -> Array:
    """The array after array[key] = value."""
    array = device() if array is None else array
    array[key] = value
    return array


def add_in_place(target: Any, values: Any) -> None:
    target += values


def assert_refused(error: type[Exception], action: Action) -> None:
    with pytest.raises(error):
        action()


# Host and device ---------------------------------------------------------------------------

HOST_MEETS_DEVICE: dict[str, Action] = {
    "host + device": lambda: HOST + device(),
    "device + host": lambda: device() + HOST,
    "host @ device": lambda: HOST @ device().T,
    "device @ host": lambda: device() @ HOST.T,
    "host < device": lambda: HOST < device(),
    "host += device": lambda: add_in_place(HOST.copy(), device()),
    "device += host": lambda: add_in_place(device(), HOST),
    "device + 0-d host array": lambda: device() + np.array(1.0),
    "device + list": lambda: device() + [1.0] * 8,
    "device + None": lambda: device() + None,
    "ufunc of a host array": lambda: xp.exp(HOST),
    "ufunc of a list": lambda: xp.exp([1.0, 2.0]),
    "ufunc(out=host)": lambda: xp.exp(device(), out=HOST.copy()),
    "sum(out=host)": lambda: device().sum(axis=0, out=np.zeros(8, np.float32)),
    "where with a host array": lambda: xp.where(device() > 0, device(), HOST),
    "concatenate with a host array": lambda: xp.concatenate([device(), HOST]),
    "stack of numbers": lambda: xp.stack([1.0, 2.0]),
    "einsum with a host array": lambda: xp.einsum("ij,ij->i", device(), HOST),
    "sum of a list": lambda: xp.sum([1.0, 2.0]),
    "array of device and host numbers": lambda: xp.array([device().sum(), 1.0]),
    "x[:] = host": lambda: assign(slice(None), HOST),
    "x[:] = list": lambda: assign(slice(None), [1.0] * 8),
    "host[:] = device": lambda: HOST.copy().__setitem__(slice(None), device()),
    "add.at of host values": lambda: xp.add.at(device(), ids(0), HOST[:1]),
    "np.asarray(device)": lambda: np.asarray(device()),
    "np.array([device])": lambda: np.array([device().sum()]),
    "np.float32(device)": lambda: np.float32(device().sum()),
    "np.exp(device)": lambda: np.exp(device()),
    "get(host)": lambda: strict.get(HOST),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("mistake", HOST_MEETS_DEVICE)
def test_host_and_device_arrays_do_not_mix(mistake: str) -> None:
    assert_refused(TypeError, HOST_MEETS_DEVICE[mistake])


# What CuPy does not have -------------------------------------------------------------------

MISSING_ARGUMENTS: dict[str, Action] = {
    "add(where=)": lambda: xp.add(device(), device(), where=device() > 0),
    "add(order=)": lambda: xp.add(device(), device(), order="F"),
    "sum(where=)": lambda: device().sum(where=device() > 0),
    "sum(initial=)": lambda: xp.sum(device(), initial=0.0),
    "max(initial=)": lambda: device().max(initial=0.0),
    "mean(where=)": lambda: device().mean(where=device() > 0),
    "clip(min=)": lambda: xp.clip(device(), min=0.0),
    "take(mode=)": lambda: xp.take(device(), ids(0), axis=0, mode="clip"),
    "einsum(out=)": lambda: xp.einsum("ij->i", device(), out=device()[:, 0]),
    "tensordot(out=)": lambda: xp.tensordot(device(), device(), 2, device()),
    "take_along_axis(out=)": lambda: xp.take_along_axis(device(), ids(0)[None], 0, out=device()),
    "flip(out=)": lambda: xp.flip(device(), 0, out=device()),
    "reshape(shape=)": lambda: xp.reshape(device(), shape=(8, 4)),
    "broadcast_to(subok=)": lambda: xp.broadcast_to(device(), (2, 4, 8), subok=True),
    "arange(like=)": lambda: xp.arange(3, like=device()),
}


@pytest.mark.parametrize("call", MISSING_ARGUMENTS)
def test_arguments_that_cupy_does_not_have(call: str) -> None:
    assert_refused(TypeError, MISSING_ARGUMENTS[call])


@pytest.mark.parametrize(
    "name", ["vecdot", "matvec", "unstack", "block", "insert", "errstate", "nditer", "geomspace"]
)
def test_functions_that_cupy_does_not_have(name: str) -> None:
    with pytest.raises(AttributeError, match=f"cupy has no '{name}'"):
        getattr(xp, name)


@pytest.mark.parametrize(
    "name", ["setflags", "resize", "ctypes", "__array_namespace__", "newbyteorder"]
)
def test_methods_that_cupy_does_not_have(name: str) -> None:
    with pytest.raises(AttributeError):
        getattr(device(), name)


def test_the_error_for_what_only_cupy_has() -> None:
    with pytest.raises(AttributeError, match="draw on the host"):
        xp.random.default_rng(0)
    with pytest.raises(AttributeError, match="does not have cupy's 'fuse'"):
        xp.fuse(abs)
    with pytest.raises(AttributeError, match="the strict stand-in does not"):
        device().tobytes()


def test_flags_have_no_read_only_memory() -> None:
    assert device().flags.c_contiguous and device().T.flags.f_contiguous
    assert not hasattr(device().flags, "writeable")


@pytest.mark.parametrize("ufunc", [xp.maximum, xp.logical_and, xp.subtract])
def test_reduce_only_adds_and_multiplies(ufunc: Any) -> None:
    with pytest.raises(NotImplementedError):
        ufunc.reduce(device())


def test_at_exists_for_some_functions_and_types() -> None:
    with pytest.raises(NotImplementedError):
        xp.multiply.at(device(), ids(0), 2.0)
    with pytest.raises(TypeError, match="float32"):
        xp.subtract.at(device(), ids(0), 1.0)
    with pytest.raises(TypeError, match="int16"):
        xp.add.at(xp.zeros(4, xp.int16), ids(0), 1)


PYTHON_INTEGER_NEEDED: dict[str, Action] = {
    "range(x)": lambda: range(device().argmax()),
    "list[x]": lambda: [1, 2][device().argmin()],
    "x[:y]": lambda: device()[: ids(2)[0]],
    "zeros(x)": lambda: xp.zeros(ids(3)[0]),
    "arange(x)": lambda: xp.arange(ids(3)[0]),
    "reshape(x)": lambda: device().reshape(ids(32)[0]),
    "sum(axis=x)": lambda: device().sum(axis=ids(0)[0]),
    "round(x)": lambda: round(device()),
    "hash(x)": lambda: hash(device()),
}


@pytest.mark.parametrize("use", PYTHON_INTEGER_NEEDED)
def test_a_device_scalar_is_not_a_python_number(use: str) -> None:
    assert_refused(TypeError, PYTHON_INTEGER_NEEDED[use])


@pytest.mark.parametrize("values", [["a"], [None], [np.longdouble(1)]])
def test_only_numbers_fit_on_the_device(values: object) -> None:
    with pytest.raises(ValueError, match="Unsupported dtype"):
        device(values)


def test_out_must_have_the_right_type_and_shape() -> None:
    with pytest.raises(TypeError):
        xp.add(device(), 1, out=xp.zeros((4, 8), xp.int64))
    with pytest.raises(ValueError):
        xp.matmul(device(), device().T, out=xp.zeros((5, 4), xp.float32))


def test_integers_that_do_not_fit() -> None:
    with pytest.raises(OverflowError):
        device([1], np.uint32) * -1


# What CuPy accepts, but should not ---------------------------------------------------------

HIDDEN_COPIES: dict[str, Action] = {
    "x[host index]": lambda: device()[np.array([0, 1])],
    "x[0-d host index]": lambda: device()[np.array(0)],
    "x[list]": lambda: device()[[0, 1]],
    "x[:, list]": lambda: device()[:, [0, 1]],
    "x[host mask]": lambda: device()[HOST > 3],
    "x[host index] = value": lambda: assign(np.array([0, 1]), 0.0),
    "add.at(host index)": lambda: xp.add.at(device(), np.array([0]), 1.0),
    "np.sum(device)": lambda: np.sum(device()),
    "np.mean(device)": lambda: np.mean(device()),
    "np.concatenate(device)": lambda: np.concatenate([device()]),
    "pickle": lambda: pickle.dumps(device()),
}


@pytest.mark.parametrize("mistake", HIDDEN_COPIES)
def test_hidden_copies(mistake: str) -> None:
    assert_refused(DeviceError, HIDDEN_COPIES[mistake])


SILENTLY_WRONG: dict[str, Action] = {
    "x[too large]": lambda: device()[ids(4)],
    "x[too small]": lambda: device()[ids(-5)],
    "x[:, too large]": lambda: device()[:, ids(0, 8)],
    "x[too large] = value": lambda: assign(ids(0, 4), 1.0),
    "take(too large)": lambda: xp.take(device(), ids(4), axis=0),
    "x.take(too large)": lambda: device().take(ids(4), axis=0),
    "take_along_axis(too large)": lambda: xp.take_along_axis(device(), ids(4)[None], 0),
    "put_along_axis(too large)": lambda: xp.put_along_axis(device(), ids(4)[None], 0.0, 0),
    "add.at(too large)": lambda: xp.add.at(device(), ids(4), 1.0),
    "repeated in x[i] = values": lambda: assign(ids(0, 0), device()[:2]),
    "repeated as -1 and 3": lambda: assign(ids(-1, 3), device()[:2]),
    "repeated in x[:, i] = values": lambda: assign((slice(None), ids(1, 1)), device()[:, :2]),
    "repeated in x[..., i] = values": lambda: assign((..., ids(1, 1)), device()[:, :2]),
    "repeated in x[None, :, i] = values": lambda: assign(
        (None, slice(None), ids(1, 1)), device()[None, :, :2]
    ),
    "repeated pairs": lambda: assign((ids(1, 1), ids(2, 2)), device([5.0, 6.0], np.float32)),
    "repeated in x[i] += value": lambda: assign(ids(0, 0), device()[ids(0, 0)] + 1),
    "repeated in put_along_axis": lambda: xp.put_along_axis(
        device(), ids(1, 1)[None], device()[:1, :2], 1
    ),
    "negative as unsigned": lambda: (device() - 5).astype(xp.uint32),
    "NaN as integer": lambda: xp.full(3, math.nan).astype(xp.int32),
    "too large for int32": lambda: xp.full(3, 3e9).astype(xp.int32),
    "empty as an index": lambda: device()[xp.empty(3, xp.int64)],
}


@pytest.mark.parametrize("mistake", SILENTLY_WRONG)
def test_silently_wrong_values(mistake: str) -> None:
    assert_refused(DeviceError, SILENTLY_WRONG[mistake])


MASK = np.array([True, False, True, True])
KEYS: list[tuple[Any, ...]] = [
    (np.array([0, 1, 3]),),
    (np.array([0, 1, -4]),),
    (np.array([[0, 1], [2, 3]]),),
    (np.array([0, 0]), np.array([0, 1])),
    (np.array([0, 0]), np.array([1, 1])),
    (np.array([[0], [1]]), np.array([0, 1])),
    (slice(None), np.array([1, 2, 1])),
    (..., np.array([1, 0])),
    (..., np.array([1, -2]), None, 0),
    (None, np.array([1, 1]), ..., np.array([0, 1])),
    (None, np.array([1, 1]), ..., np.array([1, 1])),
    (np.array(2), slice(0, 2)),
    (np.array([], np.int64),),
    (MASK,),
    (MASK, np.array([0, 0, 0])),
    (np.ones((4, 3), bool),),
    (np.ones((4, 3), bool), np.array([0])),
    (slice(None), slice(None), np.array([True, False])),
]


@pytest.mark.parametrize("key", KEYS)
def test_repeated_indices_are_found(key: tuple[Any, ...]) -> None:
    shape = (4, 3, 2)
    elements = np.arange(math.prod(shape)).reshape(shape)[key]
    assert points_twice(key, shape) == (np.unique(elements).size < elements.size)


BECOMES_FLOAT64: dict[str, Action] = {
    "x * np.sqrt(8)": lambda: device() * np.sqrt(8),
    "np.sqrt(8) * x": lambda: np.sqrt(8) * device(),
    "float32 + float64": lambda: device() + xp.ones(8),
    "float32 * int64": lambda: device() * ids(*range(8)),
    "float16 + float64": lambda: device(HOST, np.float16) + xp.ones(8),
    "where": lambda: xp.where(device() > 0, device(), np.float64(0.0)),
    "concatenate": lambda: xp.concatenate([device(), xp.ones((1, 8))]),
    "x += float64": lambda: add_in_place(device(), np.float64(2.0)),
    "out=": lambda: xp.multiply(device(), xp.ones(8), out=device()),
    "sum(out=)": lambda: xp.ones((4, 8)).sum(axis=0, out=device()[0]),
    "erf of float16": lambda: strict.erf(device(HOST, np.float16)),
}


@pytest.mark.parametrize("mistake", BECOMES_FLOAT64)
def test_unintended_float64(mistake: str) -> None:
    assert_refused(DeviceError, BECOMES_FLOAT64[mistake])


def test_intended_float64() -> None:
    assert device().astype(xp.float64).dtype == np.float64
    assert device().sum(dtype=xp.float64).dtype == np.float64
    assert xp.exp(device() / 32, dtype=xp.float64).dtype == np.float64
    total = xp.zeros(8)
    total += device()[1]
    assert total.dtype == np.float64


# What works --------------------------------------------------------------------------------


def softmax(m: Any, x: Any) -> Any:
    e = m.exp(x - x.max(axis=-1, keepdims=True))
    e /= e.sum(axis=-1, keepdims=True)
    return e


def hash_bits(m: Any, x: Any) -> Any:
    bits = m.arange(x.size, dtype=m.uint32).reshape(x.shape)
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits ^= bits >> np.uint32(15)
    bits *= m.uint32(0x846CA68B)
    return bits ^ (1 + (bits << 3))


def scatter(m: Any, x: Any) -> Any:
    i = m.asarray(np.array([0, 2, 0]))
    table = m.zeros_like(x)
    m.add.at(table, i, x[:3])
    m.add.at(table, (i, i), 1.0)
    m.add.at(table, (slice(None), i), 0.5)
    return table


def gather(m: Any, x: Any) -> Any:
    i = m.asarray(np.array([[0, 2], [3, 3]]))
    return x[i], x[i, -i], x[:, None, i], x[..., i, None], x[i[0], ::2], x[i[0, 0]]


def write(m: Any, x: Any) -> Any:
    i = m.asarray(np.array([2, 0]))
    x[...] = x * 2.0
    x[0] += 1.0
    x[:, ::2] = x[:, 1::2]
    x[i] = x[:2]
    x[i, i] = m.asarray(np.array([7.0, 8.0], np.float32))
    x[m.asarray(np.array([3, 3]))] = -1.0  # repeated, but every write has the same value
    x[x > 30] = 0.0
    return x


def attention(m: Any, x: Any) -> Any:
    q = x.reshape(2, 2, 2, 4).swapaxes(1, 2)
    out = m.empty_like(q)
    weights = softmax(m, q @ q.swapaxes(-1, -2) / math.sqrt(4))
    m.matmul(weights, q, out=out)
    joined = m.zeros((2, 2, 2, 4), m.float32)
    m.matmul(weights, q, out=joined.transpose(0, 2, 1, 3))
    return out, joined, m.einsum("bhts,bhsd->bthd", weights, q)


LEGITIMATE: dict[str, Callable[[Any, Any], Any]] = {
    "softmax": softmax,
    "hash": hash_bits,
    "scatter": scatter,
    "gather": gather,
    "write": write,
    "attention": attention,
    "operators": lambda m, x: (
        -x,
        +x,
        abs(x - 9),
        x // 2,
        x % 3,
        x**2,
        2**-x,
        1 / (x + 1),
        x @ x.T,
    ),
    "comparisons": lambda m, x: (x == 3, x != 3, x < 3, 3 <= x, (x > 3) & (x < 9) | ~(x >= 1)),
    "divmod": lambda m, x: divmod(x, 3),
    "reductions": lambda m, x: (x.sum(), x.mean(axis=(0, 1)), x.max(0), x.min(1), x.var(-1)),
    "arg reductions": lambda m, x: (m.argmax(x, axis=1, keepdims=True), x.argmin()),
    "cumulative": lambda m, x: (m.cumsum(x, axis=1), m.add.accumulate(x), m.add.reduce(x)),
    "shapes": lambda m, x: (x.reshape(8, -1), x.T, x[:, None], m.expand_dims(x, 0), x.ravel()),
    "create": lambda m, x: (m.ones(3), m.full((2, 2), 7, m.int32), m.eye(3), m.arange(1, 9, 2)),
    "create like": lambda m, x: (m.zeros_like(x), m.full_like(x, 2.0), m.ones_like(x, dtype=bool)),
    "join and cut": lambda m, x: (m.concatenate([x, x]), m.stack([x, x], 1), *m.split(x, [1, 3])),
    "rearrange": lambda m, x: (m.flip(x, 1), m.roll(x, 1, axis=0), m.sort(-x), m.argsort(-x)),
    "pad": lambda m, x: m.pad(x, ((0, 0), (2, 1)), constant_values=5.0),
    "triangles": lambda m, x: (m.tril(x), m.triu(x, 1), m.tril(m.ones((3, 3), dtype=bool))),
    "where": lambda m, x: m.where(x > 3, x, 0.0),
    "clip": lambda m, x: (m.clip(x, 1, 3), m.clip(x, None, 3), m.maximum(x, 5)),
    "take": lambda m, x: m.take(x, m.asarray(np.array([1, 1])), axis=1),
    "along axis": lambda m, x: m.take_along_axis(x, m.argmax(x, axis=1)[:, None], 1),
    "one hot": lambda m, x: m.arange(8) == m.asarray(np.array([1, 0, 3]))[:, None],
    "broadcast": lambda m, x: m.broadcast_to(x[:, :1], (2, 4, 8)) + m.broadcast_arrays(x, x[0])[1],
    "bits": lambda m, x: x.view(m.uint32) >> 23,
    "cast": lambda m, x: (x.astype(m.int32), x.astype(m.float16), (x > 3).astype(m.float32)),
    "linear algebra": lambda m, x: (m.linalg.norm(x), m.tensordot(x, x, 2), m.outer(x[0], x[1])),
    "outer": lambda m, x: m.subtract.outer(m.arange(3), m.arange(4)),
    "logarithm of zero": lambda m, x: m.exp(m.log(x * 0.0)),
    "NumPy scalars": lambda m, x: (np.float32(2) * x, x + np.float32(1), np.float32(3) < x),
    "mask": lambda m, x: (x[x > 3], x[x[:, 0] > 3], m.nonzero(x > 3)[1], m.where(x > 3)[0]),
    "answers": lambda m, x: (m.allclose(x, x), m.array_equal(x, x + 1), m.count_nonzero(x)),
    "positional out": lambda m, x: (m.add(x, 1, x), m.exp(x, m.zeros_like(x))),
}


def to_host(result: Any) -> list[Any]:
    """The NumPy arrays behind one result or several."""
    results = result if isinstance(result, tuple) else (result,)
    return [item.get() if isinstance(item, Array) else item for item in results]


@pytest.mark.parametrize("name", LEGITIMATE)
@pytest.mark.filterwarnings("ignore:.*encountered in")  # of NumPy only
def test_valid_code_gives_the_values_of_numpy(name: str) -> None:
    expected = to_host(LEGITIMATE[name](np, HOST.copy()))
    got = to_host(LEGITIMATE[name](xp, device()))
    assert len(got) == len(expected)
    for device_result, host_result in zip(got, expected, strict=True):
        np.testing.assert_array_equal(device_result, host_result)
        assert device_result.dtype == np.asarray(host_result).dtype


def test_no_result_is_a_host_array() -> None:
    x = device()
    results = [x.sum(), x[0, 0], x.T, xp.where(x > 3)[0], xp.split(x, 2)[1], divmod(x, 2)[0]]
    results += [xp.allclose(x, x), xp.count_nonzero(x), xp.linalg.norm(x), xp.einsum("ij->", x)]
    assert all(isinstance(result, Array) for result in results)
    assert all(isinstance(row, Array) for row in x)
    assert isinstance(x, xp.ndarray)


def test_out_is_returned_itself() -> None:
    x = device()
    assert xp.add(x, 1, out=x) is x
    assert xp.add(x, 1, out=(x,)) is x
    assert xp.matmul(x, x.T, out=(square := xp.empty((4, 4), xp.float32))) is square
    assert xp.sum(x, axis=0, out=(total := xp.empty(8, xp.float32))) is total
    assert strict.erf(x, out=x) is x
    before = x
    x *= 2
    assert x is before


def test_arrays_that_need_no_copy_are_returned_themselves() -> None:
    x = device()
    assert xp.asarray(x) is x
    assert xp.ascontiguousarray(x) is x
    assert x.astype(xp.float32, copy=False) is x
    assert x.astype(xp.float32) is not x
    assert xp.array(x) is not x


def test_views_share_memory() -> None:
    x = device()
    views = [x.T, x[1:], x[:, None], x.reshape(8, 4), x.swapaxes(0, 1), x.view(xp.uint32), x[...]]
    views += [xp.flip(x, 0), xp.transpose(x), xp.broadcast_to(x, (2, 4, 8)), x.ravel(), x[0, 0]]
    assert all(xp.may_share_memory(view, x) for view in views)
    copies = [x.T.reshape(-1), x[ids(0, 1)], x[x > 3], x + 0, x.copy(), copy.deepcopy(x), -x]
    assert not any(xp.may_share_memory(other, x) for other in copies)


def test_a_single_element_is_a_view() -> None:
    x = device()
    corner, row = x[0, 0], x[0]
    x[...] = 7.0
    assert float(corner) == float(row[5]) == 7.0
    corner += 1.0
    assert float(x[0, 0]) == 8.0
    assert float(next(iter(x[0]))) == 8.0


def test_host_memory_is_never_shared() -> None:
    host = HOST.copy()
    x = strict.put(host)
    out = strict.get(x)
    host[...] = -1.0
    out[...] = -2.0
    np.testing.assert_array_equal(x.get(), HOST)
    x.set(host)
    np.testing.assert_array_equal(x.get(), host)


def test_fresh_results_are_in_c_order() -> None:
    x = device().reshape(2, 4, 4).transpose(2, 0, 1)
    fresh = [x + 1, xp.exp(x), x.sum(axis=0), xp.where(x > 3, x, 0.0), x[ids(0, 1)], x.copy()]
    assert all(result.flags.c_contiguous for result in fresh)
    assert x.astype(xp.float64).strides == tuple(2 * stride for stride in x.strides)
    assert xp.copy(x).strides == x.strides


def test_empty_like_keeps_the_order_in_memory() -> None:
    x = device().reshape(2, 4, 4).transpose(1, 0, 2)
    assert xp.empty_like(x).strides == x.strides
    assert xp.zeros_like(x).strides == x.strides
    assert xp.empty_like(x, order="C").flags.c_contiguous
    assert xp.empty_like(x, shape=(3,), dtype=xp.int32).shape == (3,)
    assert not xp.may_share_memory(xp.empty_like(x), x)


def test_empty_is_poisoned() -> None:
    assert np.isnan(xp.empty((2, 3), xp.float32).get()).all()
    assert np.isnan(xp.empty_like(device()).get()).all()
    assert xp.empty(3).dtype == np.float64
    assert xp.empty(3, xp.int32).get().min() == np.iinfo(np.int32).max
    assert xp.empty((2, 3), bool).get().all()


def test_asarray_takes_host_data() -> None:
    assert xp.asarray([[1, 2]]).shape == (1, 2)
    assert xp.asarray(HOST, dtype=xp.float16).dtype == np.float16
    assert xp.array(3.0, ndmin=2).shape == (1, 1)
    assert xp.array([device(), device()]).shape == (2, 4, 8)
    np.testing.assert_array_equal(xp.asnumpy(device()), HOST)


def test_put_along_axis() -> None:
    x = device()
    expected = HOST.copy()
    np.put_along_axis(expected, np.array([[1], [2], [3], [-1]]), 0.0, axis=1)
    xp.put_along_axis(x, ids(1, 2, 3, -1)[:, None], 0.0, axis=1)
    np.testing.assert_array_equal(x.get(), expected)


def test_erf() -> None:
    result = strict.erf(device([[0.0, 0.5], [-1.0, 9.0]], np.float32))
    assert result.dtype == np.float32
    np.testing.assert_allclose(
        result.get(), [[0.0, math.erf(0.5)], [math.erf(-1.0), 1.0]], rtol=1e-6
    )
    assert strict.erf(device([0.5], np.float64)).get() == math.erf(0.5)


@pytest.mark.parametrize("way", [{"__array_ufunc__": None}, {"__array_priority__": 101}])
def test_another_class_may_handle_operators(way: dict[str, Any]) -> None:
    tensor = type("Tensor", (), {**way, "__radd__": lambda self, other: "taken over"})
    assert device() + tensor() == "taken over"


def test_ordinary_index_errors_are_unchanged() -> None:
    for key in [9, (0, 9), (0, 0, 0)]:
        with pytest.raises(IndexError):
            device()[key]
    with pytest.raises(np.exceptions.AxisError):
        device().sum(axis=2)


# Launches and copies -------------------------------------------------------------------------


def spent(action: Action) -> tuple[int, int, int]:
    """The launches, copies to the device and copies to the host of an action."""
    counts.reset()
    action()
    return counts.launches, counts.to_device, counts.to_host


def test_computing_launches() -> None:
    x, i = device(), ids(0, 1)
    assert spent(lambda: (x * 2).sum()) == (2, 0, 0)
    assert spent(lambda: x + 1 / 2 - x @ x.T @ x) == (4, 0, 0)
    assert spent(lambda: x[i]) == (1, 0, 0)
    assert spent(lambda: xp.add.at(x, i, 1.0)) == (1, 0, 0)
    assert spent(lambda: assign(i, 1.0, x)) == (1, 0, 0)
    assert spent(lambda: x.T.reshape(-1)) == (1, 0, 0)


def test_views_launch_nothing() -> None:
    x = device()
    assert spent(lambda: (x.T, x[1:, None], x.reshape(-1), x.view(xp.int32))) == (0, 0, 0)
    assert spent(lambda: (xp.split(x, 2), xp.transpose(x), xp.shape(x), len(x))) == (0, 0, 0)


def test_adding_to_a_part_is_one_launch() -> None:
    x = device()

    def add_to_row() -> None:
        x[0] += 1.0

    assert spent(add_to_row) == (1, 0, 0)


COPIES_TO_HOST: dict[str, Callable[[Array], object]] = {
    "get": strict.get,
    "asnumpy": xp.asnumpy,
    "float": lambda x: float(x[0, 0]),
    "int": lambda x: int(x[0, 0]),
    "bool": lambda x: bool(x[0, 0]),
    "item": lambda x: x[0, 0].item(),
    "tolist": lambda x: x.tolist(),
    "format": lambda x: f"{x[0, 0]:.2f}",
    "str": str,
    "repr": repr,
    "math": lambda x: math.sqrt(x[0, 0]),
    "x[mask]": lambda x: x[x > 3],
    "x[mask, i]": lambda x: x[x[:, 0] > 3, 1],
    "x[mask] = value": lambda x: assign(x > 3, 0.0, x),
    "where(mask)": lambda x: xp.where(x > 3),
    "nonzero": lambda x: (x > 3).nonzero(),
    "argwhere": lambda x: xp.argwhere(x > 3),
    "unique": xp.unique,
    "bincount": lambda x: xp.bincount(ids(0, 1)),
    "repeat": lambda x: xp.repeat(x, ids(1, 2, 0, 1), axis=0),
}


@pytest.mark.parametrize("name", COPIES_TO_HOST)
def test_the_host_waits(name: str) -> None:
    x = device()
    _, _, to_host = spent(lambda: COPIES_TO_HOST[name](x))
    assert to_host == 1


def test_where_with_values_does_not_wait() -> None:
    x = device()
    assert spent(lambda: xp.where(x > 3, x, 0.0)) == (2, 0, 0)


def test_copies_to_the_device_are_counted() -> None:
    assert spent(lambda: strict.put(HOST)) == (0, 1, 0)
    assert spent(lambda: xp.asarray([1.0, 2.0])) == (0, 1, 0)
    assert spent(lambda: xp.asarray(2.0)) == (1, 0, 0)
    x = device()
    assert spent(lambda: x.set(HOST)) == (0, 1, 0)
    assert spent(lambda: xp.asarray(x)) == (0, 0, 0)
