"""The page of conformance.py, from results as `attentions/checked.py` prints them."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

BROKEN: dict[str, Any] = {
    "law": "empty_axes", "statement": "Empty axes are allowed", "state": "broken",
    "found": "an error", "code": "print(1)",
}  # fmt: skip


def result(version: str, *laws: dict[str, Any]) -> dict[str, Any]:
    return {
        "package": "torch", "version": version, "name": "sdpa", "declared": {"no_key": "mean"},
        "counts": {"holds": 90, "left out": 3}, "laws": list(laws),
    }  # fmt: skip


def test_a_row_compares_two_versions(bench: SimpleNamespace) -> None:
    row = bench.conformance.row
    start = "| torch 2 | `sdpa` | no_key mean | 90 | 3 |"
    assert row(result("2"), None) == f"{start} none |  |"
    assert row(result("2", BROKEN), result("1", BROKEN)) == f"{start} `empty_axes` | 1: the same |"
    assert row(result("2"), result("1", BROKEN)) == f"{start} none | 1: `empty_axes` |"


def test_a_broken_law_has_its_code_and_what_was_found(bench: SimpleNamespace) -> None:
    bench.conformance.NOTES[("torch", "empty_axes")] = "It is documented."
    title, text, code, note = bench.conformance.details(result("2", BROKEN))
    assert title == "### torch, `sdpa`: empty_axes"
    assert text == "Empty axes are allowed. Here: an error."
    assert code == "```text\nprint(1)\n```"
    assert note == "It is documented."
    del bench.conformance.NOTES[("torch", "empty_axes")]


@pytest.mark.parametrize("wrong", [False, True])
def test_a_subject_is_checked_in_its_environment(
    bench: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: bool
) -> None:
    """With NumPy in the place of a library, and one subject that is not right."""
    (tmp_path / "with_numpy.py").write_text(
        "from wrong_attention import attention, inverted\n"
        "from subject import ALL, Subject\n"
        f"f = {'inverted' if wrong else 'attention'}\n"
        "SUBJECTS = [Subject('one', 'numpy', f, ALL - {'grad'}, {'no_key': 'zeros'}),\n"
        "            Subject('other', 'numpy', f)]\n"
    )
    (tmp_path / "checked.py").write_text((bench.folder / "attentions/checked.py").read_text())
    tests = Path(__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", f"{tests}:{tests.parent}:{bench.folder / 'attentions'}")
    done = subprocess.run([sys.executable, tmp_path / "checked.py", "with_numpy", "one"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    (found,) = map(json.loads, done.stdout.splitlines())
    assert (found["name"], found["version"]) == ("one", np.__version__)
    assert found["declared"] == {"no_key": "zeros"}
    assert found["ok"] is not wrong
