"""Wing, parsing: heads that parse, as a task like any other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from tinyattn.parsing.comparison import as_table, judged, new_config
from tinyattn.parsing.conllu import read_conllu
from tinyattn.parsing.model import Parser
from tinyattn.parsing.training import (
    PARSE,
    TrainedParser,
    open_parser,
    parser_job,
    scores_and_heads,
)
from tinyattn.parsing.treebank import Symbols, pairs
from tinyattn.tasks.knowledge import fingerprint
from tinyattn.tasks.recipe import Recipe
from tinyattn.tasks.task import Job, Task
from tinyattn.training.checkpoint import Checkpoint


class Parsing(Task):
    """Trees of a treebank, and how many words of another one get the right governor."""

    name = PARSE
    holds = "a parser, which `tinyattn parse --from` can use"
    header: ClassVar[dict[str, type]] = {"symbols": dict}

    def job(self, path: Path, recipe: Recipe, seed: int) -> Job:
        """A parser of the recipe's sizes, to learn all trees of the file."""
        sentences = [sentence for document in read_conllu(path) for sentence in document]
        symbols, model = Symbols.of(sentences), recipe.model
        sizes: dict[str, Any] = {"layers": model.layers, "heads": model.heads,
                                 "width": model.width, "dropout": model.dropout}  # fmt: skip
        config = new_config(symbols, sentences, model.attention, sizes, model.positions)
        job = parser_job(sentences, symbols, config, recipe.pretrain, recipe.penalty, seed)
        tables = recipe.tables()
        more = {"recipe": tables, "data": fingerprint(repr(sentences))}
        return replace(
            job, about=job.about | more, tables=tables, table="pretrain",
            decides=[("pretrain", "batch"), ("pretrain", "shuffle")],
            texts=job.texts | {"data": "other trees to learn from"},
        )  # fmt: skip

    def measure(self, job: Job) -> Callable[[], dict[str, float]]:
        """The entropy and the capped distance of the heads, over the first batch."""
        model = job.model
        assert isinstance(model, Parser)
        sample = pairs(job.data.epoch(0)[0].inputs, model.config.symbols)
        return lambda: scores_and_heads(model, sample, job.tables["penalty"]["cap"])[1]

    def open(self, file: Path, saved: Checkpoint) -> TrainedParser:
        """The parser with its words, tags and relations."""
        return open_parser(saved)

    def score(
        self, run: TrainedParser, path: Path, workers: int | None = None
    ) -> tuple[dict[str, Any], str]:
        """The words with the right governor, and with the right relation too."""
        sentences = [sentence for document in read_conllu(path) for sentence in document]
        row = judged(path.name, run.model, run.symbols, sentences)
        return row.as_dict(), as_table([row])


TASK = Parsing()
