"""Chapter 7: the exact distribution of the output.

If one key has a random norm, the output is on a line, and the weight α of that key determines its
point there. α is logit-normal: logit α is normal. So no sampling is needed: density, quantiles
and probabilities are formulas, mean and variance are one integral (derivations/10_noisy_keys.md,
derivations/11_two_heads.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from tinyattn.tensor import Tensor
from tinyattn.theory.noisy_keys import LENGTH_VARIANCE

NORMAL = NormalDist()


@dataclass(frozen=True)
class LogitNormal:
    """The distribution of σ(Z), Z ~ N(m, s²), σ the logistic function.

    Raises:  ValueError for a deviation that is not above 0, or a number that is not finite
    Source:  Johnson 1949

    Args:
        centre: m, the mean of the logit.
        deviation: s, the standard deviation of the logit.
    """

    centre: float
    deviation: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.centre) and 0 < self.deviation < math.inf):
            raise ValueError(
                "LogitNormal: centre must be finite, and deviation above 0 and finite; "
                f"got {self.centre} and {self.deviation}"
            )

    def density(self, a: float) -> float:
        """φ((logit a - m)/s)/(s a (1 - a)). Raises: ValueError unless 0 < a < 1."""
        return NORMAL.pdf(self._standard("density", a)) / (self.deviation * a * (1 - a))

    def below(self, a: float) -> float:
        """P(α ≤ a). Raises: ValueError unless 0 < a < 1."""
        return NORMAL.cdf(self._standard("below", a))

    def quantile(self, p: float) -> float:
        """The a with P(α ≤ a) = p. Raises: ValueError unless 0 < p < 1."""
        _check_inside("quantile", "p", p)
        return logistic(self.centre + self.deviation * NORMAL.inv_cdf(p))

    def mean(self) -> float:
        """E α."""
        return self._moment(1, about=0.0)

    def variance(self) -> float:
        """E (α - E α)²."""
        return self._moment(2, about=self.mean())

    def square_error(self, wanted: float) -> float:
        """E (α - wanted)²."""
        return self.variance() + (self.mean() - wanted) ** 2

    def modes(self) -> list[float]:
        """The one or two maxima of the density.

        They solve logit a = m + s² (2a - 1); a minimum between two maxima solves it, too. The
        search is on a grid of logits with the step (|m| + s² + 1)/10 000; maxima that are closer
        are found as one.
        """
        reach = abs(self.centre) + self.deviation**2 + 1
        # In t = logit a the slope of the log density is (m - t)/s² + tanh(t/2), up to a factor.
        t = np.linspace(-reach, reach, 20_001)
        slope = (self.centre - t) / self.deviation**2 + np.tanh(t / 2)
        falls = np.nonzero((slope[:-1] > 0) & (slope[1:] <= 0))[0]
        return [logistic(_root(self.centre, self.deviation, t[i], t[i + 1])) for i in falls]

    def _standard(self, where: str, a: float) -> float:
        """(logit a - m)/s. Raises: ValueError unless 0 < a < 1."""
        _check_inside(where, "a", a)
        return (math.log(a) - math.log1p(-a) - self.centre) / self.deviation

    def _moment(self, power: int, about: float) -> float:
        """E (α - about)^power, by the trapezium rule.

        It converges exponentially for smooth integrands that fall off (Trefethen and Weideman
        2014). For small s the variable z = (logit α - m)/s gives a smooth integrand. For large s
        σ is nearly a step in z; then, by parts, E g(α) = g(0) + ∫ g'(a) P(α > a) da, a = σ(t).
        """
        if self.deviation < 1:
            z, step = np.linspace(-12, 12, 241, retstep=True)
            a = 1 / (1 + np.exp(-(self.centre + self.deviation * z)))
            density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
            return float(step * np.sum((a - about) ** power * density))
        low = max(min(-40.0, self.centre - 40), -740.0)  # below it, α rounds to 0
        t, step = np.linspace(low, 40, math.ceil(8 * (40 - low)) + 1, retstep=True)
        a = 1 / (1 + np.exp(-t))
        beyond = np.array([NORMAL.cdf((self.centre - x) / self.deviation) for x in t.tolist()])
        slope = power * (a - about) ** (power - 1)
        return float((-about) ** power + step * np.sum(slope * beyond * a * (1 - a)))


def logistic(t: float) -> float:
    """σ(t) = 1/(1 + e^-t), without overflow."""
    return 1 / (1 + math.exp(-t)) if t >= 0 else math.exp(t) / (1 + math.exp(t))


def one_head_distribution(size: float, n: int, variance: float = LENGTH_VARIANCE) -> LogitNormal:
    """The distribution of the weight α_a for a key y μ_a and q = M (μ_a + μ_b), M = size.

    Forward: logit α_a = M y - ln(e^M + n - 2) ~ N(M - ln(e^M + n - 2), r M²), y ~ N(1, r)
    Raises:  ValueError for fewer than 2 keys, or a size or variance not above 0 or not finite
    Source:  derivations/10_noisy_keys.md
    """
    _check_law("one_head_distribution", size, n, variance)
    return LogitNormal(-math.log1p((n - 2) * math.exp(-size)), size * math.sqrt(variance))


def two_head_distribution(size: float, n: int, variance: float = LENGTH_VARIANCE) -> LogitNormal:
    """The same weight in the first of two heads, q_1 = M μ_a; the other has no noise in its scores.

    Forward: logit α_a = M y - ln(n - 1) ~ N(M - ln(n - 1), r M²), y ~ N(1, r)
    Raises:  as `one_head_distribution`
    Source:  derivations/11_two_heads.md
    """
    _check_law("two_head_distribution", size, n, variance)
    return LogitNormal(size - math.log(n - 1), size * math.sqrt(variance))


def total_variance(values: Tensor, a: int, b: int, size: float, heads: int) -> float:
    """The variance of the output, summed over its elements: E |c - E c|².

    Forward: one head: Var α_a·|v_a - w|², w = (e^M v_b + Σ_{i≠a,b} v_i)/(e^M + n - 2);
             two heads: ¼ Var α_a·|v_a - v̄|², v̄ the mean of all values but v_a
    Shapes:  values (n, E)
    Raises:  ValueError unless heads is 1 or 2, values are (n, E), a and b are two of the n keys,
             and the size is at least 0 and finite
    Source:  derivations/11_two_heads.md

    Args:
        a: the key with the random norm.
        b: the other key whose value is averaged.
        size: M in the query of each head.
    """
    if heads not in (1, 2):
        raise ValueError(f"total_variance: heads must be 1 or 2; got {heads}")
    _check_pair(values, a, b)
    if not 0 <= size < math.inf:
        raise ValueError(f"total_variance: size must be at least 0 and finite; got {size}")
    if size == 0:  # all scores of a query of zeros are 0
        return 0.0
    v, n = values.numpy().astype(float), values.shape[0]
    others = [v[i] for i in range(n) if i not in (a, b)]
    if heads == 1:
        rest = math.exp(-size)
        end = (v[b] + rest * sum(others, np.zeros_like(v[b]))) / (1 + (n - 2) * rest)
        spread = one_head_distribution(size, n).variance()
    else:
        end = (v[b] + sum(others, np.zeros_like(v[b]))) / (n - 1)
        spread = two_head_distribution(size, n).variance() / 4
    return spread * float(np.sum((v[a] - end) ** 2))


def _root(centre: float, deviation: float, low: float, high: float) -> float:
    """Where (m - t)/s² + tanh(t/2) falls through 0 between low and high, by bisection."""
    for _ in range(60):
        middle = (low + high) / 2
        if (centre - middle) / deviation**2 + math.tanh(middle / 2) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _check_inside(where: str, name: str, share: float) -> None:
    """Raises: ValueError unless 0 < share < 1."""
    if not 0 < share < 1:
        raise ValueError(f"LogitNormal.{where}: {name} must be above 0 and below 1; got {share}")


def _check_law(where: str, size: float, n: int, variance: float) -> None:
    """Raises: ValueError for fewer than 2 keys, or a size or variance not above 0 or not finite."""
    if n < 2 or not (0 < size < math.inf and 0 < variance < math.inf):
        raise ValueError(f"{where}: needs size > 0, n >= 2 and variance > 0, all finite; "
                         f"got {size}, {n} and {variance}")  # fmt: skip


def _check_pair(values: Tensor, a: int, b: int) -> None:
    """Raises: ValueError unless values are (n, E), and a and b two of the n."""
    n = values.shape[0] if values.ndim == 2 else 0
    if a == b or not {a, b} <= set(range(n)):
        raise ValueError("total_variance: a and b must be two of the n keys, and values (n, E); "
                         f"got {a} and {b} for {values.shape}")  # fmt: skip
