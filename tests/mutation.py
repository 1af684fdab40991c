"""Do the properties bite? Break the package in many ways, one at a time, and see what notices.

    python tests/mutation.py --jobs 2                       # all of tests/mutants.py
    python tests/mutation.py --only softmax_no_max          # one of them
    python tests/mutation.py --out tests/properties/README.md    # writes the page about them

Each edit is made in a copy of the package, in a temporary folder, and tests/properties is run
against that copy, up to the first failure; first the file that is most likely to notice, then all.
The exit status is 1 if a mutant survives. This takes some minutes, so it is not a test itself.
"""

import argparse
import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

from mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[1]
PROPERTIES = "tests/properties"
COMMAND = f"python tests/mutation.py --jobs 2 --out {PROPERTIES}/README.md"
TOO_LONG = 300  # seconds: some mistakes make a loop endless

INTRODUCTION = f"""# Properties of attention, and what they catch

Made by `{COMMAND}`; do not edit.

Whatever the numbers are, these {{count}} statements hold for attention: Hypothesis looks for
some that break them. Most are about the questions of the sheets. What should come out is computed
anew in each test, from its formula.
"""

SECOND_HALF = """
## Do they bite?

A test that cannot fail is worthless. So each entry of [mutants.py](../mutants.py) breaks a copy of
the package in one way, and the tests of this folder are run against it, with the numbers that they
always try, until one fails. Of {count} mistakes {killed} were noticed. Beside each stands the test
that failed first, with its number if it has one.
"""


class Outcome(NamedTuple):
    """What became of one mutant."""

    mutant: Mutant
    test: str  # the first that failed; "" if none did
    seconds: float


