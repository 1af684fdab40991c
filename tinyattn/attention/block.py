"""Chapter 5, continued: the contract that every attention block keeps.

A block maps x (B, T, C) to a tensor of the same shape. A kind of attention is a class in a file of
its own, with a line in registry.py: `build` makes its parameters, `forward` says how it attends.
What it cannot do honestly `cannot` names with the reason, and the call is refused; the rest it can
do. Next: multi-head attention.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from tinyattn.backend import Array
from tinyattn.graph import recording
from tinyattn.nn import Dropout, Module
from tinyattn.tensor import Tensor

if TYPE_CHECKING:
    from tinyattn.attention.cache import KeyValueCache
    from tinyattn.noise import Noise

ABILITIES = {
    "causal": "be kept from looking into the future",
    "bidirectional": "look both ways",
    "context": "look at another sequence",
    "padding": "leave out keys, the same for every query",
    "mask": "leave out any pairs of query and key",
    "cache": "continue a text from what it stored",
    "rotary": "turn queries and keys by their positions",
    "any length": "take a sequence longer than `longest`",
    "focus": "be told to look at few places",
    "near": "be told to look at near places",
}
"""What a block may be asked to do."""


class Call(NamedTuple):
    """What a call asks for besides x, as `AttentionBlock.__call__` explains it."""

    context: Tensor | None = None
    allowed: Array | None = None
    causal: bool = False
    noise: Noise | None = None
    cache: KeyValueCache | None = None

    @property
    def start(self) -> int:
        """The position of x's first row: as many as the cache holds."""
        return self.cache.length if self.cache else 0


class _Signature:
    """A kind is made with the arguments of every block and the options of its `build`."""

    def __get__(self, block: AttentionBlock | None, kind: type[AttentionBlock]) -> Any:
        if block is not None or kind.__init__ is not AttentionBlock.__init__:
            raise AttributeError("__signature__")  # Python's own answer is right
        common = inspect.signature(kind.__init__)
        own = [p for p in inspect.signature(kind.build).parameters.values()
               if p.kind is p.KEYWORD_ONLY]  # fmt: skip
        return common.replace(parameters=[*common.parameters.values()][1:-1] + own)


