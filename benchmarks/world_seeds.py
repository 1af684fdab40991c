"""The recipe `world` in other worlds: python benchmarks/world_seeds.py --seeds 0 1 2 3

For each seed it pretrains once and finetunes in several ways from the same checkpoint. It prints
the number of right answers for the 200 trained and the 100 held-out people. It takes about four
minutes per seed on one core. The number of workers is fixed, because it changes the last bits of
the result.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from tinyattn.data import make_world
from tinyattn.parallel.threads import keep_freed_memory
from tinyattn.tasks.evaluation import answer, score
from tinyattn.tasks.knowledge import Trained
from tinyattn.tasks.recipe import load_recipe
from tinyattn.tasks.running import RunOptions, finetune, pretrain
from tinyattn.tasks.runs import load_run

WAYS = [(0.002, 5), (0.002, 8), (0.002, 12), (0.004, 6), (0.001, 20)]  # learning rate, epochs


def right(trained: Trained, pairs: list[tuple[str, str]]) -> int:
    """How many questions get exactly the expected answer."""
    answers = answer(trained, [question for question, _ in pairs])
    return score(answers, [place for _, place in pairs]).correct


def main() -> None:
    """Print each result as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--epochs", type=int, help="of pretraining; default: those of the recipe")
    arguments = parser.parse_args()
    keep_freed_memory(np)
    recipe = load_recipe("world")
    if arguments.epochs:
        recipe = replace(recipe, pretrain=replace(recipe.pretrain, epochs=arguments.epochs))
    for seed in arguments.seeds:
        world = make_world(seed=seed)
        with tempfile.TemporaryDirectory() as folder:
            first, second = Path(folder) / "pretrain", Path(folder) / "finetune"
            pretrain(world.corpus, recipe, RunOptions(first, seed, workers=1))
            for rate, epochs in WAYS:
                settings = replace(recipe.finetune, learning_rate=rate, epochs=epochs)
                trained = finetune(
                    world.train, replace(recipe, finetune=settings),
                    RunOptions(second, seed, workers=1), start=load_run(first),
                )  # fmt: skip
                learnt, known = right(trained, world.train), right(trained, world.dev)
                print(f"seed {seed}, learning rate {rate}, {epochs} epochs: {learnt} of 200 "
                      f"trained, {known} of 100 held out", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
