"""Chapter 6: tasks whose model is a character-level GPT.

All such tasks load checkpoints in the same way, and log the same values during training: entropy
and distance of the attention heads, and the loss on held-out text.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from tinyattn.attention import head_statistics
from tinyattn.backend import asarray
from tinyattn.data.batches import PAD, Batch
from tinyattn.data.vocabulary import Vocabulary
from tinyattn.graph import no_grad
from tinyattn.models import GPT, GPTConfig
from tinyattn.nn import weight_hooks
from tinyattn.tasks.knowledge import Trained, language_model_loss
from tinyattn.tasks.recipe import recipe_from
from tinyattn.tasks.runs import check_room, load_parameters
from tinyattn.tasks.task import Job, Task
from tinyattn.tensor import Tensor
from tinyattn.training.checkpoint import Checkpoint, check_header
from tinyattn.training.settings import build

SAMPLE = 8, 128  # examples, and positions of each, whose attention weights are measured
TOGETHER = 1024  # positions of held-out text in one forward pass, about


class TextTask(Task):
    """A task whose model is a character-level GPT."""

    holds = "a language model"
    header: ClassVar[dict[str, type]] = {"vocabulary": str, "recipe": dict, "documents": int}
    may_lack: ClassVar[dict[str, type]] = {"data": str, "questions": str, "pretrained_on": str}

    def open(self, file: Path, saved: Checkpoint) -> Trained:
        """The model in a checkpoint, with its vocabulary and its recipe."""
        tables = saved.about["recipe"]
        check_header(file, tables, dict.fromkeys(tables, dict), "its recipe's")
        config = build(GPTConfig, dict(saved.about["model"]), "model")
        vocabulary = Vocabulary(saved.about["vocabulary"])
        recipe = recipe_from(tables, "recipe")
        if len(vocabulary) != config.vocabulary:
            raise ValueError(f"{len(vocabulary)} characters for {config.vocabulary} ids")
        check_room(config, saved)
        model = GPT(config)
        load_parameters(model, saved)
        return Trained(model, vocabulary, recipe, saved.about, saved)

    def measure(self, job: Job) -> Callable[[], dict[str, float]]:
        """A function that measures the heads' entropy and distance, and the held-out loss."""
        model, held_out = job.model, job.held_out
        assert isinstance(model, GPT)
        first = job.data.epoch(0)[0]
        rows, positions = SAMPLE  # few, since all weights (T × T) are computed for it
        sample = Batch(first.inputs[:rows, :positions], first.targets[:rows, :positions])

        def statistics() -> dict[str, float]:
            weights: list[Tensor] = []
            with no_grad():
                model(sample.inputs, hooks=weight_hooks(len(model.layers), weights))
                counts = asarray(sample.targets != PAD, device=model.device)
                cap = job.tables["penalty"]["cap"]
                heads = head_statistics(weights, counts, cap, model.cannot)
            return heads | ({"validation": _loss(model, held_out)} if held_out else {})

        return statistics


def _loss(model: GPT, batch: Batch) -> float:
    """The mean loss over a batch, in nats per token."""
    loss = language_model_loss(model)
    with no_grad():
        parts = batch.split(-(-batch.inputs.size // TOGETHER))
        return sum(loss(part, None, float(batch.trained)).item() for part in parts)
