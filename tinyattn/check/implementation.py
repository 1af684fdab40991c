"""Wing, check: an attention under test, which computes in place of `ops.attention`.

The laws call `ops.attention`, and the dispatch (dispatch.py) chooses what computes it. So a
function of another library takes part as a kernel would: it gets the arrays, converted to those of
its own library, and what it returns is converted back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tinyattn.backend import get_device
from tinyattn.dispatch import FORMULAS, Function, observers
from tinyattn.theory.conventions import LIBRARIES, MASKS, OURS, Conventions


@dataclass(frozen=True)
class Library:
    """Arrays of one library: from NumPy, to NumPy, and gradients of a function f(q, k, v).

    Args:
        code: `put` as Python code that needs NumPy and the line `imports`; "" for NumPy.
        pull: (f, q k v, gradient of the output) -> their gradients, all arrays of the library.
    """

    put: Callable[[np.ndarray], Any]
    get: Callable[[Any], np.ndarray]
    code: str = ""
    imports: str = ""
    pull: Callable[..., tuple[Any, ...]] | None = None


def library(name: str) -> Library:
    """Raises: ValueError for an unknown name; ImportError if the library is not installed."""
    if name == "numpy":
        return Library(np.asarray, np.asarray)
    if name == "cupy":  # it has no gradients
        device = get_device("cuda")
        return Library(device.put, device.get, "cupy.asarray", "import cupy; ")
    if name == "torch":
        import torch

        def pull(f: Any, leaves: Any, g: Any) -> Any:
            leaves = [leaf.detach().requires_grad_() for leaf in leaves]
            return torch.autograd.grad(f(*leaves), leaves, g)

        return Library(_torch_array, lambda t: np.asarray(t.detach().cpu()), "torch.from_numpy",
                       "import torch; ", pull)  # fmt: skip
    if name == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
        return Library(
            jax.numpy.asarray, np.asarray, "jax.numpy.asarray",
            "import jax; jax.config.update('jax_enable_x64', True); ",
            lambda f, q, g: jax.vjp(f, *q)[1](g),
        )  # fmt: skip
    raise ValueError(f"arrays must be one of {', '.join(LIBRARIES)}; got {name!r}")


def _torch_array(array: np.ndarray) -> Any:
    """A tensor with the strides of the array; PyTorch has no negative ones."""
    import torch

    fits = array.flags.writeable and min(array.strides, default=0) >= 0
    return torch.from_numpy(array if fits else array.copy())


@dataclass
class Called:
    """One call of the attention under test.

    Args:
        library: that of its arrays.
        arrays: q, k and v, as it got them, but in NumPy.
        keywords: what it got besides, with the mask in its own meaning.
        allowed: the mask of all that is masked, True = may attend.
        got: what it returned.
        no_key: what is right for a query without an allowed key, one of NO_KEY.
    """

    library: Library
    arrays: tuple[np.ndarray, ...]
    keywords: dict[str, Any]
    allowed: np.ndarray | None
    got: np.ndarray
    no_key: str

    @property
    def right(self) -> np.ndarray:
        """What it should have returned."""
        scale = self.keywords.get("scale")
        y: np.ndarray = FORMULAS["attention"](np, *self.arrays, self.allowed, scale=scale)[0]
        if self.allowed is not None and self.no_key != "zeros":
            mean = self.arrays[2].mean(axis=-2, keepdims=True)
            without = ~self.allowed.any(axis=-1, keepdims=True)
            y = np.where(without, mean if self.no_key == "mean" else np.nan, y)
        return y


@dataclass
class Implementation:
    """A function under test, and what it declares about itself.

    Args:
        f: f(q, k, v), with the keywords mask, causal, scale and dropout if it supports them.
        conventions: what it supports, and its answers where libraries differ.
        arrays: the library of its arrays, one of LIBRARIES.
        mask: what a mask means to it, one of MASKS.
        vjp: for `grad` with NumPy or CuPy: vjp(q, k, v, g, **keywords) -> dq, dk, dv.
    Raises: ValueError for an unknown name, or `grad` without a way to compute gradients.
    """

    f: Callable[..., Any]
    conventions: Conventions = OURS
    arrays: str = "numpy"
    mask: str = "allowed"
    vjp: Callable[..., Any] | None = None
    calls: list[Called] = field(default_factory=list)
    inside: bool = False  # while f runs, which may call `ops.attention` itself

    def __post_init__(self) -> None:
        if self.mask not in MASKS:
            raise ValueError(f"mask must be one of {', '.join(MASKS)}; got {self.mask!r}")
        self.library = library(self.arrays)
        if self.can("grad") and not (self.vjp or self.library.pull):
            raise ValueError(f"grad: arrays of {self.arrays} need a function vjp; got None")

    def can(self, feature: str) -> bool:
        """Whether it supports a feature."""
        return feature in self.conventions.supports

    def instead(self, formula: Function, run: Function, reason: str) -> Function:
        """An observer of the dispatch: this implementation in place of attention."""
        ours = self.inside or formula is not FORMULAS["attention"]
        return run if ours else self._computed

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """A context in which `ops.attention` is this implementation."""
        observers.append(self.instead)
        try:
            yield
        finally:
            observers.remove(self.instead)

    def _computed(
        self, xp: Any, q: np.ndarray, k: np.ndarray, v: np.ndarray, allowed: Any = None, *,
        causal: bool = False, scale: float | None = None, dropout: float = 0.0,
        dropout_rng: Any = None,
    ) -> Any:  # fmt: skip
        """The output and its vjp, as a kernel of `ops.attention` returns them."""
        T, S, D = q.shape[-2], k.shape[-2], q.shape[-1]
        lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
        q, k, v = (_with_lead(a, lead) for a in (q, k, v))
        if T != S:
            self.conventions.needs("rectangular")
        if allowed is not None:
            self.conventions.needs("mask")
            allowed = np.broadcast_to(allowed, (*lead, T, S))
        options: dict[str, Any] = {}
        if dropout and dropout_rng is not None:
            self.conventions.needs("dropout")
            options["dropout"] = dropout
        if causal:
            self.conventions.needs("causal")
            options["causal"] = True
        factor = 1.0
        if scale is not None and self.can("scale"):
            options["scale"] = scale
        elif scale is not None:
            factor, scale = scale * max(1, D) ** 0.5, None
            q = q * factor
        masked = _with_causal(allowed, causal, T, S, self.conventions)
        if masked is not None:
            masked = np.broadcast_to(masked, (*lead, T, S))
        arrays = (q, k, v)
        kept = tuple(a.copy() for a in arrays)  # f may change its inputs
        (y,) = self._each(arrays, allowed, masked, partial(self._output, options))

        def gradients(g: np.ndarray) -> Any:
            if self.can("grad"):
                gradients_of = partial(self._gradients, options)
                made = self._each((*arrays, g), allowed, masked, gradients_of)
            else:
                made = FORMULAS["attention"](np, *kept, masked, scale=scale)[1](g)
            return made[0] * factor, made[1], made[2], None

        return y, gradients

    def _each(self, arrays: Any, allowed: Any, masked: Any, run: Any) -> tuple[np.ndarray, ...]:
        """The results of run(arrays, allowed, masked), or of one run for each index of the axes
        before T if f has no such axes."""
        if arrays[0].ndim == 2 or self.can("batch"):
            self.inside = True
            try:
                made: tuple[np.ndarray, ...] = run(arrays, allowed, masked)
                return made
            finally:
                self.inside = False
        count = len(arrays[0])
        if not count:
            self.conventions.needs("batch")
        one = [[None] * count if mask is None else mask for mask in (allowed, masked)]
        parts = [self._each([a[i] for a in arrays], one[0][i], one[1][i], run)
                 for i in range(count)]  # fmt: skip
        return tuple(np.stack(part) for part in zip(*parts, strict=True))

    def _output(self, options: Any, arrays: Any, allowed: Any, masked: Any) -> Any:
        given = [self._in_precision(a) for a in arrays]
        keywords = self._keywords(allowed, options)
        kept = tuple(a.copy() for a in given)  # the function may change its inputs
        returned = self.f(*map(self.library.put, given), **self._put(keywords))
        if returned is None:
            raise TypeError("the function returned None: does it end with `return`?")
        y = self.library.get(returned)
        self.calls.append(Called(self.library, kept, keywords, masked, y, self.conventions.no_key))
        return (y if self.can("float64") else y.astype(arrays[0].dtype),)

    def _gradients(self, options: Any, arrays: Any, allowed: Any, masked: Any) -> Any:
        *qkv, g = [self.library.put(self._in_precision(a)) for a in arrays]
        keywords = self._put(self._keywords(allowed, options))
        if self.vjp is not None:
            made = self.vjp(*qkv, g, **keywords)
        else:
            assert self.library.pull is not None
            made = self.library.pull(lambda *given: self.f(*given, **keywords), qkv, g)
        return tuple(self.library.get(dx).astype(arrays[0].dtype) for dx in made)

    def _in_precision(self, array: np.ndarray) -> np.ndarray:
        low = array.dtype == np.float64 and not self.can("float64")
        return array.astype(np.float32) if low else array

    def _put(self, keywords: dict[str, Any]) -> dict[str, Any]:
        """The keywords with arrays of f's library."""
        put = self.library.put
        return {n: put(x.copy()) if isinstance(x, np.ndarray) else x for n, x in keywords.items()}

    def _keywords(self, allowed: Any, options: dict[str, Any]) -> dict[str, Any]:
        """The keywords of the function in NumPy, with the mask in its own meaning."""
        if allowed is None:
            return options
        precision = np.float64 if self.can("float64") else np.float32
        meanings: dict[str, Any] = {
            "allowed": lambda: allowed,
            "masked": lambda: ~allowed,
            "additive": lambda: np.where(allowed, 0, -np.inf).astype(precision),
        }
        return {"mask": meanings[self.mask]()} | options


def _with_lead(array: np.ndarray, lead: tuple[int, ...]) -> np.ndarray:
    """The array with these axes before its last two: not every attention broadcasts."""
    shape = *lead, *array.shape[-2:]
    return array if array.shape == shape else np.broadcast_to(array, shape).copy()


def _with_causal(allowed: Any, causal: bool, T: int, S: int, conventions: Conventions) -> Any:
    """The mask with the causal mask of these conventions, for the formula that knows one only."""
    if not causal:
        return allowed
    past = np.tri(T, S, S - T if conventions.causal_from == "end" else 0, dtype=bool)
    return past if allowed is None else allowed & past
