"""Pages and examples as notebooks: python site/notebooks.py --out DIR

A notebook is made of a page that has Python code, or of an example, so it always says the same. Its
first cell installs the package; so it runs on Colab. Needs jupytext (`pip install '.[site]'`).
"""

from __future__ import annotations

import argparse
import ast
import re
from pathlib import Path
from typing import Any

import contents
import jupytext
from names import ROOT

INSTALL = """\
# This notebook is made from {source}. Colab has CuPy: there `device="cuda"` computes on the GPU.
%pip install --quiet 'tinyattn[check,plot]'"""
SET_UP = """\
import os, sys

os.makedirs("figures", exist_ok=True)  # for the pictures that cells draw
sys.argv = ["notebook"]  # a notebook has no command line"""
RELATIVE = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]*\)")
"""A link that leads nowhere from a notebook, which lies in a folder of its own."""


def sources() -> list[str]:
    """The pages with Python code in reading order, then the examples."""
    pages = [page for page in contents.pages() if "\n```python\n" in _text(page)]
    return pages + sorted(f"examples/{file.name}" for file in (ROOT / "examples").glob("*.py"))


def name_of(source: str) -> str:
    """The file of a page's or an example's notebook: derivations_03_softmax.ipynb."""
    return str(Path(source).with_suffix(".ipynb")).replace("/", "_")


def notebook(source: str) -> Any:
    """The notebook of a page, or of an example."""
    text = _text(source)
    made = jupytext.reads(text, fmt="md" if source.endswith(".md") else "py:light")
    if source.endswith(".py"):
        words = ast.get_docstring(ast.parse(text)) or ""
        title, _, rest = words.partition("\n")
        made.cells[0] = _cell("markdown", f"# {title.rstrip('.')}\n{rest}")
    for cell in made.cells:
        if cell.cell_type == "markdown":
            cell.source = RELATIVE.sub(r"\1", cell.source)
    install = _cell("code", INSTALL.format(source=source))
    install.metadata["tags"] = ["skip-execution"]  # the tests run what is installed already
    made.cells[:0] = [install, _cell("code", SET_UP)]
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"  # jupytext draws them at random
    made.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3",
                                    "language": "python"}}  # fmt: skip
    return made


def write_all(folder: Path) -> list[Path]:
    """Write every notebook into a folder. Returns: the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for source in sources():
        written.append(folder / name_of(source))
        jupytext.write(notebook(source), written[-1], fmt="ipynb")
    return written


def _text(source: str) -> str:
    return (ROOT / source).read_text("utf-8")


def _cell(kind: str, text: str) -> Any:
    """A new cell, made by jupytext as the others are."""
    words = f"```python\n{text}\n```" if kind == "code" else text
    return jupytext.reads(words, fmt="md").cells[0]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Write the pages and examples as notebooks.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the notebooks")
    written = write_all(parser.parse_args().out)
    print(f"{len(written)} notebooks: {written[0].parent}")


if __name__ == "__main__":
    main()
