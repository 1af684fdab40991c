"""Reports about text: unknown characters, locales without UTF-8, line ends of other systems."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tinyattn.cli import main
from tinyattn.data import DataError, Vocabulary, documents_of, read_pairs, read_text
from tinyattn.tasks.evaluation import save_predictions
from tinyattn.tasks.runs import load_run
from tinyattn.training import checkpoint

PLACES = {"Zoë": "Zürich", "Łukasz": "Łódź", "Ana": "São Paulo", "Ilse": "Köln", "Åsa": "Malmö"}
CORPUS = "".join(f"{name} was born in {place}. Was she?\n" for name, place in PLACES.items())
PAIRS = "".join(f"Was {name} born?\t{place}\n" for name, place in PLACES.items())
TINY = [f"--set={s}" for s in ("model.layers=1", "model.heads=1", "model.width=4",
                               "model.context=48", "model.dropout=0.1", "data.longest=47",
                               "pretrain.steps=3", "finetune.steps=3", "scratch.steps=2",
                               "pretrain.batch=4")]  # fmt: skip
ONE = ["--workers", "1"]


def files(folder: Path, corpus: bytes, pairs: bytes) -> None:
    (folder / "corpus.txt").write_bytes(corpus)
    (folder / "pairs.tsv").write_bytes(pairs)


def run(folder: Path, *words: Any, status: int = 0) -> Result:
    """Call a command in a folder, in this process; a traceback is a failure."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        result = CliRunner().invoke(main, [str(word) for word in words])
    finally:
        os.chdir(before)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == status, result.output
    return result


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, pairs, and the runs `p` and `f` of a tiny model."""
    folder = tmp_path_factory.mktemp("trained")
    files(folder, CORPUS.encode(), PAIRS.encode())
    run(folder, "pretrain", "corpus.txt", "--out", "p", *TINY, *ONE)
    run(folder, "finetune", "pairs.tsv", "--from", "p", "--out", "f", *ONE)
    return folder


# a: prompts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "character", "position"),
    [("dß", "ß", 2), ("Was 日 born", "日", 5), ("\t", "\\t", 1), ("Zo\u0308e", "\u0308", 3),
     ("Was \U0001f600", "\U0001f600", 5), ("Was\r", "\\r", 4)],
)  # fmt: skip
def test_an_unknown_character_is_named_with_its_position_and_the_vocabulary(
    trained: Path, prompt: str, character: str, position: int
) -> None:
    """karpathy/nanoGPT#434: one line on stderr, no traceback, no bare KeyError."""
    for words in (["generate", "--from", "p", "--prompt", prompt],):
        outcome = run(trained, *words, status=1)
        assert outcome.stdout == ""
        assert re.fullmatch(r"tinyattn: .*\n", outcome.stderr), outcome.stderr
        for part in (f"'{character}'", f"position {position}", "vocabulary of 3", "--unknown drop"):
            assert part in outcome.stderr
    vocabulary = Vocabulary.from_text(CORPUS)
    with pytest.raises(DataError, match=f"position {position}, in"):
        vocabulary.encode(prompt)
    assert vocabulary.decode(vocabulary.encode(prompt, unknown="drop")) == vocabulary.known(prompt)


def test_an_unknown_character_in_a_question_is_the_same_error(
    trained: Path, tmp_path: Path
) -> None:
    """In finetuning and in evaluation; or with --unknown drop it is left out."""
    odd = tmp_path / "odd.tsv"
    odd.write_text(PAIRS + "Was Søren born?\tMalmö\n", encoding="utf-8")
    for command, start in (("finetune", "p"), ("evaluate", "f")):
        words = [command, odd, "--from", start]
        more = ["--out", tmp_path / "out"] if command == "finetune" else []
        outcome = run(trained, *words, *more, status=1)
        assert "'ø' (U+00F8) at position 6" in outcome.stderr and outcome.stderr.count("\n") == 1
        run(trained, *words, *more, "--unknown", "drop")


