"""Chapter 7: answer sheet 003, problem 2: the softmax temperature and the scale 1/√I."""

# ruff: noqa: E741  (I, the width of a head, is a letter of the sheet)

from __future__ import annotations

import numpy as np

from tinyattn import ops
from tinyattn.attention import MultiHead
from tinyattn.attention.penalties import focus
from tinyattn.backend import asnumpy
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import CONDITIONAL, TRUE, TYPO, Claim
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every
from tinyattn.theory.lab import Lab, Real, Reals, Whole, by_hand
from tinyattn.theory.temperature import (
    coupled_moments,
    enumerated_moments,
    moments_at,
    score_scale,
    score_variance,
)
from tinyattn.theory.weights import weights_of

# What is true --------------------------------------------------------------------------------


def sharpens(lab: Lab, scores: tuple[float, ...], beta: float, step: float) -> Finding:
    """A larger β raises the largest weight and the mean score, and lowers the entropy."""
    s = lab.tensor(scores)
    low, high = (weights_of(s * b) for b in (beta, beta + step))
    factor, again = (Tensor(lab.tensor(beta), requires_grad=True) for _ in range(2))
    mean, variance = moments_at(s, factor)
    mean.backward()
    focus(weights_of(s * again)).backward()
    return every(
        at_least("largest weight at larger β", high.max(), low.max()),
        at_least("mean score", moments_at(s, beta + step)[0], mean),
        at_most("entropy", focus(high), focus(low)),
        equal("dE/dβ", asnumpy(factor.grad), variance),
        equal("dH/dβ", asnumpy(again.grad), -beta * variance.numpy()),
    )


def mean_is_a_trace(lab: Lab, I: int, coins: int) -> Finding:
    """E h·e is 0 for independent h and e, and for e = h G the sum of Cov(h_i, e_i)."""
    mix, other, g = lab.normal(I, coins), lab.normal(I, coins), lab.normal(I, I)
    covariance = mix.numpy() @ mix.numpy().T @ g.numpy()  # of h_i and e_j
    mean, variance = enumerated_moments(mix, other)
    return every(
        equal("mean, h and e independent:", mean, 0.0),
        equal("variance", variance, np.square(mix.numpy().T @ other.numpy()).sum(), 1e-9),
        equal(
            "mean, e = h G:",
            coupled_moments(mix, lambda h: ops.matmul(h, g))[0],
            np.trace(covariance),
            1e-9,
        ),
    )


def variance_is_a_trace(lab: Lab, I: int, coins: int) -> Finding:
    """Var h·e = tr(C_h C_e): I if all variances are 1 and one side is uncorrelated."""
    mix_h, mix_e = lab.normal(I, coins), lab.normal(I, coins + 1)
    a, b = mix_h.numpy(), mix_e.numpy()
    mixed = enumerated_moments(mix_h, mix_e)[1]
    unit = lab.tensor(a / np.linalg.norm(a, axis=1, keepdims=True) * score_scale(I))
    return every(
        equal("variance", mixed, score_variance(a @ a.T, b @ b.T), 1e-9),
        equal("variance", mixed, np.square(a.T @ b).sum(), 1e-9),
        equal("variance of h·e/√I", enumerated_moments(unit, lab.orthonormal(I, 0))[1], 1.0),
    )


def heads_divide_by_their_width(lab: Lab, K: int, I: int) -> Finding:
    """Multi-head attention divides scores by the square root of the head width."""
    block, x = lab.block(MultiHead, K * I, K, max_length=5), lab.normal(1, 5, K * I)
    query, key = (linear(x).numpy()[0].reshape(5, K, I) for linear in (block.query, block.key))
    scores = score_scale(I) * np.einsum("thd,shd->hts", query, key)
    sharp, scaled, flat = mean_entropies(lab, 64, (1.0, score_scale(64), 1 / 64))
    return every(
        equal("weights", block.weights(x)[0], by_hand(scores)),
        equal("entropy at β = 1:", sharp, 0.67, 0.08),
        equal("at β = 1/√I:", scaled, 4.367, 0.05),
        equal("at β = 1/I:", flat, 4.844, 0.002),
    )


