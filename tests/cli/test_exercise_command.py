"""The command `exercise`."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tinyattn.exercise import EXERCISES, exercise_command

PAGE = Path(__file__).parents[2] / "docs" / "exercises.md"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_exercises_are_listed(tinyattn: Any, as_json: Any) -> None:
    lines = tinyattn("exercise").stdout.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [*EXERCISES]
    (row,) = (row for row in as_json("exercise")["rows"] if row["name"] == "gelu")
    assert row["file"] == "ops/gelu.py" and row["task"].startswith("Gaussian error linear unit")


def test_an_exercise_is_written_and_graded(tinyattn: Any, as_json: Any) -> None:
    shown = tinyattn("exercise", "causal").stdout
    assert shown.endswith("tinyattn exercise causal --check causal.py\n")
    file = Path("causal.py")
    assert "NotImplementedError" in tinyattn("exercise", "causal", "--check", file, status=1).stdout
    head = file.read_text().partition("    raise")[0]
    right = """\
    print("hello")
    keep = xp.tri(queries, keys, keys - queries, dtype=bool)
    return keep if align == "end" else xp.tri(queries, keys, dtype=bool)
"""
    file.write_text(head + right)
    done = tinyattn("exercise", "causal", "--check", file)
    assert "hello" not in done.stdout and "hello" in done.stderr
    assert done.stdout.startswith("check   state  says\nresult  holds  It returns what")
    assert done.stdout.endswith("all checks hold; compare it with tinyattn/attention/masks.py\n")
    file.write_text(file.read_text().replace("keys - queries", "0").replace("print", "str"))
    found = json.loads(tinyattn("exercise", "causal", "--check", file, "--json", status=1).stdout)
    (check,) = found["checks"]
    assert not found["ok"] and check["state"] == "broken"
    assert check["arguments"] == {"queries": "1", "keys": "2", "align": "end"}
    assert check["found"] == "the result = ((1, 0)) instead of ((1, 1))"
    assert as_json("exercise", "gelu", "--out", "a.py") == {"name": "gelu", "out": "a.py"}


def test_a_file_that_exists_is_not_replaced(tinyattn: Any) -> None:
    file = Path("gelu.py")
    file.write_text("mine")
    assert (
        "gelu.py exists already; use --overwrite" in tinyattn("exercise", "gelu", status=2).stderr
    )
    assert file.read_text() == "mine"
    tinyattn("exercise", "gelu", "--overwrite")
    assert "def gelu(" in file.read_text()


def test_a_function_may_be_decorated_as_in_the_package(tinyattn: Any) -> None:
    decorated = """
from tinyattn.dispatch import dispatched

@dispatched
def sgd(xp, w, g, m, *, t, lr, decay, momentum):
    m *= momentum
    m += g
    w -= lr * (decay * w + m)
"""
    Path("sgd.py").write_text(decorated)
    tinyattn("exercise", "sgd", "--check", "sgd.py")


SIGNATURE = "must take the arguments (xp, x, *, exact=True); got (x) in own.py"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot import own.py: no such file"),
        ("def gelu(:\n", "cannot import own.py: SyntaxError: invalid syntax (own.py, line 1)"),
        ("import os\nundefined\n",
         "cannot import own.py: NameError: name 'undefined' is not defined (line 2)"),
        ("def gellu(): ...\n", "own.py has no function 'gelu'"),
        ("gelu = 3\n", "own.py has no function 'gelu'"),
        ("def gelu(x): ...\n", SIGNATURE),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_graded_is_one_line(
    tinyattn: Any, text: str | None, message: str
) -> None:
    if text is not None:
        Path("own.py").write_text(text)
    printed = tinyattn("exercise", "gelu", "--check", "own.py", status=2).stderr
    assert message in printed and printed.count("\n") == 1 and "--check" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sofmax"], "there is no exercise 'sofmax'; did you mean 'softmax'?"),
        (["gelu", "--out", "gelu.txt"], "must end with .py; got gelu.txt"),
        (["gelu", "--out", "nowhere/gelu.py"], "nowhere/gelu.py: no such folder"),
        (["gelu", "--check", "gelu.txt"], "must end with .py; got gelu.txt"),
        (["gelu", "--check", "a.py", "--out", "b.py"], "--check reads a file"),
        (["--check", "gelu.py"], "give the name of an exercise"),
        (["gelu", "--check", "gelu.py", "--examples", "0"], "0 is not in the range x>=1"),
    ],
)
def test_what_the_command_cannot_do_is_one_line(
    tinyattn: Any, words: list[str], message: str
) -> None:
    printed = tinyattn("exercise", *words, status=2).stderr
    assert message in printed and printed.count("\n") == 1


def test_without_hypothesis_an_exercise_can_be_written_but_not_graded(
    tinyattn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exercise_command, "find_spec", lambda name: None)
    tinyattn("exercise", "gelu")
    printed = tinyattn("exercise", "gelu", "--check", "gelu.py", status=2).stderr
    assert "needs Hypothesis: pip install 'tinyattn[check]'" in printed


def test_the_page_shows_what_the_command_prints(tinyattn: Any) -> None:
    text = PAGE.read_text("utf-8")
    (body,) = re.findall(r"```python\n.*?(def softmax.*?)```", text, re.S)
    tables = re.findall(r"```text\n(.*?)```", text, re.S)
    assert tinyattn("exercise").stdout == tables[0]
    tinyattn("exercise", "softmax")
    file = Path("softmax.py")
    head = file.read_text().partition("    raise")[0]
    file.write_text(head + body.partition("\n")[2])
    assert tinyattn("exercise", "softmax", "--check", file, status=1).stdout == tables[1]
