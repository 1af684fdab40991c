"""gradcheck must detect wrong gradients, and must accept right ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import normal

from tinyattn import Tensor, gradcheck, ops
from tinyattn.op import op
from tinyattn.tensor import OPS

X = normal(3, 4)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], Any]:
    """Make an op for one test, without leaving it in the table of all ops."""
    monkeypatch.setattr("tinyattn.op.OPS", dict(OPS))
    return op


def softmax_with(dx: Callable[..., Any]) -> Callable[..., Any]:
    def softmax(xp: Any, x: Any) -> Any:
        e = xp.exp(x)
        y = e / e.sum(axis=-1, keepdims=True)
        return y, (lambda g: dx(y, g),)

    return softmax


def scale(xp: Any, x: Any, *, slope: float) -> Any:
    return x * 2, (lambda g: g * slope,)


def test_a_right_gradient_passes(device: str) -> None:
    assert gradcheck(lambda x: (x * x).sum(axis=0), Tensor(X, device=device)) is True


def test_a_gradient_that_is_wrong_by_a_thousandth_is_detected(planted: Any) -> None:
    wrong = planted(scale)
    assert gradcheck(lambda x: wrong(x, slope=2.0), X)
    with pytest.raises(AssertionError, match=r"moving input 0 .*\[\(3, 4\)\]"):
        gradcheck(lambda x: wrong(x, slope=2.002), X)


def test_a_mistake_that_a_plain_sum_hides_is_detected(planted: Any) -> None:
    """A row of softmax always sums to 1. If the gradient of the result is all ones, every gradient
    of the form y·(g - Σ g·y) is 0, and so is a wrong gradient that is always 0."""
    wrong = planted(softmax_with(lambda y, g: y * 0))
    assert gradcheck(lambda x: wrong(x).sum(), X)
    with pytest.raises(AssertionError):
        gradcheck(wrong, X)


def test_a_wrong_gradient_of_one_element_in_many_is_detected(planted: Any) -> None:
    def forgetful(xp: Any, x: Any) -> Any:
        return x * 2, (lambda g: g * 2 * (xp.arange(x.size).reshape(x.shape) != 7),)

    with pytest.raises(AssertionError):
        gradcheck(planted(forgetful), X)


def test_the_input_with_the_wrong_gradient_is_named(planted: Any) -> None:
    def product(xp: Any, a: Any, b: Any) -> Any:
        return a * b, (lambda g: g * b, lambda g: -g * a)

    with pytest.raises(AssertionError, match="moving input 1"):
        gradcheck(planted(product), X, X + 1)


def test_several_outputs_are_checked_together() -> None:
    assert gradcheck(lambda x: ops.split(x * x, 2, axis=1), X)


def test_an_input_without_influence_is_accepted() -> None:
    assert gradcheck(lambda x, y: x * 2, X, X)


def test_nan_is_not_agreement() -> None:
    with pytest.raises(AssertionError), np.errstate(invalid="ignore"):
        gradcheck(lambda x: (x - 100).log(), X)


@pytest.mark.parametrize("scale", [1e-30, 1e-7, 1.0, 1e7, 1e30])
def test_a_wrong_gradient_is_detected_however_small_the_function_is(scale: float) -> None:
    """The tolerance is relative to the compared values."""
    with pytest.raises(AssertionError, match="predicts"):
        gradcheck(lambda a: a * a.detach() * scale, [1.0, 2.0])
    assert gradcheck(lambda a: a * a * scale, [1.0, 2.0])


def test_a_curve_with_slope_zero_is_accepted() -> None:
    """The difference quotient of x³ at 0 is the square of the step, not 0."""
    for scale in (1e-7, 1.0, 1e7):
        assert gradcheck(lambda x, s=scale: x**3 * s, np.zeros(2))
    assert gradcheck(lambda x: x * 0.0, X)


def test_float32_is_refused() -> None:
    with pytest.raises(TypeError, match="input 1 must be float64; got float32"):
        gradcheck(lambda x, y: x, X, X.astype(np.float32))


def test_inputs_do_not_change() -> None:
    x = Tensor(X, requires_grad=True)
    gradcheck(lambda x: x * x, x)
    assert x.grad is None
    assert np.array_equal(x.numpy(), X)
