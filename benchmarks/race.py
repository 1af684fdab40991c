"""A race: contenders take steps in turn, and are started anew several times.

The addresses that a process gets in memory can make it faster or slower until it ends. After a new
start they are different.
"""

import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from contender import Contender, ContenderError, Program
from peers import Unavailable

OURS = "tinyattn"
WARM_UP = 3
"""Steps that are not measured: in them compilers compile, and memory is allocated."""


@dataclass
class Result:
    """The times of one contender for each round, and its memory for each launch."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    first: list[Any] = field(default_factory=list)  # what it computed in the first steps
    version: str = ""


@dataclass(frozen=True)
class Length:
    """The length of a race.

    Args:
        launches: how often all contenders are started.
        rounds: rounds of one launch.
        turn: steps of a contender in one round, at most.
        turn_seconds: a slow contender takes fewer steps, so that they last about this long.
        limit: seconds after which a launch starts no further round.
    """

    launches: int = 3
    rounds: int = 4
    turn: int = 3
    turn_seconds: float = 3.0
    limit: float = 90.0


def race(
    entrants: Mapping[str, Program], options: Mapping[str, Any], length: Length
) -> tuple[dict[str, Result], dict[str, str]]:
    """The results of all contenders that ran to the end, and why the others did not.

    Raises: ContenderError if tinyattn did not.
    """
    results = {label: Result() for label in entrants}
    missing: dict[str, str] = {}
    for launch in range(length.launches):
        with ExitStack() as stack:
            running: dict[str, Contender] = {}
            steps: dict[str, int] = {}
            for label in [label for label in entrants if label not in missing]:
                with _peers_may_fail(label, missing):
                    contender = stack.enter_context(Contender(entrants[label], options))
                    warm = [contender.step() for _ in range(WARM_UP)]
                    running[label], results[label].version = contender, contender.version
                    results[label].first = [answer["result"] for answer in warm]
                    steps[label] = max(
                        1, min(length.turn, int(length.turn_seconds / warm[-1]["seconds"]))
                    )
            _rounds(running, steps, results, missing, launch, length)
    return {label: results[label] for label in entrants if label not in missing}, missing


@contextmanager
def _peers_may_fail(label: str, missing: dict[str, str]) -> Iterator[None]:
    """Record why a peer cannot run or ended early; the race continues without it."""
    try:
        yield
    except (ContenderError, Unavailable) as error:
        if label == OURS:
            raise
        missing[label] = str(error)


def _rounds(
    running: dict[str, Contender], steps: dict[str, int], results: dict[str, Result],
    missing: dict[str, str], launch: int, length: Length,
) -> None:  # fmt: skip
    """The rounds of one launch. In each round another contender is the first."""
    begun = time.monotonic()
    memory: dict[str, float] = {}
    for number in range(length.rounds):
        labels = [label for label in running if label not in missing]
        first = (launch * length.rounds + number) % len(labels)
        for label in labels[first:] + labels[:first]:
            time.sleep(0.1)  # let the threads of the last contender go to sleep
            with _peers_may_fail(label, missing):
                answers = [running[label].step() for _ in range(steps[label])]
                results[label].seconds.append(statistics.median(a["seconds"] for a in answers))
                results[label].cpu.append(statistics.median(a["cpu"] for a in answers))
                memory[label] = answers[-1]["step_mb"]
        if time.monotonic() - begun > length.limit:
            break
    for label, needed in memory.items():
        results[label].memory.append(needed)
