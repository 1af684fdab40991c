"""Wing, parsing: from trees to batches.

Sentences of one document resemble one another, so a treebank is split by documents, not by
sentences. Words and tags become ids. The governor of a word (its head in the tree) and its relation
become one number together, so that the trainer of other tasks can be used as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tinyattn.data.batches import PAD
from tinyattn.data.text import DataError
from tinyattn.parsing.conllu import Sentence
from tinyattn.parsing.model import NO_TOKEN, ROOT
from tinyattn.rng import generator
from tinyattn.tasks.examples import Example, Examples

Tree = tuple[Sequence[int], Sequence[str]]
"""The governors and the relations of a sentence, as `Sentence` has them."""

UNKNOWN = 2
"""The id of words and tags that do not occur in training; NO_TOKEN and ROOT are 0 and 1."""
HELD_OUT = 0.2  # of the documents
RARE = 0.25
"""A word that occurs c times in training is replaced by UNKNOWN with probability RARE/(RARE + c),
so that the parser learns to parse unknown words (Kiperwasser and Goldberg 2016, section 4.2)."""


def split(
    documents: list[list[Sentence]], *, seed: int, fraction: float = HELD_OUT
) -> tuple[list[Sentence], list[Sentence]]:
    """The training sentences and the held-out ones, both from whole documents.

    Args: fraction: fraction of the documents to hold out.
    Raises: DataError if there are less than two documents.
    """
    if len(documents) < 2:
        raise DataError(
            "a treebank of one document cannot be split into training and held-out documents; mark "
            "more documents with `# newdoc`"
        )
    order = generator(seed).permutation(len(documents))
    held = min(max(1, round(fraction * len(documents))), len(documents) - 1)
    parts = [sorted(order[held:]), sorted(order[:held])]
    train, test = ([s for i in part for s in documents[i]] for part in parts)
    return train, test


@dataclass(frozen=True)
class ParserVocabulary:
    """The ids of words, tags and relations. Words are lower-cased; other words are UNKNOWN.

    Ids of words come first, from 3, then those of tags; relations count from 0.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    relations: tuple[str, ...]

    @classmethod
    def of(cls, sentences: Iterable[Sentence]) -> ParserVocabulary:
        """The words that occur at least twice, and all tags and relations, each sorted."""
        sentences = list(sentences)
        counts = Counter(word.lower() for s in sentences for word in s.words)
        return cls(
            tuple(sorted(word for word, count in counts.items() if count > 1)),
            tuple(sorted({tag for s in sentences for tag in s.tags})),
            tuple(sorted({relation for s in sentences for relation in s.relations})),
        )

    @classmethod
    def from_lists(cls, lists: dict[str, Any]) -> ParserVocabulary:
        """The vocabulary of the lists that `as_lists` returned.

        Raises: ValueError unless each is a list of different strings.
        """
        kinds = [field.name for field in fields(cls)]
        if lists.keys() != {*kinds}:
            raise ValueError(f"its vocabulary must be {', '.join(kinds)}; got {', '.join(lists)}")
        for kind, names in lists.items():
            if not isinstance(names, list) or any(type(name) is not str for name in names):
                raise ValueError(f"its vocabulary's {kind} must be a list of strings")
            if len({*names}) < len(names):
                raise ValueError(f"its vocabulary's {kind} contain a duplicate")
        return cls(*(tuple(lists[kind]) for kind in kinds))

    def as_lists(self) -> dict[str, list[str]]:
        """The lists that `from_lists` takes."""
        return {field.name: [*getattr(self, field.name)] for field in fields(self)}

    def __len__(self) -> int:
        """V: the number of ids of words and tags, and of NO_TOKEN, ROOT and UNKNOWN."""
        return UNKNOWN + 1 + len(self.words) + len(self.tags)

    def encode(self, sentences: Sequence[Sentence]) -> list[np.ndarray]:
        """Word and tag at each position of every sentence, ROOT at the first: (n + 1, 2) each."""
        words = {word: UNKNOWN + 1 + i for i, word in enumerate(self.words)}
        tags = {tag: UNKNOWN + 1 + len(self.words) + i for i, tag in enumerate(self.tags)}
        return [
            np.array([
                (ROOT, ROOT),
                *((words.get(word.lower(), UNKNOWN), tags.get(tag, UNKNOWN))
                  for word, tag in zip(s.words, s.tags, strict=True)),
            ])
            for s in sentences
        ]  # fmt: skip


