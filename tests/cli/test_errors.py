"""Mistakes of a user: one line on stderr, an exit status, and nothing is lost."""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import treebank

from tinyattn.backend import get_device
from tinyattn.cli import main
from tinyattn.cli.outputs import spare
from tinyattn.training import checkpoint
from tinyattn.training.checkpoint import FORMAT

DATA, USAGE = 1, 2
"""Exit statuses: the data or a file is invalid; the command is wrong."""


@pytest.fixture(scope="session")
def bad(tmp_path_factory: pytest.TempPathFactory, job: Any) -> Path:
    """A folder of files that cannot be used."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "empty.txt").write_bytes(b"")
    (folder / "latin.txt").write_bytes("first\nZürich\n".encode("latin-1"))
    (folder / "short.txt").write_text("too short\n")
    (folder / "pad.txt").write_text("first\na \u25a1 b\n")
    (folder / "notab.tsv").write_text("Where was A born?\tOz\nWhere was B born? Oz\n")
    (folder / "unknown.tsv").write_text("Where was ßen born?\tOz\n")
    (folder / "long.tsv").write_text("W" * 80 + "\tOz\n")
    (folder / "key.toml").write_text("[pretrain]\nlearning_rat = 1.0\nepoch = 3\n")
    (folder / "type.toml").write_text("[pretrain]\nepochs = 'three'\n")
    (folder / "broken.toml").write_text("[pretrain\n")
    whole = (job.finetuned / "checkpoint.safetensors").read_bytes()
    (folder / "cut.safetensors").write_bytes(whole[:-1])
    (folder / "random.safetensors").write_bytes(np.random.default_rng(0).bytes(999))
    saved = checkpoint.load(job.finetuned / "checkpoint.safetensors")
    saved.arrays["model.head.weight"] = np.full_like(saved.arrays["model.head.weight"], np.nan)
    checkpoint.save(folder / "nan.safetensors", saved.arrays, saved.about)
    checkpoint.save(folder / "bare.safetensors", {}, {})
    checkpoint.save(folder / "step.safetensors", {}, {**saved.about, "step": None})
    (folder / "own").mkdir()
    (folder / "own" / "best.safetensors").write_bytes(whole)
    (folder / "own" / "predictions.tsv").write_text("mine\n")
    return folder


@pytest.fixture(scope="session")
def learned(tmp_path_factory: pytest.TempPathFactory, job: Any, tinyattn: Any) -> Path:
    """A run whose attention can be converted."""
    run = tmp_path_factory.mktemp("learned") / "run"
    tinyattn("pretrain", job.corpus, *job.settings, "--set=model.positions=learned", "--out", run)
    return run


@pytest.fixture(scope="session")
def latent(tmp_path_factory: pytest.TempPathFactory, job: Any, tinyattn: Any) -> Path:
    """A run whose attention type cannot be converted."""
    run = tmp_path_factory.mktemp("latent") / "run"
    tinyattn("pretrain", job.corpus, *job.settings, "--attention", "latent", "--out", run)
    return run


def complaint(result: Any) -> str:
    """The one line on stderr of a failed command; stdout is empty."""
    assert result.stdout == ""
    assert re.fullmatch(r"tinyattn: .+\n", result.stderr), result.stderr
    return str(result.stderr)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("pretrain BAD/missing.txt", DATA, r"missing\.txt: no such file"),
        ("pretrain BAD", DATA, r"is a directory"),
        ("pretrain BAD/empty.txt", DATA, r"empty\.txt: the file is empty"),
        ("pretrain BAD/latin.txt", DATA, r"latin\.txt: line 2 is not UTF-8"),
        ("pretrain BAD/pad.txt", DATA, r"line 2 of the corpus contains '□', which is reserved"),
        ("pretrain BAD/short.txt --objective next", DATA, r"more than one context of 80"),
        ("pretrain CORPUS --config BAD/missing.toml", DATA, r"missing\.toml: no such file"),
        ("pretrain CORPUS --config BAD/broken.toml", DATA, r"broken\.toml: not TOML"),
        ("pretrain CORPUS --config BAD/key.toml", USAGE, r"'learning_rat'"),
        ("pretrain CORPUS --config BAD/type.toml", USAGE, r"epochs must be int; got str 'three'"),
        ("pretrain CORPUS --set pretrain.epoch=3", USAGE, r"did you mean 'epochs'\?"),
        ("pretrain CORPUS --set pretain.epochs=3", USAGE, r"no table 'pretain'"),
        ("pretrain CORPUS --set model.layers=two", USAGE, r"layers must be int; got str 'two'"),
        ("pretrain CORPUS --set pretrain.learning_rate=nan", USAGE,
         r"must be at least 0 and finite"),
        ("pretrain CORPUS --recipe a6", USAGE, r"recipe must be one of .*; got 'a6'"),
        ("pretrain CORPUS --recipe wrold --out PRETRAINED", USAGE, r"did you mean 'world'\?"),
        ("finetune TRAIN --from PRETRAINED --recipe wrold --out FINETUNED", USAGE, r"'world'\?"),
        ("pretrain CORPUS --recipe wrold --resume --out PRETRAINED", USAGE, r"'world'\?"),
        ("pretrain CORPUS --set pretrain.lr=1", USAGE, r"'lr'; did you mean 'learning_rate'\?"),
        ("pretrain CORPUS --set model.batch=1", USAGE, r"did you mean 'pretrain\.batch'\?"),
        ("pretrain CORPUS --set lr=1", USAGE, r"did you mean pretrain\.learning_rate=VALUE\?"),
        ("pretrain CORPUS --lr 1", USAGE, r"'--lr'; did you mean --set pretrain\.learning_rate="),
        ("finetune TRAIN --batch-size 8", USAGE, r"did you mean --set finetune\.batch=VALUE\?"),
        ("pretrain CORPUS --device gpu", USAGE, r"'cpu', 'cuda'; did you mean 'cuda'\?"),
        ("pretrain CORPUS --penalty foucs=1", USAGE, r"got 'foucs=1'; did you mean 'focus'\?"),
        ("pretrain CORPUS --attention bigbrid", USAGE, r"did you mean 'bigbird'\?"),
        ("evaluate DEV --lr 1", USAGE, r"No such option '--lr'"),
        ("evaluate DEV --model o", USAGE, r"No such option '--model'; did you mean --from\?"),
        ("generate --prompt A --checkpoint o", USAGE, r"did you mean --from\?"),
        ("convert --ckpt o", USAGE, r"did you mean --from\?"),
        ("info --load o", USAGE, r"did you mean --from\?"),
        ("finetune TRAIN --run o", USAGE, r"did you mean --from\?"),
        ("pretrain CORPUS --model o", USAGE, r"No such option '--model'"),
        ("pretrain CORPUS --num-epochs 3", USAGE, r"did you mean --epochs\?"),
        ("pretrain CORPUS --set pretrain.seed=3", USAGE,
         r"--set: no setting 'pretrain.seed'; did you mean --seed\?"),
        ("finetune TRAIN --set data.seed=3", USAGE, r"did you mean --seed\?"),
        ("pretrain CORPUS --set seed=3", USAGE, r"no setting 'seed'; did you mean --seed\?"),
        ("pretrain CORPUS --set data.length=-1", USAGE, r"length must be at least 0; got -1"),
        ("pretrain CORPUS --set model.width=100000000000000000000", USAGE, r"width must be at mos"),
        ("pretrain CORPUS --set model.width=1000000000", USAGE, r"than the 2\^45 that a computer"),
        ("pretrain CORPUS --set model.width=100000 --set model.heads=1", DATA,
         r"there is not enough memory for this: Unable to allocate"),
        ("pretrain CORPUS --penalty focus=1e300", USAGE, r"focus must be at most 1000000; got"),
        ("pretrain CORPUS --penalty near=1,cap=nan", USAGE, r"cap must be above 0; got nan"),
        ("pretrain CORPUS --attention bigbird,block=99999999999", USAGE, r"must be at most 16777"),
        ("compare --lengths 256,99999999999999999999", USAGE, r"must be at most 16777216"),
        ("compare --width 2000000000 --heads 1", USAGE, r"width 2000000000 .* a computer can"),
        ("profile --batch 99999999999999", USAGE, r"must be at most 2147483647; got 9"),
        ("profile --batch 2147483647 --set model.context=99999", USAGE, r"a batch of 2147483647"),
        ("profile --batch 2147483647", DATA, r"there is not enough memory for this"),
        ("generate --prompt A --from FINETUNED --temperature nan", USAGE, r"must be finite; got n"),
        ("world --people 99999999999999999999", USAGE, r"from 1 to 20000, got 9"),
        ("pretrain CORPUS --set pretrain.learning_rate=1e30 --steps 9", DATA,
         r"step 2: the loss is nan.*no checkpoint yet; try a smaller learning_rate than 1e\+30"),
        ("pretrain CORPUS --resume", USAGE, r"out holds no checkpoint to resume; leave out"),
        ("pretrain CORPUS --out PRETRAINED --overwrite --set pretrain.matmul_precision=tf32", USAGE,
         r"matmul_precision 'tf32' needs a GPU: take device 'cuda', or matmul_precision 'float32'"),
        ("pretrain CORPUS --out PRETRAINED", USAGE,
         r"holds a run already; use --resume .*, --overwrite .*, or another --out"),
        ("finetune TRAIN --from BAD", DATA, r"checkpoint\.safetensors: no such file"),
        ("finetune BAD/notab.tsv --from PRETRAINED", DATA, r"line 2 must be a question, one tab"),
        ("finetune BAD/long.tsv --from PRETRAINED", DATA, r"does not fit the model's context"),
        ("finetune BAD/unknown.tsv --from PRETRAINED", DATA,
         r"'ß' \(U\+00DF\) at position 11, in 'Where was ßen born\?'.*--unknown drop"),
        ("finetune TEST --from PRETRAINED", DATA, r"no line has a tab and an answer"),
        ("finetune TRAIN --resume --from PRETRAINED --out PRETRAINED", DATA, r"another stage"),
        ("finetune TRAIN --overwrite --from PRETRAINED --out PRETRAINED", USAGE,
         r"would replace the run of --from"),
        ("evaluate BAD/unknown.tsv --from FINETUNED", DATA, r"'ß' .*at position 11"),
        ("evaluate BAD/missing.tsv --from FINETUNED", DATA, r"missing\.tsv: no such file"),
        ("evaluate DEV --from FINETUNED --predictions BAD/no/p.tsv", DATA, r"cannot be written"),
        ("evaluate CORPUS --from FINETUNED", DATA,
         r"corpus\.txt: a line has no tab .* question mark: .* --predictions FILE"),
        ("evaluate DEV --from BAD/own/best.safetensors", USAGE,
         r"contains predictions\.tsv, but no run that it belongs to; .* --predictions FILE"),
        ("evaluate DEV --from BAD/cut.safetensors", DATA, r"cut\.safetensors: .*damaged"),
        ("generate --prompt A --from BAD/random.safetensors", DATA, r"not a checkpoint"),
        ("generate --prompt A --from BAD/empty.txt", DATA, r"not a checkpoint"),
        ("generate --prompt A --from BAD/nan.safetensors", DATA, r"not finite \(NaN\)"),
        ("generate --prompt ß --from FINETUNED", DATA, r"'ß' .*at position 1"),
        ("generate --prompt ß --unknown drop --from FINETUNED", DATA, r"the prompt is empty"),
        ("info --from BAD/bare.safetensors", DATA, r"its header lacks model, seed"),
        ("info --from BAD/step.safetensors", DATA, r"its step must be a whole number .* got None"),
        ("pretrain CORPUS --out PRETRAINED --resume --steps 9 "
         "--set pretrain.optimizer=adamw", DATA,
         r"optimizer state does not fit these settings: optimizer\.0\.first"),
        ("info --from BAD/missing", DATA, r"missing: no such file"),
        ("baseline TEST --answer Oz", DATA, r"nothing to score"),
        ("baseline DEV --train TEST", DATA, r"no line has a tab and an answer"),
        ("pretrain CORPUS --penalty nea=1", USAGE, r"needs focus=WEIGHT, or near=WEIGHT"),
        ("pretrain CORPUS --penalty focus", USAGE, r"focus needs a number, such as focus=0.01"),
        ("quickstart --attention latent --attention bigbird", USAGE, r"give one only; got latent"),
        ("parse CORPUS --from PRETRAINED --epochs 2", DATA, r"needs 10 columns"),
        ("pretrain CORPUS --nope", USAGE, r"No such option '--nope'.*see tinyattn pretrain --help"),
        ("nonsense", USAGE, r"No such command 'nonsense'"),
        ("pretrain CORPUS --attention linformer", USAGE, r"use linformer-causal"),
        ("pretrain CORPUS --attention bigbird,block=0", USAGE, r"block must be at least 1"),
        ("pretrain CORPUS --attention bigbird,blocks=3", USAGE, r"has no option 'blocks'; it has"),
        ("pretrain CORPUS --attention latent --penalty near=0.1", USAGE,
         r"penalty near: 'latent' cannot .* near positions"),
        ("pretrain CORPUS --penalty focus=inf", USAGE, r"at least 0 and finite"),
        ("pretrain CORPUS --set penalty.focus=-1", USAGE, r"at least 0 and finite"),
        ("pretrain CORPUS --attention synthesizer --positions rotary", USAGE,
         r"cannot have rotary positions: it has no queries and keys to rotate"),
        ("finetune TRAIN --from LATENT --penalty near=0.1", USAGE, r"near: 'latent' cannot"),
        ("finetune TRAIN --from LATENT --recipe world --penalty near=0.1", USAGE,
         r"penalty near: 'latent' cannot"),
        ("quickstart --attention all --set model.layers=1", USAGE, r"'perceiver' needs at least 2"),
        ("quickstart --attention all --penalty near=0.1", USAGE, r"'linformer-causal' cannot"),
        ("convert --from FINETUNED --out BAD/c", USAGE,
         r"with rotary positions .* train a model with tinyattn pretrain --positions learned"),
        ("convert --from LATENT --out BAD/c", USAGE, r"'latent,segment=0' cannot become"),
        ("convert --from BAD/missing --out BAD/c", DATA, r"missing: no such file"),
        ("world --people 3 --dev 3", USAGE, r"must be a whole number from 0 to 2, got 3"),
    ],
)  # fmt: skip
def test_a_mistake_gives_one_line(
    job: Any, bad: Path, latent: Path, tinyattn: Any, tmp_path: Path, words: str, status: int,
    message: str,
) -> None:  # fmt: skip
    names = {"BAD": bad, "CORPUS": job.corpus, "TRAIN": job.train, "DEV": job.dev, "TEST": job.test,
             "PRETRAINED": job.pretrained, "FINETUNED": job.finetuned,
             "LATENT": latent}  # fmt: skip
    command, *rest = [re.sub(r"^[A-Z]+\b", lambda m: str(names.get(m[0], m[0])), word)
                      for word in words.split()]  # fmt: skip
    if command in ("pretrain", "finetune"):
        own = [] if "--config" in rest else job.settings
        rest = ["--out", str(tmp_path / "out"), *own, *rest]
    if command == "world":
        rest += ["--out", str(tmp_path / "out")]
    before = contents(bad, job.folder)
    result = tinyattn(command, *rest, status=status)
    assert re.search(message, complaint(result)), result.stderr
    assert not (tmp_path / "out" / "checkpoint.safetensors").exists()
    assert contents(bad, job.folder) == before


def contents(*folders: Path) -> dict[Path, bytes]:
    """All files in these folders, with their contents."""
    return {
        path: path.read_bytes()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "Commands:"),
        ("pretrian x", "No such command 'pretrian'"),
        ("pretrain", "Missing argument 'CORPUS'"),
        ("pretrain x --set rate=3", "needs TABLE.KEY=VALUE; got 'rate=3'"),
        (
            "pretrain x --set pretrain.learning_rate",
            "needs TABLE.KEY=VALUE; got 'pretrain.learning_rate'",
        ),
        ("pretrain x --set model.layers 1", "needs TABLE.KEY=VALUE; got 'model.layers'"),
        ("pretrain x --steps 0", "0 is not in the range x>=1"),
        ("pretrain x --steps 3 --epochs 2", "give either --epochs or --steps"),
        ("pretrain x --resume --overwrite", "--resume continues a run, --overwrite replaces it"),
        ("pretrain x --device cuda --workers 2", "--workers are threads of the CPU; leave it out"),
        ("pretrain x --unknown drop", "--unknown is for --questions; give that too"),
        ("pretrain x --device tpu", "'tpu' is not one of 'cpu', 'cuda'"),
        ("finetune x --from y --corpus z", "not both"),
        ("baseline x", "give either --answer PLACE or --train PAIRS"),
        ("generate --from x", "Missing option '--prompt'"),
        ("generate --prompt x --top-p 0", "0.0 is not in the range 0<x<=1"),
        ("generate --prompt x --temperature -1", "-1.0 is not in the range x>=0"),
        ("generate --prompt x --temperature 0 --top-k 3", "--temperature 0 does not sample"),
        ("info --from x --recipe a5", "give either --from RUN or --recipe NAME"),
    ],
)
def test_the_parser_reports_wrong_usage(job: Any, tinyattn: Any, words: str, message: str) -> None:
    words = words.replace(" x", f" {job.corpus}")
    result = tinyattn(*words.split(), status=USAGE)
    assert message in result.stderr and result.stdout == ""


@pytest.mark.parametrize("seed", [2**64, -1, 1.5, "x"])
def test_a_run_with_an_invalid_seed_is_not_resumed(
    job: Any, tinyattn: Any, tmp_path: Path, seed: Any
) -> None:
    saved = checkpoint.load(job.pretrained / "checkpoint.safetensors")
    checkpoint.save(tmp_path / "checkpoint.safetensors", saved.arrays, saved.about | {"seed": seed})
    words = ["pretrain", job.corpus, "--out", tmp_path, "--resume", "--steps", 9]
    assert "seed" in complaint(tinyattn(*words, status=DATA))


@pytest.mark.parametrize(
    ("words", "end"),
    [
        ("info runs/x", "(runs/x); did you mean --from runs/x? (see tinyattn info --help)"),
        ("info x", "(x); did you mean --from x? (see tinyattn info --help)"),
        ("info x y", "(x y) (see tinyattn info --help)"),
        ("info --from x y", "(y) (see tinyattn info --help)"),
        ("generate runs/x --prompt A", "mean --from runs/x? (see tinyattn generate --help)"),
        ("generate --prompt Once upon", "(upon); a text of several words needs quotes "
                                        "(see tinyattn generate --help)"),
        ("convert runs/x --out y", "; did you mean --from runs/x? (see tinyattn convert --help)"),
        ("ask Where was A born?", "(was A born?); a text of several words needs quotes "
                                  "(see tinyattn ask --help)"),
        ("ask Where? runs/x", "; did you mean --from runs/x? (see tinyattn ask --help)"),
        ("evaluate x tests/", "did you mean --from tests/? (see tinyattn evaluate --help)"),
        ("evaluate x y", "(y) (see tinyattn evaluate --help)"),
        ("pretrain x y", "(y) (see tinyattn pretrain --help)"),
        ("--json info", "'--json'; --json goes after the command (see tinyattn --help)"),
        ("--seed 3 info", "'--seed'; --seed goes after the command (see tinyattn --help)"),
        ("--jsn info", "No such option '--jsn'. (see tinyattn --help)"),
        ("--formulas gleu info", "did you mean 'gelu'? (see tinyattn --help)"),
        ("--import nowhere info", "No module named 'nowhere' (see tinyattn --help)"),
        ("info --import nowhere", "; --import goes before the command (see tinyattn info --help)"),
    ],
)  # fmt: skip
def test_a_hint_ends_the_message(
    tinyattn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, end: str
) -> None:
    """The command to type instead, and the help with more information."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").mkdir()
    assert complaint(tinyattn(*words.split(), status=USAGE)).endswith(f"{end}\n")


