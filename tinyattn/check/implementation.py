"""Wing, check: an attention under test, which computes in place of `ops.attention`.

The laws call `ops.attention`, and the dispatch (dispatch.py) chooses what computes it. So a
function of another library takes part as a kernel would: it gets the arrays, converted to those of
its own library, and what it returns is converted back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyattn.backend import get_device
from tinyattn.dispatch import FORMULAS, Function, observers
from tinyattn.theory.conventions import LIBRARIES, MASKS, OURS, Conventions


@dataclass(frozen=True)
class Library:
    """Arrays of one library: from NumPy, to NumPy, and gradients of a function f(q, k, v).

    Args:
        pull: (f, q k v, gradient of the output) -> their gradients, all arrays of the library.
    """

    put: Callable[[np.ndarray], Any]
    get: Callable[[Any], np.ndarray]
    pull: Callable[..., tuple[Any, ...]] | None = None


def library(name: str) -> Library:
    """Raises: ValueError for an unknown name; ImportError if the library is not installed."""
    if name == "numpy":
        return Library(np.asarray, np.asarray)
    if name == "cupy":  # it has no gradients
        device = get_device("cuda")
        return Library(device.put, device.get)
    if name == "torch":
        import torch

        def pull(f: Any, leaves: Any, g: Any) -> Any:
            leaves = [leaf.detach().requires_grad_() for leaf in leaves]
            return torch.autograd.grad(f(*leaves), leaves, g)

        return Library(_torch_array, lambda t: np.asarray(t.detach().cpu()), pull)
    if name == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
        return Library(jax.numpy.asarray, np.asarray, lambda f, q, g: jax.vjp(f, *q)[1](g))
    raise ValueError(f"arrays must be one of {', '.join(LIBRARIES)}; got {name!r}")


def _torch_array(array: np.ndarray) -> Any:
    """A tensor with the strides of the array, unless they are negative, which PyTorch has not."""
    import torch

    fits = array.flags.writeable and min(array.strides, default=0) >= 0
    return torch.from_numpy(array if fits else array.copy())


@dataclass
class Called:
    """One call of the attention under test: its inputs, what it returned, and what is right."""

    arrays: tuple[np.ndarray, ...]
    options: dict[str, Any]
    got: np.ndarray
    right: np.ndarray


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
        if T != S:
            self.conventions.needs("rectangular")
        if allowed is not None:
            self.conventions.needs("mask")
            lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
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
        arrays = (q, k, v)
        kept = tuple(a.copy() for a in arrays)  # the function may change its inputs
        right, vjp = FORMULAS["attention"](
            np, q, k, v, _with_causal(allowed, causal, T, S, self.conventions), scale=scale
        )
        y = self._alone(lambda: self._outputs(arrays, allowed, options))
        self.calls.append(Called(kept, {"mask": allowed} | options, y, right))

        def gradients(g: np.ndarray) -> Any:
            if self.can("grad"):
                made = self._alone(lambda: self._gradients(arrays, allowed, options, g))
            else:
                made = vjp(g)
            return made[0] * factor, made[1], made[2], None

        return y, gradients

    def _alone(self, run: Callable[[], Any]) -> Any:
        """The result of something that calls f."""
        self.inside = True
        try:
            return run()
        finally:
            self.inside = False

    def _outputs(self, arrays: Any, allowed: Any, options: dict[str, Any]) -> np.ndarray:
        if arrays[0].ndim > 2 and not self.can("batch"):
            return self._each(arrays, allowed, lambda a, m: self._outputs(a, m, options))
        put = [self.library.put(self._in_precision(a)) for a in arrays]
        y = self.library.get(self.f(*put, **self._keywords(allowed, options)))
        return y if self.can("float64") else y.astype(arrays[0].dtype)

    def _gradients(self, arrays: Any, allowed: Any, options: dict[str, Any], g: Any) -> Any:
        if arrays[0].ndim > 2 and not self.can("batch"):
            masks = [None] * len(g) if allowed is None else allowed
            parts = [
                self._gradients([a[i] for a in arrays], masks[i], options, g[i])
                for i in range(len(g))
            ]
            return tuple(np.stack(part) for part in zip(*parts, strict=True))
        put = [self.library.put(self._in_precision(a)) for a in (*arrays, g)]
        keywords = self._keywords(allowed, options)
        if self.vjp is not None:
            made = self.vjp(*put, **keywords)
        else:
            assert self.library.pull is not None
            made = self.library.pull(lambda *qkv: self.f(*qkv, **keywords), put[:3], put[3])
        return tuple(self.library.get(dx).astype(g.dtype) for dx in made)

    def _each(self, arrays: Any, allowed: Any, run: Any) -> np.ndarray:
        """The outputs for each index of the first axis."""
        masks = [None] * len(arrays[0]) if allowed is None else allowed
        return np.stack([run([a[i] for a in arrays], masks[i]) for i in range(len(arrays[0]))])

    def _in_precision(self, array: np.ndarray) -> np.ndarray:
        low = array.dtype == np.float64 and not self.can("float64")
        return array.astype(np.float32) if low else array

    def _keywords(self, allowed: Any, options: dict[str, Any]) -> dict[str, Any]:
        """The keywords of the function, with the mask in its own meaning."""
        if allowed is None:
            return options
        precision = np.float64 if self.can("float64") else np.float32
        meanings: dict[str, Any] = {
            "allowed": lambda: allowed.copy(),
            "masked": lambda: ~allowed,
            "additive": lambda: np.where(allowed, 0, -np.inf).astype(precision),
        }
        return {"mask": self.library.put(meanings[self.mask]())} | options


def _with_causal(allowed: Any, causal: bool, T: int, S: int, conventions: Conventions) -> Any:
    """The mask with the causal mask of these conventions, for the formula that knows one only."""
    if not causal:
        return allowed
    past = np.tri(T, S, S - T if conventions.causal_from == "end" else 0, dtype=bool)
    return past if allowed is None else allowed & past
