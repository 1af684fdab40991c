"""Engine room, measuring: a profile as a table."""

from __future__ import annotations

from tinyattn.measure.observer import Row
from tinyattn.measure.profile import Profile
from tinyattn.report.text_table import Column, table

NOTES = """\
time: computing time of all threads together; an operation with its own row counts only there.
bytes: of the arrays that an operation reads and writes, each once; backward, of the gradients.
multiply-adds: those that the result needs, without pairs of a query and a masked key, and without
work that backward repeats. by: the kernel that computed, or formula, with the reason if it has a
kernel."""


COLUMNS = [
    Column("operation", "{name}", "<14"),
    Column("", "{direction}", "<9"),
    Column("calls", lambda row: f"{row['calls']:,.0f}" if row["calls"] else "", ">7"),
    Column("time", lambda row: _seconds(row["seconds"]), ">11"),
    Column("fraction", "{fraction:.1%}", ">10"),
    Column("bytes", lambda row: f"{row['bytes'] / 1e6:,.1f} MB" if row["bytes"] else "", ">13"),
    Column("multiply-adds", lambda row: _products(row["multiply_adds"], 1e6, "M"), ">14"),
    Column("per second", lambda row: _products(row["rate"], 1e9, "G"), ">12"),
    Column("  by", "  {by}"),
]


def as_table(profile: Profile) -> str:
    """The profile as text."""
    sums = [sum(column) for column in zip(*(row[3:] for row in profile.rows), strict=True)]
    rows = []
    for row in [*profile.rows, Row("total", "", "", *sums)]:
        timed = row.direction and row.seconds > 0  # a coarse clock may measure 0 seconds
        rate = row.multiply_adds / row.seconds if timed else 0
        rows.append({**row._asdict(), "fraction": row.seconds / profile.busy, "rate": rate})
    step, workers, rate = profile.seconds, profile.workers, profile.product_rate
    computing, bound = profile.busy / step, profile.floor / step
    of_computing = profile.floor * workers / profile.busy
    return "\n".join([
        *table(rows, COLUMNS, gap=""), "", NOTES, "",
        f"step     {_seconds(step)} wall-clock time, {profile.tokens_per_second:,.0f} tokens/s",
        f"threads  {workers} worker{'s' * (workers > 1)} and the main thread; on average "
        f"{computing:.2f} of them compute",
        f"memory   {profile.peak_bytes / 1e6:,.0f} MB at most, besides parameters, optimizer state "
        "and gradients",
        f"floor    {_seconds(profile.floor)}, {bound:.0%} of the step, {of_computing:.0%} of the "
        f"computing time: {profile.multiply_adds / 1e9:,.2f} G multiply-adds at the",
        f"         peak rate of a thread in a large matrix product, {rate / 1e9:.1f} G per second "
        f"({2 * rate / 1e9:.0f} GFLOP/s),",
        "         without those of the optimizer",
    ])  # fmt: skip


def _products(number: float, unit: float, letter: str) -> str:
    return f"{number / unit:,.1f} {letter}" if number else ""


def _seconds(seconds: float) -> str:
    return f"{seconds:,.2f} s" if seconds >= 1 else f"{1e3 * seconds:,.1f} ms"
