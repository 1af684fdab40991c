"""The reference: every public function and class of a folder, with its signature and docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import contents
import reading_order
from addresses import Addresses, View, address
from highlight import escaped, plain
from names import Definition, Target, lookup, module
from words import first_sentence, inline, words

WIDTH = 84  # characters of a signature that fit on one line


def public(file: str) -> list[tuple[str, Definition]]:
    """The functions and classes of a file whose names have no underscore, in its order."""
    found = module(file).defined.items()
    return [(name, node) for name, node in found
            if isinstance(node, Definition) and "." not in name and name[0] != "_"]  # fmt: skip


def files(folder: str) -> list[str]:
    """The files of a folder that have something public, in reading order."""
    order = [f"tinyattn/{name}.py" for name in reading_order.contents()]
    return [file for file in order if file.rpartition("/")[0] == folder and public(file)]


def anchor(file: str, name: str) -> str:
    """The anchor of a name in the reference: "ops.softmax.softmax"."""
    return file.removeprefix("tinyattn/").removesuffix(".py").replace("/", ".") + f".{name}"


def page(folder: str, addresses: Addresses) -> str:
    """The reference of one folder, as Markdown with HTML in it."""
    title = folder.replace("/", ".")
    here = View(addresses, f"{folder}/__init__.py", contents.reference_page(folder))
    about = inline(_about(folder), here.mentioned)
    parts = [f"---\ntitle: {title}\n---\n\n# {title}\n\n<p>{about}</p>"]
    for file in files(folder):
        view = View(addresses, file, contents.reference_page(folder))
        name = file.rpartition("/")[2]
        heading = f'<a href="{view.to(Target(file))}">{name}</a>'
        parts.append(f'## {heading} {{ #{anchor(file, "")} data-search-exclude="" }}')
        parts += [_entry(file, name, node, view) for name, node in public(file)]
    return "\n\n".join(parts) + "\n"


def _about(folder: str) -> str:
    """The first paragraph about a folder."""
    text = ast.get_docstring(module(f"{folder}/__init__.py").tree) or ""
    return text.partition("\n\n")[0]


def index(addresses: Addresses) -> str:
    """The first page of the reference: all folders, and all names in alphabetical order."""
    view = View(addresses, "tinyattn/__init__.py", "reference/index.md")
    rows, names = [], []
    for folder in contents.folders():
        found = [(name, file) for file in files(folder) for name, _ in public(file)]
        page = contents.reference_page(folder).removeprefix("reference/")
        about = inline(first_sentence(_about(folder)), view.mentioned).replace("|", "&#124;")
        rows.append(f"| [{folder.replace('/', '.')}]({page}) | {len(found)} | {about} |")
        names += [(name, f"{address(page)}#{anchor(file, name)}") for name, file in found]
    listed = "\n".join(
        f'<a href="{link}">{name}</a>' for name, link in sorted(names, key=lambda n: n[0].lower())
    )
    return (
        "---\ntitle: Reference\n---\n\n# Reference\n\n"
        "Every public function and class, with its signature and docstring, in reading order. "
        "Operations are shown as they are called: with Tensors or arrays, without the array "
        "module that `@op` passes.\n\n"
        "| folder | names | about |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n\n"
        f'## All names\n\n<div class="all-names" data-search-exclude>\n{listed}\n</div>\n'
    )


def _entry(file: str, name: str, node: Definition, view: View) -> str:
    """A function or class: heading, signature, docstring, methods."""
    code = f'<a class="to-code" data-search-exclude href="{view.to(Target(file, name))}">code</a>'
    shown = plain(signature(file, name, node))
    text = words(ast.get_docstring(node) or "", view.mentioned)
    methods = "".join(_methods(file, name, node, view)) if isinstance(node, ast.ClassDef) else ""
    return (
        f"### {name.replace('_', chr(92) + '_')} {{ #{anchor(file, name)} }}\n\n"
        f'<div class="entry">{code}<div class="highlight"><pre>{shown}</pre></div>{text}'
        f"{methods}</div>"
    )


def _methods(file: str, owner: str, node: ast.ClassDef, view: View) -> Iterator[str]:
    """The public methods and properties of a class, each with the first sentence about it."""
    rows = []
    for part in node.body:
        text = ast.get_docstring(part) if isinstance(part, ast.FunctionDef) else None
        if isinstance(part, ast.FunctionDef) and part.name[0] != "_" and text:
            is_value = any("property" in ast.unparse(d) for d in part.decorator_list)
            called = part.name if is_value else part.name + _parameters(part.args, skip=1)
            link = view.to(Target(file, f"{owner}.{part.name}"))
            about = inline(first_sentence(text), view.mentioned)
            rows.append(f'<dt><a href="{link}"><code>{escaped(called)}</code></a></dt>'
                        f"<dd>{about}</dd>")  # fmt: skip
    if rows:
        yield f'<dl class="methods">{"".join(rows)}</dl>'


def signature(file: str, name: str, node: Definition) -> str:
    """How a function or class is called, wrapped if it is long."""
    if isinstance(node, ast.ClassDef):
        return f"class {name}" + _of_class(file, name, node)
    is_op = any(lookup(Target(file), _called(d)) == Target("tinyattn/op.py", "op")
                for d in node.decorator_list)  # fmt: skip
    returns = "Tensor" if is_op else ast.unparse(node.returns) if node.returns else ""
    return name + _parameters(node.args, skip=int(is_op)) + (f" -> {returns}" if returns else "")


def _called(decorator: ast.expr) -> str:
    return ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)


def _of_class(file: str, name: str, node: ast.ClassDef) -> str:
    """The parameters of a class: those of __init__, also an inherited one, or its fields."""
    if any("dataclass" in ast.unparse(d) for d in node.decorator_list) or any(
        ast.unparse(base) == "NamedTuple" for base in node.bases
    ):
        return _wrapped(
            [ast.unparse(part) for part in node.body if isinstance(part, ast.AnnAssign)]
        )
    made = lookup(Target(file, name), "__init__")
    init = module(made.file).defined[made.name] if made else None
    return _parameters(init.args, skip=1) if isinstance(init, ast.FunctionDef) else ""


def _parameters(args: ast.arguments, *, skip: int) -> str:
    """The parameters of a function but for the first ones, in parentheses."""
    kept = ast.arguments(
        posonlyargs=args.posonlyargs, args=args.args[skip:], vararg=args.vararg,
        kwonlyargs=args.kwonlyargs, kw_defaults=args.kw_defaults, kwarg=args.kwarg,
        defaults=args.defaults,
    )  # fmt: skip
    return _wrapped(_split(ast.unparse(kept)))


def _wrapped(parts: list[str]) -> str:
    """On one line if it is short, otherwise one line for each parameter."""
    line = f"({', '.join(parts)})"
    return line if len(line) <= WIDTH else "(\n    " + ",\n    ".join(parts) + ",\n)"


def _split(text: str) -> list[str]:
    """The parts of a text between commas that are not inside brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]
