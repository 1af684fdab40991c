"""Wing, report: the picture of a run.

A table of losses says little at a glance, a curve says it all: is it still falling, did the
learning rate make it jump, does the validation loss follow? Needs matplotlib (the extra `plot`). A
matplotlib that does not work costs the picture and nothing else.
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
    """A picture cannot be drawn; the message says why, in one line."""


class NotInstalled(NoPicture):
    """It cannot, since matplotlib is not there."""


SHOWN = 160
"""Characters of an error of matplotlib's, which may list all that it would have liked better."""


@contextmanager
def drawing() -> Iterator[None]:
    """Inside, whatever goes wrong with matplotlib is a NoPicture."""
    try:
        yield
    except NoPicture:
        raise
    except (Exception, SystemExit) as error:  # an import runs code of anybody's
        if isinstance(error, ModuleNotFoundError) and error.name == "matplotlib":
            raise NotInstalled("pip install 'tinyattn[plot]'") from error
        said = " ".join(f"{type(error).__name__}: {error}".split())
        said = said if len(said) <= SHOWN else f"{said[:SHOWN]}.."
        raise NoPicture(f"matplotlib does not work: {said}") from error


@drawing()
def new_figure(width: float, height: float) -> Any:
    """An empty figure that can be saved without a screen. Raises: NoPicture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def why_none() -> str:
    """Why no picture can be drawn; empty if one can."""
    try:
        new_figure(1, 1)
    except NoPicture as error:
        return str(error)
    return ""


def as_png(figure: Any, *, dpi: int) -> bytes:
    """A figure as the bytes of a PNG."""
    raw = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # or letters of a name that the font lacks
        figure.savefig(raw, dpi=dpi, format="png")
    return raw.getvalue()


def save_curves(entries: list[dict[str, Any]], path: Path, title: str) -> None:
    """Draw loss and learning rate over the steps of a run into a PNG.

    Args: entries: the lines of metrics.jsonl.
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
    axes.set(xlabel="step", ylabel="nats per symbol")
    readable = title.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    axes.set_title(readable, parse_math=False)  # a file's name may hold anything, also a $
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    rates = axes.twinx()
    rates.plot(steps, [e["learning_rate"] for e in entries], color="tab:gray", ls="--", lw=1)
    rates.set_ylabel("learning rate (dashed)", color="tab:gray")
    rates.set_ylim(bottom=0)
    axes.legend(loc="upper right")
    return as_png(figure, dpi=120)


def _smoothed(values: list[float], memory: float = 0.9) -> list[float]:
    """A running mean that forgets: each point is nine parts what was, one part what is new."""
    smooth, weight, out = 0.0, 0.0, []
    for value in values:
        smooth, weight = memory * smooth + (1 - memory) * value, memory * weight + 1 - memory
        out.append(smooth / weight)
    return out
