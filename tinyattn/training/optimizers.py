"""Chapter 8, continued: from gradients to better parameters.

AdamW gives every number a step of about the learning rate, whatever the size of its gradient. Muon
looks at a weight matrix as a whole and makes every direction in it move equally far; only hidden
matrices have such directions, so the rest is left to AdamW. Which parameters decay, and which are
hidden matrices, is told by their names: those that the models of chapter 6 give. Next: the
settings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from itertools import groupby
from typing import Any

from tinyattn.backend import Array, on_gpu
from tinyattn.dispatch import dispatched
from tinyattn.kernels.cpu.tiles import tiles
from tinyattn.nn import Module, Parameter
from tinyattn.training.orthogonal import orthogonal
from tinyattn.training.parameters import FlatParameters

Decays = Callable[[str], bool]


def decays_matrices(name: str) -> bool:
    """Weight decay for what is multiplied with, not for biases, gains and tables."""
    return name.endswith(".weight") and not name.startswith(("embedding.", "positions."))


def decays_a5(name: str) -> bool:
    """A5's rule: all but biases decay, so also gains, the embedding and the positions."""
    return "bias" not in name


class AdamW:
    """Adam with decoupled weight decay.

    Forward: m ← β₁m + (1-β₁)g; v ← β₂v + (1-β₂)g²;
             w ← w - rate·(decay·w + m̂/(√v̂ + ε)), m̂ = m/(1-β₁ᵗ), v̂ = v/(1-β₂ᵗ)
    Source:  Loshchilov and Hutter 2019, algorithm 2; the rate scales the decay too, as in PyTorch

    Args:
        named: parameters by name; they are moved into one flat array, those that decay first.
        betas, eps, weight_decay: β₁ and β₂, ε, decay. The defaults are A5's.
        decays: which names decay.
        scale: factor on the learning rate, for use beside another optimiser.
    """

    def __init__(
        self,
        named: Iterable[tuple[str, Parameter]],
        *,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.1,
        decays: Decays = decays_matrices,
        scale: float = 1.0,
    ) -> None:
        ordered = sorted(named, key=lambda item: not decays(item[0]))
        self.flat = FlatParameters(ordered)
        self.decayed = sum(p.size for name, p in ordered if decays(name))
        self.betas, self.eps, self.weight_decay, self.scale = betas, eps, weight_decay, scale
        self.first = self.flat.xp.zeros_like(self.flat.values)  # m
        self.second = self.flat.xp.zeros_like(self.flat.values)  # v
        self.steps = 0

    def step(self, learning_rate: float, executor: Executor | None = None) -> None:
        """Move the parameters against the gradients that `backward` left, and clear these.

        Args: executor: of a trainer, which has put the gradients into `flat.grads` itself; its
            threads share the work.
        """
        if executor is None:
            self.flat.collect()
        self.steps += 1
        rate = float(learning_rate) * self.scale  # np.float64 would widen float32
        (b1, b2), xp = self.betas, self.flat.xp
        # rate·m̂/(√v̂ + ε) is this rate times m/(√v + this ε)
        correct = math.sqrt(1 - b2**self.steps)
        corrected_rate, corrected_eps = rate * correct / (1 - b1**self.steps), self.eps * correct

        def update(tile: slice) -> None:
            adamw(
                xp, self.flat.values[tile], self.flat.grads[tile], self.first[tile],
                self.second[tile], b1, b2, corrected_rate, corrected_eps,
                1 - rate * self.weight_decay, max(0, self.decayed - tile.start),
            )  # fmt: skip

        list((executor.map if executor else map)(update, tiles(len(self.flat.values), 1)))
        self.flat.changed()
        if executor is None:
            self.flat.grads[...] = 0  # each gradient counts once

    def state(self) -> dict[str, dict[str, Array]]:
        """What must be kept to go on later: the two moments of every parameter, by name."""
        return {"first": self.flat.views(self.first), "second": self.flat.views(self.second)}


@dispatched
def adamw(
    xp: Any, w: Array, g: Array, m: Array, v: Array, b1: float, b2: float, rate: float, eps: float,
    shrink: float, decayed: int,
) -> None:  # fmt: skip
    """Move the moments m and v to the gradient g, and the parameters w by them, in place.

    Forward: m ← β₁m + (1-β₁)g; v ← β₂v + (1-β₂)g²; w ← w·shrink for the first `decayed` ones;
             w ← w - rate·m/(√v + ε)
    Shapes:  (N,) each
    """
    m *= b1
    m += g * (1 - b1)
    v *= b2
    v += g * g * (1 - b2)
    size = xp.sqrt(v)
    size += eps
    move = m / size
    move *= rate
    w[:decayed] *= shrink
    w -= move


