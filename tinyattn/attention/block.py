"""Chapter 2: the interface of attention blocks.

An attention block maps x (B, T, C) to a tensor of the same shape. Each attention type is a subclass
with a name (attention_types.py). `build` creates its parameters, `forward` computes its output, and
`cannot` lists the features that it does not support, with the reasons. A call with such a feature
raises an error (refusals.py). Next: multi-head attention (attention/multihead.py).
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
    from tinyattn.nn.hooks import Hooks
    from tinyattn.rng import DropoutRNG


class Call(NamedTuple):
    """The arguments of a call except x; `AttentionBlock.__call__` explains them."""

    context: Tensor | None = None
    allowed: Array | None = None
    causal: bool = False
    dropout_rng: DropoutRNG | None = None
    cache: KeyValueCache | None = None
    hooks: Hooks | None = None

    @property
    def start(self) -> int:
        """The position of x's first row: the length of the cache, or 0."""
        return self.cache.length if self.cache else 0


Check = Callable[..., None]
check_new: Check = cast(Any, None)
check_call: Check = cast(Any, None)
"""`check_new` raises an error for an invalid block, `check_call` for an invalid call. refusals.py
(chapter 6) replaces both Nones at import, as calls.py replaces `plain` in op.py."""


class AttentionBlock(Module):
    """The base class of all attention blocks.

    Args:
        width: C (d_model).
        heads: H; must divide C.
        max_length: maximum length of a sequence, for types whose parameters depend on it.
        rng: generator of the parameters' initial values.
        dropout: dropout probability of the attention weights and of the output, in training.
        rotary: a function of the width D of a query, such as nn.Rotary. It returns a function that
            rotates queries and keys by their position (derivations/14_rotary.md); None: not used.
        options: integers, passed to `build`; each type has its own.
    Raises: ValueError for a value that is not supported; TypeError for an unknown option.
    """

    cannot: ClassVar[dict[str, str]] = {}  # feature, one of ABILITIES (refusals.py) -> reason
    multiply_adds: ClassVar[str]  # forward, one sequence: a formula such as "4·T·C²" (`sizes`)
    kept_elements: ClassVar[str]  # likewise: elements kept for backward, such as q, k, v, y
    __signature__: ClassVar[Any]  # with the options of `build`, for help() (refusals.py)

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        max_length: int,
        rng: np.random.Generator,
        dropout: float = 0.0,
        rotary: Callable[[int], Callable[..., Tensor]] | None = None,
        **options: int,
    ) -> None:
        self.width, self.heads, self.max_length = width, heads, max_length
        check_new(self, rotary is not None, options)
        self.dropout = Dropout(dropout)
        self.rotary = rotary(self.query_width) if rotary else None
        self.build(rng, **options)

    def build(self, rng: np.random.Generator) -> None:
        """Create the parameters. A type's own options are keywords after `rng`, with defaults."""
        raise NotImplementedError(f"{type(self).__name__}: has no `build` to create parameters")

    def forward(self, x: Tensor, call: Call) -> Tensor:
        """The output (B, T, C) of a call that has been checked."""
        raise NotImplementedError(f"{type(self).__name__}: has no `forward` to compute its output")

    def weigh(self, x: Tensor, call: Call) -> Tensor:
        """The attention weights (B, H, T, S) of a call that has been checked."""
        raise NotImplementedError(f"{type(self).__name__}: has no attention weights")

    def __call__(
        self,
        x: Tensor,
        *,
        context: Tensor | None = None,
        allowed: Array | None = None,
        causal: bool = False,
        dropout_rng: DropoutRNG | None = None,
        cache: KeyValueCache | None = None,
        hooks: Hooks | None = None,
    ) -> Tensor:
        """Each position of x attends to x (self-attention) or to `context` (cross-attention).

        Args:
            x: (B, T, C), which gives the queries.
            context: (B, S, C), which gives keys and values; by default x.
            allowed: boolean attention mask (PyTorch: attn_mask), True = may attend; broadcasts to
                (B, H, T, S). The heads' output for a query without an allowed key is 0.
            causal: whether each position attends only to itself and earlier positions (PyTorch:
                is_causal). The last query always has the position of the last key.
            dropout_rng: random bits for dropout, in training; None means no dropout.
            cache: keys and values of the positions before x; those of x are appended.
            hooks: functions that see or change the weights and the heads' outputs (nn/hooks.py).
        Returns: (B, T, C).
        Raises: ValueError if shapes do not fit, or for an unsupported feature; RuntimeError for a
            cache while gradients are recorded.
        """
        call = Call(context, allowed, causal, dropout_rng, cache, hooks)
        check_call(self, x, call)
        if hooks:
            hooks.weights(self, x, call)
        return self.forward(x, call)

    def weights(self, x: Tensor, *, context: Tensor | None = None, allowed: Array | None = None,
                causal: bool = False) -> Tensor:  # fmt: skip
        """The weights (B, H, T, S) of a call. The sum of a row is 1, or 0 if fully masked."""
        call = Call(context, allowed, causal)
        check_call(self, x, call)
        return self.weigh(x, call)

    @property
    def query_width(self) -> int:
        """D, the width of a query or key of one head."""
        return self.width // self.heads

    def sizes(self) -> dict[str, int]:
        """The values of the letters C, H and the type's own in the formulas; T is the length."""
        return {"C": self.width, "H": self.heads}
