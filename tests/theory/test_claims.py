"""Every claim of the sheets: what is false fails where it must, what is true holds everywhere."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyattn.theory import CLAIMS, Claim, Lab, judge
from tinyattn.theory.claim import CONDITIONAL, FALSE, OPEN, TRUE, TYPO
from tinyattn.theory.lab import OneOf, Real, Reals, Whole

each = pytest.mark.parametrize("claim", CLAIMS.values(), ids=list(CLAIMS))
TRIED = [claim for claim in CLAIMS.values() if claim.corrected is not None]
SLIPS = [claim for claim in CLAIMS.values() if claim.literal is not None]


def strategy(domain: Whole | Real | Reals | OneOf) -> st.SearchStrategy[Any]:
    """The same domain, for Hypothesis."""
    match domain:
        case Whole(low, high):
            return st.integers(low, high)
        case Real(low, high):
            return st.floats(low, high)
        case Reals(low, high, least, most):
            return st.lists(st.floats(low, high), min_size=least, max_size=most).map(tuple)
        case OneOf(choices):
            return st.sampled_from(choices)


@pytest.mark.parametrize("claim", TRIED, ids=[claim.id for claim in TRIED])
@given(data=st.data())
def test_what_is_true_holds_on_its_whole_domain(claim: Claim, data: st.DataObject) -> None:
    drawn = {name: data.draw(strategy(domain), name) for name, domain in claim.domain.items()}
    lab = Lab(np.random.default_rng(data.draw(st.integers(0, 1000), "seed")))
    finding = claim.corrected(lab, **drawn)
    assert finding.holds, finding.text


@pytest.mark.parametrize("claim", SLIPS, ids=[claim.id for claim in SLIPS])
def test_what_a_sheet_says_fails_on_its_witness(claim: Claim, device: str) -> None:
    finding = claim.literal(Lab(np.random.default_rng(0), device), **claim.witness)
    assert not finding.holds
    assert finding.text


@each
def test_a_claim_is_judged_on_every_device(claim: Claim, device: str) -> None:
    result = judge(claim, draws=2, device=device)
    assert result.ok, result.found
    assert bool(result.counterexample) == (claim.literal is not None)
    assert result.found or claim.corrected is None
