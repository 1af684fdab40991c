"""Chapter 6: the settings of training.

Every setting that decides a result is a field of one of a few dataclasses. It is saved beside the
result, and can come from a recipe, a file or the command line. The error for an unknown key
suggests the nearest known one.
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
from tinyattn.training.optimizer_table import OPTIMIZERS, make_optimizers, unknown_optimizer
from tinyattn.training.optimizers import Decays, Optimizer, decays_a5, decays_matrices
from tinyattn.training.schedule import Schedule

DECAYS: dict[str, Decays] = {"matrices": decays_matrices, "a5": decays_a5}
MATMUL_PRECISIONS = "float32", "tf32", "bfloat16"
"""Precisions of the matrix products in linear layers; all except float32 need a GPU."""
NEED_GPU = "matmul_precision {!r} needs a GPU: take device 'cuda', or matmul_precision 'float32'"
BELOW_1 = 1 - 2.0**-24
"""The largest float32 below 1."""


@service
def why_no_precision(xp: Any, how: str) -> str:
    """Why linear layers cannot compute with this matmul_precision here; empty if they can."""
    return "" if how == "float32" else NEED_GPU.format(how)


@service
@contextmanager
def matmul_precision(xp: Any, how: str) -> Iterator[None]:
    """A context manager that sets the precision of linear layers' float32 matmuls, in all threads.

    Raises: ValueError for a matmul_precision that the device does not have.
    """
    if how != "float32":
        raise ValueError(NEED_GPU.format(how))
    yield


class SettingError(Exception):
    """An unknown setting, or a value that it cannot have; one line names both and what to do."""


@dataclass(frozen=True)
class TrainSettings:
    """One stage of training."""

    epochs: int = 10  # passes over the data
    steps: int = 0  # if above 0: the number of steps; `epochs` is then ignored
    batch: int = 64  # examples per step
    optimizer: str = "muon"  # a key of OPTIMIZERS
    learning_rate: float = 0.02  # the peak of the schedule
    adam_scale: float = 0.15  # with Muon: AdamW's learning rate as a fraction of Muon's
    momentum: float = 0.95  # of SGD and Muon
    beta1: float = 0.9  # of AdamW, for the mean of the gradients
    beta2: float = 0.95  # of AdamW, for the mean of their squares
    eps: float = 1e-8  # of AdamW
    weight_decay: float = 0.1  # coefficient of the decay
    decay: str = "matrices"  # which parameters decay: "matrices" or "a5"
    clip: float = 1.0  # largest gradient norm; larger gradients are scaled down
    schedule: str = "linear"  # "constant", "linear", "cosine" or "a5-cyclic"
    warmup: int = 10  # in steps; in tokens with "a5-cyclic"
    end_epochs: int = 0  # with "a5-cyclic": the epoch in which its cosine ends
    floor: float = 0.1  # smallest learning rate, as a fraction of the peak
    shuffle: bool = True  # a new order every epoch; similar lengths share a batch
    matmul_precision: str = "float32"  # on a GPU also "tf32" or "bfloat16"

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
                "weight_decay must be at least 0 and below 1, and adam_scale above 0 and below "
                f"1e6; got {self.weight_decay} and {self.adam_scale}"
            )
        if self.optimizer not in OPTIMIZERS:
            raise SettingError(unknown_optimizer(self.optimizer))
        if self.decay not in DECAYS:
            raise SettingError(f"decay must be one of {sorted(DECAYS)}; got {self.decay!r}")
        if self.matmul_precision not in MATMUL_PRECISIONS:
            raise SettingError(
                f"matmul_precision must be one of {MATMUL_PRECISIONS}; "
                f"got {self.matmul_precision!r}"
            )
        if self.schedule == "a5-cyclic" and self.end_epochs < 1:
            raise SettingError(
                "schedule 'a5-cyclic' needs end_epochs, the epoch in which its cosine ends; "
                f"got {self.end_epochs}"
            )

    def total_steps(self, per_epoch: int) -> int:
        """The number of steps of this stage."""
        return self.steps or self.epochs * per_epoch

    def make_optimizers(self, model: Module) -> list[Optimizer]:
        """The optimizers of a model; together they update all its parameters."""
        return make_optimizers(
            model, self.optimizer, weight_decay=self.weight_decay, decays=DECAYS[self.decay],
            adam_scale=self.adam_scale, momentum=self.momentum, beta1=self.beta1, beta2=self.beta2,
            eps=self.eps,
        )  # fmt: skip

    def make_schedule(self, total_steps: int, corpus_tokens: int) -> Schedule:
        """The schedule. `corpus_tokens` is one epoch of "a5-cyclic": documents × context."""
        end = self.end_epochs * corpus_tokens if self.schedule == "a5-cyclic" else total_steps
        return Schedule(self.schedule, self.learning_rate, self.warmup, end, self.floor)


T = TypeVar("T")


def build(kind: type[T], values: dict[str, Any], where: str) -> T:
    """A settings dataclass from a dictionary.

    Args: where: the file and table that the values come from, for the message.
    Raises: SettingError for an unknown key (with the nearest known one), for a value of another
        type, or for a value out of range.
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
