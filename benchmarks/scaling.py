"""How a training step scales: python benchmarks/scaling.py

Starting from the model of A5 (assignment 5 of Stanford CS224N), width, number of layers, context
length T and batch are varied, each alone. All sizes take steps in turn, so that other load on the
machine affects all of them. The table shows medians, and for other steps what `tinyattn profile`
shows: multiply-adds, and where threads spend their time. Below the table are the powers that fit
the time of a token best, beside those that fit its multiply-adds; and a fit with two terms, because
with every size some part of the time grows differently (derivations/25_scaling.md). Random ids,
dropout 0.1, AdamW; some minutes on two cores.
"""

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from machine import machine

from tinyattn.data import Batch
from tinyattn.measure import Profile, profile_step
from tinyattn.measure.comparison import slope
from tinyattn.models import GPT, GPTConfig
from tinyattn.parallel.shards import ShardedStep as Step
from tinyattn.parallel.threads import keep_freed_memory
from tinyattn.tasks.knowledge import language_model_loss
from tinyattn.training import make_optimizers

BASE = {"width": 256, "layers": 4, "context": 128, "batch": 32}
AXES = {
    "width": (64, 128, 256, 512),
    "layers": (1, 2, 4, 8),
    "context": (32, 64, 128, 256, 512, 1024),
    "batch": (1, 2, 4, 8, 16, 32, 64, 128),
}
HEAD = 32  # width of a head, as in A5; a wider model has more heads
TERMS = {  # of the time of a token: their names, and their values at x
    "width": (("C", lambda x: x), ("C²", lambda x: x**2)),
    "layers": (("1", lambda x: x**0), ("n", lambda x: x)),
    "context": (("1", lambda x: x**0), ("T", lambda x: x)),
    "batch": (("1", lambda x: x**0), ("1/B", lambda x: 1 / x)),
}
LETTERS = {"width": "C", "layers": "n", "context": "T", "batch": "B"}
TURN = 0.1  # seconds that a turn lasts at least
PARTS = {"products": ("linear", "matmul", "einsum"), "attention": ("attention",),
         "optimizer": ("optimizer",)}  # fmt: skip


