"""The commands: what they print as text and as JSON, and which setting has priority."""

import errno
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import treebank

from tinyattn.cli import main
from tinyattn.measure import profile as profile_module
from tinyattn.report.progress import Progress
from tinyattn.tasks import evaluation
from tinyattn.tasks.recipe import load_recipe, recipe_from
from tinyattn.tasks.runs import load_run

AsJson = Callable[..., dict[str, Any]]
SCORE = {"correct", "total", "accuracy", "low", "high"}


def test_the_whole_job(tinyattn: Any, as_json: AsJson, tmp_path: Path) -> None:
    """World, pretrain, finetune, evaluate, generate: with options only, in a new folder."""
    pytest.importorskip("matplotlib")
    sizes = ["context=80", "layers=1", "heads=2", "width=32", "dropout=0"]
    tiny = [f"--set=model.{size}" for size in sizes] + ["--set=data.longest=72"]
    fast = ["optimizer=adamw", "learning_rate=0.01", "schedule=linear", "warmup=5", "batch=8"]
    world, first, second = tmp_path / "world", tmp_path / "pretrain", tmp_path / "finetune"
    tinyattn("world", "--out", world, "--people", 12, "--dev", 4, "--places", 3, "--sentences", 3)
    tinyattn("pretrain", world / "corpus.txt", "--out", first, *tiny, "--steps", 20,
             *[f"--set=pretrain.{s}" for s in fast])  # fmt: skip
    done = tinyattn("pretrain", world / "corpus.txt", "--out", tmp_path / "mixed", *tiny,
                    "--questions", world / "birth_train.tsv", "--steps", 2)  # fmt: skip
    assert "pretrained on corpus.txt and birth_train.tsv: step 2" in done.stdout
    for run, note in ((first, "never taught to answer"), (tmp_path / "mixed", "")):
        shown = tinyattn("evaluate", world / "birth_dev.tsv", "--from", run).stderr
        assert note in shown and bool(shown) == bool(note)
    done = tinyattn("finetune", world / "birth_train.tsv", "--from", first, "--out", second,
                    "--steps", 60, *[f"--set=finetune.{s}" for s in fast])  # fmt: skip
    assert "finetuned on birth_train.tsv: step 60, loss" in done.stdout

    for run, steps in ((first, 20), (second, 60)):
        text = (run / "config.toml").read_text()
        saved = recipe_from(tomllib.loads(text), "config")
        assert saved == load_recipe("a5", config=run / "config.toml") == load_run(run).recipe
        entries = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        assert entries[-1]["step"] == steps and entries[-1]["loss"] < entries[0]["loss"]
        assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")

    learnt = as_json("evaluate", world / "birth_train.tsv", "--from", second)
    assert learnt["total"] == 8 and learnt["accuracy"] > 0.5
    asked = tinyattn("evaluate", world / "birth_dev.tsv", "--from", second).stdout
    assert "of 4, " in asked and str(second / "predictions.tsv") in asked
    assert (second / "predictions.tsv").read_text().count("\n") == 4
    written = tinyattn("generate", "--from", second, "--prompt", "Who was", "--count", 5).stdout
    assert written.startswith("Who was") and len(written.rstrip("\n")) == 12


