"""Reports about NumPy's scalars and arrays combined with tensors, and about changing dtypes."""

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tinyattn import Tensor, no_grad, ops
from tinyattn.attention import MultiHead, attend, causal
from tinyattn.backend import asarray, asnumpy, is_array
from tinyattn.data import Batch
from tinyattn.graph import Node
from tinyattn.models import GPT, GPTConfig
from tinyattn.nn import LayerNorm, Linear, Module, Parameter, Rotary
from tinyattn.parallel.flat import flat_of
from tinyattn.parallel.shards import ShardedStep as Step
from tinyattn.rng import DropoutRNG
from tinyattn.tasks.knowledge import language_model_loss
from tinyattn.training.optimizer_table import make_optimizers
from tinyattn.training.optimizers import AdamW
from tinyattn.training.schedule import Schedule

FLOATS = [np.float32, np.float64]


def leaf(values: Any, device: str = "cpu", dtype: Any = np.float32) -> Tensor:
    return Tensor(np.array(values, dtype), requires_grad=True, device=device)


def close(actual: Any, expected: Any, tolerance: float = 1e-6) -> None:
    np.testing.assert_allclose(asnumpy(actual), expected, rtol=tolerance, atol=tolerance)


# the left operand ------------------------------------------------------------------------

NUMBERS: dict[str, Any] = {
    "float": 2.0,
    "int": 2,
    "bool": True,
    "float16": np.float16(2),
    "float32": np.float32(2),
    "float64": np.float64(2),
    "longdouble": np.longdouble(2),
    "int8": np.int8(2),
    "int64": np.int64(2),
    "uint8": np.uint8(2),
    "numpy bool": np.bool_(True),
}
ARRAYS: dict[str, Any] = {
    "float32 array": np.array([2, 3], np.float32),
    "float64 array": np.array([2.0, 3.0]),
    "float16 array": np.array([2, 3], np.float16),
    "int64 array": np.array([2, 3]),
    "uint8 array": np.array([2, 3], np.uint8),
    "bool array": np.array([True, True]),
    "0-d float array": np.array(2.0),
    "0-d int array": np.array(2),
    "column": np.array([[2.0], [3.0]]),
    "strided array": np.array([2.0, 9, 3, 9])[::2],
    "read-only array": np.broadcast_to(np.float32(2), (2,)),
    "big-endian array": np.array([2, 3], ">f4"),
    "list": [2, 3],
    "tuple": (2.0, 3.0),
}
ARITHMETIC: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    # the operator, and its derivative by the right operand
    "+": (operator.add, lambda a, t: np.ones_like(a * t)),
    "-": (operator.sub, lambda a, t: -np.ones_like(a * t)),
    "*": (operator.mul, lambda a, t: a * np.ones_like(t)),
    "/": (operator.truediv, lambda a, t: -a / t**2),
    "**": (operator.pow, lambda a, t: a**t * np.log(a)),
}
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
UNSUPPORTED = [operator.floordiv, operator.mod, divmod, operator.and_, operator.or_, operator.xor,
               operator.lshift, operator.rshift]  # fmt: skip


def there(left: Any, device: str) -> Any:
    """Arrays on the tensor's device, where they have to be; scalars unchanged."""
    if device != "cpu" and isinstance(left, (np.ndarray, list, tuple)):
        return asarray(np.array(left).astype(np.array(left).dtype.newbyteorder("=")), device=device)
    return left


@pytest.mark.parametrize("left", [*NUMBERS, *ARRAYS])
@pytest.mark.parametrize("sign", ARITHMETIC)
@pytest.mark.parametrize("dtype", FLOATS)
def test_whatever_the_left_operand_is_the_result_is_a_tensor(
    left: str, sign: str, dtype: Any, device: str
) -> None:
    """pytorch/pytorch#9468, odlgroup/odl#180, numpy/numpy#27348, chainer/chainer#77.

    It has the tensor's dtype, and its gradient reaches the tensor.
    """
    value = {**NUMBERS, **ARRAYS}[left]
    apply, slope = ARITHMETIC[sign]
    t = leaf([1.5, 0.5], device, dtype)
    y = apply(there(value, device), t)
    plain, at = np.array(value, np.float64), np.array([1.5, 0.5])
    assert type(y) is Tensor and y.dtype == dtype
    close(y.data, apply(plain, at))
    y.backward(np.ones(y.shape))
    expected = np.broadcast_to(slope(plain, at), y.shape).reshape(-1, 2).sum(axis=0)
    close(t.grad, expected)
    assert t.grad.dtype == dtype


