"""The error messages of the functions of this chapter."""

import ast
import re
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyattn import Tensor, theory
from tinyattn.theory import CLAIMS, Check, LogitNormal, Trigram, cost, dependency
from tinyattn.theory.all_claims import _by_id
from tinyattn.theory.claim import Claim
from tinyattn.theory.conventions import Conventions
from tinyattn.theory.lab import Whole
from tinyattn.theory.laws import _laws_of, weights

RNG = np.random.default_rng(0)
NAN, INFINITE = float("nan"), float("inf")
KEYS = Tensor(np.eye(3))
ROW = Tensor(np.ones(3))
CUBE = Tensor(np.ones((2, 2, 2)))
LAW = LogitNormal(0.0, 1.0)
FOLLOWS = np.zeros((2, 2), dtype=int)
MODEL = Trigram(CUBE, Tensor(np.eye(2)))
SLIP = CLAIMS["S000-b.6"]


def maps(*shape: int) -> Tensor:
    """W^Q or W^K of this shape."""
    return Tensor(np.ones(shape))


def changed(**changes: Any) -> Callable[[], Claim]:
    """A claim whose fields do not fit together."""
    return lambda: replace(SLIP, **changes)


TABLE: list[tuple[Callable[[], Any], str]] = [
    # weights
    (lambda: theory.weight_bounds(-1.0, 3),
     "weight_bounds: gap must be at least 0 and n at least 2; got -1.0 and 3"),
    (lambda: theory.weight_bounds(float("nan"), 3),
     "weight_bounds: gap must be at least 0 and n at least 2; got nan and 3"),
    (lambda: theory.weight_bounds(1.0, 1),
     "weight_bounds: gap must be at least 0 and n at least 2; got 1.0 and 1"),
    (lambda: theory.lead_needed(3, 1.0),
     "lead_needed: needs 0 < error < 1 and 1 <= many < n; got 1.0, 1 and 3"),
    (lambda: theory.lead_needed(3, 0.5, many=3),
     "lead_needed: needs 0 < error < 1 and 1 <= many < n; got 0.5, 3 and 3"),
    (lambda: theory.largest_move([]),
     "largest_move: takes one row of numbers, (n,); got (0,)"),
    (lambda: theory.jacobian(KEYS),
     "jacobian: takes one row of numbers, (n,); got (3, 3)"),
    # queries
    (lambda: theory.orthonormal(RNG, 3, 2),
     "orthonormal: there are no 3 orthonormal vectors of 2 elements; n must be at most the width"),
    (lambda: theory.query_of(KEYS, [1.0, 2.0]),
     "query_of: needs keys (n, D) and a score for each; got (3, 3) and (2,)"),
    (lambda: theory.query_of(CUBE, [1.0, 2.0]),
     "query_of: needs keys (n, D) and a score for each; got (2, 2, 2) and (2,)"),
    (lambda: theory.copying_query(KEYS, 5, 1.0),
     "copying_query: j must be from 0 to 2; got 5"),
    (lambda: theory.copying_query(KEYS, -1, 1.0),
     "copying_query: j must be from 0 to 2; got -1"),
    (lambda: theory.averaging_query(KEYS, [], 1.0),
     "averaging_query: chosen must name some of the 3 keys, each once; got []"),
    (lambda: theory.repelling_query(KEYS, [1, 1], 1.0),
     "repelling_query: chosen must name some of the 3 keys, each once; got [1, 1]"),
    (lambda: theory.family_query(KEYS, [3], 1.0, 0.0),
     "family_query: chosen must name some of the 3 keys, each once; got [3]"),
    (lambda: theory.family_query(KEYS, [-1], 1.0, 0.0),
     "family_query: chosen must name some of the 3 keys, each once; got [-1]"),
    (lambda: theory.family_query(KEYS, [0.5], 1.0, 0.0),
     "family_query: chosen must name some of the 3 keys, each once; got [0.5]"),
    (lambda: theory.family_query(KEYS, [0], 1.0, 0.0, extra=np.ones(1)),
     "family_query: extra must have shape (3,), as a key has; got (1,)"),
    (lambda: theory.family_query(KEYS, [0], 1.0, 0.0, extra=maps(2, 3)),
     "family_query: extra must have shape (3,), as a key has; got (2, 3)"),
    (lambda: theory.distribution_query(KEYS, [1, 1, 1]),
     "distribution_query: needs weights above 0 that sum to 1, one for each of the 3 keys; "
     "got [1, 1, 1]"),
    (lambda: theory.distribution_query(KEYS, [0.5, 0.5, 0]),
     "distribution_query: needs weights above 0 that sum to 1, one for each of the 3 keys; "
     "got [0.5, 0.5, 0]"),
    (lambda: theory.distribution_query(KEYS, []),
     "distribution_query: needs weights above 0 that sum to 1, one for each of the 3 keys; got []"),
    (lambda: theory.averaging_weight(3, 2.0, many=5),
     "averaging_weight: needs 1 <= many <= n and a size that is a number; got 5, 3 and 2.0"),
    (lambda: theory.averaging_weight(3, 2.0, many=0),
     "averaging_weight: needs 1 <= many <= n and a size that is a number; got 0, 3 and 2.0"),
    (lambda: theory.averaging_weight(3, NAN),
     "averaging_weight: needs 1 <= many <= n and a size that is a number; got 2, 3 and nan"),
    (lambda: theory.averaging_error(1, 2.0),
     "averaging_error: needs 1 or 2 heads, n >= 2 and a size that is a number; got 1, 1 and 2.0"),
    (lambda: theory.averaging_error(3, 2.0, heads=3),
     "averaging_error: needs 1 or 2 heads, n >= 2 and a size that is a number; got 3, 3 and 2.0"),
    (lambda: theory.averaging_error(2, NAN),
     "averaging_error: needs 1 or 2 heads, n >= 2 and a size that is a number; got 1, 2 and nan"),
    # subspace
    (lambda: theory.projector(ROW), "projector: basis must be (D, M), a column each; got (3,)"),
    (lambda: theory.projector(CUBE),
     "projector: basis must be (D, M), a column each; got (2, 2, 2)"),
    (lambda: theory.coordinates(ROW, ROW),
     "coordinates: basis and vector must be (D, M) and (D,); got (3,) and (3,)"),
    (lambda: theory.coordinates(KEYS, maps(2)),
     "coordinates: basis and vector must be (D, M) and (D,); got (3, 3) and (2,)"),
    (lambda: theory.coordinates(KEYS, KEYS),
     "coordinates: basis and vector must be (D, M) and (D,); got (3, 3) and (3, 3)"),
    (lambda: theory.oblique_projector(KEYS, ROW),
     "oblique_projector: basis and other must be (D, M) and (D, N); got (3, 3) and (3,)"),
    (lambda: theory.oblique_projector(KEYS, maps(2, 1)),
     "oblique_projector: basis and other must be (D, M) and (D, N); got (3, 3) and (2, 1)"),
    (lambda: theory.oblique_projector(KEYS, maps(3, 1)),
     "oblique_projector: the columns of basis and other must be independent; got 4 of rank 3"),
    # noisy_keys
    (lambda: theory.noisy_keys(RNG, ROW, 0.1, [0.5], 2),
     "noisy_keys: means must be (n, D), a row for each key; got (3,)"),
    (lambda: theory.noisy_keys(RNG, KEYS, 0.1, [0.5], 2),
     "noisy_keys: needs a variance of at least 0 for each of the 3 keys; "
     "got [0.5] and spread 0.1"),
    (lambda: theory.noisy_keys(RNG, KEYS, 0.1, [0.5, 0, -1], 2),
     "noisy_keys: needs a variance of at least 0 for each of the 3 keys; "
     "got [0.5, 0, -1] and spread 0.1"),
    (lambda: theory.noisy_keys(RNG, KEYS, -0.1, [0, 0, 0], 2),
     "noisy_keys: needs a variance of at least 0 for each of the 3 keys; "
     "got [0, 0, 0] and spread -0.1"),
    (lambda: theory.normal_keys(RNG, ROW, np.eye(3), 2),
     "normal_keys: means must be (n, D), a row for each key; got (3,)"),
    (lambda: theory.normal_keys(RNG, KEYS, np.eye(3), 2),
     "normal_keys: covariances must be (3, 3, 3), one for each key; got (3, 3)"),
    (lambda: theory.normal_keys(RNG, KEYS, np.arange(27.0).reshape(3, 3, 3), 2),
     "normal_keys: covariances must be finite and symmetric; got others"),
    (lambda: theory.normal_keys(RNG, KEYS, np.full((3, 3, 3), NAN), 2),
     "normal_keys: covariances must be finite and symmetric; got others"),
    (lambda: theory.normal_keys(RNG, KEYS, [np.eye(3), np.diag([1, -0.5, 0]), np.eye(3)], 2),
     "normal_keys: covariances must be positive semidefinite; got an eigenvalue of -0.5"),
    (lambda: theory.lengthened(KEYS, [2.0]),
     "lengthened: needs a length for each of the 3 keys; got (1,)"),
    (lambda: theory.lengthened(KEYS, 2.0),
     "lengthened: needs a length for each of the 3 keys; got ()"),
    (lambda: theory.lengthened(CUBE, [1.0, 2.0]),
     "lengthened: means must be (n, D), a row for each key; got (2, 2, 2)"),
    (lambda: theory.stratified_lengths(3, -1.0),
     "stratified_lengths: needs draws >= 1 and variance >= 0; got 3 and -1.0"),
    (lambda: theory.stratified_lengths(0),
     "stratified_lengths: needs draws >= 1 and variance >= 0; got 0 and 0.5"),
    (lambda: theory.window_bound(3, -1.0, 0.1),
     "window_bound: needs n >= 2, size >= 0 and distance >= 0; got 3, -1.0 and 0.1"),
    (lambda: theory.window_bound(3, 1.0, -0.1),
     "window_bound: needs n >= 2, size >= 0 and distance >= 0; got 3, 1.0 and -0.1"),
    (lambda: theory.window_bound(1, 1.0, 0.1),
     "window_bound: needs n >= 2, size >= 0 and distance >= 0; got 1, 1.0 and 0.1"),
    (lambda: theory.one_head(KEYS, maps(2, 4), ROW),
     "one_head: values must be (n, E), a row for each key; got (2, 4) for keys (3, 3)"),
    (lambda: theory.one_head(KEYS, KEYS, maps(2)),
     "one_head: query must be (3,), as a key is; got (2,)"),
    (lambda: theory.two_heads(KEYS, KEYS, ROW, maps(2, 3)),
     "one_head: query must be (3,), as a key is; got (2, 3)"),
    # law
    (lambda: LogitNormal(0.0, 0.0),
     "LogitNormal: centre must be finite, and deviation above 0 and finite; got 0.0 and 0.0"),
    (lambda: LogitNormal(NAN, 1.0),
     "LogitNormal: centre must be finite, and deviation above 0 and finite; got nan and 1.0"),
    (lambda: LogitNormal(0.0, INFINITE),
     "LogitNormal: centre must be finite, and deviation above 0 and finite; got 0.0 and inf"),
    (lambda: LAW.density(0), "LogitNormal.density: a must be above 0 and below 1; got 0"),
    (lambda: LAW.below(1), "LogitNormal.below: a must be above 0 and below 1; got 1"),
    (lambda: LAW.quantile(1.5), "LogitNormal.quantile: p must be above 0 and below 1; got 1.5"),
    (lambda: theory.one_head_distribution(-1.0, 3),
     "one_head_distribution: needs size > 0, n >= 2 and variance > 0, all finite; "
     "got -1.0, 3 and 0.5"),
    (lambda: theory.one_head_distribution(INFINITE, 3),
     "one_head_distribution: needs size > 0, n >= 2 and variance > 0, all finite; "
     "got inf, 3 and 0.5"),
    (lambda: theory.two_head_distribution(1.0, 1),
     "two_head_distribution: needs size > 0, n >= 2 and variance > 0, all finite; "
     "got 1.0, 1 and 0.5"),
    (lambda: theory.two_head_distribution(1.0, 2, -1.0),
     "two_head_distribution: needs size > 0, n >= 2 and variance > 0, all finite; "
     "got 1.0, 2 and -1.0"),
    (lambda: theory.total_variance(KEYS, 0, 1, 1.0, 3),
     "total_variance: heads must be 1 or 2; got 3"),
    (lambda: theory.total_variance(KEYS, 1, 1, 1.0, 2),
     "total_variance: a and b must be two of the n keys, and values (n, E); "
     "got 1 and 1 for (3, 3)"),
    (lambda: theory.total_variance(KEYS, 0, -1, 1.0, 2),
     "total_variance: a and b must be two of the n keys, and values (n, E); "
     "got 0 and -1 for (3, 3)"),
    (lambda: theory.total_variance(ROW, 0, 1, 1.0, 2),
     "total_variance: a and b must be two of the n keys, and values (n, E); got 0 and 1 for (3,)"),
    (lambda: theory.total_variance(KEYS, 0, 1, -1.0, 2),
     "total_variance: size must be at least 0 and finite; got -1.0"),
    (lambda: theory.total_variance(KEYS, 0, 1, INFINITE, 2),
     "total_variance: size must be at least 0 and finite; got inf"),
    # construction
    (lambda: theory.parts(KEYS, 1.0),
     "parts: needs 4 orthonormal rows, (4, D), and beta >= 0; got (3, 3) and 1.0"),
    (lambda: theory.parts(Tensor(np.eye(4)), -1.0),
     "parts: needs 4 orthonormal rows, (4, D), and beta >= 0; got (4, 4) and -1.0"),
    (lambda: theory.self_attention(ROW),
     "self_attention: x must be (.., T, D), and each matrix (D, D); got (3,) and []"),
    (lambda: theory.self_attention(maps(2, 3), KEYS, maps(3, 2)),
     "self_attention: x must be (.., T, D), and each matrix (D, D); "
     "got (2, 3) and [(3, 3), (3, 2)]"),
    (lambda: theory.self_weight(NAN), "self_weight: beta must be at least 0 and finite; got nan"),
    (lambda: theory.construction_errors(-1.0),
     "construction_errors: beta must be at least 0 and finite; got -1.0"),
    (lambda: theory.construction_errors(INFINITE),
     "construction_errors: beta must be at least 0 and finite; got inf"),
    (lambda: theory.closest_copy(-1.0),
     "closest_copy: beta must be at least 0 and finite; got -1.0"),
    (lambda: theory.beta_needed(0.7), "beta_needed: error must be above 0 and below 2/3; got 0.7"),
    # temperature
    (lambda: theory.score_scale(0), "score_scale: width must be at least 1; got 0"),
    (lambda: theory.score_variance(np.eye(3), np.ones(3)),
     "score_variance: cov_h and cov_e must both be (I, I); got (3, 3) and (3,)"),
    (lambda: theory.score_variance(np.ones((3, 1)), np.ones((3, 1))),
     "score_variance: cov_h and cov_e must both be (I, I); got (3, 1) and (3, 1)"),
    (lambda: theory.score_variance(np.ones(3), np.ones(3)),
     "score_variance: cov_h and cov_e must both be (I, I); got (3,) and (3,)"),
    (lambda: theory.moments_at(KEYS, 1.0),
     "moments_at: takes one row of numbers, (n,); got (3, 3)"),
    (lambda: theory.enumerated_moments(KEYS, maps(2, 3)),
     "enumerated_moments: mix_h and mix_e must be (I, M) and (I, N); got (3, 3) and (2, 3)"),
    (lambda: theory.coupled_moments(ROW, lambda h: h),
     "coupled_moments: mix must be (I, M); got (3,)"),
    (lambda: theory.coupled_moments(KEYS, lambda h: h[:1]),
     "coupled_moments: partner must return an e for each h, (8, 3); got (1, 3)"),
    # bilinear
    (lambda: theory.merged_matrix(maps(2, 1, 4), maps(2, 3, 4)),
     "merged_matrix: w_q and w_k must both be (K, I, J); got (2, 1, 4) and (2, 3, 4)"),
    (lambda: theory.head_weights(maps(5, 4), maps(3, 4), maps(3, 4)),
     "head_weights: w_q and w_k must both be (K, I, J); got (3, 4) and (3, 4)"),
    (lambda: theory.head_weights(maps(5, 1), maps(2, 3, 4), maps(2, 3, 4)),
     "head_weights: x must be (T, 4); got (5, 1)"),
    (lambda: theory.merged_weights(maps(5, 4), maps(2, 4, 1)),
     "merged_weights: merged must be (K, J, J); got (2, 4, 1)"),
    (lambda: theory.merged_weights(maps(4), maps(2, 4, 4)),
     "merged_weights: x must be (T, 4); got (4,)"),
    (lambda: theory.effective_parameters(4, 0),
     "effective_parameters: width and head_width must be at least 1; got 4 and 0"),
    # repetition
    (lambda: Trigram(maps(3, 3, 3), maps(3, 4)),
     "Trigram: queries and embeddings must be (V, V, I) and (V, I); got (3, 3, 3) and (3, 4)"),
    (lambda: MODEL.probabilities(0, -1),
     "Trigram: word ids must be whole numbers from 0 to 1; got -1 to 0"),
    (lambda: MODEL.generate(0, 2, 1),
     "Trigram: word ids must be whole numbers from 0 to 1; got 0 to 2"),
    (lambda: MODEL.generate(0, 1, -1), "Trigram.generate: count must be at least 0; got -1"),
    (lambda: theory.table_model(FOLLOWS, np.eye(3)),
     "table_model: follows and embeddings must be (V, V) and (V, I); got (2, 2) and (3, 3)"),
    (lambda: theory.table_model(FOLLOWS - 1, np.eye(2)),
     "table_model: word ids must be whole numbers from 0 to 1; got -1 to -1"),
    (lambda: theory.table_model(FOLLOWS * 0.5, np.eye(2)),
     "table_model: word ids must be whole numbers from 0 to 1; got 0.0 to 0.0"),
    (lambda: theory.table_model(FOLLOWS, np.diag([1.0, 2.0])),
     "table_model: embeddings must have equal norms, and differ; "
     "got norms from 1 to 2, and 2 different of 2"),
    (lambda: theory.table_model(FOLLOWS, np.ones((2, 1))),
     "table_model: embeddings must have equal norms, and differ; "
     "got norms from 1 to 1, and 1 different of 2"),
    (lambda: theory.counted_model(np.array([0, 1, 0]), 2, smoothing=0),
     "counted_model: smoothing must be above 0; got 0"),
    (lambda: theory.counted_model(FOLLOWS, 2),
     "counted_model: text must be one row of ids, (N,); got (2, 2)"),
    (lambda: theory.counted_model(np.array([0, -1, 1]), 2),
     "counted_model: word ids must be whole numbers from 0 to 1; got -1 to 1"),
    (lambda: theory.de_bruijn_table(0), "de_bruijn_table: words must be at least 1; got 0"),
    # low_rank
    (lambda: theory.singular_values(CUBE),
     "singular_values: weights must be one matrix, (T, S); got (2, 2, 2)"),
    (lambda: theory.truncated(ROW, 1),
     "truncated: weights must be one matrix, (T, S); got (3,)"),
    (lambda: theory.truncated(KEYS, -1), "truncated: rank must be from 0 to 3; got -1"),
    (lambda: theory.truncated(KEYS, 4), "truncated: rank must be from 0 to 3; got 4"),
    (lambda: theory.orthonormal_singular_value(0, 1.0),
     "orthonormal_singular_value: needs n >= 1 and scale >= 0; got 0 and 1.0"),
    (lambda: theory.orthonormal_singular_value(3, -1.0),
     "orthonormal_singular_value: needs n >= 1 and scale >= 0; got 3 and -1.0"),
    (lambda: theory.rank_for(CUBE, 0.5),
     "rank_for: weights must be one matrix, (T, S); got (2, 2, 2)"),
    (lambda: theory.rank_for(KEYS, 2.0), "rank_for: share must be above 0 and at most 1; got 2.0"),
    (lambda: theory.second_moment(np.ones((0, 3))),
     "second_moment: keys must be (n, F) and not all 0; got (0, 3)"),
    (lambda: theory.rank_one_update(np.eye(3), np.zeros(3), np.ones(2)),
     "rank_one_update: keys must be (n, F), key (F,) and not 0, delta (C,) and ridge above 0; "
     "got (3, 3), (3,), (2,) and 0.001"),
    # claim and registry
    (changed(id="b.6"), "a claim's id must be such as S000-b.6, G-01, N-1 or P-1; got 'b.6'"),
    (lambda: Check(lambda lab, n: None, {"m": Whole(1, 2)}, ()),
     "<lambda>: takes ['n'], but its domain has ['m']"),
    (lambda: Conventions(no_key="one"), "no_key must be of zeros, mean, nan; got one"),
    (lambda: _laws_of(weights, weights), "two laws are called is_distribution"),
    (changed(check=None), "S000-b.6: needs a check, or the reason why it is NOT CHECKABLE"),
    (changed(literal=None), "S000-b.6: literal must be None for TRUE and NOT CHECKABLE, only then"),
    (changed(witness={"nothing": 0}), "S000-b.6: literal must take the arguments ['nothing']"),
    (lambda: theory.judge(SLIP, draws=0), "judge: draws must be at least 1; got 0"),
    (lambda: _by_id([SLIP, SLIP]), "two claims are called S000-b.6"),
    # cost, and trees as attention
    (lambda: cost.formula_value("T·Q", {"T": 3}), "formula_value: cannot read 'T·Q': 'Q'"),
    (lambda: cost.formula_value("T**3", {"T": 3}),
     "formula_value: cannot read 'T**3': 'T ** 3' is no sum or product"),
    (lambda: cost._value(ast.parse("T**3", mode="eval").body, {"T": 3}),
     "'T ** 3' is no sum or product"),
    (lambda: dependency.dependency_scores([], [], 2, 1.0),
     "dependency_scores: needs as many relations as words; got 0 and 0"),
    (lambda: dependency.dependency_scores([2], [0], 2, 1.0),
     "dependency_scores: governors must lie in 0..1; got [2]"),
    (lambda: dependency.dependency_scores([0], [2], 2, 1.0),
     "dependency_scores: relations must lie in 0..1; got [2]"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), TABLE, ids=[message for _, message in TABLE])
def test_an_error_names_the_argument_and_the_valid_values(
    call: Callable[[], Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


def raised_at(call: Callable[[], Any], message: str) -> tuple[str, int]:
    """The file and line that raise an error."""
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        call()
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    return last.filename, last.lineno or 0


def test_every_error_of_the_chapter_is_in_the_table() -> None:
    reached = {raised_at(*row) for row in TABLE}
    for file in Path(str(theory.__file__)).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Raise) and "Unsupported(" not in ast.unparse(node):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                assert any((str(file), line) in reached for line in lines), f"{file}:{node.lineno}"