@pytest.mark.parametrize("to", ["bilinear", "multihead"])
def test_a_model_with_rotary_positions_is_not_converted(
    job: Any, tinyattn: Any, tmp_path: Path, to: str
) -> None:
    attention = {"bilinear": "multihead", "multihead": "bilinear"}[to]
    run, out = tmp_path / "run", tmp_path / "out"
    tinyattn("pretrain", job.corpus, *job.settings, "--attention", attention, "--out", run)
    shown = complaint(tinyattn("convert", "--from", run, "--to", to, "--out", out, status=USAGE))
    assert "rotary positions" in shown
    assert "train a model with tinyattn pretrain --positions learned, and convert that" in shown
    assert "--positions learned" in " ".join(tinyattn("convert", "--help").stdout.split())


def test_a_prompt_may_contain_mask(job: Any, tinyattn: Any, as_json: Any) -> None:
    """Only this special token may: every vocabulary has it, and generated text may contain it."""
    words = ["generate", "--from", job.pretrained, "--count", 1, "--prompt"]
    assert as_json(*words, "A\u2047")["text"].startswith("A\u2047")
    shown = complaint(tinyattn(*words, "A\u2048", status=DATA))
    assert "'\u2048' (U+2048) at position 2" in shown and "use --unknown drop" in shown


