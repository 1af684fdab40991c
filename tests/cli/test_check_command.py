"""The command `check`."""

import json
from pathlib import Path
from typing import Any

import pytest

MODULE = Path(__file__).parents[1] / "wrong_attention.py"


def test_the_command_prints_a_counterexample(tinyattn: Any, tmp_path: Path) -> None:
    page, function = tmp_path / "laws.html", f"{MODULE}:over_the_queries"
    names = "exact,float64,batch,rectangular"
    given = ("check", function, "--supports", names, "--examples", 10)
    shown = tinyattn(*given, "--html", page, status=1).stdout
    assert shown.startswith("weights_of_a_query_sum_to_one is broken\n  it says ")
    assert "from wrong_attention import over_the_queries\n" in shown and "; right: " in shown
    assert "also broken: " in shown and "left out" in shown.splitlines()[-1]
    assert "weights_of_a_query_sum_to_one" in page.read_text("utf-8")
    found = json.loads(tinyattn(*given, "--json", status=1).stdout)
    first = next(row for row in found["laws"] if row["state"] == "broken")
    assert first["law"] == "weights_of_a_query_sum_to_one" and first["code"]
    assert not found["ok"] and found["name"] == "over_the_queries"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["attention"], "must be MODULE:FUNCTION; got 'attention'"),
        ([f"{MODULE}:atention"], "has no function 'atention'; did you mean 'attention'?"),
        (["no_such_module:f"], "cannot import no_such_module"),
        ([f"{MODULE}:attention", "--supports", "maks"], "there is no feature 'maks'; did you mean"),
        ([f"{MODULE}:attention", "--mask", "true"], "'true' is not one of"),
    ],
)
def test_what_the_command_cannot_do_is_one_line(
    tinyattn: Any, words: list[str], message: str
) -> None:
    assert message in tinyattn("check", *words, status=2).stderr


def test_all_but_some_features_are_those_of_the_keywords_that_it_has(
    tinyattn: Any, tmp_path: Path
) -> None:
    file = tmp_path / "my_own.py"
    file.write_text("from wrong_attention import attention as right\n"
                    "def attention(q, k, v, attn_mask=None):\n"
                    "    return right(q, k, v)\n")  # fmt: skip
    words = ("check", f"{file}:attention", "--supports", "-float64,-nan", "--examples", 3, "--json")
    done = tinyattn(*words)
    missing = {why for law in json.loads(done.stdout)["laws"] for why in law["needs"].split(", ")}
    assert {"mask", "causal", "float64"} <= missing
    assert "attention has the keywords attn_mask, which are not given" in done.stderr
    assert done.stderr.rstrip().endswith("; for attn_mask, did you mean 'mask'?")
