"""The knowledge task: what it refuses, what it does not change, and that its seed decides."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyattn.data import PAD, Cloze, Corruption, DataError, World
from tinyattn.data.text import documents_of
from tinyattn.tasks.evaluation import answer, score
from tinyattn.tasks.examples import DocumentExamples
from tinyattn.tasks.knowledge import Trained
from tinyattn.tasks.lock import LOCK
from tinyattn.tasks.recipe import Recipe
from tinyattn.tasks.running import RunOptions, finetune, pretrain
from tinyattn.tasks.runs import CONFIG, CURVES, PREDICTIONS, load_run, open_run
from tinyattn.training import checkpoint
from tinyattn.training.checkpoint import CHECKPOINT, CheckpointError
from tinyattn.training.metrics import METRICS, read_metrics
from tinyattn.training.settings import SettingError

Small = Callable[..., Recipe]


def parameters(trained: Trained) -> np.ndarray:
    return np.concatenate([value.ravel() for value in trained.model.state().values()])


def test_the_seed_determines_the_result(people: World, small: Small, tmp_path: Path) -> None:
    a, b, other = (
        parameters(pretrain(people.corpus, small(), RunOptions(tmp_path, seed=seed)))
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(a, b)
    assert (a != other).any()


def test_workers_change_no_more_than_rounding(people: World, small: Small, tmp_path: Path) -> None:
    """With dropout, on sequences of many lengths: computers have different numbers of cores."""
    recipe = small(pretrain__optimizer="adamw", pretrain__learning_rate=1e-3)
    a, b = (
        parameters(pretrain(people.corpus, recipe, RunOptions(tmp_path, workers=workers)))
        for workers in (1, 3)
    )
    np.testing.assert_allclose(a, b, atol=2e-5)


def test_finetuning_starts_from_the_pretrained_model(
    people: World, pretrained: Trained, small: Small, tmp_path: Path
) -> None:
    still = small(finetune__learning_rate=0.0, finetune__weight_decay=0.0)
    finetuned = finetune(people.train, still, RunOptions(tmp_path), start=pretrained)
    np.testing.assert_array_equal(parameters(finetuned), parameters(load_run(tmp_path)))
    np.testing.assert_array_equal(parameters(finetuned), parameters(pretrained))
    assert finetuned.about["documents"] == pretrained.about["documents"]


def test_plain_prediction_reports_a_validation_loss(
    people: World, small: Small, tmp_path: Path
) -> None:
    recipe = small(data__objective="next", model__context=32)
    pretrain(people.corpus, recipe, RunOptions(tmp_path))
    entries = read_metrics(tmp_path / METRICS)
    vocabulary = len(set(people.corpus)) + 2
    assert [e["validation"] for e in entries] == pytest.approx([np.log(vocabulary)] * 4, rel=0.2)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"data__objective": "next", "model__context": 2000}, "more than one context of 2000"),
        ({"data__objective": "next", "data__validation": 0.0, "model__context": 2000},
         "0 of them for validation; each part needs more than one context"),
        ({"data__longest": 100},
         "data.longest 100 needs a model.context of at least 101, and .*; got 80"),
    ],
)  # fmt: skip
def test_a_corpus_that_does_not_fit_the_model_is_refused(
    people: World, small: Small, tmp_path: Path, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        pretrain(people.corpus, small(**more), RunOptions(tmp_path))


@pytest.mark.parametrize(
    ("pair", "unknown", "message"),
    [
        (("Where was Ada born?" * 5, "Zarg"), "error", "does not fit the model's context of 80"),
        (("Where was ßen born?", "Zarg"), "error", r"'ß' .* at position 11"),
        (("ßß", "Zarg"), "drop", "the question or the answer is empty"),
        (("Where was Ada born?", "ßß"), "drop", "the question or the answer is empty"),
    ],
)
def test_a_pair_that_cannot_be_learned_is_named(
    people: World, pretrained: Trained, small: Small, tmp_path: Path,
    pair: tuple[str, str], unknown: str, message: str,
) -> None:  # fmt: skip
    with pytest.raises(DataError, match=message):
        finetune([*people.train, pair], small(), RunOptions(tmp_path), start=pretrained,
                 unknown=unknown)  # fmt: skip


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_run_is_replaced_only_with_overwrite_and_after_the_data_is_checked(
    people: World, small: Small, tmp_path: Path
) -> None:
    run = RunOptions(tmp_path / "run")
    open_run(run.folder, overwrite=False)
    pretrain(people.corpus, small(), run)
    (run.folder / PREDICTIONS).write_text("Lozumb\n")

    before = contents(run.folder)
    with pytest.raises(SettingError, match=r"use --resume .*, --overwrite"):
        open_run(run.folder, overwrite=False, resumable=True)
    with pytest.raises(SettingError, match=r"holds a run already; use --overwrite"):
        open_run(run.folder, overwrite=False)
    open_run(run.folder, overwrite=True)
    with pytest.raises(DataError):
        pretrain(people.corpus, small(data__longest=100), run)
    assert contents(run.folder) == before
    pretrain(people.corpus, small(pretrain__steps=2), run)
    assert contents(run.folder).keys() == {
        CONFIG,
        METRICS,
        CHECKPOINT,
    }  # the predictions of the old model are gone
    assert load_run(run.folder).about["step"] == 2


@pytest.mark.parametrize("name", [CONFIG, METRICS, PREDICTIONS, CURVES])
def test_other_files_in_a_folder_without_a_run_are_kept(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(SettingError, match=rf"holds {name} already, and no checkpoint; use --over"):
        open_run(tmp_path, overwrite=False)
    with pytest.raises(SettingError, match="no checkpoint to resume; begin again with --overwrite"):
        open_run(tmp_path, overwrite=False, resume=True)
    assert open_run(tmp_path, overwrite=True) == tmp_path
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(SettingError, match=rf"holds {name} already"):
        open_run(tmp_path, overwrite=False)
    (tmp_path / name).unlink()
    assert open_run(tmp_path, overwrite=False) == tmp_path


def test_a_run_that_ended_before_its_first_checkpoint_may_be_started_again(
    people: World, small: Small, tmp_path: Path
) -> None:
    pretrain(people.corpus, small(), RunOptions(tmp_path))
    (tmp_path / CHECKPOINT).unlink()
    (tmp_path / LOCK).write_text("1\nelsewhere\n\n")
    config, log = (tmp_path / CONFIG).read_text(), (tmp_path / METRICS).read_text()
    assert log
    for left in (log, log + '{"step": 9, "ep', ""):
        (tmp_path / METRICS).write_text(left)
        assert open_run(tmp_path, overwrite=False) == tmp_path
        with pytest.raises(SettingError, match="to resume; leave out --resume to begin"):
            open_run(tmp_path, overwrite=False, resume=True)

    refused = "holds .*, and no checkpoint; use --overwrite"
    for name, text in {
        METRICS: "mine\n" + log, CONFIG: "# mine\n" + config, PREDICTIONS: "mine",
        CURVES: "mine",
    }.items():  # fmt: skip
        before = {CONFIG: config, METRICS: log}
        (tmp_path / name).write_text(text)
        with pytest.raises(SettingError, match=refused):
            open_run(tmp_path, overwrite=False)
        (tmp_path / name).unlink()
        if name in before:
            (tmp_path / name).write_text(before[name])
    for text in ("name = 'mine'", "[model]\nwidth = 8\n", "[model]\nwidth = ", "[tool]\na = 1\n"):
        (tmp_path / CONFIG).write_text(text)
        with pytest.raises(SettingError, match=refused):
            open_run(tmp_path, overwrite=False)
    (tmp_path / CONFIG).write_text(config)
    pretrain(people.corpus, small(), RunOptions(tmp_path))
    assert load_run(tmp_path).about["stage"] == "pretrain"


def test_only_the_run_itself_can_be_resumed(
    people: World, pretrained: Trained, small: Small, tmp_path: Path
) -> None:
    """A resume that is refused changes nothing."""
    run = RunOptions(tmp_path)
    pretrain(people.corpus, small(pretrain__steps=2), run)
    (tmp_path / PREDICTIONS).write_text("Lozumb\n")
    before, again = contents(tmp_path), replace(run, resume=True)
    adamw = small(pretrain__optimizer="adamw")
    for use, message in (
        (lambda: finetune(people.train, small(), again, start=pretrained),
         "a run with another stage"),
        (lambda: pretrain(people.corpus, small(model__layers=2), again),
         r"another model.layers \(\d, not 2\)"),
        (lambda: pretrain(people.corpus.replace("z", "Q"), small(), again),
         "a run with another vocabulary, another text"),
        (lambda: pretrain(people.corpus, small(), replace(again, seed=1)),
         "a run with another seed"),
        (lambda: pretrain(people.corpus, small(pretrain__batch=3), again),
         r"another pretrain.batch \(\d+, not 3\)"),
        (lambda: pretrain(people.corpus, small(data__words=1), again),
         r"another data.words \(\d, not 1\)"),
        (lambda: pretrain(people.corpus, small(), again, questions=people.train),
         "a run with other questions among its examples"),
        (lambda: pretrain(people.corpus, adamw, again),
         "optimizer state does not fit these settings: optimizer.0.first"),
    ):  # fmt: skip
        with pytest.raises(CheckpointError, match=message):
            use()
        assert contents(tmp_path) == before
    later = small(finetune__batch=3, scratch__batch=3)  # and no setting of pretraining
    assert pretrain(people.corpus, later, again).about["step"] == 4
    assert (tmp_path / PREDICTIONS).exists()  # the model is the same, the setting is another one


def test_a_finetuned_run_records_the_text_of_pretraining(
    people: World, pretrained: Trained, small: Small, tmp_path: Path
) -> None:
    run = RunOptions(tmp_path / "tuned")
    finetune(people.train, small(finetune__steps=2), run, start=pretrained)
    before, again = contents(run.folder), replace(run, resume=True)
    other = pretrain(people.corpus[::-1], small(), RunOptions(tmp_path / "other"))
    with pytest.raises(CheckpointError, match="another pretraining text"):
        finetune(people.train, small(), again, start=other)
    assert contents(run.folder) == before


def test_questions_mixed_into_pretraining_are_learned(
    people: World, small: Small, tmp_path: Path
) -> None:
    """Each once per epoch: a model without finetuning can answer them."""
    sizes: dict[str, Any] = {"model__dropout": 0.0, "pretrain__learning_rate": 0.02}
    asked = [question for question, _ in people.train]
    right = []
    for questions in (None, people.train):
        run, recipe = (
            RunOptions(tmp_path / str(questions is None)),
            small(**sizes, pretrain__steps=150),
        )
        trained = pretrain(people.corpus, recipe, run, questions=questions)
        right.append(score(answer(trained, asked), [place for _, place in people.train]).correct)
    assert right[0] == 0 and right[1] >= len(asked) / 2
    lines, pairs = documents_of(people.corpus), len(people.train)
    more = small(**sizes, pretrain__epochs=1, pretrain__steps=0, pretrain__batch=1)
    one = pretrain(people.corpus, more, RunOptions(tmp_path / "one"), questions=people.train)
    assert one.about["step"] == len(lines) + pairs


def test_a_cloze_needs_a_title(people: World, small: Small, tmp_path: Path) -> None:
    run, recipe = RunOptions(tmp_path), small(data__cloze=1.0)
    with pytest.raises(DataError, match=r"data.cloze needs documents that begin with a title"):
        pretrain(people.corpus, recipe, run)
    titled = "".join(f"{line.split()[0]}. {line}\n" for line in documents_of(people.corpus))
    lines = documents_of(titled)
    ids = [np.array([ord(c) for c in line]) for line in lines]
    for probability in (0.0, 0.5, 1.0):
        cloze = Cloze(probability, 2, 1, 0, 72)
        data = DocumentExamples(
            ids, Corruption(72, 0.0), 1, cloze=cloze, gaps=[cloze.gaps(line) for line in lines],
            batch=4, length=80, seed=0, shuffle=True,
        )  # fmt: skip
        given = [(data.example(i, np.random.default_rng(i))[1] == PAD).any()
                 for i in range(len(ids))]  # fmt: skip
        assert abs(np.mean(given) - probability) < 0.2 and (
            probability == 0.5 or len({*given}) == 1
        )
    for bad, message in (
        ({"data__cloze": 1.5}, "cloze and inline must be in 0..1; got 1.5, 0"),
        ({"data__cloze": 0.5, "data__objective": "next"}, "no clozes; .* set data.cloze to 0"),
        ({"data__inline": 0.5}, "inline 0.5 is a fraction of the clozes; set data.cloze too"),
    ):
        with pytest.raises(SettingError, match=message):
            small(**bad)
    assert pretrain(titled, small(data__cloze=0.5), run).about["step"] == 4


def test_questions_that_cannot_be_mixed_are_refused(
    people: World, small: Small, tmp_path: Path
) -> None:
    run, long = RunOptions(tmp_path), [("Where was " + "a" * 80, "Lozumb")]
    for recipe, pairs, error, message in (
        (small(), long, DataError, "does not fit the model's context of 80"),
        (small(), [("", "Lozumb")], DataError, "the question or the answer is empty"),
        (small(), [], DataError, "no pairs to learn from"),
        (small(), [("ß?", "Lozumb")], DataError, "'ß'"),
        (small(data__objective="next"), people.train, SettingError, "data.objective 'span'"),
    ):
        with pytest.raises(error, match=message):
            pretrain(people.corpus, recipe, run, questions=pairs)


def change(saved: checkpoint.Checkpoint, how: str) -> None:
    """Change a checkpoint so that only its reader can detect the damage."""
    about, head = saved.about, saved.arrays["model.head.weight"]
    match how:
        case "another shape":
            saved.arrays["model.head.weight"] = head[:, :-1]
        case "another precision":
            saved.arrays["model.head.weight"] = head.astype(np.float64)
        case "a parameter missing":
            del saved.arrays["model.head.weight"]
        case "one too many":
            saved.arrays["model.tail.weight"] = head
        case "not finite":
            saved.arrays["model.head.weight"] = np.where(head == head.max(), np.nan, head)
        case "neither a parameter nor a moment":
            saved.arrays["more"] = head
        case "a vocabulary too short":
            about["vocabulary"] = about["vocabulary"][:-1]
        case "no vocabulary":
            about["vocabulary"] = 5
        case "foreign characters":
            about["vocabulary"] = "ab" + about["vocabulary"][2:]
        case "an unknown setting":
            about["model"]["depth"] = 3
        case "more layers than it can hold":
            about["model"]["layers"] = 10**4
        case "wider than it can be":
            about["model"]["width"] = 2**20
        case "a recipe that is none":
            about["recipe"] = [1]
        case "no stage":
            del about["stage"]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("another shape", r"head\.weight should have shape \(16, \d+\), has"),
        ("another precision", r"head\.weight should be float32, is float64"),
        ("a parameter missing", r"head\.weight is missing"),
        ("one too many", r"tail\.weight is not a parameter here"),
        ("not finite", r"head\.weight is not finite \(NaN\)"),
        ("neither a parameter nor a moment", "more belongs to no model and no optimizer"),
        ("a vocabulary too short", r"\d+ characters for \d+ ids"),
        ("no vocabulary", "does not fit"),
        ("foreign characters", "the first two characters must be PAD and MASK"),
        ("an unknown setting", "no setting 'depth'"),
        (
            "more layers than it can hold",
            "10000 layers of width 16 have more parameters than it",
        ),
        ("wider than it can be", "1 layers of width 1048576 have more parameters than it holds"),
        ("a recipe that is none", "does not fit"),
        ("no stage", "its header lacks stage"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(
    pretrained: Trained, tmp_path: Path, how: str, message: str
) -> None:
    saved = load_run_again(pretrained, tmp_path)
    change(saved, how)
    checkpoint.save(tmp_path / CHECKPOINT, saved.arrays, saved.about)
    with pytest.raises(CheckpointError, match=rf"{CHECKPOINT}: .*{message}"):
        load_run(tmp_path)


WHOLE = r"must be a whole number from 0 to 18446744073709551615; got"


@pytest.mark.parametrize(
    ("key", "values", "message"),
    [
        ("step", [None, "x", -1, 1.5, True, [3], 2**64], WHOLE),
        ("step", [5, 2**63], r"\d+ is beyond its steps 4"),
        ("steps", [None, "4", 4.0, False], WHOLE),
        ("steps", [3], "3$"),
        ("seed", [None, "0", 0.0, -1, 2**64], WHOLE),
        ("documents", [None, "9", -1, 1.5, {}, True], WHOLE),
        ("stage", [None, 3, ["pretrain"], {}], "must be a string; got"),
        ("stage", ["", "pretraining"], "belongs to no task; the tasks are knowledge, parse"),
        ("vocabulary", [None, 5, ["a"], "\ud800"], "must be a string; got"),
        ("data", [None, 5], "must be a string; got"),
        ("questions", [None, []], "must be a string; got"),
        ("pretrained_on", [None, 0], "must be a string; got"),
        ("recipe", [None, "fast", [["model", {}]]], "must be an object; got"),
        ("recipe", [{"model": 5}, {"model": {"width": "16"}}, {"pretrain": [1]}], ""),
        ("model", [None, "gpt", [["width", 16]]], "must be an object; got"),
        ("model", [{}, {"width": None}], ""),
    ],
)
def test_a_header_that_does_not_fit_is_refused(
    pretrained: Trained, tmp_path: Path, key: str, values: list[Any], message: str
) -> None:
    saved = load_run_again(pretrained, tmp_path)
    for value in values:
        checkpoint.save(tmp_path / CHECKPOINT, saved.arrays, {**saved.about, key: value})
        pattern = rf"{CHECKPOINT}: does not fit this program: .*{key}.* {message}"
        with pytest.raises(CheckpointError, match=pattern) as refused:
            load_run(tmp_path)
        assert "\n" not in str(refused.value)


def load_run_again(trained: Trained, folder: Path) -> checkpoint.Checkpoint:
    """A copy that a test may change."""
    checkpoint.save(folder / CHECKPOINT, trained.checkpoint.arrays, trained.about)
    return checkpoint.load(folder / CHECKPOINT)
