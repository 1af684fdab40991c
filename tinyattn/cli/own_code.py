"""Wing, commands: attention types of your own.

`--attention my_module:Window` names a class in a module of yours, or in a file. The command
imports the module, because you named it. A checkpoint that contains such a name imports nothing:
a file from another person must not decide which code runs. So a command that only loads a run needs
`--import`, as in `tinyattn --import my_module generate ..`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isfunction, signature
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any

import click
import numpy as np

from tinyattn.attention import (
    ATTENTION,
    ATTENTION_TYPES,
    AttentionBlock,
    MultiHead,
    influence,
    parse_attention,
    split_heads,
)
from tinyattn.attention.block import Call
from tinyattn.attention.lookup import own_class
from tinyattn.cli.streams import note
from tinyattn.cli.types import wrong
from tinyattn.data.text import similar_file
from tinyattn.names import nearest
from tinyattn.tensor import Tensor

_files: set[str] = set()  # of the modules that the user named


class OwnCodeError(Exception):
    """An error in an attention type of the user. The message begins with its place."""


def named_attention(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Callback of --attention: import the class that each `MODULE:CLASS` names.

    Raises: click.BadParameter, which names the option, if there is no such class or type.
    """
    for text in [value] if isinstance(value, str) else value or ():
        module, name = own_class(text)
        typed = text.partition(",")[0].strip()
        if not name and typed not in ATTENTION_TYPES and typed != "all":  # all: of the quickstart
            try:
                parse_attention(typed, ATTENTION_TYPES)
            except ValueError as error:
                file = typed if typed.endswith(".py") else "FILE.py"
                hint = f"a class of your own is MODULE:CLASS or {file}:CLASS"
                raise click.BadParameter(f"{error}; {hint}", param_hint="--attention") from error
        if name:
            with wrong("--attention"):
                found = attention_in(module)
                if name not in found:
                    derive = "; derive a class from MultiHead or AttentionBlock"
                    hint = nearest(name, found) if found else derive
                    raise ValueError(f"{module} has no attention type {name!r}{hint}")
                _check_methods(f"{module}:{name}")
                options = parse_attention(text, ATTENTION)[1]
                _check_result(f"{module}:{name}", options, for_gpt=ctx.info_name != "compare")
    return value


def module_of(module: str) -> ModuleType:
    """Import a module, or a file `NAME.py`. Raises: ValueError if it cannot be imported."""
    try:
        return _from_file(module) if module.endswith(".py") else _from_here(module)
    except Exception as error:  # code of the user may raise anything
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        lines = [line for frame, line in walk_tb(error.__traceback__)
                 if frame.f_code.co_filename == os.path.abspath(module)]  # fmt: skip
        place = f" (line {lines[-1]})" if lines else ""
        raise ValueError(f"cannot import {module}: {kind}{error}{place}") from error


def attention_in(module: str) -> list[str]:
    """Import a module, or a file `NAME.py`, and add its attention types as `MODULE:CLASS`.

    Returns: the names of the classes.
    Raises: ValueError if the module cannot be imported.
    """
    made = module_of(module)
    classes = {
        name: value
        for name, value in vars(made).items()
        if isinstance(value, type) and issubclass(value, AttentionBlock)
        and value.__module__ == made.__name__
    }  # fmt: skip
    ATTENTION.update({f"{module}:{name}": value for name, value in classes.items()})
    _files.add(str(made.__file__))
    return list(classes)


def _check_methods(name: str) -> None:
    """Check what a class overrides; print a note for a name that is perhaps misspelt.

    Raises: ValueError for a method that does not take the arguments of the one that it overrides,
        or for such a name in a class that overrides nothing.
    """
    classes = ATTENTION[name].__mro__
    parent = next(c for c in classes if c.__module__.startswith("tinyattn."))
    own = {key: value for c in reversed(classes[: classes.index(parent)])
           for key, value in vars(c).items() if not key.startswith("__")}  # fmt: skip
    for key, value in own.items():
        replaced = getattr(parent, key, None)
        if key != "build" and isfunction(value) and isfunction(replaced):
            given, needed = signature(value), signature(replaced)
            try:
                given.bind(*needed.parameters)
            except TypeError:
                raise ValueError(
                    f"{name}: {key} must take {needed.replace(return_annotation=needed.empty)}; "
                    f"got {given}"
                ) from None
    for key, value in own.items():
        near = get_close_matches(key, [one for one in dir(parent) if one not in own], cutoff=0.8)
        if isfunction(value) and near and not hasattr(parent, key):
            misspelt = (f"{name} has a method {key!r}, but {parent.__name__} has none; did you "
                        f"mean {near[0]!r}?")  # fmt: skip
            if parent is not AttentionBlock and not any(hasattr(parent, other) for other in own):
                raise ValueError(misspelt)  # it would compute the same as its parent
            note(misspelt)
    if parent is not AttentionBlock and not any(hasattr(parent, key) for key in own):
        note(f"{name} overrides nothing of {parent.__name__}, so it computes the same")


