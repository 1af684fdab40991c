"""Wing, exercise: the file in which a reader writes a function.

It is made from the source of this package, so it always fits the code: the imports that the
function uses, its signature and its docstring. The body, with its comments, is left out.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterator

from tinyattn.exercise.exercise import Exercise

HEADER = '''\
"""Exercise: write the body of `{name}`.
{rules}
Then check it:

    tinyattn exercise {name} --check {file}

{places}
"""

from __future__ import annotations

{imports}


{head}
    """{text}
    """
    raise NotImplementedError("write the body of {name}")
'''


def blank(exercise: Exercise, file: str) -> str:
    """The text of the file of an exercise, without the solution.

    Args: file: the name under which it will be written.
    """
    module = ast.parse(exercise.source)
    (function,) = (node for node in module.body
                   if isinstance(node, ast.FunctionDef) and node.name == exercise.name)  # fmt: skip
    lines = exercise.source.splitlines()
    head = lines[function.lineno - 1 : function.body[0].lineno - 1]  # without decorators
    function.decorator_list = []
    places = [f"The function of the package is in tinyattn/{exercise.file}."]
    if exercise.page:
        places.append(f"Its mathematics is in {exercise.page}.")
    return HEADER.format(
        name=exercise.name, file=file, places="\n".join(places),
        rules=f"\n{exercise.rules}\n" if exercise.rules else "",
        imports=_imports(module, function, exercise.original.__module__),
        head="\n".join(head), text=textwrap.indent(exercise.text, "    ").lstrip(),
    )  # fmt: skip


def _imports(module: ast.Module, function: ast.FunctionDef, name: str) -> str:
    """The imports that a function uses: of Python, of NumPy, and of this package.

    From its own module they are classes only: another function there is a part of the solution.
    """
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    groups: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for node in _import_statements(module):
        node.names = [a for a in node.names if (a.asname or a.name) in used]
        if node.names:
            source = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            root = str(source).partition(".")[0]
            key = None if root == "tinyattn" else root in sys.stdlib_module_names
            groups[key].append(ast.unparse(node))
    own = [node.name for node in module.body if isinstance(node, ast.ClassDef) if node.name in used]
    if own:
        groups[None].append(f"from {name} import {', '.join(own)}")
    return "\n\n".join("\n".join(group) for group in groups.values() if group)


def _import_statements(module: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Those of a file, also the ones for annotations, under `if TYPE_CHECKING`."""
    for statement in module.body:
        for node in statement.body if isinstance(statement, ast.If) else [statement]:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                yield node