@pytest.mark.parametrize("right", [*NUMBERS, *ARRAYS])
@pytest.mark.parametrize("sign", ARITHMETIC)
def test_whatever_the_right_operand_is_the_result_is_a_tensor(
    right: str, sign: str, device: str
) -> None:
    """The same operands on the other side."""
    value = {**NUMBERS, **ARRAYS}[right]
    apply, _ = ARITHMETIC[sign]
    t = leaf([1.5, 0.5], device)
    y = apply(t, there(value, device))
    assert type(y) is Tensor and y.dtype == np.float32
    close(y.data, apply(np.array([1.5, 0.5]), np.array(value, np.float64)))
    y.backward(np.ones(y.shape))
    assert t.grad.shape == (2,) and t.grad.dtype == np.float32


def test_the_values_of_the_report(device: str) -> None:
    """pytorch/pytorch#9468: an array times a tensor, summed."""
    t = leaf([1, 1], device)
    (there(np.array([2, 3], np.float32), device) * t).sum().backward()
    close(t.grad, [2, 3])


def test_matrix_products_with_the_array_on_the_left(device: str) -> None:
    """The operator `@` too."""
    for dtype in FLOATS:
        for left in (np.array([2.0, 3.0]), np.array([[2, 3], [4, 5]]), np.ones((3, 1, 2))):
            t = leaf([1, 1], device, dtype)
            y = there(left, device) @ t
            assert type(y) is Tensor and y.dtype == dtype
            y.backward(np.ones(y.shape))
            close(t.grad, left.reshape(-1, 2).sum(axis=0))
    t = leaf([1, 1], device)
    for left in (np.float32(2), np.float64(2), np.int64(2), 2, there(np.array(2.0), device)):
        for multiply in (lambda a: a @ t, lambda a: t @ a):
            with pytest.raises((TypeError, ValueError), match="matmul"):
                multiply(left)


@pytest.mark.parametrize("left", [*NUMBERS, *ARRAYS])
@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda f: f.__name__)
def test_comparisons_give_plain_booleans_on_either_side(
    left: str, compare: Any, device: str
) -> None:
    """They have no gradient, and must keep all elements."""
    value, at = {**NUMBERS, **ARRAYS}[left], np.array([1.5, 2.0])
    t, other = leaf([1.5, 2.0], device), there(value, device)
    for got, expected in (
        (compare(other, t), compare(np.array(value), at)),
        (compare(t, other), compare(at, np.array(value))),
        (compare(t, Tensor([2.0, 1.5], device=device)), compare(at, np.array([2.0, 1.5]))),
    ):
        assert is_array(got) and got.dtype == bool
        np.testing.assert_array_equal(asnumpy(got), expected)


@pytest.mark.parametrize("left", ["int", "float64", "int64", "float32 array", "0-d int array"])
@pytest.mark.parametrize("apply", UNSUPPORTED, ids=lambda f: f.__name__)
def test_operators_that_do_not_exist_raise_an_error_on_either_side(
    left: str, apply: Any, device: str
) -> None:
    """NumPy must not try them element by element."""
    value, t = there({**NUMBERS, **ARRAYS}[left], device), leaf([1, 1], device)
    for a, b in ((value, t), (t, value), (t, t)):
        with pytest.raises(TypeError):
            apply(a, b)


def test_in_place_operators_of_an_array_do_not_lose_the_graph(device: str) -> None:
    """`array += tensor` gives a tensor or an error, never an array."""
    for apply in (operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow):
        array = there(np.array([2.0, 3.0], np.float32), device)
        try:
            array = apply(array, leaf([1, 1], device))
        except TypeError:
            continue
        assert type(array) is Tensor


