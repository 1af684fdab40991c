"""Engine room, measuring: a comparison of attention types, as tables and as a picture.

The picture shows as matrices which positions each type attends to, and the growth of time and
memory with two logarithmic axes: there a power of T is a straight line, and its slope is the
exponent. It needs matplotlib (the extra `plot`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tinyattn.data.files import write
from tinyattn.measure.comparison import Comparison, Row
from tinyattn.report.curves import as_png, drawing, new_figure
from tinyattn.report.text_table import Column, table

STYLES = [("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#E69F00", "v"),
          ("#56B4E9", "P"), ("#000000", "X"), ("#7A7A7A", "<"), ("#7B3294", ">")]  # fmt: skip
"""Colours that most colour-blind people can tell apart (Okabe and Ito 2008, with a grey and a
violet), and markers."""

HOPS = ["#FFFFFF", "#08306B", "#4A98C9", "#B5D4E9"]
"""Colours for: never, one layer, two layers, three or more."""


ADDS = [
    Column("", "{name}"),
    Column("", lambda row: f"{row['multiply_adds_number'] / 1e6:,.0f} M", ">"),
    Column("", "= {multiply_adds}"),
    Column("", lambda row: _own_letters(row["letters"])),
]
KEPT = [
    Column("", "{name}"),
    Column("", lambda row: _megabytes(row["kept_bytes"]), ">"),
    Column("", lambda row: _megabytes(row["kept_bytes_measured"]), ">"),
    Column("", "4·({kept})"),
]


def as_table(comparison: Comparison) -> str:
    """The result as text."""
    T, rows = (
        comparison.length,
        [{**vars(row), "title": _title(row)} for row in _all_rows(comparison)],
    )
    columns = [
        Column("attention type", "{title}"),
        Column("parameters", "{parameters:,}", ">"),
        Column("uses", lambda row: row["uses"] or "neither", ">"),
        Column("hops", lambda row: "never" if row["hops"] is None else str(row["hops"]), ">"),
        Column("time", lambda row: f"{1e3 * row['seconds'][T]:,.1f} ms", ">"),
        Column("time/dense", "{step_ratio:.3f}", ">"),
        Column("grows as", "T^{time_slope:.2f}", ">"),
        Column("memory", lambda row: _megabytes(row["peak_bytes"][T]), ">"),
        Column("grows as", "T^{memory_slope:.2f}", ">"),
    ]
    once = {row.name: vars(row) for row in comparison.rows}.values()
    return "\n".join([
        f"width {comparison.width}, {comparison.heads} heads, one sequence of T = {T:,} positions; "
        "forward and backward, float32, one thread",
        "", *table(rows, columns), "",
        "uses: found by changing inputs. hops: layers until each of 128 positions depends on all",
        "others, or, if causal, on all earlier ones. time, memory: forward and backward.",
        "", "multiply-adds, forward, for all pairs; dense causal attention skips nearly half",
        *table(once, ADDS),
        "T positions, C width, H heads, K positions in a segment (BigBird: block), R rows to which",
        "keys are projected, L latents, N keys (BigBird: blocks) in a list, G global blocks",
        "", "bytes kept for backward: by the formula, measured",
        *table(once, KEPT),
    ])  # fmt: skip


def _all_rows(comparison: Comparison) -> list[Row]:
    """A row for each attention type, and those of dense attention that are not among them."""
    return [*comparison.rows, *(row for row in comparison.dense if row not in comparison.rows)]


def _title(row: Row) -> str:
    return row.name if row.use == "causal" else f"{row.name}, bidirectional"


def _megabytes(number: int) -> str:
    return f"{number / 1e6:,.0f} MB"


def _own_letters(letters: dict[str, int]) -> str:
    """The values of the letters that not every formula has."""
    return ", ".join(f"{letter} = {n}" for letter, n in letters.items() if letter not in "CHT")


def save_picture(comparison: Comparison, path: Path) -> None:
    """Draw which positions attention types attend to, and how their time and memory grow.

    Raises: NoPicture if matplotlib is missing or fails, OSError if the file cannot be written.
    """
    write(path, _drawn(comparison))


@drawing()
def _drawn(comparison: Comparison) -> bytes:
    figure = new_figure(16, 9)
    halves: Any = figure.subfigures(1, 2, width_ratios=(9, 7), wspace=0.03)
    left, right = halves
    _draw_layers(left, comparison.rows)
    right.suptitle(
        f"forward and backward of one sequence, width {comparison.width}, {comparison.heads} heads",
        fontsize=13,
    )
    time, memory = right.subplots(2, 1, sharex=True)
    rows = _all_rows(comparison)
    milliseconds = [{T: 1e3 * s for T, s in row.seconds.items()} for row in rows]
    megabytes = [{T: n / 1e6 for T, n in row.peak_bytes.items()} for row in rows]
    _draw_growth(time, rows, milliseconds, [row.time_slope for row in rows])
    _draw_growth(memory, rows, megabytes, [row.memory_slope for row in rows])
    time.set_ylabel("time in ms", fontsize=11)
    memory.set_ylabel("memory in MB", fontsize=11)
    memory.set_xlabel("T, positions", fontsize=11)
    return as_png(figure, dpi=110)


def _draw_layers(figure: Any, rows: Sequence[Row]) -> None:
    """A matrix for each attention type: after how many layers position t depends on position s."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    figure.suptitle("layers until position t (row) depends on position s (column)", fontsize=13)
    columns = math.ceil(math.sqrt(len(rows)))
    grid = figure.subplots(math.ceil(len(rows) / columns), columns, squeeze=False)
    for axes, row in zip(grid.flat, rows, strict=False):
        shown = np.clip(np.where(row.layers == 0, 1, row.layers), 0, 3)  # -1, never, becomes 0
        axes.imshow(shown, cmap=ListedColormap(HOPS), vmin=0, vmax=3, interpolation="nearest")
        axes.set_title(f"{row.name}\n{row.use}", fontsize=11)
        last = len(row.layers) - 1
        axes.set_xticks([0, last])
        axes.set_yticks([0, last])
        axes.tick_params(labelsize=9)
    for axes in list(grid.flat)[len(rows) :]:
        axes.axis("off")
    names = ["never", "one layer", "two", "three or more"]
    figure.legend(handles=[Patch(facecolor=c, edgecolor="black", label=n, lw=0.6)
                           for c, n in zip(HOPS, names, strict=True)],
                  loc="outside lower center", ncols=4, fontsize=11, frameon=False)  # fmt: skip


