"""A projector extracts a value from a sum; four vectors that attention copies or cannot copy."""

import math

import numpy as np
import plain
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from plain import seeds

from tinyattn import Tensor
from tinyattn.theory import (
    Parts,
    beta_needed,
    closest_copy,
    construction_errors,
    coordinates,
    oblique_projector,
    parts,
    projector,
    self_attention,
    self_weight,
)

EXACT = {"rtol": 0, "atol": 1e-11}
few = st.integers(1, 5)

# Subspaces ---------------------------------------------------------------------------------


@given(few, few, st.integers(0, 3), seeds)
def test_a_projector_extracts_a_value_from_a_sum(m: int, p: int, extra: int, seed: int) -> None:
    """P28: A Aᵀ (v_a + v_b) = v_a; it is idempotent, and Aᵀ alone gives coordinates."""
    rng = np.random.default_rng(seed)
    both = plain.orthonormal(rng, m + p, m + p + extra).T
    A, B, c, d = both[:, :m], both[:, m:], rng.standard_normal(m), rng.standard_normal(p)
    s = A @ c + B @ d
    P = projector(Tensor(A)).numpy()
    assert_allclose(P @ s, A @ c, **EXACT)
    assert_allclose(P @ P, P, **EXACT)
    assert_allclose(coordinates(Tensor(A), Tensor(s)).numpy(), c, **EXACT)
    assert_allclose(oblique_projector(Tensor(A), Tensor(B)).numpy(), P, **EXACT)