def mean_entropies(lab: Lab, I: int, factors: tuple[float, ...]) -> list[float]:
    """The mean entropy of 2000 queries and 128 keys of normal elements, for each β."""
    scores = ops.matmul(lab.normal(2000, I), lab.normal(I, 128))
    return [focus(weights_of(scores * beta)).mean().item() for beta in factors]


# What the sheets say -------------------------------------------------------------------------


def evens_out(lab: Lab, scores: tuple[float, ...], beta: float) -> Finding:
    """If β were a temperature, the entropy at β > 1 would be at least that at β = 1."""
    s = lab.tensor(scores)
    return at_least("entropy", focus(weights_of(s * beta)), focus(weights_of(s)))


def mean_zero(lab: Lab, I: int, ratio: float) -> Finding:
    """h·e has mean 0 if all elements have mean 0 and variance 1; here e = ratio·h."""
    h = lab.tensor(np.eye(I) * I**-0.25)  # so that h·e is divided by √I
    found = coupled_moments(h, lambda h: h * ratio)[0]
    return equal("with e = ratio·h the mean of h·e/√I is", found, 0.0)


def unit_variance(lab: Lab, I: int, coins: int) -> Finding:
    """h·e/√I has variance 1 if all elements have; here all elements are copies of few signs."""
    mix = lab.tensor(np.eye(coins)[np.arange(I) % coins])
    found = enumerated_moments(mix * score_scale(I), mix)[1]
    return equal("all elements copies of `coins` random signs: variance of h·e/√I", found, 1.0)


# fmt: off
CLAIMS = [
    Claim(
        "S003-2.1", "43", TYPO, of_question=True,
        says="β, the factor on the scores, is a temperature",
        truth="β is an inverse temperature: with E the mean score, dE/dβ = Var and dH/dβ = -β Var, "
        "so a larger β makes the softmax sharper",
        under_test=(ops.attention, moments_at, focus),
        corrected=sharpens,
        domain={"scores": Reals(-10, 10, 1, 20), "beta": Real(0, 3), "step": Real(0, 2)},
        literal=evens_out, witness={"scores": (1.0, 0.0), "beta": 8.0},
    ),
    Claim(
        "S003-2.2", "49", CONDITIONAL,
        says="h·e has mean 0 if all elements of h and e have mean 0",
        truth="E h·e = Σ Cov(h_i, e_i): this is 0 if h and e are independent, but I for e = h",
        under_test=(enumerated_moments, coupled_moments),
        corrected=mean_is_a_trace, domain={"I": Whole(1, 6), "coins": Whole(1, 5)},
        literal=mean_zero, witness={"I": 9, "ratio": 1.0},
    ),
    Claim(
        "S003-2.3", "49", CONDITIONAL,
        says="if all elements have variance 1, β h·e has variance 1 at β = 1/√I",
        truth="for independent h and e of mean 0: Var h·e = tr(C_h C_e); it is I if all variances "
        "are 1 and the elements of h or of e are uncorrelated, for any distributions",
        under_test=(enumerated_moments, score_variance, score_scale),
        corrected=variance_is_a_trace, domain={"I": Whole(1, 6), "coins": Whole(1, 4)},
        literal=unit_variance, witness={"I": 64, "coins": 1},
    ),
    Claim(
        "S003-2.4", "53-57", TRUE,
        says="a transformer's attention has the same scale, 1/√I",
        truth="this is right; I is the head width; with 128 keys and I = 64 the entropy is 4.37 "
        "nats (of at most 4.85), but 0.67 with the scale 1 and 4.84 with 1/I",
        under_test=(MultiHead, score_scale),
        corrected=heads_divide_by_their_width, domain={"K": Whole(1, 3), "I": Whole(1, 6)},
    ),
]
