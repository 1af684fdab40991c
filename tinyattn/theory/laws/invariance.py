"""Chapter 7: laws of attention: what has no effect on the output, rounding, and dropout."""

from __future__ import annotations

import numpy as np

from tinyattn import ops
from tinyattn.backend import asarray
from tinyattn.rng import DropoutRNG
from tinyattn.tensor import Tensor
from tinyattn.theory.finding import Finding, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, OneOf, Real, Whole
from tinyattn.theory.law import law
from tinyattn.theory.laws.attention import (
    PAGE,
    SIZES,
    SQUARE,
    D,
    E,
    Inputs,
    inputs,
    output,
    run,
    same,
)

# What has no effect --------------------------------------------------------------------------


@law(PAGE, **SIZES)
def keys_have_no_order(lab: Lab, lead: tuple[int, ...], T: int, S: int) -> Finding:
    """If keys, values and mask are permuted together, the output is the same."""
    x, order = inputs(lab, lead, T, S), lab.rng.permutation(S)
    assert x.allowed is not None
    moved = x.but(k=x.k[..., order, :], v=x.v[..., order, :], allowed=x.allowed[..., order])
    y, dq, dk, dv = run(lab, x)
    return same("y", run(lab, moved), (y, dq, dk[..., order, :], dv[..., order, :]))


@law(PAGE, T=Whole(1, 4), S=Whole(1, 5), batch=Whole(1, 4))
def sequences_do_not_mix(lab: Lab, T: int, S: int, batch: int) -> Finding:
    """Each sequence and head of a batch has the output and gradients that it has alone."""
    x = inputs(lab, (batch,), T, S)
    alone = [run(lab, Inputs(*(a[i] for a in (x.q, x.k, x.v, x.allowed, x.g))))  # type: ignore[index]
             for i in range(batch)]  # fmt: skip
    return same("y", run(lab, x), tuple(np.stack(parts) for parts in zip(*alone, strict=True)))


@law(PAGE, **SIZES)
def memory_order_has_no_effect(lab: Lab, lead: tuple[int, ...], T: int, S: int) -> Finding:
    """Transposed views and reversed strides give what their copies give."""
    x = inputs(lab, lead, T, S)
    views = [np.asfortranarray(x.q), x.k[..., ::-1].copy()[..., ::-1],
             np.ascontiguousarray(x.v.swapaxes(-1, -2)).swapaxes(-1, -2)]  # fmt: skip
    strided = x.but(q=views[0], k=views[1], v=views[2], g=np.asfortranarray(x.g))
    return same("y", run(lab, strided), run(lab, x))


@law(PAGE, **SIZES, factor=Real(0.1, 3))
def only_products_matter(lab: Lab, lead: tuple[int, ...], T: int, S: int, factor: float) -> Finding:
    """A rotation of q and k, or a factor moved from one to the other, changes no score q·k."""
    x, turn = inputs(lab, lead, T, S), np.linalg.qr(lab.rng.standard_normal((D, D)))[0]
    y, dq, dk, dv = run(lab, x)
    rotated = run(lab, x.but(q=x.q @ turn, k=x.k @ turn))
    moved = run(lab, x.but(q=x.q * factor, k=x.k / factor))
    return every(
        same("y, both rotated", rotated, (y, dq @ turn, dk @ turn, dv)),
        same("y, factor moved", moved, (y, dq / factor, dk * factor, dv)),
        equal("Σ q·dL/dq", (x.q * dq).sum(), (x.k * dk).sum()),
    )


@law(PAGE, **SIZES, shift=Real(-3, 3))
def what_all_keys_share_has_no_effect(
    lab: Lab, lead: tuple[int, ...], T: int, S: int, shift: float
) -> Finding:
    """A vector added to all keys changes all scores of a query equally; so Σ_j dL/dk_j = 0."""
    x = inputs(lab, lead, T, S)
    y, _, dk, _ = run(lab, x)
    return every(
        equal("y", output(lab, x.but(k=x.k + shift)), y),
        at_most("largest |Σ dL/dk|", np.abs(dk.sum(axis=-2)).max(), 0),
    )


@law(PAGE, ops.attention, **SIZES)
def outputs_are_linear_in_values(lab: Lab, lead: tuple[int, ...], T: int, S: int) -> Finding:
    """y(2v - w) = 2y(v) - y(w); and what is added to all values is added to the output."""
    x = inputs(lab, lead, T, S)
    w, u = lab.rng.standard_normal(x.v.shape), lab.rng.standard_normal(E)
    y, other = (output(lab, x.but(v=v)) for v in (x.v, w))
    whole = x.but(allowed=None)
    return every(
        equal("y of 2v - w", output(lab, x.but(v=2 * x.v - w)), 2 * y - other),
        equal("y of v + u", output(lab, whole.but(v=x.v + u)), output(lab, whole) + u),
    )


# Rounding and dropout ------------------------------------------------------------------------


@law(PAGE, ops.attention, **SIZES, size=Real(0, 30))
def float32_is_enough(lab: Lab, lead: tuple[int, ...], T: int, S: int, size: float) -> Finding:
    """float32 gives float32, up to 10⁻⁶·(1 + the largest |score|) from the result in float64."""
    x = inputs(lab, lead, T, S)
    x = x.but(q=(x.q * size).astype("float32"), k=x.k.astype("float32"), v=x.v.astype("float32"))
    leaves = [Tensor(a, device=lab.device) for a in (x.q, x.k, x.v)]
    y = ops.attention(*leaves, asarray(x.allowed, device=lab.device))
    exact = output(lab, x.but(q=x.q.astype(float), k=x.k.astype(float), v=x.v.astype(float)))
    largest = np.abs(x.q @ x.k.swapaxes(-1, -2)).max()
    return every(
        fact(y.dtype == np.float32, "float32", f"{y.dtype} instead of float32"),
        at_most("largest difference", np.abs(y.numpy() - exact).max(), 1e-6 * (1 + largest)),
    )


@law(PAGE, ops.attention, **SQUARE, rate=OneOf((0.1, 0.5)))
def dropout_scales_up_what_it_keeps(
    lab: Lab, lead: tuple[int, ...], T: int, rate: float
) -> Finding:
    """Each weight is dropped, or divided by 1 - the rate."""
    x = inputs(lab, lead, T, T)
    x = x.but(v=np.broadcast_to(np.eye(T), (*lead, T, T)), g=np.zeros((*lead, T, T)))
    left = output(lab, x, dropout=rate, dropout_rng=DropoutRNG(int(lab.rng.integers(2**32))))
    return equal("weights", left, np.where(left == 0, 0, output(lab, x) / (1 - rate)))
