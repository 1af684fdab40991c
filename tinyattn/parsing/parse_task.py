"""Wing, parsing: dependency parsing as a task like any other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from tinyattn.parsing.conllu import read_conllu
from tinyattn.parsing.model import Parser
from tinyattn.parsing.parser_comparison import as_table, judged, new_config
from tinyattn.parsing.training import (
    PARSE,
    TrainedParser,
    open_parser,
    parser_job,
    scores_and_heads,
)
from tinyattn.parsing.treebank import ParserVocabulary, pairs
from tinyattn.tasks.knowledge import fingerprint
from tinyattn.tasks.recipe import Recipe
from tinyattn.tasks.task import Job, Task
from tinyattn.training.checkpoint import Checkpoint


class Parsing(Task):
    """Learns the trees of a treebank; the score is how many words get the right head (UAS, LAS)."""

    name = PARSE
    holds = "a parser, which `tinyattn parse --from` can use"
    header: ClassVar[dict[str, type]] = {"vocabulary": dict}

    def job(self, path: Path, recipe: Recipe, seed: int) -> Job:
        """A parser of the recipe's sizes, to be trained on all trees of the file."""
        sentences = [sentence for document in read_conllu(path) for sentence in document]
        vocabulary, model = ParserVocabulary.of(sentences), recipe.model
        sizes: dict[str, Any] = {"layers": model.layers, "heads": model.heads,
                                 "width": model.width, "dropout": model.dropout}  # fmt: skip
        config = new_config(vocabulary, sentences, model.attention, sizes, model.positions)
        job = parser_job(sentences, vocabulary, config, recipe.pretrain, recipe.penalty, seed)
        tables = recipe.tables()
        more = {"recipe": tables, "data": fingerprint(repr(sentences))}
        return replace(
            job, about=job.about | more, tables=tables, table="pretrain",
            decides=[("pretrain", "batch"), ("pretrain", "shuffle")],
            must_match=job.must_match | {"data": "other trees to learn from"},
        )  # fmt: skip

    def measure(self, job: Job) -> Callable[[], dict[str, float]]:
        """The entropy and the capped distance of the attention heads, over the first batch."""
        model = job.model
        assert isinstance(model, Parser)
        sample = pairs(job.data.epoch(0)[0].inputs, model.config.vocabulary)
        return lambda: scores_and_heads(model, sample, job.tables["penalty"]["cap"])[1]

    def open(self, file: Path, saved: Checkpoint) -> TrainedParser:
        """The parser with its words, tags and relations."""
        return open_parser(saved)

    def score(
        self, run: TrainedParser, path: Path, workers: int | None = None
    ) -> tuple[dict[str, Any], str]:
        """UAS, words with the right head, and LAS, words with the right relation too."""
        sentences = [sentence for document in read_conllu(path) for sentence in document]
        row = judged(path.name, run.model, run.vocabulary, sentences)
        return row.as_dict(), as_table([row])


TASK = Parsing()
