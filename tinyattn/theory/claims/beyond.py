"""Chapter 7: ten results that are in none of the answer sheets, found by checking them.

Most use checks of the files before this one.
"""

from __future__ import annotations

import math

import numpy as np

from tinyattn import ops
from tinyattn.theory.claim import TRUE, Claim
from tinyattn.theory.claims.loops import goes_round, must_come_again
from tinyattn.theory.claims.merging import numbers_of_a_head
from tinyattn.theory.claims.mixed_keys import full_rank
from tinyattn.theory.claims.multiplier import STRATA
from tinyattn.theory.claims.one_head_sampled import norms_do_not_matter, two_values_alternate
from tinyattn.theory.claims.orthogonal_inputs import error_of_a_copy, no_addition_copies
from tinyattn.theory.claims.query_matrix import weights_and_errors
from tinyattn.theory.claims.small_noise import inside_the_window
from tinyattn.theory.claims.two_heads import noise_shortens_the_lead, pair, two_err_more
from tinyattn.theory.claims.two_heads_sampled import (
    AHEAD,
    RELATIVE,
    error_falls_like_one_over_m,
    first_head_missing,
    one_in_thirteen_is_all,
    variances,
)
from tinyattn.theory.construction import closest_copy, construction_errors, self_attention
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every
from tinyattn.theory.lab import Lab, OneOf, Real, Whole, length
from tinyattn.theory.law import one_head_law, total_variance, two_head_law
from tinyattn.theory.low_rank import orthonormal_singular_value, singular_values
from tinyattn.theory.merged_matrices import effective_parameters, merged_matrix
from tinyattn.theory.noisy_keys import one_head, stratified_lengths, two_heads
from tinyattn.theory.queries import (
    averaging_error,
    averaging_query,
    copying_query,
    repelling_query,
)
from tinyattn.theory.repetition import Trigram, de_bruijn_table, first_repeat, loop
from tinyattn.theory.weights import imbalance

SAME_VARIANCE = 1.1166
"""The M at which one and two heads have the same variance, for three values with v_a = v_b."""


def laws_of_both(lab: Lab, n: int, M: float) -> Finding:
    """α_a of one head, and of the first of two heads, has the quantiles of the formulas."""
    found = 1 - first_head_missing(lab, n, M, stratified_lengths(STRATA))
    law, p = two_head_law(M, n), AHEAD
    wanted = [law.quantile((i + 0.5) / STRATA) for i in range(0, STRATA, 10)]
    return every(
        two_values_alternate(lab, n, M),
        equal("two heads: largest error of the quantiles", np.abs(found[::10] - wanted).max(), 0.0),
        equal(
            "number of modes, n = 2, M = 3.5 and 4:",
            [len(two_head_law(x, 2).modes()) for x in (3.5, 4)],
            [1, 2],
        ),
        equal("variance, M → ∞:", two_head_law(1e5, 2).variance(), p * (1 - p), 1e-3),
    )


def variance_factor(lab: Lab, n: int, M: float) -> float:
    """The variance of the output of one head over that of two, for orthonormal values."""
    values = lab.tensor(np.eye(n))
    return total_variance(values, 0, 1, M, 1) / total_variance(values, 0, 1, M, 2)


def factor_of_two_heads(lab: Lab) -> Finding:
    """The limits of the factor, and the maximum between them; at M = 20 also from outputs."""
    p, values = AHEAD, lab.tensor(np.eye(2))
    found = [total_variance(values, 0, 1, 20.0, heads) for heads in (1, 2)]
    top = variance_factor(lab, 2, 20.8)
    return every(
        equal("formula over sample variances", np.divide(found, variances(lab, values, 20)),
              [1, 1], RELATIVE),
        equal("factor for n = 2, M → 0:", variance_factor(lab, 2, 1e-3), 4, 1e-3),
        equal("at M = 20.8:", top, 14.00, 0.005),
        at_least("at M = 20.8 against M = 15:", top, variance_factor(lab, 2, 15)),
        at_least("at M = 20.8 against M = 30:", top, variance_factor(lab, 2, 30)),
        equal("n = 2, M → ∞:", variance_factor(lab, 2, 1e5), 1 / (p * (1 - p)), 1e-3),
        equal("n = 400, M → ∞:", variance_factor(lab, 400, 1e5), 399 / (200 * p * (1 - p)), 0.01),
    )  # fmt: skip


