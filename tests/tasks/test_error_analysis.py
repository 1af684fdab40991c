"""The error analysis: each count compared with a slower count, or with a constructed case."""

import json
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tinyattn.data import World
from tinyattn.report.error_report import as_table
from tinyattn.tasks.error_analysis import (
    GROUPS,
    analyse_errors,
    as_taught,
    by_frequency,
    occurrences,
)
from tinyattn.tasks.evaluation import Score
from tinyattn.tasks.knowledge import Trained
from tinyattn.tasks.running import RunOptions, finetune, pretrain
from tinyattn.tasks.similarity import nearest

# Occurrences ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phrase", "text", "count"),
    [
        ("Oz", "Oz, Ozu; in Oz.\nBoz Oz", 3),
        ("New Oz", "New Oz is new, Oz is not. New\nOz", 1),
        ("Oz", "Oz1 1Oz Oz-on-Sea O'Oz _Oz_", 3),  # a hyphen, an apostrophe and a _ are no letters
        ("Zu", "Zürich Zu\u0308rich Zuß ZuЖ Zu", 1),  # also not with a combining accent
        ("Zürich", "in Zürich", 1),
        ("oz", "Oz", 0),
        ("", "Oz", 0),
        ("Oz", "", 0),
        ("a a", "a a a", 2),
    ],
)
def test_whole_words_and_phrases(phrase: str, text: str, count: int) -> None:
    assert occurrences(phrase, text) == count


@given(st.text("ab \u0308-", min_size=1, max_size=3), st.text("ab \u0308-", max_size=30))
def test_occurrences_are_those_of_a_regular_expression(phrase: str, text: str) -> None:
    letters = "[ab\u0308]"
    pattern = f"(?<!{letters})(?={re.escape(phrase)}(?!{letters}))"
    assert occurrences(phrase, text) == len(re.findall(pattern, text))


# Frequency ------------------------------------------------------------------------------------

ASKED = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40)
COUNTS = st.fixed_dictionaries({place: st.integers(0, 9) for place in "abcdefgh"})


@given(ASKED, COUNTS, st.randoms(use_true_random=False))
def test_groups_by_frequency_partition_the_questions(
    places: list[str], count: dict[str, int], random: Any
) -> None:
    right = [random.random() < 0.5 for _ in places]
    groups = by_frequency(places, right, count)
    assert sum(group.score.total for group in groups) == len(places)
    assert sum(group.score.correct for group in groups) == sum(right)
    edges = [edge for group in groups for edge in (group.fewest, group.most)]
    assert edges == sorted(edges) and len({*edges}) == sum(
        1 + (group.fewest < group.most) for group in groups
    )  # no two groups overlap, so equally frequent places are together
    for group in groups:
        inside = [i for i, p in enumerate(places) if group.fewest <= count[p] <= group.most]
        assert group.score == Score(sum(right[i] for i in inside), len(inside))
        assert group.places == len({places[i] for i in inside})
        assert (group.fewest == 0) == (
            group.most == 0
        )  # places that never occur are a separate group
    assert len([group for group in groups if group.most]) <= GROUPS


@given(st.integers(1, 50))
def test_groups_are_quarters_if_all_frequencies_differ(number: int) -> None:
    places = [str(i) for i in range(number)]
    groups = by_frequency(places, [True] * number, {p: int(p) + 1 for p in places})
    sizes = [group.score.total for group in groups]
    assert len(sizes) == min(number, GROUPS) and max(sizes) - min(sizes) <= 1


def test_a_place_of_many_questions_is_in_the_group_of_its_middle_question() -> None:
    groups = by_frequency([*"abbbbbbbbc"], [True] * 10, {"a": 1, "b": 2, "c": 3})
    assert [(group.fewest, group.score.total) for group in groups] == [(1, 1), (2, 8), (3, 1)]


# All of it ------------------------------------------------------------------------------------

CORPUS = "Ada Ash was born in Oz.\nThe miller Bob Birch comes from New Ur, not Oz.\nCy Cole, Oz.\n"
TRAIN = [("Where was Ada Ash born?", "Oz"), ("Where was Bob Birch born?", "New Ur"),
         ("Where was Bob Beech born?", "Qom")]  # fmt: skip
