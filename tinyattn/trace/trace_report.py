"""Wing, trace: the measures of a model as text and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tinyattn.data.files import write
from tinyattn.report.curves import as_png, drawing, new_figure
from tinyattn.report.text_table import Column, aligned, table
from tinyattn.trace.edit import shown

Found = dict[str, Any]
Rows = Sequence[Found]

TITLES = {
    "lens": "Lens: the first letter that each residual stream predicts",
    "attribution": "Attribution: what each part adds to the logit of the right first letter (mean, "
    "nats)",
    "heads": "Knock-out: answers that are lost without one part",
    "neurons": "Knock-out of each single neuron",
    "edges": "Knock-out of attention edges: answers lost if a part cannot attend to another",
    "patching": "Patching: how much of the answer follows the states of another person",
    "probe": "Probe: answers read off by a linear classifier (in brackets: by chance)",
    "edits": "Edits: one matrix changed so that one person moves",
}
LETTER = ", letter "


def as_text(found: Found) -> str:
    """The measures as text."""
    lines = [f"{found['correct']} of {found['cases']} questions are answered correctly"]
    for part, title in TITLES.items():
        if part in found:
            lines += ["", title, *_lines(part, found[part])]
    return "\n".join(lines)


def _lines(part: str, found: Any) -> list[str]:
    if isinstance(found, dict) and "refused" in found:
        return [f"not possible: {found['refused']}"]
    if not found:
        return ["no two correct questions have words of the same lengths and different answers"]
    return [*WRITERS[part](found)]


def _lens(rows: Rows) -> list[str]:
    return table(rows, [Column("after", "{name}"), Column("correct", "{correct}", ">"),
                        Column("mean probability", "{probability:.3f}", ">")])  # fmt: skip


def _attribution(found: Found) -> Iterator[str]:
    yield from table(found["terms"], [
        Column("part", "{name}"), Column("logit", "{logit:.2f}", ">"),
        Column("lead over other answers", "{lead:.2f}", ">"),
    ])  # fmt: skip
    yield (f"the sum is the logit {found['logit']:.2f}; largest difference of a case "
           f"{found['largest_error']:.0e}")  # fmt: skip


def _heads(rows: Rows) -> list[str]:
    return table(rows, [Column("without", "{name}"), Column("lost", "{lost}", ">"),
                        Column("still correct", "{correct}", ">")])  # fmt: skip


def _neurons(rows: Rows) -> list[str]:
    return table(rows, [
        Column("layer", "{name}"), Column("neurons", "{neurons}", ">"),
        Column("without which no answer is lost", "{none_lost}", ">"),
        Column("most answers lost without one", "{most_lost}", ">"),
    ])  # fmt: skip


def _edges(rows: Rows) -> Iterator[str]:
    for name in dict.fromkeys(row["name"] for row in rows):
        mine = [row for row in rows if row["name"] == name]
        parts = list(dict.fromkeys(row["query"] for row in mine))
        cell = {(row["query"], row["key"]): str(row["lost"]) for row in mine}
        yield from _matrix(f"{name}: query \\ key", parts, parts, cell)


def _patching(rows: Rows) -> Iterator[str]:
    whole = [row for row in rows if LETTER not in row["part"]]
    letters = [row for row in rows if LETTER in row["part"]]
    pairs = max(row["pairs"] for row in rows)
    yield f"% of the logit gap that follows, over {pairs} pairs of people; columns: the activation"
    for mine in (whole, letters):
        names = list(dict.fromkeys(row["name"] for row in mine))
        cell = {(row["part"], row["name"]): f"{100 * row['gap'] + 0.0:.0f}" for row in mine}
        yield from _matrix("", list(dict.fromkeys(row["part"] for row in mine)), names, cell)


def _probe(rows: Rows) -> Iterator[str]:
    names = list(dict.fromkeys(row["name"] for row in rows))
    cell = {
        (row["position"], row["name"]): f"{row['correct']} ({row['shuffled']:.0f})" for row in rows
    }
    totals = {row["position"]: row["total"] for row in rows}
    yield from _matrix("at", [*totals], names, cell)
    fewer = [f"{n} at {position}" for position, n in totals.items() if n < max(totals.values())]
    yield f"of {max(totals.values())} questions{'; ' * bool(fewer)}{', '.join(fewer)}"


def _edits(found: Found) -> Iterator[str]:
    yield f"moved to the new place:         {_score(found['moved'])}"
    yield f"other people, still correct:    {_score(found['kept'])}"
    yield f"moved, asked in other words:    {_score(found['moved_in_words'])}"
    yield f"others, still correct in these: {_score(found['kept_in_words'])}"
    for row in found["reworded"]:
        before, moved, kept = (f"{row[name]['correct']:,} of {row[name]['total']:,}"
                               for name in ("before", "moved", "kept"))  # fmt: skip
        yield (f"  \"{shown(row['form'])}\": correct before {before}, moved {moved}, others still "
               f"correct {kept}")  # fmt: skip


def _score(score: Found) -> str:
    if not score["total"]:
        return "none to count"
    low, high = score["low"], score["high"]
    return (f"{score['correct']:,} of {score['total']:,}, {100 * score['accuracy']:.1f} % "
            f"(95 % interval {100 * low:.1f} to {100 * high:.1f})")  # fmt: skip


def _matrix(
    corner: str, rows: Sequence[str], columns: Sequence[str], cell: dict[tuple[str, str], str]
) -> list[str]:
    """A table with a cell for some (row, column)."""
    lines = [
        [corner, *columns],
        *([row, *(cell.get((row, c), "") for c in columns)] for row in rows),
    ]
    return aligned(lines, ["<", *[">"] * len(columns)], "  ")


WRITERS: dict[str, Any] = {
    "lens": _lens, "attribution": _attribution, "heads": _heads, "neurons": _neurons,
    "edges": _edges, "patching": _patching, "probe": _probe, "edits": _edits,
}  # fmt: skip


def save_picture(found: Found, path: Path) -> None:
    """Draw the measures that were taken.

    Raises: NoPicture if matplotlib is missing or fails, OSError if the file cannot be written.
    """
    write(path, _drawn(found))


@drawing()
def _drawn(found: Found) -> bytes:
    drawers = {
        part: draw for part, draw in DRAWERS.items()
        if found.get(part) and not (isinstance(found[part], dict) and "refused" in found[part])
    }  # fmt: skip
    columns = min(2, max(1, len(drawers)))
    rows = -(-len(drawers) // columns) or 1
    figure = new_figure(7.5 * columns, 4.4 * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, (part, draw) in zip(grid.flat, drawers.items(), strict=False):
        axes.set_title(TITLES[part].partition(" (")[0], fontsize=10)
        draw(axes, found[part])
    for axes in list(grid.flat)[len(drawers) :]:
        axes.axis("off")
    return as_png(figure, dpi=110)


def _bars(axes: Any, names: Sequence[str], values: Sequence[float], label: str) -> None:
    axes.barh(range(len(names)), values, color="#3b6ea5")
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.axvline(0, color="black", lw=0.6)
    axes.set_xlabel(label, fontsize=9)
    for at, value in enumerate(values):
        axes.annotate(f"{value:.3g}", (value, at), fontsize=8, va="center",
                      xytext=(3, 0), textcoords="offset points")  # fmt: skip
    axes.margins(x=0.12)


def _draw_lens(axes: Any, rows: Rows) -> None:
    _bars(axes, [row["name"] for row in rows], [row["correct"] for row in rows],
          "correct first letters")  # fmt: skip


def _draw_attribution(axes: Any, found: Found) -> None:
    _bars(axes, [row["name"] for row in found["terms"]], [row["lead"] for row in found["terms"]],
          "lead over other answers, nats")  # fmt: skip


def _draw_heads(axes: Any, rows: Rows) -> None:
    _bars(axes, [row["name"] for row in rows], [row["lost"] for row in rows], "answers lost")


def _draw_neurons(axes: Any, rows: Rows) -> None:
    most = max(row["most_lost"] for row in rows)
    width = 0.8 / len(rows)
    for i, row in enumerate(rows):
        counts = np.bincount(row["lost"], minlength=most + 1)
        axes.bar(np.arange(most + 1) + i * width, counts, width, label=row["name"])
        for at, count in enumerate(counts):
            axes.annotate(str(count), (at + i * width, count), fontsize=7, ha="center", va="bottom")
    axes.set_xticks(range(most + 1))
    axes.set_xlabel("answers lost without the neuron", fontsize=9)
    axes.set_ylabel("neurons", fontsize=9)
    axes.legend(fontsize=8)


def _draw_edges(axes: Any, rows: Rows) -> None:
    names = list(dict.fromkeys(row["name"] for row in rows))
    parts = list(dict.fromkeys(row["query"] for row in rows))
    both = [f"{name}: {part}" for name in names for part in parts]
    cell = {(f"{row['name']}: {row['query']}", row["key"]): row["lost"] for row in rows}
    _map(axes, both, parts, cell, "{:.0f}")


def _draw_patching(axes: Any, rows: Rows) -> None:
    names = list(dict.fromkeys(row["name"] for row in rows if not row["name"].endswith(ADDERS)))
    parts = list(dict.fromkeys(row["part"] for row in rows))
    cell = {(row["part"], row["name"]): 100 * row["gap"] for row in rows}
    _map(axes, parts, names, cell, "{:.0f} %")


def _draw_probe(axes: Any, rows: Rows) -> None:
    positions = list(dict.fromkeys(row["position"] for row in rows))
    for name in dict.fromkeys(row["name"] for row in rows):
        mine = [row for row in rows if row["name"] == name]
        at = [positions.index(row["position"]) for row in mine]
        (line,) = axes.plot(at, [100 * r["correct"] / r["total"] for r in mine], marker="o",
                            ms=3, label=name)  # fmt: skip
        axes.plot(at, [100 * r["shuffled"] / r["total"] for r in mine], ls=":",
                  color=line.get_color())  # fmt: skip
    axes.set_xticks(range(len(positions)), positions, rotation=60, ha="right", fontsize=7)
    axes.set_ylabel("correct, % (dotted: by chance)", fontsize=9)
    axes.legend(fontsize=8)


def _draw_edits(axes: Any, found: Found) -> None:
    scores = {"moved": found["moved"], "others the same": found["kept"]}
    for row in found["reworded"]:
        scores[f"moved: {shown(row['form'])}"] = row["moved"]
        scores[f"others: {shown(row['form'])}"] = row["kept"]
    _bars(axes, [*scores], [100 * s["accuracy"] for s in scores.values()], "% of edits or answers")
    for at, s in enumerate(scores.values()):
        axes.plot([100 * s["low"], 100 * s["high"]], [at, at], color="black", lw=1)


def _map(
    axes: Any, rows: Sequence[str], columns: Sequence[str], cell: dict[tuple[str, str], float],
    form: str,
) -> None:  # fmt: skip
    """A matrix of numbers; an empty cell stays white."""
    values = np.array([[cell.get((row, column), np.nan) for column in columns] for row in rows])
    axes.imshow(values, cmap="Blues", aspect="auto", vmin=0)
    axes.set_yticks(range(len(rows)), rows, fontsize=7)
    axes.set_xticks(range(len(columns)), columns, fontsize=8, rotation=30, ha="right")
    most = np.nanmax(values)
    for (y, x), value in np.ndenumerate(values):
        if not np.isnan(value):
            axes.annotate(form.format(value), (x, y), ha="center", va="center", fontsize=7,
                          color="white" if value > 0.6 * most else "black")  # fmt: skip


ADDERS = (".attention", ".feedforward")
DRAWERS: dict[str, Any] = {
    "lens": _draw_lens, "attribution": _draw_attribution, "heads": _draw_heads,
    "neurons": _draw_neurons, "edges": _draw_edges, "patching": _draw_patching,
    "probe": _draw_probe, "edits": _draw_edits,
}  # fmt: skip
