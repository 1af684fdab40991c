"""Chapter 11: the picture of a run.

A table of losses says little at a glance, a curve says it all: is it still falling, did the
learning rate make it jump, does the validation loss follow? Needs matplotlib (the extra `plot`).
Next: mechanisms side by side.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any


def available() -> bool:
    """Whether matplotlib is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def save_curves(entries: list[dict[str, Any]], path: Path, title: str) -> None:
    """Draw loss and learning rate over the steps of a run into a PNG.

    Args: entries: the lines of metrics.jsonl.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    steps = [e["step"] for e in entries]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # or letters of a name that the font lacks
        figure.savefig(path, dpi=120)


def _smoothed(values: list[float], memory: float = 0.9) -> list[float]:
    """A running mean that forgets: each point is nine parts what was, one part what is new."""
    smooth, weight, out = 0.0, 0.0, []
    for value in values:
        smooth, weight = memory * smooth + (1 - memory) * value, memory * weight + 1 - memory
        out.append(smooth / weight)
    return out