def test_a_question_without_known_characters_is_refused(trained: Path, tmp_path: Path) -> None:
    """Dropping unknown characters must not give an empty example."""
    for pair in ("日本\tKöln\n", "Was Ana born?\t日本\n"):
        odd = tmp_path / "odd.tsv"
        odd.write_text(PAIRS + pair, encoding="utf-8")
        outcome = run(trained, "finetune", odd, "--from", "p", "--unknown", "drop",
                   "--out", tmp_path / "out", status=1)  # fmt: skip
        assert (
            "the question or the answer is empty" in outcome.stderr
            and outcome.stderr.count("\n") == 1
        )
        assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("*.safetensors"))
    odd.write_text("日本\tKöln\n", encoding="utf-8")
    assert "empty" in run(trained, "evaluate", odd, "--from", "f", "--unknown", "drop",
                          "--predictions", tmp_path / "out.tsv", status=1).stderr  # fmt: skip


@pytest.mark.parametrize("more", [["--unknown", "error"], ["--unknown", "drop"]])
def test_an_empty_prompt_is_refused(trained: Path, more: list[str]) -> None:
    """karpathy/nanoGPT#711: with a clear error, because a model needs at least one token."""
    for prompt in ("", *(["日本"] if "drop" in more else [])):
        outcome = run(trained, "generate", "--from", "p", "--prompt", prompt, *more, status=1)
        assert "the prompt is empty" in outcome.stderr and outcome.stdout == ""


def test_scores_of_nan_do_not_raise_a_key_error(trained: Path, tmp_path: Path) -> None:
    """karpathy/nanoGPT#711: NaN weights, and weights so large that the scores overflow."""
    saved = checkpoint.load(trained / "p" / "checkpoint.safetensors")
    whole = saved.arrays["model.norm.gain"], saved.arrays["model.head.weight"]
    for name, (gain, head) in {
        "nan": (np.nan, 1),
        "inf": (np.inf, 1),
        "huge": (3e38, 3e38),
    }.items():
        file = tmp_path / f"{name}.safetensors"
        saved.arrays["model.norm.gain"] = np.full_like(whole[0], gain)
        saved.arrays["model.head.weight"] = np.full_like(whole[1], head)
        checkpoint.save(file, saved.arrays, saved.about)
        for words in (["generate", "--prompt", "Was"], ["evaluate", "pairs.tsv"]):
            with np.errstate(all="ignore"):
                outcome = run(trained, *words, "--from", file, status=1)
            assert re.fullmatch(r"tinyattn: .*(not finite|NaN or ∞).*\n", outcome.stderr)


# b: locales -------------------------------------------------------------------------------

OTHER = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
UNICODE = {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}

COMMANDS: dict[str, list[str]] = {
    "quickstart": ["quickstart", "--out", "schnëll", *TINY, *ONE, "--set=model.context=80",
                   *[f"--set={t}.steps=1" for t in ("pretrain", "finetune", "scratch")]],
    "world": ["world", "--out", "wörld", "--people", "6", "--dev", "2", "--places", "2"],
    "pretrain": ["pretrain", "corpüs.txt", "--out", "früh", "--config", "stücke.toml", *ONE],
    "finetune": ["finetune", "pairs.tsv", "--from", "früh", "--out", "spät", *ONE],
    "scratch": ["finetune", "pairs.tsv", "--corpus", "corpüs.txt", "--out", "ohne", *TINY, *ONE,
                "--steps", "1"],
    "next": ["pretrain", "corpüs.txt", "--objective", "next", "--out", "n", *TINY, *ONE,
             "--set=model.context=8", "--set=data.validation=0.2", "--steps", "1", "--json"],
    "evaluate": ["evaluate", "pairs.tsv", "--from", "spät"],
    "evaluate json": ["evaluate", "pairs.tsv", "--from", "spät", "--predictions", "öut.tsv",
                      "--json"],
    "baseline": ["baseline", "pairs.tsv", "--answer", "Zürich"],
    "baseline json": ["baseline", "pairs.tsv", "--train", "pairs.tsv", "--json"],
    "generate": ["generate", "--from", "früh", "--prompt", "Åsa was born in Ł", "--count", "60"],
    "generate json": ["generate", "--from", "früh", "--prompt", "Zoë ", "--count", "20", "--json"],
    "info": ["info", "--from", "spät"],
    "unknown character": ["generate", "--from", "früh", "--prompt", "ß日"],
    "missing file": ["generate", "--from", "nïrgends", "--prompt", "x"],
    "wrong usage": ["pretrain", "--objective", "nonsense", "x"],
    "unknown command": ["pretrian"],
    "help": ["--help"],
    "recipe": ["info", "--recipe", "a5"],
}  # fmt: skip


