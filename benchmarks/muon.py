"""The cost of Muon, and its four steps compared with Jordan's five: python benchmarks/muon.py

It trains a model of the size of A5 (assignment 5 of Stanford CS224N) on the made-up world for some
steps, and takes the gradients that Muon has then. It prints the CPU time of one thread (medians of
rounds in which everything is timed in turn) and the singular values of the results. With --train it
trains a shortened recipe `world` with each way to orthogonalise, and prints the losses; that takes
about a minute and a half per seed.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np

from tinyattn.data import make_world
from tinyattn.data.batches import Batch
from tinyattn.data.vocabulary import Vocabulary
from tinyattn.kernels.cpu import optimizers
from tinyattn.kernels.cpu.orthogonal import orthogonal
from tinyattn.models import GPT, GPTConfig
from tinyattn.parallel.flat import flat_of
from tinyattn.parallel.shards import ShardedStep as Step
from tinyattn.parallel.threads import keep_freed_memory
from tinyattn.tasks.knowledge import language_model_loss
from tinyattn.tasks.recipe import load_recipe
from tinyattn.tasks.running import RunOptions, pretrain
from tinyattn.training import Muon, Optimizer, make_optimizers

A5 = GPTConfig(vocabulary=256)
Way = Callable[[object, np.ndarray], np.ndarray]


def five_steps(xp: object, g: np.ndarray) -> np.ndarray:
    """As in Jordan and others 2024: one polynomial, from X = g/√Σσ², in plain NumPy."""
    tall = g.shape[0] > g.shape[1]
    x = (g.T if tall else g) / (np.sqrt((g * g).sum()) + 1e-7)
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * (square @ square)) @ x
    return x.T if tall else x


def exact(xp: object, g: np.ndarray) -> np.ndarray:
    """U Vᵀ, from the singular value decomposition."""
    u, _, vt = np.linalg.svd(g, full_matrices=False)
    return u @ vt


WAYS: dict[str, Way] = {"five steps": five_steps, "tinyattn": orthogonal, "exact": exact}


def cpu(action: Callable[[], object]) -> float:
    """Milliseconds of CPU time."""
    began = time.process_time_ns()
    action()
    return (time.process_time_ns() - began) / 1e6


def update(optimizer: Optimizer) -> None:
    """Apply the optimizer's rule to all parameters, in the pieces of a training step."""
    for w, g, state, decay in flat_of(optimizer).pieces:
        optimizer.move(w, g, state, 0.0, decay)


def batches(rows: int) -> Callable[[], Batch]:
    """A function that draws a batch of random pieces of the world's sentences."""
    corpus = make_world(seed=0).corpus
    ids = np.array(Vocabulary.from_text(corpus).encode(corpus))
    rng = np.random.default_rng(0)

    def draw() -> Batch:
        starts = rng.integers(len(ids) - A5.context, size=rows)
        pieces = ids[starts[:, None] + np.arange(A5.context + 1)]
        return Batch(pieces[:, :-1], pieces[:, 1:])

    return draw


def cost(steps: int, rows: int, rounds: int) -> list[np.ndarray]:
    """Print the time of a step and of its parts. Returns: the gradients."""
    model, draw = GPT(A5, seed=0), batches(rows)
    muon, adamw = make_optimizers(model, "muon")
    assert isinstance(muon, Muon)
    with Step(language_model_loss(model), [muon, adamw], workers=1) as take:
        for step in range(steps):
            take(draw(), step, 0.01)
        grads = [m.copy() for m in muon.state()["velocity"].values()]
        actions: dict[str, Callable[[], object]] = {
            f"training step, batch {rows}": lambda: take(draw(), steps, 0.0),
            "  of which Muon": lambda: update(muon),
            "    of which orthogonal": lambda: [orthogonal(np, g) for g in grads],
            "    five steps instead": lambda: [five_steps(np, g) for g in grads],
            "  of which AdamW": lambda: update(adamw),
        }
        times = {name: [cpu(action)] for name, action in actions.items()}
        for _ in range(rounds):
            for name, action in actions.items():
                times[name].append(cpu(action))
    whole = statistics.median(times[next(iter(times))][1:])
    print(f"{'CPU time, one thread':28} {'ms':>8} {'quartiles':>16}   share")
    for name, taken in times.items():
        low, median, high = statistics.quantiles(taken[1:], n=4)
        print(f"{name:28} {median:8.1f} {low:8.1f}{high:8.1f} {median / whole:6.1%}")
    return grads


def quality(grads: list[np.ndarray]) -> None:
    """Print quantiles of the singular values of the results, for square and other matrices."""
    levels = (0.05, 0.25, 0.5, 1.0)
    forms = {"square": [g for g in grads if g.shape[0] == g.shape[1]],
             "long": [g for g in grads if g.shape[0] != g.shape[1]]}  # fmt: skip
    print("\nsingular values, quantiles   " + "".join(f"{level:8.0%}" for level in levels))
    for form, some in forms.items():
        before = [np.linalg.svd(g, compute_uv=False) for g in some]
        rows = {"before, largest is 1": [s / s[0] for s in before]} | {
            name: [np.linalg.svd(way(np, g), compute_uv=False) for g in some]
            for name, way in WAYS.items()
            if name != "exact"
        }
        for name, values in rows.items():
            found = np.quantile(np.concatenate(values), levels)
            print(f"{form + ', ' + name:29}" + "".join(f"{value:8.4f}" for value in found))


def train(seeds: list[int], epochs: int, rate: float) -> None:
    """Print the losses of a short pretraining with each way to orthogonalise."""
    recipe = load_recipe("world")
    pretraining = replace(recipe.pretrain, epochs=epochs, learning_rate=rate)
    recipe = replace(recipe, pretrain=pretraining)
    print(f"{'mean loss, middle 50 / last 50':32}" + "".join(f"{n:>18}" for n in WAYS))
    for seed in seeds:
        cells = []
        for way in WAYS.values():
            losses: list[float] = []
            replaced = mock.patch.object(optimizers, "orthogonal", way)
            with replaced, tempfile.TemporaryDirectory() as folder:
                pretrain(
                    make_world(seed=seed).corpus, recipe,
                    RunOptions(Path(folder), seed, workers=1,
                               on_step=lambda entry, losses=losses: losses.append(entry["loss"])),
                )  # fmt: skip
            middle = len(losses) // 2
            cells.append((np.mean(losses[middle - 25 : middle + 25]), np.mean(losses[-50:])))
        name = f"seed {seed}, {len(losses)} steps"
        print(f"{name:32}" + "".join(f"{a:10.4f} {b:.4f} " for a, b in cells), flush=True)


def main() -> None:
    """Print times and singular values, or the losses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=40, help="steps of training before measuring")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--train", action="store_true", help="train with each way; print losses")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=8, help="epochs of each training")
    parser.add_argument("--rate", type=float, default=0.01, help="learning rate of training")
    options = parser.parse_args()
    keep_freed_memory(np)
    if options.train:
        train(options.seeds, options.epochs, options.rate)
    else:
        quality(cost(options.steps, options.batch, options.rounds))


if __name__ == "__main__":
    main()
