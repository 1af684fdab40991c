"""Chapter 7: laws of attention that first implementations break: shapes, masks, scale, precision.

Each is about one thing that an implementation can get wrong, and an error in it breaks this law
first. The laws of the next files follow from the two equations as a whole.
"""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.rng import DropoutRNG
from tinyattn.tensor import Tensor
from tinyattn.theory.finding import (
    NEARLY,
    Finding,
    at_least,
    at_most,
    equal,
    every,
    fact,
    shown,
)
from tinyattn.theory.lab import Lab, OneOf, Real, Whole, by_hand
from tinyattn.theory.law import law, structural_law
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
)  # fmt: skip

# Shapes --------------------------------------------------------------------------------------


@structural_law(PAGE, **SIZES, dtype=OneOf(("float64", "float32")))
def shape_and_dtype(lab: Lab, batch: tuple[int, ...], T: int, S: int, dtype: str) -> Finding:
    """The output has a row of E elements for each query, in the precision of the inputs."""
    if dtype == "float64":
        lab.conventions.needs("float64")
    x = inputs(lab, batch, T, S)
    y = ops.attention(*(Tensor(a.astype(dtype), device=lab.device) for a in (x.q, x.k, x.v)))
    return every(
        equal("shape", y.shape, (*batch, T, E), 0),
        fact(y.dtype == np.dtype(dtype), dtype, f"{y.dtype} from {dtype}"),
    )


@structural_law(PAGE, **SIZES)
def inputs_are_not_changed(lab: Lab, batch: tuple[int, ...], T: int, S: int) -> Finding:
    """q, k and v are as before, and a second call has the same result."""
    x = inputs(lab, batch, T, S)
    given = [Tensor(a.copy(), device=lab.device) for a in (x.q, x.k, x.v)]
    first, second = (ops.attention(*given).numpy() for _ in range(2))
    return every(
        *(equal(name, a, b, 0) for name, a, b in zip("qkv", given, (x.q, x.k, x.v), strict=True)),
        equal("y of a second call", second, first, 0),
    )


# Weights -------------------------------------------------------------------------------------


@law(PAGE, ops.attention, **SIZES)
def weights_of_a_query_sum_to_one(lab: Lab, batch: tuple[int, ...], T: int, S: int) -> Finding:
    """If all values are 1, so are the outputs: the softmax is over the keys of each query."""
    x = inputs(lab, batch, T, S).unmasked()
    return equal("y", output(lab, x.but(v=np.ones_like(x.v))), np.ones_like(x.g), NEARLY)


@law(PAGE, ops.attention, width=Whole(1, 16))
def scores_are_divided_by_the_root_of_the_width(lab: Lab, width: int) -> Finding:
    """ln(α_1/α_2) = q·(k_1 - k_2)/√D, so that scores have the variance 1 for any width D."""
    q, k = lab.rng.standard_normal((2, width)), lab.rng.standard_normal((2, width))
    weights = ops.attention(*(lab.tensor(a) for a in (q, k, np.eye(2)))).numpy()
    wanted = (q @ (k[0] - k[1]))[0] / math.sqrt(width)
    return equal("ln(α_1/α_2)", math.log(weights[0, 0] / weights[0, 1]), wanted, NEARLY)


@law(PAGE, ops.attention, **SIZES, size=OneOf((1e3, 1e5)))
def large_scores_do_not_overflow(
    lab: Lab, batch: tuple[int, ...], T: int, S: int, size: float
) -> Finding:
    """The largest score is subtracted before exp: even near 10⁵ only the leads count."""
    x = inputs(lab, batch, T, S).unmasked()
    q, k = np.zeros_like(x.q), np.zeros_like(x.k)
    q[..., 0] = math.sqrt(D)
    k[..., 0] = size + np.arange(S) % 3  # so the scores are whole numbers near the size
    weights = by_hand(np.arange(S) % 3 * np.ones((*batch, T, S)))
    return equal("y", output(lab, x.but(q=q, k=k)), weights @ x.v, NEARLY)


@law(PAGE, ops.attention, **SIZES, size=Real(0, 30))
def float32_is_enough(lab: Lab, batch: tuple[int, ...], T: int, S: int, size: float) -> Finding:
    """float32 is exact up to 10⁻⁶·(1 + the largest |score|): no step has a lower precision."""
    x = inputs(lab, batch, T, S)
    q, k, v = ((a * f).astype("float32") for a, f in ((x.q, size), (x.k, 1), (x.v, 1)))
    leaves = [Tensor(a, device=lab.device) for a in (q, k, v)]
    y = ops.attention(*leaves).numpy()
    scores = q.astype(float) @ k.astype(float).swapaxes(-1, -2) / math.sqrt(D)
    return at_most("largest difference", np.abs(y - by_hand(scores) @ v).max(),
                   1e-6 * (1 + np.abs(scores).max()))  # fmt: skip


# Masks ---------------------------------------------------------------------------------------


@law(PAGE, ops.attention, **SIZES)
def true_means_may_attend(lab: Lab, batch: tuple[int, ...], T: int, S: int) -> Finding:
    """If each query may attend to one key only, its output is the value of this key."""
    lab.conventions.needs("mask")
    x = inputs(lab, batch, T, S)
    only = lab.rng.integers(S, size=(*batch, T, 1))
    values = np.take_along_axis(x.v, np.broadcast_to(only, (*batch, T, E)), axis=-2)
    return equal("y", output(lab, x.but(allowed=np.arange(S) == only)), values)


