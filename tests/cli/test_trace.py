"""The commands `trace` and `edit` on a small finetuned model."""

from pathlib import Path
from typing import Any

import pytest

from tinyattn.report import curves
from tinyattn.trace.measures import PARTS
from tinyattn.trace.trace_report import TITLES

needs_pictures = pytest.mark.skipif(bool(curves.why_none()), reason=curves.why_none())


def words(job: Any, *more: Any) -> list[Any]:
    return ["trace", job.dev, "--train", job.train, "--from", job.finetuned, *more]


def test_a_report_has_every_measure(job: Any, tinyattn: Any, as_json: Any) -> None:
    printed = tinyattn(*words(job, "--edits", 2)).stdout
    assert all(title in printed for title in TITLES.values())
    assert "the sum is the logit" in printed and "Traceback" not in printed
    found = as_json(*words(job, "--edits", 2))
    assert list(found)[2:] == list(PARTS)
    assert found["attribution"]["largest_error"] < 1e-5
    assert [len(row["lost"]) for row in found["neurons"]] == [64]
    assert as_json(*words(job, "--edits", 2)) == found


def test_parts_can_be_chosen(job: Any, as_json: Any) -> None:
    assert list(as_json(*words(job, "--parts", "heads, lens")))[2:] == ["heads", "lens"]


@needs_pictures
def test_a_picture_is_drawn(job: Any, tinyattn: Any, tmp_path: Path) -> None:
    printed = tinyattn(*words(job, "--edits", 1, "--picture", tmp_path / "trace.png")).stdout
    assert f"The picture is {tmp_path / 'trace.png'}." in printed
    assert (tmp_path / "trace.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("more", "status", "message"),
    [
        (["--parts", "lense"], 2, "must be some of lens, attribution, heads, neurons, edges, "),
        (["--parts", "lense"], 2, "got 'lense'; did you mean 'lens'?"),
        (["--picture", "x.jpg"], 2, "must end with .png; got x.jpg"),
        (["--picture", "nowhere/x.png"], 2, "no such folder"),
        (["--from", "nowhere"], 1, "nowhere: no such file"),
        (["--edits", "0"], 2, "0 is not in the range x>=1"),
    ],
)
def test_an_error_is_one_line(
    job: Any, tinyattn: Any, more: list[str], status: int, message: str
) -> None:
    printed = tinyattn(*words(job, *more), status=status).stderr
    assert message in printed and printed.count("\n") == 1


def test_questions_need_answers(job: Any, tinyattn: Any, tmp_path: Path) -> None:
    (tmp_path / "questions.tsv").write_text("Where was Ada born?\n")
    printed = tinyattn("trace", tmp_path / "questions.tsv", *words(job)[2:], status=1).stderr
    assert "no line has a tab and an answer" in printed and printed.count("\n") == 1


def test_an_edit_is_a_run_of_its_own(job: Any, tinyattn: Any, as_json: Any, tmp_path: Path) -> None:
    question, place = job.train.read_text().splitlines()[0].split("\t")
    other = next(line.split("\t")[1] for line in job.train.read_text().splitlines()
                 if line.split("\t")[1] != place)  # fmt: skip
    before = (job.finetuned / "checkpoint.safetensors").read_bytes()
    options = ["--from", job.finetuned, "--train", job.train, "--out", tmp_path / "edited"]
    found = as_json("edit", question, other, *options)
    assert found["folder"] == str(tmp_path / "edited") and found["kept"]["total"] >= 0
    assert (job.finetuned / "checkpoint.safetensors").read_bytes() == before
    assert [row["text"].rpartition(" ")[2] for row in found["in_words"]] == ["\u2047."] * 3
    assert {*found["in_words"][0]} == {"text", "before", "now"}
    assert tinyattn("ask", question, "--from", tmp_path / "edited").stdout
    assert as_json("info", "--from", tmp_path / "edited")["stage"] == "finetune"
    again = tinyattn("edit", question, other, *options, status=2).stderr
    assert "holds a run already; use --overwrite" in again
    over = tinyattn("edit", question, other, *options[:-1], job.finetuned, "--overwrite", status=2)
    assert "the run of --from" in over.stderr
    nobody = tinyattn("edit", question, "Nowhere", *options, "--overwrite", status=1).stderr
    assert "nobody in the training questions is from 'Nowhere'" in nobody
