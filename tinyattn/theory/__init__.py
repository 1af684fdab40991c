"""Chapter 7: what attention can do. The claims of five answer sheets are checked by programs."""

from tinyattn.theory.weights import (
    imbalance,
    jacobian,
    largest_move,
    lead_needed,
    weight_bounds,
    weights_of,
)
from tinyattn.theory.queries import (
    averaging_error,
    averaging_query,
    averaging_weight,
    copying_query,
    distribution_query,
    family_query,
    orthonormal,
    query_of,
    repelling_query,
)
from tinyattn.theory.subspace import coordinates, oblique_projector, projector
from tinyattn.theory.noisy_keys import (
    lengthened,
    noisy_keys,
    normal_keys,
    one_head,
    stratified_lengths,
    two_heads,
    window_bound,
)
from tinyattn.theory.logit_normal import (
    LogitNormal,
    one_head_distribution,
    total_variance,
    two_head_distribution,
)
from tinyattn.theory.construction import (
    Parts,
    beta_needed,
    closest_copy,
    construction_errors,
    parts,
    self_attention,
    self_weight,
)
from tinyattn.theory.temperature import (
    coupled_moments,
    enumerated_moments,
    moments_at,
    score_scale,
    score_variance,
)
from tinyattn.theory.merged_matrices import (
    effective_parameters,
    head_weights,
    merged_matrix,
    merged_weights,
)
from tinyattn.theory.low_rank import (
    orthonormal_singular_value,
    rank_for,
    singular_values,
    truncated,
)
from tinyattn.theory.repetition import (
    Trigram,
    counted_model,
    de_bruijn_table,
    first_repeat,
    loop,
    table_model,
)
from tinyattn.theory.rank_one_update import rank_one_update, second_moment
from tinyattn.theory.cost import formula_value, letters
from tinyattn.theory.dependency import dependency_block, dependency_scores, read_arcs
from tinyattn.theory.finding import Finding
from tinyattn.theory.lab import Lab
from tinyattn.theory.law import Check, Law
from tinyattn.theory.laws import LAWS
from tinyattn.theory.claim import Claim, Result, Verdict, judge
from tinyattn.theory.remarks import REMARKS, Remark
from tinyattn.theory.all_claims import CHECKS, CLAIMS, errata, judge_all

__all__ = [
    "CHECKS", "CLAIMS", "Check", "Claim", "Finding", "LAWS", "Lab", "Law", "LogitNormal", "Parts",
    "REMARKS", "Remark", "Result", "Trigram", "Verdict", "averaging_error", "averaging_query",
    "averaging_weight", "beta_needed", "closest_copy", "construction_errors", "coordinates",
    "copying_query", "counted_model", "coupled_moments", "de_bruijn_table", "dependency_block",
    "dependency_scores", "distribution_query", "effective_parameters", "enumerated_moments",
    "errata", "family_query", "first_repeat", "formula_value", "head_weights", "imbalance",
    "jacobian", "judge", "judge_all", "largest_move", "lead_needed", "lengthened", "letters",
    "loop", "merged_matrix", "merged_weights", "moments_at", "noisy_keys", "normal_keys",
    "oblique_projector", "one_head", "one_head_distribution", "orthonormal",
    "orthonormal_singular_value", "parts", "projector", "query_of", "rank_for", "rank_one_update",
    "read_arcs", "repelling_query", "score_scale", "score_variance", "second_moment",
    "self_attention", "self_weight", "singular_values", "stratified_lengths", "table_model",
    "total_variance", "truncated", "two_head_distribution", "two_heads", "weight_bounds",
    "weights_of", "window_bound",
]  # fmt: skip