NUMBERS = [
    f"{command.name} {parameter.opts[0]}"
    for command in main.commands.values() for parameter in command.params
    if isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType)
]  # fmt: skip


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e400", "-1", "9" * 25, "9" * 5000])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_out_of_range_are_refused(
    tinyattn: Any, tmp_path: Path, name: str, number: str
) -> None:
    """For all options of all commands, and before anything else is done."""
    command, option = name.split()
    if (option, number) == ("--temperature", "9" * 25):
        return  # all are equally frequent
    parameters = main.commands[command].params
    needed = [str(tmp_path / "x") for p in parameters if isinstance(p, click.Argument)]
    needed += [word for p in parameters if p.required and isinstance(p, click.Option)
               for word in (p.opts[0], str(tmp_path / "x"))]  # fmt: skip
    shown = complaint(tinyattn(command, *needed, option, number, status=USAGE))
    assert len(shown) < 6000 and not [*tmp_path.iterdir()]
    assert option.strip("-") in shown or "whole number" in shown


def test_quoted_text_keeps_its_spaces(job: Any, tinyattn: Any, tmp_path: Path) -> None:
    """A message is one line, whatever it contains."""
    missing = tmp_path / "two  spaces\n and a line"
    result = tinyattn("pretrain", missing, *job.settings, "--out", tmp_path / "out", status=DATA)
    assert "two  spaces and a line: no such file" in complaint(result)


