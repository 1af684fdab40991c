"""Do the laws and the other properties detect mistakes? Break the package, one place at a time.

    python tests/mutation.py --jobs 2                       # all of tests/mutants.py
    python tests/mutation.py --only softmax_no_max          # one of them
    python tests/mutation.py --out tests/properties/README.md    # writes the page about them

Each edit is made in a copy of the package, in a temporary folder. tests/properties runs with that
copy until the first failure: first what most probably detects the mistake, then all. For a law that
is what names a function of the changed file under test. For a file of check/, tests/check runs. The
exit status is 1 if a mutant survives.
This takes some minutes, so it is not a test itself.
"""

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from mutants import MUTANTS, Mutant

from tinyattn.theory import CHECKS, LAWS

ROOT = Path(__file__).parents[1]
PROPERTIES, CHECK = "tests/properties", "tests/check"
OF_LAWS = "test_laws.py"
COMMAND = f"python tests/mutation.py --jobs 2 --out {PROPERTIES}/README.md"
TOO_LONG = 300  # seconds; some mistakes cause an endless loop

INTRODUCTION = f"""# Laws of attention, and the mistakes that they detect

Made by `{COMMAND}`; do not edit.

These {{count}} laws are true for every correct attention. They are in
[tinyattn/theory/laws/](../../tinyattn/theory/laws), and the pages prove them.
[test_laws.py](test_laws.py) has Hypothesis search for values that violate them, with kernels and
with formulas. It does the same for {{others}} other checks of claims, which are not about attention
itself. The other files of this folder have properties of ops, of Muon and of `tinyattn trace`.
"""

SECOND_HALF = """
## Do they detect mistakes?

A test that cannot fail is useless. So each entry of [mutants.py](../mutants.py) breaks a copy of
the package in one way. The tests of this folder run with this copy and their usual examples until
one fails; for a mistake in `tinyattn check`, those of [tests/check](../check). Of {count} mistakes
{killed} were detected. The table has the law, the check or the test that failed first.
"""


class Outcome(NamedTuple):
    """The result for one mutant."""

    mutant: Mutant
    test: str  # the first that failed; "" if none did
    seconds: float


# Breaking ----------------------------------------------------------------------------------


def copied(there: Path) -> Path:
    """A copy of the package and its tests, in a new folder."""
    skip = shutil.ignore_patterns("__pycache__", ".*")
    for name in ("tinyattn", "tests"):
        shutil.copytree(ROOT / name, there / name, ignore=skip)
    shutil.copy(ROOT / "pyproject.toml", there)
    return there


def edited(mutant: Mutant, folder: Path) -> str:
    """The changed text of the file that a mutant changes.

    Raises: ValueError if the text to replace does not occur exactly once.
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
    # Python trusts compiled files whose sources have the recorded time and size.
    Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
    return there


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, with the package of this folder."""
    settings = {"PYTHONPATH": str(folder), "HYPOTHESIS_PROFILE": "mutation"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **settings},
        capture_output=True, text=True, timeout=TOO_LONG,
    )  # fmt: skip


def suite(mutant: Mutant) -> str:
    """The folder of the tests that should detect a mistake."""
    return CHECK if mutant.file.startswith("check/") else PROPERTIES


def likely(mutant: Mutant) -> list[str]:
    """The tests that most probably detect a mistake, for pytest."""
    if suite(mutant) == CHECK:
        return [f"{CHECK}/{mutant.first}"]
    module = "tinyattn." + mutant.file.removesuffix(".py").replace("/", ".")
    way = "formulas" if mutant.file.startswith("ops/") else "kernels"
    tests = [
        f"test_a_law_holds[{name}-{way}]" if name in LAWS else f"test_another_check_holds[{name}]"
        for name, check in CHECKS.items()
        if any(function.__module__ == module for function in check.under_test)
    ]
    files = [] if mutant.first == OF_LAWS and tests else [mutant.first]
    return [f"{PROPERTIES}/{test}" for test in (*files, *(f"{OF_LAWS}::{t}" for t in tests))]


