"""Multi-head and bilinear attention with a context (cross-attention) and any mask."""

import math
from typing import Any

import numpy as np
import pytest
from blocks import CLOSE, C, H, build, numbers, put, with_or_without_rotary, with_parameters
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import gradcheck, ops
from tinyattn.attention import MultiHead, causal, merge_heads, padding, split_heads
from tinyattn.rng import DropoutRNG

B, T, S = 2, 5, 7
both_types = pytest.mark.parametrize("name", ["multihead", "bilinear"])


def by_hand(block: MultiHead, x: np.ndarray, z: np.ndarray, allowed: Any) -> tuple[Any, Any]:
    """The block's output and weights, head by head, in plain NumPy."""
    p = block.state()
    q, k, v = (a @ p[f"{n}.weight"] + p[f"{n}.bias"]
               for n, a in [("query", x), ("key", z), ("value", z)])  # fmt: skip
    answers, weights = [], []
    for h in range(H):
        D = slice(h * C // H, (h + 1) * C // H)
        scores = q[..., D] @ k[..., D].swapaxes(-1, -2) / math.sqrt(C // H)
        e = np.where(allowed, np.exp(scores), 0.0)
        weights.append(e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300))
        answers.append(weights[-1] @ v[..., D])
    joined = np.concatenate(answers, axis=-1)
    return joined @ p["out.weight"] + p["out.bias"], np.stack(weights, axis=1)


MASKS = [None, np.tri(T, S, dtype=bool), padding([3, 0], S)[:, 0]]


@pytest.mark.parametrize("allowed", MASKS, ids=["all", "by-index", "padded"])
def test_multihead_is_its_formula(allowed: np.ndarray | None, device: str) -> None:
    block, x, z = build(device=device), numbers(B, T, C), numbers(B, S, C)
    seen = np.ones((1, S), bool) if allowed is None else allowed
    mask = None if allowed is None else allowed.reshape(-1, 1, *allowed.shape[-2:])
    y, weights = by_hand(block, x, z, seen)
    call = {"context": put(z, device), "allowed": put(mask, device)}
    assert_allclose(block(put(x, device), **call).numpy(), y, **CLOSE)
    ours = block.weights(put(x, device), **call).numpy()
    assert_allclose(ours, weights, **CLOSE)
    some = np.broadcast_to(seen.any(axis=-1), (B, T))
    assert_allclose(ours.sum(axis=-1), np.broadcast_to(some[:, None], (B, H, T)), **CLOSE)


@both_types
@with_or_without_rotary
def test_causal_is_a_mask_aligned_to_the_last_key(name: str, rotary: bool, device: str) -> None:
    """With a mask of the caller, the pairs that both allow."""
    block = build(name, device, rotary=rotary)
    x, hidden = put(numbers(B, T, C), device), put(padding([4, 5], T), device)
    for z, keys in ((None, T), (put(numbers(B, S, C), device), S)):
        for call in (block, block.weights):
            past = call(x, context=z, allowed=causal(T, keys, xp=x.xp)).numpy()
            assert_array_equal(call(x, context=z, causal=True).numpy(), past)
    some = block(x, allowed=hidden & causal(T, T, xp=x.xp)).numpy()
    assert_array_equal(block(x, allowed=hidden, causal=True).numpy(), some)


@both_types
def test_keys_may_be_permuted_with_their_values(name: str, device: str) -> None:
    """A context has no order, unless its keys are rotated by their positions."""
    order = np.random.default_rng(0).permutation(S)
    x, z = put(numbers(B, T, C), device), numbers(B, S, C)
    allowed = numbers(T, S) < 0.5
    block = build(name, device)
    here = {"context": put(z, device), "allowed": put(allowed, device)}
    moved = {"context": put(z[:, order], device), "allowed": put(allowed[:, order], device)}
    assert_allclose(block(x, **moved).numpy(), block(x, **here).numpy(), **CLOSE)
    weights = block.weights(x, **here).numpy()
    assert_allclose(block.weights(x, **moved).numpy(), weights[..., order], **CLOSE)
    block = build(name, device, rotary=True)
    z_moved = block(x, context=put(z[:, order], device)).numpy()
    assert np.abs(z_moved - block(x, context=put(z, device)).numpy()).max() > 0.01


@both_types
def test_queries_of_zero_take_the_mean_of_the_values(name: str, device: str) -> None:
    block, x = build(name, device), numbers(B, T, C)
    for parameter in block.query.parameters():
        parameter.data = np.zeros(parameter.shape)
    values = block.value(put(x, device)).numpy()
    for past in (False, True):
        means = np.broadcast_to(values.mean(axis=1, keepdims=True), values.shape)
        if past:
            means = values.cumsum(axis=1) / np.arange(1, T + 1)[:, None]
        expected = block.out(put(means, device)).numpy()
        assert_allclose(block(put(x, device), causal=past).numpy(), expected, **CLOSE)


def test_training_drops_weights_and_then_outputs(device: str) -> None:
    block, x, dropout_rng = (
        build(device=device, dropout=0.4),
        put(numbers(B, T, C), device),
        DropoutRNG(3),
    )
    keys_first = block.weights(x).swapaxes(-1, -2)  # as in ops.attention
    weights = ops.dropout(keys_first, rate=0.4, dropout_rng=dropout_rng).swapaxes(-1, -2)
    answers = block.out(merge_heads(weights @ split_heads(block.value(x), H)))
    expected = ops.dropout(answers, rate=0.4, dropout_rng=dropout_rng)
    assert_allclose(block(x, dropout_rng=DropoutRNG(3)).numpy(), expected.numpy(), **CLOSE)


@both_types
def test_without_context_it_is_self_attention(name: str, device: str) -> None:
    block, x = build(name, device, rotary=True), put(numbers(B, T, C), device)
    assert_array_equal(block(x).numpy(), block(x, context=x).numpy())


@both_types
def test_rotary_attention_does_not_depend_on_hidden_positions_before(
    name: str, device: str
) -> None:
    """Keys are rotated as much as queries, and with the right sign."""
    block, x = build(name, device, rotary=True), numbers(1, T, C)
    shifted = np.concatenate([numbers(1, 3, C, seed=1), x], axis=1)
    hidden = put(np.arange(T + 3) >= 3, device)
    later = block(put(shifted, device), allowed=hidden).numpy()[:, 3:]
    assert_allclose(later, block(put(x, device)).numpy(), rtol=1e-10)


@both_types
@with_or_without_rotary
def test_gradients_with_a_context_and_a_mask(name: str, rotary: bool, device: str) -> None:
    """The second query has no allowed keys."""
    allowed = put(np.array([[0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 0]], bool), device)
    block = build(name, device, rotary=rotary)
    x, z = put(numbers(B, 3, C), device), put(numbers(B, 4, C), device)
    assert gradcheck(lambda x, z: block(x, context=z, allowed=allowed), x, z)
    run, parameters = with_parameters(block, context=z, allowed=allowed)
    assert gradcheck(run, x, *parameters, directions=1)
