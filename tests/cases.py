"""What every operation should compute, in plain NumPy: one table, used by several tests.

A formula receives the array module first. Run with NumPy it gives the value; run with HIPS
autograd's NumPy, the same line gives a gradient that is independent of this package.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tinyattn.backend import asarray, asnumpy
from tinyattn.nn import Module
from tinyattn.rng import DropoutRNG
from tinyattn.tensor import OPS, Tensor

Formula = Callable[..., Any]
rng = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """One call of an op. Float arrays get gradients; all other arguments are data."""

    formula: Formula  # (np, *args, **options) -> value
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    autograd: bool = True  # whether HIPS autograd can differentiate the formula

    @property
    def floats(self) -> list[int]:
        """Which arguments get gradients."""
        return [i for i, arg in enumerate(self.args) if is_float_array(arg)]

    @property
    def options(self) -> dict[str, Any]:
        """Fresh copies, because a DropoutRNG counts its calls."""
        return {key: copy.copy(value) for key, value in self.kwargs.items()}

    def with_floats(self, floats: Any) -> list[Any]:
        """The arguments, with the float arrays replaced."""
        args = list(self.args)
        for i, value in zip(self.floats, floats, strict=True):
            args[i] = value
        return args

    def expected(self) -> Any:
        return self.formula(np, *self.args, **self.options)

    def leaves(self, device: str = "cpu", dtype: str = "float64") -> list[Tensor]:
        return [
            Tensor(self.args[i], dtype=dtype, device=device, requires_grad=True)
            for i in self.floats
        ]

    def call(self, name: str, leaves: Any) -> Tensor:
        """The op itself, with `leaves` as the float arrays and the others on their device."""
        device = leaves[0].device
        args = [place(arg, device) for arg in self.with_floats(leaves)]
        return OPS[name](*args, **{k: place(v, device) for k, v in self.options.items()})

    def gradients(self, name: str, leaves: list[Tensor], cotangent: Any) -> tuple[Any, list[Any]]:
        """Value and gradients on the host."""
        y = self.call(name, leaves)
        y.backward(asarray(cotangent, device=leaves[0].device))
        return y.numpy(), [asnumpy(leaf.grad) for leaf in leaves]


def is_float_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def place(value: Any, device: str) -> Any:
    return asarray(value, device=device) if isinstance(value, np.ndarray) else value


def cotangent_of(case: Case) -> np.ndarray:
    """A random gradient of the result: with ones, mistakes in a softmax cancel out."""
    return np.random.default_rng(1).standard_normal(np.shape(case.expected()))


def case(formula: Formula, *args: Any, autograd: bool = True, **options: Any) -> Case:
    return Case(formula, args, options, autograd)


# Numbers -----------------------------------------------------------------------------------


def normal(*shape: int) -> np.ndarray:
    return np.asarray(rng.standard_normal(shape))


def positive(*shape: int) -> np.ndarray:
    return np.asarray(rng.uniform(0.5, 2.0, shape))


def bits(*shape: int) -> np.ndarray:
    return np.asarray(rng.random(shape) < 0.6)


# Formulas ----------------------------------------------------------------------------------


def like(name: str) -> Formula:
    """The function of NumPy with this name."""
    return lambda np, *args, **options: getattr(np, name)(*args, **options)


def erf(np: Any, x: Any) -> Any:
    return np.vectorize(math.erf, otypes=[float])(x)


def gelu(np: Any, x: Any, exact: bool = True) -> Any:
    if exact:
        return x * (1 + erf(np, x / math.sqrt(2))) / 2
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def where(np: Any, condition: Any, a: Any, b: Any) -> Any:
    return condition * a + ~condition * b


def reshape(np: Any, x: Any, shape: Any) -> Any:
    return np.reshape(x, shape)  # by position: the keyword is newer than NumPy 2.0


def transpose(np: Any, x: Any, axes: Any = None) -> Any:
    return np.transpose(x, None if axes is None else [int(a) % x.ndim for a in axes])


def norm(np: Any, x: Any, **options: Any) -> Any:
    return np.sqrt(np.sum(x**2, **options))


def logsumexp(np: Any, x: Any, axis: Any = -1, keepdims: bool = False) -> Any:
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


def softmax(np: Any, x: Any, allowed: Any = True, axis: int = -1) -> Any:
    e = np.where(allowed, np.exp(x), 0.0)
    total = np.sum(e, axis=axis, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def layer_norm(np: Any, x: Any, gain: Any, bias: Any, eps: float = 1e-5) -> Any:
    mean, var = (f(x, axis=-1, keepdims=True) for f in (np.mean, np.var))
    return (x - mean) / np.sqrt(var + eps) * gain + bias


def cross_entropy(
    np: Any, z: Any, targets: Any, ignore: int | None = None, divisor: float | None = None
) -> Any:
    counts = targets != ignore
    one_hot = (targets[..., None] == np.arange(z.shape[-1])) & counts[..., None]
    nats = np.sum(one_hot * (logsumexp(np, z, keepdims=True) - z))
    return nats / (divisor or max(counts.sum(), 1))


def attention(
    np: Any, q: Any, k: Any, v: Any, allowed: Any = True, causal: bool = False,
    scale: float | None = None, dropout: float = 0.0, dropout_rng: DropoutRNG | None = None,
) -> Any:  # fmt: skip
    scale = 1 / math.sqrt(max(1, q.shape[-1])) if scale is None else scale
    if causal:
        T, S = q.shape[-2], k.shape[-2]
        allowed = np.logical_and(allowed, np.arange(S) <= np.arange(T)[:, None] + (S - T))
    weights = softmax(np, scale * np.matmul(q, np.swapaxes(k, -1, -2)), allowed)
    dropped = drop(np, np.swapaxes(weights, -1, -2), dropout, dropout_rng)  # keys first
    return np.matmul(np.swapaxes(dropped, -1, -2), v)


def drop(np: Any, x: Any, rate: float, dropout_rng: DropoutRNG | None) -> Any:
    return x if dropout_rng is None else x * dropout_rng.mask(rate).keep(np, x.shape) / (1 - rate)


def rotate(np: Any, x: Any, cos: Any, sin: Any) -> Any:
    a, b = x[..., 0::2], x[..., 1::2]
    return np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)


def flip(np: Any, x: Any, axis: Any = None) -> Any:
    axes = range(x.ndim) if axis is None else [a % x.ndim for a in np.atleast_1d(axis)]
    return x[tuple(slice(None, None, -1 if i in axes else 1) for i in range(x.ndim))]


def picks(np: Any, indices: Any, n: int) -> Any:
    """One-hot rows: 1 at the index, which counts from the end if it is negative."""
    return 1.0 * (indices.astype(int)[..., None] % n == np.arange(n))


def gather(np: Any, x: Any, indices: Any, axis: int = -1) -> Any:
    x, indices = np.swapaxes(x, axis, -1), np.swapaxes(indices, axis, -1)
    y = np.einsum("...mn,...n->...m", picks(np, indices, x.shape[-1]), x)
    return np.swapaxes(y, axis, -1)


def scatter_add(np: Any, x: Any, indices: Any, values: Any, axis: int = -1) -> Any:
    indices, values = np.swapaxes(indices, axis, -1), np.swapaxes(values, axis, -1)
    added = np.einsum("...mn,...m->...n", picks(np, indices, x.shape[axis]), values)
    return x + np.swapaxes(added, axis, -1)


def take_rows(np: Any, x: Any, indices: Any, axis: int = 0) -> Any:
    return np.swapaxes(np.swapaxes(x, 0, axis)[indices], 0, axis)


def embedding(np: Any, weight: Any, ids: Any) -> Any:
    return np.matmul(picks(np, ids, len(weight)), weight)


def linear(np: Any, x: Any, weight: Any, bias: Any = 0.0) -> Any:
    return np.matmul(x, weight) + bias


def einsum(np: Any, *operands: Any, equation: str) -> Any:
    return np.einsum(equation, *operands)


# Cases -------------------------------------------------------------------------------------


def unary(formula: Formula, draw: Callable[..., Any] = normal, **options: Any) -> list[Case]:
    """A function of each element: for many elements, one, and none."""
    return [case(formula, draw(*shape), **options) for shape in [(3, 4), (), (0, 2)]]


def binary(formula: Formula, draw: Callable[..., Any] = normal) -> list[Case]:
    """A function of two operands: of one shape, broadcast in each way, and with scalars."""
    pairs: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((3, 4), (3, 4)), ((3, 4), (4,)), ((2, 1, 3), (4, 1)),
        ((), (2, 3)), ((), ()), ((0, 2), (1,)),
    ]  # fmt: skip
    cases = [case(formula, draw(*a), draw(*b)) for a, b in pairs]
    return [*cases, case(formula, draw(2, 3), 1.5), case(formula, 2, draw(2, 3))]


def reduction(formula: Formula, **first: Any) -> list[Case]:
    """Every way to give axes."""
    ways: list[dict[str, Any]] = [
        first, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 2)},
        {"axis": (-1, 1), "keepdims": True}, {"axis": None, "keepdims": True}, {"axis": ()},
        {"axis": np.int64(1)}, {"axis": (np.int64(2), 0)},
    ]  # fmt: skip
    return [*(case(formula, normal(2, 3, 4), **way) for way in ways), case(formula, normal(1, 1))]


angles = normal(5, 3)
lower = np.tri(4, dtype=bool)
window = np.tri(70, 140, 60, dtype=bool) & ~np.tri(70, 140, 10, dtype=bool)

CASES: dict[str, list[Case]] = {
    "add": binary(like("add")),
    "subtract": binary(like("subtract")),
    "negative": unary(like("negative")),
    "multiply": binary(like("multiply")),
    "divide": binary(like("divide"), positive),
    "power": [
        *binary(like("power"), positive),
        *(case(like("power"), normal(2, 3), n) for n in (0, 1, 2, 3, 4, -1)),
        case(like("power"), positive(2, 3), -0.5),
    ],
    "exp": unary(like("exp")),
    "log": unary(like("log"), positive),
    "sqrt": unary(like("sqrt"), positive),
    "tanh": unary(like("tanh")),
    "sigmoid": unary(lambda np, x: 1 / (1 + np.exp(-x))),
    "erf": unary(erf, autograd=False),
    "absolute": unary(like("absolute")),
    "relu": unary(lambda np, x: np.where(x > 0, x, 0)),
    "gelu": unary(gelu, autograd=False) + unary(gelu, exact=False),
    "where": [
        case(where, bits(3, 4), normal(3, 4), normal(3, 4)),
        case(where, bits(3, 1), normal(4), normal(2, 1, 1)),
        case(where, bits(2, 3), normal(2, 3), 7.0),
        case(where, np.array(True), 7, normal(2, 0)),
    ],
    "maximum": binary(like("maximum")),
    "minimum": binary(like("minimum")),
    "clip": [
        case(lambda np, x, low, high: np.clip(x, low, high), normal(3, 4), low=-0.5, high=0.7),
        case(lambda np, x, low: np.maximum(x, low), normal(3, 4), low=0.1),
        case(lambda np, x, high: np.minimum(x, high), normal(), high=-0.1),
        case(lambda np, x: x, normal(2)),
    ],
    "sum": [*reduction(like("sum")), case(like("sum"), normal(0, 2)), case(like("sum"), normal())],
    "mean": reduction(like("mean")),
    "max": reduction(like("max")),
    "min": reduction(like("min")),
    "var": reduction(like("var"), axis=1),
    "std": [case(like("std"), normal(2, 3, 4), axis=axis) for axis in (None, 1, (0, 2))],
    "norm": reduction(norm),
    "cumsum": [
        *(case(like("cumsum"), normal(3, 4), axis=axis) for axis in (0, 1, -1, None)),
        case(lambda np, x, axis: x * 1.0, normal(), axis=0),
    ],
    "logsumexp": reduction(logsumexp),
    "reshape": [
        case(reshape, normal(2, 6), shape=(3, -1)),
        case(reshape, normal(1, 1), shape=()),
        case(reshape, normal(0, 2), shape=(4, 0)),
    ],
    "transpose": [
        case(transpose, normal(2, 3, 4)),
        case(transpose, normal(2, 3, 4), axes=(1, -1, 0)),
        case(transpose, normal(2, 3, 4), axes=(np.int64(2), np.int8(0), 1)),
        case(transpose, normal()),
    ],
    "swapaxes": [
        case(lambda np, x, first, second: np.swapaxes(x, first, second),
             normal(2, 3, 4), first=0, second=-1),
    ],
    "broadcast_to": [
        case(lambda np, x, shape: x + np.zeros(shape), normal(*own), shape=(2, 3, 4))
        for own in [(), (4,), (3, 1), (2, 1, 4), (2, 3, 4)]
    ],
    "expand_dims": [case(like("expand_dims"), normal(2, 3), axis=a) for a in (0, -1, (1, 3))],
    "squeeze": [case(like("squeeze"), normal(1, 3, 1), axis=a) for a in (None, 0, -1, (0, 2))],
    "flip": [case(flip, normal(2, 3), axis=axis) for axis in (None, 0, -1, (0, 1))],
    "pad": [
        case(lambda np, x, widths, value=0.0:
             np.pad(x, widths, mode="constant", constant_values=value),
             normal(2, 3), widths=widths, value=value)
        for widths, value in [(1, 0.0), ((1, 2), 3.0), (((1, 0), (2, 3)), -1.0), (((0, 2),), 0.0),
                              (np.int64(2), np.float32(1)),
                              (((np.int8(1), 0), (2, np.int64(3))), 0.0)]
    ],
    "tril": [
        case(lambda np, x, offset=0: np.tril(x, offset), normal(2, 3, 4), offset=offset)
        for offset in (0, 1, -1)
    ],
    "concatenate": [
        case(lambda np, *xs, axis=0: np.concatenate(xs, axis=axis), *xs, axis=axis)
        for xs, axis in [((normal(2, 3), normal(1, 3), normal(0, 3)), 0),
                         ((normal(2, 3), normal(2, 1)), -1), ((normal(4),), 0)]
    ],
    "getitem": [
        case(lambda np, x, index: x[index], normal(3, 4, 5), index=index)
        for index in [
            1, -1, slice(None, None, -2), (..., 0), (slice(1, 3), None, 2), (1, 2, 3),
            [0, 0, 2], ([0, 1, 0], [1, -3, 1]), (slice(None), np.array([[0, 3], [3, 3]])),
            (np.array([0, 0]), slice(None), np.array([1, 1])), bits(3, 4, 5), bits(3), (bits(3), 0),
            np.array([2, 2, 0]), [], (None, np.array([[1], [1]]), ..., [0, 0]),
        ]
    ],
    "take": [
        case(take_rows, normal(3, 4), np.array([2, 0, 2, -1])),
        case(take_rows, normal(3, 4), np.array([3, 3]), axis=-1),
        case(like("take"), normal(3, 4, 2), np.array([[0, 1], [1, 3]]), axis=1, autograd=False),
        case(like("take"), normal(3, 4), 1, axis=1, autograd=False),
        case(take_rows, normal(3, 4), np.array([2, 0, 2], np.uint8), axis=np.int64(1)),
        case(take_rows, normal(3, 4), np.array([-1, 1, -3, 0], np.int8)),
        case(take_rows, normal(3, 4), np.array([], int)),
    ],
    "gather": [
        case(gather, normal(2, 5), np.array([[0, 0, -1], [4, 3, 4]])),
        case(gather, normal(3, 2, 2), rng.integers(3, size=(4, 2, 2)), axis=0),
        case(gather, normal(2, 300), np.array([[255, 0], [7, 255]], np.uint8)),
    ],
    "scatter_add": [
        case(scatter_add, normal(2, 5), np.array([[0, 0, -1], [4, 3, 4]]), normal(2, 3)),
        case(scatter_add, normal(3, 2), rng.integers(3, size=(4, 2)), normal(4, 2), axis=0),
        case(scatter_add, normal(2, 5), np.array([[0, -1], [4, 4]], np.int16), normal(2, 2)),
    ],
    "embedding": [
        case(embedding, normal(5, 3), ids)
        for ids in [np.array([[0, 2, 2], [4, 0, 0]]), np.array(3), np.zeros((2, 0), int),
                    np.array([4, 0, 4], np.int8), np.array([3, 3], np.uint16)]
    ] + [case(embedding, normal(256, 2), np.array([[255, 0], [255, 128]], np.uint8))],
    "matmul": [
        case(like("matmul"), normal(*a), normal(*b))
        for a, b in [((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)),
                     ((5, 2, 3), (3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((3,), (2, 3, 4)),
                     ((5, 2, 3), (3,)), ((2, 0), (0, 3))]
    ],
    "linear": [
        case(linear, normal(2, 5, 3), normal(3, 4), normal(4)),
        case(linear, normal(5, 3), normal(3, 4)),
        case(linear, normal(3), normal(3, 4), normal(4)),
        case(linear, normal(0, 3), normal(3, 4), normal(4)),
        case(linear, normal(2, 5, 0), normal(0, 4), normal(4)),
        case(linear, normal(2, 5, 3), normal(3, 0), normal(0)),
    ],
    "einsum": [
        case(einsum, normal(2, 3), normal(3, 4), equation="ij,jk->ik"),
        case(einsum, normal(2, 3), normal(3, 4), equation="ij,jk"),
        case(einsum, normal(2, 3), normal(2, 4), normal(3), equation="ij,ik,j->k"),
        case(einsum, normal(2, 5, 3), normal(4, 1, 3, 2), equation="...ij,...jk->i...k"),
        case(einsum, normal(2, 3, 4), normal(3, 4), equation="...j,...j->..."),
        case(einsum, normal(3, 3), equation="ii->", autograd=False),
        case(einsum, normal(3, 3, 2), equation="iij->ji", autograd=False),
        case(einsum, normal(2, 3), normal(4), equation="ij,k->i"),
        case(einsum, normal(3), normal(1), equation="i,i->", autograd=False),
    ],
    "rotate": [
        case(rotate, normal(*shape), cos=np.cos(angles), sin=np.sin(angles))
        for shape in [(5, 6), (2, 3, 5, 6)]
    ],
    "softmax": [
        case(softmax, normal(3, 4)),
        case(softmax, normal(3, 4), axis=0),
        case(softmax, normal(2, 4, 4), lower),
        case(softmax, normal(2, 3), np.array([[True, False, True], [False, False, False]])),
    ],
    "log_softmax": [
        case(lambda np, x, axis=-1: x - logsumexp(np, x, axis, keepdims=True), x, axis=axis)
        for x, axis in [(normal(3, 4), -1), (normal(3, 4), 0), (normal(1), -1)]
    ],
    "layer_norm": [
        case(layer_norm, normal(*shape), normal(4), normal(4), eps=eps)
        for shape, eps in [((3, 4), 1e-5), ((2, 3, 4), 0.1), ((4,), 1e-5), ((0, 4), 1e-5)]
    ],
    "cross_entropy": [
        case(cross_entropy, normal(3, 5), np.array([0, 4, 0])),
        case(cross_entropy, normal(2, 2, 5), np.array([[1, -1], [-1, 3]]), ignore=-1),
        case(cross_entropy, normal(2, 5), np.array([1, 2]), ignore=2, divisor=7.0),
        case(cross_entropy, normal(2, 5), np.array([2, 2]), ignore=2),
        case(cross_entropy, normal(5), np.array(3)),
    ],
    "dropout": [
        case(drop, normal(4, 5), rate=0.4, dropout_rng=DropoutRNG(3)),
        case(drop, normal(3), rate=0.0, dropout_rng=DropoutRNG(3)),
        case(drop, normal(), rate=0.5, dropout_rng=DropoutRNG(3)),
        case(drop, normal(4, 5), rate=0.4, dropout_rng=None),
    ],
    "attention": [
        case(attention, normal(3, 2), normal(4, 2), normal(4, 5)),
        case(attention, *(normal(2, 3, 4, 2) for _ in "qkv"), lower),
        case(attention, *(normal(2, 4, 3) for _ in "qkv"), bits(2, 4, 4), scale=0.3),
        case(attention, *(normal(2, 4, 3) for _ in "qkv"), lower, scale=20.0),
        case(attention, normal(4, 3), normal(2, 4, 3), normal(5, 1, 4, 2), lower),
        case(attention, *(normal(2, 1, 3, 2) for _ in "qkv"),
             dropout=0.5, dropout_rng=DropoutRNG(5)),
        case(attention, normal(2, 3), normal(4, 3), normal(4, 2), np.zeros((2, 4), bool)),
        case(attention, normal(2, 0, 3), normal(2, 4, 3), normal(2, 4, 3)),
        case(attention, normal(2, 0, 3), normal(2, 4, 3), normal(2, 4, 3), np.ones((1, 4), bool)),
        case(attention, *(normal(1, 2, 130, 2) for _ in "qkv"), np.tri(130, dtype=bool)),
        case(attention, *(normal(1, 1, 70, 2) for _ in "qkv"), np.tri(70, dtype=bool),
             dropout=0.5, dropout_rng=DropoutRNG(5)),
        case(attention, normal(2, 70, 2), normal(2, 140, 2), normal(2, 140, 2), window),
        case(attention, *(normal(2, 1, 70, 2) for _ in "qkv"), causal=True),
        case(attention, normal(3, 2), normal(5, 2), normal(5, 3), causal=True),
        case(attention, normal(5, 2), normal(3, 2), normal(3, 3), causal=True),
        case(attention, normal(2, 3, 0), normal(2, 4, 0), normal(2, 4, 2)),
        case(attention, normal(2, 3, 2), normal(2, 4, 2), normal(2, 4, 0)),
        case(attention, normal(2, 5, 2), normal(1, 6, 2), normal(6, 3), bits(5, 6), causal=True,
             dropout=0.5, dropout_rng=DropoutRNG(5)),
    ],
}  # fmt: skip


def cases_where(holds: Callable[[str, Case], bool]) -> pytest.MarkDecorator:
    """Run a test on all cases that satisfy a condition."""
    chosen = [
        pytest.param(name, case, id=f"{name}-{i}")
        for name, cases in CASES.items()
        for i, case in enumerate(cases)
        if holds(name, case)
    ]
    return pytest.mark.parametrize(("name", "case"), chosen)


every_case = cases_where(lambda name, case: True)


def in_float64(module: Module) -> Any:
    """The module with parameters in float64, so that rounding does not hide a difference."""
    for _, owner, key, parameter in list(module._walk()):
        owner[key] = parameter.like(parameter.numpy().astype(np.float64), parameter.device)
    return module
