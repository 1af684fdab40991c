"""Chapter 6: what a block cannot do, it refuses, with the reason.

A mask that is dropped in silence, or a future that is seen after all, would show nowhere but in the
results. So a block is asked for nothing that it does not do: here stand the abilities that
`AttentionBlock.cannot` may deny, and the checks of every new block and every call. They are put
where block.py calls them.
"""

from __future__ import annotations

import inspect
from typing import Any

from tinyattn.attention import block as contract
from tinyattn.attention.block import AttentionBlock, Call
from tinyattn.graph import recording
from tinyattn.names import nearest
from tinyattn.tensor import Tensor

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


def check_new(block: AttentionBlock, rotary: bool, options: dict[str, int]) -> None:
    """Refuse a block that cannot be made so, as `AttentionBlock` says."""
    width, heads, longest = block.width, block.heads, block.longest
    if heads < 1 or width % heads:
        raise _error(block, f"heads must divide the width; got {heads} and {width}")
    if longest < 1:
        raise _error(block, f"longest must be at least 1; got {longest}")
    if rotary:
        _refuse(block, "rotary")
    known = inspect.signature(type(block)).parameters
    for name in options.keys() - known.keys():
        raise _error(block, f"has no option {name!r}{nearest(name, known)}", TypeError)


def check_call(block: AttentionBlock, x: Tensor, call: Call) -> None:
    """Refuse a call that does not fit, as `AttentionBlock.__call__` says."""
    context, allowed, causal, _, cache = call
    for name, tensor in (("x", x), ("context", context)):
        if tensor is not None and (tensor.ndim != 3 or tensor.shape[-1] != block.width):
            raise _error(block, f"{name} must be (B, T, {block.width}); got {tensor.shape}")
        if tensor is not None and tensor.shape[1] == 0:
            raise _error(block, f"{name} must have a position at least")
    if context is not None and context.shape[0] != x.shape[0]:
        raise _error(block, f"context must have x's {x.shape[0]} rows; got {context.shape[0]}")
    if context is not None and cache is not None:
        raise _error(block, "a cache continues x itself; it cannot hold a context")
    if cache is not None and recording():
        raise _error(block, "a cache keeps no gradients; use it inside no_grad()", RuntimeError)
    _refuse(block, "causal" if causal else "bidirectional")
    if context is not None:
        _refuse(block, "context")
    if cache is not None:
        _refuse(block, "cache")
    if allowed is not None:
        same_for_all = allowed.ndim < 2 or allowed.shape[-2] == 1
        _refuse(block, "padding" if same_for_all else "mask")
    length = call.start + (x if context is None else context).shape[1]
    if length > block.longest and (reason := block.cannot.get("any length")):
        most = f"made for sequences of at most {block.longest}"
        raise _error(block, f"{most}; got {length}; {reason}")


def _refuse(block: AttentionBlock, ability: str) -> None:
    """Raise a ValueError with the reason, if there is one why this block cannot do that."""
    if ability in block.cannot:
        name, reason = type(block).__name__, block.cannot[ability]
        raise ValueError(f"{name} cannot {ABILITIES[ability]}: {reason}")


def _error(block: AttentionBlock, message: str, kind: type[Exception] = ValueError) -> Exception:
    return kind(f"{type(block).__name__}: {message}")


class _Signature:
    """A kind is made with the arguments of every block and the options of its `build`."""

    def __get__(self, block: AttentionBlock | None, kind: type[AttentionBlock]) -> Any:
        if block is not None or kind.__init__ is not AttentionBlock.__init__:
            raise AttributeError("__signature__")  # Python's own answer is right
        common = inspect.signature(kind.__init__)
        own = [p for p in inspect.signature(kind.build).parameters.values()
               if p.kind is p.KEYWORD_ONLY]  # fmt: skip
        return common.replace(parameters=[*common.parameters.values()][1:-1] + own)


contract.check_new, contract.check_call = check_new, check_call
AttentionBlock.__signature__ = _Signature()
