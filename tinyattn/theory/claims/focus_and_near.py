"""Chapter 7: answer sheet 003, problem 1: penalties for attention to many or distant positions."""

from __future__ import annotations

import math

import numpy as np

from tinyattn.attention.penalties import Penalty, focus, near
from tinyattn.backend import asnumpy
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import CONDITIONAL, TRUE, TYPO, Claim
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every, fact
from tinyattn.theory.lab import Domain, Lab, Real, Whole
from tinyattn.theory.law import check
from tinyattn.theory.laws.ranks import entropy_is_at_most_ln_n
from tinyattn.theory.weights import weights_of

SIZES: Domain = {"layers": Whole(1, 3), "K": Whole(1, 3), "T": Whole(1, 5)}


def weights_of_layers(lab: Lab, layers: int, K: int, T: int) -> list[Tensor]:
    """Random causal weights (1, K, T, T) of some layers."""
    return [weights_of(lab.normal(1, K, T, T) * 3, causal=True) for _ in range(layers)]


def each_entropy(layers: list[Tensor]) -> np.ndarray:
    """H[ℓ, k, t], by the formula: (L, K, T)."""
    a = np.array([layer.numpy()[0] for layer in layers])
    entropies: np.ndarray = -(a * np.log(np.where(a > 0, a, 1))).sum(axis=-1)
    return entropies


def penalty_of(layers: list[Tensor], *, among: float = 0.0, **weights: float) -> Tensor:
    """The penalty with all queries counted, divided by their number or by `among`."""
    T = layers[0].shape[2]
    counts = layers[0].xp.ones((1, T), dtype=bool)
    return Penalty(**weights)(layers, counts, among or T)


def farthest(T: int, past: bool) -> np.ndarray:
    """The distance of each query's farthest key, of all or of earlier ones: (T,)."""
    t = np.arange(T)
    return t if past else np.maximum(t, T - 1 - t)


def one_hot(lab: Lab, T: int, past: bool) -> Tensor:
    """Weights (1, 1, T, T) that are 1 at the farthest key."""
    t, away = np.arange(T), farthest(T, past)
    return lab.tensor(np.eye(T)[np.where(t - away >= 0, t - away, t + away)][None, None])


def outlier(lab: Lab, share: float, distance: int) -> Tensor:
    """Weights (1, 1, N, N) of 1 at the own position, and in the last row `share` at `distance`."""
    rows = np.eye(distance + 1)
    rows[-1, [0, -1]] = share, 1 - share
    return lab.tensor(rows[None, None])


# What is true --------------------------------------------------------------------------------


@check(Penalty, focus, **SIZES, lamda=Real(0.01, 10))
def focus_is_a_mean(lab: Lab, layers: int, K: int, T: int, lamda: float) -> Finding:
    """λ L_focus is λ times the mean entropy over layers, heads and queries, its gradients likewise.

    So λ can include a constant factor; with a mean it need not depend on the size of the model.
    """
    made = weights_of_layers(lab, layers, K, T)
    leaves, again = ([Tensor(w.data, requires_grad=True) for w in made] for _ in range(2))
    wanted = lamda * each_entropy(made).mean()
    loss, total = penalty_of(leaves, focus=lamda), penalty_of(again, focus=1.0, among=1.0)
    loss.backward()
    total.backward()
    gradients, plain = ([asnumpy(w.grad) for w in each] for each in (leaves, again))
    return every(
        equal("λ L_focus", loss.item(), wanted),
        equal("λ L_focus, factor included in λ", total.item() * lamda / T, wanted),
        equal("gradients", gradients, np.array(plain) * lamda / T),
    )


@check(Penalty, near, **SIZES, L_max=Real(0.1, 60))
def near_is_a_mean(lab: Lab, layers: int, K: int, T: int, L_max: float) -> Finding:
    """L_near is the mean over KT(L - 1) rows of min(L_max, Σ α D²), D = t - s, at most L_max."""
    made, t = weights_of_layers(lab, layers, K, T), np.arange(T)
    squares = np.subtract.outer(t, t) ** 2
    rows = [min(L_max, float(a @ d)) for w in made for head in w.numpy()[0]
            for a, d in zip(head, squares, strict=True)]  # fmt: skip
    found = penalty_of(made, near=1.0, cap=L_max).item()
    return every(
        equal("number of rows", len(rows), layers * K * T),
        equal("L_near", found, sum(rows) / len(rows), 1e-9),
        at_most("L_near", found, L_max),
    )


@check(near, T=Whole(1, 20), L_max=Real(0.1, 60))
def near_at_most(lab: Lab, T: int, L_max: float) -> Finding:
    """The bound L_max does not depend on T; the maximum is the mean of min(L_max, m_t²).

    m_t is the largest distance of a key: max(t, T - 1 - t), or t for causal attention. The maximum
    is L_max if and only if ⌈(T - 1)/2⌉² ≥ L_max, never for causal attention. Without L_max it is
    about 7T²/12.
    """
    findings = []
    for past, which in ((False, "largest L_near"), (True, "largest L_near if causal")):
        bound = np.minimum(L_max, farthest(T, past) ** 2.0)
        found = near(one_hot(lab, T, past), L_max).numpy()[0, 0]
        weights = weights_of(lab.normal(1, 1, T, T) * 9, causal=past)
        other = near(weights, L_max).numpy()[0, 0]
        reached = not past and math.ceil((T - 1) / 2) ** 2 >= L_max
        findings += [
            equal("rows of weight 1 at the farthest key", found, bound),
            equal(which, found.mean(), bound.mean()),
            at_most("rows of other weights", other, bound),
            fact((found == L_max).all() == reached, "L_max by the rule", "not by the rule"),
        ]
    limit = near(one_hot(lab, 200, False), 1e9).mean().item() / 200**2
    return every(*findings, equal("maximum without a cap, over T²", limit, 7 / 12, 0.01))


