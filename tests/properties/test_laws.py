"""Hypothesis searches the domain of every law, and of every other check, for a counterexample."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyattn import formulas
from tinyattn.theory import CHECKS, LAWS, Check, Lab
from tinyattn.theory.lab import OneOf, Real, Reals, Values, Whole, Wholes

OTHERS = {name: check for name, check in CHECKS.items() if name not in LAWS}


def strategy(values: Values) -> st.SearchStrategy[Any]:
    """The same values, as a Hypothesis strategy."""
    match values:
        case Whole(low, high):
            return st.integers(low, high)
        case Real(low, high):
            return st.floats(low, high)
        case Reals(low, high, least, most):
            return st.lists(st.floats(low, high), min_size=least, max_size=most).map(tuple)
        case Wholes(low, high, least, most):
            return st.lists(st.integers(low, high), min_size=least, max_size=most).map(tuple)
        case OneOf(choices):
            return st.sampled_from(choices)


def holds(check: Check, data: st.DataObject) -> None:
    """Draw arguments and run the check."""
    drawn = {name: data.draw(strategy(values), name) for name, values in check.domain.items()}
    lab = Lab(np.random.default_rng(data.draw(st.integers(0, 1000), "seed")))
    finding = check(lab, **drawn)
    assert finding.holds, finding.text


@pytest.mark.parametrize("computed", [nullcontext, formulas], ids=["kernels", "formulas"])
@pytest.mark.parametrize("law", LAWS.values(), ids=list(LAWS))
@given(data=st.data())
def test_a_law_holds(law: Check, computed: Any, data: st.DataObject) -> None:
    with computed():
        holds(law, data)


@pytest.mark.parametrize("check", OTHERS.values(), ids=list(OTHERS))
@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data())
def test_another_check_holds(check: Check, data: st.DataObject) -> None:
    holds(check, data)
