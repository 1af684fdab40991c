"""Chapter 6: the rotation for rotary position embeddings.

Rotary embeddings (nn/rotary_positions.py) encode the position of a query or key. Each pair of its
coordinates is a point in the plane, and it is rotated by an angle that grows with the position.
"""

from __future__ import annotations

from typing import Any

from tinyattn.backend import Array, is_array
from tinyattn.op import op


def _check(xp: Any, x: Array, *, cos: Array, sin: Array) -> None:
    """Raises: ValueError if D is odd or cos and sin are not (T, D/2); TypeError if they are no
    arrays."""
    for name, value in (("cos", cos), ("sin", sin)):
        if not is_array(value):
            raise TypeError(f"rotate: {name} must be an array on x's device; got "
                            f"{type(value).__name__}: convert it with np.array")  # fmt: skip
    pairs = (*x.shape[-2:-1], x.shape[-1] // 2) if x.ndim > 1 else None
    if x.ndim < 2 or x.shape[-1] % 2 or not cos.shape == sin.shape == pairs:
        raise ValueError(
            f"rotate: x (..., T, D) needs cos and sin of shape (T, D/2), D even; got x {x.shape}, "
            f"cos {cos.shape}, sin {sin.shape}"
        )


@op(check=_check)
def rotate(xp: Any, x: Array, *, cos: Array, sin: Array) -> Any:
    """Each pair (x_2i, x_2i+1) rotated in its plane by the angle with this cosine and sine.

    Forward:  (y_2i, y_2i+1) = (x_2i·cos - x_2i+1·sin, x_2i·sin + x_2i+1·cos)
    Backward: dx is g rotated back: the same with -sin
    Shapes:   x (..., T, D), cos and sin (T, D/2) -> y (..., T, D)
    Raises:   ValueError if D is odd or the angles do not fit
    Source:   Su and others 2021 (RoFormer), equation 34; a pair is two neighbours, as there
    """
    cos, sin = cos.astype(x.dtype), sin.astype(x.dtype)  # copies: the vjp relies on them

    def rotated(a: Array, sin: Array) -> Array:
        even, odd = a[..., 0::2], a[..., 1::2]
        out = xp.empty_like(a)
        out[..., 0::2] = even * cos - odd * sin
        out[..., 1::2] = even * sin + odd * cos
        return out

    return rotated(x, sin), (lambda g: rotated(g, -sin),)
