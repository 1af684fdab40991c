"""The command `explore`: a page of a run, and what it refuses without writing anything."""

from pathlib import Path
from typing import Any

import pytest


def test_a_page_is_written(job: Any, tinyattn: Any, as_json: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ["explore", "--from", job.finetuned, "--text", "Where was Al born?", "--out", page]
    found = as_json(*words)
    assert found == {"out": str(page), "bytes": page.stat().st_size, "sections": 1}
    assert found["bytes"] < 300_000
    assert "page.html exists already; use --overwrite" in tinyattn(*words, status=2).stderr
    assert "kB; open it in a browser" in tinyattn(*words, "--overwrite").stdout


@pytest.mark.parametrize("attention", ["synthesizer", "perceiver", "latent", "bilinear"])
def test_every_attention_type_has_a_page(
    job: Any, tinyattn: Any, as_json: Any, tmp_path: Path, attention: str
) -> None:
    run = tmp_path / "run"
    tinyattn("pretrain", job.corpus, *job.settings, "--attention", attention, "--set",
             "model.layers=2", "--steps", 1, "--out", run)  # fmt: skip
    found = as_json("explore", "--from", run, "--text", "Who was Al Bo?", "--out",
                    tmp_path / "page.html")  # fmt: skip
    assert found["sections"] == (2 if attention == "perceiver" else 1)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--text", "Where was Al born?", "--out", "page.png"], 2, "must end with .html; got page"),
        (["--text", "Where was Al born?", "--out", "no/page.html"], 2, "no/page.html: no such fol"),
        (["--text", "Where was É born?", "--out", "page.html"], 1, "character 'É' (U+00C9) at"),
        (["--text", "", "--out", "page.html"], 1, "the question '' is empty"),
        (["--text", "a" * 200, "--out", "page.html"], 1, "has 201 tokens; it must have 1 to 79"),
        (["--out", "page.html"], 2, "Missing option '--text'"),
        (["--text", "a", "--out", "page.html", "--from", "none"], 1, "none: no such file"),
    ],
)
def test_an_error_is_one_line_and_writes_nothing(
    job: Any, tinyattn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    words: list[str], status: int, message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    start = [] if "--from" in words else ["--from", job.finetuned]
    printed = tinyattn("explore", *start, *words, status=status).stderr
    assert message in printed and printed.count("\n") == 1 and "--unknown" not in printed
    assert not [*tmp_path.iterdir()]
