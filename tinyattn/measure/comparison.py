"""Engine room, measuring: attention types compared.

The files on attention contain formulas, and what each type cannot do. This file tests and measures:
which positions does each type attend to, how do its time and memory grow with the length of the
sequence, and how fast is it compared with dense attention on this computer?
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
from tinyattn.measure.as_block import new_block
from tinyattn.measure.memory import traced_memory
from tinyattn.models.config import GPTConfig
from tinyattn.tensor import Tensor
from tinyattn.theory.cost import formula_value, letters
from tinyattn.workers import one_thread

DENSE = "multihead"
"""The attention type that the others are compared with."""

USES = {True: "causal", False: "bidirectional"}

LENGTHS = (256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, eq=False)
class Row:
    """The results for one attention type in one use, causal or bidirectional."""

    name: str
    use: str
    parameters: int  # of a block for sequences of a model's default context length
    causal: bool  # whether it can be causal: no output depends on a later input
    uses: str  # "causal", "bidirectional", or "both"
    hops: int | None  # layers until each position depends on all (causal: all earlier); None: never
    multiply_adds: str  # forward, as a formula
    multiply_adds_number: int  # at the length of the comparison
    kept: str  # elements kept for backward, as a formula
    kept_bytes: int  # in float32, at this length
    kept_bytes_measured: int
    letters: dict[str, int]  # values of the formulas' letters, at this length
    seconds: dict[int, float]  # forward and backward, at each length
    peak_bytes: dict[int, int]  # peak memory meanwhile, without parameters
    time_slope: float  # time grows as this power of the length
    memory_slope: float
    step_ratio: float  # time relative to dense attention in the same use
    layers: np.ndarray  # until position t depends on position s; 0 if t = s, -1 for never

    def as_dict(self) -> dict[str, Any]:
        """The row under the names that other programs rely on, without the matrix."""
        return {key: value for key, value in asdict(self).items() if key != "layers"}


@dataclass(frozen=True)
class Comparison:
    """A row for each attention type, and the sizes at which they were measured."""

    rows: list[Row]
    dense: list[Row]  # dense attention in both uses
    width: int
    heads: int
    length: int  # sequence length of the comparison

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
    """Measure attention types on one sequence at a time, in the causal use if they have it.

    Args:
        names: attention types, as `new_block` takes them.
        width, heads: the sizes C and H of each block.
        lengths: sequence lengths over which growth is measured, at least two.
        length: sequence length of the comparison; default: the longest.
        rounds: measurements at the longest length; at shorter ones up to 8 times as many.
        on_start: function called with 0 and the total number of positions to compute.
        on_step: function called with the number of positions computed since the last call.
    Raises: ValueError for an unknown type, sizes that do not fit, or a single length.
    """
    if len(set(lengths)) < 2:
        raise ValueError(f"compare: growth needs two lengths or more; got {[*lengths]}")
    length = length or max(lengths)
    max_length = max(*lengths, length, GPTConfig.context)
    check_numbers(
        f"compare: width {width} and length {max_length}", width * (4 * width + max_length)
    )
    for name in names:
        if (most := new_block(name, width, heads, max_length).max_length) < max_length:
            raise ValueError(
                f"compare: {name} takes sequences of {most} positions at most; needs {max_length}"
            )
    subjects = {name: Subject(name, width, heads) for name in dict.fromkeys([*names, DENSE])}
    wanted = [(name, True in subjects[name].depends) for name in names]
    dense = {causal: (DENSE, causal) for causal in USES}
    entries = {key: _Contestant(subjects[key[0]], key[1]) for key in [*wanted, *dense.values()]}
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


class Subject:
    """An attention type, and on which inputs its outputs depend, found by changing inputs."""

    def __init__(self, name: str, width: int, heads: int) -> None:
        self.name, self.width, self.heads = name, width, heads
        block = self.block(GPTConfig.context)
        narrow = new_block(name, 8, 2, GPTConfig.context)  # the same dependences, computed faster
        self.parameters = block.parameter_count()
        self.depends = {causal: influence(narrow, GPTConfig.context, causal)
                     for causal, use in USES.items() if use not in block.cannot}  # fmt: skip

    def block(self, max_length: int) -> AttentionBlock:
        """A new block for sequences of this length."""
        return new_block(self.name, self.width, self.heads, max_length)

    def uses(self) -> list[bool]:
        """Its uses, as found: a use is causal if no output changes with a later input."""
        future = {causal: np.triu(matrix, 1).any() for causal, matrix in self.depends.items()}
        return [causal for causal in future if causal != future[causal]]


class _Contestant:
    """One attention type in one use, and its measurements at each length."""

    def __init__(self, subject: Subject, causal: bool) -> None:
        self.subject, self.causal = subject, causal
        self.seconds: dict[int, list[float]] = {}
        self.kept: dict[int, int] = {}  # bytes, at each length
        self.peak: dict[int, int] = {}
        self.letters: dict[int, dict[str, int]] = {}

    def enter(self, length: int) -> None:
        """Create the block and the input of this length."""
        rng, shape = np.random.default_rng(length), (1, length, self.subject.width)
        self.block = self.subject.block(length)
        self.letters[length] = letters(self.block, length, self.causal)
        self.x = Tensor(rng.standard_normal(shape, np.float32), requires_grad=True)
        self.g = rng.standard_normal(shape, np.float32)
        self.seconds[length] = []

    def step(self) -> float:
        """The seconds of one forward and backward pass."""
        began = time.perf_counter()
        self.block(self.x, causal=self.causal).backward(self.g)
        taken = max(TICK, time.perf_counter() - began)
        self.x.zero_grad()
        self.block.zero_grad()
        return taken

    def weigh(self, length: int) -> None:
        """Measure the bytes that forward keeps, and the peak of a step.

        NumPy reports its arrays to tracemalloc. The step before is the warm-up; in it the kernels
        get memory for tiles, and keep it.
        """
        self.step()
        with traced_memory() as grown:
            y = self.block(self.x, causal=self.causal)
            self.kept[length] = grown()[0]
            y.backward(self.g)
            self.peak[length] = grown()[1]
        self.x.zero_grad()
        self.block.zero_grad()

    def row(self, dense: _Contestant, lengths: list[int], length: int) -> Row:
        """The results, compared with dense attention in the same use."""
        subject, block, values = self.subject, self.block, self.letters[length]
        uses, layers = subject.uses(), hops(subject.depends[self.causal])
        medians = {T: statistics.median(taken) for T, taken in self.seconds.items()}
        wanted = layers[np.tri(len(layers), dtype=bool)] if self.causal else layers
        return Row(
            name=subject.name,
            use=USES[self.causal],
            parameters=subject.parameters,
            causal=True in uses,
            uses="both" if len(uses) == 2 else "".join(USES[use] for use in uses),
            hops=int(wanted.max()) if wanted.min() >= 0 else None,
            multiply_adds=block.multiply_adds,
            multiply_adds_number=round(formula_value(block.multiply_adds, values)),
            kept=block.kept_elements,
            kept_bytes=round(4 * formula_value(block.kept_elements, values)),
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
    """Measure all entries in turn, so that other work of the computer slows them equally."""
    for entry in entries:
        entry.enter(length)
        entry.weigh(length)
        on_step(length)
    for _ in range(rounds):
        for entry in entries:
            entry.seconds[length].append(entry.step())
            on_step(length)


def slope(lengths: Sequence[int], values: Sequence[float]) -> float:
    """The exponent p of the power law T^p that fits best: the slope of a line in logarithms."""
    x, y = np.log(lengths), np.log(values)
    x = x - x.mean()
    return float(x @ y / (x @ x))
