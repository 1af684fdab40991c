"""The launches and copies of a training step of A5's size on a GPU. Nothing is computed.

Sums are CuPy's plain reductions here. On a GPU it uses faster ones (CUB), which may need one more
launch each; a step of A5's size has two of them.
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
    """The record of the last of some steps, on a batch of full sequences."""
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
def test_a_step_has_few_launches_and_no_waits(name: str, more: dict[str, Any], most: int) -> None:
    recipe = load_recipe(name, overrides=more)
    record = asked(recipe, 128)
    counts = Counter(record.launches)
    print(f"{name} {more}: {len(record.launches)} launches", *counts.most_common(), sep="\n")
    assert len(record.launches) <= most
    assert record.to_host == []
    assert len(record.to_device) == 2


def test_a_larger_batch_needs_no_more_launches() -> None:
    """Up to the largest shard; a second shard needs as many again, except for the update."""
    recipe = load_recipe("a5")
    small, large, two = (len(asked(recipe, rows).launches) for rows in (8, 128, 512))
    assert small == large < two < 2 * large


def test_more_layers_need_proportionally_more_launches() -> None:
    """And a second launch that adds gradients, since one launch adds at most 128."""
    recipe = load_recipe("a5")
    twice = replace(recipe, model=replace(recipe.model, layers=8))
    assert len(asked(twice, 8).launches) - len(asked(recipe, 8).launches) == 4 * 66 + 1
