"""Claims: sheet 003, problem 2: what a factor on the scores does, and how large it should be.

Next: one matrix for two.
"""

from __future__ import annotations

import numpy as np

from tinyattn import ops
from tinyattn.attention import MultiHead
from tinyattn.attention.penalties import focus
from tinyattn.backend import asnumpy
from tinyattn.tensor import Tensor
from tinyattn.theory.claim import CONDITIONAL, TRUE, TYPO, Claim
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every
from tinyattn.theory.lab import Lab, Real, Reals, Whole
from tinyattn.theory.temperature import (
    coupled_moments,
    enumerated_moments,
    moments_at,
    score_scale,
    score_variance,
)
from tinyattn.theory.weights import entropy

# What is true --------------------------------------------------------------------------------


def sharpens(lab: Lab, scores: tuple[float, ...], beta: float, step: float) -> Finding:
    """A larger β raises the top weight and the mean score and lowers the entropy, as derived."""
    s = lab.tensor(scores)
    low, high = (ops.softmax(s * b) for b in (beta, beta + step))
    factor, again = (Tensor(lab.tensor(beta), requires_grad=True) for _ in range(2))
    mean, variance = moments_at(s, factor)
    mean.backward()
    focus(ops.softmax(s * again)).backward()
    return every(
        at_least("top weight", high.max(), low.max()),
        at_least("mean score", moments_at(s, beta + step)[0], mean),
        at_most("entropy", entropy(high), entropy(low)),
        equal("dE/dβ", asnumpy(factor.grad), variance),
        equal("dH/dβ", asnumpy(again.grad), -beta * variance.numpy()),
    )


def mean_is_a_trace(lab: Lab, width: int, sources: int) -> Finding:
    """E h·e is 0 for independent h and e, and for e = h G the sum of Cov(h_i, e_i)."""
    mix, other, g = lab.normal(width, sources), lab.normal(width, sources), lab.normal(width, width)
    covariance = mix.numpy() @ mix.numpy().T @ g.numpy()  # of h_i and e_j
    return every(
        equal("mean, independent,", enumerated_moments(mix, other)[0], 0.0),
        equal(
            "mean, e = h G,",
            coupled_moments(mix, lambda h: ops.matmul(h, g))[0],
            np.trace(covariance),
            1e-9,
        ),
    )


def variance_is_a_trace(lab: Lab, width: int, sources: int) -> Finding:
    """Var h·e = tr(C_h C_e): I for unit variances if one side is uncorrelated, and 1 after 1/√I."""
    mix_h, mix_e = lab.normal(width, sources), lab.normal(width, sources + 1)
    a, b = mix_h.numpy(), mix_e.numpy()
    mixed = enumerated_moments(mix_h, mix_e)[1]
    unit = lab.tensor(a / np.linalg.norm(a, axis=1, keepdims=True) * score_scale(width))
    return every(
        equal("variance", mixed, score_variance(a @ a.T, b @ b.T), 1e-9),
        equal("variance", mixed, np.square(a.T @ b).sum(), 1e-9),
        equal("variance after 1/√I", enumerated_moments(unit, lab.orthonormal(width, 0))[1], 1.0),
    )


def heads_divide_by_their_width(lab: Lab, heads: int, width: int) -> Finding:
    """Multi-head attention divides by √(head's width), worked out entry by entry."""
    block = MultiHead(heads * width, heads, longest=5, rng=lab.rng)
    block.astype("float64")
    for parameter in block.parameters():
        parameter.data = lab.rng.standard_normal(parameter.shape) / np.sqrt(heads * width)
    p, x = block.state(), lab.normal(1, 5, heads * width)
    query, key = (
        (x.numpy()[0] @ p[f"{name}.weight"] + p[f"{name}.bias"]).reshape(5, heads, width)
        for name in ("query", "key")
    )
    e = np.exp(score_scale(width) * np.einsum("thd,shd->hts", query, key))
    block.to(lab.device)
    sharp, scaled, flat = mean_entropies(lab, 64, (1.0, score_scale(64), 1 / 64))
    return every(
        equal("weights", block.weights(x)[0], e / e.sum(axis=-1, keepdims=True)),
        equal("entropy at β = 1", sharp, 0.66, 0.35),
        equal("at 1/√I", scaled, 4.37, 0.1),
        equal("at 1/I", flat, 4.844, 0.003),
    )


