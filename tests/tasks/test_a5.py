"""The recipe `a5` is the trainer of A5: sizes, learning rates, weight decay, order, examples.

The rules are programmed here again from their description, differently from the package.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tinyattn.data import World
from tinyattn.models import GPT, GPTConfig
from tinyattn.parallel.flat import flat_of
from tinyattn.tasks.examples import DocumentExamples, Examples
from tinyattn.tasks.recipe import load_recipe
from tinyattn.tasks.running import RunOptions, finetune, pretrain
from tinyattn.training.metrics import METRICS
from tinyattn.training.optimizer_table import make_optimizers
from tinyattn.training.optimizers import AdamW
from tinyattn.training.settings import DECAYS, TrainSettings

RECIPE = load_recipe("a5")
DOCUMENTS = 2938  # of A5's wiki.txt, with the empty piece behind the last newline


def a5_rates(peak: float, steps: int, rows: int, batch: int, documents: int) -> list[float]:
    """A5's trainer: tokens are counted, and the learning rate is set, after each step."""
    rates, rate, tokens = [], peak, 0
    final, warmup = 200 * documents * 128, 512 * 20
    left = rows
    for _ in range(steps):
        rates.append(rate)
        size = min(batch, left)
        left = left - size or rows
        tokens += size * 127
        if tokens < warmup:
            factor = tokens / warmup
        else:
            progress = (tokens - warmup) / (final - warmup)
            factor = max(0.1, 0.5 * (1 + math.cos(math.pi * progress)))
        rate = peak * factor
    return rates


def our_rates(settings: TrainSettings, steps: int, rows: int) -> list[float]:
    data = Examples(count=rows, batch=settings.batch, length=RECIPE.data.length, seed=0,
                    shuffle=settings.shuffle)  # fmt: skip
    schedule = settings.make_schedule(steps, DOCUMENTS * RECIPE.model.context)
    return [schedule(step, data.tokens_before(step)) for step in range(steps)]


@pytest.mark.parametrize(
    ("stage", "rows", "steps", "peak", "last"),
    [("pretrain", DOCUMENTS, 14_950, 6e-3, 7.2e-4), ("finetune", 2000, 80, 6e-4, 5.98e-4),
     ("scratch", 2000, 600, 6e-4, 5.10e-4)],
)  # fmt: skip
def test_learning_rates_are_a5s(
    stage: str, rows: int, steps: int, peak: float, last: float
) -> None:
    settings: TrainSettings = getattr(RECIPE, stage)
    assert settings.total_steps(-(-rows // settings.batch)) == steps
    ours = our_rates(settings, steps, rows)
    assert ours[0] == peak  # the warm-up has no effect: one step has more tokens than it lasts
    assert ours == pytest.approx(a5_rates(peak, steps, rows, settings.batch, DOCUMENTS), rel=1e-12)
    assert ours[-1] == pytest.approx(last, rel=5e-3)  # as in the logs of A5


def test_pretraining_reaches_the_full_learning_rate_again_after_400_epochs() -> None:
    rates = our_rates(RECIPE.pretrain, 14_950, DOCUMENTS)
    epochs = np.array(rates[22::23])  # at the end of each
    assert np.argmax(epochs[250:550]) + 251 in range(400, 405)
    assert epochs[250:550].max() == pytest.approx(6e-3, rel=1e-3)
    floor = np.flatnonzero(np.isclose(epochs, 6e-4)) + 1
    assert (floor.min(), floor.max()) == pytest.approx((160, 645), abs=3)
    assert not ((floor > 245) & (floor < 557)).any()


def logged(folder: Path) -> list[float]:
    lines = (folder / METRICS).read_text().splitlines()
    return [json.loads(line)["learning_rate"] for line in lines]


def test_a_run_uses_these_rates(tmp_path: Path, people: World) -> None:
    """In the log of a small run, whose documents end with the empty piece."""
    text = people.corpus * 7
    documents = text.count("\n") + 1
    tiny = {"model.layers": 1, "model.width": 8, "pretrain.batch": 64, "pretrain.steps": 8,
            "finetune.steps": 3, "finetune.batch": 5}  # fmt: skip
    recipe = load_recipe("a5", overrides=tiny)
    pretrained = pretrain(text, recipe, RunOptions(tmp_path))
    assert logged(tmp_path) == pytest.approx(a5_rates(6e-3, 8, documents, 64, documents))
    # The corpus has no accents: a5 drops unknown characters, other recipes refuse them.
    pairs = [(question.replace("Where", "Whére"), place) for question, place in people.train]
    finetune(pairs, recipe, RunOptions(tmp_path), start=pretrained)
    assert logged(tmp_path) == pytest.approx(a5_rates(6e-4, 3, len(people.train), 5, documents))


@pytest.mark.parametrize(("positions", "count"), [("learned", 3_323_392), ("rotary", 3_290_624)])
def test_parameter_counts_are_those_of_the_logs(positions: str, count: int) -> None:
    config = GPTConfig(**{**RECIPE.tables()["model"], "vocabulary": 256, "positions": positions})
    assert GPT(config).parameter_count() == count


def test_all_parameters_except_biases_decay() -> None:
    config = GPTConfig(vocabulary=9, layers=2, width=8, heads=2)
    (adamw,) = make_optimizers(GPT(config), RECIPE.pretrain.optimizer,
                               decays=DECAYS[RECIPE.pretrain.decay])  # fmt: skip
    assert isinstance(adamw, AdamW)
    assert adamw.decayed == {name for name in adamw.named if "bias" not in name}
    spared = [name not in adamw.decayed for name in flat_of(adamw).named]
    assert spared == sorted(spared)  # parameters with decay come first
    assert adamw.given == {"beta1": 0.9, "beta2": 0.95, "eps": 1e-8} and adamw.weight_decay == 0.1


def test_documents_come_in_the_order_of_the_file_cut_to_4_to_112() -> None:
    documents = [np.full(200, 2 + i) for i in range(300)]
    data = DocumentExamples(
        documents, RECIPE.data.corruption(), mask=1, batch=RECIPE.pretrain.batch, length=127,
        seed=0, shuffle=RECIPE.pretrain.shuffle,
    )  # fmt: skip
    for number in range(3):
        rows = [row for batch in data.epoch(number) for row in batch.inputs]
        assert [int(row.max()) for row in rows] == list(range(2, 302))
        # A document of n tokens gives an example of n + 2, with one input less.
        lengths = [np.count_nonzero(row) - 1 for row in rows]
        assert min(lengths) >= 4 and max(lengths) <= 112


def test_the_length_of_a5s_examples_is_127() -> None:
    assert (RECIPE.data.length, RECIPE.model.context, RECIPE.data.longest) == (127, 128, 112)
    assert RECIPE.data.blank_lines and RECIPE.data.ascii_questions
