"""Wing, explore: one HTML file from arrays of attention weights.

Python computes, and the script explorer.js draws. The page contains everything: it opens from a
folder or in a mail, without a connection, and requests nothing. The arrays may come from any
library, as NumPy arrays.
"""

from __future__ import annotations

import base64
import html
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from importlib import resources
from typing import Any

import numpy as np

MOST = 1024
"""Largest number of positions: a larger page would be too slow."""
SUM_ERROR = 1e-2
"""Largest distance of the sum of a row of weights from 1; float16 rounds by less."""
FINE = 400_000
"""Up to this number of weights their step is 1/65535; with more, √weight has steps of 1/255."""
LARGEST = 1e30
"""Larger elements would not be finite in the page, which computes in float32."""


class ExploreError(ValueError):
    """Arrays that do not fit; the message names the argument, its shape and the shape wanted."""


@dataclass
class Section:
    """One sequence with its attention weights, and what else is known of it.

    Args:
        tokens: the T tokens of the queries, as text.
        weights: (L, H, T, S), of L layers with H heads.
        title: heading of the section.
        keys: the S tokens of the keys, if they are others, as in cross-attention.
        layers: names of the L layers.
        q: queries (L, H, T, D), after any rotation.
        k: keys (L, H, S', D), S' at most S. Several heads may share one (grouped queries): then
            there are fewer key heads, of which H is a multiple.
        v: values (L, H, S, E); heads may share them, likewise.
        out: output projections (L, H·E, C). With them, the page shows the length of v W_o, and
            without them that of v.
        scale: factor of the scores, one for all layers or one for each; default 1/√D.
        more: other views, for explorer.js: lens, knock-out, patching, influence,
            generation; the layer and head to show first.
    Raises: ExploreError if shapes do not fit, or a row of weights is neither 0 nor of sum 1.
    """

    tokens: Sequence[str]
    weights: Any
    title: str = "attention"
    keys: Sequence[str] | None = None
    layers: Sequence[str] | None = None
    q: Any = None
    k: Any = None
    v: Any = None
    out: Any = None
    scale: Any = None
    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.weights = _array("weights", self.weights, 4)
        L, H, T, S = shape = self.weights.shape
        if not min(shape):
            raise ExploreError(f"weights must not be empty; got {shape}")
        if max(T, S) > MOST:
            raise ExploreError(f"weights must have at most {MOST} positions; got {max(T, S)}")
        _check_texts("tokens", self.tokens, T, f"as weights {shape} have queries")
        hint = "; give the tokens of the keys as `keys`" * (self.keys is None)
        keys, name = (self.tokens, "tokens") if self.keys is None else (self.keys, "keys")
        _check_texts(name, keys, S, f"as weights {shape} have keys", hint)
        if self.layers is not None:
            _check_texts("layers", self.layers, L, f"as weights {shape} have layers")
        self._check_weights()
        if (self.q is None) != (self.k is None):
            raise ExploreError("q and k belong together; give both or neither")
        if self.q is not None:
            self._check_scores()
        if self.v is not None:
            self.v = _shared("v", _array("v", self.v, 4), H)
            if self.v.shape[:3] != (L, H, S):
                raise ExploreError(f"v must be {(L, H, S)} and E; got {self.v.shape}")
        if self.out is not None:
            self.out = _array("out", self.out, 3)
            E = 0 if self.v is None else self.v.shape[-1]
            if self.v is None or self.out.shape[:2] != (L, H * E):
                raise ExploreError(f"out must be {(L, H * E)} and C, with v; got {self.out.shape}")

    def _check_weights(self) -> None:
        """Raises: ExploreError for a negative weight, or a row whose sum is neither 1 nor 0."""
        sums = self.weights.sum(-1)
        for bad, what in (
            ((self.weights < -1e-6).any(-1), "has a negative weight"),
            ((np.abs(sums - 1) > SUM_ERROR) & (sums != 0), "has the sum {sum:.4g}"),
        ):
            for layer, head, query in np.argwhere(bad)[:1]:
                raise ExploreError(
                    "weights must be at least 0, and the sum of each row 1 (or 0 if all is "
                    f"masked); the row of layer {layer}, head {head}, query {query} "
                    f"{what.format(sum=sums[layer, head, query])}: are these scores, before the "
                    "softmax?"
                )
        self.weights = self.weights.clip(0, 1)

    def _check_scores(self) -> None:
        """Raises: ExploreError if q, k or the scale do not fit; a note if they give others."""
        L, H, T, S = self.weights.shape
        self.q, self.k = _array("q", self.q, 4), _shared("k", _array("k", self.k, 4), H)
        D = self.q.shape[-1]
        if self.q.shape != (L, H, T, D) or not D:
            raise ExploreError(f"q must be {(L, H, T)} and D; got {self.q.shape}")
        if (*self.k.shape[:2], self.k.shape[3]) != (L, H, D):
            raise ExploreError(f"k must be {(L, H, S, D)}; got {self.k.shape}")
        if self.k.shape[2] > S:
            raise ExploreError(f"k must have at most {S} positions; got {self.k.shape[2]}")
        try:
            scale = np.asarray(D**-0.5 if self.scale is None else self.scale, np.float64)
            self.scale = np.broadcast_to(scale, (L,))
        except (TypeError, ValueError):
            self.scale = np.full(L, np.nan)
        if not np.isfinite(self.scale).all():
            raise ExploreError(f"scale must be a finite number, or {L} of them, one for each layer")
        if self.k.shape[2] == S:
            scores = self.q @ self.k.swapaxes(-1, -2) * self.scale[:, None, None, None]
            scores = np.where(self.weights > 0, scores, -np.inf)
            top = scores.max(-1, keepdims=True)
            e = np.exp(scores - np.where(np.isfinite(top), top, 0))
            error = np.abs(e / np.maximum(e.sum(-1, keepdims=True), 1e-300) - self.weights).max()
            if error > SUM_ERROR:
                self.more = self.more | {"note_q": (
                    f"The softmax of scale × q·k is not these weights (largest difference "
                    f"{error:.2f}): another scale, a bias or a rotation is missing."
                )}  # fmt: skip

    def adds(self) -> np.ndarray | None:
        """The length of what each value adds to the output if its weight is 1, (L, H, S)."""
        if self.v is None or self.out is None:
            return None if self.v is None else np.asarray(np.linalg.norm(self.v, axis=-1))
        L, H, _, E = self.v.shape
        return np.asarray(np.linalg.norm(self.v @ self.out.reshape(L, H, E, -1), axis=-1))

    def as_dict(self) -> dict[str, Any]:
        """The section as explorer.js reads it."""
        L = self.weights.shape[0]
        more = {k: packed(v) if isinstance(v, np.ndarray) else v for k, v in self.more.items()}
        fine = self.weights.size <= FINE
        steps = self.weights * 65535 if fine else np.sqrt(self.weights) * 255
        return {
            "title": self.title, "tokens": [*self.tokens],
            "keys": None if self.keys is None else [*self.keys],
            "layers": [*(self.layers or [f"layer {i}" for i in range(L)])],
            "weights": packed(np.rint(steps).astype(np.uint16 if fine else np.uint8)),
            "allowed": packed(np.packbits(self.weights > 0, bitorder="little")),
            "q": packed(self.q), "k": packed(self.k),
            "scale": None if self.q is None else [float(s) for s in self.scale],
            "adds": packed(self.adds()), **more,
        }  # fmt: skip


