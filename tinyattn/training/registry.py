"""Chapter 6: every optimiser by name.

A new one is a class and a line here. Settings, checkpoints and the step of several threads know it
then.
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
    **numbers: float,
) -> list[Optimizer]:
    """The optimisers that together update every parameter: the one of this name, and AdamW for
    what that one does not take.

    Args:
        adam_scale: beside another optimiser, AdamW's learning rate as a share of that one's.
        numbers: for all whose rules have them; see `Optimizer`.
    Raises: ValueError for another name; TypeError for a number that no rule has.
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"optimizer must be one of {sorted(OPTIMIZERS)}; got {name!r}")
    known = {number for kind in OPTIMIZERS.values() for number in kind.numbers}
    if unknown := [number for number in numbers if number not in known]:
        raise TypeError(f"no optimizer has a {unknown[0]}{nearest(unknown[0], known)}")
    kind = OPTIMIZERS[name]
    named = list(model.named_parameters())
    taken = [(n, parameter) for n, parameter in named if kind.takes(parameter)]
    rest = [(n, parameter) for n, parameter in named if not kind.takes(parameter)]
    common: dict[str, Any] = {"weight_decay": weight_decay, "decays": decays}

    def make(kind: type[Optimizer], share: Any, **more: Any) -> Optimizer:
        own: dict[str, Any] = {
            number: value for number, value in numbers.items() if number in kind.numbers
        }
        return kind(share, **common, **more, **own)

    return [make(kind, taken), *([make(AdamW, rest, scale=adam_scale)] if rest else [])]
