"""What README and changelog count is as many as they say."""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mutants import IN_ATTENTION, MUTANTS
from mutation import PROPERTIES, properties

from tinyattn.cli import main
from tinyattn.models import MECHANISMS
from tinyattn.op import OPS
from tinyattn.tasks.recipe import recipe_names
from tinyattn.theory import CLAIMS, REMARKS, Verdict

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
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


def sheets(kind: Callable[[str], bool]) -> Counter[str]:
    return Counter(claim.sheet for claim in CLAIMS.values() if kind(claim.sheet))


def verdicts(kind: Verdict) -> int:
    """Claims of the sheets that are judged so."""
    return sum(claim.verdict == kind and claim.sheet.isdecimal() for claim in CLAIMS.values())


def operations() -> int:
    """Those of the package: a page or a test may have entered one of its own."""
    return sum(op.__module__.startswith("tinyattn.ops.") for op in OPS.values())


def lines_of_the_gradient() -> int:
    """Statements of the README's first program, imports aside."""
    (program,) = re.findall(r"## A gradient in .*?```python\n(.*?)```", README, re.S)
    return sum(not isinstance(s, ast.Import | ast.ImportFrom) for s in ast.parse(program).body)


COUNTS: dict[str, Callable[[], int]] = {
    r"A gradient in {} lines": lines_of_the_gradient,
    r"{} answer sheets": lambda: len(sheets(str.isdecimal)),
    r"make {} claims": lambda: sheets(str.isdecimal).total(),
    r"{} are true as they stand": lambda: verdicts(Verdict.TRUE),
    r"{} under a condition that they do not name": lambda: verdicts(Verdict.CONDITIONAL),
    r"{} are false": lambda: verdicts(Verdict.FALSE),
    r"{} slips of the pen": lambda: verdicts(Verdict.TYPO),
    r"{} no check can tell": lambda: verdicts(Verdict.OPEN),
    r"{} remarks on shares": lambda: len(REMARKS),
    r"breaks it in {} ways": lambda: len(IN_ATTENTION),
    r"{} properties of attention": lambda: len(list(properties(ROOT / PROPERTIES))),
    r"{} deliberate mistakes": lambda: len(MUTANTS),
    r"book of {} pages": lambda: len(DERIVATIONS),
}
"""Sentences of the README, and what they count."""
MORE: dict[str, Callable[[], int]] = {
    r"{} claims of": COUNTS["make {} claims"],
    r"{} operations": operations,
    r"{} results that stand in no sheet": lambda: sheets("new".__eq__).total(),
    r"{} new results": lambda: sheets("new".__eq__).total(),
    r"{} statements of the sheets": lambda: COUNTS["make {} claims"]() + len(REMARKS),
    r"{} are claims about attention": COUNTS["make {} claims"],
    r"Derivations: {} pages": COUNTS["book of {} pages"],
    r"{} mistakes": COUNTS["{} deliberate mistakes"],
    r"{} commands": lambda: len(main.commands),
    r"{} recipes": lambda: len(recipe_names()),
}
"""What else the changelog may count of what is not released yet."""


def found(pattern: str, text: str) -> Iterator[int]:
    """The numbers in a text that stand in such a sentence, over the ends of its lines."""
    words = pattern.replace(" ", r"\s+").replace("{}", NUMBER)
    for number in re.findall(rf"(?<![\w.,-]){words}\b", text, re.I):
        yield value(number)


@pytest.mark.parametrize("pattern", COUNTS)
def test_the_readme_counts_right(pattern: str) -> None:
    numbers = {*found(pattern, README)}
    assert numbers == {COUNTS[pattern]()}, pattern.format(COUNTS[pattern]())


@pytest.mark.parametrize("pattern", [*COUNTS, *MORE])
def test_the_changelog_counts_right_what_is_not_released(pattern: str) -> None:
    assert UNRELEASED
    assert {*found(pattern, UNRELEASED)} <= {(COUNTS | MORE)[pattern]()}


def test_what_the_changelog_counts_of_a_release_is_said_to_be_of_it() -> None:
    counted = [p for p in COUNTS | MORE if [*found(p, CHANGELOG)] and not [*found(p, UNRELEASED)]]
    assert counted
    for release in re.split(r"^## ", CHANGELOG, flags=re.M)[2:]:
        if any([*found(pattern, release)] for pattern in counted):
            assert "What is counted here is what it had." in release


def test_the_quickstarts_table_has_kinds_that_can_be_causal() -> None:
    (table,) = re.findall(r"```text\nattention  .*?\n(.*?)```", README, re.S)
    rows = [line.split()[0] for line in table.splitlines()[1:]]
    assert {*rows} <= {name for name, kind in MECHANISMS.items() if "causal" not in kind.cannot}


def test_the_readme_says_which_kinds_log_no_entropy_or_distance() -> None:
    lack = {
        what: {name for name, kind in MECHANISMS.items() if what in kind.cannot}
        for what in ("focus", "near")
    }
    assert lack["focus"] >= {"perceiver"}
    assert lack["near"] >= {"linformer", "linformer-causal", "latent", "perceiver"}
    assert "the latents have no distance, and a Perceiver has neither" in README


def test_the_readme_says_about_how_many_tests_there_are(request: pytest.FixtureRequest) -> None:
    """To the nearest thousand, where all of them are run."""
    (said,) = found("some {} tests", README)
    if len(request.session.items) < said / 2:
        pytest.skip("only some tests are run")
    assert said == round(len(request.session.items), -3)


@pytest.mark.parametrize(
    ("text", "number"),
    [("53 operations", 53), ("Nine\noperations", 9), ("1,234 operations", 1234),
     ("twenty-one operations", 21), ("1.5 operations", None), ("many operations", None)],
)  # fmt: skip
def test_numbers_are_read(text: str, number: int | None) -> None:
    assert [*found("{} operations", text)] == [number] * (number is not None)


@pytest.mark.parametrize("wrong", ["seven answer sheets", "forty-four properties of attention"])
def test_a_wrong_number_is_noticed(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = "{} " + wrong.partition(" ")[2]
    text = re.sub(pattern.replace("{}", NUMBER), wrong, README)
    assert text != README
    for changed in (text, README.replace(wrong.partition(" ")[2], "")):
        monkeypatch.setitem(globals(), "README", changed)
        with pytest.raises(AssertionError):
            test_the_readme_counts_right(pattern)
