"""The command that compares attention types."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyattn.measure import compare
from tinyattn.measure.comparison_report import _spread

AsJson = Callable[..., dict[str, Any]]
SMALL = ["--lengths", "16,32", "--width", 8, "--heads", 2, "--rounds", 1]


def test_json(as_json: AsJson) -> None:
    words = ["--attention", "linformer,rows=3", "--attention", "multihead", "--length", 24]
    found = as_json("compare", *SMALL, *words)
    assert (found["width"], found["heads"], found["length"]) == (8, 2, 24)
    linformer, dense = found["rows"]
    assert (linformer["name"], dense["name"]) == ("linformer,rows=3", "multihead")
    assert (linformer["causal"], dense["causal"]) == (False, True)
    assert linformer["letters"] == {"C": 8, "H": 2, "R": 3, "T": 24}
    assert linformer["parameters"] == 4 * (8 * 8 + 8) + 2 * 3 * 128
    assert [*dense["seconds"]] == [*dense["peak_bytes"]] == ["16", "24", "32"]
    assert dense["step_ratio"] == 1
    for row in found["rows"]:
        assert all(np.isfinite(row[key]) for key in ("time_slope", "memory_slope", "step_ratio"))


def test_table_and_picture(tinyattn: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "a.png"
    words = ["--attention", "bigbird", "--attention", "perceiver,latents=4", "--picture", path]
    outcome = tinyattn("compare", *SMALL, *words).stdout
    lines = outcome.splitlines()
    assert lines[0].startswith("width 8, 2 heads, one sequence of T = 32 positions")
    names = [line.split("  ")[0] for line in lines[3:7]]
    assert names == ["bigbird", "perceiver,latents=4", "multihead", "multihead, bidirectional"]
    assert lines[3].split()[1:4] == [str(4 * (8 * 8 + 8)), "both", "3"]
    assert "never" in lines[4] and "= 4·T·C² + 4·L·C² + 4·T·L·C" in outcome and "L = 4" in outcome
    assert f"The picture is {path}." in outcome and path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_picture_needs_a_matplotlib_that_works(
    tinyattn: Any, tmp_path: Path, matplotlib_is: Any, more: list[str]
) -> None:
    """If it is missing, the error comes before the work; if it fails, only the picture is lost."""
    picture = tmp_path / "a.png"
    words = ["compare", *SMALL, "--attention", "multihead", "--picture", picture, *more]
    matplotlib_is("raise ModuleNotFoundError('none', name='matplotlib')")
    refused = tinyattn(*words, status=2)
    assert refused.stdout == "" and "pip install 'tinyattn[plot]'" in refused.stderr
    matplotlib_is("raise OSError('libfreetype.so: cannot open')")
    outcome = tinyattn(*words)
    assert outcome.stderr == (f"note: no picture {picture}: matplotlib does not work: OSError: "
                           "libfreetype.so: cannot open\n")  # fmt: skip
    assert "multihead" in outcome.stdout and "The picture is" not in outcome.stdout
    assert not picture.exists()


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_a_picture_is_written_through_a_link(tinyattn: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    link, nowhere = tmp_path / "link.png", tmp_path / "nowhere.png"
    link.symlink_to("drawn.png")
    nowhere.symlink_to("missing/drawn.png")
    words = ["compare", *SMALL, "--attention", "multihead", "--picture"]
    assert "no such folder" in tinyattn(*words, nowhere, status=2).stderr
    tinyattn(*words, link)
    assert link.is_symlink() and nowhere.is_symlink()
    assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--attention nothing", "attention must be one of multihead, .*; got 'nothing'"),
        ("--attention bigbird,blocks=3", "has no option 'blocks'; it has block=8"),
        ("--attention bigbird,window_blocks=2", "window_blocks odd"),
        ("--lengths 8,99999999999999", "must be at most 16777216; got '99999999999999'"),
        ("--lengths 99999999999999,99999999999998", "must be at most 16777216; got '9999"),
        ("--lengths 8,16777217", "must be at most 16777216; got '16777217'"),
        ("--lengths 256", "needs two lengths or more"),
        ("--lengths 256,256", "needs two lengths or more"),
        ("--lengths 256,no", "needs two lengths or more"),
        ("--lengths 0,8", "needs two lengths or more"),
        (
            "--attention synthesizer,length=64",
            "synthesizer,length=64 takes sequences of 64 positions at most",
        ),
        ("--heads 5", "--heads: must divide the width 64; got 5"),
        ("--picture missing/attention.png", "missing/attention.png: no such folder"),
        ("--picture attention.jpg", "must end with .png"),
    ],
)
def test_wrong_usage(tinyattn: Any, words: str, message: str) -> None:
    result = tinyattn("compare", *words.split(), status=2)
    assert result.stdout == ""
    assert re.search(message, " ".join(result.stderr.split())), result.stderr


def test_labels_do_not_overlap_and_are_in_order() -> None:
    heights = np.array([0.5, 0.51, 0.9, 0.5, 1.0, 0.98])
    placed = _spread(heights, 0.1)
    order = np.argsort(heights, kind="stable")
    assert (np.diff(placed[order]) > 0.0999).all()
    assert placed.min() >= 0 and placed.max() <= 1
    np.testing.assert_array_equal(_spread(np.array([0.1, 0.8]), 0.1), [0.1, 0.8])


def test_many_attention_types_fit_the_picture(tmp_path: Path) -> None:
    """More types than colours."""
    pytest.importorskip("matplotlib")
    from tinyattn.measure.comparison_report import save_picture

    names = [f"linformer,rows={n}" for n in range(1, 12)]
    found = compare(names, width=8, heads=2, lengths=(8, 16), rounds=1)
    save_picture(found, tmp_path / "many.png")
    assert (tmp_path / "many.png").stat().st_size > 10_000