def test_quickstart(tinyattn: Any, as_json: AsJson, tmp_path: Path, job: Any) -> None:
    few = [f"--set={table}.steps=2" for table in ("pretrain", "finetune", "scratch")]
    tiny = ["--set=model.layers=1", "--set=model.heads=2", "--set=model.width=8"]
    out = tmp_path / "quick"
    result = as_json("quickstart", "--out", out, *few, *tiny)
    assert result.keys() == {"rows", "seconds", "folder"} and result["seconds"] > 0
    assert [row["name"] for row in result["rows"]] == [
        "most common place", "without pretraining", "pretrained"
    ]  # fmt: skip
    assert all(row.keys() == {"name"} | SCORE for row in result["rows"])
    assert {path.name for path in out.iterdir()} == {"world", "scratch", "pretrain", "finetune"}

    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    refused = tinyattn("quickstart", "--out", out, "--seed", 1, *few, *tiny, status=2)
    assert "use --resume" in refused.stderr or "--overwrite" in refused.stderr
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_evaluate(job: Any, tinyattn: Any, as_json: AsJson, tmp_path: Path) -> None:
    predictions = tmp_path / "p.tsv"
    found = as_json("evaluate", job.dev, "--from", job.finetuned, "--predictions", predictions)
    assert found.keys() == SCORE | {"predictions"} and found["total"] == 4
    assert predictions.read_bytes().count(b"\n") == 4
    file = job.finetuned / "checkpoint.safetensors"
    words = ["evaluate", job.dev, "--from", file, "--predictions", predictions]
    assert as_json(*words) == as_json(*words, "--workers", 1) == found


def test_evaluating_an_examination(
    job: Any, tinyattn: Any, as_json: AsJson, tmp_path: Path
) -> None:
    """Questions without answers give predictions and no score. If a question has no question mark,
    predictions are written only to a given file."""
    predictions = tmp_path / "p.tsv"
    words = ["evaluate", job.test, "--from", job.finetuned, "--predictions", predictions]
    outcome = tinyattn(*words).stdout
    assert "2 questions have no answers" in outcome and "correct" not in outcome
    assert str(predictions) in outcome
    assert predictions.read_bytes().count(b"\n") == 2
    assert as_json(*words) == {"total": 2, "predictions": str(predictions)}
    run = tmp_path / "run"
    shutil.copytree(job.finetuned, run)
    assert as_json("evaluate", job.test, "--from", run)["predictions"] == str(
        run / "predictions.tsv"
    )
    before = (run / "predictions.tsv").read_bytes()
    bare = tmp_path / "bare.txt"
    bare.write_text(job.test.read_text().replace("?", ""))
    for words in (["evaluate", bare, "--from", run], ["evaluate", job.corpus, "--from", run]):
        shown = tinyattn(*words, status=1).stderr
        assert "name a file for the answers with --predictions FILE" in shown
        assert (run / "predictions.tsv").read_bytes() == before
    assert as_json("evaluate", bare, "--from", run, "--predictions", predictions)["total"] == 2


def test_baseline(as_json: AsJson, tinyattn: Any, tmp_path: Path) -> None:
    dev, train = tmp_path / "dev.tsv", tmp_path / "train.tsv"
    dev.write_text("".join(f"q{i}\t{'London' if i < 25 else 'Paris'}\n" for i in range(500)))
    train.write_text("a\tLondon\r\nb\tParis\r\nc\tLondon\r\n", newline="")
    london = as_json("baseline", dev, "--answer", "London")
    assert london.keys() >= SCORE
    assert (london["correct"], london["total"], london["accuracy"]) == (25, 500, 0.05)
    assert (london["low"], london["high"]) == pytest.approx((0.0341, 0.0728), abs=5e-5)
    assert as_json("baseline", dev, "--train", train) == london
    assert "always London: 25 of 500, 5.0 %" in tinyattn("baseline", dev, "--train", train).stdout