def test_python_can_add_multiply_and_invert(device: str) -> None:
    """sum starts with the number 0, prod with 1."""
    t = leaf([2, 4], device)
    for y, value, slope in (
        (sum([t, t]), [4, 8], [2, 2]),
        (sum([t], start=np.float64(1)), [3, 5], [1, 1]),
        (math.prod([t, t]), [4, 16], [4, 8]),
        (2**t, [4, 16], np.log(2) * np.array([4, 16])),
        (1 / t, [0.5, 0.25], [-1 / 4, -1 / 16]),
        (3 - t, [1, -1], [-1, -1]),
        (-t, [-2, -4], [-1, -1]),
        (abs(-t), [2, 4], [1, 1]),
    ):
        assert type(y) is Tensor
        close(y.data, value)
        t.zero_grad()
        y.backward(np.ones(2))
        close(t.grad, slope)


NUMPY_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "multiply": np.multiply,
    "matmul": np.matmul,
    "power": np.power,
    "maximum": np.maximum,
    "less": np.less,
    "exp": lambda a, t: np.exp(t),
    "negative": lambda a, t: np.negative(t),
    "isnan": lambda a, t: np.isnan(t),
    "add into an array": lambda a, t: np.add(a, t, out=a),
    "asarray": lambda a, t: np.asarray(t),
    "asarray as float": lambda a, t: np.asarray(t, np.float64),
    "array of tensors": lambda a, t: np.array([t, t]),
    "array of tensors as float": lambda a, t: np.array([t[0], t[1]], np.float64),
    "where": lambda a, t: np.where([True, False], t, 0),
    "concatenate": lambda a, t: np.concatenate([a, t]),
    "stack": lambda a, t: np.stack([t, t]),
    "dot": np.dot,
    "einsum": lambda a, t: np.einsum("i,i->", a, t),
    "clip": lambda a, t: np.clip(t, 0, 1),
    "reshape": lambda a, t: np.reshape(t, (2, 1)),
    "transpose": lambda a, t: np.transpose(t),
    "sum": lambda a, t: np.sum(t),
    "mean": lambda a, t: np.mean(t),
    "max": lambda a, t: np.max(t),
    "linalg.norm": lambda a, t: np.linalg.norm(t),
    "assignment": lambda a, t: a.__setitem__(slice(None), t) or a,
}


@pytest.mark.parametrize("name", NUMPY_FUNCTIONS)
@pytest.mark.filterwarnings("error")
def test_numpys_own_functions_refuse_or_keep_the_graph(name: str, device: str) -> None:
    """chainer/chainer#77: they never return an array of numbers, or of small tensors."""
    array, t = np.array([2, 3], np.float32), leaf([1, 1], device)
    try:
        y = NUMPY_FUNCTIONS[name](array, t)
    except TypeError as error:
        assert "Tensor" in str(error) or "argument" in str(error)
    else:
        assert type(y) is Tensor and y.requires_grad


def test_values_that_are_not_real_numbers_are_refused_by_name(device: str) -> None:
    """Complex numbers, dates, texts and objects do not become tensors by mistake."""
    t = leaf([1, 1], device)
    for wrong in (1j, np.complex64(1j), np.array([1j, 2]), "a", np.str_("a"), None,
                  np.datetime64("2020-01-01"), np.array(["a", "b"]), object(),
                  np.array([1, None], object)):  # fmt: skip
        for apply, _ in ARITHMETIC.values():
            for pair in ((wrong, t), (t, wrong)):
                with pytest.raises(TypeError):
                    apply(*pair)
    for wrong in (1j, "a", None, np.array([1j]), [leaf(1.0)], np.array(["2020"], "datetime64[Y]")):
        with pytest.raises(TypeError):
            Tensor(wrong)


def test_arrays_of_another_device_are_refused_on_either_side() -> None:
    """As in CuPy: nothing is copied between host and GPU implicitly."""
    host, far = np.ones(2, np.float32), leaf([1, 1], "strict")
    near, foreign = leaf([1, 1]), leaf([1, 1], "strict").data
    for apply, _ in ARITHMETIC.values():
        for pair in ((host, far), (far, host), (near, foreign), (foreign, near), (near, far)):
            with pytest.raises(TypeError, match=r"device|strict|cpu"):
                apply(*pair)
    for compare in COMPARISONS:
        for pair in ((host, far), (far, host)):
            with pytest.raises(TypeError):
                compare(*pair)


# dtypes ---------------------------------------------------------------------------------


