"""The table that compare.py prints: one line for each workload, measure and peer."""

from dataclasses import dataclass

from ratios import Spread

COLUMNS = (
    "workload",
    "measure",
    "peer",
    "tinyattn",
    "peer's",
    "ratio [quartiles]",
    "target",
    "met",
    "floor",
)
WIDTHS = (44, 8, 22, 9, 9, 17, 8, 3, 5)


@dataclass(frozen=True)
class Row:
    """What tinyattn and one peer needed. `bound` is the largest ratio that meets the target."""

    workload: str
    measure: str  # time, cpu time or memory
    peer: str
    ours: str
    theirs: str = ""
    ratio: Spread | None = None
    bound: float | None = None  # of the ratio
    limit: tuple[float, float, str] | None = None  # of tinyattn alone: measured, allowed, unit
    floor: float | None = None  # share of tinyattn's time that its multiply-adds alone would take

    @property
    def target(self) -> str:
        if self.limit is not None:
            return f"{self.limit[1]:g} {self.limit[2]}"
        return "" if self.bound is None else f"{self.bound:.2f}"

    @property
    def met(self) -> str:
        if self.limit is not None:
            return "yes" if self.limit[0] <= self.limit[1] else "no"
        if self.bound is None or self.ratio is None:
            return ""
        return "yes" if self.ratio.median <= self.bound else "no"

    def __str__(self) -> str:
        ratio = "" if self.ratio is None else str(self.ratio)
        floor = "" if self.floor is None else f"{self.floor:.0%}"
        return line(
            (self.workload, self.measure, self.peer, self.ours, self.theirs, ratio,
             self.target, self.met, floor)
        )  # fmt: skip


def line(cells: tuple[str, ...]) -> str:
    """A line of a Markdown table, padded so that it can be read as it is."""
    padded = (cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True))
    return f"| {' | '.join(padded)} |"


def head() -> str:
    """The first two lines of the table."""
    return f"{line(COLUMNS)}\n{line(tuple('-' * width for width in WIDTHS))}"


def time_text(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def memory_text(megabytes: float) -> str:
    return f"{megabytes:.0f} MB" if megabytes >= 10 else f"{megabytes:.1f} MB"