def test_a_system_that_starts_no_more_threads(
    job: Any, tinyattn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    words = ["pretrain", job.corpus, *job.settings, "--out", tmp_path, "--workers", 1024]
    assert "no more threads; use fewer --workers" in complaint(tinyattn(*words, status=DATA))


def test_a_value_that_is_nested_too_deep_gives_one_line(tinyattn: Any, job: Any) -> None:
    for value in ("[" * 20_000, "{a=" * 20_000, "[" * 20_000 + "]" * 20_000, "9" * 5000):
        words = ["pretrain", job.corpus, "--set", f"pretrain.batch={value}"]
        shown = complaint(tinyattn(*words, status=USAGE))
        assert "pretrain.batch: its value is too long, or nested too deep" in shown


def test_an_empty_prompt_is_refused(job: Any, tinyattn: Any) -> None:
    result = tinyattn("generate", "--from", job.finetuned, "--prompt", "", status=DATA)
    assert "the prompt is empty; give at least one character" in complaint(result)


@pytest.mark.parametrize("command", ["pretrain", "finetune", "evaluate", "generate", "quickstart"])
def test_cuda_without_a_gpu(job: Any, tinyattn: Any, tmp_path: Path, command: str) -> None:
    try:
        get_device("cuda")
    except RuntimeError:
        pass
    else:
        pytest.skip("there is a GPU")
    words = {
        "pretrain": [job.corpus, "--out", tmp_path / "out"],
        "finetune": [job.train, "--from", job.pretrained, "--out", tmp_path / "out"],
        "evaluate": [job.dev, "--from", job.finetuned],
        "generate": ["--prompt", "A", "--from", job.finetuned],
        "quickstart": ["--out", tmp_path / "out"],
    }
    result = tinyattn(command, *words[command], "--device", "cuda", status=USAGE)
    assert "device 'cuda'" in complaint(result)
    assert not (tmp_path / "out").exists()


def test_a_mistake_with_overwrite_keeps_the_old_run(
    job: Any, bad: Path, tinyattn: Any, tmp_path: Path
) -> None:
    """The old run is removed when the new one begins, after its data was checked."""
    words = ["--out", tmp_path, *job.settings]
    tinyattn("pretrain", job.corpus, *words)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for file, status, more in [("short.txt", DATA, ["--objective", "next"]),
                               ("empty.txt", DATA, []),
                               ("short.txt", USAGE, ["--set", "model.heads=3"])]:  # fmt: skip
        tinyattn("pretrain", bad / file, *words, "--overwrite", *more, status=status)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("pretrain RUN/corpus.txt --out RUN/corpus.txt", "is a file"),
        ("pretrain RUN/metrics.jsonl --out RUN", "--out RUN would replace the corpus"),
        ("pretrain CORPUS --config RUN/config.toml --out RUN --overwrite",
         "--out RUN would replace the file of --config"),
        ("pretrain CORPUS --config RUN/config.toml --out RUN --resume",
         "--out RUN would replace the file of --config"),
        ("pretrain CORPUS --questions RUN/predictions.tsv --out RUN/../link --overwrite",
         "would replace the pairs of --questions"),
        ("finetune TRAIN --from RUN --out RUN --overwrite", "would replace the run of --from"),
        ("finetune TRAIN --from RUN/checkpoint.safetensors --out RUN --overwrite",
         "--out RUN would replace the run of --from; name another"),
        ("finetune TRAIN --from RUN/../link --out RUN --overwrite", "replace the run of --from"),
        ("finetune TRAIN --from RUN/../hard.safetensors --out RUN --overwrite",
         "replace the run of --from"),
        ("finetune RUN/predictions.tsv --from PRETRAINED --out RUN --overwrite",
         "--out RUN would replace the pairs"),
        ("finetune TRAIN --corpus RUN/curves.png --out RUN --overwrite",
         "--out RUN would replace the corpus"),
        ("finetune TRAIN --config RUN/config.toml --from PRETRAINED --out RUN --overwrite",
         "--out RUN would replace the file of --config"),
        ("evaluate DEV --from RUN --predictions RUN/checkpoint.safetensors",
         "--predictions RUN/checkpoint.safetensors would replace the run of --from"),
        ("evaluate DEV --from RUN --predictions RUN/../link/config.toml", "the run of --from"),
        ("evaluate DEV --from RUN --predictions RUN/../hard.safetensors", "the run of --from"),
        ("evaluate DEV --from RUN --predictions RUN/../other/checkpoint.safetensors",
         "other/checkpoint.safetensors would replace a checkpoint; name another"),
        ("evaluate DEV --from RUN --predictions RUN/../other/named.png", "replace a checkpoint"),
        ("evaluate DEV --from RUN --predictions RUN/../other/link.tsv", "replace a checkpoint"),
        ("evaluate DEV --from RUN --predictions RUN/../other/short.safetensors", "a checkpoint"),
        ("claims --html RUN/checkpoint.safetensors", "would replace a checkpoint"),
        ("compare --picture RUN/../other/named.png", "named.png would replace a checkpoint"),
        ("evaluate RUN/predictions.tsv --from RUN",
         "--predictions RUN/predictions.tsv would replace the questions"),
        ("evaluate RUN/../questions --from RUN --predictions RUN/predictions.tsv",
         "would replace the questions"),
        ("evaluate DEV --from RUN --predictions DEV", "would replace the questions"),
        ("evaluate DEV --from RUN --predictions TRAIN --report --train TRAIN --corpus CORPUS",
         "would replace the pairs of --train"),
        ("evaluate DEV --from RUN --predictions CORPUS --report --train TRAIN --corpus CORPUS",
         "would replace the text of --corpus"),
        ("convert --from RUN --out RUN --overwrite", "--out RUN would replace the run of --from"),
        ("convert --from RUN/checkpoint.safetensors --out RUN/../link --overwrite", "--from"),
        ("parse RUN/none/predictions.tsv --out RUN", "--out RUN would replace the treebank"),
    ],
)  # fmt: skip
def test_no_command_overwrites_its_input(
    job: Any, tinyattn: Any, tmp_path: Path, words: str, message: str
) -> None:
    """By any name of the file, and before any other error."""
    run = tmp_path / "run"
    shutil.copytree(job.finetuned, run)
    shutil.copy(job.train, run / "predictions.tsv")
    (run / "corpus.txt").touch()
    (run / "none").mkdir()
    (run / "none" / "predictions.tsv").write_text(treebank.as_conllu(treebank.documents(3)))
    (tmp_path / "link").symlink_to(run)
    (tmp_path / "questions").symlink_to(run / "predictions.tsv")
    os.link(run / "checkpoint.safetensors", tmp_path / "hard.safetensors")
    other = tmp_path / "other"
    other.mkdir()
    for name in ("checkpoint.safetensors", "named.png"):
        shutil.copy(job.pretrained / "checkpoint.safetensors", other / name)
    (other / "link.tsv").symlink_to(other / "named.png")
    (other / "short.safetensors").touch()
    names = {"RUN": run, "CORPUS": job.corpus, "TRAIN": job.train, "DEV": job.dev,
             "PRETRAINED": job.pretrained}  # fmt: skip

    def known(text: str) -> str:
        return re.sub(r"\b[A-Z]{3,}\b", lambda m: str(names.get(m[0], m[0])), text)

    before = contents(tmp_path, job.folder)
    result = tinyattn(*known(words).split(), status=USAGE)
    assert known(message) in result.stderr and "Traceback" not in result.stderr
    assert result.stdout == "" and contents(tmp_path, job.folder) == before


