"""Engine room, measuring: a step as a table."""

from __future__ import annotations

from tinyattn.measure.observer import Row
from tinyattn.measure.profile import Profile
from tinyattn.report.table import Column, table

NOTES = """\
time: of all threads together, while they compute; what has a row of its own counts there only.
bytes: of the arrays that go into an op and come out, each once; backward, of the gradients that do.
multiply-adds: those that the result needs; not pairs of a query and a key that is hidden from it,
nor what backward computes again. by: who computed; of a formula that has a kernel, why not that."""


COLUMNS = [
    Column("a step", "{name}", "<14"),
    Column("", "{direction}", "<9"),
    Column("calls", lambda row: f"{row['calls']:,.0f}" if row["calls"] else "", ">7"),
    Column("time", lambda row: _seconds(row["seconds"]), ">11"),
    Column("share", "{share:.1%}", ">8"),
    Column("bytes", lambda row: f"{row['bytes'] / 1e6:,.1f} MB" if row["bytes"] else "", ">13"),
    Column("multiply-adds", lambda row: _products(row["multiply_adds"], 1e6, "M"), ">14"),
    Column("a second", lambda row: _products(row["rate"], 1e9, "G"), ">10"),
    Column("  by", "  {by}"),
]


def as_table(profile: Profile) -> str:
    """The profile for people."""
    sums = [sum(column) for column in zip(*(row[3:] for row in profile.rows), strict=True)]
    rows = []
    for row in [*profile.rows, Row("total", "", "", *sums)]:
        timed = row.direction and row.seconds > 0  # a coarse clock may see nothing pass
        rate = row.multiply_adds / row.seconds if timed else 0
        rows.append({**row._asdict(), "share": row.seconds / profile.busy, "rate": rate})
    step, workers, rate = profile.seconds, profile.workers, profile.product_rate
    computing, bound = profile.busy / step, profile.floor / step
    of_computing = profile.floor * workers / profile.busy
    return "\n".join([
        *table(rows, COLUMNS, gap=""), "", NOTES, "",
        f"a step   {_seconds(step)} on the clock, {profile.tokens_per_second:,.0f} tokens/s",
        f"threads  {workers} and the main one; on average {computing:.2f} of them compute",
        f"memory   {profile.peak_bytes / 1e6:,.0f} MB, beyond parameters, moments and gradients",
        f"floor    {_seconds(profile.floor)}, {bound:.0%} of the step, {of_computing:.0%} of what "
        "threads compute: this long",
        f"         {profile.multiply_adds / 1e9:,.2f} G multiply-adds would take at the "
        f"{rate / 1e9:.1f} G a second ({2 * rate / 1e9:.0f} GFLOP/s) that each",
        "         thread reaches in a large product; the optimizer's are not in it",
    ])  # fmt: skip


def _products(number: float, unit: float, letter: str) -> str:
    return f"{number / unit:,.1f} {letter}" if number else ""


def _seconds(seconds: float) -> str:
    return f"{seconds:,.2f} s" if seconds >= 1 else f"{1e3 * seconds:,.1f} ms"
