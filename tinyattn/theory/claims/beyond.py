"""Claims: ten results that stand in none of the sheets, found while these were checked.

Next: the registry.
"""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.theory.bilinear import merged_matrix
from tinyattn.theory.claim import TRUE, Claim
from tinyattn.theory.construction import (
    closest_copy,
    construction_errors,
    parts,
    self_attention,
)
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, Real, Whole
from tinyattn.theory.law import logistic, one_head_law, total_variance, two_head_law
from tinyattn.theory.low_rank import orthonormal_singular_value, singular_values
from tinyattn.theory.noisy_keys import lengthened, one_head, stratified_lengths, two_heads
from tinyattn.theory.queries import (
    averaging_query,
    averaging_weight,
    copying_query,
    repelling_query,
)
from tinyattn.theory.repetition import Trigram, de_bruijn_table, first_repeat, loop, table_model

SURE = 0.5 * (1 + math.erf(1))
"""Φ(√2): how often a length of mean 1 and variance ½ is above 0."""


def immune(lab: Lab, n: int, size: float, y_a: float, y_b: float) -> Finding:
    """Any lengths of the two keys, also negative ones: the same weights."""
    keys = lab.orthonormal(n)
    query = repelling_query(keys, [0, 1], size)
    weights = one_head(lengthened(keys, [y_a, y_b, *[1.0] * (n - 2)]), lab.normal(n, 2), query)[1]
    half = averaging_weight(n, size)
    return equal("α_a and α_b", weights.numpy()[:2], np.array([half, half]))


def exact_law(lab: Lab, n: int, size: float) -> Finding:
    """Weights of lengths that are quantiles are quantiles of the law; its moments and modes."""
    keys, y = lab.orthonormal(n), stratified_lengths(201)
    lengths = np.concatenate([y[:, None], np.ones((len(y), n - 1))], axis=1)
    places = (np.arange(len(y)) + 0.5) / len(y)
    found = []
    for query, law in (
        (averaging_query(keys, [0, 1], size), one_head_law(size, n)),
        (copying_query(keys, 0, size), two_head_law(size, n)),
    ):
        weights = one_head(lengthened(keys, lengths), keys, query)[1].numpy()[:, 0]
        found.append(equal("quantiles", weights, [law.quantile(p) for p in places], 1e-9))
    pair = one_head_law(size, 2)
    return every(
        *found,
        equal("mean for n = 2", pair.mean(), 0.5),
        at_most("variance", pair.variance(), 0.25),
        at_least("variance", pair.variance(), 0.25 - 1 / (math.sqrt(math.pi) * size)),
        fact(len(pair.modes()) == 1 + (size > 2), f"{len(pair.modes())} modes at M = {size:.3g}",
             f"{len(pair.modes())} modes at M = {size:.3g}"),
    )  # fmt: skip


def variance_factor(lab: Lab, n: int, size: float) -> float:
    """The variance of one head's output over that of two, for orthonormal values."""
    values = lab.tensor(np.eye(n))
    return total_variance(values, 0, 1, size, 1) / total_variance(values, 0, 1, size, 2)


def factor_of_two_heads(lab: Lab) -> Finding:
    """Limits, and the maximum in between."""
    p = SURE
    return every(
        equal("n = 2, M → 0", variance_factor(lab, 2, 1e-3), 4, 1e-3),
        equal("at M = 20.8", variance_factor(lab, 2, 20.8), 14.00, 0.005),
        at_least("there, above M = 15", variance_factor(lab, 2, 20.8), variance_factor(lab, 2, 15)),
        at_least("and M = 30", variance_factor(lab, 2, 20.8), variance_factor(lab, 2, 30)),
        equal("n = 2, M → ∞", variance_factor(lab, 2, 1e5), 1 / (p * (1 - p)), 1e-3),
        equal(
            "n = 400, M → ∞", variance_factor(lab, 400, 1e5), 2 * 399 / (400 * p * (1 - p)), 0.01
        ),
    )


def two_heads_can_lose(lab: Lab, n: int, size: float, distance: float) -> Finding:
    """A larger error without noise, and a larger variance with equal values and a distractor."""
    keys, values = lab.orthonormal(n), lab.normal(n, 4)
    middle = (values[0] + values[1]) / 2
    single = one_head(keys, values, averaging_query(keys, [0, 1], size))[0]
    double = two_heads(keys, values, copying_query(keys, 0, size), copying_query(keys, 1, size))[0]
    errors = [float(np.linalg.norm((c - middle).numpy())) for c in (single, double)]
    alike = lab.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, distance]])
    spread = [total_variance(alike, 0, 1, 5 + size, heads) for heads in (1, 2)]
    return every(
        at_least("two heads' error without noise", errors[1], errors[0]),
        at_least("variance, equal values", spread[1], spread[0]),
    )