class Trial:
    """A model of one size and its training step."""

    def __init__(self, sizes: dict[str, int], workers: int | None) -> None:
        width, context = sizes["width"], sizes["context"]
        config = GPTConfig(vocabulary=256, context=context, layers=sizes["layers"], width=width,
                           heads=width // HEAD)  # fmt: skip
        self.model = GPT(config)
        ids = np.random.default_rng(0).integers(1, 256, (sizes["batch"], context + 1))
        self.batch = Batch(ids[:, :-1], ids[:, 1:])
        self.loss, self.workers = language_model_loss(self.model), workers
        self.optimizers = make_optimizers(self.model, "adamw")
        self.take = Step(self.loss, self.optimizers, workers=workers)
        self.steps, self.seconds = 1, []

    def turn(self) -> None:
        """Take some steps; append the seconds per step."""
        began = time.perf_counter()
        for number in range(self.steps):
            self.take(self.batch, number, 0.0)
        self.seconds.append((time.perf_counter() - began) / self.steps)

    def warm_up(self) -> None:
        self.turn()
        if self.seconds[0] < 10 * TURN:  # a slow step is long enough to measure at once
            self.turn()
        self.steps = max(1, round(TURN / self.seconds[-1]))
        self.seconds.clear()

    def profile(self) -> Profile:
        return profile_step(self.loss, self.optimizers, self.batch, steps=2, workers=self.workers)


@dataclass(frozen=True)
class Point:
    """The measurements at one size."""

    width: int
    layers: int
    context: int
    batch: int
    parameters: int
    seconds: float  # of a step
    low: float  # the quartiles of these
    high: float
    multiply_adds: float  # of a token
    shares: dict[str, float]  # of the computing time of all threads

    @property
    def tokens(self) -> int:
        """Tokens in a step."""
        return self.batch * self.context


@dataclass(frozen=True)
class Fit:
    """How the time of a token, and its multiply-adds, grow with one size."""

    axis: str
    power: float
    counted_power: float
    terms: tuple[float, float]  # seconds, for those in TERMS
    counted_terms: tuple[float, float]  # seconds that their multiply-adds would take


def measure(axes: Sequence[str], rounds: int, workers: int | None) -> tuple[list[Point], float]:
    """All sizes along these axes, each once; and the rate of matrix products of all workers."""
    every = [BASE | {axis: value} for axis in axes for value in AXES[axis]]
    sizes = [dict(pairs) for pairs in dict.fromkeys(tuple(s.items()) for s in every)]
    trials = [Trial(s, workers) for s in sizes]
    with contextlib.ExitStack() as stack:
        for trial in trials:
            stack.enter_context(trial.take)
        for trial in trials:
            trial.warm_up()
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            for trial in trials:
                trial.turn()
    print("where the time goes", file=sys.stderr)
    profiles = [trial.profile() for trial in trials]
    points = [point(*three) for three in zip(sizes, trials, profiles, strict=True)]
    return points, max(profile.product_rate * profile.workers for profile in profiles)


def point(sizes: dict[str, int], trial: Trial, profile: Profile) -> Point:
    low, middle, high = statistics.quantiles(trial.seconds, n=4, method="inclusive")
    shares = {
        part: sum(row.seconds for row in profile.rows if row.name in names) / profile.busy
        for part, names in PARTS.items()
    }
    return Point(
        **sizes, parameters=trial.model.parameter_count(), seconds=middle, low=low, high=high,
        multiply_adds=profile.multiply_adds / profile.positions,
        shares={**shares, "the rest": 1 - sum(shares.values())},
    )  # fmt: skip


def along(axis: str, points: Sequence[Point]) -> list[Point]:
    """The points on one axis, in order: all other sizes are those of BASE."""
    rest = [name for name in BASE if name != axis]
    on = [p for p in points if all(getattr(p, name) == BASE[name] for name in rest)]
    return sorted(on, key=lambda p: getattr(p, axis))


def fit(axis: str, points: Sequence[Point], rate: float) -> Fit:
    on = along(axis, points)
    x = np.array([getattr(p, axis) for p in on], float)
    taken = np.array([p.seconds / p.tokens for p in on])
    counted = np.array([p.multiply_adds / rate for p in on])
    powers = (round(slope(x, y), 6) + 0.0 for y in (taken, counted))  # no -0.00
    return Fit(axis, *powers, two_terms(axis, x, taken), two_terms(axis, x, counted))


def two_terms(axis: str, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The factors of the two terms that fit best: least squares of the relative errors."""
    columns = np.stack([function(x) / y for _, function in TERMS[axis]], axis=1)
    factors = np.linalg.lstsq(columns, np.ones(len(x)), rcond=None)[0]
    factors[np.abs(factors) < 1e-9 * np.abs(factors).max()] = 0  # rounding, no term
    return float(factors[0]), float(factors[1])


def as_table(points: Sequence[Point], fits: Sequence[Fit], rate: float) -> str:
    lines = []
    for found in fits:
        lines += ["", _line(found.axis, "parameters", "tokens/s", "quartiles", "multiply-adds",
                            "floor", *points[0].shares)]  # fmt: skip
        for p in along(found.axis, points):
            lines.append(_line(
                str(getattr(p, found.axis)), f"{p.parameters:,}", f"{p.tokens / p.seconds:,.0f}",
                f"{p.tokens / p.high:,.0f} {p.tokens / p.low:,.0f}",
                f"{p.multiply_adds / 1e6:.2f} M",
                f"{p.multiply_adds * p.tokens / rate / p.seconds:.0%}",
                *(f"{share:.0%}" for share in p.shares.values()),
            ))  # fmt: skip
    lines += ["", f"{'a token takes':30} {'by power':>9} {'counted':>9}   two terms, ns: measured, "
              "and the multiply-adds at the rate of products"]  # fmt: skip
    for found in fits:
        letter, on = LETTERS[found.axis], along(found.axis, points)
        ends = f"{getattr(on[0], found.axis)} to {getattr(on[-1], found.axis)}"
        lines.append(
            f"{found.axis + f' {letter}, {ends}':30} {f'{letter}^{found.power:.2f}':>9} "
            f"{f'{letter}^{found.counted_power:.2f}':>9}   {terms(found.axis, found.terms):38} "
            f"{terms(found.axis, found.counted_terms)}"
        )
    base = ", ".join(f"{name} {value}" for name, value in BASE.items())
    lines += [
        "",
        f"base: {base}, heads of {HEAD}. multiply-adds: of a token. floor: the share of",
        f"a step's time that they would take at the {rate / 1e9:.1f} G a second of large products;",
        "the other shares are of what threads compute",
        f"{machine()}, NumPy {np.__version__}",
    ]
    return "\n".join(lines[1:])


def _line(*cells: str) -> str:
    widths = (8, 12, 10, 17, 15, 7, 10, 11, 11, 10)
    return "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def terms(axis: str, factors: tuple[float, float]) -> str:
    """Two terms in nanoseconds."""
    numbers = [f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}" for x in (1e9 * f for f in factors)]
    names = ["" if name == "1" else f"·{name}" for name, _ in TERMS[axis]]
    return " + ".join(f"{number}{name}" for number, name in zip(numbers, names, strict=True))


def save_picture(points: Sequence[Point], fits: Sequence[Fit], rate: float, path: Path) -> None:
    """Tokens a second along each axis, measured and at the floor."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(fits), 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, found in zip(
        figure.subplots(1, len(fits), sharey=True, squeeze=False)[0], fits, strict=True
    ):
        on = along(found.axis, points)
        x = [getattr(p, found.axis) for p in on]
        axes.loglog(x, [rate / p.multiply_adds for p in on], "--", color="#7A7A7A",
                    label="multiply-adds alone")  # fmt: skip
        axes.loglog(x, [p.tokens / p.seconds for p in on], "o-", color="#0072B2", label="measured")
        letter = LETTERS[found.axis]
        powers = [f"${letter}^{{{power:.2f}}}$" for power in (found.power, found.counted_power)]
        axes.set_title(f"time of a token: {powers[0]}, counted {powers[1]}", fontsize=10)
        axes.set_xlabel(f"{found.axis} {letter}")
        axes.set_xticks(x, [str(value) for value in x])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    first = figure.axes[0]
    first.set_ylabel("tokens a second")
    first.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="turns of each size")
    parser.add_argument("--workers", type=int, help="threads; by default one a core")
    parser.add_argument("--only", choices=AXES, action="append", help="this axis; may be repeated")
    parser.add_argument("--picture", type=Path, help="draw tokens a second into this PNG")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("quartiles need at least two rounds")
    keep_freed_memory(np)
    axes = options.only or list(AXES)
    points, rate = measure(axes, options.rounds, options.workers)
    fits = [fit(axis, points, rate) for axis in axes]
    if options.json:
        print(json.dumps({
            "machine": f"{machine()}, NumPy {np.__version__}", "product_rate": rate, "base": BASE,
            "points": [asdict(p) for p in points], "fits": [asdict(f) for f in fits],
        }))  # fmt: skip
    else:
        print(as_table(points, fits, rate))
    if options.picture:
        save_picture(points, fits, rate, options.picture)


if __name__ == "__main__":
    main()