def fill_up(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Encoded sentences in one array, padded with NO_TOKEN: (B, T, 2)."""
    out = np.full((len(rows), max(map(len, rows)), 2), NO_TOKEN)
    for row, ids in zip(out, rows, strict=True):
        row[: len(ids)] = ids
    return out


class TreeExamples(Examples):
    """Sentences as training examples, with one input and one target number for each position.

    An input is word·V + tag, V = len(vocabulary). A target is 1 + relation·N + governor, N =
    `context`; PAD, 0, means no target, as for ROOT. `pairs` and `places` decode them.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        vocabulary: ParserVocabulary,
        *,
        context: int,
        batch: int,
        seed: int,
        shuffle: bool = True,
    ) -> None:
        super().__init__(
            count=len(sentences), batch=batch, length=context, seed=seed, shuffle=shuffle
        )
        self.inputs = vocabulary.encode(sentences)
        self.size = len(vocabulary)
        relations = {relation: i for i, relation in enumerate(vocabulary.relations)}
        self.targets = [
            np.array([PAD, *(1 + relations[relation] * context + governor
                             for governor, relation in zip(s.governors, s.relations, strict=True))])
            for s in sentences
        ]  # fmt: skip
        counts = np.bincount(np.concatenate(self.inputs)[:, 0], minlength=self.size)
        self.dropped = RARE / (RARE + np.maximum(counts, 1))
        self.dropped[: UNKNOWN + 1] = 0

    def example(self, index: int, rng: np.random.Generator) -> Example:
        """Sentence `index`, some of its words replaced by UNKNOWN."""
        words, tags = self.inputs[index].T
        words = np.where(rng.random(len(words)) < self.dropped[words], UNKNOWN, words)
        return words * self.size + tags, self.targets[index]


def pairs(inputs: np.ndarray, vocabulary: int) -> np.ndarray:
    """The words and tags in a batch's inputs: (B, T) -> (B, T, 2)."""
    return np.stack(np.divmod(inputs, vocabulary), axis=-1)


def places(targets: np.ndarray, context: int, none: int) -> np.ndarray:
    """The indices of a batch's targets in a row of scores, relation·T + governor; `none` for PAD.

    Shapes: (B, T) -> (B, T).
    """
    relation, governor = np.divmod(targets - 1, context)
    return np.where(targets == PAD, none, relation * targets.shape[1] + governor)


def branching(sentences: Sequence[Sentence], step: int) -> list[list[int]]:
    """The governor of every word is the word `step` positions on, or the root if there is none.

    -1 gives right-branching trees: each word depends on the previous one; 1 the mirror image.
    """
    return [
        [i + step if 1 <= i + step <= len(s) else 0 for i in range(1, len(s) + 1)]
        for s in sentences
    ]


def most_common_relation(sentences: Iterable[Sentence]) -> tuple[str, dict[str, str]]:
    """The most frequent relation, and that of each tag; of ties, the first in the alphabet."""
    overall: Counter[str] = Counter()
    of_tag: dict[str, Counter[str]] = {}
    for s in sentences:
        overall.update(s.relations)
        for tag, relation in zip(s.tags, s.relations, strict=True):
            of_tag.setdefault(tag, Counter())[relation] += 1

    def first(counts: Counter[str]) -> str:
        return min(counts.items(), key=lambda item: (-item[1], item[0]))[0]

    return first(overall), {tag: first(counts) for tag, counts in of_tag.items()}


def baselines(train: Sequence[Sentence], test: Sequence[Sentence]) -> dict[str, list[Tree]]:
    """Trees by rules that ignore the words, for every held-out sentence.

    The relation is the most common one overall, or the most common one of the word's tag.
    """
    common, of_tag = most_common_relation(train)
    right, left = branching(test, -1), branching(test, 1)
    same = [[common] * len(s) for s in test]
    by_tag = [[of_tag.get(tag, common) for tag in s.tags] for s in test]
    return {
        "left-branching": list(zip(left, same, strict=True)),
        "left-branching, majority label": list(zip(left, by_tag, strict=True)),
        "right-branching": list(zip(right, same, strict=True)),
        "right-branching, majority label": list(zip(right, by_tag, strict=True)),
    }
