"""`evaluate --report`: what it prints, and which options it needs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

AsJson = Callable[..., dict[str, Any]]


def test_a_report_is_printed_beside_the_score(
    job: Any, tinyattn: Any, as_json: AsJson, tmp_path: Path
) -> None:
    plain = ["evaluate", job.dev, "--from", job.finetuned, "--predictions", tmp_path / "p"]
    words = [*plain, "--report", "--train", job.train, "--corpus", job.corpus]
    found = as_json(*words)
    report = found.pop("report")
    assert found == as_json(*plain)
    answers = report["answers"]
    assert answers["correct"]["count"] == found["correct"]
    assert sum(answers[group]["count"] for group in ("correct", "seen_but_wrong", "invented",
                                                   "empty")) == 4  # fmt: skip
    assert as_json(*words)["report"] == report

    outcome = tinyattn(*words)
    assert outcome.stderr == ""
    assert outcome.stdout.startswith(tinyattn(*plain).stdout)
    assert f"training texts: {job.corpus}, {job.train}\n" in outcome.stdout
    assert "birthplace" not in tinyattn(*plain).stdout


def test_a_model_that_was_not_pretrained_has_no_corpus(
    job: Any, tinyattn: Any, as_json: AsJson, tmp_path: Path
) -> None:
    tinyattn("finetune", job.train, "--corpus", job.corpus, *job.settings, "--out", tmp_path / "f")
    words = ["evaluate", job.dev, "--from", tmp_path / "f", "--report", "--train", job.train]
    assert as_json(*words)["report"]["answers"]["only_in_corpus"]["count"] == 0
    assert f"training texts: {job.train}\n" in tinyattn(*words).stdout
    outcome = tinyattn(*words, "--corpus", job.corpus).stderr
    assert outcome == "note: the model was not pretrained, so it was not trained on --corpus\n"


def test_other_texts_than_those_of_the_run_are_noticed(
    job: Any, tinyattn: Any, tmp_path: Path
) -> None:
    plain = ["evaluate", job.dev, "--predictions", tmp_path / "p", "--report", "--from"]
    other = [*plain, job.finetuned, "--train", job.dev, "--corpus", job.corpus]
    outcome = tinyattn(*other).stderr
    assert outcome.startswith("note: the model was finetuned on other pairs")
    assert outcome.count("\n") == 1
    odd = tmp_path / "odd.txt"
    odd.write_text(job.corpus.read_text()[:-40])
    outcome = tinyattn(*plain, job.finetuned, "--train", job.train, "--corpus", odd).stderr
    assert outcome.startswith(
        "note: the model was pretrained on another text than that of --corpus"
    )
    assert outcome.count("\n") == 1
    only_pretrained = [*plain, job.pretrained, "--train", job.train, "--corpus", job.corpus]
    outcome = tinyattn(*only_pretrained).stderr
    assert outcome.count("\n") == 1 and "never taught to answer" in outcome


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("DEV --report", 2, "--report needs --train PAIRS, those that the model was finetuned on, "
                            "and --corpus FILE if it was pretrained"),
        ("DEV --report --train TRAIN", 2, "the model was pretrained; --report needs its corpus: "
                                          "--corpus FILE"),
        ("DEV --report --corpus CORPUS", 2, "--report needs --train PAIRS"),
        ("DEV --train TRAIN", 2, "--train and --corpus are for --report; give that too"),
        ("DEV --corpus CORPUS", 2, "--train and --corpus are for --report; give that too"),
        ("TEST --report --train TRAIN", 1, "birth_test_inputs.tsv: no line has a tab and an "
                                           "answer, which --report needs"),
        ("DEV --report --train TEST", 1, "birth_test_inputs.tsv: no line has a tab"),
        ("DEV --report --train TRAIN --corpus MISSING", 1, "missing.txt: no such file"),
    ],
)  # fmt: skip
def test_a_report_that_cannot_be_made_is_refused_before_questions_are_answered(
    job: Any, tinyattn: Any, tmp_path: Path, words: str, status: int, message: str
) -> None:
    names = {"DEV": job.dev, "TRAIN": job.train, "TEST": job.test, "CORPUS": job.corpus,
             "MISSING": tmp_path / "missing.txt"}  # fmt: skip
    given = [names.get(word, word) for word in words.split()]
    predictions = tmp_path / "p"
    result = tinyattn("evaluate", *given, "--from", job.finetuned, "--predictions", predictions,
                      status=status)  # fmt: skip
    assert result.stdout == "" and result.stderr.count("\n") == 1
    assert message in result.stderr
    assert not predictions.exists()
