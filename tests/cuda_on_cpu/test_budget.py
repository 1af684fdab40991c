"""What a training step of A5's size asks of a GPU. Nothing is computed: launches are counted.

Sums are CuPy's plain ones here. On a GPU it takes faster ones (CUB), which may be a launch more
each; a step of A5's size has two of them.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cuda_on_cpu import DEVICE, needs_it
from cuda_on_cpu.functions import Record
from tinyattn.data import Batch
from tinyattn.models import GPT
from tinyattn.parallel.shards import ShardedStep as Step
from tinyattn.tasks.knowledge import language_model_loss
from tinyattn.tasks.recipe import Recipe, load_recipe

pytestmark = needs_it

VOCABULARY = 256


def asked(recipe: Recipe, rows: int, steps: int = 3) -> Record:
    """What the last of some steps asked for, on a batch of so many full texts."""
    rng = np.random.default_rng(0)
    ids = rng.integers(2, VOCABULARY, (rows, recipe.model.context + 1))
    batch = Batch(ids[:, :-1].copy(), ids[:, 1:].copy())
    with DEVICE.recorded(dry=True):
        model = GPT(recipe.model_for(VOCABULARY), device="cuda")
        optimizers = recipe.pretrain.make_optimizers(model)
        with Step(language_model_loss(model), optimizers, workers=1) as take:
            for number in range(steps):
                with DEVICE.recorded() as record:
                    take(batch, number, 1e-3)
    assert sum(record.to_device) == 2 * ids[:, 1:].nbytes  # inputs and targets
    return record


@pytest.mark.parametrize(
    ("name", "more", "most"),
    [("a5", {}, 300), ("a5", {"model.positions": "rotary"}, 330), ("a5-hour", {}, 470)],
    ids=["a5", "a5, rotary", "a5-hour"],
)
def test_a_step_launches_little_and_waits_for_nothing(
    name: str, more: dict[str, Any], most: int
) -> None:
    recipe = load_recipe(name, overrides=more)
    record = asked(recipe, 128)
    counts = Counter(record.launches)
    print(f"{name} {more}: {len(record.launches)} launches", *counts.most_common(), sep="\n")
    assert len(record.launches) <= most
    assert record.to_host == []
    assert len(record.to_device) == 2


def test_a_larger_batch_asks_for_no_more() -> None:
    """Up to the largest shard; a second shard costs as much again, but for the update."""
    recipe = load_recipe("a5")
    small, large, two = (len(asked(recipe, rows).launches) for rows in (8, 128, 512))
    assert small == large < two < 2 * large


def test_more_layers_ask_for_so_many_more() -> None:
    """And for a second launch that adds gradients up, which takes 128 of them."""
    recipe = load_recipe("a5")
    twice = replace(recipe, model=replace(recipe.model, layers=8))
    assert len(asked(twice, 8).launches) - len(asked(recipe, 8).launches) == 4 * 66 + 1
