"""A key of random length: where the output is, and its distribution, by integrals."""

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from plain import Setting, settings_of, sigmoid

from tinyattn import Tensor
from tinyattn.theory import (
    LogitNormal,
    averaging_query,
    copying_query,
    lengthened,
    noisy_keys,
    normal_keys,
    one_head,
    one_head_law,
    orthonormal,
    stratified_lengths,
    total_variance,
    two_head_law,
    two_heads,
)

EXACT = {"rtol": 0, "atol": 1e-10}
NORMAL = NormalDist()
N = 1001
lengths, sizes = st.floats(-3, 4), st.floats(0.1, 12)
Heads = Callable[[Setting, float, np.ndarray], tuple[np.ndarray, np.ndarray]]


def with_lengths(case: Setting, y: np.ndarray) -> Tensor:
    """The keys, for each of these lengths of key a: (N, n, D)."""
    lengths = np.ones((len(y), case.n))
    lengths[:, case.a] = y
    return lengthened(case.keys, lengths)


def by_one(case: Setting, M: float, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and weights of q = M (μ_a + μ_b), for each length of key a."""
    query = averaging_query(case.keys, [case.a, case.b], M)
    c, weights = one_head(with_lengths(case, y), case.values, query)
    return c.numpy(), weights.numpy()


def by_two(case: Setting, M: float, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Those of the mean of q_1 = M μ_a and q_2 = M μ_b."""
    queries = [copying_query(case.keys, j, M) for j in (case.a, case.b)]
    c, weights = two_heads(with_lengths(case, y), case.values, *queries)
    return c.numpy(), weights.numpy()


# For each length ---------------------------------------------------------------------------


@given(settings_of(2, 8), sizes, lengths)
def test_with_one_head_the_output_stays_on_a_line(case: Setting, M: float, y: float) -> None:
    """P22: c = α v_a + (1 - α) w with logit α = M y - ln(e^M + n - 2), and w fixed."""
    c, weights = by_one(case, M, np.array([y]))
    a = sigmoid(M * y - math.log(math.exp(M) + case.n - 2))
    others = case.v[case.others].sum(axis=0)
    w = (math.exp(M) * case.v[case.b] + others) / (math.exp(M) + case.n - 2)
    assert_allclose(weights[0, case.a], a, **EXACT)
    assert_allclose(c[0], a * case.v[case.a] + (1 - a) * w, **EXACT)


@given(settings_of(2, 8), sizes, lengths)
def test_with_two_heads_it_stays_on_a_line_also_for_negative_lengths(
    case: Setting, M: float, y: float
) -> None:
    """P23: c_1 = α v_a + (1 - α) v̄, logit α = M y - ln(n - 1); c_2 does not depend on y."""
    c, weights = by_two(case, M, np.array([y]))
    n, rest = case.n, math.exp(-M)
    a, b = sigmoid(M * y - math.log(n - 1)), 1 / (1 + (n - 1) * rest)
    first, second = np.full(n, (1 - a) / (n - 1)), np.full(n, rest * b)
    first[case.a], second[case.b] = a, b
    assert_allclose(weights[0], (first + second) / 2, **EXACT)
    assert_allclose(c[0], (first @ case.v + second @ case.v) / 2, **EXACT)


# Over all lengths --------------------------------------------------------------------------


@given(settings_of(2, 2), st.floats(0.5, 60))
def test_a_weight_of_two_is_logit_normal(case: Setting, M: float) -> None:
    """P25: n = 2: mean ½, ¼ - 1/(√π M) ≤ Var ≤ ¼, P(0.01 < α < 0.99) = erf(ln 99/M)."""
    y = stratified_lengths(N)
    a = by_one(case, M, y)[1][:, case.a]
    law = one_head_law(M, 2)
    for mean, variance, within in ((a.mean(), a.var(), 2e-3), (law.mean(), law.variance(), 1e-12)):
        assert abs(mean - 0.5) < within
        assert 0.25 - 1 / (math.sqrt(math.pi) * M) - within <= variance <= 0.25
    inside = math.erf(math.log(99) / M)
    assert abs(((0.01 < a) & (a < 0.99)).mean() - inside) < 2e-3
    assert_allclose(law.below(0.99) - law.below(0.01), inside, **EXACT)
    p = (np.arange(N) + 0.5) / N  # a increases with y, so quantiles stay quantiles
    assert_allclose(a[::50], [law.quantile(x) for x in p[::50]], **EXACT)


@given(settings_of(2, 2), st.floats(15, 200))
def test_two_heads_of_two_keys_vary_nearly_fourteen_times_less(case: Setting, M: float) -> None:
    """P26: n = 2: the ratio of variances is between 13 and 14.3."""
    y = stratified_lengths(N)
    one, two = (heads(case, M, y)[0].var(axis=0).sum() for heads in (by_one, by_two))
    assert 13 < one / two < 14.3
    exact = [total_variance(case.values, case.a, case.b, M, heads) for heads in (1, 2)]
    assert 13.7 < exact[0] / exact[1] < 14.01


def moments(y_to_c: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, float]:
    """Mean and total variance of a function of y ~ N(1, ½), by the trapezium rule."""
    y = np.linspace(-5, 7, 4001)
    density = np.exp(-((y - 1) ** 2)) / math.sqrt(math.pi) * (y[1] - y[0])
    c = y_to_c(y)
    mean = density @ c
    return mean, float(density @ ((c - mean) ** 2).reshape(len(y), -1).sum(axis=1))


@given(settings_of(2, 7), st.floats(0.2, 20))
def test_the_law_has_the_moments_of_the_outputs(case: Setting, M: float) -> None:
    """For one head and for two: of the weight of key a, and of the whole output."""
    for count, heads, law, share in (
        (1, by_one, one_head_law(M, case.n), 1.0),
        (2, by_two, two_head_law(M, case.n), 0.5),
    ):
        mean, variance = moments(lambda y, heads=heads: heads(case, M, y)[1][:, case.a])
        fixed = share * math.exp(-M) / (1 + (case.n - 1) * math.exp(-M)) if count == 2 else 0.0
        assert_allclose(share * law.mean() + fixed, mean, **EXACT)
        assert_allclose(share**2 * law.variance(), variance, **EXACT)
        _, total = moments(lambda y, heads=heads: heads(case, M, y)[0])
        found = total_variance(case.values, case.a, case.b, M, count)
        assert_allclose(found, total, rtol=1e-9, atol=1e-12)


def test_lengths_that_represent_their_distribution() -> None:
    for draws, variance in ((1, 0.5), (10, 0.5), (1001, 2.0)):
        y = stratified_lengths(draws, variance)
        assert y.shape == (draws,)
        z = (y - 1) / math.sqrt(variance)
        expected = (np.arange(draws) + 0.5) / draws
        assert_allclose([NORMAL.cdf(x) for x in z], expected, **EXACT)


# The law itself ----------------------------------------------------------------------------

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
    assert_allclose(law.quantile(a), sigmoid(law.centre + law.deviation * NORMAL.inv_cdf(a)),
                    rtol=1e-12)  # fmt: skip


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
    assert [len(one_head_law(M, 2).modes()) for M in (1.9, 2.1)] == [1, 2]


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


@given(settings_of(1, 5), st.integers(1, 4), st.floats(0, 2), st.data())
def test_noise_has_the_covariance_that_is_given(
    case: Setting, draws: int, spread: float, data: st.DataObject
) -> None:
    """k_i = y_i μ_i + √α g_i, for exactly the numbers that are drawn."""
    (n, D), rng = case.k.shape, case.rng
    variances = data.draw(st.lists(st.floats(0, 3), min_size=n, max_size=n))
    z, g = rng.standard_normal((draws, n)), rng.standard_normal((draws, n, D))
    keys = noisy_keys(Given(z, g), case.keys, spread, variances, draws).numpy()
    lengths = 1 + z * np.sqrt(variances)
    assert_allclose(keys, lengths[..., None] * case.k + math.sqrt(spread) * g, **EXACT)


@given(settings_of(1, 4), st.integers(0, 4))
def test_normal_keys_have_any_covariance(case: Setting, rank: int) -> None:
    """k_i = μ_i + A_i g_i: with g_i = e_1 to e_D these are the columns of A_i, and A Aᵀ = Σ."""
    n, D = case.k.shape
    root = case.rng.standard_normal((n, D, rank))  # often singular, so that Cholesky would fail
    wanted = root @ root.swapaxes(-1, -2)
    each = np.broadcast_to(np.eye(D)[:, None], (D, n, D))
    columns = normal_keys(Given(each), case.keys, wanted, D).numpy() - case.k
    assert_allclose(np.einsum("rid,rie->ide", columns, columns), wanted, **EXACT)


@given(settings_of(1, 6))
def test_orthonormal_rows(case: Setting) -> None:
    rows = orthonormal(case.rng, *case.k.shape)
    assert_allclose(rows @ rows.T, np.eye(case.n), **EXACT)
    with pytest.raises(ValueError, match="there are no 3 orthonormal vectors of 2 elements"):
        orthonormal(case.rng, 3, 2)