def properties(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    """Number, file, test and statement of each property: what its docstring begins with."""
    for file in sorted(folder.glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            text = isinstance(node, ast.FunctionDef) and ast.get_docstring(node)
            if text and (found := re.match(r"(P\d\d): (.+?)(?:\n\n|$)", text, re.DOTALL)):
                yield found[1], file.name, node.name, " ".join(found[2].split())


# Breaking ----------------------------------------------------------------------------------


def copied(there: Path) -> Path:
    """The package and its tests, in a new folder."""
    skip = shutil.ignore_patterns("__pycache__", ".*")
    for name in ("tinyattn", "tests"):
        shutil.copytree(ROOT / name, there / name, ignore=skip)
    shutil.copy(ROOT / "pyproject.toml", there)
    return there


def edited(mutant: Mutant, folder: Path) -> str:
    """The file that a mutant changes, changed.

    Raises: ValueError if the text to replace does not stand there exactly once.
    """
    text = Path(folder, "tinyattn", mutant.file).read_text("utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(
            f"{mutant.name}: the old text must stand in tinyattn/{mutant.file} once; it stands "
            f"there {text.count(mutant.old)} times: {mutant.old!r}"
        )
    return text.replace(mutant.old, mutant.new)


def broken(mutant: Mutant, whole: Path, there: Path) -> Path:
    """A copy of `whole` with one edit."""
    shutil.copytree(whole, there)
    file = Path(there, "tinyattn", mutant.file)
    file.write_text(edited(mutant, whole), "utf-8")
    # Python trusts compiled files that are as old and as long as their sources.
    Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
    return there


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, with the package that is there."""
    settings = {"PYTHONPATH": str(folder), "HYPOTHESIS_PROFILE": "mutation"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **settings},
        capture_output=True, text=True, timeout=TOO_LONG,
    )  # fmt: skip


def first_failure(folder: Path, target: str) -> str:
    """The test that fails first, as file::test; "" if none does.

    Raises: RuntimeError if the tests cannot be run at all.
    """
    options = ("-x", "-rfE", "--tb=no", "-p", "no:cacheprovider")
    try:
        run = python(folder, "-m", "pytest", *options, target)
    except subprocess.TimeoutExpired:
        return "no end"
    failed = re.search(
        rf"^(?:FAILED|ERROR) {PROPERTIES}/(\S+?)(?:\[.*\])?(?: - |$)", run.stdout, re.M
    )
    if run.returncode == 1 and failed:
        return failed[1]
    if run.returncode != 0:
        raise RuntimeError(f"pytest {target}: status {run.returncode}\n{run.stdout}{run.stderr}")
    return ""


def tried(mutant: Mutant, whole: Path, workplace: Path) -> Outcome:
    """Break a copy and run the properties: those that are likely to notice, and then all."""
    began = time.perf_counter()
    folder = broken(mutant, whole, workplace / mutant.name)
    test = first_failure(folder, f"{PROPERTIES}/{mutant.first}") or first_failure(
        folder, PROPERTIES
    )
    shutil.rmtree(folder)
    return Outcome(mutant, test, time.perf_counter() - began)


# Telling -----------------------------------------------------------------------------------


@cache
def numbers() -> dict[str, str]:
    """The number of each property by its file::test."""
    return {f"{file}::{name}": number for number, file, name, _ in properties(ROOT / PROPERTIES)}


def killer(test: str) -> str:
    """`P16` and the test; the test alone if it has no number."""
    return " ".join(filter(None, [numbers().get(test, ""), f"`{test.partition('::')[2] or test}`"]))


def table(head: str, rows: list[tuple[str, ...]]) -> str:
    """In Markdown."""
    names = head.split("|")
    lines = [names, ["---"] * len(names), *rows]
    cells = [[cell.replace("|", "&#124;") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def statement(name: str, text: str) -> str:
    """What a property says: its test's name, as words, and what the docstring adds."""
    return f"{name.removeprefix('test_').replace('_', ' ')}: {text.removesuffix('.')}"


def page(outcomes: list[Outcome]) -> str:
    """All properties, and all mutants with what noticed them."""
    known = sorted(properties(ROOT / PROPERTIES))
    stated = [(n, statement(name, text), f"[{file}]({file})") for n, file, name, text in known]
    rows = [
        (o.mutant.name, o.mutant.file, o.mutant.breaks, killer(o.test) if o.test else "NOBODY",
         f"{o.seconds:.1f}")
        for o in outcomes
    ]  # fmt: skip
    killed = sum(bool(outcome.test) for outcome in outcomes)
    return "\n".join([
        INTRODUCTION.format(count=len(known)),
        table("|what holds|where", stated),
        SECOND_HALF.format(count=len(outcomes), killed=killed).strip() + "\n",
        table("mutant|file in tinyattn/|what it breaks|noticed by|seconds", rows),
    ])  # fmt: skip


def main() -> int:
    """Try the mutants; 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", metavar="NAME", nargs="+", help="try only these")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time, 1 or 2")
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="write the page to this file")
    options = parser.parse_args()
    chosen = [m for m in MUTANTS if options.only is None or m.name in options.only]
    if options.only and (unknown := {*options.only} - {m.name for m in chosen}):
        parser.error(f"there is no mutant {', '.join(sorted(unknown))}")
    if options.out and options.only:
        parser.error("--out writes about all of them; it does not go with --only")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        whole = copied(folder / "whole")
        for mutant in chosen:
            edited(mutant, whole)  # an edit that does not fit is told at once
        place = python(whole, "-c", "import tinyattn; print(tinyattn.__file__)").stdout
        if not place.startswith(str(whole)):
            raise RuntimeError(f"tests would run against {place or 'nothing'}, not against a copy")
        if test := first_failure(whole, PROPERTIES):
            raise RuntimeError(f"{test} fails before anything is broken")
        print(f"Unbroken, all properties hold. {len(chosen)} mutants:", flush=True)
        outcomes = []
        with ThreadPoolExecutor(min(options.jobs, 2)) as pool:
            for outcome in pool.map(lambda m: tried(m, whole, folder), chosen):
                outcomes.append(outcome)
                verdict = killer(outcome.test) if outcome.test else "SURVIVES"
                label, breaks = outcome.mutant[:2]
                print(f"{label:26} {outcome.seconds:4.1f} s  {verdict}  ({breaks})", flush=True)
    survivors = [outcome.mutant.name for outcome in outcomes if not outcome.test]
    print(f"{len(outcomes) - len(survivors)} of {len(outcomes)} were noticed.", *survivors)
    if options.out:
        options.out.write_text(page(outcomes), "utf-8")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