@check(near, share=Real(0, 1), distance=Whole(1, 30), L_max=Real(0.1, 60))
def cap_is_on_the_row(lab: Lab, share: float, distance: int, L_max: float) -> Finding:
    """A row has the penalty min(L_max, Σ α D²), which is at least Σ α min(L_max, D²).

    So a small weight at a long distance D can have all of L_max; beyond it the gradient is 0.
    """
    weights = Tensor(outlier(lab, share, distance).data, requires_grad=True)
    found = near(weights, L_max)
    found.backward(np.ones(found.shape))
    pull = np.abs(asnumpy(weights.grad)[0, 0, -1]).max()
    mean, last = share * distance**2, float(found.numpy()[0, 0, -1])
    return every(
        equal("penalty of the row", last, min(L_max, mean)),
        at_least("penalty of the row", last, share * min(L_max, distance**2)),
        fact(mean <= L_max * (1 + 1e-9) or pull == 0, "no gradient beyond L_max", "a gradient"),
        fact(mean >= L_max * (1 - 1e-9) or pull == distance**2, "a gradient below", "none below"),
    )


@check(Penalty, focus, lamda=Real(0, 5), more=Real(0, 5))
def shaping_never_helps_the_optimum(lab: Lab, lamda: float, more: float) -> Finding:
    """At the optimum a larger λ gives no smaller loss L_LM, and no larger penalty.

    Both may also stay the same. The check takes the best of 20 candidates.
    """
    candidates = [weights_of(lab.normal(1, 1, 1, 5) * 3) for _ in range(20)]
    losses = lab.rng.exponential(size=20)
    entropies = each_entropy(candidates).ravel()
    sizes = (lamda, lamda + more)
    penalties = np.array([[penalty_of([w], focus=x).item() for w in candidates] for x in sizes])
    best = (losses + penalties).argmin(axis=1)
    return every(
        equal("λ L_focus", penalties, np.outer(sizes, entropies)),
        at_least("loss with a larger λ", losses[best[1]], losses[best[0]]),
        at_most("penalty with a larger λ", entropies[best[1]], entropies[best[0]]),
        at_least("loss with λ", losses[best[0]], losses.min(), 0),
    )


# What the sheets say -------------------------------------------------------------------------


def layer_does_not_matter(lab: Lab, layers: int) -> Finding:
    """H(k, t), without the layer, is one number for all layers."""
    found = each_entropy(weights_of_layers(lab, layers, 1, 3))[:, 0, 2]
    return fact(np.ptp(found) < 1e-9, "one number", f"H(1, 3, T) is {found.round(3).tolist()}")


def over_all_layers(lab: Lab, L: int) -> Finding:
    """The sum over the layers of part (c), 0 to L - 2, divided by KTL, is the mean."""
    found = each_entropy(weights_of_layers(lab, L - 1, 2, 3))
    return equal("sum/KTL over the mean", found.sum() / (2 * 3 * L) / found.mean(), 1)


# fmt: off
CLAIMS = [
    Claim(
        "S003-1.b.2", "21", TRUE,
        says="L_focus is the mean entropy of the weights",
        truth="this is right for the number of layers by which it divides (see S003-1.b.4); H is "
        "from 0, for one key, to ln T, or ln(T!)/T on average if causal; ∂H/∂s_i = -α_i (ln α_i + "
        "H), which is also 0 if all weights are equal",
        check=entropy_is_at_most_ln_n,
    ),
    Claim(
        "S003-1.b.3", "21", TYPO,
        says="the terms of L_focus are H(k, t_1, T_2)",
        truth="H(ℓ, k, t_1, T_2) is meant: each layer has its own weights",
        check=focus_is_a_mean,
        literal=layer_does_not_matter, witness={"layers": 3},
    ),
    Claim(
        "S003-1.b.4", "21, 31", TYPO,
        says="part (b) divides by KTL, and part (c) by KT(L - 1)",
        truth="one of them is wrong, as (b) does not define the range of ℓ: over the layers of "
        "(c), 0 to L - 2, the result of (b) is (L - 1)/L of the mean",
        check=focus_is_a_mean,
        literal=over_all_layers, witness={"L": 4},
    ),
    Claim(
        "S003-1.b.5", "23", TRUE,
        says="λ can include the constant factor",
        check=focus_is_a_mean,
    ),
    Claim(
        "S003-1.c.1", "31", TRUE,
        says="L_near divides by KT(L - 1)",
        check=near_is_a_mean,
    ),
    Claim(
        "S003-1.c.2", "25", CONDITIONAL, of_question=True,
        says="the maximum of L_near should not depend on T",
        check=near_at_most,
        literal=near_at_most.gives("largest L_near", lambda T, L_max: L_max),
        witness={"T": 4, "L_max": 25.0},
    ),
    Claim(
        "S003-1.c.3", "25", CONDITIONAL, of_question=True,
        says="L_near should allow some outliers, attention at a long distance",
        check=cap_is_on_the_row,
        literal=cap_is_on_the_row.gives_at_most(
            "penalty of the row", lambda share, distance, L_max: share * L_max
        ),
        witness={"share": 0.01, "distance": 100, "L_max": 25.0},
    ),
    Claim(
        "S003-1.d", "37", TRUE,
        says="if training finds the true optimum, such penalties can only increase the loss",
        check=shaping_never_helps_the_optimum,
    ),
]
