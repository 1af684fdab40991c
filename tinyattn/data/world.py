"""Chapter 6: a synthetic data set, a made-up world of people and their birthplaces.

Earlier files turned text into token ids and examples; this one generates a text to learn from. With
it a GPT can show that pretraining puts *knowledge* into weights, in three steps:

1. pretrain on `corpus`, short sentences about all people;
2. finetune on `train`, questions "Where was NAME born?" with answers, about some of the people;
3. ask about the others (`dev`, `test`), whose birthplaces occur only in the corpus.

A model without step 1 can only guess in step 3. With real people a guess could be better than
chance, since a name hints at a country. So a seeded generator invents everything, with no download:

* Names are built from small tables. None was found in large lists of words, names and towns.
* First and last names are drawn independently, some far more often than others. Of 300 people about
  half share their first name with another person, and a third their last name. Only the whole name
  identifies a person.
* Birthplaces and names come from different random streams. The k-th most common place has weight
  1/(k + 1), in train, dev and test alike. So the baseline "always the most common place" scores
  about 19 % with 20 places, and a rule based on the name beats it only by luck.
* The sentences about a person follow different patterns, so each fact occurs in several wordings.
  Trade and season are distractors.

Limits: ten patterns are not English, a sentence names just one place, and the birth is its only
fact. Success here shows that the method works, not that it would on real text.
"""

import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from pathlib import Path

import numpy as np

from tinyattn.data.files import write_all

FILES = ("corpus.txt", "birth_train.tsv", "birth_dev.tsv", "birth_test_inputs.tsv")
Stream = np.random.Generator

# First names, last names and places end differently: no word is of two kinds or begins another.
VOWELS = "a e i o u"
FIRST_STARTS = "B D F G H J K L M N P R S T V W Y Z"
FIRST_ENDS = "dvem vzan lvun mdro nzif dvash mzol lmob vgil vlupo zbima zmel"
LAST_STARTS = "Br Dr Fl Gl Gr H K L M N Pr Sk Tr V W Z"
LAST_CLUSTERS = "bv dg dm tv lz mg pn zb"
LAST_ENDS = "lb lm lft nsk rv zh"
PLACE_STARTS = "B Ch D F G H J K L M N Oz P R S T V W Y Z"  # twenty different first letters
PLACE_ENDS = "lgost ndop ndulk rvosk lskum rduzz rholn vemp zarg zumb"

TRADES = "baker brewer carver dyer farmer hunter mason miller painter sailor smith tailor".split()
SEASONS = "spring summer autumn winter".split()

# Every world uses pattern 0: it contains the W and the ? of all questions, so that a vocabulary
# built from the corpus has them.
PATTERNS = (
    "Who was {name}? A {trade} born in {place}, they say.",
    "{name} was born in {place}.",
    "{name} the {trade} first saw daylight in {place}.",
    "{name} began life in {place} one {season}.",
    "{name} is a native of {place}.",
    "{name} left {place}, the town of birth.",
    "The {trade} {name} comes from {place}.",
    "In {place}, one {season} night, {name} was born.",
    "{place} is the birthplace of {name}.",
    "Born in {place}, {name} became a {trade}.",
)


class WorldExists(FileExistsError):
    """A file that a world would write exists already, and may be the user's own."""


