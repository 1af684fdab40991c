"""Wing, commands: the standard streams.

A service, `pythonw`, or `2>&-` in a shell start a program without some of its standard streams.
In Python these streams are None, and the system gives their numbers to the next files that are
opened: the output of a library could end up in a checkpoint. So this file first opens the closed
streams on the null device.
"""

from __future__ import annotations

import codecs
import os
import sys
from contextlib import suppress

import click


def open_streams() -> None:
    """Open the standard streams that are closed, and let stdout and stderr write any text."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # it takes the lowest free number
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # the same bytes in every locale, and any file name
            stream.reconfigure(encoding="utf-8", errors="tinyattn")


def complain(message: str) -> None:
    """Print one line on stderr; do nothing if that fails, as for a terminal that was closed.

    Spaces within a line stay, since the message may quote an argument.
    """
    lines = [line.strip() for line in message.splitlines()]
    with suppress(OSError, ValueError):
        click.echo(f"tinyattn: {' '.join(filter(None, lines))}", err=True)


def note(remark: str) -> None:
    """Print a remark on stderr; the command continues."""
    click.echo(f"note: {remark}", err=True)


def _as_typed(error: UnicodeError) -> tuple[str | bytes, int]:
    """Encode a file name that the locale could not decode as its own bytes, if they are UTF-8."""
    assert isinstance(error, UnicodeEncodeError)
    try:
        raw = error.object[error.start : error.end].encode("utf-8", "surrogateescape")
        raw.decode("utf-8")
    except UnicodeError:
        return codecs.backslashreplace_errors(error)
    return raw, error.end


codecs.register_error("tinyattn", _as_typed)
