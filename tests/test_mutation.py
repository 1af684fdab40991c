"""The table of mistakes that the laws detect is up to date, and so are the mistakes."""

import re
from pathlib import Path

import pytest
from mutants import MUTANTS, Mutant
from mutation import CHECK, OF_LAWS, PROPERTIES, ROOT, edited, killer, likely

from tinyattn.theory import CHECKS, LAWS

PAGE = (ROOT / PROPERTIES / "README.md").read_text("utf-8")
LINES = [line[2:-2] for line in PAGE.replace("&#124;", "¦").splitlines() if line.startswith("| ")]
ROWS = [[cell.replace("¦", "|") for cell in line.split(" | ")] for line in LINES]


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_mutant_changes_one_place(mutant: Mutant) -> None:
    assert edited(mutant, ROOT)
    assert mutant.new != mutant.old
    assert all(Path(ROOT, test.partition("::")[0]).exists() for test in likely(mutant))


def test_the_page_has_all_mutants_and_what_detects_them() -> None:
    """The command on the page writes it anew."""
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names) >= 45
    detected = {row[0]: row[3] for row in ROWS if len(row) == 5 and row[0] in names}
    assert list(detected) == names
    tests = {
        killer(f"{file.name}::{name}")
        for folder in (PROPERTIES, CHECK)
        for file in Path(ROOT, folder).glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text("utf-8"), re.M)
    }
    assert set(detected.values()) <= tests | {f"`{name}`" for name in CHECKS}


def test_the_page_has_all_laws_as_they_state_themselves() -> None:
    stated = {row[0]: row[1] for row in ROWS if len(row) == 3 and row[0].startswith("`")}
    assert stated == {f"`{law.name}`": law.says for law in LAWS.values()}


@pytest.mark.parametrize(
    ("test", "name"),
    [
        (f"{OF_LAWS}::test_a_law_holds[two_equations-kernels]", "`two_equations`"),
        (f"{OF_LAWS}::test_another_check_holds[goes_round]", "`goes_round`"),
        ("test_graph.py::test_a_sum[cpu-1]", "`test_a_sum`"),
        ("no end", "`no end`"),
    ],
)
def test_what_detects_a_mutant_is_named(test: str, name: str) -> None:
    assert killer(test) == name
