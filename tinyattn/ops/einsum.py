"""Chapter 6: einsum, any sum of products.

Einstein's notation gives each axis a letter, and sums over the letters that the result does not
have. The gradient of an operand is another einsum, in which g replaces this operand.
"""

from __future__ import annotations

import string
from typing import Any

from tinyattn.backend import Array
from tinyattn.op import op


@op
def einsum(xp: Any, *operands: Array, equation: str) -> Any:
    """Any sum of products, by Einstein's notation: einsum("bij,bjk->bik", a, b).

    Forward:  y is the sum of the products over all letters that are not in the output
    Backward: each operand's gradient is an einsum of g and the other operands
    Shapes:   one letter per axis, `...` for axes that broadcast; an operand may repeat a letter
    Raises:   ValueError if the equation does not fit the operands
    """
    inputs, output, sizes = parse_equation(equation, [tuple(o.shape) for o in operands])

    def gradient_of(k: int) -> Any:
        def dx(g: Array) -> Array:
            own = "".join(dict.fromkeys(inputs[k]))  # each letter once: the diagonal
            others = [inputs[i] for i in range(len(operands)) if i != k]
            known = [c for c in own if c in output or any(c in o for o in others)]
            terms = ",".join([output, *others]) + "->" + "".join(known)
            d = xp.einsum(terms, g, *[o for i, o in enumerate(operands) if i != k])
            size = dict(zip(known, d.shape, strict=True))  # 1 where the other operands broadcast
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
    """The letters of each input and of the output, with letters for `...`; and their sizes."""
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
