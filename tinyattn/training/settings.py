"""Chapter 6: what can be set.

Everything that decides a result stands in one of a few dataclasses, is written beside the result,
and can come from a recipe, a file or the command line. A key that does not exist is an error that
suggests the nearest one that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from tinyattn.checks import settle
from tinyattn.limits import brief
from tinyattn.names import nearest
from tinyattn.nn import Module
from tinyattn.services import service
from tinyattn.training.optimizers import Decays, Optimizer, decays_a5, decays_matrices
from tinyattn.training.registry import OPTIMIZERS, make_optimizers
from tinyattn.training.schedule import Schedule

DECAYS: dict[str, Decays] = {"matrices": decays_matrices, "a5": decays_a5}
PRODUCTS = "float32", "tf32", "bfloat16"
"""How exactly a linear map may multiply; all but the first only where a kernel can."""
NEED_GPU = "products {!r} need a GPU: take device 'cuda', or products 'float32'"
BELOW_1 = 1 - 2.0**-24
"""The largest number below 1 in float32."""


@service
def missing_products(xp: Any, how: str) -> str:
    """Why linear maps cannot be computed so here; empty if they can."""
    return "" if how == "float32" else NEED_GPU.format(how)


@service
@contextmanager
def products_in(xp: Any, how: str) -> Iterator[None]:
    """A context in which linear maps of float32 numbers are computed so, in all threads.

    Raises: ValueError for products that the device does not have.
    """
    if how != "float32":
        raise ValueError(NEED_GPU.format(how))
    yield


class SettingError(Exception):
    """A setting does not exist or cannot have this value; one line says which and what to do."""


@dataclass(frozen=True)
class TrainSettings:
    """One stage of training."""

    epochs: int = 10  # passes over the data
    steps: int = 0  # if above 0: this many steps, whatever `epochs` says
    batch: int = 64  # examples a step
    optimizer: str = "muon"  # or another of OPTIMIZERS
    learning_rate: float = 0.02  # its peak
    adam_scale: float = 0.15  # with Muon: AdamW's learning rate as a share of Muon's
    momentum: float = 0.95  # of SGD and Muon
    beta1: float = 0.9  # AdamW's, of the gradient
    beta2: float = 0.95  # and of its square
    eps: float = 1e-8  # AdamW's
    weight_decay: float = 0.1
    decay: str = "matrices"  # which parameters decay: "matrices" or "a5"
    clip: float = 1.0  # largest norm of the gradient
    schedule: str = "linear"  # "constant", "linear", "cosine" or "a5-cyclic"
    warmup: int = 10  # steps; tokens with "a5-cyclic"
    end_epochs: int = 0  # with "a5-cyclic": where its cosine ends, in epochs of the corpus
    floor: float = 0.1  # smallest learning rate, as a share of the peak
    shuffle: bool = True  # a new order every epoch, texts of like length together
    products: str = "float32"  # on a GPU also "tf32" or "bfloat16"

    def __post_init__(self) -> None:
        try:
            settle(
                self, above=("epochs", "batch", "clip", "eps"), kept=("learning_rate",),
                most=dict.fromkeys(("momentum", "beta1", "beta2"), BELOW_1),
            )  # fmt: skip
            self.make_schedule(1, 1)
        except ValueError as error:
            raise SettingError(str(error)) from error
        if not (0 <= self.weight_decay < 1 and 0 < self.adam_scale < 1e6):
            raise SettingError(
                "weight_decay must be in 0..1, and adam_scale above 0 and below 1e6; got "
                f"{self.weight_decay} and {self.adam_scale}"
            )
        if self.optimizer not in OPTIMIZERS:
            raise SettingError(
                f"optimizer must be one of {sorted(OPTIMIZERS)}; got {self.optimizer!r}"
            )
        if self.decay not in DECAYS:
            raise SettingError(f"decay must be one of {sorted(DECAYS)}; got {self.decay!r}")
        if self.products not in PRODUCTS:
            raise SettingError(f"products must be one of {PRODUCTS}; got {self.products!r}")
        if self.schedule == "a5-cyclic" and self.end_epochs < 1:
            raise SettingError("schedule 'a5-cyclic' needs end_epochs, where its cosine ends")

    def total_steps(self, per_epoch: int) -> int:
        """How many steps this stage takes."""
        return self.steps or self.epochs * per_epoch

    def make_optimizers(self, model: Module) -> list[Optimizer]:
        """The optimisers of a model's parameters: together they update all of them."""
        return make_optimizers(
            model, self.optimizer, weight_decay=self.weight_decay, decays=DECAYS[self.decay],
            adam_scale=self.adam_scale, momentum=self.momentum, beta1=self.beta1, beta2=self.beta2,
            eps=self.eps,
        )  # fmt: skip

    def make_schedule(self, total_steps: int, corpus_tokens: int) -> Schedule:
        """The schedule; `corpus_tokens` is A5's documents × context, one epoch of its `end`."""
        end = self.end_epochs * corpus_tokens if self.schedule == "a5-cyclic" else total_steps
        return Schedule(self.schedule, self.learning_rate, self.warmup, end, self.floor)


T = TypeVar("T")


def build(kind: type[T], values: dict[str, Any], where: str) -> T:
    """A settings dataclass from a dictionary.

    Raises: SettingError for a key that does not exist (with the nearest that does), for a value
        of another type, or for one that is out of range.
    """
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    for key, value in values.items():
        if key not in known:
            raise SettingError(f"{where}: no setting {key!r}{nearest(key, known)}")
        wanted = str(known[key].type)
        if type(value).__name__ != wanted and (wanted, type(value)) != ("float", int):
            raise SettingError(
                f"{where}: {key} must be {wanted}; got {type(value).__name__} {brief(value)}"
            )
    try:
        return kind(**values)
    except (ValueError, SettingError, TypeError) as error:
        raise SettingError(f"{where}: {error}") from error
