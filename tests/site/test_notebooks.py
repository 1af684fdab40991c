"""The notebooks: made of pages and examples, and each of their cells runs."""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
pytest.importorskip("jupytext", reason="needs jupytext")


@pytest.fixture(scope="module")
def maker() -> Iterator[Any]:
    """site/notebooks.py as a module; afterwards it can no longer be imported."""
    path = sys.path.copy()
    sys.path.insert(0, str(ROOT / "site"))
    yield importlib.import_module("notebooks")
    sys.path[:] = path
    for name in ("notebooks", "contents", "names"):
        sys.modules.pop(name, None)


NAMES = [*sorted(p.relative_to(ROOT).as_posix() for folder in ("derivations", "docs")
                 for p in (ROOT / folder).glob("*.md") if "\n```python\n" in p.read_text("utf-8")),
         "README.md",
         *sorted(f"examples/{p.name}" for p in (ROOT / "examples").glob("*.py"))]  # fmt: skip


def test_every_page_with_code_and_every_example_is_a_notebook(maker: Any) -> None:
    assert sorted(maker.sources()) == sorted(NAMES)
    assert len({maker.name_of(source) for source in NAMES}) == len(NAMES)


@pytest.mark.parametrize("source", NAMES)
def test_all_cells_run(
    maker: Any, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cell that installs the package is left out: the package that is tested is installed."""
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
    pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = maker.notebook(source)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(made, timeout=120, resources=resources).execute()
    ran = [cell.execution_count for cell in made.cells if cell.cell_type == "code"]
    assert ran[0] is None and None not in ran[1:]


@pytest.mark.parametrize("source", NAMES)
def test_a_notebook_says_what_its_source_says(maker: Any, source: str) -> None:
    made = maker.notebook(source)
    first, *rest = made.cells
    assert "%pip install" in first.source and "skip-execution" in first.metadata["tags"]
    code = "\n".join(cell.source for cell in rest[1:] if cell.cell_type == "code")
    text = (ROOT / source).read_text("utf-8")
    if source.endswith(".md"):
        text = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S))
    for line in filter(None, map(str.strip, code.splitlines())):
        assert line in text
    assert maker.notebook(source) == made  # no number in it is random


def test_links_to_files_are_only_words(maker: Any) -> None:
    texts = [cell.source for source in NAMES for cell in maker.notebook(source).cells
             if cell.cell_type == "markdown"]  # fmt: skip
    assert not any(re.search(r"(?<!!)\[[^\]]+\]\((?!https?:)", text) for text in texts)
