"""Reports about values: ties, constant inputs and extreme logits have ordinary gradients.

Warnings are errors in this test suite, so NumPy raises no warning in these tests.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinyattn import Tensor, gradcheck, ops
from tinyattn.backend import asarray, asnumpy
from tinyattn.models import GPT, GPTConfig
from tinyattn.nn import LayerNorm, Parameter
from tinyattn.training.muon import Muon, orthogonal
from tinyattn.training.optimizers import AdamW

FLOATS = [np.float64, np.float32]


def leaf(values: Any, device: str = "cpu", dtype: Any = np.float64) -> Tensor:
    return Tensor(np.array(values, dtype), requires_grad=True, device=device)


def close(actual: Any, expected: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(asnumpy(actual), expected, rtol=0, atol=tolerance)


def pulled(function: Callable[[Tensor], Tensor], x: Any, g: Any = None) -> np.ndarray:
    """The gradient at x, for the gradient g of the result (1 if the result is a scalar)."""
    t = leaf(x)
    function(t).backward(g)
    return asnumpy(t.grad)


# ties -----------------------------------------------------------------------------------


def test_two_equal_maxima_share_the_gradient() -> None:
    """HIPS/autograd#141 and pytorch/pytorch#56734."""
    close(pulled(ops.max, [1, 3, 3, 2]), [0, 0.5, 0.5, 0])
    close(pulled(ops.min, [3, 1, 1, 2]), [0, 0.5, 0.5, 0])


def test_ties_in_rows_are_split_row_by_row() -> None:
    """microsoft/onnxruntime#7217."""
    x, g = [[2, 2, 1], [0, 0, 0]], np.array([10.0, 6.0])
    close(pulled(lambda t: t.max(axis=1), x, g), [[5, 5, 0], [2, 2, 2]])
    close(pulled(lambda t: -((-t).min(axis=-1)), x, g), [[5, 5, 0], [2, 2, 2]])


def test_the_maximum_of_a_tensor_with_itself_has_slope_one() -> None:
    """HIPS/autograd#212: exactly 1, not 0 and not 2."""
    for extreme in (ops.maximum, ops.minimum):
        assert pulled(lambda a, f=extreme: f(a, a), 1.0) == 1


def test_two_equal_leaves_share_the_gradient_of_their_maximum() -> None:
    """One convention for reductions and for pairs: the gradient is split evenly."""
    for extreme in (ops.maximum, ops.minimum):
        a, b = leaf(1.0), leaf(1.0)
        extreme(a, b).backward()
        assert (a.grad, b.grad) == (0.5, 0.5)


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (-1, 0), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("extreme", [ops.max, ops.min], ids=["max", "min"])
def test_ties_keep_the_sum_of_the_gradient(
    extreme: Any, axis: Any, keepdims: bool, device: str
) -> None:
    """Summed over the reduced axes, dx is g; and it is 0 wherever x is not extreme."""
    rng = np.random.default_rng(0)
    for dtype in FLOATS:
        values = rng.integers(0, 3, (3, 4, 5))
        x = leaf(values, device, dtype)
        y = extreme(x, axis=axis, keepdims=keepdims)
        g = rng.normal(size=y.shape).astype(dtype)
        y.backward(g)
        kept = extreme(x, axis=axis, keepdims=True)
        share = asnumpy(x.grad).astype(np.float64)
        close(share.sum(axis=axis, keepdims=keepdims), g, 1e-9 if dtype is np.float64 else 1e-5)
        assert not share[values != kept.numpy()].any()


def test_infinities_tie_like_any_other_value() -> None:
    """-∞ everywhere, or +∞ twice."""
    close(pulled(ops.max, [-np.inf, -np.inf]), [0.5, 0.5])
    close(pulled(ops.max, [np.inf, 1, np.inf]), [0.5, 0, 0.5])
    close(pulled(ops.max, [0.0, -0.0]), [0.5, 0.5])


def test_ties_of_broadcast_operands_keep_the_sum_of_the_gradient() -> None:
    """The contributions of a tie to a row are summed over the uses of the row."""
    a, b = leaf([[1.0], [2.0]]), leaf([1.0, 2.0, 3.0])
    g = np.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
    ops.maximum(a, b).backward(g)
    close(a.grad, [[0.5], [8 + 8]])
    close(b.grad, [0.5, 2 + 8, 4 + 32])
    assert asnumpy(a.grad).sum() + asnumpy(b.grad).sum() == g.sum()


