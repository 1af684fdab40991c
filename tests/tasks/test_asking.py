"""Beam search finds the likely answers, with their probabilities."""

import itertools

import numpy as np
import pytest

from tinyattn.data.text import DataError
from tinyattn.data.vocabulary import Vocabulary
from tinyattn.models import GPT, GPTConfig
from tinyattn.tasks import asking
from tinyattn.tasks.asking import BEAM, ask
from tinyattn.tasks.evaluation import answer
from tinyattn.tasks.knowledge import Trained
from tinyattn.tasks.recipe import load_recipe


def trained(scale: float, seed: int = 0) -> Trained:
    """A model with few tokens; the weights of its head make answers likely or unlikely."""
    vocabulary = Vocabulary.from_text("ab?")
    config = GPTConfig(vocabulary=len(vocabulary), context=24, layers=1, heads=2, width=8,
                       dropout=0.0)  # fmt: skip
    model = GPT(config, seed=seed)
    model.head.weight.data *= scale
    return Trained(model, vocabulary, load_recipe("world"), {"stage": "finetune"}, None)


def every_answer(model: Trained, question: str, most: int) -> dict[str, float]:
    """The probability of each answer of up to `most` tokens, token by token."""
    ids, found = model.vocabulary.encode(question), {}
    tokens = [i for i in range(len(model.vocabulary)) if i != model.vocabulary.mask]
    for length in range(most + 1):
        for given in itertools.product(tokens, repeat=length):
            p, so_far = 1.0, [*ids, model.vocabulary.mask]
            for token in [*given, model.vocabulary.mask]:
                logits = model.model(np.array([so_far])).numpy()[0, -1].astype(float)
                weights = np.exp(logits - logits.max())
                p *= weights[token] / weights.sum()
                so_far.append(token)
            found[model.vocabulary.decode(np.array(given, int))] = p
    return found


@pytest.mark.parametrize("seed", range(4))
def test_the_beam_finds_the_most_likely_of_all_answers(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A beam that is large enough for all beginnings gives the same as brute force."""
    monkeypatch.setattr(asking, "ANSWER_STEPS", 3)
    monkeypatch.setattr(asking, "BEAM", 200)
    model = trained(scale=10, seed=seed)
    expected = every_answer(model, "a?", 2)
    found = asking.beam_search(model, asking.prompt_of(model.vocabulary, "a?"))
    assert [one.text for one in found] == sorted(expected, key=lambda text: -expected[text])
    for one in found:
        assert one.probability == pytest.approx(expected[one.text], rel=1e-4)


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_the_first_answer_is_the_one_that_is_scored(scale: float) -> None:
    model = trained(scale)
    found = ask(model, "ab?", count=BEAM)
    assert [found[0].text] == answer(model, ["ab?"])
    texts = [one.text for one in found]
    assert len({*texts}) == len(texts) <= BEAM
    others = [one.probability for one in found[1:]]
    assert others == sorted(others, reverse=True)
    assert 0 < sum(one.probability for one in found) <= 1 + 1e-6
    assert ask(model, "ab?", count=2) == found[:2]


def test_what_cannot_be_asked_is_refused() -> None:
    model = trained(1.0)
    with pytest.raises(DataError, match="is empty"):
        ask(model, "")
    with pytest.raises(DataError, match="'x'"):
        ask(model, "x?")
    assert ask(model, "xa?", unknown="drop") == ask(model, "a?")
    with pytest.raises(ValueError, match="count must be"):
        ask(model, "a?", count=BEAM + 1)
