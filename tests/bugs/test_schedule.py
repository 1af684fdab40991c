"""Reports about the learning rate: the first step, the end of the warm-up, and after the end."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyattn.training.schedule import SHAPES, Schedule, a5_cyclic
from tinyattn.training.settings import SettingError, TrainSettings


def rates(schedule: Schedule, steps: range) -> list[float]:
    return [schedule(step) for step in steps]


@pytest.mark.parametrize(
    ("warmup", "end", "expected"),
    [
        (4, 10, [0.2, 0.4, 0.6, 0.8, 1, 0.939711, 0.775, 0.55, 0.325, 0.160289, 0.1, 0.1, 0.1]),
        (3, 3, [0.25, 0.5, 0.75, 1, 0.1, 0.1]),
        (0, 4, [1, 0.868198, 0.55, 0.231802, 0.1, 0.1]),
        (0, 0, [1, 0.1, 0.1]),
        (0, 1, [1, 0.1, 0.1]),
        (1, 1, [0.5, 1, 0.1]),
        (5, 2, [1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1, 0.1, 0.1]),
        (1, 3, [0.5, 1, 0.55, 0.1, 0.1]),
    ],
    ids=str,
)
def test_the_cosine_starts_above_zero_and_stays_at_its_minimum(
    warmup: int, end: int, expected: list[float]
) -> None:
    """karpathy/nanoGPT#443, #691, mojivalipour/symbolicgpt#2: no step with rate 0, no 0/0."""
    schedule = Schedule("cosine", learning_rate=1.0, warmup=warmup, end=end, floor=0.1)
    assert rates(schedule, range(len(expected))) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("peak", [1.0, 6e-4, 1e-30])
def test_every_schedule_has_the_same_ends(name: str, peak: float) -> None:
    """First step, last step of the warm-up, peak, end, and long after the end."""
    for warmup in (0, 1, 2, 7):
        for end in (0, 1, 2, 7, 8, 20):
            schedule = Schedule(name, learning_rate=peak, warmup=warmup, end=end, floor=0.1)
            got = rates(schedule, range(30))
            floor = peak if name == "constant" else 0.1 * peak
            assert all(rate > 0 and math.isfinite(rate) for rate in got)
            assert got[0] == pytest.approx(peak / (warmup + 1))
            assert got[warmup] == max(got) == peak
            assert got[: warmup + 1] == sorted(got[: warmup + 1])
            assert got[warmup:] == sorted(got[warmup:], reverse=True)
            assert all(rate == pytest.approx(floor) for rate in got[max(warmup + 1, end) :])
            assert schedule(10**9) == pytest.approx(floor)


@given(
    st.sampled_from(sorted(SHAPES)),
    st.integers(0, 50),
    st.integers(0, 100),
    st.floats(0, 1),
    st.integers(0, 200),
)
def test_no_learning_rate_leaves_its_range(
    name: str, warmup: int, end: int, floor: float, at: int
) -> None:
    """EleutherAI/gpt-neox#1373: never above the peak, and after the warm-up never below."""
    rate = Schedule(name, learning_rate=2.0, warmup=warmup, end=end, floor=floor)(at)
    assert 0 <= rate <= 2.0
    if at >= warmup:
        assert rate >= 2.0 * floor - 1e-12


def test_a_minimum_of_zero_and_a_minimum_of_the_peak() -> None:
    """The two ends of the range of the minimum."""
    assert Schedule("cosine", 1.0, 2, 6, floor=0.0)(6) == 0
    assert rates(Schedule("linear", 1.0, 0, 4, floor=1.0), range(6)) == [1.0] * 6


# The rule of A5 ------------------------------------------------------------------------------

TOKENS = {0: 0, 2560: 0.25, 10239: 0.999902, 10240: 1, 25_600: 0.933013, 56_320: 0.5,
          102_400: 0.1, 150_000: 0.525896, 200_000: 0.991427}  # fmt: skip