@given(few, few, st.integers(0, 3), seeds)
def test_an_oblique_projector_does_it_if_the_subspaces_are_not_orthogonal(
    m: int, p: int, extra: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    both = rng.standard_normal((m + p + extra, m + p))
    assume(np.linalg.cond(both) < 1e3)
    A, B = both[:, :m], both[:, m:]
    P = oblique_projector(Tensor(A), Tensor(B)).numpy()
    assert_allclose(P @ A, A, rtol=0, atol=1e-9)
    assert_allclose(P @ B, 0, rtol=0, atol=1e-9)
    alone = oblique_projector(Tensor(A), Tensor(B[:, :0])).numpy()
    assert_allclose(alone, A @ np.linalg.solve(A.T @ A, A.T), rtol=0, atol=1e-8)
    with pytest.raises(ValueError, match="must be independent"):
        oblique_projector(Tensor(A), Tensor(A[:, :1] * 2))


# Part e of answer sheet 000 -----------------------------------------------------------------


def vectors(seed: int, beta: float) -> tuple[Parts, list[np.ndarray]]:
    """The four vectors, from the package and as plain arrays."""
    rows = plain.orthonormal(np.random.default_rng(seed), 4, 4 + seed % 3)
    return parts(Tensor(rows), beta), list(beta * rows)


@given(seeds, st.floats(0.05, 5))
def test_a_vector_orthogonal_to_the_others_is_copied_up_to_weights_of_e_to_the_zero(
    seed: int, beta: float
) -> None:
    """P29: α_22 = e^β²/(2 + e^β²), and |c_2 - u_a| = √10 β/(2 + e^β²)."""
    made, (u_a, u_b, u_c, u_d) = vectors(seed, beta)
    assert made.beta == pytest.approx(beta, rel=1e-12)
    x = np.stack([u_d + u_b, u_a, u_c + u_b])
    assert_allclose(made.inputs().numpy(), x, rtol=1e-14)
    c, weights = (t.numpy() for t in self_attention(made.inputs()))
    off = 1 / (2 + math.exp(beta * beta))
    assert_allclose(weights[1], [off, 1 - 2 * off, off], **EXACT)
    assert_allclose(self_weight(beta), 1 - 2 * off, rtol=1e-12)
    error = math.sqrt(10) * beta * off
    assert_allclose(np.linalg.norm(c[1] - u_a), error, **EXACT)
    assert_allclose(construction_errors(beta)["identities"], error, rtol=1e-12)


@given(seeds, st.floats(0.05, 3), st.floats(-4, 4), st.floats(-4, 4))
def test_without_matrices_a_vector_of_other_inputs_cannot_be_copied(
    seed: int, beta: float, s: float, t: float
) -> None:
    """P30: x_2 = u_a + s u_d + t u_c leaves α_22 ≥ ⅓ and |c_2 - u_b| ≥ √2 β/3, for all s and t."""
    _, (u_a, u_b, u_c, u_d) = vectors(seed, beta)
    x = Tensor(np.stack([u_d + u_b, u_a + s * u_d + t * u_c, u_c + u_b]))
    c, weights = (a.numpy() for a in self_attention(x))
    assert weights[1, 1] >= 1 / 3 - 1e-12
    assert np.linalg.norm(c[1] - u_b) >= closest_copy(beta) - 1e-12


def test_short_vectors_reach_this_bound() -> None:
    beta = 1e-3
    _, (u_a, u_b, u_c, u_d) = vectors(0, beta)
    x = Tensor(np.stack([u_d + u_b, u_a - u_d - u_c, u_c + u_b]))
    distance = np.linalg.norm(self_attention(x)[0].numpy()[1] - u_b)
    assert distance == pytest.approx(math.sqrt(2) / 3 * beta, rel=1e-4)
    assert closest_copy(beta) == pytest.approx(math.sqrt(2) / 3 * beta, rel=1e-12)


@given(seeds, st.floats(0.3, 5))
def test_two_matrices_make_attention_copy_orthogonal_vectors(seed: int, beta: float) -> None:
    """P31: c_1 misses u_b - u_c by √5 β/(2 + E), c_2 misses u_b by √2 β/(2 + E), E = e^β²."""
    made, (u_a, u_b, u_c, u_d) = vectors(seed, beta)
    Q, V = made.query_matrix(), made.value_matrix()
    wanted = [(u_d + u_b, u_b), (u_a, 0 * u_a), (u_c + u_b, u_b - u_c)]
    for x, value in wanted:
        assert_allclose(V.numpy() @ x, value, **EXACT)
    for x, query in ((u_a, u_d), (u_d, u_c), (u_b, 0 * u_b), (u_c, 0 * u_c)):
        assert_allclose(Q.numpy() @ x, query, **EXACT)
    c, weights = (t.numpy() for t in self_attention(made.inputs(), Q, None, V))
    off = 1 / (2 + math.exp(beta * beta))
    most, third = 1 - 2 * off, 1 / 3
    assert_allclose(weights, [[off, off, most], [most, off, off], [third] * 3], rtol=0, atol=1e-10)
    errors = construction_errors(beta)
    for got, goal, name, factor in ((c[0], u_b - u_c, "c_1", 5), (c[1], u_b, "c_2", 2)):
        error = math.sqrt(factor) * beta * off
        assert_allclose(np.linalg.norm(got - goal), error, rtol=0, atol=1e-10)
        assert_allclose(errors[name], error, rtol=1e-12)


@given(seeds, st.floats(1e-6, 0.66))
def test_the_needed_length_gives_exactly_the_error(seed: int, error: float) -> None:
    beta = beta_needed(error)
    made, _ = vectors(seed, beta)
    assert_allclose(self_attention(made.inputs())[1].numpy()[1, 1], 1 - error, **EXACT)


@given(seeds, st.integers(1, 4), st.integers(1, 5))
def test_queries_keys_and_values_each_have_their_matrix(seed: int, T: int, D: int) -> None:
    rng = np.random.default_rng(seed)
    x, Q, K, V = (rng.standard_normal(shape) for shape in ((T, D), (D, D), (D, D), (D, D)))
    c, weights = (t.numpy() for t in self_attention(*map(Tensor, (x, Q, K, V))))
    scores = [[(K @ x[j]) @ (Q @ x[i]) for j in range(T)] for i in range(T)]
    assert_allclose(weights, plain.softmax(np.array(scores)), **EXACT)
    assert_allclose(c, weights @ x @ V.T, **EXACT)
