"""Chapter 6: error analysis, which counts the kinds of wrong answers.

A model that does not know an answer still gives one, as fluently as a model that knows it. A5
(assignment 5 of Stanford CS224N) asks three questions about this. This file answers them by
counting:

* Does the model invent places? A wrong answer may occur in its training texts, or nowhere.
* Does it know frequent places better? Questions are grouped by how often their place occurs.
* Does it follow similar names? A wrong answer may be the birthplace of the person with the most
  similar name in training. That happens by chance too, so the report shows how often it would.

A run keeps only a hash of its training texts, so the caller has to give these texts.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tinyattn.tasks.evaluation import Score
from tinyattn.tasks.knowledge import Trained, fingerprint
from tinyattn.tasks.preparation import Pairs, as_read
from tinyattn.tasks.similarity import Probe, nearest, probe

GROUPS = 4
"""Groups of questions by the frequency of their place. With more groups, the intervals for 100
questions would be too wide to be useful."""


@dataclass(frozen=True)
class Group:
    """Questions whose expected place occurs `fewest` to `most` times; `places` different places."""

    fewest: int
    most: int
    places: int
    score: Score

    def as_dict(self) -> dict[str, Any]:
        """The result as a dictionary for JSON; other programs use its keys."""
        return {**asdict(self), "score": self.score.as_dict()}


@dataclass(frozen=True)
class Report:
    """The answers of a model: the number that is right, and of four kinds that are not.

    Args:
        score: right answers among all answers.
        taught: wrong answers that are the answer to another training question.
        read: other wrong answers that occur in the corpus.
        invented: wrong answers that occur in no training text.
        empty: empty answers.
        inventions: the different invented answers, the most frequent first.
        groups: the questions by the frequency of their place.
        wrong: comparison of the wrong answers with the most similar training names.
        expected: the same for the expected places: the score of a model that follows such names.
    """

    score: Score
    taught: int
    read: int
    invented: int
    empty: int
    inventions: list[str]
    groups: list[Group]
    wrong: Probe
    expected: Probe

    def counts(self) -> dict[str, Score]:
        """Each kind of answer: its number among all answers."""
        seen, n = self.taught + self.read, self.score.total
        counts = {
            "correct": self.score.correct,
            "seen_but_wrong": seen,
            "in_training_pairs": self.taught,
            "only_in_corpus": self.read,
            "invented": self.invented,
            "empty": self.empty,
        }
        return {kind: Score(count, n) for kind, count in counts.items()}

    def as_dict(self) -> dict[str, Any]:
        """The result as a dictionary for JSON; other programs use its keys."""
        answers = {}
        for kind, number in self.counts().items():
            low, high = number.interval
            found = {"count": number.correct, "fraction": number.accuracy}
            answers[kind] = {**found, "low": low, "high": high}
        probes = {"wrong_answers": asdict(self.wrong), "expected_places": asdict(self.expected)}
        return {
            "answers": answers,
            "inventions": self.inventions,
            "by_frequency": [group.as_dict() for group in self.groups],
            "nearest_name": probes,
        }


def pretrained_on(trained: Trained) -> str:
    """The fingerprint of the text that a model was pretrained on; "" without pretraining."""
    key = "data" if trained.about["stage"] == "pretrain" else "pretrained_on"
    return str(trained.about.get(key, ""))


def as_taught(pairs: Pairs, trained: Trained) -> tuple[Pairs, bool]:
    """The pairs as training used them, and whether this run was trained on exactly these.

    They may have been used in finetuning, or among the examples of pretraining. Training may have
    dropped unknown characters, so a place can have another spelling there.
    """
    plain, known = (as_read(pairs, trained.recipe, trained.vocabulary, unknown)
                    for unknown in ("error", "drop"))  # fmt: skip
    taught = {trained.about.get(key) for key in ("data", "questions")}
    for read in (plain, known):
        if fingerprint(repr(read)) in taught:
            return read, True
    return plain, False


def analyse_errors(
    pairs: Pairs, answers: Sequence[str], train: Pairs, corpus: str = "", *, seed: int = 0
) -> Report:
    """Compare the answers to `pairs` with the training texts of the model.

    An answer was seen if it is the answer of a training pair, or occurs in the corpus as a whole
    word or phrase, letter for letter. Spaces around it are ignored. The frequency of a place is the
    number of training pairs with this answer, plus its number of occurrences in the corpus.

    Args:
        pairs: questions with the expected places.
        answers: the model's answer to each pair.
        train: the pairs of finetuning.
        corpus: the text of pretraining; empty without pretraining.
        seed: seed of the permutation test.
    Raises: ValueError unless there is an answer to each pair.
    """
    if len(answers) != len(pairs):
        raise ValueError(
            f"analyse_errors: needs an answer to each of the {len(pairs)} pairs; "
            f"got {len(answers)} answers"
        )
    right = [answer == place for answer, (_, place) in zip(answers, pairs, strict=True)]
    given, places = [a.strip() for a in answers], [place.strip() for _, place in pairs]
    homes = [place.strip() for _, place in train]
    taught = Counter(homes)
    count = {place: taught[place] + occurrences(place, corpus) for place in {*given, *places}}
    near = nearest([question for question, _ in pairs], [question for question, _ in train])
    rows = [i for i, ok in enumerate(right) if not ok]
    wrong = [given[i] for i in rows]
    invented = Counter(answer for answer in wrong if answer and not count[answer])
    known = sum(answer in taught for answer in wrong)
    return Report(
        Score(sum(right), len(right)),
        taught=known,
        read=len(wrong) - known - invented.total() - wrong.count(""),
        invented=invented.total(),
        empty=wrong.count(""),
        inventions=sorted(invented, key=lambda answer: (-invented[answer], answer)),
        groups=by_frequency(places, right, count),
        wrong=probe(wrong, [near[i] for i in rows], homes, seed=seed),
        expected=probe(places, near, homes, seed=seed),
    )


def occurrences(phrase: str, text: str) -> int:
    """How often a phrase occurs in a text without a letter, digit or accent directly beside it.

    In languages without spaces between words, such as Chinese, it finds hardly anything.
    """
    found, at = 0, text.find(phrase) if phrase else -1
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(phrase) : at + len(phrase) + 1]
        found += not (_in_a_word(before) or _in_a_word(after))
        at = text.find(phrase, at + 1)
    return found


def _in_a_word(character: str) -> bool:
    """Whether this is a letter, a digit, or an accent that is a character of its own."""
    return character.isalnum() or (character != "" and unicodedata.category(character)[0] == "M")


def by_frequency(
    places: Sequence[str], right: Sequence[bool], count: dict[str, int]
) -> list[Group]:
    """Questions in groups of nearly equal size, from rare places to frequent ones.

    Places that never occur are a separate group. Equally frequent places stay together, in the
    group to which the middle of their questions belongs. So there may be fewer than GROUPS groups.
    """
    questions = Counter(count[place] for place in places)  # by the frequency of their place
    group_of, below, total = {0: -1}, 0, len(places) - questions[0]
    for often in sorted(questions.keys() - {0}):
        group_of[often] = int(GROUPS * (below + questions[often] / 2) / total)
        below += questions[often]
    groups: list[Group] = []
    for group in sorted({group_of[often] for often in questions if questions[often]}):
        rows = [i for i, place in enumerate(places) if group_of[count[place]] == group]
        counts = [count[places[i]] for i in rows]
        score = Score(sum(right[i] for i in rows), len(rows))
        groups.append(Group(min(counts), max(counts), len({places[i] for i in rows}), score))
    return groups