@pytest.mark.skipif(os.name != "posix", reason="devices of POSIX")
def test_questions_from_a_pipe_and_answers_to_a_pipe(job: Any) -> None:
    """A terminal can be both at once; it is not a file whose contents could be lost."""
    ours, theirs = os.openpty()
    terminal = Path(os.ttyname(theirs))
    spare("--predictions", terminal, {"the questions": terminal})
    os.close(ours)
    os.close(theirs)
    words = ["evaluate", "/dev/stdin", "--predictions", "/dev/stdout", "--from", job.finetuned]
    with open(job.dev) as dev, shell(*words, stdin=dev) as process:
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, "")
    assert len(stdout.splitlines()) == 4 + 2 and "predictions: /dev/stdout\n" in stdout


@pytest.mark.parametrize(
    "name",
    ["predictions.tsv", "curves.png", "config.toml", "metrics.jsonl", "checkpoint.safetensors"],
)
@pytest.mark.parametrize("command", ["pretrain", "finetune", "convert"])
def test_other_files_are_replaced_only_with_overwrite(
    job: Any, tinyattn: Any, tmp_path: Path, command: str, name: str
) -> None:
    (tmp_path / name).write_text("mine")
    words = {
        "pretrain": [job.corpus, *job.settings],
        "finetune": [job.train, "--from", job.pretrained],
        "convert": ["--from", job.pretrained],
    }
    printed = complaint(tinyattn(command, *words[command], "--out", tmp_path, status=USAGE))
    assert "--overwrite" in printed and (name in printed or "holds a run already" in printed)
    assert contents(tmp_path) == {tmp_path / name: b"mine"}


