"""Chapter 7: the claims of the answer sheets, one file per question; last, those of papers.

The sheets answer the same questions, sometimes differently; a file has all claims about one
question. Each file has its checks first, then the list `CLAIMS`.
"""

from tinyattn.theory.claims import (
    distribution,
    copying,
    averaging,
    mixing,
    extraction,
    small_noise,
    multiplier,
    one_head,
    one_head_sampled,
    two_heads,
    two_heads_sampled,
    orthogonal_inputs,
    value_matrix,
    query_matrix,
    score_scale,
    score_matrices,
    merging,
    other_types,
    mixed_keys,
    parsers,
    focus_and_near,
    loops,
    opinions,
    general,
    beyond,
    locating,
)

QUESTIONS = (
    distribution, copying, averaging, mixing, extraction, small_noise, multiplier, one_head,
    one_head_sampled, two_heads, two_heads_sampled, orthogonal_inputs, value_matrix,
    query_matrix, score_scale, score_matrices, merging, other_types, mixed_keys, parsers,
    focus_and_near, loops, opinions, general, beyond, locating,
)  # fmt: skip
"""In reading order."""