@law(PAGE, **SIZES, others=OneOf((0.0, -1e5)))
def a_mask_beats_any_score(
    lab: Lab, batch: tuple[int, ...], T: int, S: int, others: float
) -> Finding:
    """A masked key has no weight even if its score is larger than all others by 10⁵."""
    lab.conventions.needs("mask", "rectangular")
    x = inputs(lab, batch, T, S).unmasked()
    q, k, v = x.q.copy(), np.insert(x.k, S, 0, axis=-2), np.insert(x.v, S, 1e3, axis=-2)
    q[..., 0], k[..., 0], k[..., S, 0] = math.sqrt(D), others, others + 1e5
    hidden = x.but(q=q, k=k, v=v, allowed=np.insert(x.allowed, S, False, axis=-1))
    return equal("y", output(lab, hidden), output(lab, x.but(q=q, k=k[..., :S, :])), NEARLY)


@law(PAGE, ops.attention, **SIZES)
def without_a_key_all_is_zero(lab: Lab, batch: tuple[int, ...], T: int, S: int) -> Finding:
    """A query without an allowed key gets 0; its gradient is 0, and it gives none to k and v.

    An attention may declare another output: the mean of all values, or NaN.
    """
    lab.conventions.needs("mask")
    x = inputs(lab, batch, T, S)
    allowed, g = x.allowed.copy(), x.g.copy()
    allowed[..., 0, :] = False
    g[..., 0, :] = 0
    if (other := lab.conventions.no_key) != "zeros":
        found = output(lab, x.but(allowed=allowed))[..., 0, :]
        if other == "mean":
            return equal("y of this query", found, x.v.mean(axis=-2))
        text = f"y of this query = {shown(found)}"
        return fact(np.isnan(found).all(), text, f"{text} instead of NaN")
    y, dq, *rest = run(lab, x.but(allowed=allowed))
    wanted = run(lab, x.but(allowed=allowed, g=g))[2:]
    return every(
        equal("y of this query", y[..., 0, :], 0 * y[..., 0, :], 0),
        equal("dL/dq of this query", dq[..., 0, :], 0 * dq[..., 0, :], 0),
        *(equal(*three) for three in zip(("dL/dk", "dL/dv"), rest, wanted, strict=True)),
    )


# Dropout -------------------------------------------------------------------------------------


@law(PAGE, ops.attention, **SQUARE, rate=OneOf((0.1, 0.5)))
def dropout_scales_up_what_it_keeps(
    lab: Lab, batch: tuple[int, ...], T: int, rate: float
) -> Finding:
    """Each weight is dropped, or divided by 1 - the rate: dropout comes after the softmax."""
    lab.conventions.needs("dropout")
    x = inputs(lab, batch, T, T)
    x = x.but(v=np.broadcast_to(np.eye(T), (*batch, T, T)), g=np.zeros((*batch, T, T)))
    left = output(lab, x, dropout=rate, dropout_rng=DropoutRNG(int(lab.rng.integers(2**32))))
    return equal("weights", left, np.where(left == 0, 0, output(lab, x) / (1 - rate)))


@law(PAGE, ops.attention, rate=OneOf((0.1, 0.5)))
def dropout_drops_single_weights(lab: Lab, rate: float) -> Finding:
    """In each row about this part of the weights is dropped, so their sum stays near 1."""
    lab.conventions.needs("dropout", "rectangular")
    n = 400
    zeros, ones = np.zeros((n, 1)), np.ones((n, 1))
    sums = ops.attention(
        *(lab.tensor(a) for a in (zeros[:20], zeros, ones)),
        dropout=rate, dropout_rng=DropoutRNG(int(lab.rng.integers(2**32))),
    ).numpy()  # fmt: skip
    error = 6 * math.sqrt(rate / (1 - rate) / n)  # six standard errors
    return every(
        at_most("largest sum of a row", sums.max(), 1 + error),
        at_least("smallest sum of a row", sums.min(), 1 - error),
    )


# Nothing -------------------------------------------------------------------------------------


@structural_law(PAGE, empty=OneOf(("batch", "queries", "keys", "width")))
def empty_axes(lab: Lab, empty: str) -> Finding:
    """Without sequences or queries the output is empty; without keys it is 0; D = 0: the mean."""
    lab.conventions.needs("empty")
    x = inputs(lab, (2,), 3, 3).unmasked()
    if empty == "batch":
        x = Inputs(*(a[:0] for a in (x.q, x.k, x.v, x.allowed, x.g)))
        wanted = x.g
    elif empty == "queries":
        x = x.but(q=x.q[:, :0], g=x.g[:, :0], allowed=x.allowed[:, :0])
        wanted = x.g
    elif empty == "keys":
        lab.conventions.needs("rectangular")
        x = x.but(k=x.k[:, :0], v=x.v[:, :0], allowed=x.allowed[:, :, :0])
        wanted = 0 * x.g
    else:
        x = x.but(q=x.q[..., :0], k=x.k[..., :0])
        wanted = np.broadcast_to(x.v.mean(axis=1, keepdims=True), x.g.shape)
    return equal("y", output(lab, x), wanted)