def _check_result(name: str, options: dict[str, int], *, for_gpt: bool) -> None:
    """Call a small block. An exception is left to the model, which names its place.

    Raises: ValueError if a result is no tensor of the right shape, or, for a GPT, if it depends on
        later positions.
    """
    results = _results(ATTENTION[name], options)
    while True:
        try:
            what, tensor, shape = next(results)
        except Exception:  # also the end; training raises any other exception again
            return
        if what == LATER and tensor and for_gpt:
            raise ValueError(f"{name}: {LATER}, though a GPT calls it with causal=True")
        if what != LATER and (not isinstance(tensor, Tensor) or tensor.shape != shape):
            got = "None" if tensor is None else f"{type(tensor).__name__} {np.shape(tensor)}"
            raise ValueError(f"{name}: {what} must be a Tensor of shape {shape}; got {got}")


LATER = "the output at a position depends on later positions"


def _results(kind: Any, options: dict[str, int]) -> Iterator[tuple[str, Any, tuple[int, ...]]]:
    """The results of a small block, each with its name and the shape that it must have."""
    block = kind(8, 2, max_length=16, rng=np.random.default_rng(0), **options)
    x, causal = Tensor(np.ones((1, 16, 8), np.float32)), "causal" not in block.cannot
    own = isinstance(block, MultiHead) and type(block).attend is not MultiHead.attend
    if own:
        (q, k), v = block.queries_and_keys(x, x), split_heads(block.value(x), 2)
        yield "the result of `attend`", block.attend(q, k, v, Call(causal=causal)), v.shape
    yield "the output", block(x, causal=causal), x.shape
    if own:
        what = "the result of `attend`, when v is the identity matrix (16, 16) in each head,"
        yield what, block.weights(x, causal=causal), (1, 2, 16, 16)
    if causal:
        yield LATER, bool(np.triu(influence(block, 16, causal=True), 1).any()), ()


@contextmanager
def naming_own_code() -> Iterator[None]:
    """Raise an OwnCodeError for an error in the block that comes from a user's module."""
    try:
        yield
    except Exception as error:
        if place := _place(error):
            raise OwnCodeError(f"{place}: {type(error).__name__}: {error}") from error
        raise


def _place(error: BaseException | None) -> str:
    """Where a user's module is in the traceback of an error or of its cause; "" if nowhere.

    This is the last line in such a file, or else the last method of an object of such a class.
    """
    lines: list[str] = []
    methods: list[str] = []
    while error is not None and not lines + methods:
        for frame, line in walk_tb(error.__traceback__):
            name, owner = frame.f_code.co_name, type(frame.f_locals.get("self"))
            if frame.f_code.co_filename in _files:
                lines.append(f"{frame.f_code.co_filename}:{line}, in {name}")
            elif (file := _file_of(owner)) in _files:
                methods.append(f"{file}: {owner.__name__}, in {name}")
        error = error.__cause__
    return (lines or methods or [""])[-1]


def _file_of(kind: type) -> str:
    return str(getattr(sys.modules.get(kind.__module__), "__file__", ""))


def _from_here(name: str) -> ModuleType:
    """Import a module, also from the working directory, as `python -m` does."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    return import_module(name)


def _from_file(path: str) -> ModuleType:
    """Run a file as a module. Its name is the path, so it never replaces an installed module."""
    if not os.path.exists(path):
        raise ValueError(f"no such file{similar_file(Path(path))}")
    spec = spec_from_file_location(path, path)
    assert spec is not None and spec.loader is not None  # the name ends with .py
    made = module_from_spec(spec)
    sys.modules[path] = made
    spec.loader.exec_module(made)
    return made
