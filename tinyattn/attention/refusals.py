"""Chapter 6: a block refuses what it cannot do, and gives the reason.

If a block ignored a mask, or attended to later positions in spite of one, only wrong results would
show it. So a block raises an error instead. This file lists the abilities that a block may lack,
the keys of `AttentionBlock.cannot`, and checks every new block and every call. The last lines
assign the checks to the variables that block.py calls.
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
    "causal": "be causal",
    "bidirectional": "attend to later positions",
    "context": "attend to another sequence",
    "padding": "use a padding mask",
    "mask": "use an attention mask that differs between queries",
    "cache": "use a cache",
    "rotary": "use rotary positions",
    "any length": "take a sequence longer than `max_length`",
    "focus": "be trained to attend to few positions",
    "near": "be trained to attend to near positions",
}
"""What a user may request of a block, in the words of the error: "NAME cannot ...: reason"."""


def check_new(block: AttentionBlock, rotary: bool, options: dict[str, int]) -> None:
    """Raise an error for a block that cannot be made, as `AttentionBlock` says."""
    width, heads, max_length = block.width, block.heads, block.max_length
    if heads < 1 or width % heads:
        raise _error(block, f"heads must divide the width; got {heads} and {width}")
    if max_length < 1:
        raise _error(block, f"max_length must be at least 1; got {max_length}")
    if rotary:
        _refuse(block, "rotary")
    known = inspect.signature(type(block)).parameters
    for name in options.keys() - known.keys():
        raise _error(block, f"has no option {name!r}{nearest(name, known)}", TypeError)


def check_call(block: AttentionBlock, x: Tensor, call: Call) -> None:
    """Raise an error for a call that does not fit, as `AttentionBlock.__call__` says."""
    context, allowed, causal, _, cache, hooks = call
    for name, tensor in (("x", x), ("context", context)):
        if tensor is not None and (tensor.ndim != 3 or tensor.shape[-1] != block.width):
            raise _error(block, f"{name} must be (B, T, {block.width}); got {tensor.shape}")
        if tensor is not None and tensor.shape[1] == 0:
            raise _error(block, f"{name} must have at least one position")
    if context is not None and context.shape[0] != x.shape[0]:
        raise _error(block, f"context must have batch size {x.shape[0]}; got {context.shape[0]}")
    if context is not None and cache is not None:
        raise _error(block, "a cache is for positions of x itself, not of a context")
    if cache is not None and hooks:
        raise _error(block, "hooks need a call without a cache")
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
    if length > block.max_length and (reason := block.cannot.get("any length")):
        most = f"made for sequences of at most {block.max_length}"
        raise _error(block, f"{most}; got {length}; {reason}")


def _refuse(block: AttentionBlock, ability: str) -> None:
    """Raise a ValueError with the reason if this block does not have this ability."""
    if ability in block.cannot:
        name, reason = type(block).__name__, block.cannot[ability]
        raise ValueError(f"{name} cannot {ABILITIES[ability]}: {reason}")


def _error(block: AttentionBlock, message: str, kind: type[Exception] = ValueError) -> Exception:
    return kind(f"{type(block).__name__}: {message}")


class _Signature:
    """A block class takes the arguments of every block and the options of its `build`."""

    def __get__(self, block: AttentionBlock | None, kind: type[AttentionBlock]) -> Any:
        if block is not None or kind.__init__ is not AttentionBlock.__init__:
            raise AttributeError("__signature__")  # Python's own signature is right
        common = inspect.signature(kind.__init__)
        own = [p for p in inspect.signature(kind.build).parameters.values()
               if p.kind is p.KEYWORD_ONLY]  # fmt: skip
        return common.replace(parameters=[*common.parameters.values()][1:-1] + own)


contract.check_new, contract.check_call = check_new, check_call
AttentionBlock.__signature__ = _Signature()
