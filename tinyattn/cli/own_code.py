"""Wing, commands: attention types of your own.

`--attention my_module:Window` names a class in a module of yours, or in a file. The command
imports the module, because you named it. A checkpoint that contains such a name imports nothing:
a file from another person must not decide which code runs. So a command that only loads a run needs
`--import`, as in `tinyattn --import my_module generate ..`.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from traceback import extract_tb
from types import ModuleType
from typing import Any

import click

from tinyattn.attention import ATTENTION, ATTENTION_TYPES, AttentionBlock, parse_attention
from tinyattn.attention.lookup import own_class
from tinyattn.cli.streams import note
from tinyattn.cli.types import wrong
from tinyattn.names import nearest

_files: set[str] = set()  # of the modules that the user named


def named_attention(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Callback of --attention: import the class that each `MODULE:CLASS` names.

    Raises: click.BadParameter, which names the option, if there is no such class or type.
    """
    for text in [value] if isinstance(value, str) else value or ():
        module, name = own_class(text)
        kind = text.partition(",")[0].strip()
        if not name and kind not in ATTENTION_TYPES and kind != "all":  # all: of the quickstart
            try:
                parse_attention(kind, ATTENTION_TYPES)
            except ValueError as error:
                hint = "a class of your own is MODULE:CLASS or FILE.py:CLASS"
                raise click.BadParameter(f"{error}; {hint}", param_hint="--attention") from error
        if name:
            with wrong("--attention"):
                found = attention_in(module)
                if name not in found:
                    hint = nearest(name, found) if found else "; it has no AttentionBlock"
                    raise ValueError(f"{module} has no attention type {name!r}{hint}")
    return value


def attention_in(module: str) -> list[str]:
    """Import a module, or a file `NAME.py`, and add its attention types as `MODULE:CLASS`.

    Returns: the names of the classes.
    Raises: ValueError if the module cannot be imported.
    """
    try:
        made = _from_file(module) if module.endswith(".py") else _from_here(module)
    except Exception as error:  # code of the user may raise anything
        raise ValueError(f"cannot import {module}: {type(error).__name__}: {error}") from error
    classes = {
        name: value
        for name, value in vars(made).items()
        if isinstance(value, type) and issubclass(value, AttentionBlock)
        and value.__module__ == made.__name__
    }  # fmt: skip
    ATTENTION.update({f"{module}:{name}": value for name, value in classes.items()})
    _files.add(str(made.__file__))
    for name, value in classes.items():
        _note_unchanged(f"{module}:{name}", value)
    return list(classes)


def _note_unchanged(name: str, kind: type) -> None:
    """Print a note if a class overrides no method, perhaps because a name is misspelt."""
    parent = kind.__bases__[0]
    methods = [key for key, value in vars(kind).items() if callable(value)]
    if parent is not AttentionBlock and not any(hasattr(parent, key) for key in methods):
        hints = [nearest(key, dir(parent), otherwise=False) for key in methods]
        note(f"{name} overrides no method of {parent.__name__}, so it computes the same"
             f"{next(filter(None, hints), '')}")  # fmt: skip


def place_in_own_code(error: BaseException) -> str:
    """The last line of a user's module that an error passed through, with its file and function."""
    passed = [frame for frame in extract_tb(error.__traceback__) if frame.filename in _files]
    return f"{passed[-1].filename}:{passed[-1].lineno}, in {passed[-1].name}" if passed else ""


def _from_here(name: str) -> ModuleType:
    """Import a module, also from the working directory, as `python -m` does."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    return import_module(name)


def _from_file(path: str) -> ModuleType:
    """Run a file as a module. Its name is the path, so it never replaces an installed module."""
    spec = spec_from_file_location(path, path)
    assert spec is not None and spec.loader is not None  # the name ends with .py
    made = module_from_spec(spec)
    sys.modules[path] = made
    spec.loader.exec_module(made)
    return made
