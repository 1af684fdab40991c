"""Wing, parsing: training a dependency parser.

Answer sheet 003 (published solutions of a problem set, TTIC 31230) describes a dependency parse as
something that attention heads could attend to, and offers two losses that make the heads do so.
Here a small parser is trained on a treebank, with or without these losses (the penalties), and then
parses held-out sentences. It gets the treebank's own tags.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyattn import ops
from tinyattn.attention import Penalty, head_statistics
from tinyattn.backend import asarray, asnumpy
from tinyattn.data.batches import PAD, Batch
from tinyattn.graph import no_grad
from tinyattn.nn import weight_hooks
from tinyattn.parsing.conllu import Sentence
from tinyattn.parsing.model import ROOT, Parser, ParserConfig
from tinyattn.parsing.treebank import ParserVocabulary, Tree, TreeExamples, fill_up, pairs, places
from tinyattn.rng import DropoutRNG
from tinyattn.tasks.recipe import Recipe, recipe_from
from tinyattn.tasks.running import RunOptions, train
from tinyattn.tasks.runs import check_room, checkpoint_in, load, load_parameters
from tinyattn.tasks.task import Job, task_of
from tinyattn.tensor import Tensor
from tinyattn.training.checkpoint import Checkpoint, CheckpointError
from tinyattn.training.settings import TrainSettings, build
from tinyattn.workers import one_thread

SETTINGS = TrainSettings(epochs=30, batch=32, learning_rate=0.01)
"""Chosen on a fifth of an English treebank's training documents, without the held-out ones."""
PARSE = "parse"  # the task
TOGETHER = 64
"""Sentences of a batch in parsing; the trees do not depend on it."""
NONE = -1  # a target that is ignored


def parser_loss(
    model: Parser, penalty: Penalty
) -> Callable[[Batch, DropoutRNG | None, float], Tensor]:
    """The cross-entropy of each word's relation and governor together, and the penalty."""
    config = model.config

    def loss(batch: Batch, dropout_rng: DropoutRNG | None, divisor: float) -> Tensor:
        weights: list[Tensor] = []
        hooks = weight_hooks(config.layers, weights) if penalty else None
        scores_BTHT = model(
            pairs(batch.inputs, config.vocabulary), dropout_rng=dropout_rng, hooks=hooks
        )
        targets = asarray(places(batch.targets, config.context, NONE), device=model.device)
        entropy: Tensor = ops.cross_entropy(
            scores_BTHT.reshape(*targets.shape, -1), targets, ignore=NONE, divisor=divisor
        )
        if not penalty:
            return entropy
        counts = asarray(batch.targets != PAD, device=model.device)
        return entropy + penalty(weights, counts, divisor)

    return loss


@dataclass
class TrainedParser:
    """A parser with its words, tags and relations, as a checkpoint contains them."""

    model: Parser
    vocabulary: ParserVocabulary
    about: dict[str, Any]
    checkpoint: Checkpoint

    @property
    def tables(self) -> dict[str, Any]:
        """The settings that it was trained with."""
        own = {table: self.about.get(table, {}) for table in ("model", "train", "penalty")}
        return {**self.about.get("recipe", own)}

    @property
    def recipe(self) -> Recipe:
        """The recipe of a run that can be resumed.

        Raises: CheckpointError if the run was not trained by a recipe.
        """
        if "recipe" not in self.about:
            raise CheckpointError("a parser of `tinyattn parse` cannot be resumed; train it again")
        return recipe_from(self.about["recipe"], "recipe")


def parser_job(
    sentences: Sequence[Sentence],
    vocabulary: ParserVocabulary,
    config: ParserConfig,
    settings: TrainSettings,
    penalty: Penalty,
    seed: int,
) -> Job:
    """A new parser, to be trained on these sentences."""
    model = Parser(config, seed=seed)
    data = TreeExamples(
        sentences, vocabulary, context=config.context, batch=settings.batch, seed=seed,
        shuffle=settings.shuffle,
    )  # fmt: skip
    tables = {"model": asdict(config), "train": asdict(settings), "penalty": asdict(penalty)}
    return Job(
        model, data, parser_loss(model, penalty), settings,
        {"stage": PARSE, **tables, "vocabulary": vocabulary.as_lists()}, tables, "train",
        decides=[("train", "batch")], must_match={"vocabulary": "other words, tags or relations"},
    )  # fmt: skip


