"""Schedules: start, peak and end are right, and A5's cosine continues after its end."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyattn.training.schedule import Schedule

COMMON = ["constant", "linear", "cosine"]


@given(st.sampled_from(COMMON), st.integers(0, 20), st.integers(0, 40), st.floats(0, 1))
def test_up_to_the_peak_then_down_to_the_minimum(
    name: str, warmup: int, end: int, floor: float
) -> None:
    """Also for a run that ends before its warm-up, or exactly with it: no rate is 0."""
    schedule = Schedule(name, learning_rate=2.0, warmup=warmup, end=end, floor=floor)
    rates = [schedule(step) for step in range(max(warmup, end) + 2)]
    assert 0 < rates[0] <= rates[warmup] == max(rates) == 2.0
    assert rates[: warmup + 1] == sorted(rates[: warmup + 1])
    assert rates[warmup:] == sorted(rates[warmup:], reverse=True)
    assert rates[-1] == (2.0 if name == "constant" else 2.0 * floor)


@pytest.mark.parametrize(
    ("name", "share"), [("constant", 1), ("linear", 0.75), ("cosine", (1 + math.sqrt(0.5)) / 2)]
)
def test_a_quarter_of_the_way_down(name: str, share: float) -> None:
    schedule = Schedule(name, learning_rate=1.0, warmup=10, end=110, floor=0.2)
    assert schedule(35) == pytest.approx(0.2 + 0.8 * share)


def test_a5s_cosine_rises_again_after_its_end() -> None:
    schedule = Schedule("a5-cyclic", learning_rate=1.0, warmup=100, end=1100)
    steps = {step: schedule(step, tokens=tokens) for step, tokens in
             [(0, 0), (1, 50), (2, 100), (3, 600), (4, 1100), (5, 1600), (6, 2100)]}  # fmt: skip
    # The first step comes before any token is counted, and A5 starts with the full learning rate.
    assert steps == pytest.approx({0: 1, 1: 0.5, 2: 1, 3: 0.5, 4: 0.1, 5: 0.5, 6: 1})


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "cosin"},
        {"learning_rate": -1.0},
        {"learning_rate": math.nan},
        {"learning_rate": math.inf},
        {"warmup": -1},
        {"floor": -0.1},
    ],
    ids=str,
)
def test_invalid_schedules_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        Schedule(**{"name": "linear", "learning_rate": 1.0, **wrong})
