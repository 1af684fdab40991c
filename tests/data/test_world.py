"""The made-up world: the same bytes for a seed, right formats, and names tell no birthplace."""

import errno
import hashlib
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyattn.data import world as module
from tinyattn.data.world import PATTERNS, PLACE_ENDS, World, make_world

Pairs = list[tuple[str, str]]


def name_in(question: str) -> str:
    match = re.fullmatch(r"Where was ([A-Z][a-z]+ [A-Z][a-z]+) born\?", question)
    assert match, question
    return match[1]


def answers(world: World) -> dict[str, str]:
    """Birthplace by name, for all people."""
    test = list(zip(world.test, world.test_places, strict=True))
    return {name_in(question): place for question, place in world.train + world.dev + test}


def person_of(line: str, names: dict[str, str]) -> str:
    """The one full name in a corpus line."""
    words = re.findall(r"[A-Za-z]+", line)
    found = {f"{a} {b}" for a, b in pairwise(words)} & names.keys()
    assert len(found) == 1, line
    return found.pop()


SHAPES = [re.sub(r"{(?!name|place)\w+}", r"\\w+", text.replace("?", r"\?")) for text in PATTERNS]


def pattern_of(line: str, name: str, place: str) -> int:
    """The sentence pattern of the line."""
    plain = line.replace(name, "{name}").replace(place, "{place}")
    (fit,) = (number for number, shape in enumerate(SHAPES) if re.fullmatch(shape, plain))
    return fit


def check_world(world: World, people: int, places: int, sentences: int, dev: int) -> None:
    """Check everything that is true for all arguments."""
    names = answers(world)
    assert len(names) == people == len(world.train) + len(world.dev) + len(world.test)
    assert len(world.dev) == dev
    assert len(set(world.places)) == len(world.places) == places
    assert set(names.values()) <= set(world.places)
    assert world.corpus.endswith("\n") and "\r" not in world.corpus and "\t" not in world.corpus
    known = set(world.places)
    lines = world.corpus[:-1].split("\n")
    assert len(lines) == people * sentences and max(map(len, lines)) <= 112
    used: dict[str, set[int]] = defaultdict(set)
    for line in lines:
        name = person_of(line, names)
        used[name].add(pattern_of(line, name, names[name]))
        assert [word for word in re.findall(r"\w+", line) if word in known] == [names[name]]
    assert all(len(used[name]) == sentences for name in names)
    asked = "".join(world.test + [question for question, _ in world.train + world.dev])
    assert set(asked) <= set(world.corpus) and world.corpus.isascii()


@pytest.fixture(scope="module")
def default() -> World:
    return make_world()


