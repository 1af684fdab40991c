"""Randomly drawn calls of every formula that has a kernel: `CASES`, by the formula's name.

A kernel without an entry fails its test (test_kernels.py). An entry is a Hypothesis strategy of a
`Call`: arrays of odd sizes, empty, and larger than a tile or a warp; small and large values, ties,
NaN and ∞; and arrays with any order in memory, with gaps, backwards or broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from tinyattn.backend import asarray, get_device
from tinyattn.rng import DropoutRNG

ORDERS = ["plain", "plain", "transposed", "heads", "gaps", "backwards"]
SCALES = [1.0, 1.0, 1e-3, 30.0]
SIZES = [1, 2, 3, 5, 7, 33, 70]
"""Sizes of an axis; 33 is more than one warp, 70 more than two."""

Shape = tuple[int, ...]
Change = Callable[[np.ndarray], np.ndarray]


class Numbers(NamedTuple):
    """An array, and its order in memory."""

    values: np.ndarray
    order: str = "plain"

    def __repr__(self) -> str:
        return f"{self.values.dtype}{self.values.shape} {self.order}"

    def on(self, device: str) -> Any:
        """A new array on a device, with this order in memory."""
        xp = get_device(device).xp
        a = asarray(self.values.copy(), device=device)
        if self.order == "transposed" and a.ndim > 1:
            return xp.ascontiguousarray(a.swapaxes(0, -1)).swapaxes(0, -1)
        if self.order == "heads" and a.ndim > 2:  # like heads, which are slices of one array
            return xp.ascontiguousarray(a.swapaxes(-3, -2)).swapaxes(-3, -2)
        if self.order == "gaps" and a.ndim:
            wide = xp.zeros((*a.shape[:-1], 2 * a.shape[-1]), dtype=a.dtype)
            wide[..., ::2] = a
            return wide[..., ::2]
        if self.order == "backwards" and a.ndim:
            return xp.ascontiguousarray(a[..., ::-1])[..., ::-1]
        if self.order == "broadcast" and a.ndim and len(a):
            return xp.broadcast_to(a[:1], a.shape)
        return a


class Call:
    """Arguments, positional and by name, and the gradient of the result.

    Args:
        arguments: `Numbers`, lists of these, and plain values; a `Source` of random bits.
        g: shape of the value -> its gradient.
        terms: (arrays in float64, g in float64 if it is an op) -> for the value and each gradient,
            or each array that may be written to, the size of the terms of its sums, where they are
            larger than the result.
        zeros: -> for the value and each gradient, where it is exactly 0; or None.
    """

    def __init__(
        self,
        *arguments: Any,
        g: Callable[[Shape], Numbers] | None = None,
        terms: Callable[..., list[Any]] | None = None,
        zeros: list[Any] | None = None,
        **options: Any,
    ) -> None:
        self.arguments, self.options, self.g = arguments, options, g
        self.terms, self.zeros = terms, zeros

    def __repr__(self) -> str:
        options = [f"{name}={value!r}" for name, value in self.options.items()]
        return f"Call({', '.join([*map(repr, self.arguments), *options])})"

    def arrays(self) -> Iterator[np.ndarray]:
        """All arrays of the arguments."""
        for value in [*self.arguments, *self.options.values()]:
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, Numbers):
                    yield one.values

    def on(self, device: str, change: Change | None = None) -> tuple[list[Any], dict[str, Any]]:
        """New arguments for a device; `change` is applied to float arrays, then plain in memory."""
        return (
            [_placed(a, device, change) for a in self.arguments],
            {name: _placed(a, device, change) for name, a in self.options.items()},
        )


class Source(NamedTuple):
    """A source of random bits: a `DropoutRNG` counts its calls, so each side gets a new one."""

    seed: int
    step: int
    first_row: int


def _placed(value: Any, device: str, change: Change | None) -> Any:
    if isinstance(value, list):
        return [_placed(one, device, change) for one in value]
    if isinstance(value, Source):
        return DropoutRNG(*value)
    if not isinstance(value, Numbers):
        return value
    if change is not None and value.values.dtype.kind == "f":
        return Numbers(change(value.values)).on(device)
    return value.on(device)


# Drawing -----------------------------------------------------------------------------------


class Drawing:
    """Draws the arguments of a call. Its arrays have one dtype.

    Everything is derived from one seed: Hypothesis often tries variants of earlier examples, and
    then would leave out many calls.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = np.dtype(self.one_of("float32", "float64"))

    def one_of(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def seldom(self) -> bool:
        return bool(self.rng.random() < 1 / 12)

    def size(self, *more: int) -> int:
        return int(self.one_of(*SIZES, *more))

    def shape(self, least: int = 1, most: int = 4) -> Shape:
        """A shape with the given number of axes, of which one may have size 0."""
        found = [self.one_of(1, 2, 3, 5) for _ in range(self.rng.integers(least, most + 1))]
        if found and self.one_of(True, False):
            found[-1] = self.size()
        if found and self.seldom():
            found[self.rng.integers(len(found))] = 0
        return tuple(found)

    def values(self, shape: Shape, scale: float | None = None) -> np.ndarray:
        """Normally distributed values, or integers, many of which are equal."""
        found = self.rng.standard_normal(shape)
        if self.one_of(False, False, True):
            found = np.round(found)
        return np.asarray(found * (self.one_of(*SCALES) if scale is None else scale), self.dtype)

    def numbers(
        self, shape: Shape, scale: float | None = None, wild: bool = False, orders: Any = ORDERS
    ) -> Numbers:
        """An array. Args: wild: some elements may be NaN or ∞."""
        values, order = self.values(shape, scale), self.one_of(*orders)
        if wild and values.size and self.seldom():
            some = self.rng.random(shape) < 0.1
            values[some] = self.rng.choice([math.nan, math.inf, -math.inf], some.sum())
        if orders is ORDERS and shape and shape[0] and self.seldom():
            values, order = np.repeat(values[:1], shape[0], axis=0), "broadcast"
        return Numbers(values, order)

    def integers(self, low: int, high: int, shape: Shape) -> Numbers:
        """Integers from low to high - 1."""
        return Numbers(self.rng.integers(low, high, shape), self.one_of(*ORDERS))

    def gradient(self, unused: Any = ()) -> Callable[[Shape], Numbers]:
        """A gradient with any order in memory. Args: unused: an index where it is 0."""
        seed, scale = int(self.rng.integers(100)), self.one_of(*SCALES)
        order, even = self.one_of(*ORDERS), self.seldom()

        def g(shape: Shape) -> Numbers:
            values = np.asarray(np.random.default_rng(seed).standard_normal(shape) * scale)
            if even and shape:  # all equal along the first axis, as in the gradient of a sum
                values = np.repeat(values[:1], shape[0], axis=0)
            if unused:
                values[unused] = 0
            return Numbers(values.astype(self.dtype), "broadcast" if even else order)

        return g

    def source(self) -> Source:
        return Source(int(self.rng.integers(100)), self.one_of(0, 7), self.one_of(0, 5))


CASES: dict[str, st.SearchStrategy[Call]] = {}
"""Calls of each formula that has a kernel, by its name."""


def case(function: Callable[[Drawing], Call]) -> None:
    """Decorator: `function` draws calls of the formula with its name."""
    seeds = st.integers(0, 2**32 - 1)
    CASES[function.__name__] = seeds.map(lambda seed: function(Drawing(seed)))


# Operations --------------------------------------------------------------------------------


@case
def erf(d: Drawing) -> Call:
    d.dtype = np.dtype("float64" if d.seldom() else "float32")
    return Call(d.numbers(d.shape(0), wild=True), g=d.gradient())


@case
def gelu(d: Drawing) -> Call:
    """The float64 formula 1 + erf loses the digits far below 0; kernels keep them."""
    lost = 1.0 if d.dtype == np.float64 else 0.0

    def terms(x: Any, g: Any) -> list[Any]:
        return [lost * np.minimum(abs(x), 40), lost * abs(g)]

    x, exact = d.numbers(d.shape(0), wild=True), d.one_of(True, False)
    return Call(x, g=d.gradient(), terms=terms, exact=exact)


@case
def layer_norm(d: Drawing) -> Call:
    """Also of many rows, and of rows whose squares overflow or vanish."""
    lead = d.one_of(d.shape(0, 3), d.shape(0, 3), (d.one_of(511, 513, 1111),))
    C = d.size()
    scale, eps = d.one_of(1.0, 1e-3, 30.0), d.one_of(1e-5, 1e-3, 1.0)
    x = d.numbers((*lead, C), scale, wild=True)
    if C > 2 and d.one_of(False, False, True):
        rows = d.rng.standard_normal((*lead, C)) * d.one_of(1e-25, 1e-12, 1e15, 1e25)
        x, eps = Numbers(np.asarray(rows, d.dtype), x.order), d.one_of(0.0, 1e-36, 1e-5)
        x = x._replace(order="plain") if x.order == "broadcast" else x

    def terms(x: Any, gain: Any, bias: Any, g: Any) -> list[Any]:
        """For rows of two elements dx is nearly 0, a difference of larger terms. The last gradients
        are sums over all rows, and rounding errors grow with these."""
        with np.errstate(all="ignore"):
            dx = abs(g * gain) / np.sqrt(x.var(axis=-1, keepdims=True) + eps)
        size = math.sqrt(max(1, math.prod(lead))) * abs(g.reshape(-1, C)).sum(axis=0)
        return [0, np.where(np.isfinite(dx), dx, 0), size, size]

    return Call(x, d.numbers((C,)), d.numbers((C,)), g=d.gradient(), terms=terms, eps=eps)


@case
def cross_entropy(d: Drawing) -> Call:
    """Ignored rows may have any values."""
    lead, V = d.shape(0, 3), d.size()
    targets = d.integers(0, V, lead)
    z, ignore = d.numbers((*lead, V), wild=True), d.one_of(None, 0, -1)
    if ignore == -1:
        gone = d.rng.random(lead) < d.one_of(0.3, 0.3, 1.0)
        targets = targets._replace(values=np.where(gone, -1, targets.values))
        if z.order != "broadcast":
            z.values[gone] = d.one_of(0, math.nan, math.inf)
    divisor = d.one_of(None, 7.0)
    zeros = None if ignore is None else targets.values == ignore

    def terms(z: Any, targets: Any, g: Any) -> list[Any]:
        count = targets.size if ignore is None else (targets != ignore).sum()
        return [0, abs(g) / (divisor or max(1, count))]

    return Call(
        z, targets, g=d.gradient(), terms=terms, ignore=ignore, divisor=divisor,
        zeros=[None, None if zeros is None else np.broadcast_to(zeros[..., None], z.values.shape)],
    )  # fmt: skip


@case
def embedding(d: Drawing) -> Call:
    V, C = d.size(), d.size()
    return Call(d.numbers((V, C), wild=True), d.integers(0, V, d.shape(0, 3)), g=d.gradient())


@case
def linear(d: Drawing) -> Call:
    lead, C, F = d.shape(0, 3), d.size(), d.size()
    C, F = (0 if d.seldom() else n for n in (C, F))
    bias = d.numbers((F,)) if d.one_of(True, False) else None
    return Call(d.numbers((*lead, C), wild=True), d.numbers((C, F)), bias, g=d.gradient())


@case
def rotate(d: Drawing) -> Call:
    lead, T, pairs = d.shape(0, 2), d.size(), d.one_of(1, 2, 5, 40)
    angles = d.rng.standard_normal((T, pairs))
    cos, sin = (Numbers(f(angles).astype(d.one_of(d.dtype, np.float64))) for f in (np.cos, np.sin))
    return Call(d.numbers((*lead, T, 2 * pairs), wild=True), g=d.gradient(), cos=cos, sin=sin)


@case
def dropout(d: Drawing) -> Call:
    """Dropped elements are exactly 0, whatever their values were."""
    x = d.numbers(d.shape(1 if d.seldom() else 2), wild=True)
    rate, source = d.one_of(0.1, 0.5, 0.997, 255 / 256), d.source()
    rate = min(rate, 255 / 256)
    gone = ~np.asarray(DropoutRNG(*source).mask(rate).keep(np, x.values.shape))
    return Call(x, g=d.gradient(), rate=rate, dropout_rng=source, zeros=[gone, gone])


@case
def attention(d: Drawing) -> Call:
    """Mostly heads of several sequences; also of none or one, or with broadcast leading axes."""
    T, S = (d.one_of(1, 2, 3, 5, 17, 33, 40) for _ in "TS")
    if d.one_of(False, True):
        S = T
    D, E = d.one_of(1, 3, 8), d.one_of(1, 2, 5)
    lead = d.one_of(1, 2, 3), d.one_of(1, 2)
    leads: tuple[Shape, ...] = (lead, lead, lead)
    if d.seldom():  # one of the two, so that a kernel of four axes takes most calls
        if d.one_of(False, True):
            leads = d.one_of(((), (), ()), ((2,), (2,), (2,)), ((2, 1), (1, 3), (3,)))
        else:
            T, S, D = d.one_of((0, S, D), (T, 0, D), (T, S, 0))
    shapes = (*leads[0], T, D), (*leads[1], S, D), (*leads[2], S, E)
    sharp = d.one_of(1.0, 1e-3, 30.0)  # scores of several hundreds
    q, k, v = (d.numbers(s, c) for s, c in zip(shapes, (sharp, sharp, None), strict=True))
    lead = np.broadcast_shapes(*leads)
    causal, scale = d.one_of(False, True), d.one_of(None, 0.7)
    rate = d.one_of(0.0, 0.0, 0.3)

    allowed = None
    if d.one_of(False, True, True):
        full = (*lead, T, S)
        axes = d.one_of(*range(1, len(full) + 1))  # that the mask has
        shape = [1 if d.seldom() else n for n in full[-axes:]]
        mask = d.rng.random(shape) < d.one_of(0.6, 0.6, 0.1, 0.95)
        if len(shape) > 1 and shape[-2] and d.one_of(False, True):
            mask[..., d.rng.integers(shape[-2]), :] = False
        allowed = Numbers(mask, d.one_of(*ORDERS))
    # NaN and ∞: at hidden keys; in an output that is not used; or at visible keys, if no weight
    # underflows to 0, which would hide them.
    bad = d.one_of(math.nan, math.inf, -math.inf)
    where = d.one_of(None, None, "hidden", "unused", "seen")
    if where and leads[0] == leads[2] and T and S and (sharp < 30 or where == "hidden"):
        q, k, v = (a._replace(order="plain") if a.order == "broadcast" else a for a in (q, k, v))
    else:
        where = None
    if where == "unused":
        mask = np.ones((T, S), bool)
        mask[:-1, -1] = False
        allowed = Numbers(mask)
        d.one_of(q, k, v).values[..., -1, :] = bad
    seen = np.broadcast_to(True if allowed is None else allowed.values, (*lead, T, S))
    if causal:
        seen = seen & np.tri(T, S, S - T, dtype=bool)
    blind, hidden = ~seen.any(axis=-1), ~seen.any(axis=-2)
    if where == "hidden":
        q.values[blind], k.values[hidden], v.values[hidden] = bad, bad, bad
    if where == "seen":
        a = d.one_of(q, v)
        a.values[tuple(d.rng.integers(n) for n in a.values.shape)] = math.nan
    if where is None and d.seldom() and T and S and D:  # keys whose scores are -∞, perhaps all
        k = k._replace(order="plain") if k.order == "broadcast" else k
        k.values[d.rng.random(k.values.shape[:-1]) < d.one_of(0.3, 1.0), 0] = -math.inf
        q = q._replace(order="plain") if q.order == "broadcast" else q
        q.values[..., 0] = abs(q.values[..., 0]) + 1

    def terms(q: Any, k: Any, v: Any, allowed: Any, g: Any) -> list[Any]:
        """Weights are at most 1, in sums over all keys. In backward a kernel may compute them from
        scores minus the logarithm of their sum, with the rounding errors of the scores."""
        q, k, v, g = (np.nan_to_num(abs(a), posinf=0).max(initial=0) for a in (q, k, v, g))
        up, per = 1 / (1 - rate), scale or 1 / math.sqrt(max(1, D))
        far = up * max(1, per * q * k * D / 16)
        ds = far * per * v * g * E
        return [v * up, ds * k, ds * q * math.sqrt(T), far * g]

    return Call(
        q, k, v, allowed, g=d.gradient((..., -1, slice(None)) if where == "unused" else ()),
        terms=terms, causal=causal, scale=scale, dropout=rate,
        dropout_rng=d.source() if rate else None,
        zeros=[np.repeat(rows[..., None], width, axis=-1) if leads[0] == leads[2] else None
               for rows, width in ((blind, E), (blind, D), (hidden, D), (hidden, E))],
    )  # fmt: skip


# Sums --------------------------------------------------------------------------------------


@case
def sum_over(d: Drawing) -> Call:
    x = d.numbers(d.shape(1, 4), wild=True)
    axes = [a for a in range(x.values.ndim) if d.one_of(True, False)]
    axis = d.one_of(None, tuple(axes), axes[0] if axes else None, -1)
    return Call(x, axis, keepdims=d.one_of(True, False))


@case
def running_sum(d: Drawing) -> Call:
    x = d.numbers(d.shape(1, 3))
    return Call(x, int(d.rng.integers(-x.values.ndim, x.values.ndim)))


@case
def add_at(d: Drawing) -> Call:
    """Mostly one array of integers; sometimes a mask, or several arrays."""
    rest, n, count = d.shape(0, 2), d.size(), d.size()
    target = d.numbers((n, *rest), orders=["plain", "transposed", "gaps"])
    index: Any = d.integers(-n, n, (count,))
    values = d.numbers(d.one_of((count, *rest), (count, *rest), rest))
    if d.seldom():
        index, values = Numbers(d.rng.random(n) < 0.5), d.numbers(rest)
    return Call(target, index, values)


# Steps of training -------------------------------------------------------------------------


@case
def add_each(d: Drawing) -> Call:
    """Also of more arrays than fit into one launch."""
    shapes = [d.shape(1, 2) for _ in range(d.one_of(1, 2, 3))] * (70 if d.seldom() else 1)
    sums = [d.numbers(s, orders=["plain"]) for s in shapes[:3]] * -(-len(shapes) // 3)
    values = [d.numbers(s) for s in shapes[:3]] * -(-len(shapes) // 3)
    return Call(sums[: len(shapes)], values[: len(shapes)])


LR = 0.01


def _rule(d: Drawing, shape: Shape, moments: int, terms: Any = None, **numbers: float) -> Call:
    """Of an optimizer: parameters and gradient, then its state, which is at least 0."""
    w, g, *memory = (d.numbers(shape, orders=["plain", "gaps"]) for _ in range(2 + moments))
    memory = [m._replace(values=abs(m.values)) for m in memory]
    each = Numbers(np.where(d.rng.random(shape) < 0.5, 0, 0.1).astype(d.dtype))
    decay = d.one_of(0.0, 0.1, each)
    return Call(w, g, *memory, terms=terms, t=d.one_of(1, 2, 999), lr=LR, decay=decay, **numbers)


@case
def sgd(d: Drawing) -> Call:
    return _rule(d, d.shape(), 1, momentum=d.one_of(0.0, 0.95))


@case
def adamw(d: Drawing) -> Call:
    return _rule(d, d.shape(), 2, beta1=0.9, beta2=d.one_of(0.95, 0.999), eps=d.one_of(1e-8, 1e-3))


@case
def muon(d: Drawing) -> Call:
    """One matrix, or a stack. The slope of the polynomials is 10⁴ where a singular value is 1."""
    shape = d.one_of((), (1,), (3,)) + tuple(d.one_of(1, 2, 5, 33) for _ in "MN")
    move = LR * math.sqrt(max(1.0, shape[-1] / shape[-2]))
    return _rule(d, shape, 1, lambda w, g, m: [1e4 * move], momentum=d.one_of(0.0, 0.95))


@case
def clip_factor(d: Drawing) -> Call:
    """Of finite values; test_cuda.py tests others."""
    losses, squares = (
        [Numbers(np.abs(d.values(()))) for _ in range(d.one_of(1, 2, 5))] for _ in "ls"
    )
    return Call(losses, squares, d.one_of(1e-3, 1.0, 1e6), Numbers(np.zeros(1, np.int32)))