class AttentionBlock(Module):
    """What a model may expect of a block.

    Args:
        width: C.
        heads: H; must divide C.
        longest: the longest sequence it will see, for blocks whose parameters depend on it.
        rng: where the first values of the parameters come from.
        dropout: the share of attention weights, and of outputs, that a training pass drops.
        rotary: makes what turns queries and keys of a width by their positions, such as
            nn.Rotary; None for none.
        options: whole numbers, the keywords of the kind's `build`.
    Raises: ValueError if the block cannot be made so; TypeError for an option it does not have.
    """

    cannot: ClassVar[dict[str, str]] = {}  # a name in ABILITIES -> why not
    multiply_adds: ClassVar[str]  # of one sequence forward, a formula in the letters of `sizes`
    kept_numbers: ClassVar[str]  # for backward: queries, keys, values, answers, perhaps weights
    __signature__ = _Signature()

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        longest: int,
        rng: np.random.Generator,
        dropout: float = 0.0,
        rotary: Callable[[int], Callable[..., Tensor]] | None = None,
        **options: int,
    ) -> None:
        if heads < 1 or width % heads:
            raise self._error(f"heads must divide the width; got {heads} and {width}")
        if longest < 1:
            raise self._error(f"longest must be at least 1; got {longest}")
        self._refuse("rotary", rotary is not None)
        own = [p.name for p in inspect.signature(self.build).parameters.values()
               if p.kind is p.KEYWORD_ONLY]  # fmt: skip
        for name in options.keys() - {*own}:
            raise self._error(f"has no option {name!r}; it has {', '.join(own) or 'none'}",
                              TypeError)  # fmt: skip
        self.width, self.heads, self.longest = width, heads, longest
        self.dropout = Dropout(dropout)
        self.rotary = rotary(self.query_width) if rotary else None
        self.build(rng, **options)

    def build(self, rng: np.random.Generator) -> None:
        """Make the parameters. A kind's own options are keywords behind `rng`, with defaults."""
        raise self._error("does not say what its parameters are", NotImplementedError)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        """The answers (B, T, C) to a call that has been checked."""
        raise self._error("does not say how it attends", NotImplementedError)

    def weigh(self, x: Tensor, call: Call) -> Tensor:
        """The attention weights of a call that has been checked."""
        raise self._error("has no attention weights", NotImplementedError)

    def __call__(
        self,
        x: Tensor,
        *,
        context: Tensor | None = None,
        allowed: Array | None = None,
        causal: bool = False,
        noise: Noise | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Let every position of x look at `context` (by default at x itself).

        Args:
            x: (B, T, C).
            context: (B, S, C), where keys and values come from.
            allowed: boolean, broadcasts to (B, H, T, S); True = may attend. A query for which
                nothing is allowed gets zeros from its heads.
            causal: whether each position sees only itself and what is before it. With fewer
                queries than keys the last query stands at the last key.
            noise: the random bits of a training pass; None means no dropout.
            cache: what the block keeps of the text before x, which x continues.
        Returns: (B, T, C).
        Raises: ValueError if shapes do not fit, or if the block cannot do what is asked;
            RuntimeError for a cache while gradients are recorded.
        """
        call = Call(context, allowed, causal, noise, cache)
        self._check(x, call)
        return self.forward(x, call)

    def weights(
        self,
        x: Tensor,
        *,
        context: Tensor | None = None,
        allowed: Array | None = None,
        causal: bool = False,
    ) -> Tensor:
        """The attention weights of such a call, (B, H, T, S); rows sum to 1, or to 0."""
        call = Call(context, allowed, causal)
        self._check(x, call)
        return self.weigh(x, call)

    @property
    def query_width(self) -> int:
        """The numbers in a head's query and key, D."""
        return self.width // self.heads

    def sizes(self) -> dict[str, int]:
        """What the letters of its formulas mean, but for T: C, H, and its own."""
        return {"C": self.width, "H": self.heads}

    def _check(self, x: Tensor, call: Call) -> None:
        """Refuse a call that does not fit, as `__call__` says."""
        context, allowed, causal, _, cache = call
        for name, tensor in (("x", x), ("context", context)):
            if tensor is not None and (tensor.ndim != 3 or tensor.shape[-1] != self.width):
                raise self._error(f"{name} must be (B, T, {self.width}); got {tensor.shape}")
            if tensor is not None and tensor.shape[1] == 0:
                raise self._error(f"{name} must have a position at least")
        if context is not None and context.shape[0] != x.shape[0]:
            raise self._error(f"context must have x's {x.shape[0]} rows; got {context.shape[0]}")
        if context is not None and cache is not None:
            raise self._error("a cache continues x itself; it cannot hold a context")
        if cache is not None and recording():
            raise self._error("a cache keeps no gradients; use it inside no_grad()", RuntimeError)
        same_for_all = allowed is None or allowed.ndim < 2 or allowed.shape[-2] == 1
        self._refuse("causal" if causal else "bidirectional")
        self._refuse("context", context is not None)
        self._refuse("cache", cache is not None)
        self._refuse("padding" if same_for_all else "mask", allowed is not None)
        length = call.start + (x if context is None else context).shape[1]
        if length > self.longest and (reason := self.cannot.get("any length")):
            most = f"made for sequences of at most {self.longest}"
            raise self._error(f"{most}; got {length}; {reason}")

    def _refuse(self, ability: str, asked: bool = True) -> None:
        """Raise a ValueError with the reason, if there is one why this block cannot do that."""
        if asked and ability in self.cannot:
            name, reason = type(self).__name__, self.cannot[ability]
            raise ValueError(f"{name} cannot {ABILITIES[ability]}: {reason}")

    def _error(self, message: str, kind: type[Exception] = ValueError) -> Exception:
        return kind(f"{type(self).__name__}: {message}")