def test_the_default_world(default: World) -> None:
    check_world(default, people=300, places=20, sentences=4, dev=100)
    lengths = sorted(len(line) for line in default.corpus.splitlines())
    assert 40 <= lengths[len(lengths) // 2] <= 55
    assert len(set(PATTERNS)) == len(PATTERNS) >= 8
    assert sum(text.index("{place}") < text.index("{name}") for text in PATTERNS) >= 2
    assert not default.test and not default.test_places


def test_same_seed_same_bytes_on_every_machine(default: World) -> None:
    as_numpy: Any = np.int64(300)
    assert make_world() == default == make_world(people=as_numpy, seed=0)
    everything = default.corpus + repr(default.train + default.dev)
    assert hashlib.sha256(everything.encode()).hexdigest() == (
        "06f7cf9eb7da62963c91f4fff6b4e551b17b1b33231e2dc085cf5bd8d27517c4"
    )
    other = make_world(seed=1)
    assert other.corpus != default.corpus and set(other.places) != set(default.places)


def test_names_do_not_change_with_the_number_of_places(default: World) -> None:
    more = make_world(places=21)
    assert answers(more).keys() == answers(default).keys()
    assert more.places[:20] == default.places
    assert answers(more) != answers(default)


@settings(deadline=None, max_examples=40)
@given(data=st.data(), seed=st.integers(0, 2**64 - 1))
def test_any_arguments_give_a_valid_world(data: st.DataObject, seed: int) -> None:
    people = data.draw(st.integers(1, 60))
    dev = data.draw(st.integers(0, people - 1))
    test = data.draw(st.integers(0, people - 1 - dev))
    places = data.draw(st.integers(2, 100))
    sentences = data.draw(st.integers(1, len(PATTERNS)))
    world = make_world(
        people=people, places=places, sentences=sentences, dev=dev, test=test, seed=seed
    )
    check_world(world, people, places, sentences, dev)
    assert len(world.test) == test


def test_a_small_and_a_large_world() -> None:
    check_world(make_world(people=10, dev=4, places=3), 10, 3, 4, 4)
    check_world(make_world(people=2000, places=100, dev=500, test=437), 2000, 100, 4, 500)
    assert len(answers(make_world(people=20_000, sentences=1))) == 20_000


def test_saved_files_are_those_of_the_assignment(tmp_path: Path) -> None:
    world = make_world(people=30, dev=8, test=5)
    folder = world.save(tmp_path / "new" / "folder")
    assert folder == tmp_path / "new" / "folder"
    read = {path.name: path.read_bytes().decode("utf-8") for path in folder.iterdir()}
    assert sorted(read) == [
        "birth_dev.tsv",
        "birth_test_inputs.tsv",
        "birth_train.tsv",
        "corpus.txt",
    ]
    assert read["corpus.txt"] == world.corpus
    for file_name, pairs in (("birth_train.tsv", world.train), ("birth_dev.tsv", world.dev)):
        rows = read[file_name].split("\n")
        assert rows.pop() == "" and [tuple(row.split("\t")) for row in rows] == pairs
    assert read["birth_test_inputs.tsv"] == "".join(f"{question}\n" for question in world.test)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    make_world(people=30, dev=8, test=5).save(str(folder), overwrite=True)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_empty_part_has_no_file_and_removes_an_old_one(tmp_path: Path) -> None:
    make_world(people=5, dev=1, test=1).save(tmp_path)
    assert len(list(tmp_path.iterdir())) == 4
    make_world(people=5, dev=0).save(tmp_path, overwrite=True)
    assert {file.name for file in tmp_path.iterdir()} == {"corpus.txt", "birth_train.tsv"}


def test_held_out_people_are_in_the_corpus_only() -> None:
    world = make_world(people=200, dev=60, test=40)
    asked = {name_in(question) for question, _ in world.train}
    held_out = {name_in(question) for question, _ in world.dev} | set(map(name_in, world.test))
    assert len(held_out) == 100 and not asked & held_out
    assert "Where was" not in world.corpus
    for name in held_out:
        lines = [line for line in world.corpus.splitlines() if name in line]
        assert len(lines) == 4 and all(answers(world)[name] in line for line in lines)


def test_a_full_disk_changes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, fsync, room = make_world(people=9, dev=2).save(tmp_path), os.fsync, iter([True, False])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(descriptor: int) -> None:
        if not next(room):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*birth_train\.tsv'"):
        make_world(people=12, dev=0, test=1).save(tmp_path, overwrite=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_lines_are_shuffled_over_the_file(default: World) -> None:
    names = answers(default)
    order = [person_of(line, names) for line in default.corpus.splitlines()]
    together = sum(a == b for a, b in pairwise(order))
    assert together <= 15  # 3 expected; 900 if the four lines of each person were together
    dev = {name_in(question) for question, _ in default.dev}
    assert 150 <= sum(name in dev for name in order[:600]) <= 250  # 200 expected


def test_neighbours_in_a_file_share_a_place_by_chance_only(default: World) -> None:
    for pairs, most in ((default.train, 40), (default.dev, 25)):  # 16 and 8 expected
        assert sum(one[1] == other[1] for one, other in pairwise(pairs)) <= most


@pytest.mark.parametrize("seed", range(5))
def test_parts_of_names_are_shared(seed: int) -> None:
    names = list(answers(make_world(seed=seed)))
    shares = []
    for part in (0, 1):
        count = Counter(name.split()[part] for name in names)
        shares.append(sum(times for times in count.values() if times > 1) / len(names))
    assert 0.45 < shares[0] < 0.7 and 0.25 < shares[1] < 0.5


def test_no_word_begins_another_or_is_in_two_tables() -> None:
    firsts = module._words(module.FIRST_STARTS, module.VOWELS, module.FIRST_ENDS)
    lasts = module._words(
        module.LAST_STARTS,
        module.VOWELS,
        module.LAST_CLUSTERS,
        module.VOWELS,
        module.LAST_ENDS,
    )
    places = module._words(module.PLACE_STARTS, module.VOWELS, PLACE_ENDS)
    everything = firsts + lasts + places
    known = set(everything)
    assert len(known) == len(everything)
    assert not [word for word in everything for k in range(1, len(word)) if word[:k] in known]


@pytest.mark.parametrize("seed", range(10))
def test_places_have_the_documented_form(seed: int) -> None:
    places = make_world(seed=seed).places
    assert len({place[0] for place in places}) == 20
    assert all(re.fullmatch("[A-Z][a-z]{4,8}", place) for place in places)
    many = make_world(seed=seed, places=100).places
    assert many[:20] == places
    assert len({re.sub("(?<=[aeiou]).+", "", place[1:]) + place[0] for place in many}) == 100


@pytest.mark.parametrize("seed", range(3))
def test_few_places_are_common_and_all_parts_agree(seed: int) -> None:
    world = make_world(people=600, dev=200, test=100, seed=seed)
    parts = ([p for _, p in world.train], [p for _, p in world.dev], world.test_places)
    total = sum(1 / (rank + 2) for rank in range(20))
    for part in parts:
        count = Counter(part)
        assert set(count) == set(world.places)  # so every place can be learned from train
        for rank, place in enumerate(world.places):
            assert abs(count[place] - len(part) / (rank + 2) / total) < 1
        assert 0.17 < count[world.places[0]] / len(part) < 0.2


# Rules that answer from the name alone, each learned on train.


def edit_distance(one: str, two: str) -> int:
    row = list(range(len(two) + 1))
    for number, letter in enumerate(one, 1):
        new = [number]
        for at, other in enumerate(two):
            new.append(min(row[at + 1] + 1, new[at] + 1, row[at] + (letter != other)))
        row = new
    return row[-1]


KEYS: dict[str, Callable[[str], Any]] = {
    "nothing": lambda name: None,
    "first name": lambda name: name.split()[0],
    "last name": lambda name: name.split()[1],
    "initial": lambda name: name[0],
    "initials": lambda name: name[0] + name.split()[1][0],
    "end of first name": lambda name: name.split()[0][-3:],
    "end of last name": lambda name: name[-2:],
    "length": len,
}


def hits_by_key(train: Pairs, dev: Pairs, key: Callable[[str], Any]) -> int:
    """Right answers of "most common birthplace of train people with this key, else of all"."""
    groups: dict[Any, Counter[str]] = defaultdict(Counter)
    for question, place in train:
        groups[key(name_in(question))][place] += 1
    everybody = Counter(place for _, place in train)
    guesses = [
        groups.get(key(name_in(question)), everybody).most_common(1)[0][0] for question, _ in dev
    ]
    return sum(place == guess for (_, place), guess in zip(dev, guesses, strict=True))


def hits_by_nearest(train: Pairs, dev: Pairs) -> int:
    """Right answers of "the birthplace of the train name with the smallest edit distance"."""
    known = [(name_in(question), place) for question, place in train]
    hits = 0
    for question, place in dev:
        name = name_in(question)
        hits += min(known, key=lambda pair: edit_distance(pair[0], name))[1] == place
    return hits


def most_by_chance(questions: int, chance: float) -> float:
    """Three standard deviations above the result of guessing."""
    return questions * chance + 3 * math.sqrt(questions * chance * (1 - chance))


@pytest.mark.parametrize("rule", KEYS)
def test_names_do_not_tell_the_birthplace(rule: str) -> None:
    worlds = [make_world(seed=seed, sentences=1) for seed in range(20)]
    hits = sum(hits_by_key(world.train, world.dev, KEYS[rule]) for world in worlds)
    assert hits <= most_by_chance(2000, 0.19)
    if rule == "nothing":
        assert hits == 20 * 19


def test_similar_names_do_not_tell_the_birthplace() -> None:
    worlds = [make_world(seed=seed, sentences=1) for seed in range(2)]
    assert sum(hits_by_nearest(world.train, world.dev) for world in worlds) <= most_by_chance(
        200, 0.19
    )


def test_the_rules_would_find_a_leak(default: World) -> None:
    """The same people, with places determined by their names: the checks above must fail."""

    def leaky(pairs: Pairs, part: int, length: int) -> Pairs:
        ends = [name_in(question).split()[part][-length:] for question, _ in pairs]
        places = [default.places[sum(end.encode()) % 20] for end in ends]
        return [(question, place) for (question, _), place in zip(pairs, places, strict=True)]

    by_last = leaky(default.train, 1, 9), leaky(default.dev, 1, 9)
    assert hits_by_key(*by_last, KEYS["last name"]) > most_by_chance(100, 0.19)
    by_first = leaky(default.train, 0, 3), leaky(default.dev, 0, 3)
    assert hits_by_nearest(*by_first) > most_by_chance(100, 0.19)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"people": 0}, ValueError, "people must be a whole number from 1 to 20000, got 0"),
        ({"people": 20_001}, ValueError, "people"),
        ({"people": 10.0}, TypeError, "people must be a whole number .* got 10.0"),
        ({"people": True}, TypeError, "people"),
        ({"places": 1}, ValueError, "places must be a whole number from 2 to 100, got 1"),
        ({"places": 101}, ValueError, "places"),
        ({"places": "20"}, TypeError, "places .* got '20'"),
        ({"sentences": 0}, ValueError, "sentences"),
        ({"sentences": 11}, ValueError, "sentences must be a whole number from 1 to 10, got 11"),
        ({"dev": -1}, ValueError, "dev"),
        ({"dev": None}, TypeError, "dev"),
        ({"people": 100}, ValueError, r"dev \(of 100 people\) .* from 0 to 99, got 100"),
        ({"test": 200}, ValueError, r"test \(of 300 people, 100 in dev\) .* to 199, got 200"),
        ({"test": 1.5}, TypeError, "test"),
        ({"seed": -1}, ValueError, "seed"),
        ({"seed": None}, TypeError, "seed"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"make_world: {message}"):
        make_world(**arguments)


def test_arguments_go_by_name_and_a_world_does_not_change(default: World) -> None:
    with pytest.raises(TypeError):
        make_world(300)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        default.corpus = ""  # type: ignore[misc]
