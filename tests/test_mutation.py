"""The table of mistakes that the properties detect is up to date, and so are the mistakes."""

import re
from pathlib import Path

import pytest
from mutants import MUTANTS, Mutant
from mutation import PROPERTIES, ROOT, edited, killer, properties, statement

PAGE = (ROOT / PROPERTIES / "README.md").read_text("utf-8")
LINES = [line[2:-2] for line in PAGE.replace("&#124;", "¦").splitlines() if line.startswith("| ")]
ROWS = [[cell.replace("¦", "|") for cell in line.split(" | ")] for line in LINES]


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_mutant_changes_one_place(mutant: Mutant) -> None:
    assert edited(mutant, ROOT)
    assert mutant.new != mutant.old
    assert Path(ROOT, PROPERTIES, mutant.first).exists()


def test_the_page_has_all_mutants_and_the_tests_that_detect_them() -> None:
    """The command on the page writes it anew."""
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names) >= 45
    detected = {row[0]: row[3] for row in ROWS if len(row) == 5 and row[0] in names}
    assert list(detected) == names
    tests = {
        killer(f"{file.name}::{name}")
        for file in Path(ROOT, PROPERTIES).glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text("utf-8"), re.M)
    }
    assert set(detected.values()) <= tests


def test_the_page_has_all_properties_as_the_tests_state_them() -> None:
    known = sorted(properties(ROOT / PROPERTIES))
    stated = [[number, statement(name, text)] for number, _, name, text in known]
    assert [row[:2] for row in ROWS if re.fullmatch(r"P\d\d", row[0])] == stated
