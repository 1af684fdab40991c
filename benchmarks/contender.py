"""A contender: a process that takes a step for each request (contenders/serving.py)."""

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peers import interpreter, need

HERE = Path(__file__).resolve().parent
THREADS_OF_THE_CALLER = ("OPENBLAS_NUM_THREADS", "OMP_", "MKL_")
"""Environment variables that the contenders do not inherit: each library uses its defaults."""


class ContenderError(Exception):
    """A contender ended; the message is the last line that it wrote."""


@dataclass(frozen=True)
class Program:
    """How to start a contender."""

    peer: str  # whose environment: "tinyattn", or a name in peers.PEERS
    script: str  # in contenders/
    options: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)  # of its environment
    command: str = ""  # a compiler that this way of running it needs


class Contender:
    """A context manager in which a program runs.

    Args: options: those for all contenders; the program's own options come later and override them.
    Raises: Unavailable if the program cannot run here; ContenderError if it ends.
    """

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        if program.command:
            need(program.command)
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        python, script = interpreter(program.peer), HERE / "contenders" / program.script
        self._command = [str(python), str(script), *words, *program.options]
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith(THREADS_OF_THE_CALLER)}  # fmt: skip
        self._environment = {**inherited, "PYTHONPATH": str(HERE.parent), **program.settings}

    def __enter__(self) -> "Contender":
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            self._command, env=self._environment, text=True, bufsize=1, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip
        try:
            while not (line := self._read()).startswith("ready "):
                pass  # a library may print something when it is imported
            self.version = line.removeprefix("ready ").strip()
        except BaseException:  # Ctrl-C too: end the process in every case
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin and self._process.stdout
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
        self._errors.close()

    def step(self) -> dict[str, Any]:
        """Take a step. Returns: what `contenders/serving.py` writes for it."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # its error message is read below
            self._process.stdin.write("step\n")
        answer: dict[str, Any] = json.loads(self._read())
        return answer

    def _read(self) -> str:
        assert self._process.stdout
        line: str = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            lines = self._errors.read().strip().splitlines() or ["it ended without a message"]
            raise ContenderError(lines[-1])
        return line