def explore(
    tokens: Sequence[str] | Sequence[Section],
    weights: Any = None,
    *,
    title: str = "Attention",
    notes: Sequence[str] = (),
    **arrays: Any,
) -> str:
    """A page that shows attention weights: one HTML file, as text.

    Either `explore(tokens, weights, q=.., k=..)`, see Section, or `explore([Section(..), ..])` for
    several sequences, which may have different lengths.

        from pathlib import Path
        Path("page.html").write_text(explore(["a", "cat"], weights), encoding="utf-8")

    Args: notes: paragraphs under the title.
    Raises: ExploreError if the arrays do not fit.
    """
    unknown = arrays.keys() - {f.name for f in fields(Section)}
    if unknown or (weights is None and arrays):
        what = f"has no argument {min(unknown)!r}" if unknown else "takes arrays with weights only"
        raise ExploreError(f"explore {what}; it takes tokens and weights, or a list of Sections")
    if weights is None:
        sections: list[Any] = [*tokens] if isinstance(tokens, (list, tuple)) else []
    else:
        sections = [Section(tokens, weights, **arrays)]  # type: ignore[arg-type]
    if not sections or not all(isinstance(section, Section) for section in sections):
        raise ExploreError("explore needs tokens and weights, or a list of Sections")
    return PAGE.format(title=html.escape(title), body=fragment(sections, title=title, notes=notes))


