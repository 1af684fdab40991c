"""Chapter 6: keeping what was learned.

A checkpoint is one safetensors file: every parameter and optimiser moment by a readable name, and
in its header, as JSON, what is needed to go on beside the texts: sizes, recipe, vocabulary, step,
seed. It holds no code and none is run when it is read. It is written whole or not at all
(data/files.py), so a crash at any moment leaves either the old file or the new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyattn import backend
from tinyattn.backend import Array, asnumpy
from tinyattn.data.files import Content, write_all
from tinyattn.limits import MOST_SEED, brief
from tinyattn.training.optimizers import Optimizer

CHECKPOINT = "checkpoint.safetensors"
"""What the checkpoint of a run is called, in its folder."""
FORMAT = "tinyattn-2"
"""Where the header keeps our JSON; another number when old files can no longer be read."""


class CheckpointError(Exception):
    """A checkpoint cannot be used; the message says which and why, in one line."""


@dataclass
class Checkpoint:
    """Arrays by name, and everything else as JSON."""

    arrays: dict[str, np.ndarray]
    about: dict[str, Any]

    def group(self, prefix: str) -> dict[str, np.ndarray]:
        """The arrays whose names start with `prefix.`, without it."""
        start = prefix + "."
        return {n.removeprefix(start): a for n, a in self.arrays.items() if n.startswith(start)}


@contextmanager
def write_errors() -> Iterator[None]:
    """Inside, a file that cannot be written is told as a CheckpointError."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise CheckpointError(f"{error.filename}: cannot be written: {why}") from error


def save(
    path: str | Path,
    arrays: dict[str, Any],
    about: dict[str, Any],
    beside: Mapping[Path, Content] | None = None,
) -> None:
    """Write a checkpoint: all of it, or nothing.

    Args: beside: other files, and what they become together with the checkpoint, just before it.
    Raises: CheckpointError if it cannot be written (a full disk, a read-only folder); an earlier
        file of that name is then untouched, and so are the files beside it.
    """
    from safetensors.numpy import save as to_bytes

    # safetensors would write the buffer of a transposed view in the wrong order (#825).
    host = {name: np.ascontiguousarray(asnumpy(a)).reshape(a.shape) for name, a in arrays.items()}
    raw = to_bytes(host, metadata={FORMAT: json.dumps(about)})
    with write_errors():
        write_all({**(beside or {}), Path(path): raw})


def load(path: str | Path) -> Checkpoint:
    """Read a checkpoint.

    Raises: CheckpointError if it is missing, damaged, or not one of ours.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {}
            if FORMAT in header:
                arrays = {name: file.get_tensor(name) for name in file.keys()}
        if foreign := {str(a.dtype) for a in arrays.values() if a.dtype.isbuiltin != 1}:
            raise TypeError(f"it has numbers of type {', '.join(foreign)}")
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: no such file") from error
    except (OSError, SafetensorError, ValueError, TypeError, AttributeError) as error:
        # The last two are for a type that NumPy does not have, such as bfloat16; another package
        # may have taught it one.
        raise CheckpointError(
            f"{path}: not a checkpoint, or damaged: {str(error).splitlines()[0]}"
        ) from error
    if FORMAT not in header:
        raise CheckpointError(
            f"{path}: a safetensors file, but not a checkpoint of tinyattn ({FORMAT})"
        )
    try:
        about = json.loads(header[FORMAT])
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: its header is damaged: {error}") from error
    if not isinstance(about, dict):
        raise CheckpointError(f"{path}: its header is damaged: it is {brief(about)}, no object")
    return Checkpoint(arrays, about)


KINDS = {str: "a text", dict: "an object", int: f"a whole number from 0 to {MOST_SEED}"}


def check_header(
    file: Path, about: dict[str, Any], wanted: dict[str, type], whose: str = "its"
) -> None:
    """See that a checkpoint's header says what its reader needs, before anything is made of it.

    Args:
        wanted: the type of each key: one of KINDS.
        whose: what the keys are told to belong to.
    Raises: CheckpointError with all keys that are missing, or the first whose value is wrong.
    """
    start = f"{file}: does not fit this program: {whose}"
    if missing := wanted.keys() - about.keys():
        raise CheckpointError(f"{start} header lacks {', '.join(sorted(missing))}")
    for key, kind in wanted.items():
        if not _is(value := about[key], kind):
            raise CheckpointError(f"{start} {key} must be {KINDS[kind]}; got {brief(value)}")
    if not about.get("step", 0) <= about.get("steps", MOST_SEED):
        raise CheckpointError(f"{start} step {about['step']} is beyond its steps {about['steps']}")


def _is(value: Any, kind: type) -> bool:
    """Whether a value is of this kind; True is no number, and half a character no text.

    No count and no seed is larger than MOST_SEED.
    """
    if type(value) is not kind:
        return False
    if isinstance(value, int):
        return 0 <= value <= MOST_SEED
    return not (isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value))


def moments(optimizers: list[Optimizer]) -> dict[str, Array]:
    """What the optimisers must keep to go on later, by the names that a checkpoint has."""
    return {
        f"optimizer.{i}.{moment}.{name}": array
        for i, optimizer in enumerate(optimizers)
        for moment, pieces in optimizer.state().items()
        for name, array in pieces.items()
    }


def restore(optimizers: list[Optimizer], saved: Checkpoint, file: Path) -> None:
    """Make the optimisers' moments and step what they were, if all of it fits.

    Raises: CheckpointError with the first array that does not.
    """
    own = moments(optimizers)
    kept = {name: a for name, a in saved.arrays.items() if not name.startswith("model.")}
    wrong = [f"{name} is missing" for name in own.keys() - kept.keys()]
    wrong += [f"{name} belongs to none" for name in kept.keys() - own.keys()]
    for name in own.keys() & kept.keys():
        want, got = own[name], kept[name]
        if (want.shape, want.dtype) != (got.shape, got.dtype):
            wrong.append(f"{name} should be {want.dtype} {want.shape}, is {got.dtype} {got.shape}")
        elif not np.isfinite(got).all():
            wrong.append(f"{name} is not finite")
    if wrong:
        raise CheckpointError(f"{file}: the checkpoint's optimiser state does not fit these "
                              f"settings: {min(wrong)}")  # fmt: skip
    for name, array in own.items():
        array[...] = backend.asarray(kept[name], device=backend.device_of(array).name)
    for optimizer in optimizers:
        optimizer.steps = int(saved.about["step"])
