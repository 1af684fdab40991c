"""Trigram models: made from a table, and from a text."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tinyattn.theory import counted_model, de_bruijn_table, first_repeat, loop, table_model


def test_the_trigrams_of_a_text_are_counted(device: str) -> None:
    text = np.array([0, 1, 2, 0, 1, 2, 0, 1, 0])
    model = counted_model(text, 3, smoothing=0.5, device=device)
    assert_allclose(model.probabilities(0, 1).numpy(), [1.5 / 4.5, 0.5 / 4.5, 2.5 / 4.5])
    assert_allclose(model.probabilities(2, 2).numpy(), [1 / 3] * 3)  # it never occurs
    colder = np.array([1.5, 0.5, 2.5]) ** 3
    assert_allclose(model.probabilities(0, 1, beta=3).numpy(), colder / colder.sum())
    assert model.generate(0, 1, 5) == [0, 1, 2, 0, 1, 2, 0]
    with pytest.raises(ValueError, match="smoothing must be above 0; got 0"):
        counted_model(text, 3, smoothing=0)


def test_a_table_is_followed_for_all_embeddings_of_equal_length(device: str) -> None:
    rng = np.random.default_rng(0)
    follows, embeddings = rng.integers(7, size=(7, 7)), rng.standard_normal((7, 2))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    words = table_model(follows, embeddings, device).generate(3, 1, 40)
    assert all(follows[a, b] == c for a, b, c in zip(words, words[1:], words[2:], strict=False))


def test_draws_follow_the_probabilities_at_their_temperature() -> None:
    model = counted_model(np.array([0, 0, 0, 1, 0, 0, 1, 1, 0]), 2, smoothing=1)
    words = np.array(model.generate(0, 0, 20_000, temperature=0.5, seed=1))
    after = words[2:][(words[:-2] == 0) & (words[1:-1] == 0)]
    assert_allclose(after.mean(), model.probabilities(0, 0, beta=2)[1].item(), atol=0.015)


def test_a_text_without_a_repeated_pair_has_no_loop() -> None:
    assert first_repeat([0, 0, 1, 1]) is loop([0, 0, 1, 1]) is None
    assert (first_repeat([2, 0, 1, 3, 0, 1]), loop([2, 0, 1, 3, 0, 1])) == (6, (1, 3))


@pytest.mark.parametrize("words", [1, 2, 3, 9])
def test_the_walk_of_a_table_uses_every_pair(words: int) -> None:
    follows, pair, seen = de_bruijn_table(words), (0, 0), set()
    while pair not in seen:
        seen.add(pair)
        pair = pair[1], int(follows[pair])
    assert pair == (0, 0)
    assert len(seen) == words**2
