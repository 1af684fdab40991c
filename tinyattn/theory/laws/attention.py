"""Chapter 7: laws of scaled dot-product attention: what it computes, and what has no effect on it.

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
from tinyattn.theory.finding import Finding, at_least, equal, every
from tinyattn.theory.lab import Domain, Lab, OneOf, Real, Whole, by_hand
from tinyattn.theory.law import law

PAGE = "06_attention"
D, E = 3, 2
"""The widths of keys and of values."""
SIZES: Domain = {"lead": OneOf(((), (2,), (2, 3))), "T": Whole(1, 4), "S": Whole(1, 5)}
"""The axes before the positions (sequences, heads), the number of queries, and of keys."""
SQUARE: Domain = {"lead": SIZES["lead"], "T": Whole(1, 6)}
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
    allowed: np.ndarray | None
    g: np.ndarray

    def but(self, **others: Any) -> Inputs:
        """The same with other arrays."""
        return replace(self, **others)


def inputs(lab: Lab, lead: tuple[int, ...], T: int, S: int) -> Inputs:
    """Random inputs; six of ten pairs are allowed, so a query may have no key."""
    shapes = (*lead, T, D), (*lead, S, D), (*lead, S, E), (*lead, T, E)
    q, k, v, g = (lab.rng.standard_normal(shape) for shape in shapes)
    return Inputs(q, k, v, lab.rng.random((*lead, T, S)) < 0.6, g)


def run(lab: Lab, given: Inputs, **options: Any) -> Arrays:
    """The output, and the gradients of q, k and v."""
    leaves = [lab.leaf(x) for x in (given.q, given.k, given.v)]
    mask = None if given.allowed is None else asarray(given.allowed, device=lab.device)
    y = ops.attention(*leaves, mask, **options)
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
def two_equations(lab: Lab, lead: tuple[int, ...], T: int, S: int, scale: float) -> Finding:
    """P = softmax(scale·q kᵀ) over the allowed keys, y = P v; the scale is 1/√D by default."""
    x = inputs(lab, lead, T, S)
    assert x.allowed is not None
    products = x.q @ x.k.swapaxes(-1, -2)
    return every(
        equal("y", output(lab, x), by_hand(products / math.sqrt(D), x.allowed) @ x.v),
        equal("y with a scale", output(lab, x, scale=scale),
              by_hand(scale * products, x.allowed) @ x.v),
    )  # fmt: skip


@law(PAGE, ops.attention, **SIZES)
def its_gradients(lab: Lab, lead: tuple[int, ...], T: int, S: int) -> Finding:
    """dV = Pᵀg, ds = P·(g vᵀ - Σ P·g vᵀ), dq = ds k/√D, dk = dsᵀ q/√D, also by differences."""
    x = inputs(lab, lead, T, S)
    assert x.allowed is not None
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
    lab: Lab, lead: tuple[int, ...], T: int, S: int, size: float
) -> Finding:
    """In every direction the output is between the extreme values, for queries of any size."""
    x = inputs(lab, lead, T, S)
    directions = np.concatenate([np.eye(E), lab.rng.standard_normal((E, 9))], axis=1)
    y, v = output(lab, x.but(q=x.q * size, allowed=None)) @ directions, x.v @ directions
    low, high = (f(v, axis=-2, keepdims=True) for f in (np.min, np.max))
    return every(
        at_least("lead over the least value", (y - low).min(), 0),
        at_least("lead of the largest value", (high - y).min(), 0),
    )


@law(PAGE, ops.attention, **SIZES)
def a_query_of_zeros_averages(lab: Lab, lead: tuple[int, ...], T: int, S: int) -> Finding:
    """All scores are 0, so the output is the mean of the allowed values."""
    x = inputs(lab, lead, T, S)
    assert x.allowed is not None
    seen = x.allowed[..., None]
    mean = (x.v[..., None, :, :] * seen).sum(axis=-2) / np.maximum(seen.sum(axis=-2), 1)
    return equal("y", output(lab, x.but(q=0 * x.q)), mean)


# Masks ---------------------------------------------------------------------------------------


@law(PAGE, ops.attention, **SIZES)
def without_a_key_all_is_zero(lab: Lab, lead: tuple[int, ...], T: int, S: int) -> Finding:
    """A query without an allowed key gets 0; its gradient is 0, and it gives none to k and v."""
    x = inputs(lab, lead, T, S)
    assert x.allowed is not None
    allowed, g = x.allowed.copy(), x.g.copy()
    allowed[..., 0, :] = False
    g[..., 0, :] = 0
    y, dq, *rest = run(lab, x.but(allowed=allowed))
    wanted = run(lab, x.but(allowed=allowed, g=g))[2:]
    return every(
        equal("y of this query", y[..., 0, :], 0 * y[..., 0, :], 0),
        equal("dL/dq of this query", dq[..., 0, :], 0 * dq[..., 0, :], 0),
        *(equal(*three) for three in zip(("dL/dk", "dL/dv"), rest, wanted, strict=True)),
    )


@law(PAGE, **SIZES, masked_value=OneOf((0.0, 1e6, -1e6, math.inf, math.nan)))
def a_masked_key_is_no_key(
    lab: Lab, lead: tuple[int, ...], T: int, S: int, masked_value: float
) -> Finding:
    """A further key that no query may attend to changes nothing, even if it is ∞ or NaN."""
    x = inputs(lab, lead, T, S)
    assert x.allowed is not None
    k, v = (np.insert(a, S, masked_value, axis=-2) for a in (x.k, x.v))
    y, dq, dk, dv = run(lab, x.but(k=k, v=v, allowed=np.insert(x.allowed, S, False, axis=-1)))
    none = every(equal("dL/dk of this key", dk[..., S, :], 0 * x.k[..., 0, :], 0),
                 equal("dL/dv of this key", dv[..., S, :], 0 * x.v[..., 0, :], 0))  # fmt: skip
    return every(same("y", (y, dq, dk[..., :S, :], dv[..., :S, :]), run(lab, x)), none)


@law(PAGE, **SIZES)
def a_causal_mask_ends_at_the_last_key(lab: Lab, lead: tuple[int, ...], T: int, S: int) -> Finding:
    """Query t of T attends to the keys up to t + S - T: the last query to all S keys."""
    x = inputs(lab, lead, T, S).but(allowed=None)
    by_mask = np.tri(T, S, S - T, dtype=bool)
    return same("y", run(lab, x, causal=True), run(lab, x.but(allowed=by_mask)))


@law(PAGE, ops.attention, **SQUARE, start=Whole(0, 5), by_mask=OneOf((False, True)))
def later_positions_have_no_influence(
    lab: Lab, lead: tuple[int, ...], T: int, start: int, by_mask: bool
) -> Finding:
    """If attention is causal, keys and values from a position on change no bit of earlier outputs.

    They change the outputs from there on; and earlier outputs give them no gradient.
    """
    start, past = start % T, np.tri(T, dtype=bool)
    x = inputs(lab, lead, T, T).but(allowed=past if by_mask else None)
    k, v, g = x.k.copy(), x.v.copy(), x.g.copy()
    k[..., start:, :] *= -3
    v[..., start:, :] += 100
    g[..., start:, :] = 0
    options = {"causal": not by_mask}
    before, after = output(lab, x, **options), output(lab, x.but(k=k, v=v), **options)
    later = [np.abs(a[..., start:, :]).max() for a in run(lab, x.but(g=g), **options)[1:]]
    return every(
        equal("earlier outputs", after[..., :start, :], before[..., :start, :], 0),
        at_least("change of later outputs", np.abs(after - before)[..., start:, :].max(), 1e-6),
        equal("gradients of later q, k and v", later, [0, 0, 0], 0),
    )