def test_a_run_that_fails_at_once_keeps_the_run_that_it_would_replace(
    job: Any, tinyattn: Any, tmp_path: Path
) -> None:
    """With its settings, log, predictions and curves; a successful run replaces all of them."""
    words = ["pretrain", job.corpus, *job.settings, "--out", tmp_path]
    tinyattn(*words)
    (tmp_path / "predictions.tsv").write_text("Oz\n")
    before = contents(tmp_path)
    again = [*words, "--overwrite", "--steps", 9]
    printed = complaint(tinyattn(*again, "--set", "pretrain.learning_rate=1e30", status=DATA))
    assert (
        f"checkpoint yet; the earlier files in {tmp_path} are unchanged; try a smaller" in printed
    )
    assert contents(tmp_path) == before
    assert "nothing left to do" in tinyattn(*words, "--resume").stdout
    tinyattn(*again)
    assert "predictions.tsv" not in {path.name for path in tmp_path.iterdir()}
    assert "steps = 9" in (tmp_path / "config.toml").read_text()
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 9


def test_a_run_that_diverges_can_be_resumed_with_a_smaller_learning_rate(
    job: Any, tinyattn: Any, tmp_path: Path
) -> None:
    words = ["pretrain", job.corpus, *job.settings, "--out", tmp_path]
    tinyattn(*words)
    more = [*words, "--resume", "--steps", 8]
    result = tinyattn(*more, "--set", "pretrain.learning_rate=1e30", status=DATA)
    assert f"the last good checkpoint is {tmp_path}" in complaint(result)
    assert "step 8, loss" in tinyattn(*more).stdout


def test_a_finished_run_has_nothing_left_to_do(job: Any, tinyattn: Any, tmp_path: Path) -> None:
    words = ["pretrain", job.corpus, *job.settings, "--out", tmp_path]
    printed = tinyattn(*words).stdout
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    printed = printed.rstrip() + "; there was nothing left to do\n"
    assert tinyattn(*words, "--resume").stdout == printed
    fewer = [*words, "--resume", "--steps", 2, "--set", "pretrain.learning_rate=0.5"]
    assert tinyattn(*fewer).stdout == printed
    after = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert after.keys() == before.keys()
    assert all(after[path] == before[path] for path in before if path.suffix != ".png")
    (tmp_path / "metrics.jsonl").unlink()
    assert "nothing left to do" in tinyattn(*words, "--resume").stdout


def test_a_resumed_run_keeps_its_settings(job: Any, tinyattn: Any, tmp_path: Path) -> None:
    """Without options it has its own settings and seed, not the defaults."""
    begun = [*job.settings, "--seed", 3]
    for out, again in [("told", begun), ("silent", [])]:
        words = ["pretrain", job.corpus, "--out", tmp_path / out]
        tinyattn(*words, *begun)
        tinyattn(*words, *again, "--resume", "--steps", 5)
    shown, silent = (tmp_path / out / "checkpoint.safetensors" for out in ("told", "silent"))
    assert shown.read_bytes() == silent.read_bytes()
    words = ["pretrain", job.corpus, "--out", tmp_path / "silent", "--resume"]
    other = complaint(tinyattn(*words, "--seed", 0, status=DATA))
    assert "another seed (3, not 0); use the same settings to resume it" in other