def two_heads_can_lose(lab: Lab, n: int, M: float, distance: float) -> Finding:
    """Two heads have a larger error without noise, and can have a larger variance for large M."""
    means, values = lab.orthonormal(n), lab.normal(n, 4)
    middle = (values[0] + values[1]) / 2
    outputs = (
        one_head(means, values, averaging_query(means, [0, 1], M))[0],
        two_heads(means, values, copying_query(means, 0, M), copying_query(means, 1, M))[0],
    )
    errors = [length(c - middle) for c in outputs]
    across = length(values[2:].mean(axis=0) - middle)
    alike = lab.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, distance]])
    spread, at_start = (
        [total_variance(alike, 0, 1, size, heads) for heads in (1, 2)] for size in (M, 1e-3)
    )
    found = variances(lab, alike, M)
    ahead = 1 if M > SAME_VARIANCE else -1
    return every(
        two_err_more(lab, n, M),
        equal("errors", errors, [across * averaging_error(n, M, heads) for heads in (1, 2)]),
        at_least("error of two heads without noise", errors[1], errors[0]),
        equal("formula over sample variances", np.divide(spread, found), [1, 1], RELATIVE),
        at_least(
            "signed excess of variance, v_a = v_b:",
            ahead * (found[1] - found[0]),
            0,
            RELATIVE * found[0],
        ),
        equal("variance of two heads over one, M → 0:", at_start[1] / at_start[0], 0.25, 1e-3),
    )


def all_from_the_ignored(lab: Lab, n: int, M: float) -> Finding:
    """For large M all variance of two heads is from y < 0; given y > 0 the error is like 1/M."""
    values = lab.normal(n, 3)
    v = values.numpy()
    apart = float(np.sum((v[0] - v[1:].mean(axis=0)) ** 2))
    limit = AHEAD * (1 - AHEAD) * apart / 4
    return every(
        one_in_thirteen_is_all(lab, n, M),
        error_falls_like_one_over_m(lab, n, M),
        equal("variance, M = 10⁶:", total_variance(values, 0, 1, 1e6, 2), limit, 1e-4 * apart),
    )


def one_is_split_and_two_are_not(lab: Lab, n: int, M: float, delta: float) -> Finding:
    """The errors of one and two heads under noise of norm δ, k_a along the query, k_b against it.

    In one head the share of α_a differs from ½ by ½ tanh(√2 M δ). The error of two heads is at
    most diam(V)·x/(1 + x), x = (n - 1) e^(-M(1 - 2δ)).
    """
    means, values = lab.orthonormal(n), lab.normal(n, 3)
    query = averaging_query(means, [0, 1], M)
    along = (means[0] + means[1]) * (delta / math.sqrt(2))
    keys = ops.concatenate([(means[0] + along)[None], (means[1] - along)[None], means[2:]])
    a, b, *_ = one_head(keys, values, query)[1].numpy()
    c, v = pair(keys, means, values, M)[0], values.numpy()
    diameter = max(np.linalg.norm(x - y) for x in v for y in v)
    rival = (n - 1) * math.exp(-M * (1 - 2 * delta))
    share = a / (a + b) - 0.5
    return every(
        equal("α_a/(α_a + α_b) - ½:", share, math.tanh(math.sqrt(2) * M * delta) / 2),
        equal("by `imbalance`:", share, imbalance(2 * math.sqrt(2) * M * delta)),
        at_most("error of two heads", np.linalg.norm(c - (v[0] + v[1]) / 2),
                diameter * rival / (1 + rival)),
    )  # fmt: skip


def order_of_limits(lab: Lab, n: int, M: float, delta: float) -> Finding:
    """The bounds of both; with small noise and a large M one head copies, two heads average."""
    keys = lab.orthonormal(2)
    along = (keys[0] + keys[1]) * (0.01 / math.sqrt(2))
    moved = ops.stack([keys[0] + along, keys[1] - along])
    one = one_head(moved, keys, averaging_query(keys, [0, 1], 1000.0))[1].numpy()
    two = pair(moved, keys, keys, 1000.0)[1]
    return every(
        inside_the_window(lab, n, M, delta),
        noise_shortens_the_lead(lab, n, M, delta),
        one_is_split_and_two_are_not(lab, n, M, delta),
        at_least("M = 1000, δ = 0.01: |α_a - ½| of one head", abs(one[0] - 0.5), 0.4),
        at_most("of two heads", abs(two[0] - 0.5), 1e-3),
    )