def test_a_constant_in_a_tie_gets_half_of_the_gradient() -> None:
    """The rule does not depend on whether the other operand needs a gradient."""
    close(pulled(lambda x: ops.maximum(x, 0.0), [-1, 0, 1], np.ones(3)), [0, 0.5, 1])
    close(pulled(lambda x: ops.maximum(np.zeros(3), x), [-1, 0, 1], np.ones(3)), [0, 0.5, 1])
    close(pulled(lambda x: ops.minimum(x, 0.0), [-1, 0, 1], np.ones(3)), [1, 0.5, 0])


def test_kinks_have_the_documented_slopes() -> None:
    """The docstrings of relu, absolute and clip define the slopes at their kinks."""
    close(pulled(ops.relu, [-1, 0, 1], np.ones(3)), [0, 0, 1])
    close(pulled(ops.absolute, [-1, 0, 1], np.ones(3)), [-1, 0, 1])
    close(pulled(lambda x: x.clip(-1, 1), [-2, -1, 0, 1, 2], np.ones(5)), [0, 1, 1, 1, 0])


def test_next_to_a_tie_the_gradient_is_that_of_the_larger() -> None:
    """Without a tie finite differences agree, so only exact ties are split."""
    x = np.array([1.0, 3.0 + 1e-3, 3.0, 2.0])
    assert gradcheck(ops.max, x) and gradcheck(lambda t: ops.maximum(t, t[::-1]), x)


# constant inputs ------------------------------------------------------------------------


def test_the_norm_of_zeros_has_gradient_zero() -> None:
    """HIPS/autograd#151 and pytorch/pytorch#2421; squared, pytorch/pytorch#4320."""
    close(pulled(ops.norm, [0, 0, 0]), [0, 0, 0])
    close(pulled(lambda x: ops.norm(x) ** 2, [0, 0, 0]), [0, 0, 0])
    close(pulled(lambda x: ops.norm(x) * ops.norm(x), [0, 0, 0]), [0, 0, 0])
    close(pulled(lambda x: ops.norm(x) ** 3 + ops.norm(x), [0, 0, 0]), [0, 0, 0])


def test_the_deviation_of_equal_numbers_has_gradient_zero() -> None:
    """HIPS/autograd#268, #570."""
    close(pulled(ops.std, [2, 2, 2]), [0, 0, 0])
    close(pulled(lambda x: ops.std(x) ** 2, [2, 2, 2]), [0, 0, 0])
    close(pulled(ops.var, [2, 2, 2]), [0, 0, 0])
    close(pulled(ops.std, [5]), [0])
    close(pulled(ops.std, 5.0), 0)
    close(pulled(ops.norm, 0.0), 0)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", [2, 3, 7, 10, 49, 1000])
@pytest.mark.parametrize("value", [0.1, 1 / 3, -0.7, 1e-30, 123456.789, 1e8 + 0.1, 1e30])
def test_the_deviation_of_equal_numbers_is_zero_although_their_mean_is_rounded(
    value: float, count: int, dtype: Any
) -> None:
    """HIPS/autograd#586: the mean of three times 0.1 is not 0.1, and the slope there not ±1/3.

    Adding a constant to all numbers does not change the deviation, so its gradient sums to 0.
    """
    for shape in [(count,), (count, 1), (1, count)]:
        x = leaf(np.full(shape, value), dtype=dtype)
        y = x.std()
        y.backward()
        assert y.item() == 0
        close(x.grad, np.zeros(shape))


def test_only_rows_of_zeros_have_gradient_zero(device: str) -> None:
    """HIPS/autograd#617: a row of zeros must not change the others, and the others not this row."""
    for dtype in FLOATS:
        x = leaf([[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]], device, dtype)
        x.norm(axis=1).backward(np.array([1.0, 10.0, 100.0]))
        close(x.grad, [[0.6, 0.8], [0, 0], [0, -100]], 1e-6)
        x = leaf([[3.0, 4.0], [5.0, 5.0]], device, dtype)
        x.std(axis=1, keepdims=True).backward(np.array([[1.0], [10.0]]))
        close(x.grad, [[-0.5, 0.5], [0, 0]], 1e-6)


