"""Chapter 6: every optimizer by name.

A new optimizer is a subclass of Optimizer and a line here. Settings, checkpoints and training with
several threads can then use it.
"""

from __future__ import annotations

from typing import Any

from tinyattn.names import nearest
from tinyattn.nn import Module
from tinyattn.training.muon import Muon
from tinyattn.training.optimizers import SGD, AdamW, Decays, Optimizer, decays_matrices

OPTIMIZERS: dict[str, type[Optimizer]] = {
    "sgd": SGD,
    "adamw": AdamW,
    "muon": Muon,
}


def make_optimizers(
    model: Module,
    name: str,
    *,
    weight_decay: float = 0.1,
    decays: Decays = decays_matrices,
    adam_scale: float = 0.15,
    **hyperparameters: float,
) -> list[Optimizer]:
    """The optimizers that together update every parameter of a model.

    The first is the optimizer of this name. AdamW updates the parameters that it does not take.

    Args:
        name: a key of OPTIMIZERS.
        weight_decay, decays: as in `Optimizer`.
        adam_scale: AdamW's learning rate beside another optimizer, as a fraction of that
            optimizer's.
        hyperparameters: of the rules, by name; each goes to every optimizer whose rule has it.
    Raises: ValueError for an unknown name; TypeError for a hyperparameter that no rule has.
    """
    if name not in OPTIMIZERS:
        raise ValueError(unknown_optimizer(name))
    known = {key for optimizer in OPTIMIZERS.values() for key in optimizer.hyperparameters}
    if unknown := [key for key in hyperparameters if key not in known]:
        raise TypeError(f"no optimizer has a {unknown[0]}{nearest(unknown[0], known)}")
    chosen = OPTIMIZERS[name]
    named = list(model.named_parameters())
    taken = [(n, parameter) for n, parameter in named if chosen.takes(parameter)]
    rest = [(n, parameter) for n, parameter in named if not chosen.takes(parameter)]
    common: dict[str, Any] = {"weight_decay": weight_decay, "decays": decays}

    def make(optimizer: type[Optimizer], parameters: Any, **more: Any) -> Optimizer:
        own: dict[str, Any] = {
            key: value for key, value in hyperparameters.items() if key in optimizer.hyperparameters
        }
        return optimizer(parameters, **common, **more, **own)

    return [make(chosen, taken), *([make(AdamW, rest, scale=adam_scale)] if rest else [])]


def unknown_optimizer(name: str) -> str:
    """The error message for a name that is not in OPTIMIZERS."""
    known = sorted(OPTIMIZERS)
    return f"optimizer must be one of {known}; got {name!r}{nearest(name, known, otherwise=False)}"
