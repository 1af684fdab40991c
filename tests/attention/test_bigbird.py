"""Each query attends to few blocks of keys: in a window, at the beginning, and at random."""

from typing import Any
from unittest import mock

import numpy as np
import pytest
from attention_cases import attends
from blocks import CLOSE, C, H, build, influence, numbers, put, with_or_without_rotary
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor, ops
from tinyattn.attention import AttentionBlock, BigBird, MultiHead, hops, padding, pattern
from tinyattn.backend import asnumpy

# The pattern -------------------------------------------------------------------------------

sizes = {
    "blocks": st.integers(1, 9), "window": st.sampled_from([1, 3, 5]), "first": st.integers(0, 3),
    "random": st.integers(0, 3), "seed": st.integers(0, 5), "causal": st.booleans(),
}  # fmt: skip


def in_words(i: int, blocks: int, window: int, first: int, causal: bool) -> set[int]:
    """The window of block i, and the first blocks, if they exist (or are earlier)."""
    near = range(i - window + 1, i + 1) if causal else range(i - window // 2, i + window // 2 + 1)
    last = i if causal else blocks - 1
    return {j for j in (*near, *range(first)) if 0 <= j <= last}


@given(**sizes)
def test_a_row_has_window_beginning_and_random_blocks_each_once(
    blocks: int, window: int, first: int, random: int, seed: int, causal: bool
) -> None:
    lists = pattern(blocks, window, first, random, seed, causal)
    assert lists.shape == (blocks, window + first + random)
    for i, row in enumerate(lists):
        chosen = [int(j) for j in row if j >= 0]
        assert list(row) == chosen + [-1] * (len(row) - len(chosen))
        fixed, there = in_words(i, blocks, window, first, causal), i + 1 if causal else blocks
        assert len(set(chosen)) == len(chosen) == min(len(fixed) + random, there)
        assert fixed <= set(chosen) <= set(range(there))


@given(more=st.integers(1, 5), **sizes)
def test_causal_rows_do_not_depend_on_the_number_of_later_rows(
    blocks: int, window: int, first: int, random: int, seed: int, causal: bool, more: int
) -> None:
    longer = pattern(blocks + more, window, first, random, seed, True)
    assert_array_equal(longer[:blocks], pattern(blocks, window, first, random, seed, True))


@pytest.mark.parametrize("causal", [False, True])
def test_the_seed_determines_the_pattern(causal: bool) -> None:
    pattern.cache_clear()
    first = pattern(40, 1, 1, 2, 7, causal).copy()
    pattern.cache_clear()
    assert_array_equal(pattern(40, 1, 1, 2, 7, causal), first)
    other = pattern(40, 1, 1, 2, 8, causal)
    assert (other != first).any(axis=1).mean() > 0.8
    drawn = first[5:, 2:]
    counts = np.bincount(drawn.ravel(), minlength=40)
    assert counts.max() < 15  # every row is drawn separately
    with pytest.raises(ValueError, match="read-only"):
        pattern(40, 1, 1, 2, 7, causal)[0, 0] = 3  # all callers share it


def test_random_blocks_are_drawn_evenly() -> None:
    """Row 9 of ten, window 1 and no first blocks: each of the nine others is equally frequent."""
    drawn = [pattern(10, 1, 0, 1, seed, False)[9, 1] for seed in range(900)]
    counts = np.bincount(drawn, minlength=10)
    assert counts[9] == 0
    assert counts[:9].min() > 70 and counts[:9].max() < 130  # 100 ± 3 standard deviations of 9.4


# Its limits --------------------------------------------------------------------------------


def dense(block: BigBird) -> MultiHead:
    """Multi-head attention with the same parameters."""
    made = build("multihead", block.out.weight.device, rotary=block.rotary is not None)
    made.load_state(block.state())
    return made


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("T", [1, 4, 7, 12, 14])
@with_or_without_rotary
def test_with_everything_in_the_window_it_is_dense_attention(
    rotary: bool, T: int, causal: bool, device: str
) -> None:
    options = {"block": 4, "window_blocks": 9, "global_blocks": 0, "random_blocks": 0}
    block, x = build("bigbird", device, rotary=rotary, **options), put(numbers(2, T, C), device)
    expected = dense(block)
    assert_allclose(block(x, causal=causal).numpy(), expected(x, causal=causal).numpy(), **CLOSE)
    ours, theirs = (b.weights(x, causal=causal).numpy() for b in (block, expected))
    assert_allclose(ours, theirs, **CLOSE)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("reason", ["global", "random"])
def test_it_is_dense_attention_if_everything_is_global_or_drawn(
    reason: str, causal: bool, device: str
) -> None:
    options = {"global_blocks": 0, "random_blocks": 0, f"{reason}_blocks": 4}
    block, x = build("bigbird", device, **options), put(numbers(2, 14, C), device)
    expected = dense(block)(x, causal=causal).numpy()
    assert_allclose(block(x, causal=causal).numpy(), expected, **CLOSE)


@given(
    T=st.integers(1, 17), block=st.integers(1, 5), window_blocks=st.sampled_from([1, 3]),
    global_blocks=st.integers(0, 2), random_blocks=st.integers(0, 2), seed=st.integers(0, 3),
    causal=st.booleans(), padded=st.booleans(),
)  # fmt: skip
def test_it_is_dense_attention_with_the_mask_that_its_pattern_describes(
    T: int, causal: bool, padded: bool, device: str, **options: int
) -> None:
    """For all sizes: value, weights, and all gradients."""
    block = build("bigbird", device, **options)
    mask, keys = attends(block, T, causal), padding([T, T // 2], T) if padded else None
    allowed = mask if keys is None else mask & keys
    u, runs = numbers(2, T, C, seed=1), []
    for attend, call in (
        (block, {"allowed": put(keys, device), "causal": causal}),
        (dense(block), {"allowed": put(allowed, device)}),
    ):
        x = Tensor(numbers(2, T, C), requires_grad=True, device=device)
        y = attend(x, **call)
        y.backward(u)
        gradients = [asnumpy(leaf.grad) for leaf in (x, *attend.parameters())]
        runs.append([y.numpy(), attend.weights(x, **call).numpy(), *gradients])
    for ours, theirs in zip(*runs, strict=True):
        assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_queries_of_zero_take_the_mean_of_what_is_in_their_list(device: str) -> None:
    block, x = build("bigbird", device, block=2, random_blocks=0), put(numbers(1, 9, C), device)
    for parameter in block.query.parameters():
        parameter.data = np.zeros(parameter.shape)
    v = block.value(x).numpy()[0]
    means = np.stack([v[[0, 1, *range(t // 2 * 2, t + 1)] if t > 1 else range(t + 1)].mean(axis=0)
                      for t in range(9)])  # fmt: skip
    expected = block.out(put(means[None], device)).numpy()
    assert_allclose(block(x, causal=True).numpy(), expected, **CLOSE)


def test_inside_a_block_positions_have_no_order(device: str) -> None:
    """Bidirectional, without rotary positions: permuted inputs give permuted outputs."""
    order = np.array([3, 1, 0, 2, 5, 4, 7, 6, 8, 9, 11, 10])
    block, x = build("bigbird", device), numbers(1, 12, C)
    y = block(put(x, device)).numpy()
    assert_allclose(block(put(x[:, order], device)).numpy(), y[:, order], **CLOSE)


# Its graph and its size --------------------------------------------------------------------


def band(n: int, w: int) -> np.ndarray:
    """Whether two positions are at most w apart."""
    places = np.arange(n)
    return np.abs(places[:, None] - places) <= w


@pytest.mark.parametrize("n", [1, 2, 7, 20])
@pytest.mark.parametrize("w", [1, 2, 5])
def test_a_window_alone_needs_many_hops(n: int, w: int) -> None:
    places = np.arange(n)
    distance = hops(band(n, w))
    assert_array_equal(distance, np.ceil(np.abs(places[:, None] - places) / w))
    assert distance.max() == -(-(n - 1) // w)
    past = hops(np.tril(band(n, w)))
    assert_array_equal(past[np.tri(n, dtype=bool)], distance[np.tri(n, dtype=bool)])
    assert (past[~np.tri(n, dtype=bool)] == -1).all()


@pytest.mark.parametrize("n", [5, 20, 60])
def test_through_a_global_position_there_are_two_hops(n: int) -> None:
    attends = band(n, 1)
    attends[0] = attends[:, 0] = True
    distance = hops(attends)
    assert distance.max() == 2
    assert_array_equal(distance == 2, ~attends)


def test_with_a_causal_mask_a_global_position_shortens_nothing() -> None:
    """n = 20, w = 1, all positions attend to position 0: 18 hops from 1 to 19, and not 2."""
    attends = band(20, 1)
    attends[0] = attends[:, 0] = True
    distance = hops(np.tril(attends))
    assert distance[19, 1] == distance.max() == 18
    assert (distance[1:, 0] == 1).all()
    assert (distance[np.triu_indices(20, 1)] == -1).all()


@given(st.integers(1, 8), st.integers(0, 1000))
def test_hops_are_powers_of_the_graph(n: int, seed: int) -> None:
    attends = np.random.default_rng(seed).random((n, n)) < 0.3
    step = (attends | np.eye(n, dtype=bool)).astype(int)
    expected = np.full((n, n), -1)
    for h in range(n, -1, -1):
        expected[np.linalg.matrix_power(step, h) > 0] = h
    assert_array_equal(hops(attends), expected)


def test_hops_are_the_number_of_layers_with_influence(device: str) -> None:
    """Two layers with residual connections: only positions at most two hops away have influence."""
    block, x = build("bigbird", device, block=2, random_blocks=1), numbers(14, C)

    def run(x: Tensor) -> Tensor:
        x = x + block(x, causal=True)
        return x + block(x, causal=True)

    distance = hops(attends(block, 14, True))
    assert distance.max() > 2
    assert_array_equal(influence(run, x, device), (distance >= 0) & (distance <= 2))


def attended_to(block: AttentionBlock, T: int, causal: bool) -> tuple[int, int]:
    """For all `ops.attention` in a call: the elements of inputs and results, and multiply-adds."""
    memory = products = 0
    whole = ops.attention

    def count(q: Tensor, k: Tensor, v: Tensor, *rest: Any, **options: Any) -> Tensor:
        nonlocal memory, products
        *lead, T, D = q.shape
        scores = int(np.prod(lead)) * T * k.shape[-2]
        memory += q.size + k.size + v.size + scores + sum(getattr(a, "size", 0) for a in rest)
        products += scores * (D + v.shape[-1])
        return whole(q, k, v, *rest, **options)

    with mock.patch.object(ops, "attention", count):
        block(Tensor(numbers(1, T, C)), causal=causal)
    return memory, products


@pytest.mark.parametrize("causal", [False, True])
def test_memory_and_multiply_adds_grow_with_the_length_and_not_with_its_square(
    causal: bool,
) -> None:
    counts = {}
    for name, options in [("bigbird", {"block": 8}), ("multihead", {})]:
        for T in (256, 512):
            counts[name, T] = attended_to(build(name, **options), T, causal)
    for i in range(2):
        assert counts["bigbird", 512][i] / counts["bigbird", 256][i] == pytest.approx(2, 0.02)
        assert counts["multihead", 512][i] / counts["multihead", 256][i] > 3.5
    block = build("bigbird", block=8)
    assert counts["bigbird", 512][1] == 2 * C * sum(pairs(block, 512, causal))


def pairs(block: BigBird, T: int, causal: bool) -> list[int]:
    """For each query, the number of keys in its list; all, if it attends to everything."""
    N = block.window_blocks + block.global_blocks + block.random_blocks
    whole = 0 if causal else block.global_blocks * block.block
    return [T if t < whole else N * block.block for t in range(T)]


def test_its_sizes() -> None:
    block = build("bigbird", block=8, window_blocks=3, global_blocks=2, random_blocks=1)
    assert block.sizes() == {"C": C, "H": H, "K": 8, "N": 6, "G": 2}
    assert build("bigbird").parameter_count() == build("multihead").parameter_count()
