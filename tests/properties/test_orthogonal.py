"""Muon and a gradient: its singular vectors stay, its singular values become about 1.

The expected values are those of NumPy's singular value decomposition, which the code does not use.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn.backend import asarray, asnumpy, get_device
from tinyattn.kernels.cpu import orthogonal as kernel
from tinyattn.training import muon as formula
from tinyattn.training.muon import POLYNOMIALS


@pytest.fixture(autouse=True, scope="module", params=[formula, kernel], ids=["formula", "kernel"])
def _way(request: pytest.FixtureRequest) -> None:
    """Run the tests with formula and kernel."""
    global way
    way = request.param


def run(g: np.ndarray, device: str = "cpu") -> np.ndarray:
    """`orthogonal` on a device; the result is copied to the host."""
    result = way.orthogonal(get_device(device).xp, asarray(g, device=device))
    assert result.dtype == g.dtype
    return asnumpy(result)


def test_formula_and_kernel_have_the_same_polynomials() -> None:
    assert kernel.POLYNOMIALS == formula.POLYNOMIALS


def random_orthogonal(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


@st.composite
def matrices(draw: st.DrawFn) -> np.ndarray:
    """Matrices of every shape and rank, also 0; singular values may differ by a factor of 1,000."""
    M, N = draw(st.integers(1, 9)), draw(st.integers(1, 9)) * draw(st.sampled_from([1, 1, 4]))
    rank = draw(st.integers(0, min(M, N)))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    values = np.zeros(min(M, N))
    values[:rank] = 10.0 ** rng.uniform(-draw(st.sampled_from([0, 1, 3])), 0, rank)
    g = random_orthogonal(rng, M)[:, : min(M, N)] * values @ random_orthogonal(rng, N)[: min(M, N)]
    return g.T if draw(st.booleans()) else g


def by_decomposition(g: np.ndarray) -> np.ndarray:
    """U p(S/size) Vᵀ, from the singular value decomposition."""
    u, s, vt = np.linalg.svd(g, full_matrices=False)
    s = s / max((s**8).sum() ** 0.125, 1e-300)
    for a, b, c in POLYNOMIALS:
        s = a * s + b * s**3 + c * s**5
    return u * s @ vt


@given(matrices())
def test_each_singular_value_goes_through_the_polynomials(device: str, g: np.ndarray) -> None:
    """Also if the matrix is long, and only its square is multiplied."""
    assert_allclose(run(g, device), by_decomposition(g), rtol=0, atol=1e-9)


@given(matrices())
def test_singular_values_are_near_1(g: np.ndarray) -> None:
    """Those above 0.003 of the size, to within 0.2; smaller ones grow at least 266 times."""
    u, s, vt = np.linalg.svd(g, full_matrices=False)
    found = np.diag(u.T @ run(g) @ vt.T)
    relative = s / max((s**8).sum() ** 0.125, 1e-300)
    assert (found < 1.2).all()
    assert (found > np.minimum(266 * relative, 0.8) - 1e-9).all()


@given(matrices())
def test_a_matrix_and_its_transpose(g: np.ndarray) -> None:
    assert_allclose(run(np.ascontiguousarray(g.T)), run(g).T, rtol=0, atol=1e-9)


@given(matrices(), st.integers(0, 1000))
def test_a_rotation_before_equals_a_rotation_after(g: np.ndarray, seed: int) -> None:
    """For orthogonal Q and R, Q g R becomes Q u R: the result does not depend on the basis."""
    rng = np.random.default_rng(seed)
    q, r = random_orthogonal(rng, g.shape[0]), random_orthogonal(rng, g.shape[1])
    assert_allclose(run(q @ g @ r), q @ run(g) @ r, rtol=0, atol=1e-9)


@given(matrices(), st.floats(-30, 30), st.sampled_from([1, -1]))
def test_the_size_of_a_gradient_does_not_matter(
    device: str, g: np.ndarray, power: float, sign: int
) -> None:
    """From 1e-30 to 1e30, whose squares float32 cannot represent. Its sign matters."""
    kept = g.astype(np.float32)
    scaled = kept * np.float32(sign * 10.0**power)
    assert_allclose(run(scaled, device), sign * run(kept, device), rtol=0, atol=5e-3)


@given(matrices(), st.integers(-60, 60))
def test_a_power_of_two_changes_no_bit(g: np.ndarray, power: int) -> None:
    kept = g.astype(np.float32)
    assert_array_equal(run(kept * np.float32(2.0**power)), run(kept))


@pytest.mark.parametrize("shape", [(48, 48), (32, 128), (128, 32), (48, 64)], ids=str)
def test_float32_is_enough(device: str, shape: tuple[int, int]) -> None:
    """A long matrix is squared, and then multiplied by small factors; their order matters."""
    rng = np.random.default_rng(0)
    short = min(shape)
    left, right = (random_orthogonal(rng, n)[:, :short] for n in shape)
    g = (left * np.geomspace(1, 1e-3, short) @ right.T).astype(np.float32)
    before = g.copy()
    error = run(g, device) - by_decomposition(g.astype(np.float64))
    assert np.linalg.norm(error) < 5e-4 * np.sqrt(short)
    assert_array_equal(g, before)


def test_a_row_is_scaled_to_length_1(device: str) -> None:
    """Its only singular value is its length, which is also the size: the result is p(1)."""
    row = np.array([[3.0, -4.0, 0.0]])
    assert_allclose(run(row, device), by_decomposition(row), atol=1e-12)
    assert 0.8 < np.linalg.norm(run(row, device)) < 1.2


def test_zero_stays_zero(device: str) -> None:
    for shape in ((3, 3), (3, 12), (12, 3), (1, 1), (1, 7)):
        assert_array_equal(run(np.zeros(shape, np.float32), device), np.zeros(shape))
