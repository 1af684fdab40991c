"""Chapter 6: what wrong answers are made of.

A model that does not know still answers, and as fluently as one that does. Three questions about
that, which A5 asks its readers to think about, are answered here by counting:

* Does it invent? A wrong answer may stand in what the model was taught from, or nowhere.
* Does it know what it met often? Questions are grouped by how often their place occurs.
* Does it go by the name? A wrong answer may be the birthplace of whoever has the most similar name
  in training. Common places are so by luck too, and what luck would give is told beside it.

A run keeps only a hash of what it was taught from, so whoever asks must name those texts.
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
"""Of questions by the frequency of their place. With more, 100 questions would give intervals that
say nothing."""


@dataclass(frozen=True)
class Group:
    """Questions whose expected place occurs from `fewest` to `most` times."""

    fewest: int
    most: int
    places: int
    score: Score

    def as_dict(self) -> dict[str, Any]:
        """The result under the names that other programs rely on."""
        return {**asdict(self), "score": self.score.as_dict()}


@dataclass(frozen=True)
class Report:
    """What a model's answers are: right, or one of the four kinds that are counted here.

    Args:
        score: of all answers.
        taught: wrong, but the answer to some training question.
        read: wrong, and only somewhere in the corpus.
        invented: in no training text.
        empty: no answer.
        inventions: each once, the most frequent first.
        groups: the questions by the frequency of their place.
        wrong: the probe of the wrong answers.
        expected: that of the expected places: what there is to gain from similar names.
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

    def shares(self) -> dict[str, Score]:
        """Each kind of answer as a share of all."""
        seen, n = self.taught + self.read, self.score.total
        counts = {
            "right": self.score.correct,
            "seen_but_wrong": seen,
            "in_training_pairs": self.taught,
            "only_in_corpus": self.read,
            "invented": self.invented,
            "empty": self.empty,
        }
        return {kind: Score(count, n) for kind, count in counts.items()}

    def as_dict(self) -> dict[str, Any]:
        """The result under the names that other programs rely on."""
        shares = {}
        for kind, share in self.shares().items():
            low, high = share.interval
            count = {"count": share.correct, "share": share.accuracy}
            shares[kind] = {**count, "low": low, "high": high}
        probes = {"wrong_answers": asdict(self.wrong), "expected_places": asdict(self.expected)}
        return {
            "answers": shares,
            "inventions": self.inventions,
            "by_frequency": [group.as_dict() for group in self.groups],
            "nearest_name": probes,
        }


def pretrained_on(trained: Trained) -> str:
    """The fingerprint of the text that a model was pretrained on; "" if it was not."""
    key = "data" if trained.about["stage"] == "pretrain" else "pretrained_on"
    return str(trained.about.get(key, ""))


def as_taught(pairs: Pairs, trained: Trained) -> tuple[Pairs, bool]:
    """The pairs as training read them, and whether this run was taught just these.

    They may have been finetuned on, or been among the exercises of pretraining. Training may have
    left characters out, so a place can have been taught in another spelling.
    """
    plain, known = (as_read(pairs, trained.recipe, trained.vocabulary, unknown)
                    for unknown in ("error", "drop"))  # fmt: skip
    taught = {trained.about.get(key) for key in ("data", "questions")}
    for read in (plain, known):
        if fingerprint(repr(read)) in taught:
            return read, True
    return plain, False


def consider(
    pairs: Pairs, answers: Sequence[str], train: Pairs, corpus: str = "", *, seed: int = 0
) -> Report:
    """Judge the answers to `pairs` by what the model was taught from.

    An answer was seen if it is that of a training pair, or stands in the corpus as a whole word or
    phrase, letter for letter; spaces around it do not matter. A place occurs as often as it is the
    answer of a training pair, and as it stands in the corpus.

    Raises: ValueError unless there is an answer to each pair.

    Args:
        train: what the model was finetuned on.
        corpus: what it was pretrained on; empty if it was not.
        seed: of the probes' reassignments.
    """
    if len(answers) != len(pairs):
        raise ValueError(
            f"consider: needs an answer to each of the {len(pairs)} pairs; got {len(answers)}"
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
    """How often a phrase stands in a text with no letter, digit or mark directly beside it.

    Where words are not set apart, as in Chinese, this finds next to nothing.
    """
    found, at = 0, text.find(phrase) if phrase else -1
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(phrase) : at + len(phrase) + 1]
        found += not (_in_a_word(before) or _in_a_word(after))
        at = text.find(phrase, at + 1)
    return found


def _in_a_word(character: str) -> bool:
    """Letters and digits, and accents that are written as characters of their own."""
    return character.isalnum() or (character != "" and unicodedata.category(character)[0] == "M")


def by_frequency(
    places: Sequence[str], right: Sequence[bool], count: dict[str, int]
) -> list[Group]:
    """Questions in groups of nearly one size, from rare places to frequent ones.

    Places that never occur are a group of their own. In the others, a place goes where the middle
    of its equals does: equally frequent places stay together, and groups may be fewer than GROUPS.
    """
    asked = Counter(count[place] for place in places)  # questions, by the frequency of their place
    group_of, below, total = {0: -1}, 0, len(places) - asked[0]
    for often in sorted(asked.keys() - {0}):
        group_of[often] = int(GROUPS * (below + asked[often] / 2) / total)
        below += asked[often]
    groups: list[Group] = []
    for group in sorted({group_of[often] for often in asked if asked[often]}):
        rows = [i for i, place in enumerate(places) if group_of[count[place]] == group]
        counts = [count[places[i]] for i in rows]
        score = Score(sum(right[i] for i in rows), len(rows))
        groups.append(Group(min(counts), max(counts), len({places[i] for i in rows}), score))
    return groups
