"""Generation by a model with a short context: when it repeats itself, and how words are sampled."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import plain
from blocks import numbers
from cases import in_float64
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from plain import scores_of, seeds

from tinyattn import Tensor, no_grad
from tinyattn.models import GPT, GPTConfig, generate, next_ids
from tinyattn.theory import (
    Trigram,
    counted_model,
    first_repeat,
    loop,
)


def pairs(words: list[int]) -> list[tuple[int, int]]:
    return list(pairwise(words))


def first_repeat_by_force(words: list[int]) -> int | None:
    """The number of words until a pair occurs twice, by brute force."""
    lengths = range(2, len(words) + 1)
    return next((m for m in lengths if len({*pairs(words[:m])}) < m - 1), None)


@given(st.lists(st.integers(0, 3), max_size=25))
def test_repetition_is_found_where_it_is(words: list[int]) -> None:
    """In any text; within V² + 2 words there is one, at any temperature."""
    assert first_repeat(words) == first_repeat_by_force(words)
    assert (loop(words) is None) == (first_repeat(words) is None)
    assert len(words) < 4 * 4 + 2 or first_repeat(words) is not None


@given(scores_of(2, 6), st.floats(0.1, 5))
def test_a_temperature_divides_scores(s: np.ndarray, temperature: float) -> None:
    s, n = s.round(6), len(s)  # either equal, or very different at a temperature near 0
    model = Trigram(Tensor(np.broadcast_to(s, (n, n, n))), Tensor(np.eye(n)))
    p = plain.softmax(s / temperature)
    assert_allclose(model.probabilities(0, 1, 1 / temperature).numpy(), p, rtol=1e-9, atol=1e-12)
    again = [model.generate(0, 1, 30, temperature=temperature, seed=3) for _ in range(2)]
    assert again[0] == again[1]
    assert set(model.generate(0, 1, 200, temperature=1e9)) == set(range(n))
    coldest = {model.generate(0, 1, 1, temperature=T)[-1] for T in (0, 1e-300)}
    assert s.argmax() in coldest and {s[word] for word in coldest} == {s.max()}


@given(st.lists(st.integers(0, 2), min_size=3, max_size=40), st.floats(0.01, 2))
def test_a_counted_model_has_the_frequency_of_each_word_after_a_pair(
    text: list[int], smoothing: float
) -> None:
    model = counted_model(np.array(text), 3, smoothing=smoothing)
    triples = list(zip(text, text[1:], text[2:], strict=False))
    for a in range(3):
        for b in range(3):
            counts = np.array([triples.count((a, b, w)) + smoothing for w in range(3)])
            assert_allclose(model.probabilities(a, b).numpy(), counts / counts.sum(), rtol=1e-10)


class Ladder(np.random.Generator):
    """Fixed draws that represent the uniform distribution: (i + ½)/N, i = 0..N-1."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def random(self, size: Any) -> np.ndarray:  # type: ignore[override]
        count = math.prod(size)
        return ((np.arange(count) + 0.5) / count).reshape(size)


@given(
    st.lists(st.floats(-3, 3), min_size=1, max_size=6), st.floats(0.1, 5), st.integers(1, 7),
    st.floats(0.01, 1) | st.just(1.0),
)  # fmt: skip
def test_words_are_sampled_by_the_probabilities_of_the_kept_words(
    scores: list[float], temperature: float, k: int, share: float
) -> None:
    s, N = np.array(scores), 2000
    ids = next_ids(np.broadcast_to(s, (N, len(s))), temperature=temperature, top_k=k, top_p=share,
                   rng=Ladder())  # fmt: skip
    ranked = sorted(range(len(s)), key=lambda i: -s[i])[:k]
    among = plain.softmax(s[ranked] / temperature)
    before = np.cumsum(among) - among
    assume(np.abs(before - share).min() > 1e-9)  # otherwise rounding decides which word is kept
    p = np.zeros(len(s))
    p[ranked] = among * (before < share)
    assert_allclose(np.bincount(ids, minlength=len(s)) / N, p / p.sum(), rtol=0, atol=1.01 / N)


@settings(max_examples=10)
@given(seeds, st.integers(1, 3), st.booleans())
def test_a_gpt_generates_the_most_likely_token_after_its_context(
    seed: int, length: int, cached: bool
) -> None:
    """Its context length is five tokens; the sequence grows to twelve."""
    config = GPTConfig(vocabulary=4, context=5, layers=1, heads=1, width=4, dropout=0.0)
    model = in_float64(GPT(config))
    for i, parameter in enumerate(model.parameters()):
        parameter.data = numbers(*parameter.shape, seed=seed + i)
    ids = np.random.default_rng(seed).integers(4, size=(2, length))
    generated = generate(model, ids, 12 - length, temperature=0, use_cache=cached)
    text = np.concatenate([ids, np.stack(list(generated), axis=1)], axis=1)
    for t in range(length, 12):
        with no_grad():
            logits = model(text[:, max(0, t - 5) : t]).numpy()[:, -1]
        assert_array_equal(text[:, t], logits.argmax(axis=-1))
