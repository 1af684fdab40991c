"""The book can be read from front to back: nothing leans on what comes later."""

import ast
import inspect
import os
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import tinyattn
import tinyattn.threads
import tinyattn.training
from tinyattn.dispatch import FORMULAS, KERNELS
from tinyattn.tensor import OPS

ROOT = Path(tinyattn.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
every_file = pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))


def module_of(file: Path) -> str:
    """tinyattn/ops/linear.py -> tinyattn.ops.linear; a package goes by its folder."""
    return ".".join(file.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(file): file for file in FILES}


def imports(file: Path) -> list[str]:
    """The modules of this package that a file imports, anywhere in it, in the order it does."""
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are written out in full"
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name if name in MODULES else str(node.module) for name in whole]
    return [name for name in found if name.split(".")[0] == "tinyattn"]


def chapters() -> list[str]:
    """The order that the package's docstring gives: `name 1 what it is   other: what it is`."""
    line = re.compile(r"^ {4}(\w+)/? +\d+  .*?(?: {3,}(\w+): .*)?$", re.MULTILINE)
    names = [name for pair in line.findall(tinyattn.__doc__ or "") for name in pair if name]
    names.insert(names.index("gradcheck") + 1, "")  # the package itself, which hands these on
    return [f"tinyattn.{name}".rstrip(".") for name in [*names, "__main__"]]


CHAPTERS = chapters()


def chapter(module: str) -> int:
    return CHAPTERS.index(".".join(module.split(".")[:2]))


def page(module: str, package: str) -> int | None:
    """Where a file stands in a folder, if the folder's __init__ is a table of contents."""
    if package in ("tinyattn", "tinyattn.cli"):
        return None
    contents = imports(MODULES[package]) if package in MODULES else []
    return contents.index(module) if module in contents else None


def test_every_file_belongs_to_a_chapter() -> None:
    assert {".".join(module.split(".")[:2]) for module in MODULES} == set(CHAPTERS)


@every_file
def test_a_file_imports_from_earlier_chapters_and_pages(file: Path) -> None:
    module = module_of(file)
    for other in imports(file):
        assert chapter(other) <= chapter(module), f"{module} imports {other}"
        folder = module.rpartition(".")[0]
        here, there = page(module, folder), page(other, folder)
        if here is not None and there is not None:
            assert there < here, f"{module} imports {other}"


def test_no_file_leans_on_itself_by_a_detour() -> None:
    graph = {module: imports(file) for module, file in MODULES.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, with the detour


def test_importing_tinyattn_imports_neither_cupy_nor_matplotlib(tmp_path: Path) -> None:
    """With stand-ins for both, so that the test means something where they are not installed."""
    for name in ("cupy", "matplotlib"):
        (tmp_path / f"{name}.py").touch()
    look = "import sys, tinyattn, tinyattn.cli; print({'cupy', 'matplotlib'} & {*sys.modules})"
    path = os.pathsep.join([str(tmp_path), str(ROOT.parent), *sys.path])
    run = subprocess.run(
        [sys.executable, "-c", look],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.strip() == "set()"


def test_a_build_takes_nothing_from_an_earlier_one(tmp_path: Path) -> None:
    """By the setup.py of this package, in a small package with a module that was renamed."""
    pytest.importorskip("setuptools")
    (tmp_path / "setup.py").write_bytes((Path(__file__).parents[1] / "setup.py").read_bytes())
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "tinyattn"\nversion = "1"\n[tool.setuptools]\npackages = ["tinyattn"]\n'
    )
    for name in ("tinyattn/__init__", "tinyattn/new", "build/lib/tinyattn/old", "build/lib/other"):
        file = tmp_path / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    words = [sys.executable, "-W", "ignore", "setup.py", "-q", "build_py"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    built = {path.name for path in (tmp_path / "build" / "lib" / "tinyattn").iterdir()}
    assert built == {"__init__.py", "new.py"} and not (tmp_path / "build/lib/other.py").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "own.py").touch()
    subprocess.run([*words, "--build-lib", "mine"], cwd=tmp_path, check=True, capture_output=True)
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {"own.py", "tinyattn"}


class WithoutText(ast.NodeTransformer):
    """Drops docstrings; comments are not in the tree to begin with."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node


def test_only_the_backend_knows_cupy() -> None:
    """Also not by way of a string that is imported."""
    knows = [
        file.name
        for file in FILES
        if "cupy" in ast.unparse(WithoutText().visit(ast.parse(file.read_text())))
    ]
    assert knows == ["backend.py", "ranks.py"]  # the second connects them, in parallel/


@pytest.mark.parametrize(("name", "device"), KERNELS)
def test_a_kernel_takes_the_arguments_of_its_formula(name: str, device: str) -> None:
    taken = [list(inspect.signature(function).parameters)
             for function in (KERNELS[name, device].run, FORMULAS[name])]  # fmt: skip
    assert taken[0] == taken[1]


@pytest.mark.parametrize("name", OPS)
def test_an_op_says_its_equations(name: str) -> None:
    text = OPS[name].__doc__ or ""
    for field in ("Forward:  ", "Backward: ", "Shapes:   "):
        assert f"\n    {field}" in text, f"{name} has no field {field!r}"


@every_file
def test_what_is_public_says_what_it_is(file: Path) -> None:
    """An operator's meaning is known from the language, that of an op from its fields."""
    owners: list[tuple[str, ast.Module | ast.ClassDef]] = [("", ast.parse(file.read_text()))]
    for prefix, owner in owners:
        assert ast.get_docstring(owner), f"{file.name}: {prefix or 'the file'} has no docstring"
        for node in owner.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                owners.append((f"{prefix}{node.name}.", node))
            elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                if any(ast.unparse(d).endswith(".setter") for d in node.decorator_list):
                    continue  # the property has said it
                assert ast.get_docstring(node), f"{file.name}: {prefix}{node.name} has none"


LONG = {"tensor.py": "all that a user can do with a Tensor is listed in one place"}


def test_files_are_short() -> None:
    """Up to 300 lines, so that one can be read at a sitting."""
    long = {file.name for file in FILES if len(file.read_text().splitlines()) > 300}
    assert long == LONG.keys()
