"""Chapter 7: facts about attention that no answer sheet states, but their claims need."""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.attention import MultiHead, focus
from tinyattn.backend import asnumpy
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import TRUE, Claim
from tinyattn.theory.claims.other_types import C, new
from tinyattn.theory.claims.score_scale import sharpens
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, Real, Reals, Whole
from tinyattn.theory.low_rank import singular_values
from tinyattn.theory.temperature import moments_at
from tinyattn.theory.weights import jacobian, largest_move, weights_of

LARGEST = math.log(np.finfo(np.float64).max)
"""The largest number whose exponential is finite, 709.78."""


def leaf(lab: Lab, values: object) -> Tensor:
    """A leaf tensor that requires a gradient."""
    return Tensor(lab.tensor(values).data, requires_grad=True)


def gradient(y: Tensor, of: Tensor, towards: np.ndarray | None = None) -> np.ndarray:
    """The gradient of `y`, or of its dot product with `towards`, by backward; a NumPy array."""
    of.zero_grad()
    y.backward(towards, retain_graph=True)
    found: np.ndarray = asnumpy(of.grad)
    return found


def by_backward(y: Tensor, x: Tensor) -> np.ndarray:
    """∂y_i/∂x_j by backward, row by row."""
    return np.array([gradient(y, x, row) for row in np.eye(y.shape[0])])


# What is true --------------------------------------------------------------------------------


