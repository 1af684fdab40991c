"""Wing, report: the error analysis of a model's answers, as tables."""

from __future__ import annotations

from tinyattn.tasks.error_analysis import Report
from tinyattn.tasks.evaluation import Score
from tinyattn.tasks.similarity import Probe

SHOWN = 5
"""Number of invented answers that are printed; the others are only counted."""


def as_table(report: Report) -> str:
    """The report as text: kinds of answers, frequency of places, most similar names."""
    names = {
        "correct": "correct",
        "seen_but_wrong": "wrong, but seen in a training text",
        "in_training_pairs": "  an answer of the training pairs",
        "only_in_corpus": "  elsewhere in the corpus",
        "invented": "invented: in no training text",
        "empty": "empty",
    }
    counts = report.counts()
    lines = [_line("answers", "count", "percent", "95 % interval")]
    lines += [_line(f"  {names[kind]}", *_cells(count)) for kind, count in counts.items()]
    if report.inventions:
        more = len(report.inventions) - SHOWN
        shown = ", ".join(map(repr, report.inventions[:SHOWN]))
        lines.append(f"  (such as {shown}{f' and {more:,} more' if more > 0 else ''})")
    lines.append(_line("the place occurs in training texts", "correct answers", "percent",
                       "95 % interval"))  # fmt: skip
    for group in report.groups:
        range_ = f"{group.fewest:,} to " * (group.fewest < group.most)
        times, places = _count(group.most, "time"), _count(group.places, "place")
        lines.append(_line(f"  {range_}{times} ({places})", *_cells(group.score)))
    lines.append(_line("answers that equal the birthplace of", "", "mean", "95 % range",
                       "permutation"))  # fmt: skip
    lines.append(_line("the most similar training name", "answers", "by chance", "by chance",
                       "test p-value"))  # fmt: skip
    lines.append(_probe("  wrong answers", report.wrong))
    lines.append(_probe("  expected places (correct answers)", report.expected))
    return "\n".join(lines)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number != 1)}"


def _line(name: str, count: str, percent: str, interval: str, p: str = "") -> str:
    return f"{name:41s}{count:>16s}{percent:>12s}{interval:>18s}{p:>13s}".rstrip()


def _cells(score: Score) -> tuple[str, str, str]:
    low, high = score.interval
    return (f"{score.correct:,} of {score.total:,}", f"{100 * score.accuracy:.1f} %",
            f"{100 * low:.1f} to {100 * high:.1f} %")  # fmt: skip


def _probe(name: str, probe: Probe) -> str:
    if not probe.total:
        return f"{name}: none to compare"
    return _line(name, f"{probe.hits:.1f} of {probe.total:,}", f"{probe.chance:.1f}",
                 f"{probe.low:.1f} to {probe.high:.1f}  ", f"{probe.p:.4f}")  # fmt: skip
