"""Chapter 7: answer sheet 003, problem 2: the softmax temperature and the scale 1/√I."""

# ruff: noqa: E741  (I, the width of a head, is a letter of the sheet)

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.theory.claim import CONDITIONAL, TRUE, TYPO, Claim
from tinyattn.theory.finding import Finding, equal, every
from tinyattn.theory.lab import Lab, Whole
from tinyattn.theory.law import check
from tinyattn.theory.laws.changes import a_factor_sharpens
from tinyattn.theory.laws.scores import heads_divide_by_the_root_of_their_width
from tinyattn.theory.temperature import (
    coupled_moments,
    enumerated_moments,
    score_scale,
    score_variance,
)


def mixing(lab: Lab, I: int, coins: int) -> np.ndarray:
    """A matrix that makes I elements of variance 1 from random signs: (I, coins)."""
    some = lab.normal(I, coins).numpy()
    matrix: np.ndarray = some / np.linalg.norm(some, axis=1, keepdims=True)
    return matrix


@check(enumerated_moments, coupled_moments, I=Whole(1, 6), coins=Whole(1, 5))
def mean_is_a_trace(lab: Lab, I: int, coins: int) -> Finding:
    """For elements of mean 0, E h·e = Σ Cov(h_i, e_i).

    It is 0 if h and e are independent, but I for e = h with elements of variance 1. If h = A s with
    random signs s, |h|² has the variance 2 Σ_{i≠j} (AᵀA)_ij².
    """
    mix, other, g = lab.tensor(mixing(lab, I, coins)), lab.normal(I, coins), lab.normal(I, I)
    a = mix.numpy()
    dependent = coupled_moments(mix, lambda h: ops.matmul(h, g))[0]
    mean, variance = coupled_moments(mix, lambda h: h)
    products = a.T @ a - np.diag(np.square(a).sum(axis=0))  # of different columns
    return every(
        equal("E h·e, h and e independent:", enumerated_moments(mix, other)[0], 0),
        equal("E h·e, e = h G:", dependent, np.trace(a @ a.T @ g.numpy()), 1e-9),
        equal("E h·e/√I for e = h:", mean / math.sqrt(I), math.sqrt(I)),
        equal("Var |h|²", variance, 2 * np.square(products).sum(), 1e-9),
    )


@check(enumerated_moments, score_variance, score_scale, I=Whole(1, 6), coins=Whole(1, 4))
def variance_is_a_trace(lab: Lab, I: int, coins: int) -> Finding:
    """For independent h and e of mean 0, Var h·e = tr(C_h C_e), for any distributions.

    It is I if all variances are 1 and the elements of h or of e are uncorrelated; if all elements
    of h are equal, and those of e, it is I².
    """
    mix_h, mix_e = lab.normal(I, coins), lab.normal(I, coins + 1)
    a, b = mix_h.numpy(), mix_e.numpy()
    variance, ones = enumerated_moments(mix_h, mix_e)[1], lab.tensor(np.ones((I, 1)))
    unit = lab.tensor(mixing(lab, I, coins) * score_scale(I))
    alike = enumerated_moments(ones * score_scale(I), ones)[1]
    return every(
        equal("variance", variance, score_variance(a @ a.T, b @ b.T), 1e-9),
        equal("variance", variance, np.square(a.T @ b).sum(), 1e-9),
        equal("variance of h·e/√I", enumerated_moments(unit, lab.orthonormal(I, 0))[1], 1),
        equal("variance of h·e/√I, all elements equal", alike, I),
    )


# fmt: off
CLAIMS = [
    Claim(
        "S003-2.1", "43", TYPO, of_question=True,
        says="β, the factor on the scores, is a temperature",
        truth="β is an inverse temperature: with E the mean score, dE/dβ = Var and dH/dβ = -β Var, "
        "so a larger β makes the softmax sharper; with a temperature the entropy H would rise",
        check=a_factor_sharpens,
        literal=a_factor_sharpens.gives_at_least("dH/dβ", 0),
        witness={"scores": (1.0, 0.0), "beta": 1.0, "step": 0.0},
    ),
    Claim(
        "S003-2.2", "49", CONDITIONAL,
        says="h·e has mean 0 if all elements of h and e have mean 0",
        truth="E h·e = Σ Cov(h_i, e_i): this is 0 if h and e are independent, but I for e = h with "
        "elements of variance 1",
        check=mean_is_a_trace,
        literal=mean_is_a_trace.gives("E h·e/√I for e = h", 0), witness={"I": 9, "coins": 4},
    ),
    Claim(
        "S003-2.3", "49", CONDITIONAL,
        says="if all elements have variance 1, β h·e has variance 1 at β = 1/√I",
        check=variance_is_a_trace,
        literal=variance_is_a_trace.gives("variance of h·e/√I, all elements equal", 1),
        witness={"I": 9, "coins": 1},
    ),
    Claim(
        "S003-2.4", "53-57", TRUE,
        says="a transformer's attention has the same scale, 1/√I",
        check=heads_divide_by_the_root_of_their_width,
    ),
]
