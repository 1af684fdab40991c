"""Chapter 3: hooks, functions that see or change what a model computes inside.

The output of a model does not show how it came about. To find out, look at an activation (an array
that a model computes on the way), or change one and compare the outputs. Each activation has a
name, as each parameter has. The code of a model calls its hooks at each activation; without hooks
nothing happens there. Next: an embedding and other modules (nn/layers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tinyattn.tensor import Tensor

if TYPE_CHECKING:
    from tinyattn.attention.block import Call

Hook = Callable[[Tensor], Tensor | None]


class NoActivation(ValueError):
    """A model does not have the activation, or not in the form that is needed."""


class Hooks:
    """The hooks of one call of a model, by the names of activations.

    A hook is a function of the activation. If it returns a tensor, the model continues with this
    one; if it returns None, with the activation as it is. A model has these activations:

        embedding                     (B, T, C)      vectors of the tokens, plus those of positions
        layers.0.attention.weights    (B, H, T, S)   attention weights
        layers.0.attention.heads      (B, H, T, D)   outputs of the heads
        layers.0.attention            (B, T, C)      what attention adds to the residual stream
        layers.0.feedforward.hidden   (B, T, F)      neurons: hidden layer of the feed-forward
        layers.0.feedforward          (B, T, C)      what it adds to the residual stream
        layers.0                      (B, T, C)      residual stream after the layer

    Source: forward hooks of PyTorch; the names are those of the parameters
    """

    def __init__(self, functions: Mapping[str, Hook] | None = None) -> None:
        self.functions = dict(functions or {})
        self.called: set[str] = set()
        self.prefix = ""
        self.changed_weights: Tensor | None = None  # of the block whose hooks these are

    def __bool__(self) -> bool:
        return bool(self.functions)

    def inside(self, part: str) -> Hooks:
        """The same hooks for the code of a part of the model, such as "layers.0"."""
        if not self.functions:
            return self
        inner = Hooks()
        inner.functions, inner.called = self.functions, self.called
        inner.prefix = f"{self.prefix}{part}."
        return inner

    def __call__(self, name: str, x: Tensor) -> Tensor:
        """Call the hook of an activation, if it has one: x, or what the hook returns instead.

        Raises: ValueError if that is no tensor of the same shape, dtype and device.
        """
        hook = self.functions.get(self.prefix + name) if self.functions else None
        if hook is None:
            return x
        self.called.add(self.prefix + name)
        y = hook(x)
        if y is None:
            return x
        form, wanted = _form(y), _form(x)
        if form != wanted:
            raise ValueError(
                f"the hook of {self.prefix + name} must return a tensor {wanted}; got {form}"
            )
        return y

    def weights(self, block: Any, x: Tensor, call: Call) -> None:
        """Call the hook of a block's attention weights (without dropout), if it has one."""
        if self.prefix + "weights" in self.functions:
            try:
                weights = block.weigh(x, call._replace(dropout_rng=None))
            except NotImplementedError as error:
                raise NoActivation(f"hooks: {error}") from error
            changed = self("weights", weights)
            self.changed_weights = None if changed is weights else changed

    def heads(self, block: Any, x: Tensor, y_BHTD: Tensor, call: Call) -> Tensor:
        """The outputs of a block's heads, after the hooks of its weights and of its heads.

        If the weights were changed, the outputs are these weights times the values, also in
        training (without dropout of the weights).
        """
        if self.changed_weights is not None:
            y_BHTD = self.changed_weights @ block.weighted_values(x, call)
        return self("heads", y_BHTD)

    def check(self, layers: int) -> None:
        """Check that each hook has been called, in a model with so many layers.

        Raises: NoActivation for the first that has not, with the names that exist.
        """
        for name in sorted(self.functions.keys() - self.called):
            known = activation_names(layers)
            raise NoActivation(
                f"hooks: the attention type has no activation {name!r}" if name in known else
                f"hooks: no activation {name!r}; there are {', '.join(known)}"
            )  # fmt: skip


NO_HOOKS = Hooks()
"""The hooks of a call without hooks."""


def weight_hooks(layers: int, into: list[Tensor]) -> dict[str, Hook]:
    """Hooks that append the attention weights of each layer to a list."""
    return {f"layers.{i}.attention.weights": into.append for i in range(layers)}


def activation_names(layers: int) -> list[str]:
    """The names of all activations of a model with so many layers."""
    parts = ("attention.weights", "attention.heads", "attention", "feedforward.hidden",
             "feedforward", "")  # fmt: skip
    return ["embedding", *(f"layers.{i}.{part}".rstrip(".") for i in range(layers)
                           for part in parts)]  # fmt: skip


def _form(x: Any) -> str:
    """Shape, dtype and device of a tensor, as text."""
    return f"{x.shape} {x.dtype} {x.device}" if isinstance(x, Tensor) else type(x).__name__
