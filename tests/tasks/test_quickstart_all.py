"""The same job for every attention type, penalties on heads, and converted models."""

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyattn import Tensor, no_grad
from tinyattn.attention import Bilinear, MultiHead, Penalty, spell_out
from tinyattn.data import World
from tinyattn.data.batches import Batch, pad_rows
from tinyattn.models import ATTENTION_TYPES, GPT
from tinyattn.tasks import text_task
from tinyattn.tasks.conversion import convert
from tinyattn.tasks.evaluation import answer, save_predictions
from tinyattn.tasks.knowledge import language_model_loss
from tinyattn.tasks.quickstart_all import (
    as_dict,
    causal_attentions,
    first_lines,
    line,
    quickstart_all,
    with_attention,
)
from tinyattn.tasks.recipe import Recipe
from tinyattn.tasks.running import RunOptions, finetune, pretrain
from tinyattn.tasks.runs import CONFIG, PREDICTIONS, load_run
from tinyattn.training.checkpoint import CHECKPOINT, CheckpointError
from tinyattn.training.metrics import METRICS, read_metrics
from tinyattn.training.settings import SettingError

Small = Callable[..., Recipe]


@pytest.mark.parametrize("name", causal_attentions())
def test_a_model_with_each_attention_type_learns_and_answers(
    name: str, people: World, small: Small, tmp_path: Path
) -> None:
    """A few steps lower the loss, with penalties where supported; the run can be loaded."""
    recipe = with_attention(small(model__layers=2, pretrain__steps=25, finetune__steps=2), name)
    weights = {"focus": 0.01, "near": 0.001}
    kept = {k: w for k, w in weights.items() if k not in ATTENTION_TYPES[name].cannot}
    recipe = replace(recipe, penalty=Penalty(**kept))
    pretrained = pretrain(people.corpus, recipe, RunOptions(tmp_path / "first", workers=2))
    losses = [entry["loss"] for entry in read_metrics(tmp_path / "first" / METRICS)]
    assert losses[-1] < losses[0] - 0.2
    trained = finetune(people.train, recipe, RunOptions(tmp_path / "then"), start=pretrained)
    questions = [question for question, _ in people.dev]
    again = load_run(tmp_path / "then")
    assert again.model.config.attention_type[0] == name
    assert again.model.config.attention == spell_out(name, ATTENTION_TYPES)
    assert answer(again, questions) == answer(trained, questions)


@pytest.mark.parametrize("name", causal_attentions())
def test_workers_change_no_more_than_rounding(
    name: str, people: World, small: Small, tmp_path: Path
) -> None:
    """Batches are then cut differently: an output must not depend on later positions."""
    recipe = small(model__layers=2, pretrain__optimizer="adamw", pretrain__learning_rate=1e-3)
    recipe = with_attention(recipe, name)
    a, b = (
        pretrain(people.corpus, recipe, RunOptions(tmp_path, workers=workers)).model.state()
        for workers in (1, 3)
    )
    for key, value in a.items():
        np.testing.assert_allclose(value, b[key], atol=2e-5, err_msg=key)


def test_the_table_has_a_row_for_each_type(small: Small, tmp_path: Path) -> None:
    recipe = small(pretrain__steps=1, finetune__steps=1)
    names = ["synthesizer", "multihead"]
    guess, rows = quickstart_all(recipe, RunOptions(tmp_path, workers=1), names=names)
    assert [(row.name, row.positions) for row in rows] == [
        ("synthesizer", "learned"), ("multihead", "rotary")
    ]  # fmt: skip
    assert load_run(tmp_path / "synthesizer" / "finetune").model.parameter_count() == (
        rows[0].parameters
    )
    assert guess.correct == 19 and all(row.score.total == 100 for row in rows)
    table = [*first_lines(guess), *map(line, rows)]
    assert len(table) == 4 and any("synthesizer" in row for row in table)
    assert "\n" not in "".join(table)
    facts = as_dict(guess, rows)
    assert {"name", "parameters", "seconds", "accuracy", "positions"} <= facts["rows"][0].keys()