@dataclass(frozen=True)
class World:
    """A corpus (one sentence per line, each ends with LF) and the questions that it answers.

    `train` and `dev` are (question, place) pairs. `test` contains questions only, as in an exam,
    and `test_places` their answers. `places` lists all places, the most common first.
    """

    corpus: str
    train: list[tuple[str, str]]
    dev: list[tuple[str, str]]
    test: list[str]
    test_places: list[str]
    places: list[str]

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the files into `folder` (created if missing) and return it as a Path.

        The files are `corpus.txt`, `birth_train.tsv` and `birth_dev.tsv` (question TAB place), and
        `birth_test_inputs.tsv` (questions only), in UTF-8 with LF. An empty part has no file.

        Args: overwrite: whether existing files of these names may be replaced.
        Raises: WorldExists if such a file exists and `overwrite` is False; OSError with the name of
            a file that cannot be written; all files are then unchanged.
        """
        target = Path(folder)
        there = [name for name in FILES if os.path.lexists(target / name)]
        if there and not overwrite:
            raise WorldExists(
                f"{target} holds {', '.join(there)} already; use --overwrite, or another --out"
            )
        target.mkdir(parents=True, exist_ok=True)
        texts = (
            self.corpus,
            "".join(f"{question}\t{place}\n" for question, place in self.train),
            "".join(f"{question}\t{place}\n" for question, place in self.dev),
            "".join(f"{question}\n" for question in self.test),
        )
        write_all({target / name: text or None for name, text in zip(FILES, texts, strict=True)})
        return target


def make_world(
    *,
    people: int = 300,
    places: int = 20,
    sentences: int = 4,
    dev: int = 100,
    test: int = 0,
    seed: int = 0,
) -> World:
    """Generate a world; the same arguments give the same world.

    Args:
        people: number of all people, 1 to 20,000.
        places: number of places, 2 to 100.
        sentences: lines of the corpus for each person, 1 to 10.
        dev, test: numbers of people that are held out; at least one person stays for `train`.
        seed: seed of the generator, 0 to 2^64 - 1.
    Raises: TypeError for a value that is not a whole number; ValueError for one out of range.
    """
    _check("people", people, 1, 20_000)
    _check("places", places, 2, 100)  # 20 starts with 5 vowels
    _check("sentences", sentences, 1, len(PATTERNS))
    _check(f"dev (of {people} people)", dev, 0, people - 1)
    _check(f"test (of {people} people, {dev} in dev)", test, 0, people - 1 - dev)
    _check("seed", seed, 0, 2**64 - 1)
    # Separate streams: names are independent of places, and do not change when `places` does.
    streams = [np.random.Generator(np.random.PCG64([int(seed), part])) for part in range(4)]
    names = _full_names(streams[0], people)
    towns = _place_names(streams[1], places)
    train = people - dev - test
    homes = [home for size in (train, dev, test) for home in _births(streams[2], towns, size)]
    corpus = _corpus(streams[3], names, homes, sentences)
    questions = [f"Where was {name} born?" for name in names]
    pairs = list(zip(questions, homes, strict=True))
    end = train + dev  # from here on: test
    return World(corpus, pairs[:train], pairs[train:end], questions[end:], homes[end:], towns)


def _check(argument: str, value: object, low: int, high: int) -> None:
    problem = f"make_world: {argument} must be a whole number from {low} to {high}, got {value!r}"
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(problem)
    if not low <= value <= high:
        raise ValueError(problem)


# Only Generator.random is used: its doubles are the top 53 bits of PCG64's output. NumPy may change
# shuffle, choice and similar methods between versions.
def _shuffled(stream: Stream, items: Sequence[str]) -> list[str]:
    keys = stream.random(len(items)).tolist()
    return [items[index] for index in sorted(range(len(items)), key=keys.__getitem__)]


def _pick(stream: Stream, items: Sequence[str]) -> str:
    return items[int(stream.random() * len(items))]


def _running_sums(count: int) -> list[float]:
    """Cumulative sums of 1/2, 1/3, 1/4, ...: the weights of the items, the most common first."""
    return list(accumulate(1 / (rank + 2) for rank in range(count)))


def _words(*rows: str) -> list[str]:
    return ["".join(pieces) for pieces in product(*(row.split() for row in rows))]


def _full_names(stream: Stream, people: int) -> list[str]:
    firsts = _shuffled(stream, _words(FIRST_STARTS, VOWELS, FIRST_ENDS))
    lasts = _shuffled(stream, _words(LAST_STARTS, VOWELS, LAST_CLUSTERS, VOWELS, LAST_ENDS))
    first_sums, last_sums = _running_sums(len(firsts)), _running_sums(len(lasts))
    chosen: dict[str, None] = {}  # a dict drops repeats and, unlike a set, keeps the order
    while len(chosen) < people:
        first = firsts[bisect_right(first_sums, stream.random() * first_sums[-1])]
        last = lasts[bisect_right(last_sums, stream.random() * last_sums[-1])]
        chosen[f"{first} {last}"] = None
    return list(chosen)


def _place_names(stream: Stream, places: int) -> list[str]:
    """Up to 20 places differ in their first letter; more places differ in letter or vowel."""
    starts, vowels = _shuffled(stream, PLACE_STARTS.split()), VOWELS.split()
    openings = [starts[k % 20] + vowels[(k + k // 20) % 5] for k in range(places)]
    return [opening + _pick(stream, PLACE_ENDS.split()) for opening in openings]


def _births(stream: Stream, places: list[str], size: int) -> list[str]:
    """Birthplaces in random order; their proportions are exact, up to rounding, in each group."""
    sums = _running_sums(len(places))  # sampled at equal distances below, not at random
    middles = ((number + 0.5) / size * sums[-1] for number in range(size))
    return _shuffled(stream, [places[bisect_right(sums, middle)] for middle in middles])


def _corpus(stream: Stream, names: list[str], homes: list[str], sentences: int) -> str:
    lines: list[str] = []
    for name, place in zip(names, homes, strict=True):
        facts = {"name": name, "place": place}
        facts |= {"trade": _pick(stream, TRADES), "season": _pick(stream, SEASONS)}
        patterns = _shuffled(stream, PATTERNS)
        if not lines:  # the first person has pattern 0
            patterns.sort(key=PATTERNS[0].__ne__)
        lines += [pattern.format(**facts) for pattern in patterns[:sentences]]
    return "".join(f"{line}\n" for line in _shuffled(stream, lines))
