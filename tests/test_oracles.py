"""Gradients of other libraries: HIPS autograd, which traces NumPy, and PyTorch if installed."""

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import autograd.numpy
import numpy as np
from autograd import make_vjp
from cases import CASES, Case, cases_where, cotangent_of, normal
from numpy.testing import assert_allclose

from tinyattn import Tensor, ops

CLOSE = {"rtol": 1e-10, "atol": 1e-12}

# HIPS autograd -----------------------------------------------------------------------------


def test_autograd_checks_every_op_except_erf() -> None:
    judged = {name for name, cases in CASES.items() if any(case.autograd for case in cases)}
    assert CASES.keys() - judged == {"erf"}  # its derivative is in SciPy; PyTorch checks it below


@cases_where(lambda name, case: case.autograd)
def test_autograd_agrees(name: str, case: Case) -> None:
    def formula(*floats: Any) -> Any:
        return case.formula(autograd.numpy, *case.with_floats(floats), **case.options)

    floats = [case.args[i] for i in case.floats]
    vjp, value = make_vjp(formula, tuple(range(len(floats))))(*floats)
    u = cotangent_of(case)
    y, gradients = case.gradients(name, case.leaves(), u)
    assert_allclose(y, value, **CLOSE)
    for ours, theirs in zip(gradients, vjp(u), strict=True):
        assert_allclose(ours, theirs, **CLOSE)


def test_autograd_agrees_on_a_whole_block_with_shared_inputs() -> None:
    """Residual connections use x three times and W twice, so gradients must be added."""

    def block(m: Any, x: Any, w: Any, where: Callable[..., Any], exp: Callable[..., Any]) -> Any:
        scores = where(np.tri(4, dtype=bool), (x @ w) @ x.T, -30.0)
        e = exp(scores - 1.0)
        x = x + (e / e.sum(axis=-1, keepdims=True)) @ x @ w
        return (x * x).mean(axis=0) ** 0.5 + x[::2].sum(axis=0)

    a, b, u = normal(4, 3), normal(3, 3) / 2, normal(3)
    x, w = (Tensor(array, requires_grad=True) for array in (a, b))
    block(None, x, w, ops.where, ops.exp).backward(u)
    anp = autograd.numpy
    theirs = make_vjp(lambda x, w: block(anp, x, w, anp.where, anp.exp), (0, 1))(a, b)[0](u)
    assert_allclose(x.grad, theirs[0], **CLOSE)
    assert_allclose(w.grad, theirs[1], **CLOSE)


# PyTorch -----------------------------------------------------------------------------------


def softmax(t: Any, x: Any, allowed: Any = None, axis: int = -1) -> Any:
    x = x if allowed is None else x.masked_fill(~allowed, -math.inf)
    return t.softmax(x, axis).nan_to_num()  # PyTorch gives NaN where nothing is allowed, tinyattn 0


def attention(
    t: Any, q: Any, k: Any, v: Any, allowed: Any = None, causal: bool = False, scale: Any = None
) -> Any:
    if causal:
        T, S = q.shape[-2], k.shape[-2]
        past = t.ones(T, S, dtype=t.bool).tril(S - T)
        allowed = past if allowed is None else allowed & past
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    return softmax(t, scores, allowed) @ v


def cross_entropy(t: Any, z: Any, targets: Any, ignore: int = -100, divisor: Any = None) -> Any:
    rows, flat = z.reshape(-1, z.shape[-1]), targets.reshape(-1)
    f = t.nn.functional.cross_entropy
    total = f(rows, flat, ignore_index=ignore, reduction="sum")
    return total / (divisor or (targets != ignore).sum().clip(min=1))


def reduced(name: str, default: Any = None, **extra: Any) -> Callable[..., Any]:
    def reduction(t: Any, x: Any, axis: Any = default, keepdims: bool = False) -> Any:
        axis = tuple(range(x.ndim)) if axis is None else axis
        return getattr(t, name)(x, dim=axis, keepdim=keepdims, **extra)

    return reduction


TORCH: dict[str, Callable[..., Any]] = {
    "attention": attention,
    "cross_entropy": cross_entropy,
    "cumsum": lambda t, x, axis: t.cumsum(x, axis) if axis is not None else x.flatten().cumsum(0),
    "einsum": lambda t, *xs, equation: t.einsum(equation, *xs),
    "embedding": lambda t, weight, ids: t.nn.functional.embedding(ids, weight),
    "erf": lambda t, x: t.erf(x),
    "gather": lambda t, x, i, axis=-1: x.gather(axis, i % x.shape[axis]),
    "gelu": lambda t, x, exact=True: t.nn.functional.gelu(
        x, approximate="none" if exact else "tanh"),
    "layer_norm": lambda t, x, *p, eps: t.nn.functional.layer_norm(x, x.shape[-1:], *p, eps=eps),
    "linear": lambda t, x, weight, bias=None: t.nn.functional.linear(x, weight.T, bias),
    "log_softmax": lambda t, x, axis: t.log_softmax(x, axis),
    "logsumexp": reduced("logsumexp", -1),
    "matmul": lambda t, a, b: a @ b,
    "max": reduced("amax"),
    "mean": reduced("mean"),
    "min": reduced("amin"),
    "power": lambda t, a, b: a**b,
    "relu": lambda t, x: t.relu(x),
    "scatter_add": lambda t, x, i, values, axis=-1: x.scatter_add(axis, i % x.shape[axis], values),
    "sigmoid": lambda t, x: t.sigmoid(x),
    "softmax": softmax,
    "std": reduced("std", correction=0),
    "sum": reduced("sum"),
    "tanh": lambda t, x: t.tanh(x),
    "tril": lambda t, x, offset: t.tril(x, offset),
    "var": reduced("var", correction=0),
    "where": lambda t, condition, a, b: t.where(condition, a, b),
}  # fmt: skip


def torch_can(name: str, case: Case) -> bool:
    """PyTorch takes axis=() for all axes, and has its own dropout."""
    here = find_spec("torch") is not None
    return (
        here
        and name in TORCH
        and case.kwargs.get("axis") != ()
        and "dropout_rng" not in case.kwargs
    )


@cases_where(torch_can)
def test_torch_agrees(name: str, case: Case) -> None:
    import torch

    args = [torch.tensor(a) if isinstance(a, np.ndarray) else a for a in case.args]
    for i in case.floats:
        args[i].requires_grad_()
    value = TORCH[name](torch, *args, **case.options)
    u = cotangent_of(case)
    value.backward(torch.tensor(u))
    y, gradients = case.gradients(name, case.leaves(), u)
    assert_allclose(y, value.detach().numpy(), **CLOSE)
    for ours, i in zip(gradients, case.floats, strict=True):
        assert_allclose(ours, args[i].grad.numpy(), **CLOSE)