DRIVER = """
import os, sys
commands = [[]]
for word in sys.argv[1:]:
    commands.append([]) if word == "THEN" else commands[-1].append(word)
from tinyattn.cli import main
streams = [(stream, stream.encoding, stream.errors) for stream in (sys.stdout, sys.stderr)]
for words in commands:
    for stream, encoding, errors in streams:
        stream.reconfigure(encoding=encoding, errors=errors)
    sys.argv, status = ["tinyattn", *words], 0
    try:
        main(prog_name="tinyattn")
    except SystemExit as end:
        status = end.code or 0
    for stream, _, _ in streams:
        stream.flush()
    os.write(1, b"\\0%d\\0" % status)
    os.write(2, b"\\0")
"""
"""Runs commands one after the other in one process, each with the streams of the system."""


def run_all(folder: Path, locale: dict[str, str]) -> dict[str, tuple[int, bytes, bytes]]:
    """Exit status, stdout and stderr of every command in turn."""
    folder.mkdir()
    (folder / "corpüs.txt").write_bytes(CORPUS.encode())
    (folder / "pairs.tsv").write_bytes(PAIRS.encode())
    tables: dict[str, list[str]] = {}
    for item in TINY:
        table, _, setting = item.removeprefix("--set=").partition(".")
        tables.setdefault(table, []).append(setting.replace("=", " = "))
    text = "# Stücke\n" + "".join(f"[{t}]\n" + "\n".join(s) + "\n" for t, s in tables.items())
    (folder / "stücke.toml").write_bytes(text.encode())
    environment = {k: v for k, v in os.environ.items() if k not in ("LANG", "PYTHONIOENCODING")}
    root = str(Path(__file__).parents[2])
    environment |= {**locale, "PYTHONPATH": root, "COLUMNS": "80"}
    words = [word for command in COMMANDS.values() for word in ("THEN", *command)][1:]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", DRIVER, *[word.encode() for word in words]],
        cwd=folder, env=environment, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:].decode()
    out, err = done.stdout.split(b"\0"), done.stderr.split(b"\0")
    outcome = zip(map(int, out[1::2]), out[::2], err, strict=False)
    return dict(zip(COMMANDS, outcome, strict=True))


Played = tuple[dict[str, tuple[int, bytes, bytes]], Path]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Played, Played]:
    """All commands in a locale without UTF-8, and in one with it."""
    folders = [tmp_path_factory.mktemp("locale") / name for name in ("ascii", "unicode")]
    with ThreadPoolExecutor(2) as executor:
        outcome = list(executor.map(run_all, folders, (OTHER, UNICODE)))
    return (outcome[0], folders[0]), (outcome[1], folders[1])


def without_times(text: bytes) -> bytes:
    """Output without the parts that depend on a clock."""
    text = re.sub(rb'"(seconds|tokens_per_second)": [\d.]+', b'"x": 0', text)
    return re.sub(rb"\b\d+ s(econds)?\b", b"0 s", text)


@pytest.mark.skipif(sys.platform == "win32", reason="a locale of Linux and macOS")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_writes_the_same_bytes_under_every_locale(
    played: tuple[Played, Played], name: str
) -> None:
    """karpathy/nanoGPT#273, #429, openai/gpt-2#28: stdout, stderr and exit status.

    Names of files and arguments contain other characters than ASCII too.
    """
    (plain, _), (unicode, _) = played
    status, out, err = plain[name]
    assert status == unicode[name][0]
    assert without_times(out) == without_times(unicode[name][1])
    assert without_times(err) == without_times(unicode[name][2])
    expected = {"unknown character": 1, "missing file": 1, "wrong usage": 2, "unknown command": 2}
    assert status == expected.get(name, 0), err
    assert b"Traceback" not in err and b"Warning" not in err
    assert (err == b"") == (status == 0)
    out.decode("utf-8")
    if name == "generate":
        assert out.decode().startswith("Åsa was born in Ł")
    if name == "baseline":
        assert out.decode().startswith("always Zürich: 1 of 5")


