"""Hypothesis searches the domain of every law, and of every other check, for a counterexample."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyattn import formulas
from tinyattn.check import of_values
from tinyattn.theory import CHECKS, LAWS, Check, Lab

OTHERS = {name: check for name, check in CHECKS.items() if name not in LAWS}


def holds(check: Check, data: st.DataObject) -> None:
    """Draw arguments and run the check."""
    drawn = {name: data.draw(of_values(values), name) for name, values in check.domain.items()}
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
