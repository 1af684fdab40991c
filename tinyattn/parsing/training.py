"""Wing, parsing: heads that parse.

Sheet 003 says that a dependency parse is what heads could attend to, and offers two losses that
make heads behave as in one. Here a small parser learns from a treebank, with these losses or
without, and then parses what it has not seen. It is given the treebank's own tags.
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
from tinyattn.noise import Noise
from tinyattn.parsing.conllu import Sentence
from tinyattn.parsing.model import ROOT, Parser, ParserConfig
from tinyattn.parsing.treebank import Symbols, Tree, TreeExamples, fill_up, pairs, places
from tinyattn.tasks.recipe import Recipe, recipe_from
from tinyattn.tasks.running import RunOptions, train
from tinyattn.tasks.runs import check_room, checkpoint_in, load, load_parameters
from tinyattn.tasks.task import Job, task_of
from tinyattn.tensor import Tensor
from tinyattn.threads import one_thread
from tinyattn.training.checkpoint import Checkpoint, CheckpointError
from tinyattn.training.settings import TrainSettings, build

SETTINGS = TrainSettings(epochs=30, batch=32, learning_rate=0.01)
"""Chosen on a fifth of an English treebank's training documents; those held out were not looked
at."""
PARSE = "parse"  # the task
TOGETHER = 64
"""Sentences that are parsed together; the trees do not depend on it."""
NONE = -1  # a target that does not count


def parser_loss(model: Parser, penalty: Penalty) -> Callable[[Batch, Noise | None, float], Tensor]:
    """The cross-entropy of each word's relation and governor together, and the penalty."""
    config = model.config

    def loss(batch: Batch, noise: Noise | None, divisor: float) -> Tensor:
        watch: list[Tensor] | None = [] if penalty else None
        scores_BTHT = model(pairs(batch.inputs, config.symbols), noise=noise, watch=watch)
        targets = asarray(places(batch.targets, config.context, NONE), device=model.device)
        entropy: Tensor = ops.cross_entropy(
            scores_BTHT.reshape(*targets.shape, -1), targets, ignore=NONE, divisor=divisor
        )
        if watch is None:
            return entropy
        counts = asarray(batch.targets != PAD, device=model.device)
        return entropy + penalty(watch, counts, divisor)

    return loss


@dataclass
class TrainedParser:
    """A parser with its words, tags and relations, as a checkpoint holds them."""

    model: Parser
    symbols: Symbols
    about: dict[str, Any]
    checkpoint: Checkpoint

    @property
    def tables(self) -> dict[str, Any]:
        """The settings that it was trained with."""
        own = {table: self.about.get(table, {}) for table in ("model", "train", "penalty")}
        return {**self.about.get("recipe", own)}

    @property
    def recipe(self) -> Recipe:
        """The recipe of a run that can go on.

        Raises: CheckpointError if it was no recipe that it was trained by.
        """
        if "recipe" not in self.about:
            raise CheckpointError("a parser of `tinyattn parse` cannot go on; train it anew")
        return recipe_from(self.about["recipe"], "recipe")


def parser_job(
    sentences: Sequence[Sentence],
    symbols: Symbols,
    config: ParserConfig,
    settings: TrainSettings,
    penalty: Penalty,
    seed: int,
) -> Job:
    """A new parser, to learn these sentences."""
    model = Parser(config, seed=seed)
    data = TreeExamples(
        sentences, symbols, context=config.context, batch=settings.batch, seed=seed,
        shuffle=settings.shuffle,
    )  # fmt: skip
    tables = {"model": asdict(config), "train": asdict(settings), "penalty": asdict(penalty)}
    return Job(
        model, data, parser_loss(model, penalty), settings,
        {"stage": PARSE, **tables, "symbols": symbols.as_lists()}, tables, "train",
        decides=[("train", "batch")], texts={"symbols": "other words, tags or relations"},
    )  # fmt: skip


def train_parser(
    sentences: Sequence[Sentence],
    symbols: Symbols,
    config: ParserConfig,
    settings: TrainSettings,
    penalty: Penalty,
    options: RunOptions,
) -> Parser:
    """A new parser, taught these sentences; its run is kept in `options.folder`. See `train`."""
    run: TrainedParser = train(
        lambda: parser_job(sentences, symbols, config, settings, penalty, options.seed), options
    )
    return run.model


def scores_and_heads(
    model: Parser, inputs: np.ndarray, cap: float
) -> tuple[np.ndarray, dict[str, float]]:
    """The scores of a batch, and the entropy and capped distance of the heads over its words."""
    watch: list[Tensor] = []
    with no_grad():
        scores = asnumpy(model(inputs, watch=watch).data)
        counts = asarray(inputs[..., 0] > ROOT, device=model.device)
        return scores, head_statistics(watch, counts, cap, model.config.cannot)


def parse_sentences(
    model: Parser, symbols: Symbols, sentences: Sequence[Sentence], cap: float = Penalty.cap
) -> tuple[list[Tree], dict[str, float]]:
    """A tree for each sentence, and what the model's heads did meanwhile.

    Each word gets the likeliest pair of governor and relation, whatever the other words get; so
    now and then the arcs of a sentence are no tree. The heads' `entropy` and capped `distance` are
    means over words, layers and heads.
    """
    trees: list[Tree] = [((), ())] * len(sentences)
    sums: Counter[str] = Counter()
    encoded = symbols.encode(sentences)
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
                trees[i] = governors.tolist(), [symbols.relations[k] for k in relations]
    words = max(1, sum(map(len, sentences)))
    return trees, {name: float(value / words) for name, value in sums.items()}


def open_parser(saved: Checkpoint) -> TrainedParser:
    """The parser in a checkpoint. Raises: ValueError, TypeError or SettingError if it is none."""
    symbols = Symbols.from_lists(saved.about["symbols"])
    config = build(ParserConfig, dict(saved.about["model"]), "model")
    got, wanted = (len(symbols), len(symbols.relations)), (config.symbols, config.relations)
    if got != wanted:
        raise ValueError(f"its symbols and relations are {got}, for a model of {wanted}")
    check_room(config, saved)
    model = Parser(config)
    load_parameters(model, saved)
    return TrainedParser(model, symbols, saved.about, saved)


def load_parser(path: str | Path, *, device: str = "cpu") -> tuple[Parser, Symbols]:
    """The parser in a run folder.

    Raises: CheckpointError if it is missing, damaged, or no parser.
    """
    run = load(path, device=device)
    if not isinstance(run, TrainedParser):
        raise CheckpointError(f"{checkpoint_in(path)}: holds {task_of(run.about['stage']).holds}")
    return run.model, run.symbols
