"""Wing, commands: the standard streams.

A service, `pythonw`, or `2>&-` in a shell start a program without some of its standard streams.
Python then has None in their place, and the system gives their numbers to the next files that are
opened: what a library prints could end in a checkpoint. So what is closed is opened first, and
leads nowhere.
"""

from __future__ import annotations

import codecs
import os
import sys
from contextlib import suppress

import click


def open_streams() -> None:
    """Open what is closed of the standard streams, and make them take any text in UTF-8."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # the lowest that is free
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # the same bytes under every locale, any file name
            stream.reconfigure(encoding="utf-8", errors="tinyattn")


def complain(message: str) -> None:
    """One line on stderr; nothing if it cannot be written, as to a terminal that was closed.

    Spaces within a line stay: what was typed may be quoted there.
    """
    lines = [line.strip() for line in message.splitlines()]
    with suppress(OSError, ValueError):
        click.echo(f"tinyattn: {' '.join(filter(None, lines))}", err=True)


def note(remark: str) -> None:
    """A remark on stderr about work that goes on, or is done."""
    click.echo(f"note: {remark}", err=True)


def _as_typed(error: UnicodeError) -> tuple[str | bytes, int]:
    """A file name that the locale could not decode goes out as it came in, if that is UTF-8."""
    assert isinstance(error, UnicodeEncodeError)
    try:
        raw = error.object[error.start : error.end].encode("utf-8", "surrogateescape")
        raw.decode("utf-8")
    except UnicodeError:
        return codecs.backslashreplace_errors(error)
    return raw, error.end


codecs.register_error("tinyattn", _as_typed)
