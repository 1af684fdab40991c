"""Chapter 4: from gradients to better parameters.

The gradient says in which direction the loss grows; so a step goes the other way. How far, and what
earlier gradients have to say to it, is the *rule* of an optimiser. A rule may remember some arrays
for each parameter, its *moments*. Here is what an optimiser is, then stochastic gradient descent,
and AdamW, which gives every number a step of about the learning rate, whatever the size of its
gradient; and how gradients that are too long are shortened. Next: one training step
(training/step.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from tinyattn.backend import Array, array_module, asnumpy
from tinyattn.dispatch import dispatched
from tinyattn.nn import Parameter, Role

Decays = Callable[[Parameter], bool]


def decays_matrices(parameter: Parameter) -> bool:
    """Weight decay for what features are multiplied with, not for biases, gains and tables."""
    return parameter.role in (Role.HIDDEN, Role.OUTPUT)


def decays_a5(parameter: Parameter) -> bool:
    """A5's rule: all but biases decay, so also gains, the embedding and the positions."""
    return parameter.role is not Role.BIAS


class Optimizer:
    """Moves parameters against their gradients by one rule. A kind of optimiser is a subclass.

    It has a rule, a function `rule(xp, w, g, *moments, t, rate, decay, **numbers)`, which changes
    the parameter w and its moments in place and leaves the gradient g as it is. t is the number of
    the step, from 1; decay is the share of w that a rate of 1 takes away, a number or one for each
    in w.

    Args:
        named: parameters by name.
        weight_decay, decays: the decay, and of which parameters; it is 0 for the others. Both stay
            as they are given: a step of several threads reads them once.
        scale: factor on the learning rate, for use beside another optimiser.
        numbers: those of the rule that shall not be what `numbers` says.
    Raises: ValueError without parameters; TypeError if they are of two precisions, or for a number
        that the rule does not have.
    """

    rule: ClassVar[Callable[..., None]]
    moments: ClassVar[tuple[str, ...]] = ()  # names of what the rule remembers of a parameter
    numbers: ClassVar[dict[str, float]] = {}  # of the rule, by name: what they are by default
    alone: ClassVar[str] = "parameter"
    """What the rule moves by itself: a whole "parameter"; each "matrix" in an array, on its last
    two axes; or each "number", so that arrays may be cut, and joined, anywhere."""

    def __init__(
        self,
        named: Iterable[tuple[str, Parameter]],
        *,
        weight_decay: float = 0.1,
        decays: Decays = decays_matrices,
        scale: float = 1.0,
        **numbers: float,
    ) -> None:
        self.named = dict(named)
        if not self.named:
            raise ValueError(f"{type(self).__name__}: the model has no parameters")
        if len({parameter.dtype for parameter in self.named.values()}) > 1:
            raise TypeError(f"{type(self).__name__}: the parameters must share one precision")
        if unknown := numbers.keys() - self.numbers.keys():
            raise TypeError(f"{type(self).__name__}: has no {', '.join(sorted(unknown))}; "
                            f"it has {', '.join(self.numbers)}")  # fmt: skip
        self.given = {**self.numbers, **numbers}
        self.decayed = {name for name, parameter in self.named.items() if decays(parameter)}
        self.weight_decay, self.scale, self.steps = weight_decay, scale, 0
        self.memory = {
            moment: {name: p.xp.zeros_like(p.data) for name, p in self.named.items()}
            for moment in self.moments
        }

    @staticmethod
    def takes(parameter: Parameter) -> bool:
        """Whether this kind can move such a parameter; AdamW moves what another kind cannot."""
        return True

    def step(self, learning_rate: float) -> None:
        """Move every parameter against the gradient that `backward` left, and clear that."""
        self.steps += 1
        for name, w in self.named.items():
            g = w.xp.zeros_like(w.data) if w.grad is None else w.grad
            moments = [self.memory[moment][name] for moment in self.moments]
            self.move(w.data, g, moments, learning_rate, self.decay_of(name))
            w.changed_in_place()
            w.zero_grad()  # each gradient counts once

    def move(
        self, w: Array, g: Array, moments: list[Array], learning_rate: float, decay: Array | float
    ) -> None:
        """Apply the rule to one array."""
        rate = float(learning_rate) * self.scale  # np.float64 would widen float32
        type(self).rule(
            array_module(w), w, g, *moments, t=self.steps, rate=rate, decay=decay, **self.given
        )

    def decay_of(self, name: str) -> float:
        """The decay of one parameter."""
        return self.weight_decay if name in self.decayed else 0.0

    def state(self) -> dict[str, dict[str, Array]]:
        """What must be kept to go on later: each moment of every parameter, by name."""
        return self.memory


@dispatched
def sgd(
    xp: Any, w: Array, g: Array, m: Array, *, t: int, rate: float, decay: Array | float,
    momentum: float,
) -> None:  # fmt: skip
    """One step of SGD."""
    m[...] = momentum * m + g
    w -= rate * (decay * w + m)


class SGD(Optimizer):
    """Stochastic gradient descent with momentum: a ball that rolls downhill, and keeps rolling.

    Forward: m ← βm + g; w ← w - rate·(decay·w + m)
    Source:  Robbins and Monro 1951; Polyak 1964; Sutskever and others 2013, section 2. Differs: the
             weights decay by themselves, as in AdamW, not by way of the gradient
    """

    rule = staticmethod(sgd)
    moments = ("velocity",)
    numbers: ClassVar = {"momentum": 0.95}  # that of Muon, so that one setting does for both
    alone = "number"


@dispatched
def adamw(
    xp: Any, w: Array, g: Array, m: Array, v: Array, *, t: int, rate: float, decay: Array | float,
    beta1: float, beta2: float, eps: float,
) -> None:  # fmt: skip
    """One step of AdamW."""
    m[...] = beta1 * m + (1 - beta1) * g
    v[...] = beta2 * v + (1 - beta2) * g**2
    m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
    w -= rate * (decay * w + m_hat / (xp.sqrt(v_hat) + eps))


class AdamW(Optimizer):
    """Adam with decoupled weight decay.

    Forward: m ← β₁m + (1-β₁)g; v ← β₂v + (1-β₂)g²;
             w ← w - rate·(decay·w + m̂/(√v̂ + ε)), m̂ = m/(1-β₁ᵗ), v̂ = v/(1-β₂ᵗ)
    Source:  Loshchilov and Hutter 2019, algorithm 2; the rate scales the decay too, as in PyTorch.
             The numbers are A5's
    """

    rule = staticmethod(adamw)
    moments = ("first", "second")
    numbers: ClassVar = {"beta1": 0.9, "beta2": 0.95, "eps": 1e-8}
    alone = "number"


def clip_gradients(gradients: Sequence[Array], most: float) -> float:
    """Shorten all gradients together to a norm of `most`, if it is more; returns what it was.

    Forward: g ← g·most/(norm + 1e-6) if norm > most; norm = √Σ g², over all numbers there are
    Source:  Pascanu and others 2013, algorithm 1
    """
    norm = math.sqrt(math.fsum(float(asnumpy((g * g).sum())) for g in gradients))
    if most < norm < math.inf:
        for g in gradients:
            g *= most / (norm + 1e-6)
    return norm