def test_numpys_scalars_do_not_change_the_dtype(device: str) -> None:
    """HIPS/autograd#163, #199, cupy/cupy#7418: each of these is float64 between arrays."""
    t = leaf([[1.0, 2.0], [3.0, 4.0]], device)
    count = there(np.array([1, 2]), device)
    for y in (
        t / np.sqrt(64), t * np.float64(0.5), t * np.int64(3), t / there(np.array(2), device),
        t / count, t / np.prod(t.shape), t / t.size, t * np.float64(1) ** 0.5, 1 / np.sqrt(2) * t,
        t**0.5, t ** np.float64(0.5), t**2, t.mean(), t.var(axis=0), t.std(), t.norm(),
        t.sum(axis=1), t.max(axis=0), t.cumsum(), t.logsumexp(), t.softmax(), t.log_softmax(),
        t.clip(np.float64(0), np.float64(3)), t.erf(), t.sigmoid(), ops.gelu(t),
        ops.gelu(t, exact=False), ops.relu(t), ops.where(t.data > 2, t, np.float64(0)),
        ops.where(t.data > 2, np.float64(0), t), ops.maximum(t, np.float64(2)),
        ops.minimum(np.int64(2), t), ops.pad(t, 1, value=np.float64(2)),
        ops.dropout(t, rate=np.float64(0.5), dropout_rng=DropoutRNG(0)), ops.tril(t),
        t[0], t[[0, 0]],
        ops.attention(t, t, t, scale=np.float64(0.3)),
        ops.attention(t, t, t, dropout=np.float64(0.3), dropout_rng=DropoutRNG(0)),
        ops.layer_norm(t, t[0], t[1], eps=np.float64(1e-5)),
        ops.linear(t, t, t[0]), t @ t, ops.einsum("ij,jk->ik", t, t), ops.stack([t, t]),
        ops.rotate(t, cos=t.data[:, :1], sin=t.data[:, :1]),
        ops.cross_entropy(t, count - 1, divisor=np.float64(3)), ops.cross_entropy(t, count - 1),
        ops.scatter_add(t, count[:, None] - 1, t[:, :1]), attend(t[0], t, t)[0],
    ):  # fmt: skip
        assert y.dtype == np.float32, y
        t.zero_grad()
        y.backward(np.ones(y.shape))  # also not with a float64 gradient of the result
        assert t.grad.dtype == np.float32, y


def test_the_data_determine_the_dtype_of_a_tensor(device: str) -> None:
    """A mixture of two dtypes is an error, not converted to the wider dtype."""
    for dtype in FLOATS:
        assert Tensor(np.ones(2, dtype), device=device).dtype == dtype
        assert Tensor([1, 2], dtype=dtype, device=device).dtype == dtype
        x = Tensor([1, 2], dtype=dtype, requires_grad=True, device=device)
        x.data = np.array([1.0, 2.0], np.float64)
        assert x.dtype == dtype
        x.backward([1, 1])
        x.backward(np.array([1.0, 1.0]))
        assert x.grad.dtype == dtype
        with no_grad():
            assert (x * np.float64(2)).dtype == dtype
        assert x.detach().dtype == dtype == x.numpy().dtype
    with pytest.raises(TypeError, match="share one dtype"):
        leaf([1.0], device) + Tensor([1.0], dtype="float64", device=device)
    for unsupported in (np.float16, np.longdouble, np.complex64):
        with pytest.raises(TypeError, match="float32 or float64"):
            Tensor(np.ones(2, unsupported))


