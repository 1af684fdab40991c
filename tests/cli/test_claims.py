"""The command that checks the claims of the answer sheets."""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tinyattn.cli.claims_command import VERDICTS
from tinyattn.theory import CLAIMS, REMARKS, Check, Finding
from tinyattn.theory.claim import DRAWS, TRUE, Verdict
from tinyattn.theory.remarks import share

AsJson = Callable[..., dict[str, Any]]
FEW = ["--id", "S000-a.2", "--id", "S004-hdr", "--id", "N-1"]


def test_json(as_json: AsJson) -> None:
    found = as_json("claims", *FEW)
    assert [row["id"] for row in found["rows"]] == ["S000-a.2", "S004-hdr", "N-1"]
    assert [row["sheet"] for row in found["rows"]] == ["000", "004", "new"]
    assert all(row["ok"] and row["statement"] and row["found"] for row in found["rows"])
    (erratum,) = found["errata"]
    assert erratum["id"] == "S000-a.2" and erratum["verdict"] == "FALSE"
    assert erratum["counterexample"] == "n = 2, lead = 0.1: least α_j = 0.525 instead of 1"
    assert erratum["where"] == "sheet 000, line 44"
    assert found["unexpected"] == 0


def test_everything_is_there_and_as_expected(as_json: AsJson) -> None:
    found = as_json("claims", "--draws", 1)
    assert len(found["rows"]) == len(CLAIMS) >= 150
    assert [row["id"] for row in found["remarks"]] == [*REMARKS]
    assert all(row["ok"] and row["found"] for row in found["remarks"])
    assert len(found["errata"]) >= 42
    assert found["unexpected"] == 0
    literal = {name for name, claim in CLAIMS.items() if claim.literal is not None}
    assert {erratum["id"] for erratum in found["errata"]} == literal


def test_filters(as_json: AsJson) -> None:
    rows = as_json("claims", "--sheet", "003", "--verdict", "typo", "--draws", 1)["rows"]
    assert {row["verdict"] for row in rows} == {"TYPO"}
    assert {row["sheet"] for row in rows} == {"003"}
    both = as_json("claims", "--verdict", "TYPO", "--verdict", "false", "--draws", 1)["rows"]
    assert {row["verdict"] for row in both} == {"TYPO", "FALSE"}


@pytest.mark.parametrize(("short", "printed"), VERDICTS.items())
def test_a_verdict_is_also_called_as_it_is_printed(
    as_json: AsJson, short: str, printed: str
) -> None:
    words = ["claims", "--sheet", "004", "--draws", 1, "--verdict"]
    rows = as_json(*words, short)
    assert {row["verdict"] for row in rows["rows"] + rows["remarks"]} <= {printed}
    for name in (printed, printed.lower(), printed.replace(" ", "  ").title()):
        assert as_json(*words, name) == rows


def test_text(tinyattn: Any) -> None:
    shown = tinyattn("claims", "--sheet", "002", "--verdict", "false", "--draws", 1).stdout
    assert re.search(r"^S002-a\.2 +FALSE  confirmed  if scores are not negative", shown, re.M)
    assert re.search(r"^S002-a\.2 +FALSE, sheet 002, line 7$", shown, re.M)
    assert " but  scores = (10, 9.9): weights = (0.525, 0.475) instead of (1, 0)\n" in shown
    assert max(map(len, shown.splitlines())) <= 100
    assert "\nFALSE: fails on every such range" in shown
    assert shown.rstrip().endswith("unexpected: 0")


def test_one_claim_in_full(tinyattn: Any) -> None:
    shown = tinyattn("claims", "--id", "S000-a.2").stdout
    for text in ("claim", "source          sheet 000, line 44", "verdict         FALSE",
                 "counterexample  n = 2, lead = 0.1", "what is true", "found",
                 "checks confirm  yes", "tinyattn.theory.weights.lead_needed"):  # fmt: skip
        assert text in shown