DEV = [(f"Where was {name} born?", place) for name, place in [
    ("Ada Asher", "Oz"), ("Bob Birk", "Qom"), ("Cy Cole", "Oz"), ("Di Dale", "Nix"),
    ("Ed Elm", "Oz"), ("Flo Fir", "New Ur"), ("Guy Gum", "Oz"),
]]  # fmt: skip
ANSWERS = ["Oz", "New Ur", "miller", "Ozur", " ", "Oz ", "Ozur"]


def test_a_report_of_all_groups_of_answers() -> None:
    report = analyse_errors(DEV, ANSWERS, TRAIN, CORPUS)
    assert report.score == Score(1, 7)
    assert (report.taught, report.read, report.invented, report.empty) == (2, 1, 2, 1)
    assert report.inventions == ["Ozur"]
    assert [(g.fewest, g.most, g.places, g.score) for g in report.groups] == [
        (0, 0, 1, Score(0, 1)), (1, 1, 1, Score(0, 1)), (2, 2, 1, Score(0, 1)),
        (4, 4, 1, Score(1, 4)),
    ]  # fmt: skip
    # Bob Birk is most similar to Bob Birch, who is from New Ur: this wrong answer follows a name.
    # The other wrong answers have no similar name, or are no birthplace.
    near = [rows.tolist() for rows in nearest([q for q, _ in DEV], [q for q, _ in TRAIN])]
    assert near[:3] == [[0], [1], [0, 1, 2]]
    assert report.wrong.total == 6
    assert report.wrong.hits == pytest.approx(1 + 1 / 3)  # Flo Fir is similar to no name: a third
    assert report.wrong.chance == pytest.approx(2 / 3)
    assert report.expected.total == 7


def test_spaces_around_a_place_keep_its_group_but_make_it_wrong() -> None:
    asked = [
        ("Where was A born?", " Oz"),
        ("Where was B born?", "Oz"),
        ("Where was C born?", " Oz"),
    ]
    report = analyse_errors(asked, ["Oz", " Oz ", " Oz"], [("Where was D born?", "Oz ")])
    assert (report.score, report.taught) == (Score(1, 3), 2)
    assert [(g.fewest, g.most, g.places) for g in report.groups] == [(1, 1, 1)]
    assert (report.wrong.hits, report.expected.hits) == (2, 3)


def test_inventions_are_listed_by_how_often_they_were_answered() -> None:
    answers = ["Xo", "Bo", "Ao", "Xo", "Bo", "Xo", "Co"]
    assert analyse_errors(DEV, answers, TRAIN, CORPUS).inventions == ["Xo", "Bo", "Ao", "Co"]


def test_without_a_corpus_only_the_training_pairs_were_seen() -> None:
    report = analyse_errors(DEV, ANSWERS, TRAIN)
    assert (report.taught, report.read, report.invented, report.empty) == (2, 0, 3, 1)
    assert report.inventions == ["Ozur", "miller"]
    assert [(group.fewest, group.most) for group in report.groups] == [(0, 0), (1, 1)]


def test_a_report_as_json() -> None:
    report = analyse_errors(DEV, ANSWERS, TRAIN, CORPUS)
    facts = json.loads(json.dumps(report.as_dict()))
    assert facts.keys() == {"answers", "inventions", "by_frequency", "nearest_name"}
    counts = {group: share["count"] for group, share in facts["answers"].items()}
    assert counts == {
        "correct": 1, "seen_but_wrong": 3, "in_training_pairs": 2, "only_in_corpus": 1,
        "invented": 2, "empty": 1,
    }  # fmt: skip
    low, high = Score(2, 7).interval
    assert facts["answers"]["invented"] == {"count": 2, "fraction": 2 / 7, "low": low, "high": high}
    assert facts["by_frequency"][3]["score"] == Score(1, 4).as_dict()
    assert facts["nearest_name"]["wrong_answers"]["hits"] == report.wrong.hits
    assert facts["nearest_name"]["expected_places"]["chance"] == report.expected.chance


