"""Chapter 8, continued: keeping what was learned.

A checkpoint is one safetensors file: every parameter and optimiser moment by a readable name, and
in its header, as JSON, all that is needed to go on: sizes, recipe, vocabulary, step. It holds no
code and none is run when it is read. It is written to a temporary name, forced to the disk, and
renamed, so a crash at any moment leaves either the old file or the new one. Next: a run's log.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyattn.backend import asnumpy

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


def save(path: str | Path, arrays: dict[str, Any], about: dict[str, Any]) -> None:
    """Write a checkpoint: all of it, or nothing.

    Raises: CheckpointError if it cannot be written (a full disk, a read-only folder); an earlier
        file of that name is then untouched.
    """
    from safetensors.numpy import save as to_bytes

    path = Path(path)
    # safetensors would write the buffer of a transposed view in the wrong order (#825).
    host = {name: np.ascontiguousarray(asnumpy(a)).reshape(a.shape) for name, a in arrays.items()}
    raw = to_bytes(host, metadata={FORMAT: json.dumps(about)})
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise CheckpointError(f"{path}: cannot be written: {error.strerror or error}") from error


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
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: no such file") from error
    except (OSError, SafetensorError, ValueError, TypeError, AttributeError) as error:
        # The last two are NumPy's for a type that it does not have, such as bfloat16.
        raise CheckpointError(
            f"{path}: not a checkpoint, or damaged: {str(error).splitlines()[0]}"
        ) from error
    if FORMAT not in header:
        raise CheckpointError(
            f"{path}: a safetensors file, but not a checkpoint of tinyattn ({FORMAT})"
        )
    try:
        about = dict(json.loads(header[FORMAT]))
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: its header is damaged: {error}") from error
    return Checkpoint(arrays, about)


def _sync_folder(folder: Path) -> None:
    """Force the new name to the disk too, where the system can (Windows cannot)."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
