"""`tinyattn parse`: a small job on a made-up treebank, and its errors."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import treebank

AsJson = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("treebank") / "small.conllu"
    path.write_text(treebank.as_conllu(treebank.documents(15)), encoding="utf-8")
    return path


def test_the_job(tinyattn: Any, as_json: AsJson, file: Path, tmp_path: Path) -> None:
    found = as_json("parse", file, "--epochs", 8, "--penalty", "near=0.01,cap=16",
                    "--out", tmp_path / "runs", "--workers", 1)  # fmt: skip
    rows = {row["name"]: row for row in found["rows"]}
    assert list(rows) == ["left-branching", "left-branching, majority label", "right-branching",
                          "right-branching, majority label", "heads built from the tree",
                          "parser, penalty: none", "parser, penalty: near=0.01,cap=16"]  # fmt: skip
    for row in rows.values():
        assert row.keys() == {"name", "uas", "las", "entropy", "distance", "seconds"}
        assert row["uas"]["total"] == row["las"]["total"] > 50
        assert row["uas"]["low"] <= row["uas"]["accuracy"] <= row["uas"]["high"]
    learnt, rule = rows["parser, penalty: none"], rows["left-branching, majority label"]
    assert learnt["uas"]["accuracy"] > rule["uas"]["accuracy"] + 0.3
    assert learnt["las"]["accuracy"] > rule["las"]["accuracy"] + 0.3
    assert 0 < rows["parser, penalty: near=0.01,cap=16"]["distance"] < learnt["distance"] <= 16
    for name in ("none", "near=0.01,cap=16"):
        entries = (tmp_path / "runs" / name / "metrics.jsonl").read_text().splitlines()
        assert json.loads(entries[-1])["epoch"] == 8
    (judged,) = as_json("parse", file, "--from", tmp_path / "runs" / "none")["rows"]
    assert judged["uas"]["accuracy"] >= learnt["uas"]["accuracy"] - 0.1  # most of them are right
    assert judged["uas"]["total"] > 4 * learnt["uas"]["total"]  # all sentences, not a fifth
    outcome = tinyattn("info", "--from", tmp_path / "runs" / "none", status=1)
    assert "holds a parser, which `tinyattn parse --from` can use" in outcome.stderr
    refused = tinyattn("parse", file, "--out", tmp_path / "runs", status=2)
    assert "holds a run already" in refused.stderr


def test_the_table_has_the_penalties_that_the_attention_type_supports(
    tinyattn: Any, file: Path
) -> None:
    table = tinyattn("parse", file, "--epochs", 1, "--attention", "linformer,rows=4").stdout
    assert "penalty: none" in table and "penalty: focus" in table
    assert "penalty: near" not in table and "penalty: both" not in table


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("missing.conllu", 1, r"missing\.conllu: no such file"),
        ("BROKEN", 1, r"broken\.conllu: line 3: needs 10 columns"),
        ("ONE", 1, "one document cannot be split"),
        ("FILE --attention telepathy", 2, "attention must be one of"),
        ("FILE --attention latent", 2, "cannot be a parser's attention"),
        ("FILE --attention linformer --penalty near=0.1", 2, "penalty near"),
        ("FILE --attention bigbird,block=0", 2, "block must be at least 1"),
        ("FILE --attention synthesizer,length=1", 2, "takes 1 positions; a sentence has"),
        ("FILE --penalty near=0,cap=9", 2, "give each penalty once, and none of weight 0"),
        ("FILE --from FILE", 1, "not a checkpoint"),
        ("FILE --from FILE --epochs 2", 2, "with --from nothing is trained"),
        ("FILE --from FILE --attention bigbird", 2, "with --from nothing is trained"),
        ("FILE --attention bigbird --attention linformer", 2, "give one only; got bigbird and"),
        ("FILE --penalty far=1", 2, "--penalty"),
        ("FILE --penalty focus=-1", 2, "focus must be at least 0 and finite; got -1.0"),
    ],
)  # fmt: skip
def test_mistakes_give_one_line(
    tinyattn: Any, file: Path, tmp_path: Path, words: str, status: int, message: str
) -> None:
    broken, one = tmp_path / "broken.conllu", tmp_path / "one.conllu"
    lines = file.read_text().splitlines(keepends=True)
    broken.write_text("".join([*lines[:2], "what\n", *lines[2:]]))
    one.write_text(treebank.as_conllu(treebank.documents(1)))
    places = {"FILE": file, "BROKEN": broken, "ONE": one}
    result = tinyattn("parse", *[places.get(word, word) for word in words.split()], status=status)
    assert result.stdout == ""
    assert message.replace("\\", "") in result.stderr
