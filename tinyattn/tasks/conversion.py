"""Chapter 6: converting a model between multi-head and bilinear attention.

Both attention types compute the same scores from different parameters (attention/bilinear.py). So a
trained model can be converted from one to the other, and must compute the same outputs. The
difference is measured in float64, before the parameters are rounded to the checkpoint's float32.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from tinyattn.attention import AttentionBlock, Bilinear, MultiHead, factor, merge
from tinyattn.graph import no_grad
from tinyattn.models import GPT
from tinyattn.tasks.knowledge import Trained
from tinyattn.tasks.lock import alone_in
from tinyattn.tasks.runs import run_files
from tinyattn.training import checkpoint
from tinyattn.training.checkpoint import CHECKPOINT
from tinyattn.training.metrics import METRICS
from tinyattn.training.settings import SettingError

WAY_BACK = {"bilinear": "multihead", "multihead": "bilinear"}
SEQUENCES = 8
"""Number of random sequences, as long as the context, on which the models are compared."""


@dataclass(frozen=True)
class Conversion:
    """The result of a conversion. Differences are the largest between logits, in float64."""

    before: int  # parameters
    after: int
    difference: float  # between the original and the converted model
    back: float  # between the original and the model converted there and back


def convert(trained: Trained, to: str, folder: Path) -> Conversion:
    """Convert the attention of a trained model and save it in a run folder.

    Args:
        to: the new attention type: "bilinear", or "multihead" for the way back.
        folder: folder of the new run.
    Raises: SettingError if the model cannot be converted, or another process writes to the folder;
        CheckpointError if the folder cannot be written; its files are then unchanged.
    """
    if to not in WAY_BACK:
        raise SettingError(f"convert: to must be one of {list(WAY_BACK)}; got {to!r}")
    if trained.model.config.attention != WAY_BACK[to]:
        raise SettingError(
            f"a model whose attention is {trained.model.config.attention!r} cannot become {to!r}; "
            f"only {WAY_BACK[to]!r} can"
        )
    first, second, third = (_in_float64(trained.model) for _ in range(3))
    for layer, same, again in zip(first.layers, second.layers, third.layers, strict=True):
        same.attention = _converted(layer.attention)
        again.attention = _converted(same.attention)
    config = replace(trained.model.config, attention=to)
    ids = np.random.default_rng(0).integers(config.vocabulary, size=(SEQUENCES, config.context))
    with no_grad():
        logits = [model(ids).numpy() for model in (first, second, third)]
    arrays = {name: array.astype(np.float32) for name, array in second.state().items()}
    GPT(config).load_state(arrays)  # checks that the new checkpoint can be loaded
    tables = replace(trained.recipe, model=config).tables()
    about = {**trained.about, "model": asdict(config), "recipe": tables}
    beside = {**run_files(folder, tables), folder / METRICS: None}
    with alone_in(folder):
        named = {f"model.{name}": array for name, array in arrays.items()}
        checkpoint.save(folder / CHECKPOINT, named, about, beside)
    return Conversion(
        first.parameter_count(), second.parameter_count(),
        *(float(np.abs(logits[0] - others).max()) for others in logits[1:]),
    )  # fmt: skip


def _converted(block: AttentionBlock) -> AttentionBlock:
    try:
        if isinstance(block, Bilinear):
            return factor(block)
        assert isinstance(block, MultiHead)
        return merge(block)
    except ValueError as error:  # rotary positions
        raise SettingError(
            f"{error}; train a model with tinyattn pretrain --positions learned, and convert that"
        ) from error


def _in_float64(model: GPT) -> GPT:
    """A float64 copy of a model, on the CPU."""
    copy = GPT(model.config)
    copy.load_state(model.state())
    copy.astype("float64")
    return copy
