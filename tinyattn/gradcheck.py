"""Chapter 6: gradient checking. Trust, but verify.

A gradient predicts small changes: moving the inputs a little way along v must change the output,
seen through u, by ⟨u, J v⟩. This file measures that change with two evaluations and
compares. Both directions are random: with u = 1 (the gradient of a plain sum) the mistakes of a
softmax's gradient cancel out, and a wrong formula passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinyattn.backend import asarray, asnumpy
from tinyattn.graph import no_grad
from tinyattn.rng import generator
from tinyattn.tensor import Tensor

ROUNDING = 64 * np.finfo(np.float64).eps
"""The relative error that an output may have from the rounding of some operations."""


def gradcheck(
    function: Callable[..., Any],
    *inputs: Any,
    directions: int = 3,
    step: float = 1e-6,
    tolerance: float = 1e-6,
    seed: int = 0,
) -> bool:
    """Compare the gradients of `function` with central differences in random directions.

    Args:
        function: takes Tensors, returns a Tensor or a sequence of Tensors.
        inputs: float64 arrays or Tensors at which to check, away from kinks (ties of max, 0 of
            abs), where no gradient exists.
        directions: number of random pairs (v, u) for each input alone and for all inputs together.
        step: half the distance between the two evaluations, in units of the inputs.
        tolerance: largest difference, relative to the larger of both numbers. An estimate of the
            errors from rounding and from the finite step is added to it.
    Returns: True.
    Raises: AssertionError with both numbers if they differ; TypeError for float32 inputs, whose
        rounding would hide the differences.
    """
    rng = generator(seed)
    leaves = [x if isinstance(x, Tensor) else Tensor(x) for x in inputs]
    for i, leaf in enumerate(leaves):
        if leaf.dtype != np.float64:
            raise TypeError(f"gradcheck: input {i} must be float64; got {leaf.dtype}")
    x = [leaf.numpy() for leaf in leaves]
    device = leaves[0].device if leaves else "cpu"
    moves = [[i] for i in range(len(x))] + [list(range(len(x)))] * (len(x) > 1)
    for moved in moves * directions:
        v = [rng.standard_normal(a.shape) if i in moved else np.zeros_like(a)
             for i, a in enumerate(x)]  # fmt: skip
        tensors, outputs = _evaluate(function, x, device)
        u = [rng.standard_normal(y.shape) for y in outputs]
        for y, cotangent in zip(outputs, u, strict=True):
            y.backward(asarray(cotangent, device=device), retain_graph=True)
        grads = [np.zeros_like(d) if t.grad is None else asnumpy(t.grad)
                 for t, d in zip(tensors, v, strict=True)]  # fmt: skip
        predicted = _inner(grads, v)
        measured = _quotient(function, x, v, u, step, device)
        sizes = sum(float(np.abs(a * y.numpy()).sum()) for a, y in zip(u, outputs, strict=True))
        allowed = tolerance * max(abs(predicted), abs(measured)) + ROUNDING * sizes / step
        if abs(predicted - measured) > allowed:  # rare: is the step too long?
            allowed += 2 * abs(measured - _quotient(function, x, v, u, 2 * step, device))
        if not abs(predicted - measured) <= allowed:
            raise AssertionError(
                f"gradcheck: moving {'input ' + str(moved[0]) if len(moved) == 1 else 'all inputs'}"
                f" of shapes {[a.shape for a in x]}: the gradient predicts {predicted:.10g}, "
                f"the difference quotient is {measured:.10g}"
            )
    return True


def _evaluate(
    function: Callable[..., Any], at: list[np.ndarray], device: str
) -> tuple[list[Tensor], list[Tensor]]:
    """New leaves with these values, and the outputs of the function for them."""
    leaves = [Tensor(a, requires_grad=True, device=device) for a in at]
    out = function(*leaves)
    return leaves, list(out) if isinstance(out, (list, tuple)) else [out]


def _quotient(
    function: Callable[..., Any], x: list[np.ndarray], v: list[np.ndarray], u: list[np.ndarray],
    h: float, device: str,
) -> float:  # fmt: skip
    """The central difference of ⟨u, function⟩ at x along v, with step h."""
    with no_grad():
        ahead, behind = (
            _evaluate(function, [a + s * d for a, d in zip(x, v, strict=True)], device)[1]
            for s in (h, -h)
        )
    return _inner(u, [a.numpy() - b.numpy() for a, b in zip(ahead, behind, strict=True)]) / (2 * h)


def _inner(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    """The inner product of two lists of arrays, each list taken as one long vector."""
    return sum(float(np.vdot(x, y)) for x, y in zip(a, b, strict=True))
