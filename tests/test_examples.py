"""The examples run and show what they promise."""

import ast
import re
import runpy
import sys
from pathlib import Path

import pytest

from tinyattn.attention import ATTENTION

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the example with a number, as a user would; returns what it prints."""

    def run(number: int) -> str:
        (path,) = [e for e in EXAMPLES if e.name.startswith(f"{number:02d}_")]
        monkeypatch.setattr(sys, "argv", [str(path)])
        runpy.run_path(str(path), run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_compiles_says_how_to_run_it_and_finds_its_imports(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    assert f"python examples/{path.name}" in (ast.get_docstring(tree) or "")
    compile(tree, path.name, "exec")
    tree.body = [line for line in tree.body if isinstance(line, ast.Import | ast.ImportFrom)]
    exec(compile(tree, path.name, "exec"), {})


def test_the_first_gradient_agrees_with_finite_differences(run) -> None:
    printed = run(1)
    assert "average of the values: 13.2973\n" in printed
    assert "scores : [-2.3259  1.7393  0.5866]" in printed
    assert "by finite differences: -2.3259 for" in printed
    assert "gradcheck            : True\n" in printed


def test_a_head_by_hand_is_the_head_of_the_package(run) -> None:
    printed = run(2)
    assert "    0.34  0.41  0.25    · \n" in printed
    assert float(re.search(r"ops.attention: (\S+)", printed)[1]) < 1e-14
    assert "first output is the first value: True\n" in printed


def test_a_block_of_your_own_is_known_everywhere(run) -> None:
    try:
        printed = run(5)
    finally:
        ATTENTION.pop("window", None)
    assert "  x x x . . . . . .\n  x x x x . . . . .\n" in printed  # both ways
    assert "  x . . . . . . . .\n  x x . . . . . . .\n  x x x . . . . . .\n" in printed  # causal
    assert printed.count("knows of the first after 4 layers") == 2
    assert "gradients are right: True\n" in printed
    assert re.search(
        r"last position: \[0\. +0\. +0\. +0\. +0\. +0\. +0\.33 0\.33 0\.3[34]\]", printed
    )


@pytest.mark.slow
def test_a_gpt_learns_to_add(run) -> None:
    printed = run(3)
    assert float(re.search(r"never saw: (\S+)%", printed)[1]) > 95


@pytest.mark.slow
def test_a_gpt_learns_from_a_text_and_writes(run) -> None:
    printed = run(4)
    losses = [float(loss) for loss in re.findall(r"^step .* loss (\S+)", printed, re.M)]
    assert losses[-1] < losses[0] / 2
    assert len(printed[printed.rindex("\nstep") :]) > 300
