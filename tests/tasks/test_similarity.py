"""Similar names by brute force; the permutation test against all permutations and known models."""

import itertools
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tinyattn.tasks.similarity import SHUFFLES, nearest, probe

# Similarity -----------------------------------------------------------------------------------

NAMES = st.lists(st.text("abä ", max_size=6), min_size=1, max_size=6)


def dice(a: str, b: str) -> Fraction:
    """By the definition, with integers."""
    first, second = ({f" {name} "[i : i + 3] for i in range(len(name))} for name in (a, b))
    total = len(first) + len(second)
    return Fraction(2 * len(first & second), total) if total else Fraction(0)


def stripped(questions: Sequence[str]) -> list[str]:
    """Without the common beginning and end, letter by letter."""
    rest = list(questions)
    while rest[0] and all(text[:1] == rest[0][0] for text in rest):
        rest = [text[1:] for text in rest]
    while rest[0] and all(text[-1:] == rest[0][-1] for text in rest):
        rest = [text[:-1] for text in rest]
    return rest


def nearest_by_force(asked: Sequence[str], known: Sequence[str]) -> list[list[int]]:
    names = stripped([*asked, *known])
    found = []
    for name in names[: len(asked)]:
        likeness = {i: dice(name, other) for i, other in enumerate(names[len(asked) :])
                    if other != name}  # fmt: skip
        best = max(likeness.values(), default=0)
        found.append([i for i, value in likeness.items() if value == best])
    return found


@given(NAMES, NAMES, st.text("abc ?", max_size=4), st.text("abc ?", max_size=4))
@example(["b"], ["", "ba "], "", "b")  # the text behind a short name is also in front of it
def test_the_nearest_names(asked: list[str], known: list[str], before: str, after: str) -> None:
    """By brute force, with ties; also with the text that all questions share around it."""
    wrap = [[f"{before}{name}{after}" for name in names] for names in (asked, known)]
    for questions in ((asked, known), wrap):
        assert [rows.tolist() for rows in nearest(*questions)] == nearest_by_force(*questions)


def test_nearest_finds_the_obvious_name() -> None:
    known = ["Where was Vemdro Zodgalb born?", "Where was Vemdro Prutvelb born?",
             "Where was Zodmel Prutvelb born?", "Where was Hix born?"]  # fmt: skip
    asked = ["Where was Vemdro Zodgilb born?", "Where was Wizmel Prutvelb born?", known[0],
             "Where was Qqq born?"]  # fmt: skip
    assert [rows.tolist() for rows in nearest(asked, known)] == [[0], [2], [1], [0, 1, 2, 3]]


def test_a_short_name_is_not_similar_because_it_is_contained() -> None:
    assert [*map(list, nearest(["Anna Maria Berg"], ["Ann", "Anne Marie Burg", "Zoe"]))] == [[1]]


# The permutation test ---------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from("abcx"), min_size=1, max_size=4).flatmap(
        lambda answers: st.tuples(
            st.just(answers),
            st.lists(
                st.sets(st.integers(0, 4)).map(sorted),
                min_size=len(answers), max_size=len(answers),
            ),
        )
    ),
    st.lists(st.sampled_from("abc"), min_size=5, max_size=5),
)  # fmt: skip
def test_the_permutation_test_against_all_permutations(
    asked: tuple[list[str], list[list[int]]], homes: list[str]
) -> None:
    answers, near = asked

    def hits(homes: Sequence[str]) -> Fraction:
        return sum((Fraction(sum(homes[i] == answer for i in rows), len(rows))
                    for answer, rows in zip(answers, near, strict=True) if rows),
                   start=Fraction(0))  # fmt: skip

    deals = [hits(deal) for deal in itertools.permutations(homes)]
    found = probe(answers, [np.array(rows, int) for rows in near], homes)
    assert found.total == sum(map(bool, near))
    assert found.hits == pytest.approx(float(hits(homes)), abs=1e-8)
    assert found.chance == pytest.approx(float(sum(deals) / len(deals)), abs=1e-8)
    exact = sum(deal >= hits(homes) for deal in deals) / len(deals)
    # five standard deviations of a share of SHUFFLES draws, and the real one, always counted
    assert abs(found.p - exact) <= 5 * np.sqrt(exact * (1 - exact) / SHUFFLES) + 1 / SHUFFLES
    assert min(deals) - 1e-8 <= found.low <= found.high <= max(deals) + 1e-8
    share = Counter(homes)
    assert found.chance == pytest.approx(
        sum(share[a] for a, rows in zip(answers, near, strict=True) if rows) / 5, abs=1e-8
    )


def test_only_a_model_that_follows_names_is_detected() -> None:
    rng = np.random.default_rng(0)
    homes = [str(place) for place in rng.integers(8, size=60)]
    near = [np.array([i]) for i in rng.permutation(60)[:30]]
    by_name = [homes[rows[0]] for rows in near]
    found = probe(by_name, near, homes)
    assert (found.hits, found.p) == (30, 1 / (1 + SHUFFLES)) and found.chance < 8
    half = by_name[:15] + [str(place) for place in rng.integers(8, size=15)]
    assert probe(half, near, homes).p < 0.01
    blind = [probe([str(p) for p in rng.integers(8, size=30)], near, homes) for _ in range(50)]
    assert 0.35 < np.mean([b.p for b in blind]) < 0.65
    assert sum(b.p <= 0.05 for b in blind) <= 7  # 2.5 are expected; more than 7 in 1 of 500 runs
    inside = sum(b.low <= b.hits <= b.high for b in blind)
    assert inside >= 43  # at least 95 %, because hits are integers


def test_the_seed_changes_only_the_range_by_chance() -> None:
    near, homes = [np.array([i]) for i in range(9)], list("aabbbccdd")
    first, again, other = (probe("abcdabcda", near, homes, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert (first.hits, first.chance) == (other.hits, other.chance) and first.p != other.p
    nothing = probe([], [], homes)
    assert (nothing.total, nothing.hits, nothing.chance, nothing.p) == (0, 0, 0, 1)


def test_without_questions_there_are_no_similar_names() -> None:
    assert nearest([], []) == nearest([], ["a"]) == []
    assert [rows.tolist() for rows in nearest(["a", "b"], [])] == [[], []]
    assert probe([], [], []).total == 0


@pytest.mark.parametrize(
    ("near", "message"),
    [
        ([], "probe: near must have an entry for each of 1 answers; got 0"),
        ([[0, 2]], "probe: near must contain indices of the 2 homes; got 0 to 2"),
        ([[-1]], "probe: near must contain indices of the 2 homes; got -1 to -1"),
    ],
)
def test_neighbours_must_be_those_of_the_answers(near: list[list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        probe(["Oz"], [np.array(rows) for rows in near], ["Oz", "Ur"])
