"""Chapter 3b: trust, but verify.

A gradient is a promise about small changes: moving the inputs a little way along v must change
the output, seen through u, by ⟨u, J v⟩. This file measures that change with two evaluations and
compares. Both directions are random: with u = 1 (the gradient of a plain sum) the mistakes of a
softmax's gradient cancel out, and a wrong formula passes. Next: modules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinyattn.backend import asarray, asnumpy
from tinyattn.tensor import Tensor, no_grad


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
        directions: how many random pairs (v, u) to try, one input at a time and all at once.
        step: half the distance between the two evaluations, in units of the inputs.
        tolerance: allowed difference, relative to the larger of 1 and both numbers.
    Returns: True.
    Raises: AssertionError with both numbers if they differ; TypeError for float32 inputs, in which
        rounding would hide what is to be seen.
    """
    rng = np.random.default_rng(seed)
    leaves = [x if isinstance(x, Tensor) else Tensor(x) for x in inputs]
    for i, leaf in enumerate(leaves):
        if leaf.dtype != np.float64:
            raise TypeError(f"gradcheck: input {i} must be float64; got {leaf.dtype}")
    values = [leaf.numpy() for leaf in leaves]
    device = leaves[0].device if leaves else "cpu"

    def evaluate(at: list[np.ndarray], record: bool) -> tuple[list[Tensor], list[Tensor]]:
        tensors = [Tensor(a, requires_grad=record, device=device) for a in at]
        out = function(*tensors)
        return tensors, list(out) if isinstance(out, (list, tuple)) else [out]

    moves = [[i] for i in range(len(values))] + [list(range(len(values)))] * (len(values) > 1)
    for moved in moves * directions:
        v = [rng.standard_normal(a.shape) if i in moved else np.zeros_like(a)
             for i, a in enumerate(values)]  # fmt: skip
        tensors, outputs = evaluate(values, record=True)
        u = [rng.standard_normal(y.shape) for y in outputs]
        for y, cotangent in zip(outputs, u, strict=True):
            y.backward(asarray(cotangent, device=device), retain_graph=True)
        promised = sum(
            float(np.vdot(asnumpy(t.grad), d))
            for t, d in zip(tensors, v, strict=True)
            if t.grad is not None
        )
        with no_grad():
            ahead = evaluate([a + step * d for a, d in zip(values, v, strict=True)], False)[1]
            behind = evaluate([a - step * d for a, d in zip(values, v, strict=True)], False)[1]
        measured = sum(
            float(np.vdot(c, a.numpy() - b.numpy())) / (2 * step)
            for c, a, b in zip(u, ahead, behind, strict=True)
        )
        size = max(1.0, abs(promised), abs(measured))
        if not abs(promised - measured) <= tolerance * size:
            raise AssertionError(
                f"gradcheck: moving {'input ' + str(moved[0]) if len(moved) == 1 else 'all inputs'}"
                f" of shapes {[a.shape for a in values]}: the gradient promises {promised:.10g}, "
                f"the difference quotient is {measured:.10g}"
            )
    return True