def test_no_gradient_becomes_nan_by_zero_times_infinity() -> None:
    """An upstream gradient of 0 stays 0 where the slope would be infinite."""
    close(pulled(lambda x: ops.norm(x) * 0.0, [0, 0]), [0, 0])
    close(pulled(lambda x: ops.std(x) * 0.0, [1, 1]), [0, 0])


def test_a_constant_row_through_layer_norm() -> None:
    """HIPS/autograd#617: output 0, and the gradient (g - mean g)/√ε."""
    x, g = leaf([5.0] * 4), np.array([1.0, 2.0, 3.0, 4.0])
    y = ops.layer_norm(x, np.ones(4), np.zeros(4))
    y.backward(g)
    close(y.data, [0, 0, 0, 0])
    close(x.grad, [-474.3416, -158.1139, 158.1139, 474.3416], 5e-5)
    close(x.grad, (g - 2.5) / np.sqrt(1e-5))


def test_a_row_through_layer_norm_whose_gradient_is_nearly_nothing() -> None:
    """The variance is divided by n; the upstream gradient is an affine function of the input."""
    x = leaf([1.0, 2.0, 3.0, 4.0])
    y = ops.layer_norm(x, np.ones(4), np.zeros(4))
    y.backward(np.array([1.0, 2.0, 3.0, 4.0]))
    close(y.data, [-1.3416354, -0.4472118, 0.4472118, 1.3416354], 5e-8)
    close(x.grad, [-1.07e-5, -3.58e-6, 3.58e-6, 1.07e-5], 5e-8)


def test_layer_norm_composed_of_operations_agrees() -> None:
    """mean, var and sqrt give the result of the one operation, also for a constant row."""
    values, g = np.array([[5.0] * 4, [1, 2, 3, 4], [0, 0, 0, 0]]), np.arange(12.0).reshape(3, 4)

    def parts(x: Tensor) -> Tensor:
        spread = ops.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
        return (x - x.mean(axis=-1, keepdims=True)) / spread

    whole = pulled(lambda x: ops.layer_norm(x, np.ones(4), np.zeros(4)), values, g)
    close(pulled(parts, values, g), whole)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.0, 1e4])
def test_constant_rows_give_a_layer_no_nan(value: float, device: str) -> None:
    """Gain and bias get ordinary gradients too; also for rows of a single number."""
    for width in (1, 3, 4):
        layer = LayerNorm(width)
        layer.to(device)
        x = leaf(np.full((2, width), value), device, np.float32)
        layer(x).backward(np.arange(2.0 * width).reshape(2, width))
        for gradient in (x.grad, layer.gain.grad, layer.bias.grad):
            assert np.isfinite(asnumpy(gradient)).all()
        close(layer.bias.grad, np.arange(2.0 * width).reshape(2, width).sum(axis=0), 1e-5)


def test_a_model_whose_embedding_is_all_zero_still_learns() -> None:
    """Every layer norm then gets constant rows; nothing may become NaN."""
    model = GPT(GPTConfig(vocabulary=5, context=4, layers=2, heads=2, width=4, dropout=0.0))
    model.embedding.weight.data = np.zeros((5, 4))
    ids = np.array([[1, 2, 3, 4]])
    ops.cross_entropy(model(ids), ids).backward()
    for name, parameter in model.named_parameters():
        assert np.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize("optimizer", [AdamW, Muon])
def test_with_a_gradient_of_zero_only_weight_decay_changes_parameters(optimizer: Any) -> None:
    """Adam divides by √v, and Muon by the norm of the gradient; both are 0 here."""
    w = Parameter(np.array([[1.0, 2.0], [3.0, 4.0]]))
    rule = optimizer([("w.weight", w)], weight_decay=0.0)
    rule.step(0.1)
    close(w.data, [[1, 2], [3, 4]])
    close(orthogonal(np, np.zeros((2, 3))), np.zeros((2, 3)))


