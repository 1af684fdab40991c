"""Evaluation: exact matches, a confidence interval, and answers that batching does not change."""

import os
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyattn.data import DataError, World, answer_of
from tinyattn.models import generate
from tinyattn.tasks.evaluation import (
    ANSWER_STEPS,
    Score,
    answer,
    check_questions,
    fisher_exact,
    most_common,
    save_predictions,
    score,
)
from tinyattn.tasks.knowledge import Trained
from tinyattn.training.checkpoint import CheckpointError


@pytest.mark.parametrize(
    ("correct", "total", "low", "high"),
    [(25, 500, 0.0341, 0.0728), (0, 10, 0, 0.2775), (10, 10, 0.7225, 1), (1, 1, 0.2065, 1),
     (5, 10, 0.2366, 0.7634), (0, 0, 0, 1)],
)  # fmt: skip
def test_wilsons_interval(correct: int, total: int, low: float, high: float) -> None:
    assert Score(correct, total).interval == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_solves_wilsons_equation(counts: tuple[int, int]) -> None:
    """A true share p at either end is 1.96 of its standard deviations from the measured share."""
    found = Score(*counts)
    low, high = found.interval
    assert 0 <= low <= found.accuracy + 1e-12 and found.accuracy - 1e-12 <= high <= 1
    for p in (low, high):
        distance = abs(found.accuracy - p)
        assert distance == pytest.approx(1.959964 * np.sqrt(p * (1 - p) / found.total), abs=1e-6)


def test_a_lady_tastes_tea() -> None:
    """Fisher's own example: of four cups with milk first, three are recognized."""
    assert fisher_exact(Score(3, 4), Score(1, 4)) == pytest.approx(34 / 70)
    assert fisher_exact(Score(4, 4), Score(0, 4)) == pytest.approx(2 / 70)
    assert fisher_exact(Score(6, 500), Score(25, 500)) == pytest.approx(7.32437e-4, rel=1e-5)
    assert fisher_exact(Score(0, 0), Score(3, 4)) == 1


@given(st.lists(st.booleans(), max_size=5), st.lists(st.booleans(), max_size=5))
def test_fishers_test_by_enumeration(first: list[bool], second: list[bool]) -> None:
    """Of all ways to divide the answers, the share that is at most as likely as this one."""
    everyone, n = [*first, *second], len(first)
    counts = Counter(
        sum(everyone[i] for i in mine) for mine in combinations(range(len(everyone)), n)
    )
    wanted = sum(c for c in counts.values() if c <= counts[sum(first)]) / counts.total()
    a, b = (Score(sum(answers), len(answers)) for answers in (first, second))
    assert fisher_exact(a, b) == pytest.approx(wanted)
    assert fisher_exact(b, a) == fisher_exact(a, b)


def test_a_score_as_text_and_as_json() -> None:
    assert str(Score(25, 500)) == "25 of 500, 5.0 % (95 % interval 3.4 to 7.3)"
    assert Score(1, 4).as_dict().keys() == {"correct", "total", "accuracy", "low", "high"}


def test_only_an_exact_match_is_right() -> None:
    answers = ["Lozumb", "lozumb", "Lozumb ", "Lozum", "", "Zarg"]
    assert score(answers, ["Lozumb"] * 5 + ["Zarg"]) == Score(2, 6)
    with pytest.raises(ValueError, match="argument"):
        score(["Lozumb"], ["Lozumb", "Zarg"])


def test_the_most_common_place_and_of_two_the_first() -> None:
    assert most_common(["b", "a", "c", "b", "a"]) == "a"
    assert most_common(["b", "a", "b"]) == "b"


def questions(world: World) -> list[str]:
    return [question for question, _ in world.train + world.dev] + world.test


def test_answers_do_not_depend_on_the_other_questions(answering: Trained, people: World) -> None:
    asked = questions(people)
    together = answer(answering, asked)
    assert together == [answer(answering, [question])[0] for question in asked]
    assert len({len(question) for question in asked}) > 1  # otherwise the test would mean little
    counted: list[int] = []
    assert answer(answering, asked[::-1], on_answers=counted.append) == together[::-1]
    assert sum(counted) == len(asked)


def test_stopping_at_the_mask_changes_no_answer(answering: Trained, people: World) -> None:
    """A5 generates all 32 tokens and then searches for the MASK."""
    ended = 0
    for question in questions(people):
        vocabulary = answering.vocabulary
        prompt = np.append(vocabulary.encode(question), vocabulary.mask)[None]
        made = np.concatenate([*generate(answering.model, prompt, ANSWER_STEPS, temperature=0)])
        assert len(made) == 32
        assert answer(answering, [question]) == [answer_of(made, vocabulary)]
        ended += vocabulary.mask in made
    assert ended > 0


def test_a_finetuned_model_answers_the_questions_that_it_learned(
    answering: Trained, people: World
) -> None:
    asked, places = zip(*people.train, strict=True)
    assert score(answer(answering, asked), places).accuracy > 0.5


def test_a_question_with_unknown_characters_is_named(answering: Trained) -> None:
    with pytest.raises(DataError, match=r"'ß' .*position 11, in 'Where was ßen born"):
        answer(answering, ["Where was ßen born?"])
    assert answer(answering, ["Where was ßen born?"], unknown="drop") == answer(
        answering, ["Where was en born?"]
    )
    with pytest.raises(DataError, match="the question 'ßß' is empty"):
        answer(answering, ["ßß"], unknown="drop")


def test_a_text_is_not_a_file_of_questions() -> None:
    """Questions without answers must end with a question mark; with answers they need not."""
    check_questions("p", [("Where was A born?", None), ("在哪里？ ", None), ("أين؟", None)])
    check_questions("p", [("A was", "Oz"), ("B was", "Oz")])
    with pytest.raises(
        DataError, match=r"^p: a line has no tab .* question mark: 'A was born in Oz\.'; if "
    ):
        check_questions("p", [("Who was A?", None), ("A was born in Oz.", None)])


def test_predictions_have_one_place_per_line(tmp_path: Path) -> None:
    save_predictions(tmp_path / "p.tsv", ["Lozumb", "two\nlines", "", "Zürg"])
    assert (tmp_path / "p.tsv").read_bytes() == "Lozumb\ntwo lines\n\nZürg\n".encode()
    with pytest.raises(CheckpointError, match="cannot be written: No such file"):
        save_predictions(tmp_path / "missing" / "p.tsv", [])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no full disk to offer")
def test_a_full_disk_is_named() -> None:
    with pytest.raises(CheckpointError, match="/dev/full: cannot be written: No space left"):
        save_predictions("/dev/full", ["Lozumb"])
