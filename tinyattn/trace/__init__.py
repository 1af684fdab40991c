"""Wing, trace: what a trained model does inside, measured by looking, changing and counting."""

from tinyattn.trace.cases import Cases, activations, cases_of, parts_of, run
from tinyattn.trace.lens import lens
from tinyattn.trace.attribution import attribution
from tinyattn.trace.knockout import edges, feedforwards, heads, neurons
from tinyattn.trace.patching import patching
from tinyattn.trace.probe import probe
from tinyattn.trace.edit import edited, try_edits
from tinyattn.trace.measures import PARTS, trace

__all__ = [
    "PARTS", "Cases", "activations", "attribution", "cases_of", "edges", "edited", "feedforwards",
    "heads", "lens", "neurons", "parts_of", "patching", "probe", "run", "trace",
    "try_edits",
]  # fmt: skip