def test_space_at_the_end_of_an_answer_is_ignored(
    job: Any, tinyattn: Any, as_json: AsJson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the score, in the most common answer, and in training."""
    dev, train = tmp_path / "dev.tsv", tmp_path / "train.tsv"
    dev.write_text("q\tOz \nr\tOz\r\ns\tYp\n")
    train.write_text("a\tOz  \nb\tOz \nc\tOz\nd\tYp\ne\tYp\n")
    for words in (["--answer", "Oz"], ["--answer", "Oz "], ["--train", train]):
        assert as_json("baseline", dev, *words)["correct"] == 2
    monkeypatch.setattr(evaluation, "answer", lambda *args, **options: ["Oz", "Oz", "Yp "])
    words = ["--from", job.finetuned, "--predictions", tmp_path / "p.tsv", "--train", train]
    found = tinyattn("evaluate", dev, *words, "--report", "--corpus", job.corpus, "--json")
    report = json.loads(found.stdout)
    assert report["correct"] == report["report"]["answers"]["correct"]["count"] == 2
    for name, end in (("plain", ""), ("spaced", " ")):
        lines = job.train.read_text().splitlines()
        train.write_text("".join(f"{line}{end}\n" for line in lines))
        tinyattn("finetune", train, "--from", job.pretrained, "--out", tmp_path / name)
    plain, spaced = (load_run(tmp_path / name) for name in ("plain", "spaced"))
    assert plain.about == spaced.about


def test_letters_that_look_the_same_give_a_note(
    job: Any, tinyattn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    composed, decomposed = "Zürich", unicodedata.normalize("NFD", "Zürich")
    pairs, train = tmp_path / "pairs.tsv", tmp_path / "train.tsv"
    corpus = tmp_path / "corpus.txt"
    pairs.write_text(f"q\t{composed}\nr\tOz\n", encoding="utf-8")
    train.write_text(f"W\t{decomposed}\nW\tOz\n", encoding="utf-8")
    corpus.write_text(f"{job.corpus.read_text()}Oz {composed} {decomposed}\n", encoding="utf-8")
    other, alike = "written in two forms of Unicode", "1 of 2 answers count as wrong, although"
    outcome = tinyattn("baseline", pairs, "--train", train)
    assert (
        other in outcome.stderr
        and f"{pairs}: NFC" in outcome.stderr
        and alike not in outcome.stderr
    )
    assert alike in tinyattn("baseline", pairs, "--answer", decomposed).stderr
    assert tinyattn("baseline", pairs, "--answer", composed).stderr == ""
    monkeypatch.setattr(evaluation, "answer", lambda *args, **options: [decomposed, "Oz"])
    words = ["--unknown", "drop", "--from", job.finetuned, "--predictions", tmp_path / "p.tsv"]
    assert alike in tinyattn("evaluate", pairs, *words).stderr
    outcome = tinyattn(
        "evaluate", pairs, *words, "--report", "--train", train, "--corpus", job.corpus
    )
    assert other in outcome.stderr and outcome.stdout.startswith("correct: 1 of 2")
    words = [*job.settings, "--out", tmp_path / "run", "--overwrite"]
    assert f"{corpus}: both" in tinyattn("pretrain", corpus, *words).stderr
    words = ["finetune", train, "--from", job.pretrained, "--out", tmp_path / "f"]
    dropped = tinyattn(*words, "--unknown", "drop").stderr
    assert (
        "'\u0308' (1)" in dropped and "the form" not in dropped
    )  # ü is not in its vocabulary either
    words[3] = tmp_path / "run"
    assert tinyattn(*words, "--overwrite").stderr == ""


@pytest.mark.parametrize("name", ["corpus.txt", "birth_dev.tsv", "birth_test_inputs.tsv"])
def test_a_world_replaces_files_only_with_overwrite(
    tinyattn: Any, tmp_path: Path, name: str
) -> None:
    """Also files that have the name of a file that it would write or omit."""
    own = tmp_path / name
    own.write_text("mine")
    words = ["world", "--people", 3, "--dev", 1, "--places", 2, "--out", tmp_path]
    assert f"holds {name} already; use --overwrite" in tinyattn(*words, status=2).stderr
    assert [own.read_text(), *tmp_path.iterdir()] == ["mine", own]
    quick = tmp_path / "quick"
    (quick / "world").mkdir(parents=True)
    own.rename(quick / "world" / name)
    assert "--overwrite" in tinyattn("quickstart", "--out", quick, status=2).stderr
    assert (quick / "world" / name).read_text() == "mine"
    tinyattn(*words[:-1], quick / "world", "--overwrite")
    assert "mine" not in {path.read_text() for path in (quick / "world").iterdir()}


def test_dropped_characters_give_a_note(job: Any, tinyattn: Any, tmp_path: Path) -> None:
    odd = tmp_path / "odd.tsv"
    known = job.train.read_text().split("\n")[0]
    odd.write_text(f"ßßäöüéñ{known}ß\n")
    note = ("note: dropped characters that are not in the vocabulary: 'ß' (3), 'ä' (1), 'ö' (1), "
            "'ü' (1), 'é' (1) and 1 more\n")  # fmt: skip
    finetune = ["finetune", odd, "--from", job.pretrained, *job.settings, "--unknown", "drop"]
    assert tinyattn(*finetune, "--out", tmp_path / "f").stderr == note
    evaluate = ["evaluate", odd, "--predictions", tmp_path / "p", "--unknown", "drop", "--from"]
    asked = tinyattn(*evaluate, job.finetuned).stderr
    assert asked == note.replace("(3)", "(2)")
    assert "never taught to answer" in tinyattn(*evaluate, job.pretrained).stderr


def test_a_question_longer_than_the_context_gives_a_note(
    job: Any, tinyattn: Any, tmp_path: Path
) -> None:
    asked, words = tmp_path / "long.tsv", ["--from", job.finetuned, "--predictions", tmp_path / "p"]
    for length, note in [(79, ""), (80, "note: 1 of 2 questions are longer than the model's ")]:
        asked.write_text(f"{'a' * length}\tx\na\tx\n")
        assert tinyattn("evaluate", asked, *words).stderr.startswith(note)


def test_pairs_that_are_used_as_a_text_give_a_note(job: Any, tinyattn: Any, tmp_path: Path) -> None:
    words = ["pretrain", job.train, "--out", tmp_path / "p", *job.settings]
    note = (f"note: every line of {job.train} has a tab, as in a file of questions and answers; "
            "that is for tinyattn finetune\n")  # fmt: skip
    assert tinyattn(*words).stderr == note
    mixed = tmp_path / "mixed.txt"
    mixed.write_text(job.train.read_text() + "And no tab.\n")
    assert tinyattn("pretrain", mixed, "--out", tmp_path / "m", *job.settings).stderr == ""


@pytest.mark.parametrize(
    "numbers",
    [
        ["optimizer=muon", "momentum=0.9"],
        ["optimizer=adamw", "beta1=0.8", "beta2=0.9", "eps=1e-4"],
        ["optimizer=sgd", "momentum=0.5"],
    ],
)
def test_the_hyperparameters_of_an_optimizer_are_settings(
    job: Any, as_json: AsJson, tmp_path: Path, numbers: list[str]
) -> None:
    sets = [f"--set=pretrain.{number}" for number in numbers]
    words = ["pretrain", job.corpus, *job.settings, "--overwrite", "--out", tmp_path / "run"]
    plain = as_json(*words, sets[0])
    assert as_json(*words, *sets)["loss"] != plain["loss"]
    kept = tomllib.loads((tmp_path / "run" / "config.toml").read_text())["pretrain"]
    for number in numbers:
        key, value = number.split("=")
        assert str(kept[key]) == value or kept[key] == float(value)


def test_training_and_world_report_as_json(job: Any, as_json: AsJson, tmp_path: Path) -> None:
    made = as_json("world", "--out", tmp_path / "w", "--people", 3, "--dev", 1, "--places", 2)
    assert (made["train"], made["dev"], made["test"]) == (2, 1, 0)
    run = as_json("pretrain", job.corpus, *job.settings, "--out", tmp_path / "p")
    assert run["step"] == 3 and run["folder"] == str(tmp_path / "p")
    scratch = ["finetune", job.train, "--corpus", job.corpus, *job.settings]
    assert as_json(*scratch, "--out", tmp_path / "s")["step"] == 3


def test_info(job: Any, tinyattn: Any, as_json: AsJson) -> None:
    machine = as_json("info")
    assert machine.keys() >= {"version", "devices", "backend", "threads", "blas"}
    assert "cpu" in machine["devices"] and "a5" in machine["recipes"]
    shown = tinyattn("info").stdout
    assert f"version: {machine['version']}\n" in shown
    assert "    text: Next-token prediction (a token is one character) on any text file" in shown
    run = as_json("info", "--from", job.finetuned)
    assert (run["stage"], run["step"], run["model.width"]) == ("finetune", 3, 16)
    printed = tinyattn("info", "--recipe", "a5").stdout
    assert tomllib.loads(printed) == as_json("info", "--recipe", "a5")


MISSING = "raise ModuleNotFoundError('No module named matplotlib', name='matplotlib')"
BROKEN = {
    "raise RuntimeError('built for another NumPy\\nand more')":
        "matplotlib does not work: RuntimeError: built for another NumPy and more",
    "raise SystemExit(3)": "matplotlib does not work: SystemExit: 3",
    "import matplotlib_inline_that_is_not_there":
        "matplotlib does not work: ModuleNotFoundError: No module named 'matplotlib_inline_that",
    "": "matplotlib does not work: ModuleNotFoundError: No module named 'matplotlib.backends'",
    f"raise ValueError('{'x' * 999}')": f"matplotlib does not work: ValueError: {'x' * 148}..",
}  # fmt: skip
"""Failures of matplotlib, and the note for each."""


@pytest.mark.parametrize("text", [MISSING, *BROKEN], ids=lambda text: text[:25])
def test_a_matplotlib_that_fails_loses_only_the_picture(
    job: Any, tinyattn: Any, as_json: AsJson, tmp_path: Path, matplotlib_is: Any, text: str
) -> None:
    """There is no note if matplotlib is not installed: then a run has no picture."""
    matplotlib_is(text)
    words = ["pretrain", job.corpus, *job.settings, "--out"]
    shown = tinyattn(*words, tmp_path / "told")
    silent = tinyattn(*words, tmp_path / "silent", "--json")
    assert "step 3, loss" in shown.stdout and json.loads(silent.stdout)["step"] == 3
    for result, run in ((shown, "told"), (silent, "silent")):
        note = f"note: no picture {tmp_path / run / 'curves.png'}: {BROKEN.get(text)}"
        assert result.stderr == "" if text == MISSING else result.stderr.startswith(note)
        assert result.stderr.count("\n") == (text != MISSING)
        assert not (tmp_path / run / "curves.png").exists()
    why = BROKEN.get(text, "pip install 'tinyattn[plot]'")
    assert as_json("info")["pictures"].startswith(f"no: {why}")
    assert f"pictures: no: {why}" in tinyattn("info").stdout


def test_a_picture_that_cannot_be_drawn_or_written_does_not_end_a_run(
    job: Any, tinyattn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    def fail(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "no room for fonts")

    words = ["pretrain", job.corpus, *job.settings, "--out", tmp_path, "--overwrite"]
    monkeypatch.setattr(Figure, "savefig", fail)
    assert re.fullmatch(r"note: no picture .*curves\.png: matplotlib does not work: OSError: .* no "
                        r"room for fonts\n", tinyattn(*words).stderr)  # fmt: skip
    monkeypatch.undo()
    monkeypatch.setattr("tinyattn.report.curves.write", fail)
    outcome = tinyattn(*words).stderr
    assert outcome == f"note: no picture {tmp_path / 'curves.png'}: no room for fonts\n"


@pytest.mark.parametrize("words", ["info", "info --json"])
def test_a_matplotlib_backend_that_is_not_installed(words: str) -> None:
    """Jupyter sets it for programs that a cell starts. An older matplotlib then cannot be imported;
    a newer one draws."""
    pytest.importorskip("matplotlib")
    environment = {**os.environ, "MPLBACKEND": "module://not_there.backend_inline"}
    command = [sys.executable, "-m", "tinyattn", *words.split()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    alone = subprocess.run([sys.executable, "-c", "import matplotlib"], env=environment,
                           capture_output=True, timeout=60)  # fmt: skip
    if "--json" in words:
        pictures = json.loads(done.stdout)["pictures"]
    else:
        pictures = re.findall(r"^pictures: (.*)$", done.stdout, flags=re.MULTILINE)[0]
    if alone.returncode:
        assert pictures.startswith("no: matplotlib does not work: ValueError: Key backend")
    else:
        assert pictures == "matplotlib"


def test_generate(job: Any, tinyattn: Any, as_json: AsJson) -> None:
    words = ["generate", "--from", job.pretrained, "--prompt", "Where", "--count", 100]
    text = as_json(*words)["text"]
    assert text.startswith("Where") and len(text) == 105  # more than the context of 80
    assert tinyattn(*words).stdout == text + "\n"
    assert as_json(*words, "--seed", 1)["text"] != text
    greedy = [as_json(*words, "--temperature", 0, "--seed", s)["text"] for s in (0, 1)]
    assert greedy[0] == greedy[1] == as_json(*words, "--top-k", 1)["text"]
    dropped = tinyattn(*words[:-2], "--count", 1, "--unknown", "drop", "--prompt", "ßAß")
    assert dropped.stdout[0] == "A"
    assert dropped.stderr == "note: dropped characters that are not in the vocabulary: 'ß' (2)\n"


def test_options_come_before_the_environment_and_that_before_the_file(
    job: Any, tinyattn: Any, as_json: AsJson, tmp_path: Path
) -> None:
    words = ["pretrain", job.corpus, *job.settings, "--overwrite", "--out", tmp_path]
    environment = {"TINYATTN_PRETRAIN_STEPS": "2", "TINYATTN_PRETRAIN_SEED": "7"}
    tinyattn(*words, env=environment)
    run = as_json("info", "--from", tmp_path)
    assert (run["steps"], run["seed"], run["model.width"]) == (2, 7, 16)
    tinyattn(*words, "--steps", 1, "--set", "model.width=8", env=environment)
    run = as_json("info", "--from", tmp_path)
    assert (run["steps"], run["seed"], run["model.width"]) == (1, 7, 8)


def test_epochs_have_priority_over_the_steps_of_the_recipe(
    job: Any, as_json: AsJson, tmp_path: Path
) -> None:
    words = ["pretrain", job.corpus, *job.settings, "--out", tmp_path / "run"]
    documents = len(job.corpus.read_text().splitlines())
    assert as_json(*words, "--set", "pretrain.batch=50", "--epochs", 2)["step"] == 2 * -(
        -documents // 50
    )


def test_finetuning_uses_the_settings_of_pretraining(job: Any, as_json: AsJson) -> None:
    before, after = (as_json("info", "--from", run) for run in (job.pretrained, job.finetuned))
    assert {k: v for k, v in before.items() if k.startswith("model.")} == {
        k: v for k, v in after.items() if k.startswith("model.")
    }
    assert load_run(job.finetuned).recipe == load_run(job.pretrained).recipe


@pytest.mark.parametrize("command", main.commands)
def test_every_command_has_help(tinyattn: Any, command: str) -> None:
    outcome = tinyattn(command, "--help").stdout
    assert outcome.startswith("Usage:") and "--json" in outcome
    assert tinyattn(command, "-h").stdout == outcome
    assert "\\" not in outcome  # characters for the layout
    examples = re.findall(r"^ +tinyattn (.*)$", main.commands[command].help or "", re.M)
    assert all(f"\n  tinyattn {example}\n" in outcome for example in examples)  # one line each


@pytest.mark.parametrize("command", ["finetune", "evaluate"])
def test_the_help_shows_the_format_of_questions(tinyattn: Any, command: str) -> None:
    outcome = tinyattn(command, "--help").stdout
    assert "\n    Where was Ada King born?<tab>London\n" in outcome and "one tab" in outcome


@pytest.mark.parametrize(
    "command", [name for name, one in main.commands.items() if "cli" in one.callback.__module__]
)
def test_the_list_of_commands_has_the_whole_first_sentence(tinyattn: Any, command: str) -> None:
    (line,) = re.findall(rf"^  {command} +(.*)$", tinyattn("--help").stdout, re.M)
    assert line.endswith(".") and not line.endswith("...")


def test_a_corpus_with_windows_line_ends_and_a_byte_order_mark_is_the_same(
    job: Any, tinyattn: Any, tmp_path: Path
) -> None:
    windows = tmp_path / "windows.txt"
    windows.write_bytes(b"\xef\xbb\xbf" + job.corpus.read_bytes().replace(b"\n", b"\r\n"))
    tinyattn("pretrain", windows, *job.settings, "--out", tmp_path / "run")
    there, here = load_run(tmp_path / "run"), load_run(job.pretrained)
    assert there.about == here.about
    for name, array in here.checkpoint.arrays.items():
        np.testing.assert_array_equal(there.checkpoint.arrays[name], array)


def test_an_evaluation_that_fails_keeps_earlier_predictions(
    tinyattn: Any, job: Any, tmp_path: Path
) -> None:
    kept, bad = tmp_path / "kept.tsv", tmp_path / "bad.tsv"
    kept.write_text("Lozumb\n")
    bad.write_text("Where was 日 born?\tLozumb\n", encoding="utf-8")
    tinyattn("evaluate", bad, "--from", job.finetuned, "--predictions", kept, status=1)
    assert kept.read_text() == "Lozumb\n"


@pytest.mark.parametrize("command", ["pretrain", "profile", "compare", "parse", "quickstart"])
def test_commands_work_with_a_clock_that_does_not_advance(
    job: Any, tinyattn: Any, as_json: AsJson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:  # fmt: skip
    """All printed numbers are finite."""
    monkeypatch.setattr(profile_module, "PRODUCT", 64)
    for clock in ("perf_counter", "thread_time"):
        monkeypatch.setattr(time, clock, lambda: 5.0)
    treebank_file = tmp_path / "small.conllu"
    treebank_file.write_text(treebank.as_conllu(treebank.documents(5)), encoding="utf-8")
    tiny = ["--set=model.layers=1", "--set=model.heads=2", "--set=model.width=8"]
    few = [f"--set={table}.steps=2" for table in ("pretrain", "finetune", "scratch")]
    words = {
        "pretrain": [job.corpus, *job.settings, "--overwrite", "--out", tmp_path / "run"],
        "profile": [*tiny, "--set=model.context=16", "--batch", 2, "--vocabulary", 9],
        "compare": ["--lengths", "8,16", "--width", 8, "--heads", 2, "--rounds", 1],
        "parse": [treebank_file, "--epochs", 1],
        "quickstart": [*tiny, *few, "--overwrite", "--out", tmp_path / "runs"],
    }[command]
    assert tinyattn(command, *words).stdout
    found = json.dumps(as_json(command, *words))
    assert "NaN" not in found and "Infinity" not in found


@pytest.mark.parametrize("stderr", [None, io.StringIO()], ids=["none", "closed"])
def test_a_progress_bar_needs_no_stderr(monkeypatch: pytest.MonkeyPatch, stderr: Any) -> None:
    """In a program without a command line."""
    if stderr is not None:
        stderr.close()
    monkeypatch.setattr(sys, "stderr", stderr)
    with Progress() as bar:
        bar.start(0, 2)
        bar.step({"loss": 1.0, "learning_rate": 0.1, "tokens_per_second": 9})
        bar.advance(1)