def shell(*words: Any, **options: Any) -> "subprocess.Popen[str]":
    """`python -m tinyattn` as a separate process."""
    return subprocess.Popen(
        [sys.executable, "-m", "tinyattn", *map(str, words)],
        text=True, encoding="utf-8",
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )  # fmt: skip


def wait_for_log(process: "subprocess.Popen[str]", run: Path) -> None:
    """Wait until a run has logged a step."""
    log, deadline = run / "metrics.jsonl", time.monotonic() + 60
    while not log.exists() or not log.stat().st_size:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("number", "status", "name"),
    [(signal.SIGINT, 1, ""), (signal.SIGTERM, 143, " by SIGTERM"), (1, 129, " by SIGHUP")],
    ids=["Ctrl-C", "SIGTERM", "SIGHUP"],
)
@pytest.mark.skipif(os.name != "posix", reason="the system sends no such signals")
def test_a_signal_saves_a_checkpoint_and_prints_how_to_resume(
    job: Any, tinyattn: Any, as_json: Any, tmp_path: Path, number: int, status: int, name: str
) -> None:
    out = tmp_path / "a folder"
    words = ["pretrain", job.corpus, *job.settings, "--out", out, "--steps", 10**6]
    with shell(*words, "--overwrite") as process:
        wait_for_log(process, out)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (status, "")
    shown = re.fullmatch(
        rf"tinyattn: stopped{name} after step (\d+) of 1000000; go on with: (.*)\n", stderr
    )
    assert shown, stderr
    step = int(shown[1])
    assert as_json("info", "--from", out)["step"] == step
    assert shown[2] == f"tinyattn pretrain {job.corpus} {' '.join(job.settings)} --out '{out}' " \
                       "--steps 1000000 --resume"  # fmt: skip
    words[-1] = step + 2
    assert f"step {step + 2}, loss" in tinyattn(*words, "--resume").stdout


@pytest.mark.skipif(os.name != "posix", reason="the system sends no such signals")
def test_a_signal_that_was_ignored_at_the_start_stays_ignored(job: Any, tmp_path: Path) -> None:
    """As with `nohup`, or in the background of a script."""
    words = ["pretrain", job.corpus, *job.settings, "--out", tmp_path, "--steps", 10**6]

    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with shell(*words, preexec_fn=ignore) as process:
        wait_for_log(process, tmp_path)
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 143 and "stopped by SIGTERM after step" in stderr


@pytest.mark.skipif(os.name != "posix", reason="it has no pseudo-terminals")
def test_a_closed_terminal_does_not_end_a_run(job: Any, as_json: Any, tmp_path: Path) -> None:
    """The progress bar and the final message can no longer be printed."""
    ours, its = os.openpty()
    pytest.importorskip("termios").tcsetwinsize(its, (24, 80))
    words = ["pretrain", job.corpus, *job.settings, "--out", tmp_path, "--steps", 10**6]
    with shell(*words, stdin=its, stdout=its, stderr=its, start_new_session=True) as process:
        try:
            os.close(its)
            wait_for_log(process, tmp_path)
            assert select.select([ours], [], [], 20)[0] and b"/1000000" in os.read(ours, 999)
            os.close(ours)
            time.sleep(0.3)  # the bar is printed ten times a second
            process.send_signal(signal.SIGHUP)
            assert process.wait(60) == 129
        finally:
            process.kill()
    assert as_json("info", "--from", tmp_path)["step"] >= 1


WITHOUT_STREAMS = """
import json, os, sys
missing = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
from tinyattn.cli import main
(commands, told), statuses = sys.argv[1:], []
for words in json.loads(commands):
    sys.argv, status = ["tinyattn", *words], 0
    for name in missing:  # as for each the first time
        setattr(sys, name, None)
    try:
        main(prog_name="tinyattn")
    except SystemExit as end:
        status = end.code or 0
    statuses.append(status)
closed = [os.path.samestat(os.fstat(n), os.stat(os.devnull)) for n in range(3)]
with open(told, "w") as file:
    json.dump([missing, closed, statuses], file)
"""
"""Runs commands without the streams that its own process does not have."""


@pytest.mark.skipif(os.name != "posix", reason="it needs a POSIX shell")
@pytest.mark.parametrize(("closed", "some"), [("2>&-", 1), (">&- 2>&- <&-", 12)])
def test_commands_run_without_standard_streams(
    job: Any, as_json: Any, tmp_path: Path, closed: str, some: int
) -> None:
    """As in a service; no opened file may become a standard stream."""
    bank, out = tmp_path / "small.conllu", tmp_path / "run"
    bank.write_text(treebank.as_conllu(treebank.documents(5)), encoding="utf-8")
    tiny = ["--set=model.layers=1", "--set=model.heads=2", "--set=model.width=8"]
    few = [f"--set={table}.steps=2" for table in ("pretrain", "finetune", "scratch")]
    commands = [
        ["pretrain", job.corpus, *job.settings, "--out", out, "--json"],
        ["finetune", job.train, "--from", out, "--out", tmp_path / "tuned", "--steps", 1],
        ["evaluate", job.dev, "--from", out, "--predictions", tmp_path / "p.tsv"],
        ["quickstart", *tiny, *few, "--workers", 1, "--out", tmp_path / "quick"],
        ["profile", *tiny, "--set=model.context=16", "--batch", 2, "--steps", 1],
        ["compare", "--lengths", "8,16", "--width", 8, "--heads", 2, "--rounds", 1],
        ["claims", "--id", "N-1"],
        ["parse", bank, "--epochs", 1],
        ["generate", "--from", out, "--prompt", "A", "--count", 3],
        ["info"],
        ["info", "--from", tmp_path / "nowhere"],
        ["pretrain", "--steps", "no"],
    ]
    shown = tmp_path / "told.json"
    texts = json.dumps([[str(word) for word in words] for words in commands[:some]])
    program = [sys.executable, "-c", WITHOUT_STREAMS, texts, str(shown)]
    subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *program], timeout=120, check=True)
    missing, devnull, statuses = json.loads(shown.read_text())
    assert "stderr" in missing
    assert all(devnull[("stdin", "stdout", "stderr").index(name)] for name in missing)
    assert statuses == ([0] * 10 + [1, 2])[:some]
    assert as_json("info", "--from", out)["step"] == 3


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no full disk to offer")
def test_a_full_disk(job: Any) -> None:
    with open("/dev/full", "w") as full, shell("info", "--json", stdout=full) as process:
        _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (1, "tinyattn: output: No space left on device\n")
    words = ["evaluate", job.dev, "--from", job.finetuned, "--predictions", "/dev/full"]
    with shell(*words) as process:
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    assert stderr == "tinyattn: /dev/full: cannot be written: No space left on device\n"