# fmt: off
CLAIMS = [
    Claim(
        "N-1", "", TRUE,
        says="a single head can be independent of noise in the norms of the keys that it averages",
        truth="q = -L Σ_{i≠a,b} μ_i is orthogonal to both keys: α_a = α_b = 1/(2 + (n - 2)e^-L) "
        "for any norms of k_a and k_b",
        under_test=(repelling_query, one_head),
        corrected=norms_do_not_matter,
        domain={"n": Whole(2, 8), "L": Real(0, 30), "y_a": Real(-5, 5), "y_b": Real(-5, 5)},
    ),
    Claim(
        "N-2", "", TRUE,
        says="the weight of k_a = y μ_a with a random y is logit-normal, for one head and for two",
        truth="logit α_a ~ N(M - ln(e^M + n - 2), M²/2) for one head, N(M - ln(n - 1), M²/2) for "
        "the first of two; n = 2: one head is bimodal if and only if M > 2, ¼ - 1/(√π M) ≤ Var ≤ ¼;"
        " of two the first is not at M = 3.5, and Var → p(1 - p) = 0.0725, p = Φ(√2)",
        under_test=(one_head_law, two_head_law, one_head, averaging_query, copying_query),
        corrected=laws_of_both, domain={"n": Whole(2, 8), "M": Real(0.1, 60)},
    ),
    Claim(
        "N-3", "", TRUE,
        says="with n = 2 orthonormal values and large M, two heads divide the variance by 13.80",
        truth="the factor is 4 for M → 0, 14.00 at M = 20.8 and 1/(p(1 - p)) = 13.80 for M → ∞, "
        "p = Φ(√2); it tends to 27.6 for M → ∞ and then n → ∞",
        under_test=(total_variance,), corrected=factor_of_two_heads,
    ),
    Claim(
        "N-4", "", TRUE,
        says="two heads are not always better than one",
        truth="without noise their error is larger at equal M > 0, for n > 2; if v_a = v_b and a "
        "third value is different, their variance is larger for M large enough, for n = 3 from "
        "M = 1.12; for M → 0 it is ¼ of that of one head",
        under_test=(two_heads, one_head, averaging_error, total_variance),
        corrected=two_heads_can_lose,
        domain={"n": Whole(3, 8), "M": Real(0.01, 15), "distance": Real(1, 100)},
    ),
    Claim(
        "N-5", "", TRUE,
        says="for large M all variance comes from the 7.86 % of draws that the question allows to "
        "ignore",
        truth="for M → ∞ two heads have the variance ¼ p(1 - p)|v_a - v̄|², p = Φ(√2), only from "
        "y < 0; given y > 0 (n = 2) the mean of 1 - α_a falls like 0.156/M, not e^-M",
        under_test=(total_variance, one_head, two_heads, copying_query),
        corrected=all_from_the_ignored, domain={"n": Whole(2, 8), "M": Real(100, 200)},
    ),
    Claim(
        "N-6", "", TRUE,
        says="with noise, a large M makes the error of two heads small, but not that of one head",
        truth="for noise of norm δ the error of one head is ≤ diam·((n - 2)/(n - 2 + 2e^M) + "
        "tanh(Mδ/√2)), and α_a - α_b can be tanh(√2 Mδ)·(α_a + α_b); that of two heads is "
        "≤ diam·x/(1 + x), x = (n - 1)e^(-M(1 - 2δ))",
        under_test=(one_head, two_heads, averaging_query, copying_query, imbalance),
        corrected=order_of_limits,
        domain={"n": Whole(2, 8), "M": Real(0, 30), "delta": Real(0, 0.5)},
    ),
    Claim(
        "N-7", "", TRUE,
        says="the construction of part (e) has errors √10, √5 and √2 times β/(2 + e^β²)",
        truth="this is exact; for all x_2 = u_a + s u_d + t u_c, |c_2 - u_b| ≥ √2 β/3",
        under_test=(self_attention, construction_errors, closest_copy),
        corrected=lambda lab, beta, s, t: every(
            error_of_a_copy(lab, beta),
            weights_and_errors(lab, beta),
            no_addition_copies(lab, beta, s, t),
        ),
        domain={"beta": Real(0.05, 10), "s": Real(-30, 30), "t": Real(-30, 30)},
    ),
    Claim(
        "N-8", "", TRUE,
        says="a pair of words occurs again within V² + 2 words at any temperature",
        truth="there are V² pairs; the bound can be attained; at temperature 0 a loop follows",
        under_test=(Trigram, first_repeat, loop, de_bruijn_table),
        corrected=lambda lab, V, temperature, ties: every(
            must_come_again(lab, V, temperature), goes_round(lab, V, ties)
        ),
        domain={"V": Whole(1, 6), "temperature": Real(0.05, 20), "ties": OneOf((False, True))},
    ),
    Claim(
        "N-9", "", TRUE,
        says="the 2IJ parameters of W^Q and W^K have only I(2J - I) degrees of freedom",
        truth="true for I ≤ J: this is the dimension of the matrices of rank I; the other I² are "
        "changes of basis",
        under_test=(effective_parameters, merged_matrix),
        corrected=numbers_of_a_head, domain={"J": Whole(1, 7), "I": Whole(1, 7)},
    ),
    Claim(
        "N-10", "", TRUE,
        says="the softmax of scores of rank 1 can have full rank",
        truth="it has for scores t·i·j, t ≠ 0; the weights of orthonormal tokens have n - 1 equal "
        "singular values, (e^β - 1)/(e^β + n - 1)",
        under_test=(ops.attention, singular_values, orthonormal_singular_value),
        corrected=full_rank,
        domain={"n": Whole(2, 5), "t": Real(0.3, 1.5), "beta": Real(0, 40)},
    ),
]