class Muon:
    """Momentum, orthogonalised: every direction of a weight matrix moves equally far.

    Forward: m ← βm + g; u = orthogonal(g + βm); w ← w - rate·(decay·w + s·u),
             s = √max(1, n_out/n_in)
    Source:  Jordan and others 2024 (KellerJordan/Muon), with decoupled weight decay

    An update costs the same whatever the batch: at A5's size and batch 64 a twentieth of a training
    step (benchmarks/muon.py).

    Args:
        named: two-dimensional parameters by name, weights (n_in, n_out).
        momentum: β.
        weight_decay: decay.
    """

    def __init__(
        self,
        named: Iterable[tuple[str, Parameter]],
        *,
        momentum: float = 0.95,
        weight_decay: float = 0.1,
    ) -> None:
        named = list(named)
        if named and on_gpu(named[0][1].xp):
            named.sort(key=lambda item: item[1].shape)  # so that those of one shape lie together
        self.flat = FlatParameters(named)
        for name, parameter in self.flat.named.items():
            if parameter.ndim != 2:
                raise ValueError(f"Muon: {name} must be a matrix; it has shape {parameter.shape}")
        self.momentum, self.weight_decay = momentum, weight_decay
        self.velocity = self.flat.xp.zeros_like(self.flat.values)  # m
        self.steps = 0

    def step(self, learning_rate: float, executor: Executor | None = None) -> None:
        """Move the parameters by the gradients that `backward` left, and clear these.

        Args: executor: of a trainer, which has put the gradients into `flat.grads` itself; its
            threads share the work.
        """
        if executor is None:
            self.flat.collect()
        self.steps += 1
        rate = float(learning_rate)  # np.float64 would widen float32
        xp, in_turn = self.flat.xp, executor.map if executor else map

        def prepare(tile: slice) -> None:
            w, g, m = self.flat.values[tile], self.flat.grads[tile], self.velocity[tile]
            shrink = 1 - rate * self.weight_decay
            muon_momentum(xp, w, g, m, self.momentum, shrink)

        def move(pair: tuple[Array, Array]) -> None:
            w, g = pair
            u = orthogonal(xp, g)
            u *= rate * math.sqrt(max(1.0, w.shape[-1] / w.shape[-2]))
            w -= u

        list(in_turn(prepare, tiles(len(self.flat.values), 1)))
        pairs = zip(self._matrices(self.flat.values), self._matrices(self.flat.grads), strict=True)
        list(in_turn(move, sorted(pairs, key=lambda pair: -pair[0].size)))  # so all end together
        self.flat.changed()
        if executor is None:
            self.flat.grads[...] = 0  # each gradient counts once

    def _matrices(self, flat: Array) -> list[Array]:
        """The pieces of an array laid out like the parameters; on a GPU, which is faster at few
        large things, those of one shape as one stack."""
        pieces = self.flat.views(flat)
        if not on_gpu(self.flat.xp):
            return list(pieces.values())
        stacks, start = [], 0
        for shape, alike in groupby(pieces.values(), lambda piece: piece.shape):
            stack = (len(list(alike)), *shape)
            stacks.append(flat[start : start + math.prod(stack)].reshape(stack))
            start += math.prod(stack)
        return stacks

    def state(self) -> dict[str, dict[str, Array]]:
        """What must be kept to go on later: the momentum of every parameter, by name."""
        return {"velocity": self.flat.views(self.velocity)}


@dispatched
def muon_momentum(xp: Any, w: Array, g: Array, m: Array, momentum: float, shrink: float) -> None:
    """What comes before the matrices, in place.

    Forward: m ← βm + g; g ← g + βm; w ← w·shrink
    Shapes:  (N,) each
    """
    m *= momentum
    m += g
    g += momentum * m
    w *= shrink


Optimizer = AdamW | Muon


def is_hidden_matrix(name: str, parameter: Parameter) -> bool:
    """Muon's share: the matrices of the layers (`blocks`), not embedding, positions or head."""
    return parameter.ndim == 2 and name.startswith("blocks.")


def make_optimizers(
    model: Module,
    name: str,
    *,
    weight_decay: float = 0.1,
    decays: Decays = decays_matrices,
    adam_scale: float = 0.15,
) -> list[Optimizer]:
    """The optimisers that together update every parameter: "adamw", or "muon" with AdamW.

    Args:
        adam_scale: with Muon, AdamW's learning rate as a share of Muon's.
    Raises: ValueError for another name.
    """
    named = list(model.named_parameters())
    if name == "adamw":
        return [AdamW(named, weight_decay=weight_decay, decays=decays)]
    if name != "muon":
        raise ValueError(f"optimizer must be 'adamw' or 'muon'; got {name!r}")
    rest = [item for item in named if not is_hidden_matrix(*item)]
    return [
        Muon([item for item in named if is_hidden_matrix(*item)], weight_decay=weight_decay),
        AdamW(rest, weight_decay=weight_decay, decays=decays, scale=adam_scale),
    ]
