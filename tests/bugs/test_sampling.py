"""Reports about sampling the next token: temperature 0, top-k, ties, and scores that are NaN."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyattn.models import GPT, GPTConfig, generate, next_ids

LOGITS = np.array([[1.0, 2, 2, 2, 3]])
NEGATIVE = np.array([[-5.0, -6, -7]])


def draw(logits: Any, count: int = 100, **settings: Any) -> list[int]:
    """One draw for each of several seeds."""
    rows = np.asarray(logits)
    return [int(next_ids(rows, rng=np.random.default_rng(s), **settings)[0]) for s in range(count)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_temperature_zero_is_greedy_without_dividing_by_it(dtype: Any) -> None:
    """karpathy/nanoGPT#738: token 4, and no generator is needed."""
    for zero in (0, 0.0, -0.0, np.float32(0)):
        assert next_ids(LOGITS.astype(dtype), temperature=zero).tolist() == [4]


def test_top_one_is_greedy_for_every_seed() -> None:
    """karpathy/nanoGPT#546, kingoflolz/mesh-transformer-jax#164."""
    assert draw(LOGITS, top_k=1) == [4] * 100
    assert draw(NEGATIVE, top_k=1) == [0] * 100
    assert next_ids(LOGITS, top_k=1).tolist() == [4]


def test_the_first_of_equal_maxima_is_always_chosen() -> None:
    """vllm-project/vllm#50979: greedy sampling must give the same token everywhere."""
    tied = np.array([[1.0, 7, 7, 7], [7, 1, 1, 7]])
    for settings in ({"temperature": 0}, {"top_k": 1}, {"top_p": 1e-9}, {"top_k": 1, "top_p": 1.0}):
        for seed in range(20):
            got = next_ids(tied, rng=np.random.default_rng(seed), **settings)
            assert got.tolist() == [1, 0]


def test_top_three_keeps_three_and_of_equal_tokens_the_first() -> None:
    """karpathy/minGPT#10: a threshold would keep all tokens that are equal to the third."""
    assert set(draw(LOGITS, 300, top_k=3)) == {4, 1, 2}
    assert set(draw(LOGITS, 300, top_k=2)) == {4, 1}
    assert set(draw(np.zeros((1, 4)), 100, top_k=2)) == {0, 1}


@pytest.mark.parametrize("top_k", [5, 6, 99, 10**9])
def test_a_k_of_the_vocabulary_or_more_is_no_filter(top_k: int) -> None:
    """kingoflolz/mesh-transformer-jax#164: not an error, and exactly the same draws."""
    assert draw(LOGITS, top_k=top_k) == draw(LOGITS) == draw(LOGITS, top_p=1.0)


@pytest.mark.parametrize(
    "settings",
    [{"top_k": 0}, {"top_k": -1}, {"temperature": -1}, {"temperature": -1e-9},
     {"temperature": math.nan}, {"temperature": math.inf}, {"top_p": 0}, {"top_p": -0.1},
     {"top_p": 1.1}, {"top_p": math.nan}, {"temperature": 0, "top_k": 0},
     {"temperature": 0, "top_p": 2}],
    ids=str,
)  # fmt: skip
def test_settings_out_of_range_are_refused_by_name(settings: dict[str, Any]) -> None:
    """Before sampling, whatever the other settings are."""
    wrong = list(settings)[-1]
    with pytest.raises(ValueError, match=f"{wrong} must be"):
        next_ids(LOGITS, rng=np.random.default_rng(0), **settings)


@pytest.mark.parametrize("temperature", [1e-3, 1e-8, 1e-30, 1e-300, 5e-324])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_tiny_temperature_is_finite_and_greedy(temperature: float, dtype: Any) -> None:
    """Without a warning, which would be an error here."""
    assert draw(LOGITS.astype(dtype), 20, temperature=temperature) == [4] * 20
    assert draw(NEGATIVE.astype(dtype), 20, temperature=temperature) == [0] * 20
    assert draw(LOGITS.astype(dtype) * 1e30, 20, temperature=temperature) == [4] * 20
    tied = draw(np.array([[1, 7, 7, 0]], dtype), 50, temperature=temperature)
    assert set(tied) == {1, 2}


@pytest.mark.parametrize("temperature", [1e3, 1e30, 1e300])
def test_a_huge_temperature_draws_evenly(temperature: float) -> None:
    """The other end of the range."""
    counts = np.bincount(draw(LOGITS, 1000, temperature=temperature), minlength=5)
    assert (np.abs(counts - 200) < 60).all()


def test_scores_may_be_below_any_constant_for_minus_infinity() -> None:
    """kingoflolz/mesh-transformer-jax#164: logits may all be far below -10¹⁰."""
    low = np.array([[-1e30, -2e30, -3e30]])
    for settings in ({"top_k": 1}, {"top_k": 2}, {"top_p": 0.5}, {}):
        assert draw(low, 20, **settings) == [0] * 20
    assert set(draw(NEGATIVE * 1e-3, 200, top_k=2)) == {0, 1}
    assert set(draw(NEGATIVE - 1e12, 200, top_k=2)) == {0, 1}


def test_an_excluded_token_is_never_sampled() -> None:
    """A score of -∞ has probability 0, with and without filters."""
    ruled = np.array([[-np.inf, 0.0, -np.inf, 0.0]])
    for settings in ({}, {"top_k": 4}, {"top_p": 1.0}, {"temperature": 100.0}, {"top_k": 3},
                     {"temperature": 1e300}, {"temperature": 1e-8}):  # fmt: skip
        assert set(draw(ruled, 100, **settings)) == {1, 3}
    assert draw(ruled, 10, temperature=0) == [1] * 10


