"""For all ranks and letters: matrix products and einsum agree with NumPy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose

from tinyattn import gradcheck, ops

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


@given(
    hnp.mutually_broadcastable_shapes(
        signature=np.matmul.signature, min_side=0, max_side=3, max_dims=2
    ),
    st.integers(0, 1000),
)
def test_matmul_of_every_rank(shapes: hnp.BroadcastableShapes, seed: int) -> None:
    """Vectors, matrices and stacks of matrices that broadcast, on either side."""
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal(shape) for shape in shapes.input_shapes)
    assert_allclose(ops.matmul(a, b).numpy(), np.matmul(a, b), **CLOSE)
    assert gradcheck(ops.matmul, a, b, directions=1)


@st.composite
def equations(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]]]:
    """An equation for one to three operands, and their shapes.

    Letters may repeat, within an operand and between operands; `...` may be anywhere, for up to two
    axes that broadcast; axes of size 1 may broadcast; the output may be implicit.
    """
    sizes = {letter: draw(st.integers(1, 3)) for letter in "abcd"}
    hidden, dotted = (2, 3), draw(st.booleans())
    inputs, shapes = [], []
    for _ in range(draw(st.integers(1, 3))):
        letters = draw(st.text("abcd", max_size=3))
        thin = draw(st.sampled_from(["", *letters]))  # a letter whose axis has size 1 here
        thin = thin if letters.count(thin) == 1 else ""
        shape = [1 if c == thin else sizes[c] for c in letters]
        if dotted:
            place = draw(st.integers(0, len(letters)))
            dots = hidden[draw(st.integers(0, 2)) :]
            shape[place:place] = [draw(st.sampled_from([1, n])) for n in dots]
            letters = letters[:place] + "..." + letters[place:]
        inputs.append(letters)
        shapes.append(tuple(shape))
    left = ",".join(inputs)
    if draw(st.booleans()):
        return left, shapes
    output = draw(st.permutations(sorted(set(left) - set(".,"))))
    output = output[: draw(st.integers(0, len(output)))]
    if "..." in left:
        output.insert(draw(st.integers(0, len(output))), "...")
    return f"{left} -> {''.join(output)}", shapes


@given(equations(), st.integers(0, 1000))
def test_einsum_of_every_equation(case: tuple[str, list[tuple[int, ...]]], seed: int) -> None:
    equation, shapes = case
    rng = np.random.default_rng(seed)
    operands = [np.asarray(rng.standard_normal(shape)) for shape in shapes]
    y = ops.einsum(equation, *operands)
    assert_allclose(y.numpy(), np.einsum(equation, *operands), **CLOSE)
    assert gradcheck(lambda *tensors: ops.einsum(equation, *tensors), *operands, directions=1)
