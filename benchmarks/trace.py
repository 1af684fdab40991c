"""The measures of `tinyattn trace` for several models, side by side, as a Markdown table.

    tinyattn quickstart --seed 1 --out s1        # and so on; a model of each seed or type
    python benchmarks/trace.py s0 s1 s2 s3
    tinyattn quickstart --attention all --out all
    python benchmarks/trace.py all/multihead all/bilinear all/bigbird ..

Each folder has the run `finetune`; the data are in `world`, in it or beside it. For other data:

    python benchmarks/trace.py runs --dev birth_dev.tsv --train birth_places_train.tsv
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


def measured(folder: Path, options: argparse.Namespace) -> Found:
    """All measures of one model."""
    trained = load_run(folder / "finetune")
    asked, taught = (read_answered(file or world_of(folder) / f"birth_{name}.tsv")
                     for name, file in (("dev", options.dev), ("train", options.train))
                     )  # fmt: skip
    cases, known = (cases_of(trained, pairs) for pairs in (asked[: options.questions], taught))
    return trace(trained, cases, known, edits=options.edits)


def world_of(folder: Path) -> Path:
    """The folder of the data."""
    return next(w for w in (folder / "world", folder.parent / "world") if w.is_dir())


def interval(score: Found) -> str:
    """Correct of total, and the 95 % interval in %."""
    if not score["total"]:
        return "-"
    return (f"{score['correct']:,} of {score['total']:,} "
            f"({100 * score['low']:.1f} to {100 * score['high']:.1f} %)")  # fmt: skip


def refused(part: str) -> Callable[[Callable[[Found], str]], Callable[[Found], str]]:
    """Decorator: a dash for a measure that the attention type does not allow."""

    def around(row: Callable[[Found], str]) -> Callable[[Found], str]:
        def cell(found: Found) -> str:
            is_refused = isinstance(found[part], dict) and "refused" in found[part]
            return "-" if is_refused or not found[part] else row(found)

        return cell

    return around


def last(found: Found) -> str:
    """The name of the last layer."""
    return str(found["lens"][-1]["name"])


def lost(found: Found, layer: str, part: str) -> str:
    """Answers lost without each head, or without the feed-forward network, of a layer."""
    return ", ".join(str(row["lost"]) for row in found["heads"]
                     if row["name"].startswith(f"{layer} {part}"))  # fmt: skip


def gap(found: Found, name: str, part: str) -> str:
    """The gap that follows a patch, in %."""
    rows = [row["gap"] for row in found["patching"] if (row["name"], row["part"]) == (name, part)]
    return f"{100 * rows[0]:.0f} %" if rows else "-"


def edge(found: Found, layer: str, query: str, key: str) -> str:
    """The answers lost without an attention edge."""
    return next(str(row["lost"]) for row in found["edges"]
                if (row["name"], row["query"], row["key"]) == (layer, query, key))  # fmt: skip


def rows() -> dict[str, Callable[[Found], str]]:
    """The rows of the table: a title, and the cell of a model."""
    edges, patch = refused("edges"), refused("patching")

    def letters(f: Found) -> str:
        gaps = [
            r["gap"] for r in f["patching"] if r["name"] == "layers.0" and "letter" in r["part"]
        ]
        return f"{100 * max(gaps):.0f} %" if gaps else "-"

    def probes(f: Found) -> str:
        before = [r["correct"] for r in f["probe"]
                  if (r["name"], r["position"]) != (last(f), "MASK")]  # fmt: skip
        return str(max(before))

    return {
        "correct": lambda f: f"{f['correct']} of {f['cases']}",
        "lens: correct first letters after embedding and each layer": lambda f: ", ".join(
            str(r["correct"]) for r in f["lens"]),
        "attribution: largest error of a sum": lambda f: f"{f['attribution']['largest_error']:.0e}",
        "answers lost without a head of `layers.0`": lambda f: lost(f, "layers.0", "head"),
        "answers lost without a head of the last layer": lambda f: lost(f, last(f), "head"),
        "answers lost without the last feed-forward": lambda f: lost(f, last(f), "feedforward"),
        "neurons whose loss costs no answer, in each layer": lambda f: ", ".join(
            f"{r['none_lost']} of {r['neurons']}" for r in f["neurons"]),
        "most answers that one neuron costs": lambda f: ", ".join(
            str(r["most_lost"]) for r in f["neurons"]),
        "lost if MASK cannot attend to first name, last name in the last layer": edges(
            lambda f: ", ".join(edge(f, last(f), "MASK", k) for k in ("first name", "last name"))),
        "patch after `layers.0`: name": patch(lambda f: gap(f, "layers.0", "name")),
        "... first name, last name": patch(
            lambda f: ", ".join(gap(f, "layers.0", part) for part in ("first name", "last name"))),
        "... the best single letter": patch(letters),
        "... MASK": patch(lambda f: gap(f, "layers.0", "MASK")),
        "patch at MASK: last attention, last feed-forward": patch(lambda f: ", ".join(
            gap(f, f"{last(f)}.{part}", "MASK") for part in ("attention", "feedforward"))),
        "probe at MASK after the last layer (by chance)": lambda f: next(
            f"{r['correct']} ({r['shuffled']:.0f})" for r in f["probe"]
            if (r["name"], r["position"]) == (last(f), "MASK")),
        "best probe elsewhere": probes,
        "edits: moved": lambda f: interval(f["edits"]["moved"]),
        "edits: others still correct": lambda f: interval(f["edits"]["kept"]),
        "edits: moved, asked in other words": lambda f: interval(f["edits"]["moved_in_words"]),
        "edits: others still correct in other words": lambda f: interval(
            f["edits"]["kept_in_words"]),
    }  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--edits", type=int, default=24, help="people to move (24)")
    parser.add_argument("--dev", type=Path, help="questions that the finetuning did not have")
    parser.add_argument("--train", type=Path, help="questions of the finetuning")
    parser.add_argument("--questions", type=int, help="number of the first to ask (all)")
    options = parser.parse_args()
    found = [measured(folder, options) for folder in options.folders]
    print(f"| measure | {' | '.join(folder.name for folder in options.folders)} |")
    print(f"| --- |{' --- |' * len(found)}")
    for title, cell in rows().items():
        print(f"| {title} | {' | '.join(cell(each) for each in found)} |")


if __name__ == "__main__":
    main()