@pytest.mark.parametrize(
    "bad",
    [[math.nan, 1.0, 2.0], [math.nan] * 3, [math.inf, 1.0, 2.0], [math.inf] * 3, [-math.inf] * 3],
    ids=str,
)
@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 0}, {"top_k": 1}, {"top_p": 0.5}], ids=str
)
def test_scores_of_nan_raise_an_error(bad: list[float], settings: dict[str, Any]) -> None:
    """karpathy/nanoGPT#711: neither a random token, nor a KeyError later."""
    for rows in ([bad], [[1.0, 2.0, 3.0], bad]):
        with pytest.raises(ValueError, match="NaN or ∞"):
            next_ids(np.array(rows), rng=np.random.default_rng(0), **settings)


def test_sampling_needs_a_random_generator() -> None:
    """No hidden global state; the same seed gives the same text."""
    with pytest.raises(ValueError, match="rng"):
        next_ids(LOGITS)
    assert draw(LOGITS, 50) == draw(LOGITS, 50)


def test_top_p_keeps_the_token_that_crosses_the_threshold() -> None:
    """It always keeps a token; of equal tokens the smaller id comes first."""
    logits = np.log([[0.5, 0.2, 0.2, 0.1]])
    for top_p, kept in (
        (0.1, {0}),
        (0.49, {0}),
        (0.51, {0, 1}),
        (0.8, {0, 1, 2}),
        (1, {0, 1, 2, 3}),
    ):
        assert set(draw(logits, 300, top_p=top_p)) == kept
    assert set(draw(logits, 300, top_k=2, top_p=0.99)) == {0, 1}


@pytest.mark.parametrize("settings", [{}, {"top_k": 3}, {"top_p": 0.8}, {"temperature": 0.5}])
def test_frequencies_are_the_softmax_of_the_kept_scores(settings: dict[str, Any]) -> None:
    """Filters scale the kept probabilities up, and change nothing else."""
    logits = np.array([0.0, 1.0, 2.0, -1.0])
    p = np.exp(logits / settings.get("temperature", 1))
    p /= p.sum()
    if settings.keys() & {"top_k", "top_p"}:
        p[3] = 0  # both settings keep three
    if "top_p" in settings:
        p[0] = 0  # and the first two reach 0.8
    p /= p.sum()
    rng = np.random.default_rng(0)
    got = next_ids(np.tile(logits, (20_000, 1)), rng=rng, **settings)
    np.testing.assert_allclose(np.bincount(got, minlength=4) / 20_000, p, atol=0.015)


class Largest:
    """A generator that always draws the largest number below 1 (or 0)."""

    def __init__(self, value: float) -> None:
        self.value = value

    def random(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.full(shape, self.value)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=6), st.floats(0.01, 1))
def test_the_ends_of_the_unit_interval_still_give_a_token(row: list[float], top_p: float) -> None:
    """The cumulative sum may differ from 1 by a rounding error."""
    logits = np.array([row])
    for settings in ({}, {"top_p": top_p}, {"top_k": 2}):
        for value in (0.0, 1 - 2.0**-53):
            rng: Any = Largest(value)
            (got,) = next_ids(logits, rng=rng, **settings)
            assert 0 <= got < len(row)
        rng = Largest(0.0)
        assert next_ids(logits, rng=rng, **settings)[0] == np.argmax(logits)


def test_rows_are_sampled_independently_and_logits_do_not_change() -> None:
    """Each row of a batch is a sequence; the caller's scores are not overwritten."""
    logits = np.array([[0.0, 9.0], [9.0, 0.0], [0.0, 0.0]])
    before = logits.copy()
    got = next_ids(logits, top_k=1)
    assert got.tolist() == [1, 0, 0]
    next_ids(logits, temperature=0.5, top_p=0.5, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(logits, before)


@pytest.fixture(scope="module")
def model() -> GPT:
    return GPT(GPTConfig(vocabulary=7, context=6, layers=1, heads=1, width=4, dropout=0.1))


def test_generation_beyond_the_context_with_every_setting(model: GPT) -> None:
    """The same rules through `generate`, with and without the cache."""
    start = np.array([[1, 2], [3, 4]])
    for settings in ({"temperature": 0}, {"top_k": 1}, {"top_k": 99}, {"top_p": 0.5},
                     {"temperature": 1e-8}):  # fmt: skip
        texts = [
            np.stack(list(generate(model, start, 9, rng=np.random.default_rng(1),
                                   use_cache=cache, **settings)), axis=1)
            for cache in (True, False)
        ]  # fmt: skip
        np.testing.assert_array_equal(*texts)
        assert texts[0].shape == (2, 9)
    for wrong in ({"top_k": 0}, {"temperature": -1}):
        with pytest.raises(ValueError, match="must be"):
            list(generate(model, start, 1, rng=np.random.default_rng(0), **wrong))
    with pytest.raises(ValueError, match="at least 1"):
        list(generate(model, np.zeros((1, 0), np.int64), 1, temperature=0))


def test_a_model_of_nan_generates_nothing() -> None:
    """The first token raises an error."""
    model = GPT(GPTConfig(vocabulary=7, context=6, layers=1, heads=1, width=4))
    model.head.weight.data = np.full((4, 7), np.nan)
    for settings in ({"temperature": 0}, {"rng": np.random.default_rng(0)}):
        with pytest.raises(ValueError, match="NaN or ∞"):
            next(generate(model, np.array([[1]]), 1, **settings))
