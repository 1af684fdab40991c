"""Attention heads that parse: their targets, their trees, and the scores."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import treebank
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import ops
from tinyattn.attention import Penalty
from tinyattn.backend import asnumpy
from tinyattn.data import PAD, Batch, DataError
from tinyattn.nn import weight_hooks
from tinyattn.parsing import (
    Parser,
    ParserConfig,
    ParserVocabulary,
    Sentence,
    TreeExamples,
    attachment,
    baselines,
    compare_penalties,
    load_parser,
    parse_sentences,
    split,
    train_parser,
)
from tinyattn.parsing.model import ROOT
from tinyattn.parsing.parser_comparison import as_table
from tinyattn.parsing.training import SETTINGS, parser_loss
from tinyattn.parsing.treebank import UNKNOWN, branching, pairs, places
from tinyattn.rng import DropoutRNG
from tinyattn.tasks import RunOptions
from tinyattn.tensor import Tensor
from tinyattn.training import CheckpointError, SettingError, checkpoint
from tinyattn.training.checkpoint import CHECKPOINT
from tinyattn.training.metrics import METRICS, read_metrics

SIZES = {"width": 16, "heads": 2, "layers": 1}
FAST = replace(SETTINGS, epochs=37, batch=8, learning_rate=0.02)
DOCUMENTS = treebank.documents(30)

PREFER = Sentence(
    ("I", "prefer", "the", "morning", "flight"), ("PRON", "VERB", "DET", "NOUN", "NOUN"),
    (2, 0, 5, 5, 2), ("nsubj", "root", "det", "compound", "obj"),
)  # fmt: skip
GO = Sentence(("Go", "the", "The"), ("VERB", "DET", "X"), (0, 1, 1), ("root", "det", "dep"))


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Parser, ParserVocabulary, list[Sentence]]:
    """A parser of the made-up grammar, and held-out sentences."""
    train, test = split(DOCUMENTS, seed=0)
    vocabulary = ParserVocabulary.of(train)
    config = ParserConfig(len(vocabulary), len(vocabulary.relations), context=20, **SIZES)
    options = RunOptions(tmp_path_factory.mktemp("run"), workers=1)
    model = train_parser(train, vocabulary, config, FAST, Penalty(), options)
    return load_parser(options.folder)[0], vocabulary, test if model else []


# From trees to targets ---------------------------------------------------------------------


def test_whole_documents_are_held_out_by_the_seed() -> None:
    train, test = split(DOCUMENTS, seed=0)
    assert (len(train), len(test)) == (24 * 4, 6 * 4)
    held = [d for d in DOCUMENTS if d[0] in test]
    assert test == [s for d in held for s in d]
    assert sorted(map(id, train + test)) == sorted(id(s) for d in DOCUMENTS for s in d)
    assert split(DOCUMENTS, seed=0) == (train, test) != split(DOCUMENTS, seed=1)
    assert [len(part) for part in split(DOCUMENTS[:2], seed=0, fraction=0.9)] == [4, 4]
    with pytest.raises(DataError, match="one document cannot be split"):
        split(DOCUMENTS[:1], seed=0)


def test_words_that_occur_twice_and_all_tags_have_their_own_ids() -> None:
    vocabulary = ParserVocabulary.of([PREFER, GO])
    assert vocabulary.words == ("the",)
    assert vocabulary.tags == ("DET", "NOUN", "PRON", "VERB", "X")
    assert vocabulary.relations == ("compound", "dep", "det", "nsubj", "obj", "root")
    assert len(vocabulary) == 9
    (ids,) = vocabulary.encode([replace(GO, tags=("VERB", "DET", "ADV"))])
    assert ids.tolist() == [[ROOT, ROOT], [UNKNOWN, 7], [3, 4], [3, UNKNOWN]]


def test_targets_contain_relation_and_governor_and_can_be_split() -> None:
    vocabulary = ParserVocabulary.of([PREFER, GO])
    data = TreeExamples([PREFER, GO], vocabulary, context=10, batch=2, seed=0)
    (batch,) = data.epoch(0)
    assert batch.inputs.shape == batch.targets.shape == (2, 6)
    (i,) = np.flatnonzero(batch.targets[:, -1] != PAD)
    relations = [vocabulary.relations.index(r) for r in PREFER.relations]
    wanted = [k * 6 + g for k, g in zip(relations, PREFER.governors, strict=True)]
    assert places(batch.targets, 10, -7)[i].tolist() == [-7, *wanted]
    relations = [vocabulary.relations.index(r) for r in GO.relations]
    wanted = [k * 6 + g for k, g in zip(relations, GO.governors, strict=True)]
    assert places(batch.targets, 10, -7)[1 - i].tolist() == [-7, *wanted, -7, -7]
    cut = batch.targets[1 - i : 2 - i, :4]  # as in `Batch.split`: the width changes
    assert places(cut, 10, -1)[0].tolist() == [
        -1, *(k * 4 + g for k, g in zip(relations, GO.governors, strict=True))
    ]  # fmt: skip
    tags = pairs(batch.inputs, len(vocabulary))[i, :, 1]
    assert_array_equal(tags, vocabulary.encode([PREFER])[0][:, 1])


def test_rare_words_are_sometimes_replaced() -> None:
    """`the` occurs twice: a ninth of the time."""
    vocabulary = ParserVocabulary.of([PREFER, GO])
    data = TreeExamples([PREFER, GO], vocabulary, context=10, batch=2, seed=0)
    words = np.concatenate(
        [
            pairs(batch.inputs, len(vocabulary))[..., 0]
            for e in range(400)
            for batch in data.epoch(e)
        ]
    )
    (seen,) = (np.count_nonzero(words == vocabulary.encode([GO])[0][2, 0]),)
    assert abs(seen / (400 * 3) - 3 / (3 + 0.25)) < 0.03
    assert np.count_nonzero(words == ROOT) == 800
    again = TreeExamples([PREFER, GO], vocabulary, context=10, batch=2, seed=0)
    assert_array_equal(data.epoch(7)[0].inputs, again.epoch(7)[0].inputs)


# Rules -------------------------------------------------------------------------------------


def test_rules_and_their_scores() -> None:
    assert branching([PREFER], -1) == [[0, 1, 2, 3, 4]]
    assert branching([PREFER], 1) == [[2, 3, 4, 5, 0]]
    rules = baselines([PREFER, GO], [PREFER])
    scores = {name: attachment(trees, [PREFER]) for name, trees in rules.items()}
    assert {n: (u.correct, k.correct, u.total) for n, (u, k) in scores.items()} == {
        # right governor: I; the most common relation is det (twice, like root, but before it)
        "left-branching": (2, 0, 5),
        "left-branching, majority label": (2, 2, 5),
        "right-branching": (0, 0, 5),
        "right-branching, majority label": (0, 0, 5),
    }
    assert rules["right-branching"][0][1] == ["det"] * 5
    assert rules["right-branching, majority label"][0][1] == [
        "nsubj", "root", "det", "compound", "compound"
    ]  # fmt: skip


def test_a_relation_is_right_only_with_its_governor() -> None:
    right = (list(PREFER.governors), list(PREFER.relations))
    wrong_governor = ([2, 0, 4, 5, 2], right[1])
    wrong_relation = (right[0], ["obj", *right[1][1:]])
    scores = attachment([right, wrong_governor, wrong_relation], [PREFER] * 3)
    assert [(s.correct, s.total) for s in scores] == [(14, 15), (13, 15)]


# Learning ----------------------------------------------------------------------------------


def test_the_loss_is_the_cross_entropy_of_governor_and_relation() -> None:
    train, _ = split(DOCUMENTS, seed=0)
    vocabulary = ParserVocabulary.of(train)
    config = ParserConfig(len(vocabulary), len(vocabulary.relations), context=20, **SIZES)
    model = Parser(config)
    (batch, *_) = TreeExamples(train, vocabulary, context=20, batch=96, seed=0).epoch(0)
    B, T = batch.inputs.shape
    weights: list[Tensor] = []
    hooks = weight_hooks(config.layers, weights)
    scores = model(pairs(batch.inputs, len(vocabulary)), hooks=hooks)
    surprise = -ops.log_softmax(scores.reshape(B, T, -1)).numpy()
    at = places(batch.targets, 20, 0)
    counts = batch.targets != PAD
    want = np.take_along_axis(surprise, at[..., None], axis=-1)[..., 0][counts].mean()
    found = parser_loss(model, Penalty())(batch, None, float(counts.sum())).item()
    assert_allclose(found, want, rtol=1e-5)
    penalty = Penalty(focus=0.5, near=0.1, cap=9)
    more = penalty(weights, counts, float(counts.sum())).item()
    assert more > 0.1
    found = parser_loss(model, penalty)(batch, None, float(counts.sum())).item()
    assert_allclose(found, want + more, rtol=1e-5)
    # The losses of parts of a batch, each cut to its longest row, sum to that of the batch.
    parts: list[Batch] = batch.split(3)
    assert min(part.inputs.shape[1] for part in parts) < T
    found = sum(parser_loss(model, penalty)(p, None, float(counts.sum())).item() for p in parts)
    assert_allclose(found, want + more, rtol=1e-5)


def test_on_another_device(device: str) -> None:
    train, test = split(DOCUMENTS[:4], seed=0)
    vocabulary = ParserVocabulary.of(train)
    config = ParserConfig(len(vocabulary), len(vocabulary.relations), context=20, **SIZES)
    (batch, *_) = TreeExamples(train, vocabulary, context=20, batch=6, seed=0).epoch(0)
    penalty = Penalty(focus=0.5, near=0.1)
    losses, found = [], []
    for model in (Parser(config), Parser(config, device=device)):
        loss = parser_loss(model, penalty)(batch, DropoutRNG(0, 0, 0), float(batch.trained))
        loss.backward()
        losses.append((loss.item(), np.abs(asnumpy(model.embedding.weight.grad)).sum()))
        found.append(parse_sentences(model, vocabulary, test))
    assert_allclose(losses[1], losses[0], rtol=1e-4)
    assert found[1][0] == found[0][0]
    assert_allclose([*found[1][1].values()], [*found[0][1].values()], rtol=1e-4)


def test_a_parser_learns_the_grammar(trained: Any) -> None:
    model, vocabulary, test = trained
    trees, heads = parse_sentences(model, vocabulary, test)
    governed, related = attachment(trees, test)
    rules = baselines([s for d in DOCUMENTS for s in d], test)
    best = max(attachment(t, test)[0].accuracy for t in rules.values())
    assert governed.accuracy > max(0.95, best + 0.3) and related.accuracy > 0.9
    assert governed.total == sum(map(len, test))
    assert 0 < heads["entropy"] < 3 and 0 < heads["distance"] <= 64
    alone = [parse_sentences(model, vocabulary, [s])[0][0] for s in test]
    assert alone == trees


def test_unknown_words_are_parsed_by_their_tags(trained: Any) -> None:
    model, vocabulary, test = trained
    strange = [replace(s, words=tuple("xyzzy" for _ in s.words)) for s in test]
    assert attachment(parse_sentences(model, vocabulary, strange)[0], strange)[0].accuracy > 0.7
    odd = replace(test[0], tags=("ODD", *test[0].tags[1:]))
    assert len(parse_sentences(model, vocabulary, [odd])[0][0][0]) == len(odd)


def test_the_same_seed_gives_the_same_parser(tmp_path: Path) -> None:
    train, _ = split(DOCUMENTS, seed=0)
    vocabulary = ParserVocabulary.of(train)
    config = ParserConfig(len(vocabulary), len(vocabulary.relations), context=20, **SIZES)
    settings = replace(FAST, epochs=1)
    states = [
        train_parser(train, vocabulary, config, settings, Penalty(near=0.01),
                     RunOptions(tmp_path / str(i), seed=seed, workers=1)).state()
        for i, seed in enumerate((3, 3, 4))
    ]  # fmt: skip
    same = [all((a == b).all() for a, b in zip(states[0].values(), s.values(), strict=True))
            for s in states[1:]]  # fmt: skip
    assert same == [True, False]


def test_penalties_lower_what_they_name(tmp_path: Path) -> None:
    """The table has a row for each rule and each parser, like its JSON."""
    penalties = [Penalty(), Penalty(focus=2.0), Penalty(near=1.0)]
    rows = compare_penalties(
        DOCUMENTS, penalties, RunOptions(tmp_path, workers=1),
        settings=replace(FAST, epochs=12), sizes=SIZES,
    )  # fmt: skip
    none, focus, near = (row.heads for row in rows[-3:])
    assert focus["entropy"] < 0.5 * none["entropy"] and near["distance"] < 0.5 * none["distance"]
    names = ["left-branching", "left-branching, majority label", "right-branching",
             "right-branching, majority label", "heads built from the tree",
             "parser, penalty: none", "parser, penalty: focus=2",
             "parser, penalty: near=1,cap=64"]  # fmt: skip
    assert [row.name for row in rows] == names
    assert rows[4].labelled.accuracy == 1.0
    assert all(row.unlabelled.correct >= row.labelled.correct for row in rows)
    table = as_table(rows).splitlines()
    assert len(table) == 2 + len(rows) and str(rows[0].unlabelled.total) in table[0]
    for line, row in zip(table[2:], rows, strict=True):
        assert line.startswith(f"  {row.name}  ")
        assert f"{100 * row.labelled.accuracy:.1f} %" in line
        found = json.loads(json.dumps(row.as_dict()))
        assert found["uas"]["total"] == rows[0].unlabelled.total
        assert (found["entropy"] is None) == (found["seconds"] is None) == (row.heads == {})
    assert {path.name for path in tmp_path.iterdir()} == {"none", "focus=2", "near=1,cap=64"}
    logs = {
        run: read_metrics(tmp_path / run / METRICS) for run in ("none", "focus=2", "near=1,cap=64")
    }
    assert logs["focus=2"][-1]["entropy"] < 0.6 * logs["none"][-1]["entropy"]
    assert logs["near=1,cap=64"][-1]["distance"] < 0.6 * logs["none"][-1]["distance"]
    with pytest.raises(SettingError, match="holds a run already"):
        compare_penalties(DOCUMENTS, penalties, RunOptions(tmp_path), sizes=SIZES)


def test_unsupported_penalties_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    for attention, penalty, message in (
        ("linformer", Penalty(near=0.1), "penalty near: 'linformer' cannot"),
        ("latent", Penalty(), "cannot be a parser's attention"),
        ("telepathy", Penalty(), "attention must be one of"),
    ):
        with pytest.raises(SettingError, match=message):
            compare_penalties(DOCUMENTS, [penalty], RunOptions(tmp_path / "out"),
                              attention=attention, sizes=SIZES)  # fmt: skip
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def parser_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("parser")
    settings = replace(SETTINGS, epochs=1)
    compare_penalties(DOCUMENTS, [Penalty()], RunOptions(folder), sizes=SIZES, settings=settings)
    return folder / "none"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": None}, "step must be a whole number"),
        ({"step": 10**6}, "step 1000000 is beyond its steps"),
        ({"seed": "0"}, "seed must be a whole number"),
        ({"model": None}, "model must be an object"),
        ({"model": {"vocabulary": 9}}, "relations"),
        ({"model.layers": 10**9}, "model: layers must be at most 10000; got 1000000000"),
        ({"model.layers": 10**4}, "model: 10000 layers of width 16 have more parameters than"),
        ({"vocabulary": None}, "vocabulary must be an object; got None"),
        ({"vocabulary": ["a"]}, "vocabulary must be an object"),
        ({"vocabulary": {"words": []}}, "vocabulary must be words, tags, relations; got words"),
        ({"vocabulary.words": None}, "vocabulary's words must be a list of strings"),
        ({"vocabulary.words": "abc"}, "vocabulary's words must be a list of strings"),
        ({"vocabulary.tags": {"a": 1}}, "vocabulary's tags must be a list of strings"),
        ({"vocabulary.relations": [1, 2]}, "vocabulary's relations must be a list of strings"),
        ({"vocabulary.relations": ["a", "a"]}, "vocabulary's relations contain a duplicate"),
        (
            {"vocabulary.relations": ["a"]},
            r"its vocabulary and relations are \(\d+, 1\), for a model of",
        ),
        (
            {"vocabulary.words": []},
            r"its vocabulary and relations are \(\d+, \d+\), for a model of",
        ),
        ({"model.norm.gain": np.nan}, r"norm\.gain is not finite \(NaN\)"),
        ({"model.norm.gain": np.inf}, r"norm\.gain is not finite"),
        ({"more": 1}, "more belongs to no model and no optimizer"),
    ],
)
def test_a_parser_that_does_not_fit_is_refused(
    parser_run: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    saved = checkpoint.load(parser_run / CHECKPOINT)
    arrays, about = saved.arrays, saved.about
    for key, value in change.items():
        table, _, inner = key.partition(".")
        if inner and inner in about.get(table, {}):
            about[table][inner] = value
        elif key in about:
            about[key] = value
        else:
            arrays[key] = np.full_like(arrays["model.norm.gain"], value)
    checkpoint.save(tmp_path / CHECKPOINT, arrays, about)
    with pytest.raises(CheckpointError, match=f"does not fit this program: .*{message}") as refused:
        load_parser(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_run_without_a_parser_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such file"):
        load_parser(tmp_path)
    checkpoint.save(tmp_path / "checkpoint.safetensors", {}, {"stage": "parse", "model": {}})
    with pytest.raises(CheckpointError, match="does not fit this program"):
        load_parser(tmp_path)
