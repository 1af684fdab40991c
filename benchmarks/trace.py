"""The measures of `tinyattn trace` for several models, side by side, as a Markdown table.

    tinyattn quickstart --seed 1 --out s1        # and so on; a model of each seed or type
    python benchmarks/trace.py s0 s1 s2 s3
    tinyattn quickstart --attention all --out all
    python benchmarks/trace.py all/multihead all/bilinear all/bigbird ..

Each folder has the run `finetune`; the data are in `world`, in it or beside it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tinyattn.data.text import read_answered
from tinyattn.tasks.runs import load_run
from tinyattn.trace import cases_of, trace

Found = dict[str, Any]


def measured(folder: Path, edits: int) -> Found:
    """All measures of one model."""
    world = next(w for w in (folder / "world", folder.parent / "world") if w.is_dir())
    trained = load_run(folder / "finetune")
    cases, known = (cases_of(trained, read_answered(world / f"birth_{name}.tsv"))
                    for name in ("dev", "train"))  # fmt: skip
    return trace(trained, cases, known, edits=edits)


def interval(score: Found) -> str:
    """Correct of total, and the 95 % interval in %."""
    return (f"{score['correct']:,} of {score['total']:,} "
            f"({100 * score['low']:.0f} to {100 * score['high']:.0f} %)")  # fmt: skip


def refused(part: str) -> Callable[[Callable[[Found], str]], Callable[[Found], str]]:
    """Decorator: a dash for a measure that the attention type does not allow."""

    def around(row: Callable[[Found], str]) -> Callable[[Found], str]:
        def cell(found: Found) -> str:
            is_refused = isinstance(found[part], dict) and "refused" in found[part]
            return "-" if is_refused or not found[part] else row(found)

        return cell

    return around


def lost(found: Found, *ends: str) -> list[int]:
    """Answers lost without the parts whose names end so, for the last layer."""
    last = found["heads"][-1]["name"].partition(" ")[0]
    return [row["lost"] for row in found["heads"]
            if row["name"].startswith(f"{last} ") and ends[0] in row["name"]]  # fmt: skip


def gap(found: Found, name: str, part: str) -> str:
    """The gap that follows a patch, in %."""
    rows = [row["gap"] for row in found["patching"] if (row["name"], row["part"]) == (name, part)]
    return f"{100 * rows[0]:.0f} %" if rows else "-"


def edge(found: Found, layer: int, query: str, key: str) -> str:
    """The answers lost without an attention edge."""
    return next(str(row["lost"]) for row in found["edges"]
                if (row["name"], row["query"], row["key"])
                == (f"layers.{layer}", query, key))  # fmt: skip


def rows() -> dict[str, Callable[[Found], str]]:
    """The rows of the table: a title, and the cell of a model."""
    edges, patch = refused("edges"), refused("patching")
    letters = patch(
        lambda f: f"{100 * max(r['gap'] for r in f['patching'] if 'letter' in r['part']):.0f} %"
    )
    return {
        "correct of 100": lambda f: str(f["correct"]),
        "lens: first letters after each": lambda f: ", ".join(str(r["correct"]) for r in f["lens"]),
        "attribution: largest error of a sum": lambda f: f"{f['attribution']['largest_error']:.0e}",
        "lost without a head of layer 0": lambda f: ", ".join(
            str(r["lost"]) for r in f["heads"] if r["name"].startswith("layers.0 head")),
        "lost without a head of the last layer": lambda f: ", ".join(map(str, lost(f, "head"))),
        "lost without the last feed-forward": lambda f: str(lost(f, "feedforward")[0]),
        "neurons without which none is lost": lambda f: ", ".join(
            f"{r['none_lost']} of {r['neurons']}" for r in f["neurons"]),
        "most lost without one neuron": lambda f: ", ".join(
            str(r["most_lost"]) for r in f["neurons"]),
        "lost: MASK not to first name, last name (last layer)": edges(
            lambda f: ", ".join(edge(f, 1, "MASK", key) for key in ("first name", "last name"))),
        "patch of the name after layer 0": patch(lambda f: gap(f, "layers.0", "name")),
        "patch of first name, last name": patch(
            lambda f: ", ".join(gap(f, "layers.0", part) for part in ("first name", "last name"))),
        "largest patch of one letter": letters,
        "patch at MASK: last attention, feed-forward": patch(lambda f: ", ".join(
            gap(f, f"layers.1.{part}", "MASK") for part in ("attention", "feedforward"))),
        "probe at MASK after the last layer (shuffled)": lambda f: next(
            f"{r['correct']} ({r['shuffled']})" for r in f["probe"]
            if r["name"] == f["lens"][-1]["name"] and r["position"] == "MASK"),
        "edits: moved": lambda f: interval(f["edits"]["moved"]),
        "edits: others still correct": lambda f: interval(f["edits"]["kept"]),
        "edits: moved in other words": lambda f: interval(summed(f, "moved")),
        "edits: others still correct in other words": lambda f: interval(summed(f, "kept")),
    }  # fmt: skip


def summed(found: Found, name: str) -> Found:
    """The scores of all sentences together."""
    from tinyattn.tasks.evaluation import Score

    scores = [row[name] for row in found["edits"]["reworded"]]
    return Score(sum(s["correct"] for s in scores), sum(s["total"] for s in scores)).as_dict()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--edits", type=int, default=24, help="people to move (24)")
    options = parser.parse_args()
    found = [measured(folder, options.edits) for folder in options.folders]
    print(f"| measure | {' | '.join(folder.name for folder in options.folders)} |")
    print(f"| --- |{' --- |' * len(found)}")
    for title, cell in rows().items():
        print(f"| {title} | {' | '.join(cell(each) for each in found)} |")


if __name__ == "__main__":
    main()