def all_from_the_ignored(lab: Lab, n: int) -> Finding:
    """For large M: the variance of two heads by the share of y < 0; the error 1/M given y > 0."""
    values, size = lab.normal(n, 3), 1e6
    v = values.numpy()
    apart = float(np.sum((v[0] - v[1:].mean(axis=0)) ** 2))
    y = stratified_lengths(4001)
    keys = lab.orthonormal(2)
    lengths = np.stack([y[y > 0], np.ones((y > 0).sum())], axis=1)
    query = copying_query(keys, 0, 100.0)
    missing = 1 - one_head(lengthened(keys, lengths), keys, query)[1].numpy()[:, 0].mean()
    return every(
        equal("variance", total_variance(values, 0, 1, size, 2),
              SURE * (1 - SURE) * apart / 4, 1e-4 * apart),
        equal("M·E(1 - α_a), y > 0", 100 * missing, math.log(2) * math.exp(-1)
              / (math.sqrt(math.pi) * SURE), 5e-3),
    )  # fmt: skip


def order_of_limits(lab: Lab, n: int, size: float, moved: float) -> Finding:
    """Bounds for keys that moved by at most δ; that of two heads gets better with M alone."""
    keys, values = lab.orthonormal(n), lab.normal(n, 3)
    v = values.numpy()
    wide = max(np.linalg.norm(a - b) for a in v for b in v)
    noise = lab.rng.standard_normal(keys.shape)
    noise *= moved * lab.rng.random((n, 1)) / np.linalg.norm(noise, axis=1, keepdims=True)
    near, middle = keys + lab.tensor(noise), (v[0] + v[1]) / 2
    single = one_head(near, values, averaging_query(keys, [0, 1], size))[0].numpy()
    double = two_heads(near, values, copying_query(keys, 0, size), copying_query(keys, 1, size))[0]
    rest = math.exp(-size)
    tilt = math.tanh(size * moved / math.sqrt(2))
    missing = 1 - 1 / (1 + (n - 1) * math.exp(-size * (1 - 2 * moved)))
    return every(
        at_most("one head's error", np.linalg.norm(single - middle),
                wide * ((n - 2) * rest / ((n - 2) * rest + 2) + tilt)),
        at_most("two heads' error", np.linalg.norm(double.numpy() - middle), wide * missing),
    )  # fmt: skip


def part_e_in_closed_form(lab: Lab, beta: float, s: float, t: float) -> Finding:
    """The three square roots, and the bound for all x_2 = u_a + s u_d + t u_c."""
    u = parts(lab.orthonormal(4), beta)
    x, wanted = u.inputs(), construction_errors(beta)
    c = self_attention(x, u.query_matrix(), None, u.value_matrix())[0]
    plain = self_attention(x)[0]
    mixed = ops.stack([x[0], u.u_a + u.u_d * s + u.u_c * t, x[2]])
    away = self_attention(mixed)[0][1] - u.u_b

    def length(v: object) -> float:
        return float(np.linalg.norm(v.numpy()))  # type: ignore[attr-defined]

    return every(
        equal("|c_2 - u_a|", length(plain[1] - u.u_a), wanted["identities"]),
        equal("|c_1 - (u_b - u_c)|", length(c[0] - (u.u_b - u.u_c)), wanted["c_1"]),
        equal("|c_2 - u_b|", length(c[1] - u.u_b), wanted["c_2"]),
        at_least("|c_2 - u_b| of a mixture", length(away), closest_copy(beta)),
    )


def repeats_at_any_temperature(lab: Lab, words: int, temperature: float) -> Finding:
    """A pair comes again within V² + 2 words, and a de Bruijn model needs them all."""
    model = Trigram(lab.normal(words, words, 3), lab.normal(words, 3))
    most = words**2 + 2
    drawn = model.write(0, 0, most - 2, temperature=temperature, seed=int(lab.rng.integers(999)))
    slow = table_model(de_bruijn_table(words), np.eye(words), lab.device).write(0, 0, 2 * most)
    repeat, preperiod_and_period = first_repeat(drawn), loop(slow)
    return every(
        at_most("words up to a repeated pair", most if repeat is None else repeat, most),
        fact(repeat is not None, "a pair came again", "no pair came again"),
        equal("de Bruijn, preperiod and period", preperiod_and_period, (0, words**2)),
        equal("de Bruijn, words up to it", first_repeat(slow), most),
    )


def merging_counted(lab: Lab, width: int, head: int) -> Finding:
    """The directions in which W̃ can move: I(2J - I) for I ≤ J, of 2IJ numbers."""
    head = min(head, width)
    w_q, w_k = lab.normal(1, head, width), lab.normal(1, head, width)
    moves = []
    for i in range(head * width):
        unit = np.zeros(head * width)
        unit[i] = 1
        step = lab.tensor(unit.reshape(1, head, width))
        moves += [
            merged_matrix(step, w_k).numpy().ravel(),
            merged_matrix(w_q, step).numpy().ravel(),
        ]
    return equal("directions", np.linalg.matrix_rank(moves), head * (2 * width - head))


def full_rank_after_softmax(lab: Lab, n: int, scale: float) -> Finding:
    """Scores i·j of rank 1; and orthonormal tokens, whose weights have n - 1 equal values."""
    line = np.arange(1.0, n + 1) / n
    lines = singular_values(ops.softmax(lab.tensor(4 * np.outer(line, line))))
    x = lab.orthonormal(n)
    tokens = singular_values(ops.softmax(ops.matmul(x, x.swapaxes(-1, -2)) * scale))
    return every(
        at_least("least singular value, scores of rank 1", lines[-1] / 1e-12, 1),
        equal("largest, orthonormal tokens", tokens[0], 1.0, 1e-9),
        equal("all others", tokens[1:], np.full(n - 1, orthonormal_singular_value(n, scale)), 1e-9),
    )


