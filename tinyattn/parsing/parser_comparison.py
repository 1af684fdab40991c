"""Wing, parsing: how penalties change a parser.

The same parser is trained with each penalty and without one. Its trees for the held-out documents
are compared with those of rules that ignore the words. The table also has the entropy and distance
of the attention heads, since the penalties act on these.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tinyattn.attention import ATTENTION, Penalty, parse_attention
from tinyattn.data.text import DataError
from tinyattn.graph import no_grad
from tinyattn.models import possible_positions
from tinyattn.parsing.conllu import Sentence
from tinyattn.parsing.model import Parser, ParserConfig
from tinyattn.parsing.training import SETTINGS, load_parser, parse_sentences, train_parser
from tinyattn.parsing.treebank import ParserVocabulary, Tree, baselines, split
from tinyattn.tasks.evaluation import Score
from tinyattn.tasks.running import RunOptions
from tinyattn.tasks.runs import held_runs
from tinyattn.theory.dependency import dependency_block, read_arcs
from tinyattn.training.settings import SettingError, TrainSettings

PENALTIES = [
    Penalty(),
    Penalty(focus=0.05),
    Penalty(near=0.01),
    Penalty(focus=0.05, near=0.01),
]
"""The penalties that are compared by default."""


def name_of(penalty: Penalty) -> str:
    """The name of a penalty in the table, and of its run's folder."""
    parts = [f"focus={penalty.focus:g}"] * (penalty.focus > 0)
    parts += [f"near={penalty.near:g},cap={penalty.cap:g}"] * (penalty.near > 0)
    return ",".join(parts) or "none"


def attachment(trees: Sequence[Tree], sentences: Sequence[Sentence]) -> tuple[Score, Score]:
    """UAS and LAS: words with the right governor (head), and with the right relation to it too.

    Punctuation is counted. The words of a sentence are not independent, so the true interval is
    somewhat wider than the score's.
    """
    governed = related = words = 0
    for (governors, relations), s in zip(trees, sentences, strict=True):
        right = [g == own for g, own in zip(governors, s.governors, strict=True)]
        same = [r == own for r, own in zip(relations, s.relations, strict=True)]
        governed += sum(right)
        related += sum(a and b for a, b in zip(right, same, strict=True))
        words += len(s)
    return Score(governed, words), Score(related, words)


def rebuilt(sentences: Sequence[Sentence]) -> list[Tree]:
    """The trees read off attention heads that were built for each tree (theory/dependency.py).

    They are built from the right trees. So they only show that attention heads can represent these.
    """
    trees: list[Tree] = []
    for s in sentences:
        own = sorted(set(s.relations))
        block, x = dependency_block(s.governors, [own.index(r) for r in s.relations], len(own))
        with no_grad():
            governors, relations = read_arcs(block.weights(x).numpy()[0])
        trees.append((governors, [own[k] for k in relations]))
    return trees


def can_have(attention: str, penalty: Penalty) -> bool:
    """Whether the penalty can be applied to this attention type.

    Raises: SettingError for an unknown attention type.
    """
    try:
        cannot = ATTENTION[parse_attention(attention, ATTENTION)[0]].cannot
    except ValueError as error:
        raise SettingError(str(error)) from error
    return not any(getattr(penalty, name) and name in cannot for name in ("focus", "near"))


@dataclass(frozen=True)
class Row:
    """The scores of one parser, or one rule, on the held-out sentences."""

    name: str
    unlabelled: Score
    labelled: Score
    heads: dict[str, float]  # entropy and distance of the attention heads, if it has them
    seconds: float | None = None  # of training

    def as_dict(self) -> dict[str, Any]:
        """The result under the names that other programs rely on."""
        return {
            "name": self.name,
            "uas": self.unlabelled.as_dict(),
            "las": self.labelled.as_dict(),
            "entropy": self.heads.get("entropy"),
            "distance": self.heads.get("distance"),
            "seconds": self.seconds,
        }


