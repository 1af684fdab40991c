"""Wing, explore: one HTML file from arrays of attention weights.

Python computes, and the script explorer.js draws. The page contains everything: it opens from a
folder or in a mail, without a connection, and requests nothing. The arrays may come from any
library, as NumPy arrays.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import numpy as np

MOST = 1024
"""Largest number of positions: a larger page would be too slow."""
SUM_ERROR = 1e-2
"""Largest distance of the sum of a row of weights from 1; float16 rounds by less."""


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
        q, k: (L, H, T, D) and (L, H, S', D): queries and keys, after any rotation. k may have one
            head for all (H = 1).
        v: (L, H, S, E): values. With `out` (L, H·E, C), their maps to the output, what a head adds
            is measured after them.
        scale: factor of the scores, one for all layers or one for each; default 1/√D.
        causal: whether queries attend to earlier positions only; found in the weights by default.
        more: other views, for explorer.js: lens, knock-out, patching, influence, generation.
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
    causal: bool | None = None
    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.weights = _array("weights", self.weights, 4)
        (L, H, T, S), keys = self.weights.shape, self.tokens if self.keys is None else self.keys
        if not min(L, H, T, S):
            raise ExploreError(f"weights must not be empty; got {self.weights.shape}")
        if max(T, S) > MOST:
            raise ExploreError(f"weights must have at most {MOST} positions; got {max(T, S)}")
        if len(self.tokens) != T:
            raise ExploreError(f"tokens must be {T}, as weights {self.weights.shape} have queries; "
                               f"got {len(self.tokens)}")  # fmt: skip
        if len(keys) != S:
            name = "tokens" if self.keys is None else "keys"
            hint = "; give the tokens of the keys as `keys`" * (self.keys is None)
            raise ExploreError(f"{name} must be {S}, as weights {self.weights.shape} have keys; "
                               f"got {len(keys)}{hint}")  # fmt: skip
        for name, words in (("tokens", self.tokens), ("keys", keys)):
            if not all(isinstance(word, str) for word in words):
                raise ExploreError(f"{name} must be texts: the text of each token, not its id")
        sums = self.weights.sum(-1)
        bad = (np.abs(sums - 1) > SUM_ERROR) & (sums != 0) | (self.weights < 0).any(-1)
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            raise ExploreError(
                "weights must be at least 0, and the sum of each row 1 (or 0 if all is masked); "
                f"the row of layer {at[0]}, head {at[1]}, query {at[2]} has the sum "
                f"{sums[at]:.4g}: are these scores, before the softmax?"
            )
        if (self.q is None) != (self.k is None):
            raise ExploreError("q and k belong together; give both or neither")
        if self.q is not None:
            self.q, self.k = _array("q", self.q, 4), _array("k", self.k, 4)
            D = self.q.shape[-1]
            if self.q.shape[:3] != (L, H, T):
                raise ExploreError(f"q must be {(L, H, T)} and D; got {self.q.shape}")
            if self.k.shape[0] != L or self.k.shape[1] not in (1, H) or self.k.shape[3] != D:
                raise ExploreError(f"k must be {(L, H, S, D)}; got {self.k.shape}")
            if self.k.shape[2] > S:
                raise ExploreError(f"k must have at most {S} positions; got {self.k.shape[2]}")
            self.k = np.broadcast_to(self.k, (L, H, *self.k.shape[2:]))
            scale = 1 / np.sqrt(D) if self.scale is None else self.scale
            self.scale = np.broadcast_to(np.asarray(scale, np.float64), (L,))
        if self.v is not None:
            self.v = _array("v", self.v, 4)
            if self.v.shape[:3] != (L, H, S):
                raise ExploreError(f"v must be {(L, H, S)} and E; got {self.v.shape}")
        if self.layers is not None and len(self.layers) != L:
            raise ExploreError(f"layers must be {L} names; got {len(self.layers)}")
        if self.causal is None:
            self.causal = T == S and not np.triu(self.weights, 1).any()

    def adds(self) -> np.ndarray | None:
        """The length of what each value adds to the output if its weight is 1, (L, H, S)."""
        if self.v is None:
            return None
        if self.out is None:
            return np.asarray(np.linalg.norm(self.v, axis=-1))
        L, H, _, E = self.v.shape
        out = _array("out", self.out, 3)
        if out.shape[:2] != (L, H * E):
            raise ExploreError(f"out must be {(L, H * E)} and C; got {out.shape}")
        return np.asarray(np.linalg.norm(self.v @ out.reshape(L, H, E, -1), axis=-1))

    def as_dict(self) -> dict[str, Any]:
        """The section as explorer.js reads it."""
        L = self.weights.shape[0]
        more = {k: packed(v) if isinstance(v, np.ndarray) else v for k, v in self.more.items()}
        return {
            "title": self.title, "tokens": [*self.tokens],
            "keys": None if self.keys is None else [*self.keys],
            "layers": [*(self.layers or [f"layer {i}" for i in range(L)])],
            "weights": packed(np.rint(self.weights * 255).astype(np.uint8)),
            "q": packed(self.q), "k": packed(self.k),
            "scale": None if self.q is None else [float(s) for s in self.scale],
            "adds": packed(self.adds()), "causal": bool(self.causal), **more,
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
    sections = [*tokens] if weights is None else [Section([*tokens], weights, **arrays)]
    if not sections or not all(isinstance(section, Section) for section in sections):
        raise ExploreError("explore needs tokens and weights, or a list of Sections")
    return PAGE.format(body=fragment(sections, title=title, notes=notes))


def fragment(sections: Sequence[Section], *, title: str, notes: Sequence[str] = ()) -> str:
    """The explorer without the page around it, for a notebook or a page of your own.

    A page may have several.
    """
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
<html lang="en"><head><meta charset="utf-8"><title>Attention</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<style>body {{ margin: 0; background: Canvas; color-scheme: light dark; }}</style></head>
<body>{body}</body></html>
"""


def packed(array: np.ndarray | None) -> dict[str, Any] | None:
    """An array for the page: deflated bytes as base64; float32, or uint8 if it has this type."""
    if array is None:
        return None
    kind = "uint8" if array.dtype.kind in "bu" else "float32"
    raw = np.ascontiguousarray(array, f"<{np.dtype(kind).str[1:]}").tobytes()
    return {"type": kind, "shape": [*array.shape],
            "data": base64.b64encode(zlib.compress(raw, 9)).decode("ascii")}  # fmt: skip


def _array(name: str, value: Any, axes: int) -> np.ndarray:
    """A finite float64 array with so many axes."""
    wanted = {3: "(L, H·E, C)", 4: "(L, H, T, S)" if name == "weights" else "(L, H, positions, D)"}
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError) as error:
        raise ExploreError(
            f"{name} must be an array of numbers {wanted[axes]}; a tensor of a GPU or of a graph "
            f"must be copied to a NumPy array first ({' '.join(str(error).split())[:80]})"
        ) from error
    if array.ndim != axes:
        raise ExploreError(f"{name} must have the axes {wanted[axes]}; got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ExploreError(f"{name} must be finite; it has NaN or an infinite element")
    return array
