"""Chapter 3: GELU, the activation function of a GPT.

ReLU keeps a number or replaces it by 0. GELU multiplies it by a factor between 0 and 1, which grows
with the number. Next: embedding, a table with a row for each token (ops/embedding.py).
"""

from __future__ import annotations

import math
from typing import Any

from tinyattn.backend import Array, device_of
from tinyattn.op import op


@op
def gelu(xp: Any, x: Array, *, exact: bool = True) -> Any:
    """Gaussian error linear unit: x times the probability that a standard normal is below x.

    Forward:  exact: y = x·Φ(x), Φ(x) = (1 + erf(x/√2))/2
              else:  y = x·s,    s = (1 + tanh(√(2/π)(x + 0.044715x³)))/2, within 5e-4 of exact
    Backward: exact: dx = g·(Φ + x·φ), φ(x) = exp(-x²/2)/√(2π)
              else:  dx = g·(s + 2x·s(1 - s)·√(2/π)(1 + 3·0.044715x²))
    Shapes:   y as x
    Source:   Hendrycks and Gimpel 2016, section 2; not exact: PyTorch's approximate="tanh"

    Far below 0, erf rounds to -1 and y to 0. The kernels in tinyattn/kernels/ are accurate there.
    """
    near = xp.clip(x, -40, 40)  # beyond, Φ and s round to 0 or 1
    if exact:
        cdf = (1 + device_of(x).erf(near * math.sqrt(0.5))) / 2
        slope = xp.exp(near * near * -0.5) * (1 / math.sqrt(2 * math.pi))
    else:
        c, d = math.sqrt(2 / math.pi), math.sqrt(2 / math.pi) * 0.044715
        cdf = (1 + xp.tanh(near * (c + d * near * near))) / 2
        slope = 2 * cdf * (1 - cdf) * (c + 3 * d * near * near)
    # Above 40, y is x itself. Below -40, y is 0; without `maximum`, -∞·0 would be NaN.
    return xp.maximum(x, -40) * cdf, (lambda g: g * (cdf + near * slope),)