def double(module: Module) -> None:
    """Convert every parameter to float64."""
    for name, value in list(vars(module).items()):
        if isinstance(value, Parameter):
            setattr(module, name, value.like(value.numpy().astype(np.float64)))
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Module):
                double(item)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, set[str]]]:
    """The dtypes of all results and of all gradients, by the name of the operation."""
    import tinyattn.op as module

    dtypes: dict[str, set[str]] = {}
    result, pull = module.result, Node.pull

    def noted_result(data: Any, node: Any) -> Tensor:
        tensor = result(data, node)
        if node is not None:
            dtypes.setdefault(node.name, set()).add(str(tensor.dtype))
        return tensor

    def noted_pull(self: Node, g: Any, keep: bool) -> Any:
        shares = list(pull(self, g, keep))
        for _, share in shares:
            dtypes.setdefault(f"gradient of {self.name}", set()).add(str(share.dtype))
        return shares

    monkeypatch.setattr(module, "result", noted_result)
    monkeypatch.setattr(Node, "pull", noted_pull)
    yield dtypes


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize(("positions", "gelu"), [("learned", "exact"), ("rotary", "tanh")])
def test_three_steps_of_training_keep_the_models_dtype(
    dtype: Any, optimizer: str, positions: str, gelu: str, device: str,
    seen: dict[str, set[str]],
) -> None:  # fmt: skip
    """HIPS/autograd#671, dlsyscourse/hw2#11, netket/netket#1218: every activation, gradient,
    moment and parameter, with dropout, clipping and a learning rate schedule."""
    config = GPTConfig(vocabulary=7, context=6, layers=2, heads=2, width=8, dropout=0.2,
                       positions=positions, gelu=gelu)  # fmt: skip
    model = GPT(config)
    if dtype is np.float64:
        double(model)
    model.to(device)
    optimizers = make_optimizers(model, optimizer)
    schedule = Schedule("cosine", learning_rate=np.float64(0.02), warmup=1, end=3)
    batch = Batch(np.array([[1, 2, 3, 4], [5, 6, 1, 0]]), np.array([[2, 3, 4, 5], [6, 1, 0, 0]]))
    with Step(language_model_loss(model), optimizers, clip=1e-3, workers=1) as take:
        for step in range(3):
            result = take(batch, step, np.float64(schedule(step)))
            assert math.isfinite(result.loss) and result.norm > 1e-3
    name = np.dtype(dtype).name
    assert len(seen) > 20 and all(dtypes == {name} for dtypes in seen.values()), seen
    for parameter in model.parameters():
        assert parameter.dtype == dtype and parameter.data.dtype == dtype
    for rule in optimizers:
        assert flat_of(rule).values.dtype == flat_of(rule).grads.dtype == dtype
        for moment in rule.state().values():
            assert all(array.dtype == dtype for array in moment.values())


@pytest.mark.parametrize("dtype", FLOATS)
def test_an_attention_block_keeps_its_dtype_with_masks_and_a_context(
    dtype: Any, device: str, seen: dict[str, set[str]]
) -> None:
    """With 1/√D, the mask, the norm, the division by a count."""
    rng = np.random.default_rng(0)
    block, norm, head = MultiHead(4, 2, max_length=5, rng=rng), LayerNorm(4), Linear(4, 3, rng=rng)
    for module in (block, norm, head):
        if dtype is np.float64:
            double(module)
        module.to(device)
    x, z = (Tensor(rng.normal(size=(2, n, 4)).astype(dtype), device=device) for n in (3, 5))
    allowed = asarray(causal(3, 5), device=device)
    y = head(norm(block(x, context=z, allowed=allowed, dropout_rng=DropoutRNG(0))))
    assert block.weights(x, context=z, allowed=allowed).dtype == dtype
    loss = (y * y).sum() / np.prod(y.shape) / np.sqrt(2)
    loss.backward()
    assert all(dtypes == {np.dtype(dtype).name} for dtypes in seen.values()), seen
    for module in (block, norm, head):
        for parameter in module.parameters():
            assert parameter.grad.dtype == dtype


def test_rotary_angles_are_as_exact_as_the_rotated_values() -> None:
    """With float32 tables a float64 result would have only the digits of float32."""
    block = MultiHead(4, 1, max_length=100, rng=np.random.default_rng(0), rotary=Rotary)
    double(block)
    assert block.rotary is not None
    q, k = np.random.default_rng(1).normal(size=(2, 1, 4))
    far = [float((block.rotary(Tensor(q), t) * block.rotary(Tensor(k), t + 5)).sum().item())
           for t in (0, 1, 40, 99)]  # fmt: skip
    np.testing.assert_allclose(far, far[0], rtol=0, atol=1e-12)
    single = block.rotary(Tensor(q.astype(np.float32)), 99)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.data, block.rotary(Tensor(q), 99).data, atol=1e-6)


def test_an_optimizer_refuses_parameters_of_two_dtypes() -> None:
    """One flat array would convert some of them without an error."""
    mixed = [("a", Parameter(np.ones(2, np.float32))), ("b", Parameter(np.ones(2)))]
    with pytest.raises((TypeError, ValueError), match="dtype"):
        AdamW(mixed)
    assert mixed[0][1].dtype == np.float32 and mixed[1][1].dtype == np.float64
