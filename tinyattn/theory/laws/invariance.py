"""Chapter 7: laws of attention: what has no effect on the output."""

from __future__ import annotations

import numpy as np

from tinyattn import ops
from tinyattn.backend import asnumpy
from tinyattn.theory.finding import Finding, at_most, equal, every
from tinyattn.theory.lab import Lab, Real, Whole
from tinyattn.theory.law import law, structural_law
from tinyattn.theory.laws.attention import (
    PAGE,
    SIZES,
    D,
    E,
    Inputs,
    inputs,
    output,
    run,
    same,
)


@law(PAGE, **SIZES)
def keys_have_no_order(lab: Lab, batch: tuple[int, ...], T: int, S: int) -> Finding:
    """If keys, values and mask are permuted together, the output is the same."""
    x, order = inputs(lab, batch, T, S), lab.rng.permutation(S)
    moved = x.but(k=x.k[..., order, :], v=x.v[..., order, :], allowed=x.allowed[..., order])
    y, dq, dk, dv = run(lab, x)
    return same("y", run(lab, moved), (y, dq, dk[..., order, :], dv[..., order, :]))


@structural_law(PAGE, T=Whole(1, 4), S=Whole(1, 5), sequences=Whole(1, 4))
def sequences_do_not_mix(lab: Lab, T: int, S: int, sequences: int) -> Finding:
    """Each sequence and head of a batch has the output and gradients that it has alone."""
    x = inputs(lab, (sequences,), T, S)
    alone = [run(lab, Inputs(*(a[i] for a in (x.q, x.k, x.v, x.allowed, x.g))))
             for i in range(sequences)]  # fmt: skip
    return same("y", run(lab, x), tuple(np.stack(parts) for parts in zip(*alone, strict=True)))


@structural_law(PAGE, **SIZES)
def memory_order_has_no_effect(lab: Lab, batch: tuple[int, ...], T: int, S: int) -> Finding:
    """Transposed views of q, k and v give what arrays of the same elements give."""
    lab.conventions.needs("strides")
    x = inputs(lab, batch, T, S)
    turned, plain = ([lab.leaf(a) for a in arrays] for arrays in (
        [a.swapaxes(-1, -2) for a in (x.q, x.k, x.v)], (x.q, x.k, x.v)))  # fmt: skip
    found = ops.attention(*(leaf.swapaxes(-1, -2) for leaf in turned), x.mask(lab))
    wanted = ops.attention(*plain, x.mask(lab))
    for y in (found, wanted):
        y.backward(lab.tensor(x.g).data)
    gradients = [asnumpy(leaf.grad).swapaxes(-1, -2) for leaf in turned]
    return same("y", (found.numpy(), *gradients),
                (wanted.numpy(), *(asnumpy(leaf.grad) for leaf in plain)))  # fmt: skip


@law(PAGE, **SIZES, factor=Real(0.1, 3))
def only_products_matter(
    lab: Lab, batch: tuple[int, ...], T: int, S: int, factor: float
) -> Finding:
    """A rotation of q and k, or a factor moved from one to the other, changes no score q·k."""
    x, turn = inputs(lab, batch, T, S), np.linalg.qr(lab.rng.standard_normal((D, D)))[0]
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
    lab: Lab, batch: tuple[int, ...], T: int, S: int, shift: float
) -> Finding:
    """A vector added to all keys changes all scores of a query equally; so Σ_j dL/dk_j = 0."""
    x = inputs(lab, batch, T, S)
    y, _, dk, _ = run(lab, x)
    return every(
        equal("y", output(lab, x.but(k=x.k + shift)), y),
        at_most("largest |Σ dL/dk|", np.abs(dk.sum(axis=-2)).max(), 0),
    )


@structural_law(PAGE, ops.attention, **SIZES)
def outputs_are_linear_in_values(lab: Lab, batch: tuple[int, ...], T: int, S: int) -> Finding:
    """y(2v - w) = 2y(v) - y(w); and what is added to all values is added to the output."""
    x = inputs(lab, batch, T, S)
    w, u = lab.rng.standard_normal(x.v.shape), lab.rng.standard_normal(E)
    y, other = (output(lab, x.but(v=v)) for v in (x.v, w))
    whole = x.unmasked()
    return every(
        equal("y of 2v - w", output(lab, x.but(v=2 * x.v - w)), 2 * y - other),
        equal("y of v + u", output(lab, whole.but(v=x.v + u)), output(lab, whole) + u),
    )