def mean_entropies(lab: Lab, width: int, factors: tuple[float, ...]) -> list[float]:
    """Of 60 queries on 128 keys, all independent normal numbers, for each β."""
    scores = ops.matmul(lab.normal(60, width), lab.normal(width, 128))
    return [focus(ops.softmax(scores * beta)).mean().item() for beta in factors]


# What the sheets say -------------------------------------------------------------------------


def evens_out(lab: Lab, scores: tuple[float, ...], beta: float) -> Finding:
    """A temperature spreads weights: their entropy at β > 1 is no less than at 1."""
    s = lab.tensor(scores)
    return at_least("entropy", entropy(ops.softmax(s * beta)), entropy(ops.softmax(s)))


def mean_zero(lab: Lab, width: int, share: float) -> Finding:
    """Numbers of mean 0 and variance 1 are enough for a mean of 0; here e = share·h."""
    h = lab.tensor(np.eye(width) * width**-0.25)  # so that h·e comes divided by √I
    return equal("mean of h·e/√I", coupled_moments(h, lambda h: h * share)[0], 0.0)


def unit_variance(lab: Lab, width: int, sources: int) -> Finding:
    """Variances of 1 are enough; here the numbers of each vector are made of so few coins."""
    mix = lab.tensor(np.eye(sources)[np.arange(width) % sources])
    found = enumerated_moments(mix * score_scale(width), mix)[1]
    return equal("variance of h·e/√I", found, 1.0)


# fmt: off
CLAIMS = [
    Claim(
        "S003-2.1", "43, 47, 84", TYPO,
        says="β, the factor on the scores, is a temperature",
        truth="an inverse temperature: with E the mean score, dE/dβ = Var and dH/dβ = -β Var, so "
        "a larger β sharpens",
        under_test=(ops.softmax, moments_at, focus),
        corrected=sharpens,
        domain={"scores": Reals(-10, 10, 1, 20), "beta": Real(0, 3), "step": Real(0, 2)},
        literal=evens_out, witness={"scores": (1.0, 0.0), "beta": 8.0},
    ),
    Claim(
        "S003-2.2", "49", CONDITIONAL,
        says="h·e has mean 0, because its terms' factors have",
        truth="E h·e = Σ Cov(h_i, e_i): it is 0 if h and e are independent, and I for e = h",
        under_test=(enumerated_moments, coupled_moments),
        corrected=mean_is_a_trace, domain={"width": Whole(1, 6), "sources": Whole(1, 5)},
        literal=mean_zero, witness={"width": 9, "share": 1.0},
    ),
    Claim(
        "S003-2.3", "49", CONDITIONAL,
        says="variances of 1 give β h·e the variance 1 at β = 1/√I",
        truth="h and e independent of each other, means 0: Var h·e = tr(C_h C_e), which is I if "
        "one side is uncorrelated and the other has variances of 1, whatever the distributions",
        under_test=(enumerated_moments, score_variance, score_scale),
        corrected=variance_is_a_trace, domain={"width": Whole(1, 6), "sources": Whole(1, 4)},
        literal=unit_variance, witness={"width": 64, "sources": 1},
    ),
    Claim(
        "S003-2.4", "53-57", TRUE,
        says="a transformer's attention has the same 1/√I",
        truth="I is the head's width; over 128 keys, I = 64, the entropy is 4.37 of 4.85 nats "
        "with it, 0.66 with 1 and 4.84 with 1/I",
        under_test=(MultiHead, score_scale),
        corrected=heads_divide_by_their_width, domain={"heads": Whole(1, 3), "width": Whole(1, 6)},
    ),
]