def test_a_report_as_text() -> None:
    lines = as_table(analyse_errors(DEV, ANSWERS, TRAIN, CORPUS)).splitlines()
    rows = {re.split(r"\s{2,}", line.strip())[0]: line for line in lines}
    assert "3 of 7      42.9 %" in rows["wrong, but seen in a training text"]
    assert "2 of 7      28.6 %" in rows["invented: in no training text"]
    assert "(such as 'Ozur')" in rows
    assert "0 of 1       0.0 %" in rows["1 time (1 place)"]
    assert "1 of 4      25.0 %" in rows["4 times (1 place)"]
    assert "1.3 of 6         0.7" in rows["wrong answers"]
    assert rows["the most similar training name"].split()[-7:] == [
        "answers", "by", "chance", "by", "chance", "test", "p-value"
    ]  # fmt: skip
    assert max(map(len, lines)) <= 100
    many = analyse_errors(DEV, [f"Ozu{i}" for i in range(7)], TRAIN)
    assert "'Ozu0', 'Ozu1', 'Ozu2', 'Ozu3', 'Ozu4' and 2 more)" in as_table(many)
    perfect = as_table(analyse_errors(DEV, [place for _, place in DEV], TRAIN))
    assert "wrong answers: none to compare" in perfect and "such as" not in perfect


@given(st.lists(st.text("Oz ü", max_size=4), min_size=3, max_size=3))
def test_the_groups_sum_to_all_answers(answers: list[str]) -> None:
    assume(any(answers))
    asked, train = [("ab", "Oz"), ("b", "Ozü"), ("", "z")], [("c", "Oz"), ("cü", "zO")]
    report = analyse_errors(asked, answers, train, "zü O Oz")
    groups = (report.taught, report.read, report.invented, report.empty)
    assert report.score.correct + sum(groups) == report.score.total == 3
    assert min(groups) >= 0
    seen = {"Oz", "zO", "zü", "O", "zü O", "O Oz", "zü O Oz"}
    expected = [a for a, (_, place) in zip(answers, asked, strict=True)
                if a != place and a.strip() and a.strip() not in seen]  # fmt: skip
    assert report.invented == len(expected)
    assert {*report.inventions} == {a.strip() for a in expected}


# Training pairs -------------------------------------------------------------------------------


def test_a_run_records_its_training_pairs(answering: Trained, people: World) -> None:
    assert as_taught(people.train, answering) == (people.train, True)
    assert as_taught(people.dev, answering) == (people.dev, False)
    assert as_taught(people.train[::-1], answering)[1] is False


def test_pairs_mixed_into_pretraining_are_recorded_too(
    people: World, small: Any, tmp_path: Any
) -> None:
    odd = [("Where was Ünal born?", "Zürich"), *people.train]
    run = RunOptions(tmp_path)
    mixed = pretrain(people.corpus, small(), run, questions=odd, unknown="drop")
    read = [("Where was nal born?", "Zrich"), *people.train]
    assert as_taught(odd, mixed) == (read, True)
    assert as_taught(people.dev, mixed) == (people.dev, False)


@pytest.mark.parametrize("ascii_questions", [False, True])
def test_places_are_compared_as_in_training(
    ascii_questions: bool, people: World, small: Any, tmp_path: Any
) -> None:
    odd = [("Where was Ünal born?", "Zürich"), *people.train]
    recipe = small(data__ascii_questions=ascii_questions, scratch__steps=1)
    run = finetune(odd, recipe, RunOptions(tmp_path), text=people.corpus, unknown="drop")
    read, same = as_taught(odd, run)
    assert same and read == [("Where was nal born?", "Zrich"), *people.train]
    assert analyse_errors(people.dev[:1], ["Zrich"], read).invented == 0
    assert analyse_errors(people.dev[:1], ["Zürich"], read).invented == 1


def test_each_pair_needs_an_answer() -> None:
    with pytest.raises(
        ValueError, match=r"^analyse_errors: needs an answer to each of the 1 pairs; got 2"
    ):
        analyse_errors([("Where was Ada born?", "Oz")], ["Oz", "Ur"], [])
    assert analyse_errors([], [], []).score == Score(0, 0)
