"""Kernels switched off at the command line, and what `info` prints about them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tinyattn.dispatch import FORMULAS, KERNELS
from tinyattn.switches import formulas, kernels_in_use, switched_off
from tinyattn.tasks.runs import load_run

AsJson = Callable[..., dict[str, Any]]
VARIABLE = "TINYATTN_FORMULAS"


def kernels_line(message: str) -> str:
    return next(line for line in message.splitlines() if line.startswith("kernels: "))


def test_info_prints_the_kernels(tinyattn: Any, as_json: AsJson) -> None:
    found = as_json("info")["kernels"]
    rooms = "cpu", "numba", "cuda"
    assert found["off"] == [] and found.keys() == {"off", *rooms}
    for room in rooms:
        assert found[room] == sorted(name for name, where in KERNELS if where == room)
    counts = [f"{room} {len(found[room])}" for room in rooms if found[room]]
    assert kernels_line(tinyattn("info").stdout) == f"kernels: in use; {', '.join(counts)}"


@pytest.mark.parametrize(
    ("words", "variable", "off", "by"),
    [
        (["--formulas", "layer_norm"], None, "layer_norm", "--formulas"),
        (["--formulas", "linear,gelu"], None, "gelu, linear", "--formulas"),
        (["--formulas=all"], None, "all", "--formulas"),
        ([], "layer_norm", "layer_norm", VARIABLE),
        ([], "1", "all", VARIABLE),
    ],
)
def test_kernels_are_off_while_the_command_runs(
    tinyattn: Any, words: list[str], variable: str | None, off: str, by: str
) -> None:
    message = tinyattn(*words, "info", env={VARIABLE: variable}).stdout
    assert kernels_line(message).startswith(f"kernels: off: {off}, by {by}; ")
    assert switched_off() == []


def test_the_option_adds_to_the_variable() -> None:
    """In a separate process, where the package itself reads the variable."""

    def run(variable: str, *words: str) -> Any:
        command = [sys.executable, "-m", "tinyattn", *words]
        environment = os.environ | {VARIABLE: variable}
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    message = run("gelu", "--formulas", "linear", "info").stdout
    assert kernels_line(message).startswith(
        f"kernels: off: gelu, linear, by {VARIABLE} and --formulas"
    )
    refused = run("gleu", "info")
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert "there is no formula 'gleu'" in refused.stderr


def test_a_formula_that_does_not_exist_gives_one_line(tinyattn: Any) -> None:
    for words, variable in ((["--formulas", "linear,gleu"], None), ([], "gleu")):
        refused = tinyattn(*words, "info", env={VARIABLE: variable}, status=2)
        assert refused.stdout == "" and refused.stderr.count("\n") == 1
        assert "--formulas: there is no formula 'gleu'" in refused.stderr
    assert switched_off() == []
    for name in ("adamw", "clip_factor"):  # formulas of training are known too
        tinyattn("--formulas", name, "info")


def test_the_option_comes_before_the_command(tinyattn: Any) -> None:
    refused = tinyattn("generate", "--prompt", "A", "--formulas", "all", status=2)
    assert "No such option '--formulas'; --formulas goes before the command" in refused.stderr


def test_a_run_records_what_computed(
    job: Any, tinyattn: Any, as_json: AsJson, tmp_path: Path
) -> None:
    words = ["pretrain", job.corpus, *job.settings, "--out", tmp_path]
    tinyattn("--formulas", "layer_norm,gelu", *words)
    assert load_run(tmp_path).about["formulas"] == ["gelu", "layer_norm"]
    assert as_json("info", "--from", tmp_path)["formulas"] == ["gelu", "layer_norm"]
    assert load_run(job.pretrained).about["formulas"] == []
    about = as_json("info", "--from", job.pretrained)
    assert "formulas" not in about and about["kernels"] == kernels_in_use("cpu")
    tinyattn("--formulas", "all", *words[:-1], tmp_path / "all")
    assert "kernels" not in as_json("info", "--from", tmp_path / "all")


def test_info_lists_every_formula_and_its_kernels(tinyattn: Any, as_json: AsJson) -> None:
    rows = as_json("info", "--kernels")["rows"]
    assert {row["name"] for row in rows} == {*FORMULAS}
    assert {(row["name"], row["device"]) for row in rows if row["device"]} == {*KERNELS}
    lines = tinyattn("info", "--kernels").stdout.splitlines()
    assert len(lines) == 1 + len(rows) and lines[0].split()[:2] == ["formula", "kernel"]
    assert any(line.split()[:2] == ["attention", "cuda"] and "axes" in line for line in lines)
    assert ["exp", "none"] in [line.split() for line in lines]
    assert "give either" in tinyattn("info", "--kernels", "--recipe", "a5", status=2).stderr


def test_a_formula_is_looked_up_where_it_is_named() -> None:
    """Before the context is entered, so that also a plain call raises the error."""
    with pytest.raises(ValueError, match="there is no formula 'gleu'; did you mean 'gelu'"):
        formulas("linear,gleu")
    wrong: Any = ["gelu", "linear"]
    with pytest.raises(TypeError, match="give the names one by one"):
        formulas(wrong)
    with formulas("gelu,linear", "adamw"):
        assert switched_off() == ["adamw", "gelu", "linear"]
    assert switched_off() == []
