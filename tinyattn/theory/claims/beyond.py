"""Chapter 7: ten results that are in none of the answer sheets, found by checking them."""

from __future__ import annotations

from tinyattn.theory.claim import TRUE, Claim
from tinyattn.theory.claims.loops import must_come_again
from tinyattn.theory.claims.merging import numbers_of_a_head
from tinyattn.theory.laws.construction import query_matrix_finds_both_keys
from tinyattn.theory.laws.noisy_keys import repelling_ignores_norms
from tinyattn.theory.laws.ranks import weights_can_have_full_rank
from tinyattn.theory.laws.two_heads import noise_splits_one_head_only
from tinyattn.theory.laws.two_heads_sampled import (
    an_outlier_reverses_the_order,
    ignored_draws_cause_the_variance,
    two_heads_divide_the_variance,
    weights_are_logit_normal,
)

# fmt: off
CLAIMS = [
    Claim(
        "N-1", "", TRUE,
        says="a single head can be independent of noise in the norms of the keys that it averages",
        check=repelling_ignores_norms,
    ),
    Claim(
        "N-2", "", TRUE,
        says="the weight of k_a = y μ_a with a random y is logit-normal, for one head and for two",
        truth="logit α_a ~ N(M - ln(e^M + n - 2), M²/2) for one head, N(M - ln(n - 1), M²/2) for "
        "the first of two; n = 2: one head is bimodal if and only if M > 2, ¼ - 1/(√π M) ≤ Var ≤ ¼"
        " (see S000-c.ii.10); of two the first is not at M = 3.5, and Var → p(1 - p) = 0.0725, "
        "p = Φ(√2)",
        check=weights_are_logit_normal,
    ),
    Claim(
        "N-3", "", TRUE,
        says="with n = 2 orthonormal values and large M, two heads divide the variance by 13.80",
        check=two_heads_divide_the_variance,
    ),
    Claim(
        "N-4", "", TRUE,
        says="two heads are not always better than one",
        truth="without noise their error is larger at equal M > 0, for n > 2, see S000-d.i.3; if "
        "v_a = v_b and a third value is different, their variance is larger for M large enough, "
        "for n = 3 from M = 1.12; for M → 0 it is ¼ of that of one head",
        check=an_outlier_reverses_the_order,
    ),
    Claim(
        "N-5", "", TRUE,
        says="for large M all variance comes from the 7.86 % of draws that the question allows to "
        "ignore",
        truth="for M → ∞ two heads have the variance ¼ p(1 - p)|v_a - v̄|², p = Φ(√2), only from "
        "y < 0; given y > 0 (n = 2) the mean of 1 - α_a falls like 0.156/M, not e^-M, see "
        "S002-d.2.3",
        check=ignored_draws_cause_the_variance,
    ),
    Claim(
        "N-6", "", TRUE,
        says="with noise, a large M makes the error of two heads small, but not that of one head",
        check=noise_splits_one_head_only,
    ),
    Claim(
        "N-7", "", TRUE,
        says="the construction of part (e) has errors √10, √5 and √2 times β/(2 + e^β²)",
        truth="this is exact: √5 and √2 with Q, √10 without matrices, see S000-e.i.4; for all "
        "x_2 = u_a + s u_d + t u_c, |c_2 - u_b| ≥ √2 β/3, see S000-e.i.5",
        check=query_matrix_finds_both_keys,
    ),
    Claim(
        "N-8", "", TRUE,
        says="a pair of words occurs again within V² + 2 words at any temperature",
        truth="there are V² pairs; the bound can be attained; at temperature 0 a loop follows, see "
        "S003-4.4",
        check=must_come_again,
    ),
    Claim(
        "N-9", "", TRUE,
        says="the 2IJ parameters of W^Q and W^K have only I(2J - I) degrees of freedom",
        truth="true for I ≤ J: this is the dimension of the matrices of rank I; the other I² are "
        "changes of basis",
        check=numbers_of_a_head,
    ),
    Claim(
        "N-10", "", TRUE,
        says="the softmax of scores of rank 1 can have full rank",
        truth="it has for scores t·i·j, t ≠ 0; the weights of orthonormal tokens have n - 1 equal "
        "singular values, (e^β - 1)/(e^β + n - 1)",
        check=weights_can_have_full_rank,
    ),
]
