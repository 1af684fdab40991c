"""P01 to P45: each property of attention has one test, whose docstring begins with its number."""

from pathlib import Path

from mutation import properties


def test_all_are_there() -> None:
    numbers = sorted(number for number, *_ in properties(Path(__file__).parent))
    assert numbers == [f"P{i:02}" for i in range(1, 46)]
