"""Where each name of the package is defined, and which names in a file mean it.

Everything is read from the syntax tree; no module is imported. So a name is linked only if the
text of the program shows what it is: an import, a definition in the same file, an attribute of a
module or class, or an attribute of a parameter whose annotation is a class.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Target(NamedTuple):
    """A place that a link leads to: a file, and a name in it or "" for the file itself."""

    file: str
    name: str = ""


@dataclass(frozen=True)
class Module:
    """One file of Python.

    Attributes:
        file: its path, relative to the repository.
        text: its text.
        tree: its syntax tree.
        defined: the names defined at its top level and in its classes ("Tensor.backward"), each
            with the statement that defines it.
        imported: the names that it imports, each with the file, and the name there, that the
            import statement says; `lookup` follows it to the definition.
    """

    file: str
    text: str
    tree: ast.Module
    defined: dict[str, ast.stmt]
    imported: dict[str, Target]


@cache
def module(file: str) -> Module:
    """Read a file. Raises: OSError if it is not there."""
    text = (ROOT / file).read_text("utf-8")
    tree = ast.parse(text)
    imported: dict[str, Target] = {}
    for node in _top(tree.body):
        imported |= imports(node)
    return Module(file, text, tree, dict(_defined(tree.body)), imported)


def _top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, also those that stand under `if` or `try`."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _top([*node.body, *node.orelse])


def _defined(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.stmt]]:
    for node in _top(body):
        if isinstance(node, Definition):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from _defined(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for name in assigned(node):
                yield prefix + name, node


def assigned(node: ast.stmt) -> list[str]:
    """The plain names that an assignment gives a value; [] for another statement."""
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    else:
        return []
    parts = [part for t in targets for part in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return [part.id for part in parts if isinstance(part, ast.Name)]


def file_of(dotted: str) -> str | None:
    """The file of a module of this package ("tinyattn.ops"), or None if there is none."""
    path = dotted.replace(".", "/")
    found = (f"{path}.py", f"{path}/__init__.py")
    return next((file for file in found if _ours(dotted) and (ROOT / file).is_file()), None)


def _ours(dotted: str) -> bool:
    return dotted.split(".")[0] == "tinyattn"


def imports(node: ast.AST) -> dict[str, Target]:
    """The names that an import statement binds to something of this package, as it says."""
    found: dict[str, Target] = {}
    if isinstance(node, ast.Import):
        for alias in node.names:
            dotted = alias.name if alias.asname else alias.name.split(".")[0]
            source = file_of(dotted)
            if source:
                found[alias.asname or dotted] = Target(source)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        source = file_of(node.module)
        for alias in node.names if source else ():
            inner = file_of(f"{node.module}.{alias.name}")
            said = Target(inner) if inner else Target(str(source), alias.name)
            found[alias.asname or alias.name] = said
    return found


def lookup(owner: Target | None, name: str) -> Target | None:
    """Where `owner.name` is defined; None if that cannot be read from the files.

    Args:
        owner: a file, or a class in a file, whose base classes are searched, too.
        name: an attribute of it.
    """
    if owner is None:
        return None
    return _member(owner, name) if owner.name else _in_file(owner.file, name)


def defined_at(said: Target | None) -> Target | None:
    """Where something is defined that an import statement names."""
    return lookup(Target(said.file), said.name) if said and said.name else said


def _in_file(file: str, name: str) -> Target | None:
    here = module(file)
    if name in here.defined:
        return Target(file, name)
    if name in here.imported:
        return defined_at(here.imported[name])
    inner = file_of(f"{_dotted(file)}.{name}")
    return Target(inner) if inner else None


def _member(owner: Target, name: str) -> Target | None:
    here = module(owner.file)
    if f"{owner.name}.{name}" in here.defined:
        return Target(owner.file, f"{owner.name}.{name}")
    node = here.defined.get(owner.name)
    for base in node.bases if isinstance(node, ast.ClassDef) else ():
        parent = _in_file(owner.file, base.id) if isinstance(base, ast.Name) else None
        found = _member(parent, name) if parent else None
        if found:
            return found
    return None


def _dotted(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
