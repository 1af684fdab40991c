"""Chapter 3, continued: sums of products.

Nearly all the time of a transformer is spent here. The gradient of a matrix product is two more
matrix products (derivations/02_matmul.md). Next: turning pairs.
"""

from __future__ import annotations

import math
import string
from typing import Any

from tinyattn.backend import Array
from tinyattn.op import op
from tinyattn.sums import sum_rows


@op
def matmul(xp: Any, a: Array, b: Array) -> Any:
    """The matrix product; with NumPy's rules for vectors and stacks of matrices.

    Forward:  y_ij = Σ_k a_ik b_kj
    Backward: da = g bᵀ, db = aᵀ g
    Shapes:   a (..., M, K) or (K,), b (..., K, N) or (K,) -> y (..., M, N) less the vector's axis
    Raises:   ValueError if the inner sizes differ
    """
    for operand, which in ((a, "left"), (b, "right")):
        if not hasattr(operand, "ndim") or operand.ndim == 0:
            raise ValueError(f"matmul: the {which} operand is a number; multiply with *")
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != inner:
        swapped = b.ndim > 1 and b.shape[-1] == a.shape[-1]
        raise ValueError(
            f"matmul: inner sizes must match; got a {a.shape} @ b {b.shape}, "
            f"{a.shape[-1]} != {inner}{'; did you mean b.swapaxes(-1, -2)?' * swapped}"
        )
    rows = a if a.ndim > 1 else a[None, :]  # a vector on the left is a row, (1, K)
    columns = b if b.ndim > 1 else b[:, None]  # a vector on the right is a column, (K, 1)

    def matrices(g: Array) -> Array:
        g = g if a.ndim > 1 else xp.expand_dims(g, -1 if b.ndim == 1 else -2)
        return g if b.ndim > 1 else xp.expand_dims(g, -1)

    def da(g: Array) -> Array:
        out = xp.matmul(matrices(g), columns.swapaxes(-1, -2))
        return out if a.ndim > 1 else out[..., 0, :]

    def db(g: Array) -> Array:
        out = xp.matmul(rows.swapaxes(-1, -2), matrices(g))
        return out if b.ndim > 1 else out[..., :, 0]

    return xp.matmul(a, b), (da, db)


@op
def linear(xp: Any, x: Array, weight: Array, bias: Array = None) -> Any:
    """An affine map of the last axis: a layer of neurons without the bend.

    Forward:  y = x W + b
    Backward: dx = g Wᵀ, dW = xᵀ g, db = Σ g over all rows
    Shapes:   x (..., C), W (C, F), b (F,) -> y (..., F)
    Raises:   ValueError if sizes do not fit

    The leading axes are one long axis of rows here: one large product is much faster than a stack
    of small ones, on any machine.
    """
    check_linear(x, weight, bias)
    N = math.prod(x.shape[:-1])
    rows = x.reshape(N, x.shape[-1])
    y = xp.matmul(rows, weight)
    if bias is not None:
        y += bias

    def flat(g: Array) -> Array:
        return g.reshape(N, weight.shape[1])

    return y.reshape(*x.shape[:-1], weight.shape[1]), (
        lambda g: xp.matmul(flat(g), weight.T).reshape(x.shape),
        lambda g: xp.matmul(rows.T, flat(g)),
        lambda g: sum_rows(flat(g)),
    )


def check_linear(x: Array, weight: Array, bias: Array) -> None:
    """Raises: ValueError if sizes do not fit."""
    if x.ndim < 1 or weight.ndim != 2 or x.shape[-1] != weight.shape[0]:
        raise ValueError(
            f"linear: weight must be ({x.shape[-1] if x.ndim else '?'}, any) for x {x.shape}; "
            f"got {weight.shape}"
        )
    if hasattr(bias, "shape") and bias.shape != weight.shape[1:]:
        raise ValueError(f"linear: bias must be {weight.shape[1:]}; got {bias.shape}")