def fragment(sections: Sequence[Section], *, title: str, notes: Sequence[str] = ()) -> str:
    """The explorer without the page around it, for a notebook or a page of your own.

    A page may have several.
    """
    _check_texts("notes", notes, len(notes), "")
    data = {"title": title, "notes": [*notes], "sections": [s.as_dict() for s in sections]}
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    for character in "<>&":  # so that no text can end the script element
        text = text.replace(character, f"\\u{ord(character):04x}")
    here = resources.files("tinyattn.explore")
    style, script = (here.joinpath(f"explorer.{end}").read_text("utf-8") for end in ("css", "js"))
    return (
        f'<div class="tinyattn"><style>{style}</style>'
        f'<script type="application/json">{text}</script></div>\n<script>{script}</script>\n'
    )


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<style>body {{ margin: 0; background: Canvas; color-scheme: light dark; }}</style></head>
<body>{body}</body></html>
"""


def packed(array: np.ndarray | None) -> dict[str, Any] | None:
    """An array for the page: deflated bytes as base64, of uint8, uint16 or float32."""
    if array is None:
        return None
    kind = {"bool": "uint8", "uint8": "uint8", "uint16": "uint16"}.get(array.dtype.name, "float32")
    raw = np.ascontiguousarray(array, f"<{np.dtype(kind).str[1:]}").tobytes()
    return {"type": kind, "shape": [*array.shape],
            "data": base64.b64encode(zlib.compress(raw, 9)).decode("ascii")}  # fmt: skip


def _shared(name: str, array: np.ndarray, heads: int) -> np.ndarray:
    """Keys or values (L, G, S, D) for all heads, if G heads are shared by equally many each."""
    shared = array.shape[1]
    if not shared or heads % shared:
        raise ExploreError(f"{name} must have {heads} heads, or a number that divides it; got "
                           f"{shared}: {array.shape}")  # fmt: skip
    return np.repeat(array, heads // shared, axis=1)


def _check_texts(name: str, texts: Any, count: int, why: str, hint: str = "") -> None:
    """Raises: ExploreError unless these are so many texts that UTF-8 can write."""
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise ExploreError(f"{name} must be a list of texts; got {type(texts).__name__}")
    if len(texts) != count:
        raise ExploreError(f"{name} must be {count}, {why}; got {len(texts)}{hint}")
    for text in texts:
        if not isinstance(text, str):
            raise ExploreError(f"{name} must be texts: the text of each token, not its id")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ExploreError(f"{name} has a text that is not Unicode: {text!r}") from error


def _array(name: str, value: Any, axes: int) -> np.ndarray:
    """A finite float64 array with so many axes."""
    wanted = {3: "(L, H·E, C)", 4: "(L, H, T, S)" if name == "weights" else "(L, H, positions, D)"}
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ExploreError(
            f"{name} must be an array of numbers {wanted[axes]}; a tensor of a GPU or of a graph "
            f"must be copied to a NumPy array first ({' '.join(str(error).split())[:80]})"
        ) from error
    if array.ndim != axes:
        raise ExploreError(f"{name} must have the axes {wanted[axes]}; got shape {array.shape}")
    if not (np.abs(array) < LARGEST).all():
        raise ExploreError(f"{name} must be finite; it has NaN or an element above {LARGEST:.0e}")
    return array
