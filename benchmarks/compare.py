"""Compare tinyattn with its peers in one table: python benchmarks/compare.py

It runs every race of workloads.py: training steps, generation, attention alone, memory, a busy
machine, the import. Peers are installed when first needed (peers.py). It takes about 30 minutes on
two idle cores; `--only step` runs one part, `--quick` a few rounds of everything. README.md
explains the method. Below the table is the rate of the processor; the last column is the share of
the floor in the time.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import CalledProcessError

from floor import thread_rate
from import_time import import_seconds
from machine import machine
from peers import Unavailable, interpreter
from ratios import ratios, spread
from rows import Notes, compared
from table import Row, head, time_text
from workloads import races

from tinyattn.parallel.threads import available_cores

PARTS = ("step", "others", "generation", "attention", "busy", "compiled", "import")
IMPORT_SECONDS = 0.15
QUICK = {"launches": 1, "rounds": 2, "turn": 1}


def imports(rounds: int, notes: Notes) -> Iterator[Row]:
    """How long the import takes when NumPy is already imported; the limit is for tinyattn alone."""
    torch = None
    try:
        there = interpreter("torch")
        import_seconds("torch", there)
    except (Unavailable, CalledProcessError) as error:
        notes.missing.append(f"import, torch: {error}")
    else:
        torch = there
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(import_seconds("tinyattn"))
        if torch:
            theirs.append(import_seconds("torch", torch))
    needed = spread(ours).median
    row = Row("import, NumPy already there", "time", "", time_text(needed),
              limit=(needed, IMPORT_SECONDS, "s"))  # fmt: skip
    if theirs:
        row = replace(row, peer="torch", theirs=time_text(spread(theirs).median),
                      ratio=spread(ratios(ours, theirs)))  # fmt: skip
    yield row


def all_rows(chosen: argparse.Namespace, notes: Notes) -> Iterator[Row]:
    """The rows of the races that the options select."""
    parts = chosen.only or PARTS
    for workload in races(available_cores()):
        if workload.part in parts and chosen.title in workload.title:
            length = replace(workload.length, **QUICK) if chosen.quick else workload.length
            print(f"{workload.title} ...", file=sys.stderr, flush=True)
            yield from compared(workload, length, notes)
    if "import" in parts:
        yield from imports(3 if chosen.quick else 11, notes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; can be repeated")
    parser.add_argument("--title", default="", help="only races whose title contains this")
    parser.add_argument("--quick", action="store_true", help="two rounds of everything")
    parser.add_argument("--out", type=Path, help="write the table to this file too")
    chosen = parser.parse_args()
    titles = [race.title for race in races(available_cores())]
    if not any(chosen.title in title for title in titles):
        parser.error(f"no race has {chosen.title!r} in its title; there are {', '.join(titles)}")
    notes, lines, begun = Notes(thread_rate()), [head()], time.monotonic()
    load = f"; load average before {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(head(), flush=True)
    try:
        for row in all_rows(chosen, notes):
            lines.append(str(row))
            print(row, flush=True)
    finally:  # print what was measured, also after an error
        minutes = (time.monotonic() - begun) / 60
        ending = f"{machine()}{load}; took {minutes:.0f} minutes."
        lines.append("\n" + "\n\n".join(filter(None, (str(notes), ending))))
        print(lines[-1])
        if chosen.out:
            chosen.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
