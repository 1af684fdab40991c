"""The logit-normal distribution of a weight, by integrals, and random keys."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from plain import seeds

from tinyattn import Tensor
from tinyattn.theory import (
    LogitNormal,
    noisy_keys,
    normal_keys,
    one_head_distribution,
    orthonormal,
    stratified_lengths,
)

EXACT = {"rtol": 0, "atol": 1e-10}
NORMAL = NormalDist()


def test_lengths_that_represent_their_distribution() -> None:
    for draws, variance in ((1, 0.5), (10, 0.5), (1001, 2.0)):
        y = stratified_lengths(draws, variance)
        assert y.shape == (draws,)
        z = (y - 1) / math.sqrt(variance)
        expected = (np.arange(draws) + 0.5) / draws
        assert_allclose([NORMAL.cdf(x) for x in z], expected, **EXACT)


laws = st.builds(LogitNormal, st.floats(-8, 8), st.floats(0.05, 12))


def logit(a: float) -> float:
    return math.log(a / (1 - a))


@given(laws, st.floats(1e-6, 1 - 1e-6))
def test_probability_density_and_quantile_are_those_of_a_normal_logit(
    law: LogitNormal, a: float
) -> None:
    z = (logit(a) - law.centre) / law.deviation
    assert_allclose(law.below(a), math.erfc(-z / math.sqrt(2)) / 2, rtol=1e-9, atol=1e-15)
    bell = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    assert_allclose(law.density(a), bell / (law.deviation * a * (1 - a)), rtol=1e-9, atol=1e-300)
    at = law.centre + law.deviation * NORMAL.inv_cdf(a)
    assert_allclose(law.quantile(a), 1 / (1 + math.exp(-at)), rtol=1e-12)


@given(laws, st.floats(0, 1))
def test_mean_and_variance_are_integrals_over_the_normal_too(law: LogitNormal, to: float) -> None:
    z = np.linspace(-10, 10, 4001)
    bell = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    a = 1 / (1 + np.exp(-(law.centre + law.deviation * z)))
    mean = bell @ a
    assert_allclose(law.mean(), mean, **EXACT)
    assert_allclose(law.variance(), bell @ (a - mean) ** 2, **EXACT)
    assert_allclose(law.square_error(to), bell @ (a - to) ** 2, **EXACT)


@given(st.floats(0.1, 5))
def test_it_has_two_modes_from_a_variance_of_two_on(deviation: float) -> None:
    """For a symmetric law: so M > 2 for two keys, where the variance of the logit is M²/2."""
    assume(abs(deviation**2 - 2) > 0.02)
    law = LogitNormal(0.0, deviation)
    peaks = law.modes()
    assert len(peaks) == (2 if deviation**2 > 2 else 1)
    assert_allclose(peaks, [1 - a for a in reversed(peaks)], **EXACT)
    assert [len(one_head_distribution(M, 2).modes()) for M in (1.9, 2.1)] == [1, 2]


@given(st.floats(-4, 4), st.floats(0.1, 5))
def test_a_mode_is_higher_than_its_neighbours(centre: float, deviation: float) -> None:
    law = LogitNormal(centre, deviation)
    peaks = law.modes()
    assert 1 <= len(peaks) <= 2
    for a in peaks:
        rounding = 1e-15 / min(a, 1 - a)
        expected = centre + deviation**2 * (2 * a - 1)
        assert_allclose(logit(a), expected, rtol=0, atol=1e-8 + rounding)
        step = 1e-3 * min(a, 1 - a)
        assert law.density(a) >= max(law.density(a - step), law.density(a + step))
    highest = max(law.density(a) for a in np.linspace(0.001, 0.999, 300))
    assert max(map(law.density, peaks)) >= highest * (1 - 1e-9)


# Draws -------------------------------------------------------------------------------------


class Given(np.random.Generator):
    """A generator that returns these numbers, and records the requested shapes."""

    def __init__(self, *answers: np.ndarray) -> None:
        super().__init__(np.random.PCG64(0))
        self.answers = list(answers)

    def standard_normal(self, size: tuple[int, ...]) -> np.ndarray:  # type: ignore[override]
        answer = self.answers.pop(0)
        assert answer.shape == size
        return answer


means = st.builds(
    lambda n, extra, seed: orthonormal(np.random.default_rng(seed), n, n + extra),
    st.integers(1, 5), st.integers(0, 3), seeds,
)  # fmt: skip


@given(means, st.integers(1, 4), st.floats(0, 2), seeds)
def test_noise_has_the_covariance_that_is_given(
    means: np.ndarray, draws: int, spread: float, seed: int
) -> None:
    """k_i = y_i μ_i + √α g_i, for exactly the numbers that are drawn."""
    (n, D), rng = means.shape, np.random.default_rng(seed)
    variances = rng.uniform(0, 3, n) * (rng.random(n) < 0.8)
    z, g = rng.standard_normal((draws, n)), rng.standard_normal((draws, n, D))
    keys = noisy_keys(Given(z, g), Tensor(means), spread, variances, draws).numpy()
    lengths = 1 + z * np.sqrt(variances)
    assert_allclose(keys, lengths[..., None] * means + math.sqrt(spread) * g, **EXACT)


@given(means, st.integers(0, 4), seeds)
def test_normal_keys_have_any_covariance(means: np.ndarray, rank: int, seed: int) -> None:
    """k_i = μ_i + A_i g_i: with g_i = e_1 to e_D these are the columns of A_i, and A Aᵀ = Σ."""
    n, D = means.shape
    root = np.random.default_rng(seed).standard_normal((n, D, rank))  # Cholesky would often fail
    wanted = root @ root.swapaxes(-1, -2)
    each = np.broadcast_to(np.eye(D)[:, None], (D, n, D))
    columns = normal_keys(Given(each), Tensor(means), wanted, D).numpy() - means
    assert_allclose(np.einsum("rid,rie->ide", columns, columns), wanted, **EXACT)


@given(means)
def test_orthonormal_rows(means: np.ndarray) -> None:
    assert_allclose(means @ means.T, np.eye(len(means)), **EXACT)
    with pytest.raises(ValueError, match="there are no 3 orthonormal vectors of 2 elements"):
        orthonormal(np.random.default_rng(0), 3, 2)
