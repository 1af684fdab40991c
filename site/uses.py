"""Which pieces of a file's text are names of the package, and where they are defined."""

from __future__ import annotations

import ast
import itertools
from typing import NamedTuple

from names import Definition, Module, Target, defined_at, file_of, imports, lookup


class Use(NamedTuple):
    """A piece of a text, [start, stop), that means something defined at `target`."""

    start: int
    stop: int
    target: Target


def uses(module: Module) -> list[Use]:
    """All names in a file that can be linked, in the order of the text."""
    found = _Finder(module)
    found.visit(module.tree)
    return sorted(set(found.uses))


def line_starts(text: str) -> list[int]:
    """The offset of each line; one more for the end of the text."""
    return [0, *itertools.accumulate(len(line) for line in text.splitlines(keepends=True))]


class _Scope(NamedTuple):
    """The names of one function: where each is defined, or None for an ordinary variable."""

    names: dict[str, Target | None]
    classes: dict[str, Target]
    """Variables that are known to be an object of a class."""


class _Finder(ast.NodeVisitor):
    """Collects the uses. A local variable hides a name of the module, as in Python."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines = module.text.splitlines(keepends=True)
        self.starts = line_starts(module.text)
        self.scopes: list[_Scope] = []
        self.inside: list[str] = []  # the classes around this place
        self.uses: list[Use] = []

    def add(self, line: int, column: int, name: str, target: Target | None) -> None:
        """Record a use, if `name` is what stands there; columns count bytes."""
        before = self.lines[line - 1].encode()[:column].decode()
        start = self.starts[line - 1] + len(before)
        if target and self.module.text.startswith(name, start):
            self.uses.append(Use(start, start + len(name), target))

    def meaning(self, node: ast.expr | None) -> Target | None:
        """What an expression is: a file, or a name in a file; a variable counts as its class."""
        if isinstance(node, ast.Name):
            for scope in reversed(self.scopes):
                if node.id in scope.names:
                    return scope.names[node.id] or scope.classes.get(node.id)
            return lookup(Target(self.module.file), node.id)
        if isinstance(node, ast.Attribute):
            return lookup(self.meaning(node.value), node.attr)
        return None

    def visit_Name(self, node: ast.Name) -> None:
        for scope in reversed(self.scopes):
            if node.id in scope.names:
                return self.add(node.lineno, node.col_offset, node.id, scope.names[node.id])
        if isinstance(node.ctx, ast.Load):
            self.add(node.lineno, node.col_offset, node.id, self.meaning(node))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.visit(node.value)
        if node.end_lineno and node.end_col_offset:
            column = node.end_col_offset - len(node.attr.encode())
            self.add(node.end_lineno, column, node.attr, self.meaning(node))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Before Python 3.12 the positions in an f-string are wrong: it gets no links."""

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            source = file_of(alias.name)
            target = Target(source) if source else None
            self.add(alias.lineno, alias.col_offset, alias.name, target)
        self._bind(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        source = file_of(node.module or "")
        if source:
            self.add(node.lineno, node.col_offset + len("from "), str(node.module), Target(source))
        for alias in node.names:
            said = imports(node).get(alias.asname or alias.name)
            self.add(alias.lineno, alias.col_offset, alias.name, defined_at(said))
        self._bind(node)

    def _bind(self, node: ast.AST) -> None:
        if self.scopes:
            said = imports(node)
            self.scopes[-1].names.update({name: defined_at(said[name]) for name in said})

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for outer in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(outer)
        self.inside.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self.inside.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for outer in (*node.decorator_list, node.args, *([node.returns] if node.returns else [])):
            self.visit(outer)
        self._function(node.args, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.args)
        self._function(node.args, [node.body])

    def visit_arguments(self, node: ast.arguments) -> None:
        for argument in _arguments(node):
            if argument.annotation:
                self.visit(argument.annotation)
        for default in (*node.defaults, *node.kw_defaults):
            if default:
                self.visit(default)

    def _function(self, arguments: ast.arguments, body: list[ast.stmt] | list[ast.expr]) -> None:
        names: dict[str, Target | None] = {}
        classes: dict[str, Target] = {}
        for argument in _arguments(arguments):
            names[argument.arg] = None
            of = self.meaning(argument.annotation)
            if of:
                classes[argument.arg] = of
        if self.inside and arguments.args[:1] and arguments.args[0].arg in ("self", "cls"):
            owner = Target(self.module.file, ".".join(self.inside))
            classes[arguments.args[0].arg] = owner
        names |= {name: None for part in body for name in _locals(part)}
        around, self.inside = self.inside, []
        self.scopes.append(_Scope(names, classes))
        for part in body:
            self.visit(part)
        self.scopes.pop()
        self.inside = around


def _arguments(node: ast.arguments) -> list[ast.arg]:
    more = [argument for argument in (node.vararg, node.kwarg) if argument]
    return [*node.posonlyargs, *node.args, *node.kwonlyargs, *more]


def _locals(node: ast.AST) -> set[str]:
    """The names that a part of a function's body gives a value, not counting inner functions."""
    if isinstance(node, Definition):
        return {node.name}
    if isinstance(node, ast.Lambda):
        return set()
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Load) else {node.id}
    return {name for child in ast.iter_child_nodes(node) for name in _locals(child)}
