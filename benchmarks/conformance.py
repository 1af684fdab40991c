"""Check the laws of attention on other libraries: python benchmarks/conformance.py

Each library runs in its own environment, with two of its versions. The files of attentions/ declare
what each supports. The page has a row for each attention, and below it the laws that it breaks,
each with a counterexample.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attentions.notes import NOTES
from machine import machine
from peers import Unavailable, interpreter

HERE = Path(__file__).resolve().parent
FILES = {
    "with_torch": ("laws-torch", "laws-torch-other"),
    "with_jax": ("laws-jax", "laws-jax-other"),
    "with_onnx": ("laws-onnx", "laws-onnx-other"),
}
"""The file of each group of libraries, and the environments with its two versions."""

Found = dict[str, Any]


def checked(file: str, environment: str, name: str = "") -> Iterator[Found]:
    """The results of `attentions/checked.py` in an environment, as they come.

    Raises: Unavailable if it cannot run there.
    """
    command = [str(interpreter(environment)), str(HERE / "attentions/checked.py"), file]
    paths = os.pathsep.join([str(HERE.parent), str(HERE / "attentions")])
    with tempfile.TemporaryFile("w+") as errors:  # a pipe that nobody reads would become full
        process = subprocess.Popen(
            command + [name] * bool(name), env=os.environ | {"PYTHONPATH": paths}, text=True,
            stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip
        with process:
            assert process.stdout
            for line in process.stdout:
                if line.startswith("{"):  # a library may print something, too
                    yield json.loads(line)
        if process.returncode:
            errors.seek(0)
            lines = errors.read().strip().splitlines()
            raise Unavailable(lines[-1] if lines else "it ended without a message")


def broken(found: Found) -> list[Found]:
    """The laws that it breaks."""
    return [law for law in found["laws"] if law["state"] == "broken"]


def row(now: Found, second: Found | None) -> str:
    """A line of the table."""
    counts = now["counts"]
    declared = ", ".join(f"{key} {value}" for key, value in now["declared"].items())
    names = named(now)
    if second is None:
        same = ""
    else:
        same = f"{second['version']}: {'the same' if named(second) == names else named(second)}"
    cells = (f"{now['package']} {now['version']}", f"`{now['name']}`", declared, counts["holds"],
             counts["left out"], names, same)  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def named(found: Found) -> str:
    """The laws that it breaks, for a cell of the table."""
    return ", ".join(f"`{law['law']}`" for law in broken(found)) or "none"


HEAD = """\
| library | attention | declares | laws that hold | left out | broken | another version |
| --- | --- | --- | --- | --- | --- | --- |"""


def details(now: Found) -> Iterator[str]:
    """For each broken law: what it says, a counterexample, and what was found about it."""
    for law in broken(now):
        yield f"### {now['package']}, `{now['name']}`: {law['law']}"
        yield textwrap.fill(f"{law['statement']}. Here: {law['found'].partition(';')[0]}.", 100)
        if law["code"]:
            yield f"```text\n{law['code']}\n```"
        yield textwrap.fill(NOTES.get((now["package"], law["law"]), "Not looked into yet."), 100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=FILES, action="append", help="a file; can be repeated")
    parser.add_argument("--name", default="", help="only attentions whose name contains this")
    parser.add_argument("--out", type=Path, help="write the page to this file too")
    chosen = parser.parse_args()
    rows, texts, missing = [HEAD], [], []
    print(HEAD, flush=True)
    for file in chosen.only or FILES:
        found: list[dict[str, Found]] = []
        for environment in FILES[file]:
            found.append({})
            try:
                for result in checked(file, environment, chosen.name):
                    found[-1][result["package"] + result["name"]] = result
                    print(f"{result['name']}: {result['seconds']:.0f} s", file=sys.stderr)
            except Unavailable as error:
                missing.append(f"Not checked: {file} in {environment}: {error}")
        for key, now in found[0].items():
            rows.append(row(now, found[1].get(key)))
            print(rows[-1], flush=True)
            texts += details(now)
    page = "\n\n".join(["\n".join(rows), *missing, *texts, f"{machine()}."])
    print("\n\n".join(page.split("\n\n")[1:]))
    if chosen.out:
        chosen.out.write_text(page + "\n")


if __name__ == "__main__":
    main()
