"""Chapter 7: laws of scaled dot-product attention: what it computes, and its masks.

Each law draws q, k and v for several heads and sequences, and an attention mask. It compares the
output, and mostly the gradients of q, k and v, for a random gradient of the output.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyattn import ops
from tinyattn.backend import asarray, asnumpy
from tinyattn.theory.conventions import Unsupported
from tinyattn.theory.finding import Finding, at_least, equal, every
from tinyattn.theory.lab import Domain, Lab, OneOf, Real, Whole, by_hand
from tinyattn.theory.law import law, structural_law

PAGE = "06_attention"
D, E = 3, 2
"""The widths of keys and of values."""
SIZES: Domain = {"batch": OneOf(((), (2,), (2, 3))), "T": Whole(1, 4), "S": Whole(1, 5)}
"""The axes before the positions (sequences, heads), the number of queries, and of keys."""
SQUARE: Domain = {"batch": SIZES["batch"], "T": Whole(1, 6)}
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""An output, and the gradients of q, k and v."""


@dataclass(frozen=True)
class Inputs:
    """q (.., T, D), k (.., S, D), v (.., S, E), an attention mask, and the gradient of the output.

    All are NumPy arrays.
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    allowed: np.ndarray
    g: np.ndarray

    def but(self, **others: Any) -> Inputs:
        """The same with other arrays."""
        return replace(self, **others)

    def mask(self, lab: Lab) -> Any:
        """The attention mask on the device; None if each query may attend to all keys."""
        return None if self.allowed.all() else asarray(self.allowed, device=lab.device)

    def unmasked(self) -> Inputs:
        """The same, and each query may attend to all keys."""
        return self.but(allowed=np.ones_like(self.allowed))


def inputs(lab: Lab, batch: tuple[int, ...], T: int, S: int) -> Inputs:
    """Random inputs; six of ten pairs are allowed, so a query may have no key.

    It has one if the attention under test does not give 0 then; without masks all are allowed.
    """
    shapes = (*batch, T, D), (*batch, S, D), (*batch, S, E), (*batch, T, E)
    q, k, v, g = (lab.rng.standard_normal(shape) for shape in shapes)
    allowed = lab.rng.random((*batch, T, S)) < (0.6 if lab.can("mask") else 1)
    if lab.conventions.no_key != "zeros":
        allowed |= np.arange(S) == lab.rng.integers(S, size=(*batch, T, 1))
    return Inputs(q, k, v, allowed, g)


def run(lab: Lab, given: Inputs, **options: Any) -> Arrays:
    """The output, and the gradients of q, k and v."""
    leaves = [lab.leaf(x) for x in (given.q, given.k, given.v)]
    y = ops.attention(*leaves, given.mask(lab), **options)
    y.backward(lab.tensor(given.g).data)
    return y.numpy(), *(asnumpy(leaf.grad) for leaf in leaves)


def output(lab: Lab, given: Inputs, **options: Any) -> np.ndarray:
    """The output alone."""
    return run(lab, given, **options)[0]


def same(what: str, one: tuple[np.ndarray, ...], other: tuple[np.ndarray, ...]) -> Finding:
    """Whether output and gradients are equal."""
    names = (what, "dL/dq", "dL/dk", "dL/dv")
    return every(*(equal(*three) for three in zip(names, one, other, strict=True)))


# What it computes ----------------------------------------------------------------------------


@law(PAGE, ops.attention, **SIZES, scale=Real(-3, 3))
def two_equations(lab: Lab, batch: tuple[int, ...], T: int, S: int, scale: float) -> Finding:
    """The output is y = P v, P = softmax(scale·q kᵀ) over the allowed keys; the scale is 1/√D."""
    x = inputs(lab, batch, T, S)
    products = x.q @ x.k.swapaxes(-1, -2)
    return every(
        equal("y", output(lab, x), by_hand(products / math.sqrt(D), x.allowed) @ x.v),
        equal("y with a scale", output(lab, x, scale=scale),
              by_hand(scale * products, x.allowed) @ x.v),
    )  # fmt: skip


@law(PAGE, ops.attention, **SIZES)
def its_gradients(lab: Lab, batch: tuple[int, ...], T: int, S: int) -> Finding:
    """The gradients are dv = Pᵀg, ds = P·(g vᵀ - Σ P·g vᵀ), dq = ds k/√D and dk = dsᵀ q/√D.

    Differences of the outputs for small changes of q, k and v agree.
    """
    lab.conventions.needs("grad", "float64")
    x = inputs(lab, batch, T, S)
    p = by_hand(x.q @ x.k.swapaxes(-1, -2) / math.sqrt(D), x.allowed)
    dp = x.g @ x.v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) / math.sqrt(D)
    found = run(lab, x)
    wanted = p @ x.v, ds @ x.k, ds.swapaxes(-1, -2) @ x.q, p.swapaxes(-1, -2) @ x.g
    step = [1e-6 * lab.rng.standard_normal(a.shape) for a in (x.q, x.k, x.v)]
    ends = [output(lab, x.but(q=x.q + t * step[0], k=x.k + t * step[1], v=x.v + t * step[2]))
            for t in (1, -1)]  # fmt: skip
    slope = ((ends[0] - ends[1]) * x.g).sum() / 2
    predicted = sum((a * b).sum() for a, b in zip(step, found[1:], strict=True))
    slopes = equal("slope in 10⁻⁶", slope * 1e6, predicted * 1e6, 1e-6)
    return every(same("y", found, wanted), slopes)


@law(PAGE, ops.attention, **SIZES, size=Real(0, 1e4))
def outputs_lie_between_values(
    lab: Lab, batch: tuple[int, ...], T: int, S: int, size: float
) -> Finding:
    """In every direction the output is between the extreme values, for queries of any size."""
    x = inputs(lab, batch, T, S)
    directions = np.concatenate([np.eye(E), lab.rng.standard_normal((E, 9))], axis=1)
    y, v = output(lab, x.unmasked().but(q=x.q * size)) @ directions, x.v @ directions
    low, high = (f(v, axis=-2, keepdims=True) for f in (np.min, np.max))
    return every(
        at_least("lead over the least value", (y - low).min(), 0),
        at_least("lead of the largest value", (high - y).min(), 0),
    )


@law(PAGE, ops.attention, **SIZES)
def a_query_of_zeros_averages(lab: Lab, batch: tuple[int, ...], T: int, S: int) -> Finding:
    """All scores are 0, so the output is the mean of the allowed values."""
    x = inputs(lab, batch, T, S)
    seen = x.allowed[..., None]
    mean = (x.v[..., None, :, :] * seen).sum(axis=-2) / np.maximum(seen.sum(axis=-2), 1)
    return equal("y", output(lab, x.but(q=0 * x.q)), mean)


# Masks ---------------------------------------------------------------------------------------


def with_masked_key(lab: Lab, x: Inputs, masked_value: float) -> Finding:
    """Whether a further masked key and value, all of whose elements are this, change nothing."""
    S = x.k.shape[-2]
    k, v = (np.insert(a, S, masked_value, axis=-2) for a in (x.k, x.v))
    y, dq, dk, dv = run(lab, x.but(k=k, v=v, allowed=np.insert(x.allowed, S, False, axis=-1)))
    none = every(equal("dL/dk of this key", dk[..., S, :], 0 * x.k[..., 0, :], 0),
                 equal("dL/dv of this key", dv[..., S, :], 0 * x.v[..., 0, :], 0))  # fmt: skip
    return every(same("y", (y, dq, dk[..., :S, :], dv[..., :S, :]), run(lab, x)), none)


@law(PAGE, **SIZES, masked_value=OneOf((0.0, 1e5, -1e5)))
def a_masked_key_is_no_key(
    lab: Lab, batch: tuple[int, ...], T: int, S: int, masked_value: float
) -> Finding:
    """A further key that no query may attend to changes nothing, however large its score is."""
    lab.conventions.needs("mask")
    return with_masked_key(lab, inputs(lab, batch, T, S), masked_value)


@law(PAGE, **SIZES, masked_value=OneOf((math.nan, math.inf, -math.inf)))
def a_masked_nan_has_no_effect(
    lab: Lab, batch: tuple[int, ...], T: int, S: int, masked_value: float
) -> Finding:
    """The same if this key and its value are ∞ or NaN, as uninitialized memory may be."""
    lab.conventions.needs("mask", "nan")
    return with_masked_key(lab, inputs(lab, batch, T, S), masked_value)


@law(PAGE, ops.attention, **SIZES)
def a_causal_mask_ends_at_the_last_key(lab: Lab, batch: tuple[int, ...], T: int, S: int) -> Finding:
    """Query t of T attends to the keys up to t + S - T: the last query to all S keys.

    An attention may declare that the mask starts at the first key instead: up to key t.
    """
    lab.conventions.needs("causal")
    at_end = lab.conventions.causal_from == "end"
    T = min(T, S) if lab.conventions.no_key != "zeros" else T
    x = inputs(lab, batch, T, S).unmasked()
    past = np.tri(T, S, S - T if at_end else 0, dtype=bool)
    weights = by_hand(x.q @ x.k.swapaxes(-1, -2) / math.sqrt(D), past)
    return equal("y", output(lab, x, causal=True), weights @ x.v)


@law(PAGE, T=Whole(1, 4), before=Whole(0, 4))
def pieces_equal_the_whole(lab: Lab, T: int, before: int) -> Finding:
    """Queries that are given later, with all keys so far, get the rows of the whole sequence.

    So keys and values can be kept in a cache, and text can be generated token by token.
    """
    lab.conventions.needs("causal", "rectangular")
    if lab.conventions.causal_from == "start":
        raise Unsupported("a causal mask that ends at the last key")
    x = inputs(lab, (), before + T, before + T).unmasked()
    later = x.but(q=x.q[before:], g=x.g[before:], allowed=x.allowed[before:])
    whole, piece = output(lab, x, causal=True), output(lab, later, causal=True)
    return equal("y", piece, whole[before:])


@structural_law(
    PAGE, ops.attention, batch=SIZES["batch"], before=Whole(1, 4), after=Whole(1, 3),
    by_mask=OneOf((False, True)),
)  # fmt: skip
def later_positions_have_no_influence(
    lab: Lab, batch: tuple[int, ...], before: int, after: int, by_mask: bool
) -> Finding:
    """If attention is causal, later keys and values change no bit of earlier outputs.

    They change the outputs from there on; and earlier outputs give them no gradient.
    """
    by_mask = lab.can("mask") and (by_mask or not lab.can("causal"))
    lab.conventions.needs("mask" if by_mask else "causal")
    x = inputs(lab, batch, before + after, before + after).unmasked()
    x = x.but(allowed=x.allowed & np.tri(before + after, dtype=bool)) if by_mask else x
    k, v, g = x.k.copy(), x.v.copy(), x.g.copy()
    k[..., before:, :] *= -3
    v[..., before:, :] += 100
    g[..., before:, :] = 0
    options = {"causal": not by_mask}
    one, other = output(lab, x, **options), output(lab, x.but(k=k, v=v), **options)
    later = [np.abs(a[..., before:, :]).max() for a in run(lab, x.but(g=g), **options)[1:]]
    return every(
        equal("earlier outputs", other[..., :before, :], one[..., :before, :], 0),
        at_least("change of later outputs", np.abs(other - one)[..., before:, :].max(), 1e-6),
        equal("gradients of later q, k and v", later, [0, 0, 0], 0),
    )