# fmt: off
CLAIMS = [
    Claim(
        "N-1", "", TRUE,
        says="a single head can be immune to noise in the length of its keys",
        truth="q = -L Σ_{i≠a,b} μ_i is orthogonal to both keys: α_a = α_b = 1/(2 + (n - 2)e^-L) "
        "for any lengths of k_a and k_b",
        under_test=(repelling_query, one_head),
        corrected=immune,
        domain={"n": Whole(2, 8), "size": Real(0, 30), "y_a": Real(-5, 5), "y_b": Real(-5, 5)},
    ),
    Claim(
        "N-2", "", TRUE,
        says="the weight of the key of random length is logit-normal, for one head and for two",
        truth="logit α_a ~ N(M - ln(e^M + n - 2), M²/2), or N(M - ln(n - 1), M²/2); for n = 2 "
        "bimodal if and only if M > 2, and ¼ - 1/(√π M) ≤ Var ≤ ¼",
        under_test=(one_head_law, two_head_law, one_head, logistic),
        corrected=exact_law, domain={"n": Whole(2, 8), "size": Real(0.1, 60)},
    ),
    Claim(
        "N-3", "", TRUE,
        says="with n = 2 orthonormal values and large M, two heads divide the variance by 13.80",
        truth="the factor is 4 for M → 0, 14.00 at M = 20.8 and 1/(p(1 - p)) = 13.80 for M → ∞, "
        "p = Φ(√2); for many keys 27.6",
        under_test=(total_variance,), corrected=factor_of_two_heads,
    ),
    Claim(
        "N-4", "", TRUE,
        says="two heads are not always better than one",
        truth="without noise their error is larger at equal M, for n > 2; and with v_a = v_b and a "
        "third value elsewhere their variance is larger",
        under_test=(two_heads, one_head, total_variance),
        corrected=two_heads_can_lose,
        domain={"n": Whole(3, 8), "size": Real(0, 20), "distance": Real(1, 100)},
    ),
    Claim(
        "N-5", "", TRUE,
        says="the 7.86 % of draws that the question lets one ignore are all of the variance",
        truth="for M → ∞ two heads have the variance ¼ p(1 - p)|v_a - v̄|², p = Φ(√2), from y < 0 "
        "alone; given y > 0 (n = 2) the missing weight falls like 0.156/M, not e^-M",
        under_test=(total_variance, one_head),
        corrected=all_from_the_ignored, domain={"n": Whole(2, 6)},
    ),
    Claim(
        "N-6", "", TRUE,
        says="a large M and small noise are not to be had together by one head, but by two",
        truth="keys moved by δ: one head's error is at most diam·((n - 2)/(n - 2 + 2e^M) + "
        "tanh(Mδ/√2)), that of two heads at most diam·x/(1 + x), x = (n - 1)e^(-M(1 - 2δ))",
        under_test=(one_head, two_heads, averaging_query, copying_query),
        corrected=order_of_limits,
        domain={"n": Whole(2, 6), "size": Real(0, 12), "moved": Real(0, 1)},
    ),
    Claim(
        "N-7", "", TRUE,
        says="the construction of part (e) has errors √10, √5 and √2 times β/(2 + e^β²)",
        truth="and no x_2 = u_a + s u_d + t u_c brings c_2 nearer to u_b than √2 β/3",
        under_test=(self_attention, construction_errors, closest_copy),
        corrected=part_e_in_closed_form,
        domain={"beta": Real(0.05, 4), "s": Real(-4, 4), "t": Real(-4, 4)},
    ),
    Claim(
        "N-8", "", TRUE,
        says="a pair of words comes again within V² + 2 words at any temperature",
        truth="a pigeonhole fact, and V² is reached; what temperature 0 adds is the loop",
        under_test=(Trigram, first_repeat, loop, de_bruijn_table),
        corrected=repeats_at_any_temperature,
        domain={"words": Whole(1, 6), "temperature": Real(0.05, 20)},
    ),
    Claim(
        "N-9", "", TRUE,
        says="of the 2IJ numbers in W^Q and W^K only I(2J - I) count",
        truth="they are the dimension of the matrices of rank I; the rest is a change of basis",
        under_test=(merged_matrix,),
        corrected=merging_counted, domain={"width": Whole(1, 7), "head": Whole(1, 7)},
    ),
    Claim(
        "N-10", "", TRUE,
        says="softmax makes full-rank weights of scores of rank 1",
        truth="and weights of orthonormal tokens have n - 1 equal singular values, "
        "(e^β - 1)/(e^β + n - 1)",
        under_test=(ops.softmax, singular_values, orthonormal_singular_value),
        corrected=full_rank_after_softmax, domain={"n": Whole(2, 5), "scale": Real(0, 12)},
    ),
]