def _draw_growth(
    axes: Any, rows: Sequence[Row], curves: Sequence[dict[int, float]], slopes: Sequence[float]
) -> None:
    """A line for each attention type, with its name and slope at its right end."""
    lengths = [*curves[0]]
    styles = [STYLES[i % len(STYLES)] for i in range(len(rows))]
    for row, (colour, marker), curve in zip(rows, styles, curves, strict=True):
        line = "--" if row.use == "bidirectional" else "-"
        axes.loglog([*curve], [*curve.values()], line, color=colour, marker=marker, ms=6, lw=1.6)
    axes.grid(which="major", alpha=0.3)
    axes.minorticks_off()
    axes.set_xticks(lengths, [f"{T:,}" for T in lengths])
    axes.set_xlim(lengths[0] * 0.9, lengths[-1] * 1.1)
    low, high = np.log(axes.get_ylim())
    ends = (np.log([curve[lengths[-1]] for curve in curves]) - low) / (high - low)
    for i, place in enumerate(_spread(ends, 0.078)):
        axes.annotate(
            f"{_title(rows[i])}  $T^{{{slopes[i]:.2f}}}$", xy=(1, ends[i]), xytext=(1.06, place),
            xycoords="axes fraction", textcoords="axes fraction", color=styles[i][0],
            va="center", fontsize=10, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": styles[i][0], "lw": 0.8, "relpos": (0, 0.5)},
        )  # fmt: skip


def _spread(heights: np.ndarray, gap: float) -> np.ndarray:
    """Heights in 0..1 as near to these as possible, in their order, and at least `gap` apart."""
    order = np.argsort(heights)
    room = gap * np.arange(len(heights))
    placed = np.empty(len(heights))
    placed[order] = np.clip(_rising(heights[order] - room), 0, max(0, 1 - room[-1])) + room
    return placed


def _rising(values: np.ndarray) -> np.ndarray:
    """The rising list nearest to `values`: neighbours that fall are replaced by their mean."""
    groups: list[list[float]] = []  # mean and count
    for value in values:
        groups.append([float(value), 1.0])
        while len(groups) > 1 and groups[-2][0] > groups[-1][0]:
            (b, n), (a, m) = groups.pop(), groups.pop()
            groups.append([(a * m + b * n) / (m + n), m + n])
    return np.repeat([mean for mean, _ in groups], [int(count) for _, count in groups])