@op
def einsum(xp: Any, *operands: Array, equation: str) -> Any:
    """Any sum of products, by Einstein's notation: einsum("bij,bjk->bik", a, b).

    Forward:  y is the sum of the products over all letters that are not in the output
    Backward: each operand's gradient is an einsum of g and the other operands
    Shapes:   one letter an axis, `...` for axes that broadcast; an operand may repeat a letter
    Raises:   ValueError if the equation does not fit the operands
    """
    inputs, output, sizes = parse_equation(equation, [tuple(o.shape) for o in operands])

    def gradient_of(k: int) -> Any:
        def dx(g: Array) -> Array:
            own = "".join(dict.fromkeys(inputs[k]))  # a repeated letter once: the diagonal
            others = [inputs[i] for i in range(len(operands)) if i != k]
            known = [c for c in own if c in output or any(c in o for o in others)]
            terms = ",".join([output, *others]) + "->" + "".join(known)
            d = xp.einsum(terms, g, *[o for i, o in enumerate(operands) if i != k])
            size = dict(zip(known, d.shape, strict=True))  # 1 where the others broadcast
            d = d.reshape([size.get(c, 1) for c in own])
            d = xp.broadcast_to(d, [sizes[c] for c in own])
            d = d.sum(axis=tuple(i for i, c in enumerate(own)
                                 if operands[k].shape[inputs[k].index(c)] == 1 != sizes[c]),
                      keepdims=True)  # fmt: skip
            return d if own == inputs[k] else _to_diagonal(xp, d, own, inputs[k])

        return dx

    y = xp.einsum(",".join(inputs) + "->" + output, *operands)
    return y, tuple(gradient_of(k) for k in range(len(operands)))


def _to_diagonal(xp: Any, d: Array, own: str, letters: str) -> Array:
    """d on the diagonal of the axes that share a letter, zeros elsewhere."""
    size = dict(zip(own, d.shape, strict=True))
    out = xp.zeros([size[c] for c in letters], dtype=d.dtype)
    places = {c: xp.arange(size[c]).reshape((-1,) + (1,) * (len(own) - i - 1))
              for i, c in enumerate(own)}  # fmt: skip
    out[tuple(places[c] for c in letters)] = d
    return out


def parse_equation(
    equation: str, shapes: list[tuple[int, ...]]
) -> tuple[list[str], str, dict[str, int]]:
    """The letters of each input and of the output, with `...` written out; and their sizes."""
    left, arrow, output = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(shapes):
        raise ValueError(f"einsum: {equation!r} is for {len(inputs)} operands; got {len(shapes)}")
    free = [c for c in string.ascii_letters if c not in equation]
    hidden = [len(s) - len(i.replace("...", "")) if "..." in i else 0
              for i, s in zip(inputs, shapes, strict=True)]  # fmt: skip
    broad = "".join(free[: max(hidden)])
    inputs = [i.replace("...", broad[len(broad) - h :])
              for i, h in zip(inputs, hidden, strict=True)]  # fmt: skip
    if not arrow:  # NumPy's rule: the letters that occur once, in alphabetical order
        once = sorted(c for c in set(left) if left.count(c) == 1 and c.isalpha())
        output = "..." * ("..." in left) + "".join(once)
    output = output.replace("...", broad)
    sizes: dict[str, int] = {}
    for letters, shape in zip(inputs, shapes, strict=True):
        if len(letters) != len(shape):
            raise ValueError(f"einsum: {letters!r} names {len(letters)} axes; got shape {shape}")
        for letter, n in zip(letters, shape, strict=True):
            sizes[letter] = n if sizes.get(letter, 1) == 1 else sizes[letter]
            if n not in (1, sizes[letter]):
                raise ValueError(f"einsum: axis {letter!r} has sizes {sizes[letter]} and {n}")
    return inputs, output, sizes
