"""The book can be read from front to back: no file depends on a later one."""

import ast
import os
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from reading_order import FILES as READ
from reading_order import MILESTONES, before, chapters, contents, needs

import tinyattn
from tinyattn.tensor import OPS

ROOT = Path(tinyattn.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
every_file = pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))


ORDER = contents()
ENGINE_ROOM = ("kernels/", "parallel/", "measure/")
WINGS = ("parsing/", "report/", "cli/", "trace/", "explore/", "check/", "exercise/")
every_listed_file = pytest.mark.parametrize("name", ORDER)


def test_the_table_of_contents_has_every_file_once() -> None:
    assert sorted(ORDER) == sorted(READ)


@every_listed_file
def test_a_file_needs_only_files_before_its_own(name: str) -> None:
    later = [other for other in needs(READ[name]) if ORDER.index(other) >= ORDER.index(name)]
    assert not later, f"{name} needs {later}"


@every_listed_file
def test_no_file_names_the_engine_room(name: str) -> None:
    """Not even for annotations, or in a string, so that it can be deleted. The command line
    looks for commands there."""
    if name.startswith((*ENGINE_ROOM, "cli/")):
        return
    text = ast.unparse(WithoutText().visit(ast.parse(READ[name].read_text())))
    found = re.findall(r"tinyattn(?:\.| import .*\b)(kernels|parallel|measure)\b", text)
    assert not found, f"{name} names {found}"


@pytest.mark.parametrize("name", MILESTONES)
def test_few_lines_come_before_a_milestone(name: str) -> None:
    file, most = MILESTONES[name]
    assert before(file) <= most


@every_listed_file
def test_a_file_names_its_room(name: str) -> None:
    first = (ast.get_docstring(ast.parse(READ[name].read_text())) or "").partition("\n")[0]
    if name.startswith(ENGINE_ROOM):
        assert first.startswith("Engine room"), first
    elif name.startswith(WINGS):
        assert first.startswith("Wing"), first
    else:
        assert re.match(rf"Chapter {chapters()[name]}\b", first), first


def test_there_are_no_import_cycles() -> None:
    graph = {name: needs(file) for name, file in READ.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, with the cycle


def test_importing_tinyattn_imports_no_extra(tmp_path: Path) -> None:
    """They are replaced, so that the test is useful also where they are not installed."""
    extras = {"cupy", "matplotlib", "hypothesis"}
    for name in extras:
        (tmp_path / f"{name}.py").touch()
    look = f"import sys, tinyattn, tinyattn.cli; print({extras} & {{*sys.modules}})"
    path = os.pathsep.join([str(tmp_path), str(ROOT.parent), *sys.path])
    run = subprocess.run(
        [sys.executable, "-c", look],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.strip() == "set()"


class WithoutText(ast.NodeTransformer):
    """Removes docstrings; a syntax tree has no comments."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node


def test_only_one_file_of_the_book_imports_cupy() -> None:
    """Also not by the name in a string."""
    knows = {
        name
        for name, file in READ.items()
        if "cupy" in ast.unparse(WithoutText().visit(ast.parse(file.read_text())))
    }
    assert knows == {"gpu", "parallel/mpi", "theory/conventions", "check/implementation"}


@pytest.mark.parametrize("name", OPS)
def test_the_docstring_of_an_op_has_its_equations(name: str) -> None:
    text = OPS[name].__doc__ or ""
    for field in ("Forward:  ", "Backward: ", "Shapes:   "):
        assert f"\n    {field}" in text, f"{name} has no field {field!r}"


@every_file
def test_public_names_have_docstrings(file: Path) -> None:
    """Except operators, which the language defines, and ops, whose fields are tested above."""
    owners: list[tuple[str, ast.Module | ast.ClassDef]] = [("", ast.parse(file.read_text()))]
    for prefix, owner in owners:
        assert ast.get_docstring(owner), f"{file.name}: {prefix or 'the file'} has no docstring"
        for node in owner.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                owners.append((f"{prefix}{node.name}.", node))
            elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                if any(
                    re.search(r"\.setter$|^overload$", ast.unparse(d)) for d in node.decorator_list
                ):
                    continue  # the property, or the function, has it
                assert ast.get_docstring(node), f"{file.name}: {prefix}{node.name} has none"


def test_files_are_short() -> None:
    """At most 300 lines, so that a file can be read at once."""
    assert not [file.name for file in FILES if len(file.read_text().splitlines()) > 300]


def test_the_page_on_reading_has_these_numbers() -> None:
    """`python tests/reading_order.py` prints the table; copy it to docs/reading.md."""
    page = (Path(__file__).parents[1] / "docs/reading.md").read_text("utf-8")
    for name, (file, most) in MILESTONES.items():
        assert f"| {name} | {file}.py | {before(file):,} | {most:,} |" in page