def test_a_linformer_is_refused_with_the_reason(small: Small) -> None:
    assert "linformer" not in causal_attentions()
    with pytest.raises(SettingError, match=r"a mixture of all positions.*use linformer-causal"):
        small(model__attention="linformer")


# Penalties ---------------------------------------------------------------------------------


def test_a_penalty_lowers_its_statistic_and_the_log_shows_it(
    people: World, small: Small, tmp_path: Path
) -> None:
    def heads(**penalty: float) -> dict[str, float]:
        more = {f"penalty__{key}": value for key, value in penalty.items()}
        recipe = small(pretrain__steps=100, pretrain__learning_rate=0.05, **more)
        pretrain(people.corpus, recipe, RunOptions(tmp_path, workers=1))
        entries = read_metrics(tmp_path / METRICS)
        assert "entropy" in entries[-1] and "distance" in entries[-1]
        return entries[-1]

    plain, focused, near = heads(cap=200.0), heads(focus=5.0), heads(near=0.1, cap=200.0)
    assert focused["entropy"] < plain["entropy"] / 2
    assert near["distance"] < plain["distance"] / 2


def test_the_statistics_of_heads_are_cheap_for_long_sequences(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights are T × T also if the attention is not: few sequences, and part of each."""
    seen = []

    def look(layers: list[Tensor], *rest: Any) -> dict[str, float]:
        seen.extend(weights.shape for weights in layers)
        return {}

    monkeypatch.setattr(text_task, "head_statistics", look)
    recipe = small(data__objective="next", data__validation=0.0, model__context=300,
                   model__attention="bigbird", pretrain__steps=1, pretrain__batch=16)  # fmt: skip
    pretrain("who was born where? " * 400, recipe, RunOptions(tmp_path, workers=1))
    assert seen == [(8, 2, 128, 128)]


def test_penalties_of_shards_sum_to_that_of_the_batch(pretrained: Any, people: World) -> None:
    model = GPT(pretrained.model.config)
    model.load_state(pretrained.model.state())
    model.astype("float64")
    ids = [pretrained.vocabulary.encode(line)[:30] for line in people.corpus.splitlines()[:6]]
    rows = pad_rows([i[: 12 + 3 * n] for n, i in enumerate(ids)], 30)
    batch = Batch(rows[:, :-1], rows[:, 1:])
    loss = language_model_loss(model, Penalty(focus=0.3, near=0.02, cap=9.0))
    whole = loss(batch, None, float(batch.trained)).item()
    parts = [loss(part, None, float(batch.trained)).item() for part in batch.split(3)]
    assert len(parts) == 3
    assert whole == pytest.approx(sum(parts), rel=1e-12)
    plain = language_model_loss(model)(batch, None, float(batch.trained)).item()
    assert whole > plain


@pytest.mark.parametrize(
    ("attention", "penalty", "reason"),
    [
        ("latent", "near", "on latents"),
        ("linformer-causal", "near", "which have no distance"),
        ("perceiver", "focus", "the queries are latents"),
    ],
)
def test_an_invalid_penalty_is_refused(
    attention: str, penalty: str, reason: str, small: Small
) -> None:
    with pytest.raises(SettingError, match=rf"penalty {penalty}: '{attention}' cannot.*{reason}"):
        small(model__layers=2, model__attention=attention, **{f"penalty__{penalty}": 0.1})


# Conversion --------------------------------------------------------------------------------


def test_a_converted_model_gives_the_same_answers(
    people: World, small: Small, tmp_path: Path
) -> None:
    recipe = small(model__positions="learned", model__layers=2, pretrain__steps=30)
    trained = pretrain(people.corpus, recipe, RunOptions(tmp_path / "run"))
    made = convert(trained, "bilinear", tmp_path / "merged")
    C, H, layers = 16, 2, 2
    assert made.after - made.before == layers * (H * (C * C + C) - 2 * (C * C + C))
    assert made.difference < 1e-12 and made.back < 1e-12
    merged = load_run(tmp_path / "merged")
    assert {type(layer.attention) for layer in merged.model.layers} == {Bilinear}
    ids = np.arange(2, 22).reshape(2, 10)
    with no_grad():
        before, after = (m(ids).numpy() for m in (trained.model, merged.model))
    np.testing.assert_allclose(after, before, atol=2e-5)
    questions = [question for question, _ in people.dev]
    assert answer(merged, questions) == answer(trained, questions)
    back = convert(merged, "multihead", tmp_path / "back")
    assert back.after == made.before and back.difference < 1e-5
    assert type(load_run(tmp_path / "back").model.layers[0].attention) is MultiHead


def test_a_full_disk_keeps_the_run_that_was_to_be_replaced(
    people: World, small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, run = small(model__positions="learned"), RunOptions(tmp_path / "run")
    trained = pretrain(people.corpus, recipe, run)
    save_predictions(run.folder / PREDICTIONS, ["Lozumb"])
    before = {path.name: path.read_bytes() for path in run.folder.iterdir()}
    fsync, room = os.fsync, iter([True, False])

    def full(descriptor: int) -> None:
        if not next(room):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"checkpoint\.safetensors: cannot be written: No sp"):
        convert(trained, "bilinear", run.folder)
    assert {path.name: path.read_bytes() for path in run.folder.iterdir()} == before
    monkeypatch.undo()
    convert(trained, "bilinear", run.folder)
    assert {path.name for path in run.folder.iterdir()} == {CHECKPOINT, CONFIG}


def test_a_merged_model_can_be_trained_further(people: World, small: Small, tmp_path: Path) -> None:
    recipe = small(model__positions="learned")
    trained = pretrain(people.corpus, recipe, RunOptions(tmp_path / "run"))
    convert(trained, "bilinear", tmp_path / "merged")
    merged = load_run(tmp_path / "merged")
    finetune(people.train, merged.recipe, RunOptions(tmp_path / "tuned"), start=merged)
    assert load_run(tmp_path / "tuned").model.config.attention == "bilinear"


def test_a_perceiver_is_not_converted(people: World, small: Small, tmp_path: Path) -> None:
    """Its layers have multi-head attention, but it has other parts too."""
    recipe = small(model__positions="learned", model__layers=2, model__attention="perceiver")
    trained = pretrain(people.corpus, recipe, RunOptions(tmp_path / "run"))
    with pytest.raises(SettingError, match="'perceiver,latents=64' cannot become 'bilinear'"):
        convert(trained, "bilinear", tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_finetuning_keeps_the_model_whatever_the_recipe_contains(
    people: World, small: Small, tmp_path: Path
) -> None:
    recipe = small(model__attention="latent")
    start = pretrain(people.corpus, recipe, RunOptions(tmp_path / "first"))
    trained = finetune(people.train, small(), RunOptions(tmp_path / "then"), start=start)
    assert trained.recipe.model.attention == "latent,segment=0"
    assert 'attention = "latent,segment=0"' in (tmp_path / "then" / "config.toml").read_text()
    start = load_run(tmp_path / "first")
    with pytest.raises(SettingError, match="penalty near: 'latent' cannot"):
        finetune(people.train, small(penalty__near=0.1), RunOptions(tmp_path), start=start)


def test_the_error_for_what_cannot_be_converted(pretrained: Any, tmp_path: Path) -> None:
    assert pretrained.model.config.positions == "rotary"
    with pytest.raises(SettingError, match="a score depends on the distance"):
        convert(pretrained, "bilinear", tmp_path)
    with pytest.raises(SettingError, match="'multihead' cannot become 'multihead'"):
        convert(pretrained, "multihead", tmp_path)
    assert list(tmp_path.iterdir()) == []
