"""The engine room, measuring: a step as a table. Next: every mechanism as one block."""

from __future__ import annotations

from tinyattn.measure.observer import Row
from tinyattn.measure.profile import Profile

NOTES = """\
time: of all threads together, while they compute. bytes: of the arrays that go into an op and come
out, each once; backward, of the gradients that do. multiply-adds: those that the result needs; not
pairs of a query and a key that is hidden from it, nor what backward computes again."""


def as_table(profile: Profile) -> str:
    """The profile for people."""
    lines = [_line("a step", "", "calls", "time", "share", "bytes", "multiply-adds", "a second")]
    lines += [_row(row, profile.busy) for row in profile.rows]
    sums = [sum(column) for column in zip(*(row[2:] for row in profile.rows), strict=True)]
    lines.append(_row(Row("total", "", *sums), profile.busy))
    step, workers, rate = profile.seconds, profile.workers, profile.product_rate
    computing, bound = profile.busy / step, profile.floor / step
    of_computing = profile.floor * workers / profile.busy
    return "\n".join([
        *lines, "", NOTES, "",
        f"a step   {_seconds(step)} on the clock, {profile.tokens_per_second:,.0f} tokens/s",
        f"threads  {workers} and the main one; on average {computing:.2f} of them compute",
        f"memory   {profile.peak_bytes / 1e6:,.0f} MB, beyond parameters, moments and gradients",
        f"floor    {_seconds(profile.floor)}, {bound:.0%} of the step, {of_computing:.0%} of what "
        "threads compute: this long",
        f"         {profile.multiply_adds / 1e9:,.2f} G multiply-adds would take at the "
        f"{rate / 1e9:.1f} G a second ({2 * rate / 1e9:.0f} GFLOP/s) that each",
        "         thread reaches in a large product; the optimizer's are not in it",
    ])  # fmt: skip


def _row(row: Row, total: float) -> str:
    products = row.multiply_adds > 0
    timed = products and row.direction and row.seconds > 0  # a coarse clock may see nothing pass
    return _line(
        row.name,
        row.direction,
        f"{row.calls:,.0f}" if row.calls else "",
        _seconds(row.seconds),
        f"{row.seconds / total:.1%}",
        f"{row.bytes / 1e6:,.1f} MB" if row.bytes else "",
        f"{row.multiply_adds / 1e6:,.1f} M" if products else "",
        f"{row.multiply_adds / row.seconds / 1e9:.1f} G" if timed else "",
    )


def _line(name: str, direction: str, *numbers: str) -> str:
    widths = (7, 11, 8, 13, 14, 10)
    cells = "".join(cell.rjust(width) for cell, width in zip(numbers, widths, strict=True))
    return f"{name:14}{direction:9}{cells}".rstrip()


def _seconds(seconds: float) -> str:
    return f"{seconds:,.2f} s" if seconds >= 1 else f"{1e3 * seconds:,.1f} ms"