def how_weights_move(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """J = diag α - ααᵀ is the derivative; J 1 = 0; eigenvalues are from 0 to the bounds."""
    s, half = leaf(lab, scores), lab.tensor([0.5, 0.5, 0.0])
    weights = lab.weights(s)
    found, a = by_backward(weights, s), weights.numpy()
    values = np.linalg.eigvalsh(found)
    return every(
        equal("J", jacobian(weights), found),
        equal("J by backward", found, np.diag(a) - np.outer(a, a)),
        equal("J 1", found.sum(axis=1), np.zeros(len(a))),
        at_least("eigenvalues", values, 0),
        at_most("the largest eigenvalue", values.max(), min(0.5, 2 * (1 - a.max()))),
        equal("that for (½, ½, 0):", np.linalg.eigvalsh(jacobian(half).numpy()).max(), 0.5),
    )


def how_far_weights_move(lab: Lab, scores: tuple[float, ...], delta: float) -> Finding:
    """Σ |Δα| ≤ 2 tanh(r/4) ≤ max |Δs|, r = max Δs - min Δs; two keys attain the first."""
    change = delta * lab.rng.uniform(-1, 1, len(scores))
    before, after = (lab.weights(np.array(scores) + c) for c in (0, change))
    bound, r = 2 * largest_move(lab.tensor(change)), np.ptp(change)
    two = [lab.weights([x * r / 2, 0.0]).numpy() for x in (-1, 1)]
    return every(
        at_most("Σ |Δα|", np.abs((after - before).numpy()).sum(), bound),
        at_most("the bound", bound, np.abs(change).max()),
        equal("Σ |Δα| from (-r/2, 0) to (r/2, 0)", np.abs(two[1] - two[0]).sum(), bound),
    )


def almost_even(lab: Lab, scores: tuple[float, ...], beta: float) -> Finding:
    """α_i = 1/n + β(s_i - mean)/n, up to β²R²e^{βR}/2n, where R is the range of the scores."""
    x, n = np.array(scores), len(scores)
    found = lab.weights(lab.tensor(scores) * beta).numpy()
    reach = beta * np.ptp(x)
    off = np.abs(found - (1 + beta * (x - x.mean())) / n)
    return at_most("largest difference", off.max(), reach**2 * math.exp(reach) / (2 * n))


def soft_maximum(lab: Lab, scores: tuple[float, ...]) -> Finding:
    """max s ≤ logsumexp s ≤ max s + ln n, and its gradient is the softmax."""
    s, n, top = leaf(lab, scores), len(scores), max(scores)
    y = ops.logsumexp(s)
    exactly = top + math.log(math.fsum(math.exp(x - top) for x in scores))
    return every(
        equal("logsumexp", y.item(), exactly, 1e-10),
        at_least("logsumexp", exactly, top, 0),
        at_most("logsumexp", exactly, top + math.log(n), 1e-10),
        equal(
            "if all equal", ops.logsumexp(lab.tensor([top] * n)).item(), top + math.log(n), 1e-10
        ),
        equal("its gradient", gradient(y, s), lab.weights(scores)),
    )


def equal_keys(lab: Lab, n: int, copies: int) -> Finding:
    """m equal keys act as one with a score larger by ln m and the mean of their values."""
    keys, q = lab.normal(n, 3), lab.normal(3)
    repeated = ops.concatenate([*[keys[:1]] * (copies - 1), keys])
    values = lab.normal(n + copies - 1, 2)
    c, weights = lab.attend(q, repeated, values)
    bonus = lab.tensor([math.log(copies), *[0.0] * (n - 1)])
    one = lab.weights(ops.matmul(keys, q) + bonus)
    merged = ops.concatenate([values[:copies].mean(axis=0, keepdims=True), values[copies:]])
    return every(
        equal("sum of their weights", weights[:copies].sum(), one[0].item()),
        equal("other weights", weights[copies:], one[1:]),
        equal("output", c, ops.matmul(one, merged)),
    )


def output_changes_with_query(lab: Lab, n: int, D: int, M: float) -> Finding:
    """∂c/∂q = Vᵀ J K."""
    keys, values = lab.normal(n, D), lab.normal(n, 2)
    q = leaf(lab, M * lab.rng.standard_normal(D))
    c, weights = lab.attend(q, keys, values)
    wanted = values.numpy().T @ jacobian(weights).numpy() @ keys.numpy()
    return equal("∂c/∂q", by_backward(c, q), wanted)


def last_row_knows_no_order(lab: Lab, n: int) -> Finding:
    """Reversed earlier tokens do not change the last row of a causal layer without positions."""
    first, second = (new(lab, MultiHead, n) for _ in range(2))
    x = lab.normal(1, n, C)
    other = ops.concatenate([x[:, : n - 1].flip(1), x[:, n - 1 :]], axis=1)
    y, z = (first(t, causal=True) for t in (x, other))
    after, change = (second(t, causal=True) for t in (y, z)), np.abs((z - y).numpy()[0])
    deeper = np.subtract(*(t.numpy()[0, -1] for t in after))
    return every(
        equal("last row", z[:, -1], y[:, -1]),
        at_least("change of the first row", change[0].max(), 1e-9, 0),
        at_least("change of the second layer's last row", np.abs(deeper).max(), 1e-9, 0),
    )


def where_plain_formulas_break(lab: Lab, score: float) -> Finding:
    """exp, a row without an allowed key, and 0 ln 0: NaN by the formulas, but not here."""
    scores, zero = np.array([score, 0.0]), np.array([1.0, 0.0])
    with np.errstate(all="ignore"):
        plain = np.exp(scores) / np.exp(scores).sum()
        none = np.exp([-np.inf, -np.inf]) / np.exp([-np.inf, -np.inf]).sum()
        product = zero * np.log(zero)
    rival, none_allowed = math.exp(-score), lab.tensor([0.0, 0.0]).data > 0
    q, keys, values = lab.tensor([[1.0]]), lab.tensor([[score], [0.0]]), lab.tensor([[1.0], [2.0]])
    weights = np.array([1, rival]) / (1 + rival)
    return every(
        fact(np.isnan(plain[0]) == (score > LARGEST), "plain exp: NaN beyond 709.78", f"{plain}"),
        fact(np.isnan([*none, product[1]]).all(), "NaN by the formulas", "no NaN by the formulas"),
        equal("softmax", ops.softmax(lab.tensor(scores)), weights),
        equal("attention", ops.attention(q, keys, values, scale=1.0), [[weights @ [1, 2]]]),
        equal("entropy", focus(lab.tensor([[[[0.5, 0.5]]]])).item(), math.log(2)),
        equal("no key allowed: softmax", ops.softmax(lab.tensor(scores), none_allowed), [0, 0], 0),
        equal("attention", ops.attention(q, keys, values, none_allowed[None]), [[0.0]], 0),
        equal("entropy with 0 ln 0", focus(lab.tensor(zero).reshape(1, 1, 1, 2)).item(), 0, 0),
    )


def norm_of_weights(lab: Lab, n: int, keys: int, beta: float) -> Finding:
    """√(n/m) ≤ |P| ≤ √(largest column sum) for n rows that sum to 1; max |P v| ≤ max |v|."""
    weights, values = weights_of(lab.normal(n, keys) * beta), lab.normal(keys)
    norm, sums = singular_values(weights)[0], weights.numpy().sum(axis=0)
    one_key = weights_of(lab.tensor(np.eye(keys)[[0] * n] * 800))
    return every(
        at_least("|P|", norm, math.sqrt(n / keys)),
        at_most("|P|", norm, math.sqrt(sums.max())),
        equal("|P| if all attend to one key", singular_values(one_key)[0], math.sqrt(n)),
        at_most("max |P v|", np.abs(ops.matmul(weights, values).numpy()).max(),
                np.abs(values.numpy()).max()),
        equal("|P| of equal rows", singular_values(weights[:1].broadcast_to((n, keys)))[0],
              math.sqrt(n) * np.linalg.norm(weights.numpy()[0])),
    )  # fmt: skip


def where_weights_underflow(lab: Lab, beyond: float) -> Finding:
    """A weight is 0 from a lead of ln 2^1075 on in float64, of ln 2^150 in float32."""
    findings = []
    for dtype, bits in (("float64", 1075), ("float32", 150)):
        edge = bits * math.log(2)
        for lead in (edge - beyond, edge + beyond):
            weight = weights_of(Tensor(np.array([lead, 0], dtype), device=lab.device)).numpy()[1]
            wanted = weight > 0 if lead < edge else weight == 0
            findings.append(
                fact(wanted, f"{dtype}: right at {lead:.2f}", f"{dtype}: {lead}: {weight}")
            )
    return every(*findings)


# fmt: off
CLAIMS = [
    Claim(
        "G-01", "", TRUE,
        says="the derivative of the weights by the scores is J = diag(α) - αα^T",
        truth="J is symmetric, J 1 = 0, and its eigenvalues are from 0 to the smaller of ½, "
        "attained at (½, ½, 0, ..), and 2(1 - max α)",
        under_test=(ops.attention, jacobian),
        corrected=how_weights_move, domain={"scores": Reals(-50, 50, 1, 8)},
    ),
    Claim(
        "G-02", "", TRUE,
        says="the weights change less than the scores",
        truth="Σ |Δα_i| ≤ 2 tanh(r/4) ≤ max |Δs_i|, r = max Δs - min Δs; equality for two keys",
        under_test=(ops.attention, largest_move),
        corrected=how_far_weights_move,
        domain={"scores": Reals(-50, 50, 1, 12), "delta": Real(0, 50)},
    ),
    Claim(
        "G-03", "", TRUE,
        says="a larger factor β on the scores makes the softmax sharper",
        truth="dE[s]/dβ = Var(s) ≥ 0 and dH/dβ = -β Var(s), mean and variance under the weights",
        under_test=(ops.attention, focus, moments_at),
        corrected=sharpens,
        domain={"scores": Reals(-10, 10, 1, 12), "beta": Real(0, 5), "step": Real(0, 2)},
    ),
    Claim(
        "G-04", "", TRUE,
        says="small scores give almost equal weights",
        truth="α_i = 1/n + β(s_i - s̄)/n, with an error ≤ β²R²e^(βR)/2n, R = max s - min s",
        under_test=(ops.attention,),
        corrected=almost_even, domain={"scores": Reals(-3, 3, 1, 12), "beta": Real(0, 1)},
    ),
    Claim(
        "G-05", "", TRUE,
        says="logsumexp is a soft maximum",
        truth="max s ≤ logsumexp s ≤ max s + ln n, and its gradient is softmax s",
        under_test=(ops.logsumexp, ops.attention),
        corrected=soft_maximum, domain={"scores": Reals(-1e4, 1e4, 1, 20)},
    ),
    Claim(
        "G-06", "", TRUE,
        says="a key that occurs m times has m times the weight",
        truth="m equal keys act as one with a score larger by ln m and the mean of their values",
        under_test=(ops.attention,),
        corrected=equal_keys, domain={"n": Whole(1, 8), "copies": Whole(1, 8)},
    ),
    Claim(
        "G-07", "", TRUE,
        says="the derivative of the output by the query is ∂c/∂q = V^T J K",
        truth="backward through attention gives exactly this matrix",
        under_test=(ops.attention, jacobian),
        corrected=output_changes_with_query,
        domain={"n": Whole(1, 8), "D": Whole(1, 5), "M": Real(0, 20)},
    ),
    Claim(
        "G-08", "", TRUE,
        says="without positions, the last row of a causal layer does not depend on token order",
        truth="earlier tokens may be permuted; but other rows then attend to other tokens, so the "
        "last row of a second layer depends on the order",
        under_test=(MultiHead,),
        corrected=last_row_knows_no_order, domain={"n": Whole(3, 10)},
    ),
    Claim(
        "G-09", "", TRUE,
        says="the plain formulas can give NaN",
        truth="they do for exp of a score above 709.78, a row without an allowed key, and 0 ln 0; "
        "this package returns the weights, zeros and 0",
        under_test=(ops.softmax, ops.attention, focus),
        corrected=where_plain_formulas_break, domain={"score": Real(0, 5000)},
    ),
    Claim(
        "G-10", "", TRUE,
        says="a matrix of weights has a norm of at most √(largest column sum), and never increases "
        "a maximum",
        truth="the norm is √n if all n queries attend to one key, and always at least √(n/keys)",
        under_test=(ops.attention, singular_values),
        corrected=norm_of_weights,
        domain={"n": Whole(1, 10), "keys": Whole(1, 10), "beta": Real(0, 30)},
    ),
    Claim(
        "G-11", "", TRUE,
        says="a weight is rounded to 0 if another score exceeds its score by enough",
        truth="by more than 745.13 nats in float64, 103.97 in float32: ln 2^1075 and ln 2^150",
        under_test=(ops.attention,),
        corrected=where_weights_underflow, domain={"beyond": Real(0.01, 50)},
    ),
]