def compare_penalties(
    documents: list[list[Sentence]],
    penalties: Sequence[Penalty],
    options: RunOptions,
    *,
    attention: str = ParserConfig.attention,
    settings: TrainSettings = SETTINGS,
    sizes: dict[str, int] | None = None,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """Score the rules, and train and score a parser with each penalty.

    Args:
        options: settings of the runs; each run is in a folder of its own in `options.folder`.
        sizes: fields of ParserConfig that differ from their defaults.
        say: function called with the name of each parser before its training.
    Raises: SettingError, before any work, for a parser or a penalty that is invalid.
    """
    train, test = split(documents, seed=options.seed)
    vocabulary = ParserVocabulary.of(train)
    config = new_config(vocabulary, [*train, *test], attention, sizes or {})
    if len({name_of(penalty) for penalty in penalties}) < len(penalties):
        raise SettingError("give each penalty once, and none of weight 0")
    for penalty in penalties:
        _check(penalty, config)
    at = {
        penalty: replace(options, folder=options.folder / name_of(penalty)) for penalty in penalties
    }
    with held_runs([run.folder for run in at.values()], overwrite=overwrite):
        rules = baselines(train, test) | {"heads built from the tree": rebuilt(test)}
        rows = [Row(name, *attachment(trees, test), {}) for name, trees in rules.items()]
        cap = penalties[-1].cap  # one for all, so that distances can be compared
        for penalty, run in at.items():
            name = f"parser, penalty: {name_of(penalty)}"
            say(name)
            began = time.perf_counter()
            model = train_parser(train, vocabulary, config, settings, penalty, run)
            seconds = time.perf_counter() - began
            trees, heads = parse_sentences(model, vocabulary, test, cap)
            rows.append(Row(name, *attachment(trees, test), heads, seconds))
    return rows


def judge(path: Path, sentences: Sequence[Sentence], *, device: str = "cpu") -> Row:
    """Score the parser in a run folder on sentences that it should not have been trained on.

    Raises: CheckpointError if there is no parser; DataError for a sentence that is too long.
    """
    return judged(str(path), *load_parser(path, device=device), sentences)


def judged(
    name: str, model: Parser, vocabulary: ParserVocabulary, sentences: Sequence[Sentence]
) -> Row:
    """Score a parser on sentences. Raises: DataError for one that is too long for it."""
    if (longest := 1 + max(map(len, sentences))) > model.config.context:
        raise DataError(
            f"a sentence has {longest - 1} words; this parser takes at most "
            f"{model.config.context - 1}"
        )
    trees, heads = parse_sentences(model, vocabulary, sentences)
    return Row(name, *attachment(trees, sentences), heads)


def new_config(
    vocabulary: ParserVocabulary, sentences: Sequence[Sentence], attention: str,
    sizes: dict[str, int], positions: str = "rotary",
) -> ParserConfig:  # fmt: skip
    """The sizes of a parser for these sentences; `positions`, if the attention type can have them.

    Raises: SettingError for sizes or an attention type that are invalid.
    """
    try:
        return ParserConfig(
            len(vocabulary), len(vocabulary.relations), context=1 + max(map(len, sentences)),
            positions=possible_positions(attention, positions), attention=attention, **sizes,
        )  # fmt: skip
    except ValueError as error:
        raise SettingError(str(error)) from error


def _check(penalty: Penalty, config: ParserConfig) -> None:
    try:
        penalty.check(config.attention, config.cannot)
    except ValueError as error:
        raise SettingError(str(error)) from error


def as_table(rows: Sequence[Row]) -> str:
    """The result as text."""
    words, widest = rows[0].unlabelled.total, max(len(row.name) for row in rows)
    lines = [
        f"{words:,} words. UAS: the head is right; LAS: the head and the relation are right",
        f"{'':{widest + 2}s}{'UAS':>6s}     95 % interval{'LAS':>9s}     95 % interval"
        "   entropy  distance  seconds",
    ]
    for row in rows:
        line = f"  {row.name:{widest}s}"
        for score in (row.unlabelled, row.labelled):
            low, high = score.interval
            line += f"{100 * score.accuracy:6.1f} %{100 * low:7.1f} to {100 * high:4.1f} %   "
        for value, width, digits in (
            (row.heads.get("entropy"), 7, 2),
            (row.heads.get("distance"), 10, 1),
            (row.seconds, 9, 0),
        ):
            line += f"{'' if value is None else format(value, f'.{digits}f'):>{width}s}"
        lines.append(line.rstrip())
    return "\n".join(lines)
