"""Wing, report: the training curves of a run.

A curve shows at a glance what a table of losses does not: whether the loss is still falling,
whether it jumps, and whether the validation loss follows. Drawing needs matplotlib (the extra
`plot`). If matplotlib does not work, only the plot is missing.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tinyattn.data.files import write


class NoPicture(Exception):
    """A plot cannot be drawn; the message contains the reason, in one line."""


class NotInstalled(NoPicture):
    """A plot cannot be drawn, because matplotlib is not installed."""


SHOWN = 160
"""Characters that are shown of an error of matplotlib, which may be a long list."""


@contextmanager
def drawing() -> Iterator[None]:
    """A context manager that turns every error of matplotlib into NoPicture."""
    try:
        yield
    except NoPicture:
        raise
    except (Exception, SystemExit) as error:  # an import can run any code
        if isinstance(error, ModuleNotFoundError) and error.name == "matplotlib":
            raise NotInstalled("pip install 'tinyattn[plot]'") from error
        said = " ".join(f"{type(error).__name__}: {error}".split())
        said = said if len(said) <= SHOWN else f"{said[:SHOWN]}.."
        raise NoPicture(f"matplotlib does not work: {said}") from error


@drawing()
def new_figure(width: float, height: float) -> Any:
    """An empty figure that can be saved without a display. Raises: NoPicture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def why_none() -> str:
    """The reason why no plot can be drawn; empty if one can."""
    try:
        new_figure(1, 1)
    except NoPicture as error:
        return str(error)
    return ""


def as_png(figure: Any, *, dpi: int) -> bytes:
    """A figure as the bytes of a PNG."""
    raw = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as for characters that the font lacks
        figure.savefig(raw, dpi=dpi, format="png")
    return raw.getvalue()


def save_curves(entries: list[dict[str, Any]], path: Path, title: str) -> None:
    """Plot loss and learning rate over the steps of a run, as a PNG file.

    Args:
        entries: the entries of metrics.jsonl.
        path: file of the plot.
        title: title of the plot.
    Raises: NoPicture if matplotlib is missing or fails, OSError if the file cannot be written.
    """
    write(path, _drawn(entries, title))


@drawing()
def _drawn(entries: list[dict[str, Any]], title: str) -> bytes:
    figure, steps = new_figure(8, 4.5), [e["step"] for e in entries]
    axes = figure.subplots()
    axes.plot(steps, [e["loss"] for e in entries], color="tab:blue", lw=0.6, alpha=0.35)
    axes.plot(steps, _smoothed([e["loss"] for e in entries]), color="tab:blue", label="loss")
    checked = [e for e in entries if "validation" in e]
    if checked:
        axes.plot([e["step"] for e in checked], [e["validation"] for e in checked], "o-",
                  color="tab:red", label="validation loss")  # fmt: skip
    axes.set(xlabel="step", ylabel="nats per token")
    readable = title.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    axes.set_title(readable, parse_math=False)  # a file name may contain any character, also a $
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    rates = axes.twinx()
    rates.plot(steps, [e["learning_rate"] for e in entries], color="tab:gray", ls="--", lw=1)
    rates.set_ylabel("learning rate (dashed)", color="tab:gray")
    rates.set_ylim(bottom=0)
    axes.legend(loc="upper right")
    return as_png(figure, dpi=120)


def _smoothed(values: list[float], decay: float = 0.9) -> list[float]:
    """An exponential moving average, corrected for its start at 0."""
    smooth, weight, out = 0.0, 0.0, []
    for value in values:
        smooth, weight = decay * smooth + (1 - decay) * value, decay * weight + 1 - decay
        out.append(smooth / weight)
    return out