def test_a_remark_is_listed_apart_and_checked_by_arithmetic(tinyattn: Any) -> None:
    shown = tinyattn("claims", "--id", "s004-PTS").stdout
    assert re.search(r"found +points of \(a\) by items = 5;", shown)
    assert "source          sheet 004, lines 15-128 (words of the assignment)" in shown
    assert shown.endswith("\n\n1 remark: 1 TYPO\nunexpected: 0\n")
    shown = tinyattn("claims", "--sheet", "004", "--verdict", "typo", "--draws", 1).stdout
    claims, _, remarks = shown.partition("remarks: no claims about attention")
    assert "S004-a.iii" in claims and "S004-pts" not in claims
    assert re.search(r"^S004-pts\* +TYPO  confirmed", remarks, re.M)


def test_a_wrong_remark_is_a_failure(tinyattn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(REMARKS["S002-3.f"], check=lambda: share(60, 12.5, 9.44, 15.14))
    monkeypatch.setitem(REMARKS, "S002-3.f", wrong)
    shown = tinyattn("claims", "--id", "S002-3.f", status=1).stdout
    assert "60 of 500 in % = 12 instead of 12.5" in shown and shown.endswith("unexpected: 1\n")
    shown = tinyattn("claims", "--sheet", "002", "--verdict", "true", status=1).stdout
    assert re.search(r"^S002-3\.f +TRUE  UNEXPECTED", shown, re.M)


def test_page(tinyattn: Any, tmp_path: Path) -> None:
    path = tmp_path / "errata.html"
    shown = tinyattn("claims", *FEW, "--html", path).stdout
    assert f"The page is {path}." in shown
    tinyattn("claims", *FEW, "--id", "S004-pts", "--html", path)
    text = path.read_text("utf-8")
    opened: list[str] = []

    class Tags(HTMLParser):
        """Checks that every opened tag is closed, in order."""

        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "br"):
                opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    Tags().feed(text)
    assert not opened
    assert "n = 2, lead = 0.1: least α_j = 0.525 instead of 1" in text and "S004-pts*" in text
    assert "http" not in text and "<script" not in text


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_a_page_is_written_through_a_link(tinyattn: Any, tmp_path: Path) -> None:
    link = tmp_path / "link.html"
    link.symlink_to("page.html")
    tinyattn("claims", *FEW, "--html", link)
    assert link.is_symlink() and "<html" in (tmp_path / "page.html").read_text("utf-8")
    link.unlink()
    link.symlink_to("missing/page.html")
    assert "no such folder" in tinyattn("claims", *FEW, "--html", link, status=2).stderr
    assert link.is_symlink()


def test_an_unexpected_result_is_shown_and_is_a_failure(
    tinyattn: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(lab: object) -> Finding:
        raise ZeroDivisionError("<no> luck")

    good = CLAIMS["S004-hdr"]
    assert good.verdict == TRUE
    monkeypatch.setitem(CLAIMS, "S004-hdr", replace(good, check=Check(broken, {}, ())))
    path = tmp_path / "page.html"
    shown = tinyattn("claims", *FEW, "--html", path, status=1).stdout
    assert "ZeroDivisionError: <no> luck" in shown and shown.count("checks confirm  NO") == 1
    assert "&lt;no&gt; luck" in path.read_text("utf-8")
    whole = tinyattn("claims", "--sheet", "004", "--verdict", "true", status=1).stdout
    assert re.search(r"^S004-hdr\* +TRUE  UNEXPECTED", whole, re.M)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--id S000-a.22", "there is no claim 'S000-a.22'; did you mean S000-a.2"),
        ("--id S000-a.2 --sheet 004", "no claim is left"),
        ("--sheet 005", "'005' is not one of"),
        ("--verdict wrong", "'wrong' is not one of"),
        ("--html no/such/place.html", "no such folder"),
        ("--draws 0", "0 is not in the range"),
    ],
)
def test_wrong_use_is_one_line(tinyattn: Any, words: str, message: str) -> None:
    result = tinyattn("claims", *words.split(), status=2)
    assert message in result.stderr and result.stderr.count("\n") == 1


def test_the_command_line_accepts_all_names_of_the_registry() -> None:
    from tinyattn.cli.claims_command import SHEETS, VERDICTS, claims

    assert {*VERDICTS.values()} == {*map(str, Verdict)}
    assert {*SHEETS} == {claim.sheet for claim in CLAIMS.values()}
    assert next(p.default for p in claims.params if p.name == "draws") == DRAWS
