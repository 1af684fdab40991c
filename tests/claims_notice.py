"""Do the claims test the attention of the models? Break it, and count the claims that fail.

    python tests/claims_notice.py                               # prints the table
    python tests/claims_notice.py --out tests/theory/README.md  # and writes it

Models attend with one operation, `ops.attention`. Each entry of IN_ATTENTION (mutants.py) breaks it
in a copy of the package, and `tinyattn claims` runs there. A claim detects the mistake if its
result is not the expected one. The exit status is 1 if too few claims do.
"""

import argparse
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from mutants import IN_ATTENTION, Mutant
from mutation import broken, copied, python, table

from tinyattn.measure.observer import observed
from tinyattn.theory import CLAIMS, Lab, judge

COMMAND = "python tests/claims_notice.py --out tests/theory/README.md"

PAGE = f"""# Which claims detect broken attention

Made by `{COMMAND}`; do not edit.

Models attend with one operation, `ops.attention`, and so do the checks of {{attend}} of the
{{claims}} claims; the others are about keys, subspaces, costs or words. In {{within}} of them the
query is in the middle of a sequence that is longer than one tile, with keys that are hidden
from it. So claims fail if the operation is broken. Each row breaks it in one way, in a copy of the
package, and runs `tinyattn claims` there.

"""


class Noticed(NamedTuple):
    """The result for one mistake."""

    mutant: Mutant
    least: int
    claims: int

    @property
    def enough(self) -> bool:
        """Whether enough claims detect the mistake."""
        return self.claims >= self.least


def how_many_attend() -> tuple[int, int]:
    """How many claims have a check that calls `ops.attention`, and how many also `Lab.output`."""
    called: dict[str, set[str]] = {"attention": set(), "output": set()}
    judged: list[str] = []

    def noted(name: str, function: Any) -> Any:
        def noting(*arguments: Any, **options: Any) -> Any:
            called[name].add(judged[-1])
            return function(*arguments, **options)

        return noting

    def noted_op(formula: Any, run: Any, reason: str) -> Any:
        return noted("attention", run) if formula.__name__ == "attention" else run

    with (
        observed(noted_op),
        mock.patch.object(Lab, "output", noted("output", Lab.output)),
    ):
        for claim in CLAIMS.values():
            judged.append(claim.id)
            judge(claim, draws=1)
    return len(called["attention"]), len(called["output"])


def unexpected(folder: Path, draws: int) -> int:
    """How many claims have an unexpected result with the package in a folder.

    Raises: RuntimeError if they cannot be checked at all.
    """
    run = python(folder, "-m", "tinyattn", "claims", "--json", "--draws", str(draws))
    if not run.stdout.startswith("{"):
        raise RuntimeError(f"tinyattn claims: status {run.returncode}\n{run.stdout}{run.stderr}")
    count: int = json.loads(run.stdout)["unexpected"]
    return count


def all_noticed(draws: int) -> list[Noticed]:
    """Each mistake and its number of claims. Raises: RuntimeError if claims fail without one."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:
        workplace = Path(name).resolve()
        whole = copied(workplace / "whole")
        if already := unexpected(whole, draws):
            raise RuntimeError(f"{already} claims fail before anything is broken")

        def tried(entry: tuple[Mutant, int]) -> Noticed:
            folder = broken(entry[0], whole, workplace / entry[0].name)
            return Noticed(*entry, unexpected(folder, draws))

        return list(pool.map(tried, IN_ATTENTION))


def main() -> int:
    """Print the table. Returns: 1 if too few claims detect a mistake."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=12, help="draws for each true claim")
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="write the page to this file")
    options = parser.parse_args()
    found = all_noticed(options.draws)
    rows = [(n.mutant.name, n.mutant.breaks, str(n.least), str(n.claims)) for n in found]
    text = table("mutant|what it breaks|must detect, at least|claims that detect it", rows)
    print(text, end="")
    if options.out:
        attend, within = how_many_attend()
        page = PAGE.format(claims=len(CLAIMS), attend=attend, within=within)
        options.out.write_text(page + text, "utf-8")
    return 0 if all(n.enough for n in found) else 1


if __name__ == "__main__":
    sys.exit(main())
