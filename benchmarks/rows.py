"""From a race to the rows of the table: which peers run, whether they agree, what they need."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from agreement import TOLERANCE, difference, first_answers, has_chance
from busy import busy_processes
from contender import ContenderError, Program
from floor import floor
from peers import Unavailable
from race import OURS, Length, Result, race
from ratios import ratios, spread
from table import Row, memory_text, time_text
from workloads import Race


@dataclass
class Notes:
    """The notes below the table.

    Args: rate: multiply-adds per second of one thread, see `floor.thread_rate`.
    """

    rate: float
    differences: dict[str, float] = field(default_factory=dict)  # of peers from tinyattn
    missing: list[str] = field(default_factory=list)  # what could not be compared, and why
    versions: dict[str, None] = field(default_factory=dict)

    def __str__(self) -> str:
        agreed = "; ".join(f"{name} {value:.0e}" for name, value in self.differences.items())
        lines = [
            f"One thread: {2 * self.rate / 1e9:.0f} GFLOP/s (the best of some products of large "
            "float32 matrices while all cores multiply). Floor: the share of tinyattn's time that "
            "the multiply-adds of linear maps and attention would take at this rate on each thread "
            "that has a sequence. Pairs that a mask hides, the computation that backward repeats "
            "and the optimizer are not counted."
        ]
        lines += [f"Not compared: {line}." for line in self.missing]
        if agreed:
            lines.append(f"Largest difference of the first results without dropout: {agreed}.")
        if self.versions:
            lines.append(f"{', '.join(self.versions)}.")
        return "\n\n".join(lines)


def compared(workload: Race, length: Length, notes: Notes) -> Iterator[Row]:
    """The rows of one race, against the peers that run here and compute the same."""
    entrants = {OURS: workload.ours}
    for label, program in workload.peers.items():
        if not has_chance(workload.options) or _agrees(label, program, workload, notes):
            entrants[label] = program
    if len(entrants) == 1:
        return
    with busy_processes(workload.busy):
        results, missing = race(entrants, workload.options, length)
    notes.missing += [f"{workload.title}, {label}: {why}" for label, why in missing.items()]
    notes.versions |= {result.version: None for result in results.values()}
    if not has_chance(workload.options):
        for label in [label for label in results if label != OURS]:
            found = difference(results[OURS].first, results[label].first)
            if not _same(label, found, workload, notes):
                del results[label]
    yield from rows(workload, results, floor(workload, notes.rate))


def _name(label: str, workload: Race) -> str:
    """The name of a check; batch size and number of threads are not part of it."""
    return f"{label.split(',')[0]} ({workload.title.split(',')[0]})"


def _agrees(label: str, program: Program, workload: Race, notes: Notes) -> bool:
    """Whether a peer runs and computes the same, if that is not yet known."""
    found = notes.differences.get(_name(label, workload))
    if found is None:
        ours = first_answers(workload.ours, workload.options)  # if this fails, no peer is the cause
        try:
            found = difference(ours, first_answers(program, workload.options))
        except (ContenderError, Unavailable) as error:
            notes.missing.append(f"{workload.title}, {label}: {error}")
            return False
    return _same(label, found, workload, notes)


def _same(label: str, found: float, workload: Race, notes: Notes) -> bool:
    name = _name(label, workload)
    notes.differences[name] = max(found, notes.differences.get(name, 0.0))
    if found <= TOLERANCE:
        return True
    notes.missing.append(f"{workload.title}, {label}: its results differ by {found:.0e}")
    return False


def rows(workload: Race, results: dict[str, Result], least: float) -> Iterator[Row]:
    """Time beside every peer, and memory where the workload compares it.

    Args: least: seconds that tinyattn's multiply-adds alone would take.
    """
    times = {label: getattr(result, workload.clock) for label, result in results.items()}
    medians = {label: spread(values).median for label, values in times.items()}
    peers = [label for label in results if label != OURS]
    fastest = min(peers, key=medians.__getitem__, default=None)
    measure = {"seconds": "time", "cpu": "cpu time"}[workload.clock]
    for label in peers:
        bound = workload.fastest if label == fastest else None
        yield Row(workload.title, measure, label, time_text(medians[OURS]),
                  time_text(medians[label]), spread(ratios(times[OURS], times[label])),
                  workload.time.get(label, bound), floor=least / medians[OURS])  # fmt: skip
    for label in [label for label in peers if label in workload.memory]:
        ours, theirs = results[OURS].memory, results[label].memory
        needed, limit = spread(ours).median, workload.memory_limit
        yield Row(workload.title, "memory", label, memory_text(needed),
                  memory_text(spread(theirs).median), spread(ratios(ours, theirs)),
                  workload.memory[label],
                  None if limit is None else (needed, limit, "MB"))  # fmt: skip
