"""Chapter 2: the contract that every attention block keeps.

A block maps x (B, T, C) to a tensor of the same shape. A kind of attention is a class in a file of
its own, with a line in registry.py: `build` makes its parameters, `forward` says how it attends.
What it cannot do honestly `cannot` names with the reason, and it is refused (refusals.py); the rest
it can do. Next: multi-head attention (attention/multihead.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np

from tinyattn.backend import Array
from tinyattn.nn import Dropout, Module
from tinyattn.tensor import Tensor

if TYPE_CHECKING:
    from tinyattn.attention.cache import KeyValueCache
    from tinyattn.noise import Noise


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


Check = Callable[..., None]
check_new: Check = cast(Any, None)
check_call: Check = cast(Any, None)
"""Refuse a new block, or a call, that cannot be; refusals.py tells how, and puts them here."""


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

    cannot: ClassVar[dict[str, str]] = {}  # "causal", or another of ABILITIES -> why not
    multiply_adds: ClassVar[str]  # of one sequence forward, a formula in the letters of `sizes`
    kept_numbers: ClassVar[str]  # for backward: queries, keys, values, answers, perhaps weights
    __signature__: ClassVar[Any]  # with the options of `build`, for those who look (refusals.py)

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
        self.width, self.heads, self.longest = width, heads, longest
        check_new(self, rotary is not None, options)
        self.dropout = Dropout(dropout)
        self.rotary = rotary(self.query_width) if rotary else None
        self.build(rng, **options)

    def build(self, rng: np.random.Generator) -> None:
        """Make the parameters. A kind's own options are keywords behind `rng`, with defaults."""
        raise NotImplementedError(f"{type(self).__name__}: does not say what its parameters are")

    def forward(self, x: Tensor, call: Call) -> Tensor:
        """The answers (B, T, C) to a call that has been checked."""
        raise NotImplementedError(f"{type(self).__name__}: does not say how it attends")

    def weigh(self, x: Tensor, call: Call) -> Tensor:
        """The attention weights of a call that has been checked."""
        raise NotImplementedError(f"{type(self).__name__}: has no attention weights")

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
        check_call(self, x, call)
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
        check_call(self, x, call)
        return self.weigh(x, call)

    @property
    def query_width(self) -> int:
        """The numbers in a head's query and key, D."""
        return self.width // self.heads

    def sizes(self) -> dict[str, int]:
        """What the letters of its formulas mean, but for T: C, H, and its own."""
        return {"C": self.width, "H": self.heads}