@pytest.mark.skipif(sys.platform == "win32", reason="a locale of Linux and macOS")
def test_files_are_the_same_bytes_under_every_locale(played: tuple[Played, Played]) -> None:
    """karpathy/nanoGPT#429: worlds, checkpoints, settings and predictions."""
    (_, ours), (_, theirs) = played
    compared = 0
    for path in sorted(theirs.rglob("*")):
        same = ours / path.relative_to(theirs)
        assert same.exists(), same
        if path.suffix in (".txt", ".tsv", ".toml", ".safetensors"):
            assert same.read_bytes() == path.read_bytes(), path
            compared += 1
        if path.suffix == ".jsonl":
            assert without_times(same.read_bytes()) == without_times(path.read_bytes())
    assert compared >= 15
    assert "Zürich" in (ours / "corpüs.txt").read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="a locale of Linux and macOS")
def test_the_program_itself_decodes_its_arguments_in_such_a_locale(tmp_path: Path) -> None:
    """openai/gpt-2#28: `python -m tinyattn` in its own process."""
    (tmp_path / "pairs.tsv").write_bytes(PAIRS.encode())
    words = ["baseline", "pairs.tsv", "--answer", "Łódź"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tinyattn", *[word.encode() for word in words]],
        cwd=tmp_path, env={**os.environ, **OTHER, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("always Łódź: 1 of 5".encode()) and done.stderr == b""


@pytest.mark.parametrize("name", ["日本語.txt", "a$b_{c$.txt", "x^2$.txt", "emoji \U0001f600.txt"])
def test_a_corpus_may_have_any_name(tmp_path: Path, name: str) -> None:
    """The name is the title of a picture; it must not make a finished run fail."""
    (tmp_path / name).write_text(CORPUS, encoding="utf-8")
    outcome = run(tmp_path, "pretrain", name, "--out", "p", *TINY, *ONE)
    assert outcome.stderr == "" and outcome.stdout.startswith(f"pretrained on {name}: step 3, loss")


def test_help_has_only_ascii() -> None:
    """Help is printed before the encoding of the streams is set."""
    for words in ([], *[[command] for command in main.commands]):
        outcome = CliRunner().invoke(main, [*words, "--help"])
        assert outcome.exit_code == 0 and outcome.output.isascii()


# c: line ends -----------------------------------------------------------------------------

VARIANTS: dict[str, Callable[[str], bytes]] = {
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "CR": lambda text: text.replace("\n", "\r").encode(),
    "no final newline": lambda text: text.rstrip("\n").encode(),
    "byte-order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "mark, CRLF, no final newline": lambda text: (
        b"\xef\xbb\xbf" + text.rstrip("\n").replace("\n", "\r\n").encode()
    ),
    "CRLF and a final LF": lambda text: text.replace("\n", "\r\n", 3).encode(),
    "blank lines behind": lambda text: text.encode() + b"\r\n\r\n",
}


@pytest.mark.parametrize("name", VARIANTS)
def test_line_ends_change_neither_vocabulary_nor_ids_nor_questions(
    tmp_path: Path, name: str
) -> None:
    """sherjilozair/char-rnn-tensorflow#97: no carriage return becomes a token."""
    files(tmp_path, VARIANTS[name](CORPUS), VARIANTS[name](PAIRS))
    text = read_text(tmp_path / "corpus.txt")
    vocabulary, expected = Vocabulary.from_text(text), Vocabulary.from_text(CORPUS)
    assert vocabulary.characters == expected.characters and "\r" not in vocabulary.characters
    assert documents_of(read_text(tmp_path / "corpus.txt")) == CORPUS.splitlines()
    documents = documents_of(text, blank_lines=False)
    assert documents == CORPUS.splitlines()
    for ours, theirs in zip(documents, CORPUS.splitlines(), strict=True):
        np.testing.assert_array_equal(vocabulary.encode(ours), expected.encode(theirs))
    pairs = read_pairs(tmp_path / "pairs.tsv")
    assert pairs == [(f"Was {name} born?", place) for name, place in PLACES.items()]


@pytest.mark.parametrize("name", ["CRLF", "mark, CRLF, no final newline"])
def test_a_whole_job_on_such_files_gives_the_same_model_predictions_and_score(
    trained: Path, tmp_path: Path, name: str
) -> None:
    """All bits are equal, also of the last record."""
    files(tmp_path, VARIANTS[name](CORPUS), VARIANTS[name](PAIRS))
    run(tmp_path, "pretrain", "corpus.txt", "--out", "p", *TINY, *ONE)
    run(tmp_path, "finetune", "pairs.tsv", "--from", "p", "--out", "f", *ONE)
    for stage in ("p", "f"):
        ours, theirs = (load_run(folder / stage) for folder in (tmp_path, trained))
        assert ours.vocabulary.characters == theirs.vocabulary.characters
        assert ours.about == theirs.about
        for key, array in theirs.checkpoint.arrays.items():
            np.testing.assert_array_equal(ours.checkpoint.arrays[key], array)
    scores = [
        json.loads(run(folder, "evaluate", "pairs.tsv", "--from", "f", "--json").stdout)
        for folder in (tmp_path, trained)
    ]
    assert scores[0] == scores[1] and scores[0]["total"] == 5
    lines = [(folder / "f" / "predictions.tsv").read_bytes() for folder in (tmp_path, trained)]
    assert lines[0] == lines[1] and lines[0].count(b"\n") == 5
    always = run(tmp_path, "baseline", "pairs.tsv", "--answer", "Malmö").stdout
    assert always.startswith("always Malmö: 1 of 5")  # the last record, newline or not


def test_settings_files_may_come_from_windows(trained: Path, tmp_path: Path) -> None:
    """A TOML file with a byte order mark and CRLF has its settings."""
    config = tmp_path / "settings.toml"
    text = "# für Windows\r\n[pretrain]\r\nsteps = 1\r\nschedule = 'cosine'\r\n"
    config.write_bytes(b"\xef\xbb\xbf" + text.encode())
    run(trained, "pretrain", "corpus.txt", "--out", tmp_path / "w", "--config", config,
        *[item for item in TINY if "pretrain.steps" not in item], *ONE)  # fmt: skip
    recipe = load_run(tmp_path / "w").recipe
    assert (recipe.pretrain.steps, recipe.pretrain.schedule) == (1, "cosine")


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_only_newlines_end_a_line(tmp_path: Path, odd: str) -> None:
    """splitlines() would also split at other characters, which occur in text from the web."""
    files(tmp_path, f"one{odd}two\nthree\n".encode(), f"Was A{odd}na born?\tKöln\n".encode())
    assert documents_of(read_text(tmp_path / "corpus.txt")) == [f"one{odd}two", "three"]
    assert read_pairs(tmp_path / "pairs.tsv") == [(f"Was A{odd}na born?", "Köln")]
    save_predictions(tmp_path / "predictions.tsv", [f"a{odd}b", "c"])
    assert (tmp_path / "predictions.tsv").read_bytes() == f"a{odd}b\nc\n".encode()


def test_predictions_have_one_line_per_question(tmp_path: Path) -> None:
    """A model may generate a newline; the lines must still belong to their questions."""
    save_predictions(tmp_path / "p.tsv", ["a\nb", "", "\n", "c"])
    assert (tmp_path / "p.tsv").read_bytes() == b"a b\n\n \nc\n"


def test_the_special_tokens_in_a_corpus_are_refused() -> None:
    """A character that is PAD or MASK would corrupt training without an error."""
    for character in ("\u25a1", "\u2047"):
        with pytest.raises(DataError, match=r"line 2 of the corpus contains .*; replace it"):
            Vocabulary.from_text(f"one\ntwo {character}\n")