def limited(limit: int) -> dict[str, Any]:
    """`ulimit -f`, in bytes: like a disk that becomes full while a file is written."""
    resource = pytest.importorskip("resource")
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))}


@pytest.mark.parametrize(
    ("words", "limit", "named"),
    [
        ("pretrain CORPUS --out RUN --resume --steps 9", 0, "metrics.jsonl|config.toml"),
        ("pretrain CORPUS --out RUN --resume --steps 9", 500, "metrics.jsonl|config.toml"),
        ("pretrain CORPUS --out RUN --resume --steps 900", 1900, "metrics.jsonl"),
        ("pretrain CORPUS --out RUN --overwrite", 2000, "checkpoint.safetensors"),
        ("evaluate LONG --from RUN", 500, "predictions.tsv"),
        ("convert --from LEARNED --out RUN --overwrite", 2000, "checkpoint.safetensors"),
        ("world --out WORLD --overwrite", 5000, "corpus.txt"),
        ("claims --id S004-hdr --html PAGE", 500, "page.html"),
    ],
)
def test_a_disk_that_becomes_full_damages_no_file(
    job: Any, learned: Path, tmp_path: Path, words: str, limit: int, named: str
) -> None:
    """One line names the file; the old files are unchanged."""
    run, page = tmp_path / "run", tmp_path / "page.html"
    shutil.copytree(learned, run)
    shutil.copytree(learned, tmp_path / "learned")
    shutil.copytree(job.folder / "world", tmp_path / "world")
    (run / "predictions.tsv").write_text("Oz\n")
    page.write_text("earlier")
    long = tmp_path / "long.tsv"
    long.write_text(job.dev.read_text() * 60)
    names = {"RUN": run, "CORPUS": job.corpus, "LONG": long, "LEARNED": tmp_path / "learned",
             "WORLD": tmp_path / "world", "PAGE": page}  # fmt: skip
    before = contents(tmp_path)
    given = [names.get(word, word) for word in words.split()]
    more = job.settings if "--overwrite" in given and given[0] == "pretrain" else []
    with shell(*given, *more, **limited(limit)) as process:
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (1, "")
    assert re.fullmatch(rf"tinyattn: .*({named}): (cannot be written: )?File too large\n", stderr)
    after = contents(tmp_path)
    if "metrics.jsonl" == named:  # its last line is incomplete
        log = run / "metrics.jsonl"
        assert after.pop(log).startswith(before.pop(log))
        before.pop(run / "config.toml"), after.pop(run / "config.toml")  # it had started
    assert after == before


def test_the_second_of_two_runs_is_refused_at_once(job: Any, tinyattn: Any, tmp_path: Path) -> None:
    """After the first is killed, the folder is free, whatever files it left."""
    out = tmp_path / "out"
    words = ["pretrain", job.corpus, *job.settings, "--out", out]
    with shell(*words, "--steps", 10**6) as process:
        try:
            wait_for_log(process, out)
            finetune = ["finetune", job.train, "--from", job.pretrained, "--out", out]
            for again in (words, [*words, "--overwrite"], [*words, "--resume"], finetune,
                          ["convert", "--from", job.pretrained, "--out", out]):  # fmt: skip
                printed = complaint(tinyattn(*again, status=USAGE))
                assert f"{out} is being written by process {process.pid} (on " in printed
                assert "wait for it or use another --out" in printed
        finally:
            process.kill()
    tinyattn(*words, "--overwrite")
    assert ".lock" not in {path.name for path in out.iterdir()}


def test_a_closed_output_pipe_gives_no_error(job: Any) -> None:
    words = ["generate", "--from", job.finetuned, "--prompt", "A", "--count", 10**6]
    with shell(*words) as process:
        assert process.stdout and process.stdout.read(20)
        process.stdout.close()
        process.stdout = None  # otherwise `communicate` reads from it
        _, stderr = process.communicate(timeout=60)
    assert stderr == ""


@pytest.mark.skipif(os.name != "posix", reason="file names are not bytes there")
def test_any_locale_and_any_file_name_work(job: Any) -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    words = ["generate", "--from", job.finetuned, "--prompt"]
    with shell(*words, "Zürich", env=environment) as process:
        assert "character 'ü' (U+00FC) at position 2, in 'Zürich'" in process.communicate()[1]
    with shell("info", "--from", os.fsdecode(b"caf\xe9"), env=environment) as process:
        assert process.communicate()[1].startswith("tinyattn: caf\\udce9: no such file;")


def test_a_checkpoint_contains_its_format() -> None:
    """If the format changes, old files must be recognized, not misread."""
    assert re.fullmatch(r"tinyattn-\d+", FORMAT)
