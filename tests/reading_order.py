"""How many lines of the package come before a milestone of the reading order.

    python tests/reading_order.py        # lines before each milestone, and lines of each room

The order is that of the package's docstring, its table of contents: single files, and folders
whose files have the order in which their __init__ imports them. All lines of a file count; an
__init__ does not count. A file needs the files that it imports. Imports for annotations only,
methods of a tensor and services that are found at run time (calls.py and attention/refusals.py) do
not count.
"""

import ast
import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1] / "tinyattn"
MILESTONES = {
    "the graph": ("graph", 300),
    "softmax": ("ops/softmax", 800),
    "attention's two equations": ("ops/attention", 1_100),
    "multi-head attention": ("attention/multihead", 1_400),
    "a GPT": ("models/gpt", 2_200),
    "SGD": ("training/optimizers", 2_900),
    "the training loop": ("training/loop", 2_900),
    "the knowledge task": ("tasks/knowledge", 4_000),
}
"""A file that a reader wants to reach, and how many lines may come before it."""


def name_of(file: Path) -> str:
    """tinyattn/ops/linear.py -> ops/linear"""
    return str(file.relative_to(ROOT).with_suffix(""))


FILES = {name_of(f): f for f in sorted(ROOT.rglob("*.py")) if not f.name.startswith("__")}


@cache
def tree(file: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(file.read_text("utf-8"))


@cache
def chapters() -> dict[str, str]:
    """All files in reading order, each with the number of its chapter, or "" without one.

    Raises: ValueError for an entry that is not there.
    """
    text = (ast.get_docstring(tree(ROOT / "__init__.py")) or "").partition("One letter")[0]
    lists = re.findall(r"^    (?:(\S.*?)  )? *((?:[\w/]+, )*[\w/]+),?$", text, re.M)
    named = {entry for _, line in lists for entry in line.split(", ")}
    order: dict[str, str] = {}
    number = ""

    def add(name: str) -> None:
        folder = name.rpartition("/")[0]
        for other in needs(FILES[name]):  # an unlisted file comes before the first that needs it
            known = other in order or other in named or other in imported(folder)
            if not known and other.rpartition("/")[0] == folder:
                add(other)
        order.setdefault(name, number if number.isdecimal() else "")

    for heading, line in lists:
        number = heading.split()[0] if heading else number
        for entry in line.split(", "):
            found = [name for name in inside(entry.rstrip("/")) if name not in named]
            for name in found if entry.endswith("/") else [entry]:
                if name not in FILES:
                    raise ValueError(f"tinyattn/__init__.py names {name}, which is not there")
                add(name)
    return order


def contents() -> list[str]:
    """All files in reading order."""
    return [*chapters()]


def inside(folder: str) -> list[str]:
    """The files of a folder: those that its __init__ imports, in this order, then the others."""
    here = [name for name in FILES if name.rpartition("/")[0] == folder]
    return [*dict.fromkeys([*(name for name in imported(folder) if name in here), *here])]


def imported(folder: str) -> list[str]:
    """The modules that the __init__ of a folder imports."""
    init = ROOT / folder / "__init__.py"
    return needs(init) if init.exists() else []


def needs(file: Path) -> list[str]:
    """The files of this package from which a file imports something, anywhere in it, in order.

    Imports for annotations only are left out. A name that a folder re-exports counts as
    imported from the file that defines it; so does `ops.softmax`.
    """
    found: list[str] = []
    syntax = tree(file)
    modules: dict[str, str] = {}  # local name -> folder, for `from tinyattn import ops`
    for node in walk(syntax):
        if isinstance(node, ast.Import):
            found += [a.name.removeprefix("tinyattn.").replace(".", "/") for a in node.names
                      if a.name.startswith("tinyattn")]  # fmt: skip
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tinyattn":
            folder = str(node.module).removeprefix("tinyattn").lstrip(".").replace(".", "/")
            for alias in node.names:
                name = f"{folder}/{alias.name}".lstrip("/")
                if (ROOT / name).is_dir():
                    modules[alias.asname or alias.name] = name
                else:
                    found.append(name if name in FILES else home(folder, alias.name))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in modules:
                found.append(home(modules[node.value.id], node.attr))
    return [name for name in found if name in FILES]


def walk(syntax: ast.AST) -> list[ast.AST]:
    """All nodes except those that only a type checker uses."""
    nodes: list[ast.AST] = []
    waiting = [syntax]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        nodes.append(node)
        waiting += [*ast.iter_child_nodes(node)][::-1]
    return nodes


@cache
def home(folder: str, name: str) -> str:
    """The file that defines a name that the folder's __init__ re-exports."""
    if folder in FILES or not (ROOT / folder / "__init__.py").exists():
        return folder
    for node in tree(ROOT / folder / "__init__.py").body:
        if isinstance(node, ast.ImportFrom) and name in [a.asname or a.name for a in node.names]:
            return home(str(node.module).removeprefix("tinyattn.").replace(".", "/"), name)
    return folder


def length(name: str) -> int:
    """The number of lines of a file."""
    return len(FILES[name].read_text("utf-8").splitlines())


def before(milestone: str) -> int:
    """The number of lines of all files before this one."""
    order = contents()
    return sum(length(name) for name in order[: order.index(milestone)])


def rooms() -> dict[str, int]:
    """The number of lines of each room; the top-level files are one room."""
    sizes: dict[str, int] = {}
    for file in sorted(ROOT.rglob("*.py")):
        room = file.relative_to(ROOT).parts[0] if file.parent != ROOT else "(top)"
        sizes[room] = sizes.get(room, 0) + len(file.read_text("utf-8").splitlines())
    return sizes


def main() -> int:
    """Print both tables. Returns: 1 if a milestone comes too late."""
    late = 0
    print("| a reader comes to | in | lines before it | at most |\n| --- | --- | --- | --- |")
    for name, (file, most) in MILESTONES.items():
        lines = before(file)
        late += lines > most
        print(f"| {name} | {file}.py | {lines:,} | {most:,} |")
    print("\n| room | lines |\n| --- | --- |")
    for room, lines in rooms().items():
        print(f"| {room} | {lines:,} |")
    print(f"| all | {sum(rooms().values()):,} |")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