def test_powers_and_products_at_zero() -> None:
    """The derivative of a power may have 0·∞ too."""
    close(pulled(lambda x: x**0, [0, 2], np.ones(2)), [0, 0])
    close(pulled(lambda x: x**1, [0, 2], np.ones(2)), [1, 1])
    close(pulled(lambda x: x**2, [0, 2], np.ones(2)), [0, 4])
    close(pulled(lambda x: x ** np.array([0, 1, 2, 2.5]), [0] * 4, np.ones(4)), [0, 1, 0, 0])
    close(pulled(lambda x: np.array([0.0, 0.0]) ** x, [1, 2], np.ones(2)), [0, 0])
    close(pulled(lambda x: x / np.array([2.0, 4.0]), [0, 0], np.ones(2)), [0.5, 0.25])


# extreme logits -------------------------------------------------------------------------

EXTREME = [
    ([-431, 279, 427], 0, 858, [-1, 5.30e-65, 1]),
    ([-1047, -981, 1891], 0, 2938, [-1, 0, 1]),
    ([1e4, -1e4, 0], 1, 20_000, [1, -1, 0]),
]


def host_ids(values: Any, device: str) -> Any:
    return asarray(np.array(values), device=device)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("logits", "target", "loss", "slope"), EXTREME)
def test_extreme_logits_have_the_exact_loss(
    logits: list[float], target: int, loss: float, slope: list[float], dtype: Any, device: str
) -> None:
    """FluxML/NNlib.jl#68, tensorflow/tensorflow#21271, Theano/Theano#3162: exact."""
    x = leaf([logits], device, dtype)
    y = ops.cross_entropy(x, host_ids([target], device))
    y.backward()
    assert y.item() == loss and y.dtype == dtype
    expected = np.array([slope]).astype(dtype)  # 5.30e-65 is 0 in float32
    np.testing.assert_allclose(asnumpy(x.grad), expected, rtol=1e-3, atol=0)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("logits", "target", "loss", "slope"), EXTREME)
def test_the_same_loss_through_log_softmax_and_through_logsumexp(
    logits: list[float], target: int, loss: float, slope: list[float], dtype: Any, device: str
) -> None:
    """HIPS/autograd#110: every formula of the loss is as stable as the one operation."""
    for write in (lambda z: -z.log_softmax()[target], lambda z: z.logsumexp() - z[target]):
        x = leaf(logits, device, dtype)
        y = write(x)
        y.backward()
        assert y.item() == loss and y.dtype == dtype
        np.testing.assert_allclose(asnumpy(x.grad), slope, rtol=1e-3, atol=1e-60)


def test_the_gradient_of_softmax_shows_only_with_different_weights(device: str) -> None:
    """harvard-edge/cs249r_book#2053: of a plain sum it would be 0, whether right or wrong."""
    x = leaf([0, 0, 0], device)
    (ops.softmax(x) * Tensor([1.0, 2.0, 3.0], device=device)).sum().backward()
    close(x.grad, [-1 / 3, 0, 1 / 3])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("logits", [e[0] for e in EXTREME] + [[1e30, -1e30, 0], [88, 89, 90]])
def test_softmax_of_extreme_logits_is_a_distribution(
    logits: list[float], dtype: Any, device: str
) -> None:
    """Positive, with sum 1 and a finite gradient; also with a mask, also far below 0."""
    for shift in (0, -1e4, 1e4):
        for allowed in (None, [True, True, True], [True, False, True], [False, True, False]):
            x = leaf(np.array(logits) + shift, device, dtype)
            mask = None if allowed is None else asarray(np.array(allowed), device=device)
            p = ops.softmax(x, mask)
            p.backward(np.array([1.0, 2.0, 3.0]))
            values = p.numpy()
            assert (values >= 0).all() and values.sum() == pytest.approx(1)
            assert np.isfinite(asnumpy(x.grad)).all()
            assert asnumpy(x.grad).sum() == pytest.approx(0, abs=1e-6)
            if allowed is not None:
                assert not values[~np.array(allowed)].any()


@pytest.mark.parametrize("axis", [0, 1, -1, (0, 1), None], ids=str)
def test_logsumexp_neither_overflows_nor_underflows(axis: Any) -> None:
    """For values where exp overflows, or where all of it underflows."""
    for shift in (0, 1e3, 1e6, -1e3, -1e6):
        values = np.array([[0.0, 1.0, 2.0], [3.0, -1.0, 0.5]])
        expected = np.log(np.exp(values).sum(axis=axis)) + shift
        x = leaf(values + shift)
        y = x.logsumexp(axis=axis)
        close(y.data, expected, 1e-9 * max(1, abs(shift)))
        y.backward(np.ones(y.shape))
        share = np.exp(values) / np.exp(values).sum(axis=axis, keepdims=True)
        close(x.grad, share, 1e-9 * max(1, abs(shift)))


