"""Engine room, measuring: mechanisms side by side.

The files on attention have formulas and refusals. Here they are tried: what does each mechanism
see, how do its time and its memory grow with the length of the text, and how fast is it beside
dense attention, on this computer?
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tinyattn.attention import AttentionBlock, hops, influence
from tinyattn.checks import check_numbers
from tinyattn.limits import TICK
from tinyattn.measure.mechanism import new_block
from tinyattn.measure.memory import traced_memory
from tinyattn.models.config import GPTConfig
from tinyattn.tensor import Tensor
from tinyattn.theory.cost import formula_value, letters
from tinyattn.threads import one_thread

DENSE = "multihead"
"""What the others are compared with."""

USES = {True: "causal", False: "bidirectional"}

LENGTHS = (256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, eq=False)
class Row:
    """What was found out about one mechanism in one use, causal or bidirectional."""

    name: str
    use: str
    parameters: int  # of a block for texts as long as models take by default
    causal: bool  # it can be used causally, and then nothing comes from the future
    sees: str  # "causal", "bidirectional", or "both": what it can be used for
    hops: int | None  # layers until all can know of all, or, causal, of all before; None: never
    multiply_adds: str  # forward, as a formula
    multiply_adds_number: int  # at the length at which mechanisms are compared
    kept: str  # for backward, numbers, as a formula
    kept_bytes: int  # in float32, at this length
    kept_bytes_measured: int
    letters: dict[str, int]  # what the formulas' letters are, at this length
    seconds: dict[int, float]  # forward and backward, at each length
    peak_bytes: dict[int, int]  # most memory in use meanwhile, parameters not counted
    time_slope: float  # time grows as this power of the length
    memory_slope: float
    step_ratio: float  # time relative to dense attention in the same use
    layers: np.ndarray  # until position t can know of position s; 0 at t = s, and -1 for never

    def as_dict(self) -> dict[str, Any]:
        """The row under the names that other programs rely on, without the matrix."""
        return {key: value for key, value in asdict(self).items() if key != "layers"}


@dataclass(frozen=True)
class Comparison:
    """A row for each mechanism, and how they were measured."""

    rows: list[Row]
    dense: list[Row]  # dense attention in both uses
    width: int
    heads: int
    length: int  # that at which mechanisms are compared

    def as_dict(self) -> dict[str, Any]:
        """The result under the names that other programs rely on."""
        sizes = {"width": self.width, "heads": self.heads, "length": self.length}
        return {
            "rows": [row.as_dict() for row in self.rows],
            "dense": [row.as_dict() for row in self.dense],
            **sizes,
        }


def compare(
    names: Sequence[str],
    *,
    width: int = 64,
    heads: int = 4,
    lengths: Sequence[int] = LENGTHS,
    length: int | None = None,
    rounds: int = 5,
    on_start: Callable[[int, int], None] = lambda done, total: None,
    on_step: Callable[[int], None] = lambda count: None,
) -> Comparison:
    """Try mechanisms, one sequence at a time, in the causal use if they have one.

    Args:
        names: as `new_block` takes them.
        lengths: over which growth is measured; at least two.
        length: at which mechanisms are compared; by default the longest.
        rounds: how often each takes its turn at the longest; at shorter ones, more often.
        on_start: is told of nothing done, and of how much there is to do.
        on_step: is told of what has been done since.
    Raises: ValueError for an unknown mechanism, sizes that do not fit, or a single length.
    """
    if len(set(lengths)) < 2:
        raise ValueError(f"compare: growth needs two lengths or more; got {[*lengths]}")
    length = length or max(lengths)
    longest = max(*lengths, length, GPTConfig.context)
    check_numbers(f"compare: width {width} and length {longest}", width * (4 * width + longest))
    for name in names:
        if (most := new_block(name, width, heads, longest).longest) < longest:
            raise ValueError(f"compare: {name} takes texts of {most} at most; needs {longest}")
    sights = {name: Sight(name, width, heads) for name in dict.fromkeys([*names, DENSE])}
    wanted = [(name, True in sights[name].sees) for name in names]
    dense = {causal: (DENSE, causal) for causal in USES}
    entries = {key: _Contestant(sights[key[0]], key[1]) for key in [*wanted, *dense.values()]}
    rounds_at = {T: rounds * min(8, max(1, max(lengths) // T)) for T in {*lengths, length}}
    on_start(0, sum((1 + rounds_at[T]) * T for T in rounds_at) * len(entries))
    with one_thread(np):  # as in training, where each thread has sequences of its own
        for T in sorted(rounds_at):
            _race([*entries.values()], T, rounds_at[T], on_step)
    rows = {
        (name, causal): entry.row(entries[dense[causal]], sorted(set(lengths)), length)
        for (name, causal), entry in entries.items()
    }
    return Comparison(
        [rows[key] for key in wanted], [rows[key] for key in dense.values()], width, heads, length
    )


class Sight:
    """A mechanism, and what it sees, as found by changing its inputs."""

    def __init__(self, name: str, width: int, heads: int) -> None:
        self.name, self.width, self.heads = name, width, heads
        block = self.block(GPTConfig.context)
        narrow = new_block(name, 8, 2, GPTConfig.context)  # sees the same, and is tried sooner
        self.parameters = block.parameter_count()
        self.sees = {causal: influence(narrow, GPTConfig.context, causal)
                     for causal, use in USES.items() if use not in block.cannot}  # fmt: skip

    def block(self, longest: int) -> AttentionBlock:
        """A new block for texts of this length."""
        return new_block(self.name, self.width, self.heads, longest)

    def uses(self) -> list[bool]:
        """The uses that hold: causal means that no output changes with an input after it."""
        future = {causal: np.triu(matrix, 1).any() for causal, matrix in self.sees.items()}
        return [causal for causal in future if causal != future[causal]]


class _Contestant:
    """One mechanism in one use, and what its steps took at each length."""

    def __init__(self, sight: Sight, causal: bool) -> None:
        self.sight, self.causal = sight, causal
        self.seconds: dict[int, list[float]] = {}
        self.kept: dict[int, int] = {}  # bytes, at each length
        self.peak: dict[int, int] = {}
        self.letters: dict[int, dict[str, int]] = {}

    def enter(self, length: int) -> None:
        """Get ready for a race over this length."""
        rng, shape = np.random.default_rng(length), (1, length, self.sight.width)
        self.block = self.sight.block(length)
        self.letters[length] = letters(self.block, length, self.causal)
        self.x = Tensor(rng.standard_normal(shape, np.float32), requires_grad=True)
        self.g = rng.standard_normal(shape, np.float32)
        self.seconds[length] = []

    def step(self) -> float:
        """The seconds that forward and backward take."""
        began = time.perf_counter()
        self.block(self.x, causal=self.causal).backward(self.g)
        taken = max(TICK, time.perf_counter() - began)
        self.x.zero_grad()
        self.block.zero_grad()
        return taken

    def weigh(self, length: int) -> None:
        """The bytes that forward keeps, and the most in use during a step, which also warms up.

        NumPy reports its arrays to tracemalloc.
        """
        with traced_memory() as grown:
            y = self.block(self.x, causal=self.causal)
            self.kept[length] = grown()[0]
            y.backward(self.g)
            self.peak[length] = grown()[1]
        self.x.zero_grad()
        self.block.zero_grad()

    def row(self, dense: _Contestant, lengths: list[int], length: int) -> Row:
        """What has been found out, beside dense attention in the same use."""
        sight, block, values = self.sight, self.block, self.letters[length]
        uses, layers = sight.uses(), hops(sight.sees[self.causal])
        medians = {T: statistics.median(taken) for T, taken in self.seconds.items()}
        wanted = layers[np.tri(len(layers), dtype=bool)] if self.causal else layers
        return Row(
            name=sight.name,
            use=USES[self.causal],
            parameters=sight.parameters,
            causal=True in uses,
            sees="both" if len(uses) == 2 else "".join(USES[use] for use in uses),
            hops=int(wanted.max()) if wanted.min() >= 0 else None,
            multiply_adds=block.multiply_adds,
            multiply_adds_number=round(formula_value(block.multiply_adds, values)),
            kept=block.kept_numbers,
            kept_bytes=round(4 * formula_value(block.kept_numbers, values)),
            kept_bytes_measured=self.kept[length],
            letters=values,
            seconds=medians,
            peak_bytes=self.peak,
            time_slope=slope(lengths, [medians[T] for T in lengths]),
            memory_slope=slope(lengths, [self.peak[T] for T in lengths]),
            step_ratio=statistics.median(
                a / b for a, b in zip(self.seconds[length], dense.seconds[length], strict=True)
            ),
            layers=layers,
        )


def _race(
    entries: list[_Contestant], length: int, rounds: int, on_step: Callable[[int], None]
) -> None:
    """Steps taken in turn, so that what else the computer does falls on all alike."""
    for entry in entries:
        entry.enter(length)
        entry.weigh(length)
        on_step(length)
    for _ in range(rounds):
        for entry in entries:
            entry.seconds[length].append(entry.step())
            on_step(length)


def slope(lengths: Sequence[int], values: Sequence[float]) -> float:
    """The exponent p of the power law T^p that fits best: a straight line through logarithms."""
    x, y = np.log(lengths), np.log(values)
    x = x - x.mean()
    return float(x @ y / (x @ x))
