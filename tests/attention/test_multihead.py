"""Multi-head attention with a context and any mask, which only it and its bilinear twin can."""

import math
from typing import Any

import numpy as np
import pytest
from blocks import CLOSE, C, H, build, numbers, with_or_without_rotary, with_parameters
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor, gradcheck, ops
from tinyattn.attention import MultiHead, causal, merge_heads, padding, split_heads
from tinyattn.noise import Noise

B, T, S = 2, 5, 7
both_kinds = pytest.mark.parametrize("name", ["multihead", "bilinear"])


def by_hand(block: MultiHead, x: np.ndarray, z: np.ndarray, allowed: Any) -> tuple[Any, Any]:
    """The block's answer and weights, head by head, in plain NumPy."""
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
def test_multihead_is_its_formula(allowed: np.ndarray | None) -> None:
    block, x, z = build(), numbers(B, T, C), numbers(B, S, C)
    seen = np.ones((1, S), bool) if allowed is None else allowed
    mask = None if allowed is None else allowed.reshape(-1, 1, *allowed.shape[-2:])
    y, weights = by_hand(block, x, z, seen)
    assert_allclose(block(Tensor(x), context=Tensor(z), allowed=mask).numpy(), y, **CLOSE)
    ours = block.weights(Tensor(x), context=Tensor(z), allowed=mask).numpy()
    assert_allclose(ours, weights, **CLOSE)
    some = np.broadcast_to(seen.any(axis=-1), (B, T))
    assert_allclose(ours.sum(axis=-1), np.broadcast_to(some[:, None], (B, H, T)), **CLOSE)


@both_kinds
@with_or_without_rotary
def test_causal_is_a_mask_with_the_last_query_at_the_last_key(name: str, rotary: bool) -> None:
    """With a mask of the caller's, what both allow."""
    block, x, hidden = build(name, rotary=rotary), Tensor(numbers(B, T, C)), padding([4, 5], T)
    for z, keys in ((None, T), (Tensor(numbers(B, S, C)), S)):
        for call in (block, block.weights):
            past = call(x, context=z, allowed=causal(T, keys)).numpy()
            assert_array_equal(call(x, context=z, causal=True).numpy(), past)
    some = block(x, allowed=hidden & causal(T, T)).numpy()
    assert_array_equal(block(x, allowed=hidden, causal=True).numpy(), some)


@both_kinds
def test_keys_may_be_permuted_with_their_values(name: str) -> None:
    """A sequence to look at has no order, unless positions are turned."""
    order = np.random.default_rng(0).permutation(S)
    x, z = Tensor(numbers(B, T, C)), numbers(B, S, C)
    allowed = numbers(T, S) < 0.5
    block = build(name)
    y = block(x, context=Tensor(z), allowed=allowed).numpy()
    moved = {"context": Tensor(z[:, order]), "allowed": allowed[:, order]}
    assert_allclose(block(x, **moved).numpy(), y, **CLOSE)
    weights = block.weights(x, context=Tensor(z), allowed=allowed).numpy()
    assert_allclose(block.weights(x, **moved).numpy(), weights[..., order], **CLOSE)
    block = build(name, rotary=True)
    z_moved = block(x, context=Tensor(z[:, order])).numpy()
    assert np.abs(z_moved - block(x, context=Tensor(z)).numpy()).max() > 0.01


@both_kinds
def test_queries_of_zero_take_the_mean_of_the_values(name: str) -> None:
    block, x = build(name), numbers(B, T, C)
    for parameter in block.query.parameters():
        parameter.data = np.zeros(parameter.shape)
    values = block.value(Tensor(x)).numpy()
    for past in (False, True):
        means = np.broadcast_to(values.mean(axis=1, keepdims=True), values.shape)
        if past:
            means = values.cumsum(axis=1) / np.arange(1, T + 1)[:, None]
        expected = block.out(Tensor(means)).numpy()
        assert_allclose(block(Tensor(x), causal=past).numpy(), expected, **CLOSE)


def test_training_drops_weights_and_then_answers() -> None:
    block, x, noise = build(dropout=0.4), Tensor(numbers(B, T, C)), Noise(3)
    keys_first = block.weights(x).swapaxes(-1, -2)  # as ops.attention draws its bits
    weights = ops.dropout(keys_first, rate=0.4, noise=noise).swapaxes(-1, -2)
    answers = block.out(merge_heads(weights @ split_heads(block.value(x), H)))
    expected = ops.dropout(answers, rate=0.4, noise=noise)
    assert_allclose(block(x, noise=Noise(3)).numpy(), expected.numpy(), **CLOSE)


@both_kinds
def test_without_context_a_sequence_looks_at_itself(name: str) -> None:
    block, x = build(name, rotary=True), Tensor(numbers(B, T, C))
    assert_array_equal(block(x).numpy(), block(x, context=x).numpy())


@both_kinds
def test_rotary_attention_does_not_know_how_much_hidden_text_came_before(name: str) -> None:
    """Keys are moved by as much as queries, and by the right sign."""
    block, x = build(name, rotary=True), numbers(1, T, C)
    shifted = np.concatenate([numbers(1, 3, C, seed=1), x], axis=1)
    later = block(Tensor(shifted), allowed=np.arange(T + 3) >= 3).numpy()[:, 3:]
    assert_allclose(later, block(Tensor(x)).numpy(), rtol=1e-10)


@both_kinds
@with_or_without_rotary
def test_gradients_with_a_context_and_a_mask(name: str, rotary: bool) -> None:
    """The second query may see nothing."""
    allowed = np.array([[0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 0]], bool)
    block, x, z = build(name, rotary=rotary), numbers(B, 3, C), numbers(B, 4, C)
    assert gradcheck(lambda x, z: block(x, context=z, allowed=allowed), x, z)
    run, parameters = with_parameters(block, context=Tensor(z), allowed=allowed)
    assert gradcheck(run, x, *parameters, directions=1)
