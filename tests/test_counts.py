"""The counts in README and changelog are right."""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mutants import IN_ATTENTION, MUTANTS

from tinyattn.cli import main
from tinyattn.models import ATTENTION_TYPES
from tinyattn.op import OPS
from tinyattn.tasks.recipe import recipe_names
from tinyattn.theory import CLAIMS, LAWS, REMARKS, Verdict

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README = "\n".join(page.read_text("utf-8") for page in PAGES)
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
UNRELEASED = CHANGELOG.partition("## Unreleased\n")[2].partition("\n## ")[0]
DERIVATIONS = sorted((ROOT / "derivations").glob("[0-9]*.md"))

ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen").split()  # fmt: skip
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
WORDS = {
    **{word: n for n, word in enumerate(ONES)},
    **{word: 10 * n for n, word in enumerate(TENS, start=2)},
    **{f"{ten}-{one}": 10 * t + o for t, ten in enumerate(TENS, start=2)
       for o, one in enumerate(ONES[:10]) if o},
}  # fmt: skip
NUMBER = r"(\d[\d,]*|{})".format("|".join(sorted(WORDS, key=len, reverse=True)))


def value(text: str) -> int:
    """`1,234`, `twelve` or `Twenty-one` as a number."""
    word = text.lower()
    return WORDS[word] if word in WORDS else int(word.replace(",", ""))


def sheets(chosen: Callable[[str], bool]) -> Counter[str]:
    return Counter(claim.sheet for claim in CLAIMS.values() if chosen(claim.sheet))


def verdicts(verdict: Verdict) -> int:
    """The number of claims of the answer sheets with this verdict."""
    return sum(claim.verdict == verdict and claim.sheet.isdecimal() for claim in CLAIMS.values())


def operations() -> int:
    """Operations of the package, without those that a page or a test has added."""
    return sum(op.__module__.startswith("tinyattn.ops.") for op in OPS.values())


def lines_of_the_gradient() -> int:
    """Statements of the README's first program, without imports."""
    (program,) = re.findall(r"## A gradient in .*?```python\n(.*?)```", README, re.S)
    return sum(not isinstance(s, ast.Import | ast.ImportFrom) for s in ast.parse(program).body)


COUNTS: dict[str, Callable[[], int]] = {
    r"A gradient in {} lines": lines_of_the_gradient,
    r"{} answer sheets": lambda: len(sheets(str.isdecimal)),
    r"make {} claims": lambda: sheets(str.isdecimal).total(),
    r"the claims, {} are true": lambda: verdicts(Verdict.TRUE),
    r"{} are true only under a condition": lambda: verdicts(Verdict.CONDITIONAL),
    r"{} are false": lambda: verdicts(Verdict.FALSE),
    r"{} are writing mistakes": lambda: verdicts(Verdict.TYPO),
    r"For {}, no program can decide": lambda: verdicts(Verdict.OPEN),
    r"{} remarks about percentages": lambda: len(REMARKS),
    r"breaks `ops.attention` in {} ways": lambda: len(IN_ATTENTION),
    r"{} laws of attention": lambda: len(LAWS),
    r"{} deliberate mistakes": lambda: len(MUTANTS),
    r"book of {} pages": lambda: len(DERIVATIONS),
}
"""Sentences of the README with a count, and functions that count it."""
MORE: dict[str, Callable[[], int]] = {
    r"{} claims of": COUNTS["make {} claims"],
    r"{} operations": operations,
    r"{} results that are in no sheet": lambda: sheets("new".__eq__).total(),
    r"{} new results": lambda: sheets("new".__eq__).total(),
    r"{} statements of the sheets": lambda: COUNTS["make {} claims"]() + len(REMARKS),
    r"{} are claims about attention": COUNTS["make {} claims"],
    r"Derivations: {} pages": COUNTS["book of {} pages"],
    r"{} mistakes": COUNTS["{} deliberate mistakes"],
    r"{} commands": lambda: len(main.commands),
    r"{} recipes": lambda: len(recipe_names()),
}
"""Further sentences with a count that the changelog may have in its unreleased part."""


def found(pattern: str, text: str) -> Iterator[int]:
    """The numbers in such a sentence of a text, also across line ends."""
    words = pattern.replace(" ", r"\s+").replace("{}", NUMBER)
    for number in re.findall(rf"(?<![\w.,-]){words}\b", text, re.I):
        yield value(number)


@pytest.mark.parametrize("pattern", COUNTS)
def test_the_readme_counts_right(pattern: str) -> None:
    numbers = {*found(pattern, README)}
    assert numbers == {COUNTS[pattern]()}, pattern.format(COUNTS[pattern]())


@pytest.mark.parametrize("pattern", [*COUNTS, *MORE])
def test_the_changelog_counts_right_in_its_unreleased_part(pattern: str) -> None:
    assert UNRELEASED
    assert {*found(pattern, UNRELEASED)} <= {(COUNTS | MORE)[pattern]()}


def test_counts_of_a_release_in_the_changelog_name_the_release() -> None:
    counted = [p for p in COUNTS | MORE if [*found(p, CHANGELOG)] and not [*found(p, UNRELEASED)]]
    assert counted
    for release in re.split(r"^## ", CHANGELOG, flags=re.M)[2:]:
        if any([*found(pattern, release)] for pattern in counted):
            assert "What is counted here is what it had." in release


def test_the_quickstarts_table_has_attention_types_that_can_be_causal() -> None:
    (table,) = re.findall(r"```text\nattention  .*?\n(.*?)```", README, re.S)
    rows = [line.split()[0] for line in table.splitlines()[1:] if line.startswith(" ")]
    assert {*rows} <= {
        name for name, made in ATTENTION_TYPES.items() if "causal" not in made.cannot
    }


def test_the_documentation_names_types_that_log_no_entropy_or_distance() -> None:
    lack = {
        what: {name for name, made in ATTENTION_TYPES.items() if what in made.cannot}
        for what in ("focus", "near")
    }
    assert lack["focus"] >= {"perceiver"}
    assert lack["near"] >= {"linformer", "linformer-causal", "latent", "perceiver"}
    assert "the latents have no distance, and a Perceiver has neither" in README


def test_the_readme_has_about_the_number_of_tests(request: pytest.FixtureRequest) -> None:
    """To the nearest thousand, if all tests are run."""
    (claimed,) = found("some {} tests", README)
    if len(request.session.items) < claimed / 2:
        pytest.skip("only some tests are run")
    assert claimed == round(len(request.session.items), -3)


@pytest.mark.parametrize(
    ("text", "number"),
    [("53 operations", 53), ("Nine\noperations", 9), ("1,234 operations", 1234),
     ("twenty-one operations", 21), ("1.5 operations", None), ("many operations", None)],
)  # fmt: skip
def test_numbers_are_read(text: str, number: int | None) -> None:
    assert [*found("{} operations", text)] == [number] * (number is not None)


@pytest.mark.parametrize("wrong", ["seven answer sheets", "forty-four laws of attention"])
def test_a_wrong_number_is_noticed(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = "{} " + wrong.partition(" ")[2]
    text = re.sub(pattern.replace("{}", NUMBER), wrong, README)
    assert text != README
    for changed in (text, README.replace(wrong.partition(" ")[2], "")):
        monkeypatch.setitem(globals(), "README", changed)
        with pytest.raises(AssertionError):
            test_the_readme_counts_right(pattern)