def test_logits_of_minus_infinity_have_probability_zero(device: str) -> None:
    """HIPS/autograd#110: -∞ excludes a token, it is not an overflow."""
    x = leaf([[-np.inf, 0, 0]], device)
    y = ops.cross_entropy(x, host_ids([1], device))
    y.backward()
    assert y.item() == pytest.approx(np.log(2))
    close(x.grad, [[0, -0.5, 0.5]])
    for function, expected in ((ops.softmax, [[0, 0.5, 0.5]]), (ops.exp, [[0, 1, 1]])):
        close(function(x).data, expected)
    x = leaf([-np.inf, -np.inf], device)
    y = x.logsumexp()
    y.backward()
    assert y.item() == -np.inf
    close(x.grad, [0, 0])


def test_an_ignored_row_does_not_change_the_loss(device: str) -> None:
    """The target of an ignored row is id 0, and this token may be excluded."""
    x = leaf([[-np.inf, 1.0, 2.0], [0.0, 0.0, 0.0]], device)
    y = ops.cross_entropy(x, host_ids([0, 1], device), ignore=0)
    y.backward()
    assert y.item() == pytest.approx(np.log(3))
    close(x.grad, [[0, 0, 0], [1 / 3, -2 / 3, 1 / 3]])


def test_a_batch_of_ignored_rows_has_loss_zero(device: str) -> None:
    """0/0 in a mean over no targets."""
    x = leaf([[1e4, -1e4], [3.0, 4.0]], device)
    y = ops.cross_entropy(x, host_ids([-1, -1], device), ignore=-1)
    y.backward()
    assert y.item() == 0
    close(x.grad, [[0, 0], [0, 0]])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [50.0, 1e3, 1e10, 1e15, 1e19, 1e25, 1e30])
def test_saturated_activations_have_their_limits(size: float, dtype: Any) -> None:
    """In saturation, values and slopes are ordinary, however large the input is."""
    g = np.ones(2, dtype)
    limits: dict[str, tuple[Callable[[Tensor], Tensor], list[float], list[float]]] = {
        "sigmoid": (ops.sigmoid, [0, 1], [0, 0]),
        "tanh": (ops.tanh, [-1, 1], [0, 0]),
        "erf": (ops.erf, [-1, 1], [0, 0]),
        "relu": (ops.relu, [0, size], [0, 1]),
        "gelu": (ops.gelu, [0, size], [0, 1]),
        "tanh gelu": (lambda x: ops.gelu(x, exact=False), [0, size], [0, 1]),
    }
    for name, (function, values, slopes) in limits.items():
        x = leaf([-size, size], dtype=dtype)
        y = function(x)
        y.backward(g)
        np.testing.assert_allclose(y.data, values, rtol=1e-6, atol=1e-6 * size, err_msg=name)
        np.testing.assert_allclose(x.grad, slopes, rtol=1e-6, atol=1e-6, err_msg=name)


def test_attention_with_extreme_scores_picks_one_key(device: str) -> None:
    """Scores of ±10⁴, in both dtypes."""
    for dtype in FLOATS:
        q, k, v = (leaf(x, device, dtype) for x in ([[100.0]], [[100.0], [-100.0]], [[1.0], [2.0]]))
        y = ops.attention(q, k, v)
        y.backward(np.ones((1, 1)))
        assert y.item() == 1
        close(q.grad, [[0]])
        close(k.grad, [[0], [0]])
        close(v.grad, [[1], [0]])


def test_gradients_of_moderately_extreme_logits_pass_the_check() -> None:
    """With differences of ±30, finite differences still have enough digits."""
    z = np.array([[30.0, 0.0, -30.0], [5.0, 4.0, -29.0]])
    ids = np.array([2, 1])
    assert gradcheck(lambda x: ops.cross_entropy(x, ids), z)
    assert gradcheck(ops.log_softmax, z) and gradcheck(ops.softmax, z)
    assert gradcheck(ops.logsumexp, z) and gradcheck(lambda x: x.logsumexp(axis=0), z)
