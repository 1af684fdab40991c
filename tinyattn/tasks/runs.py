"""Chapter 9, continued: run folders.

A run is a folder: `config.toml` says what was asked for, `metrics.jsonl` what happened, and
`checkpoint.safetensors` holds what was learned, with all that is needed to use it alone. Next:
the examples.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyattn.data.text import DataError
from tinyattn.data.vocabulary import Vocabulary
from tinyattn.models import GPT, GPTConfig
from tinyattn.tasks.recipe import Recipe, recipe_from, to_toml
from tinyattn.training import checkpoint
from tinyattn.training.checkpoint import Checkpoint, CheckpointError
from tinyattn.training.loop import CHECKPOINT
from tinyattn.training.metrics import METRICS
from tinyattn.training.settings import SettingError, build

CONFIG, PREDICTIONS, CURVES = "config.toml", "predictions.tsv", "curves.png"


@dataclass
class Trained:
    """A model with its vocabulary, as a checkpoint holds them."""

    model: GPT
    vocabulary: Vocabulary
    recipe: Recipe
    about: dict[str, Any]
    checkpoint: Checkpoint


def describe(
    stage: str, recipe: Recipe, model: GPT, vocabulary: Vocabulary, documents: int, data: str
) -> dict[str, Any]:
    """What a checkpoint says about itself, as JSON."""
    return {
        "stage": stage,
        "model": asdict(model.config),
        "vocabulary": "".join(vocabulary.characters),
        "recipe": recipe.tables(),
        "documents": documents,
        "data": fingerprint(data),  # so that no run goes on with other data
    }


def fingerprint(data: str) -> str:
    """What tells a text from others; space at its ends does not count."""
    return hashlib.sha256(data.strip().encode()).hexdigest()


def load_run(path: str | Path, *, device: str = "cpu") -> Trained:
    """The model in a run folder or checkpoint file, on `device`.

    Raises: CheckpointError if it is missing, damaged or not ours, with all that is wrong.
    """
    path = Path(path)
    file = path / CHECKPOINT if path.is_dir() else path
    if not file.exists():
        raise CheckpointError(f"{file}: no such file; train a model there first, or name another")
    saved = checkpoint.load(file)
    if saved.about.get("stage") == "parse":
        raise CheckpointError(f"{file}: holds a parser, which `tinyattn parse --from` can use")
    needed = {"stage", "model", "vocabulary", "recipe", "documents", "seed", "step", "steps"}
    if missing := needed - saved.about.keys():
        raise CheckpointError(f"{file}: its header lacks {', '.join(sorted(missing))}")
    try:
        config = build(GPTConfig, dict(saved.about["model"]), "model")
        vocabulary = Vocabulary(saved.about["vocabulary"])
        recipe = recipe_from(dict(saved.about["recipe"]), "recipe")
        model = GPT(config)
        model.load_state(saved.group("model"))
    except (TypeError, ValueError, SettingError, DataError) as error:
        raise CheckpointError(f"{file}: does not fit this program: {error}") from error
    if len(vocabulary) != config.vocabulary:
        raise CheckpointError(f"{file}: {len(vocabulary)} characters for {config.vocabulary} ids")
    for name, values in model.state().items():
        if not np.isfinite(values).all():
            raise CheckpointError(f"{file}: {name} is not finite (NaN): it was not trained well")
    model.to(device)
    return Trained(model, vocabulary, recipe, saved.about, saved)


def open_run(
    folder: str | Path, *, overwrite: bool, resume: bool = False, resumable: bool = False
) -> Path:
    """A folder that a run may be written to. Nothing changes until the run begins.

    Args: resumable: whether the caller could go on with a run that is there.
    Raises: SettingError if a run is there already and neither overwrite nor resume is asked for.
    """
    folder = Path(folder)
    if (folder / CHECKPOINT).exists() and not (overwrite or resume):
        go_on = "--resume to go on with it, " if resumable else ""
        raise SettingError(
            f"{folder} holds a run already; use {go_on}--overwrite to start again, or another --out"
        )
    if resume and not (folder / CHECKPOINT).exists():
        raise SettingError(f"{folder} holds no checkpoint to resume; leave out --resume to begin")
    return folder


def begin_run(folder: Path, tables: dict[str, dict[str, Any]], *, resume: bool) -> None:
    """Make the folder of the run that begins now; unless it goes on, clear an earlier one away.

    Raises: CheckpointError if the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONFIG).write_text(to_toml(tables), encoding="utf-8")
        for name in () if resume else (CHECKPOINT, METRICS, PREDICTIONS, CURVES):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be written: {error.strerror or error}") from error
