"""Chapter 4: optimizers.

The gradient points in the direction in which the loss grows, so a step goes the other way. The
*rule* of an optimizer computes the step from the gradient and from the optimizer state: arrays that
the rule keeps for each parameter, here called its *moments*. This file has the base class,
stochastic gradient descent (SGD), AdamW and gradient clipping. Next: one training step
(training/step.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal

from tinyattn.backend import Array, array_module, asnumpy
from tinyattn.dispatch import dispatched
from tinyattn.nn import Parameter, Role

Decays = Callable[[Parameter], bool]


def decays_matrices(parameter: Parameter) -> bool:
    """Weight decay for weight matrices only, not for biases, gains and embedding tables."""
    return parameter.role in (Role.HIDDEN, Role.OUTPUT)


def decays_a5(parameter: Parameter) -> bool:
    """The rule of A5 (assignment 5 of Stanford CS224N): all parameters except biases decay. Unlike
    in `decays_matrices`, gains, embeddings and positions decay too."""
    return parameter.role is not Role.BIAS


class Optimizer:
    """The base class of optimizers. A subclass moves parameters against their gradients by a rule.

    The rule is a function `rule(xp, w, g, *moments, t, lr, decay, **hyperparameters)`. It changes
    the parameter w and its moments in place, and leaves the gradient g as it is. t is the number of
    the step, from 1; lr is the learning rate; decay is the weight decay coefficient, one number
    or an array like w.

    Args:
        named: parameters by name.
        weight_decay: the coefficient for parameters that decay; it is 0 for the others.
        decays: says which parameters decay. Do not change `decays` or `weight_decay` later: a step
            with several threads reads them only when it is created (parallel/flat.py).
        scale: a factor on the learning rate, if two optimizers need different learning rates.
        hyperparameters: hyperparameters that replace defaults in the attribute `hyperparameters`.
    Raises: ValueError without parameters; TypeError if they have two dtypes, or for a
        hyperparameter that the rule does not have.
    """

    rule: ClassVar[Callable[..., None]]
    moments: ClassVar[tuple[str, ...]] = ()  # names of a parameter's state arrays
    hyperparameters: ClassVar[dict[str, float]] = {}  # hyperparameters and their defaults
    alone: ClassVar[Literal["parameter", "matrix", "element"]] = "parameter"
    """The unit that the rule updates without the rest. "parameter": a whole array. "matrix": each
    matrix on the last two axes. "element": each element, so arrays may be split and joined."""

    def __init__(
        self,
        named: Iterable[tuple[str, Parameter]],
        *,
        weight_decay: float = 0.1,
        decays: Decays = decays_matrices,
        scale: float = 1.0,
        **hyperparameters: float,
    ) -> None:
        self.named = dict(named)
        if not self.named:
            raise ValueError(f"{type(self).__name__}: the model has no parameters")
        if len({parameter.dtype for parameter in self.named.values()}) > 1:
            raise TypeError(f"{type(self).__name__}: the parameters must share one dtype")
        if unknown := hyperparameters.keys() - self.hyperparameters.keys():
            raise TypeError(
                f"{type(self).__name__}: has no hyperparameter {', '.join(sorted(unknown))}; "
                f"it has {', '.join(self.hyperparameters)}"
            )
        self.given = {**self.hyperparameters, **hyperparameters}
        self.decayed = {name for name, parameter in self.named.items() if decays(parameter)}
        self.weight_decay, self.scale, self.steps = weight_decay, scale, 0
        self.state_arrays = {
            moment: {name: p.xp.zeros_like(p.data) for name, p in self.named.items()}
            for moment in self.moments
        }

    @staticmethod
    def takes(parameter: Parameter) -> bool:
        """Whether this optimizer can update a parameter. If not, AdamW updates it."""
        return True

    def step(self, learning_rate: float) -> None:
        """Update every parameter by its gradient, and clear the gradient (as zero_grad() does)."""
        self.steps += 1
        for name, w in self.named.items():
            g = w.xp.zeros_like(w.data) if w.grad is None else w.grad
            moments = [self.state_arrays[moment][name] for moment in self.moments]
            self.move(w.data, g, moments, learning_rate, self.decay_of(name))
            w.changed_in_place()
            w.zero_grad()  # so that no gradient is used twice

    def move(
        self, w: Array, g: Array, moments: list[Array], learning_rate: float, decay: Array | float
    ) -> None:
        """Apply the rule to one array."""
        lr = float(learning_rate) * self.scale  # np.float64 would turn float32 into float64
        type(self).rule(
            array_module(w), w, g, *moments, t=self.steps, lr=lr, decay=decay, **self.given
        )

    def decay_of(self, name: str) -> float:
        """The weight decay coefficient of one parameter."""
        return self.weight_decay if name in self.decayed else 0.0

    def state(self) -> dict[str, dict[str, Array]]:
        """The optimizer state that a checkpoint needs: each moment of every parameter, by name."""
        return self.state_arrays


@dispatched
def sgd(
    xp: Any, w: Array, g: Array, m: Array, *, t: int, lr: float, decay: Array | float,
    momentum: float,
) -> None:  # fmt: skip
    """One step of SGD."""
    m[...] = momentum * m + g
    w -= lr * (decay * w + m)


class SGD(Optimizer):
    """SGD with momentum: a heavy ball that rolls downhill, and keeps rolling.

    Forward: m ← βm + g; w ← w - lr·(decay·w + m)
    Source:  Robbins and Monro 1951; Polyak 1964; Sutskever and others 2013, section 2.
             Difference: here weight decay is decoupled from the gradient, as in AdamW
    """

    rule = staticmethod(sgd)
    moments = ("velocity",)
    hyperparameters: ClassVar = {"momentum": 0.95}  # as in Muon (training/muon.py)
    alone = "element"


@dispatched
def adamw(
    xp: Any, w: Array, g: Array, m: Array, v: Array, *, t: int, lr: float, decay: Array | float,
    beta1: float, beta2: float, eps: float,
) -> None:  # fmt: skip
    """One step of AdamW."""
    m[...] = beta1 * m + (1 - beta1) * g
    v[...] = beta2 * v + (1 - beta2) * g**2
    m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
    w -= lr * (decay * w + m_hat / (xp.sqrt(v_hat) + eps))


class AdamW(Optimizer):
    """Adam with decoupled weight decay.

    Each element moves by about the learning rate, whatever the size of its gradient.

    Forward: m ← β₁m + (1-β₁)g; v ← β₂v + (1-β₂)g²;
             w ← w - lr·(decay·w + m̂/(√v̂ + ε)), m̂ = m/(1-β₁ᵗ), v̂ = v/(1-β₂ᵗ)
    Source:  Loshchilov and Hutter 2019, algorithm 2; `lr` scales the decay too, as in PyTorch.
             The hyperparameters are A5's
    """

    rule = staticmethod(adamw)
    moments = ("first", "second")
    hyperparameters: ClassVar = {"beta1": 0.9, "beta2": 0.95, "eps": 1e-8}
    alone = "element"


def clip_gradients(gradients: Sequence[Array], most: float) -> float:
    """Gradient clipping, in place, by the norm of all gradients (PyTorch: clip_grad_norm_).

    Forward: g ← g·most/(norm + 1e-6) if norm > most; norm = √Σ g² over all elements of all arrays
    Returns: the norm before clipping.
    Source:  Pascanu and others 2013, algorithm 1
    """
    norm = math.sqrt(math.fsum(float(asnumpy((g * g).sum())) for g in gradients))
    if most < norm < math.inf:
        for g in gradients:
            g *= most / (norm + 1e-6)
    return norm
