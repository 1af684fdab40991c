"""Chapter 7: facts about attention that no answer sheet states, but their claims need."""

from __future__ import annotations

from tinyattn.theory.claim import TRUE, Claim
from tinyattn.theory.laws.changes import (
    a_factor_sharpens,
    logsumexp_is_a_soft_maximum,
    no_nan_where_plain_formulas_break,
    small_scores_give_equal_weights,
    weights_move_by_their_covariance,
    weights_move_less_than_scores,
    where_weights_underflow,
)
from tinyattn.theory.laws.queries import (
    equal_keys_are_one,
    last_row_knows_no_order,
    output_moves_by_a_covariance,
)
from tinyattn.theory.laws.ranks import norm_of_weights

# fmt: off
CLAIMS = [
    Claim(
        "G-01", "", TRUE,
        says="the derivative of the weights by the scores is J = diag(α) - αα^T",
        check=weights_move_by_their_covariance,
    ),
    Claim(
        "G-02", "", TRUE,
        says="the weights change less than the scores",
        check=weights_move_less_than_scores,
    ),
    Claim(
        "G-03", "", TRUE,
        says="a larger factor β on the scores makes the softmax sharper",
        check=a_factor_sharpens,
    ),
    Claim(
        "G-04", "", TRUE,
        says="small scores give almost equal weights",
        check=small_scores_give_equal_weights,
    ),
    Claim(
        "G-05", "", TRUE,
        says="logsumexp is a soft maximum",
        check=logsumexp_is_a_soft_maximum,
    ),
    Claim(
        "G-06", "", TRUE,
        says="a key that occurs m times has m times the weight",
        check=equal_keys_are_one,
    ),
    Claim(
        "G-07", "", TRUE,
        says="the derivative of the output by the query is ∂c/∂q = V^T J K",
        check=output_moves_by_a_covariance,
    ),
    Claim(
        "G-08", "", TRUE,
        says="without positions, the last row of a causal layer does not depend on token order",
        check=last_row_knows_no_order,
    ),
    Claim(
        "G-09", "", TRUE,
        says="the plain formulas can give NaN",
        check=no_nan_where_plain_formulas_break,
    ),
    Claim(
        "G-10", "", TRUE,
        says="a matrix of weights has a norm of at most √(largest column sum), and never increases "
        "a maximum",
        check=norm_of_weights,
    ),
    Claim(
        "G-11", "", TRUE,
        says="a weight is rounded to 0 if another score exceeds its score by enough",
        check=where_weights_underflow,
    ),
]
