"""Every claim of the answer sheets: false ones fail at their witness.

That the checks hold on their whole domain is tested in tests/properties/test_laws.py.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from claims_notice import all_noticed, how_many_attend

from tinyattn.theory import CLAIMS, LAWS, REMARKS, Check, Claim, Finding, Lab, judge, judge_all
from tinyattn.theory.claim import CONDITIONAL, FALSE, LEGEND, TRUE, TYPO, Verdict
from tinyattn.theory.lab import OneOf, Whole
from tinyattn.theory.remarks import difference, share

each = pytest.mark.parametrize("claim", CLAIMS.values(), ids=list(CLAIMS))
SLIPS = [claim for claim in CLAIMS.values() if claim.literal is not None]


@pytest.mark.parametrize("claim", SLIPS, ids=[claim.id for claim in SLIPS])
def test_what_a_sheet_claims_fails_on_its_witness(claim: Claim, device: str) -> None:
    finding = claim.literal(Lab(np.random.default_rng(0), device), **claim.witness)
    assert not finding.holds
    assert finding.text


@each
def test_a_claim_has_the_same_result_on_every_device(claim: Claim, device: str) -> None:
    result = judge(claim, draws=2, device=device)
    assert result.ok, result.found
    assert bool(result.counterexample) == (claim.literal is not None)
    assert result.found or claim.check is None


# Whether wrong verdicts would be detected ----------------------------------------------------


def test_a_verdict_that_is_wrong_is_unexpected() -> None:
    slip = CLAIMS["S001-a.iv"]
    assert slip.literal and slip.check
    only_there = {name: OneOf((value,)) for name, value in slip.witness.items()}
    as_printed = Check(slip.literal, only_there, ())
    assert not judge(replace(slip, verdict=TRUE, check=as_printed, literal=None, witness={})).ok
    inside = {name: v.draw(np.random.default_rng(0)) for name, v in slip.check.domain.items()}
    assert not judge(replace(slip, literal=slip.check.run, witness=inside)).ok


def broken(lab: Lab) -> Finding:
    raise ZeroDivisionError


def test_a_check_that_raises_is_unexpected_and_reported() -> None:
    slip = CLAIMS["S001-a.iv"]
    for result in (judge(replace(slip, literal=broken, witness={})),
                   judge(replace(slip, check=Check(broken, {}, ())))):  # fmt: skip
        assert not result.ok
        assert "ZeroDivisionError" in result.counterexample + result.found


def test_a_number_that_a_law_measures_can_be_claimed() -> None:
    lab, law = Lab(np.random.default_rng(0)), LAWS["a_key_as_query_copies"]
    there = {"n": 10, "lamda": 1.0}
    for claimed, holds in (
        (law.gives("α_j", 0.232), True),
        (law.gives("α_j", 0.25), False),
        (law.gives("α_j", lambda n, lamda: np.exp(lamda) / (np.exp(lamda) + n - 1), 1e-9), True),
        (law.gives_at_most("α_j", 0.24), True),
        (law.gives_at_most("α_j", 0.22), False),
        (law.gives_at_least("α_j", 0.22), True),
        (law.gives_at_least("α_j", 0.24), False),
    ):
        assert claimed(lab, **there).holds == holds
    assert law.gives("α_j", 1)(lab, **there).text == "α_j = 0.232 instead of 1"
    with pytest.raises(KeyError, match="α_k"):
        law.gives("α_k", 1)(lab, **there)


def test_nothing_can_be_claimed_where_the_law_itself_fails() -> None:
    def two_is(lab: Lab, n: int) -> Finding:
        """n is 2."""
        return Finding(n == 2, f"n = {n}", {"n": np.array(n)})

    check = Check(two_is, {"n": Whole(2, 2)}, ())
    assert check.gives("n", 2)(Lab(np.random.default_rng(0)), n=2).holds
    with pytest.raises(AssertionError, match="two_is fails there: n = 3"):
        check.gives("n", 3)(Lab(np.random.default_rng(0)), n=3)
    with pytest.raises(ValueError, match=r"two_is: takes \['n'\], but its domain has \['m'\]"):
        Check(two_is, {"m": Whole(2, 2)}, ())


def test_what_cannot_be_checked_is_refused() -> None:
    with pytest.raises(ValueError, match="draws must be at least 1; got 0"):
        judge(CLAIMS["S000-a.2"], draws=0)
    with pytest.raises(ValueError, match=r"device must be one of .*; got 'tpu'"):
        judge(CLAIMS["S000-a.2"], device="tpu")
    with pytest.raises(ValueError, match=r"id must be such as S000-b\.6, .*; got 'X-1'"):
        replace(CLAIMS["S000-a.2"], id="X-1")


@pytest.mark.parametrize("verdict", [FALSE, TYPO, CONDITIONAL])
def test_a_claim_needs_the_checks_of_its_verdict(verdict: Verdict) -> None:
    good = next(claim for claim in SLIPS if claim.verdict == verdict)
    missing = ({"literal": None}, {"check": None}, {"verdict": TRUE})
    for changes in (*missing, {"witness": {"nothing": 0}}):
        with pytest.raises(ValueError, match=good.id):
            replace(good, **changes)


def test_a_claim_without_words_for_the_truth_has_those_of_its_check() -> None:
    claim = CLAIMS["S001-a.iv"]
    assert claim.check
    assert replace(claim, truth="").truth == claim.check.says != ""


def test_the_same_seed_draws_the_same_numbers_whatever_else_is_checked() -> None:
    alone = judge(CLAIMS["S004-hdr"], seed=3)
    among = judge_all([CLAIMS["S000-a.1"], CLAIMS["S004-hdr"]], seed=3)[1]
    assert alone == among
    assert alone.found != judge(CLAIMS["S004-hdr"], seed=4).found


def test_no_claim_of_a_sheet_is_missing() -> None:
    sheets = Counter(claim.sheet for claim in CLAIMS.values())
    remarks = Counter(remark.sheet for remark in REMARKS.values())
    assert sheets + remarks == {"000": 54, "001": 34, "002": 26, "003": 30, "004": 20,
                                "general": 11, "new": 10, "papers": 10}  # fmt: skip
    assert [*sheets] == sorted(sheets)  # printed in this order


def test_remarks_are_no_claims_and_their_arithmetic_holds() -> None:
    assert not {*REMARKS} & {*CLAIMS}
    for remark in REMARKS.values():
        assert remark.found.holds and remark.found.text, remark.id


@pytest.mark.parametrize(
    "wrong",
    [
        share(6, 1.3, 0.55, 2.59),
        share(6, 1.2, 0.55, 2.7),
        difference(6, 25, 8e-4),
        difference(119, 111, 0.04),
    ],
)
def test_wrong_arithmetic_is_detected(wrong: Finding) -> None:
    assert not wrong.holds


def test_the_legend_contains_every_verdict() -> None:
    assert {*LEGEND} == {*Verdict}


# Whether they test the models' attention -----------------------------------------------------


def test_claims_detect_broken_attention() -> None:
    """`python tests/claims_notice.py` prints the table, with as many draws as the command."""
    for mistake in all_noticed(draws=2):
        assert mistake.enough, f"{mistake.claims} claims notice: {mistake.mutant.breaks}"


def test_the_page_has_the_number_of_claims_that_attend() -> None:
    """`python tests/claims_notice.py --out tests/theory/README.md` writes it anew."""
    page = " ".join((Path(__file__).parent / "README.md").read_text("utf-8").split())
    attend, within = how_many_attend()
    assert f"the checks of {attend} of the {len(CLAIMS)} claims" in page
    assert f"In {within} of them the query is in the middle" in page
