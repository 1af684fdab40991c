"""Chapter 6: checkpoints.

A checkpoint is one safetensors file. It contains every parameter and the optimizer state, each
array under a readable name. Its header contains, as JSON, what a run needs to continue besides its
data: sizes, recipe, vocabulary, step, seed. It contains no code, and loading it runs none. It is
written completely or not at all (data/files.py): after a crash there is the old file or the new
one.
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
"""The file name of a checkpoint in the folder of its run."""
FORMAT = "tinyattn-3"
"""The key of our JSON in the header; its number rises when old files can no longer be read."""


class CheckpointError(Exception):
    """A checkpoint cannot be used; the message names the file and the reason, in one line."""


@dataclass
class Checkpoint:
    """Arrays by name, and everything else as a dictionary that JSON can store."""

    arrays: dict[str, np.ndarray]
    about: dict[str, Any]

    def group(self, prefix: str) -> dict[str, np.ndarray]:
        """The arrays whose names start with `prefix.`, by the rest of their names."""
        start = prefix + "."
        return {n.removeprefix(start): a for n, a in self.arrays.items() if n.startswith(start)}


@contextmanager
def write_errors() -> Iterator[None]:
    """A context manager that raises CheckpointError for a file that cannot be written."""
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
    """Write a checkpoint, completely or not at all.

    Args: beside: other files and their new contents, written together with the checkpoint.
    Raises: CheckpointError if a file cannot be written (a full disk, a read-only folder); an
        earlier checkpoint and the files of `beside` are then unchanged.
    """
    from safetensors.numpy import save as to_bytes

    # safetensors would write the buffer of a transposed view in the wrong order (its issue #825).
    host = {name: np.ascontiguousarray(asnumpy(a)).reshape(a.shape) for name, a in arrays.items()}
    raw = to_bytes(host, metadata={FORMAT: json.dumps(about)})
    with write_errors():
        write_all({**(beside or {}), Path(path): raw})


def load(path: str | Path) -> Checkpoint:
    """Read a checkpoint.

    Raises: CheckpointError if it is missing, damaged, or not a checkpoint of tinyattn.
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
            raise TypeError(f"it has arrays of dtype {', '.join(foreign)}")
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: no such file") from error
    except (OSError, SafetensorError, ValueError, TypeError, AttributeError) as error:
        # The last two are for a dtype that NumPy does not have, such as bfloat16; another package
        # may have added it.
        other = "" if path.suffix == ".safetensors" else "; name a run folder, or its checkpoint"
        raise CheckpointError(
            f"{path}: not a checkpoint, or damaged: {str(error).splitlines()[0]}{other}"
        ) from error
    if older := [key for key in header if key.startswith("tinyattn-") and key != FORMAT]:
        raise CheckpointError(
            f"{path}: written by another version of tinyattn ({older[0]}, and this one reads "
            f"{FORMAT}): train the model again, or use that version"
        )
    if FORMAT not in header:
        raise CheckpointError(
            f"{path}: a safetensors file, but not a checkpoint of tinyattn ({FORMAT})"
        )
    try:
        about = json.loads(header[FORMAT])
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: its header is damaged: {error}") from error
    if not isinstance(about, dict):
        raise CheckpointError(f"{path}: its header is damaged: it is {brief(about)}, not an object")
    return Checkpoint(arrays, about)


KINDS = {str: "a string", dict: "an object", int: f"a whole number from 0 to {MOST_SEED}"}


def check_header(
    file: Path, about: dict[str, Any], wanted: dict[str, type], whose: str = "its"
) -> None:
    """Check that a checkpoint's header has the keys that its reader needs, with the right types.

    Args:
        wanted: the type of each key; one of KINDS.
        whose: how the message calls the owner of the keys.
    Raises: CheckpointError with all missing keys, or with the first key whose value is wrong.
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
    """Whether a value has this type. A bool is not a number here; numbers are at most MOST_SEED.

    A string with half of a surrogate pair is refused, since it cannot be encoded as UTF-8.
    """
    if type(value) is not kind:
        return False
    if isinstance(value, int):
        return 0 <= value <= MOST_SEED
    return not (isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value))


def moments(optimizers: list[Optimizer]) -> dict[str, Array]:
    """The state of the optimizers, by the names of the arrays in a checkpoint."""
    return {
        f"optimizer.{i}.{moment}.{name}": array
        for i, optimizer in enumerate(optimizers)
        for moment, pieces in optimizer.state().items()
        for name, array in pieces.items()
    }


def restore(optimizers: list[Optimizer], saved: Checkpoint, file: Path) -> None:
    """Load the optimizer state and the step from a checkpoint, if all of it fits.

    Raises: CheckpointError with the first array that does not fit.
    """
    own = moments(optimizers)
    kept = {name: a for name, a in saved.arrays.items() if not name.startswith("model.")}
    wrong = [f"{name} is missing" for name in own.keys() - kept.keys()]
    wrong += [f"{name} belongs to no optimizer" for name in kept.keys() - own.keys()]
    for name in own.keys() & kept.keys():
        want, got = own[name], kept[name]
        if (want.shape, want.dtype) != (got.shape, got.dtype):
            wrong.append(f"{name} should be {want.dtype} {want.shape}, is {got.dtype} {got.shape}")
        elif not np.isfinite(got).all():
            wrong.append(f"{name} is not finite")
    if wrong:
        raise CheckpointError(f"{file}: the checkpoint's optimizer state does not fit these "
                              f"settings: {min(wrong)}")  # fmt: skip
    for name, array in own.items():
        array[...] = backend.asarray(kept[name], device=backend.device_of(array).name)
    for optimizer in optimizers:
        optimizer.steps = int(saved.about["step"])