def first_failure(folder: Path, *targets: str) -> str:
    """The test that fails first, as file::test; "" if none does.

    Raises: RuntimeError if the tests cannot be run at all.
    """
    options = ("-x", "-rfE", "--tb=no", "-p", "no:cacheprovider")
    try:
        run = python(folder, "-m", "pytest", *options, *targets)
    except subprocess.TimeoutExpired:
        return "no end"
    failed = re.search(
        rf"^(?:FAILED|ERROR) (?:{PROPERTIES}|{CHECK})/(.+?)(?: - |$)", run.stdout, re.M
    )
    if run.returncode == 1 and failed:
        return failed[1]
    if run.returncode != 0:
        raise RuntimeError(f"pytest {targets}: status {run.returncode}\n{run.stdout}{run.stderr}")
    return ""


def tried(mutant: Mutant, whole: Path, workplace: Path) -> Outcome:
    """Break a copy and run the properties: first those that probably detect it, then all."""
    began = time.perf_counter()
    folder = broken(mutant, whole, workplace / mutant.name)
    test = first_failure(folder, *likely(mutant)) or first_failure(folder, suite(mutant))
    shutil.rmtree(folder)
    return Outcome(mutant, test, time.perf_counter() - began)


# Report ------------------------------------------------------------------------------------


def killer(test: str) -> str:
    """The law or the check, or else the test, without its parameters."""
    file, _, name = test.partition("::")
    name, _, parameters = name.partition("[")
    law = re.sub("-(kernels|formulas)$", "", parameters.removesuffix("]"))
    return f"`{law if file == OF_LAWS and law else name or test}`"


def table(head: str, rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    names = head.split("|")
    lines = [names, ["---"] * len(names), *rows]
    cells = [[cell.replace("|", "&#124;") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def page(outcomes: list[Outcome]) -> str:
    """All laws, and all mutants with what detected them."""
    stated = [(f"`{law.name}`", law.says, f"[{law.page[:2]}](../../derivations/{law.page}.md)")
              for law in LAWS.values()]  # fmt: skip
    rows = [
        (o.mutant.name, o.mutant.file, o.mutant.breaks, killer(o.test) if o.test else "NONE",
         f"{o.seconds:.1f}")
        for o in outcomes
    ]  # fmt: skip
    killed = sum(bool(outcome.test) for outcome in outcomes)
    return "\n".join([
        INTRODUCTION.format(count=len(LAWS), others=len(CHECKS) - len(LAWS)),
        table("law|statement|page", stated),
        SECOND_HALF.format(count=len(outcomes), killed=killed).strip() + "\n",
        table("mutant|file in tinyattn/|what it breaks|detected by|seconds", rows),
    ])  # fmt: skip


def main() -> int:
    """Try the mutants. Returns: 1 if one is not detected."""
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
            edited(mutant, whole)  # raises at once if an edit does not fit
        place = python(whole, "-c", "import tinyattn; print(tinyattn.__file__)").stdout
        if not place.startswith(str(whole)):
            raise RuntimeError(f"tests would run against {place or 'nothing'}, not against a copy")
        if test := first_failure(whole, PROPERTIES, CHECK):
            raise RuntimeError(f"{test} fails before anything is broken")
        print(f"Without a mutant all tests pass. {len(chosen)} mutants:", flush=True)
        outcomes = []
        with ThreadPoolExecutor(min(options.jobs, 2)) as pool:
            for outcome in pool.map(lambda m: tried(m, whole, folder), chosen):
                outcomes.append(outcome)
                verdict = killer(outcome.test) if outcome.test else "SURVIVES"
                label, breaks = outcome.mutant[:2]
                print(f"{label:26} {outcome.seconds:4.1f} s  {verdict}  ({breaks})", flush=True)
    survivors = [outcome.mutant.name for outcome in outcomes if not outcome.test]
    print(f"{len(outcomes) - len(survivors)} of {len(outcomes)} were detected.", *survivors)
    if options.out:
        options.out.write_text(page(outcomes), "utf-8")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