@pytest.mark.parametrize(("tokens", "expected"), TOKENS.items())
def test_the_cyclic_rule_rises_again_after_its_end(tokens: int, expected: float) -> None:
    """It has its own name, for published settings that need it."""
    assert a5_cyclic(tokens, 10_240, 102_400, 0.1) == pytest.approx(expected, abs=5e-7)
    schedule = Schedule("a5-cyclic", learning_rate=3.0, warmup=10_240, end=102_400, floor=0.1)
    assert schedule(step=7, tokens=tokens) == pytest.approx(3 * expected, abs=2e-6)


def test_the_clamped_rule_has_another_name_and_does_not_rise() -> None:
    """With the same settings "cosine" reaches the minimum and stays there."""
    schedule = Schedule("cosine", learning_rate=1.0, warmup=10_240, end=102_400, floor=0.1)
    for tokens in (102_400, 150_000, 200_000, 10**9):
        assert schedule(tokens) == pytest.approx(0.1)


def test_the_cyclic_rule_is_periodic_and_bounded() -> None:
    """It rises to the peak in as many tokens as it fell, and so on."""
    warmup, end = 100, 1100
    for tokens in range(warmup, 9000, 50):
        rate = a5_cyclic(tokens, warmup, end)
        assert 0.1 <= rate <= 1
        assert rate == pytest.approx(a5_cyclic(tokens + 2 * (end - warmup), warmup, end))
    for lap in range(4):
        assert a5_cyclic(warmup + lap * 2000, warmup, end) == pytest.approx(1)
        assert a5_cyclic(end + lap * 2000, warmup, end) == pytest.approx(0.1)


@pytest.mark.parametrize("warmup", [0, 1, 10])
@pytest.mark.parametrize("end", [0, 1, 10])
def test_degenerate_lengths_never_divide_by_zero_in_the_cyclic_rule(warmup: int, end: int) -> None:
    """Warm-up and end of 0, and an end within the warm-up."""
    for tokens in (0, 1, 9, 10, 11, 1000):
        assert 0 <= a5_cyclic(tokens, warmup, end) <= 1
        rate = Schedule("a5-cyclic", 1.0, warmup, end)(1, tokens)
        assert 0 <= rate <= 1


def test_the_first_step_of_the_cyclic_rule_is_not_zero() -> None:
    """karpathy/nanoGPT#443: at 0 tokens the rule gives 0, but the first step has the peak."""
    assert Schedule("a5-cyclic", 2.0, 10_240, 102_400)(0, 0) == 2.0


# Settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
@pytest.mark.parametrize("warmup", [0, 1, 10, 1000])
@pytest.mark.parametrize("steps", [1, 2, 10, 11])
def test_the_last_step_of_any_run_has_a_learning_rate(
    schedule: str, warmup: int, steps: int
) -> None:
    """Also of a run that is shorter than its warm-up."""
    settings = TrainSettings(schedule=schedule, warmup=warmup, learning_rate=0.5, floor=0.0)
    plan = settings.make_schedule(steps, corpus_tokens=0)
    got = rates(plan, range(steps))
    assert all(0 < rate <= 0.5 for rate in got)
    if warmup < steps:
        assert max(got) == 0.5


@pytest.mark.parametrize(
    "wrong",
    [{"warmup": -1}, {"floor": 1.5}, {"learning_rate": -1.0}, {"learning_rate": math.nan},
     {"learning_rate": math.inf}, {"floor": -0.1}, {"schedule": "cyclic"}, {"schedule": "Cosine"}],
    ids=str,
)  # fmt: skip
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    """Otherwise learning rates would be negative or missing later."""
    with pytest.raises(SettingError, match="must be"):
        TrainSettings(**wrong)
    names = {"schedule": "name"}
    with pytest.raises(ValueError, match="must be"):
        Schedule(
            **{
                "name": "cosine",
                "learning_rate": 1.0,
                **{names.get(k, k): v for k, v in wrong.items()},
            }
        )
