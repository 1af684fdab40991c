"""Chapter 3: GELU, the bend of a transformer's neurons.

A rectifier passes a number on or not; this one passes it on in part, the more the larger it is.
Next: a row of a table for each token (ops/embedding.py).
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
    Source:   Hendrycks and Gimpel 2016, section 2

    Far below 0 the sum 1 + erf loses its digits, and y is 0 there; the kernels keep them.
    """
    near = xp.clip(x, -40, 40)  # beyond, Φ and s are 0 or 1, to the last bit
    if exact:
        share = (1 + device_of(x).erf(near * math.sqrt(0.5))) / 2
        rise = xp.exp(near * near * -0.5) * (1 / math.sqrt(2 * math.pi))
    else:
        c, d = math.sqrt(2 / math.pi), math.sqrt(2 / math.pi) * 0.044715
        share = (1 + xp.tanh(near * (c + d * near * near))) / 2
        rise = 2 * share * (1 - share) * (c + 3 * d * near * near)
    return xp.maximum(x, -40) * share, (lambda g: g * (share + near * rise),)