def train_parser(
    sentences: Sequence[Sentence],
    vocabulary: ParserVocabulary,
    config: ParserConfig,
    settings: TrainSettings,
    penalty: Penalty,
    options: RunOptions,
) -> Parser:
    """A new parser, trained on these sentences; its run is in `options.folder`. See `train`."""
    run: TrainedParser = train(
        lambda: parser_job(sentences, vocabulary, config, settings, penalty, options.seed), options
    )
    return run.model


def scores_and_heads(
    model: Parser, inputs: np.ndarray, cap: float
) -> tuple[np.ndarray, dict[str, float]]:
    """The scores of a batch, and the entropy and capped distance of its attention heads."""
    weights: list[Tensor] = []
    with no_grad():
        scores = asnumpy(model(inputs, hooks=weight_hooks(model.config.layers, weights)).data)
        counts = asarray(inputs[..., 0] > ROOT, device=model.device)
        return scores, head_statistics(weights, counts, cap, model.config.cannot)


def parse_sentences(
    model: Parser,
    vocabulary: ParserVocabulary,
    sentences: Sequence[Sentence],
    cap: float = Penalty.cap,
) -> tuple[list[Tree], dict[str, float]]:
    """A tree for each sentence, and statistics of the model's attention heads.

    Each word gets its most probable pair of governor and relation, independently of the other
    words. So sometimes the arcs of a sentence form no tree. The `entropy` and the capped `distance`
    of the attention heads are means over words, layers and heads.
    """
    trees: list[Tree] = [((), ())] * len(sentences)
    sums: Counter[str] = Counter()
    encoded = vocabulary.encode(sentences)
    by_length = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    with one_thread(np):
        for start in range(0, len(by_length), TOGETHER):
            rows = by_length[start : start + TOGETHER]
            inputs = fill_up([encoded[i] for i in rows])
            scores, heads = scores_and_heads(model, inputs, cap)
            count = int((inputs[..., 0] > ROOT).sum())
            sums.update({name: value * count for name, value in heads.items()})
            B, T, H, _ = scores.shape
            best_BT = scores.reshape(B, T, H * T).argmax(axis=-1)
            for i, best in zip(rows, best_BT, strict=True):
                relations, governors = np.divmod(best[1 : len(encoded[i])], T)
                trees[i] = governors.tolist(), [vocabulary.relations[k] for k in relations]
    words = max(1, sum(map(len, sentences)))
    return trees, {name: float(value / words) for name, value in sums.items()}


def open_parser(saved: Checkpoint) -> TrainedParser:
    """The parser in a checkpoint. Raises: ValueError, TypeError or SettingError if it is none."""
    vocabulary = ParserVocabulary.from_lists(saved.about["vocabulary"])
    config = build(ParserConfig, dict(saved.about["model"]), "model")
    got, wanted = (
        (len(vocabulary), len(vocabulary.relations)),
        (config.vocabulary, config.relations),
    )
    if got != wanted:
        raise ValueError(f"its vocabulary and relations are {got}, for a model of {wanted}")
    check_room(config, saved)
    model = Parser(config)
    load_parameters(model, saved)
    return TrainedParser(model, vocabulary, saved.about, saved)


def load_parser(path: str | Path, *, device: str = "cpu") -> tuple[Parser, ParserVocabulary]:
    """The parser in a run folder.

    Raises: CheckpointError if it is missing, damaged, or no parser.
    """
    run = load(path, device=device)
    if not isinstance(run, TrainedParser):
        raise CheckpointError(f"{checkpoint_in(path)}: holds {task_of(run.about['stage']).holds}")
    return run.model, run.vocabulary
