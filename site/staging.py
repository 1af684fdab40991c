"""The folder from which the site is built: copies of the pages, and pages made from the code.

The pages of the repository stay as they are. In the copies, links to files of code lead to the
pages that show them.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
import shutil
from pathlib import Path

import code_pages
import contents
import notebooks
import reference
from addresses import Addresses
from names import ROOT, module
from words import first_sentence

HERE = Path(__file__).parent
PICTURES = (".png", ".svg")


def stage(folder: Path) -> int:
    """Write all sources of the site, and its configuration, into an empty folder.

    Returns: the number of pages.
    Raises: ValueError if a page links to something that is not on the site.
    """
    made = {contents.staged_page(page): _copied(page, folder) for page in contents.pages()}
    addresses = Addresses()
    made |= {f"{file}.md": code_pages.page(file) for file in contents.code()}
    made |= {
        contents.reference_page(name): reference.page(name, addresses)
        for name in contents.folders()
    }
    made["reference/index.md"] = reference.index(addresses)
    made["tinyattn/index.md"] = _code_index()
    for name in contents.linked_folders():
        inside = [file for file in contents.code() if file.rpartition("/")[0] == name]
        made[f"{name}/index.md"] = _listing(name, inside, name)
    for name, text in made.items():
        file = folder / "pages" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    notebooks.write_all(folder / "pages/notebooks")
    assets = folder / "pages/assets"
    assets.mkdir(exist_ok=True)
    for name in ("site.css", "favicon.svg"):
        shutil.copy(HERE / name, assets)
    settings = (HERE / "mkdocs.yml").read_text("utf-8")
    settings += "nav: " + json.dumps(contents.nav()) + "\n"  # JSON is YAML
    (folder / "mkdocs.yml").write_text(settings, "utf-8")
    return len(made)


def _copied(page: str, folder: Path) -> str:
    """The text of a page with its links changed; copies the pictures that it shows."""
    addresses = Addresses()
    start = posixpath.dirname(contents.staged_page(page)) or "."
    code = ""  # the code before a link

    def staged(found: re.Match[str]) -> str:
        before, link, anchor = found[1], found[2], found[3] or ""
        if "://" in link:
            return found[0]
        path = contents.resolved(page, link)
        if path.endswith(PICTURES):
            _copy(ROOT / path, folder / "pages" / path)
            return before + posixpath.relpath(path, start)
        target = addresses.staged_at(path)
        if target is None:
            raise ValueError(f"{page} links to {link}, which is not on the site")
        if path.endswith(".py") and _IN.search(found.string[: found.start()]):
            anchor = f"#{code}" if code in module(path).defined else ""
        return before + posixpath.relpath(target, start) + anchor

    parts = []
    for is_text, piece in contents.outside_code((ROOT / page).read_text("utf-8")):
        parts.append(contents.LINK.sub(staged, piece) if is_text else piece)
        code = piece.strip("`")
    if page in notebooks.sources():
        file = posixpath.relpath(f"notebooks/{notebooks.name_of(page)}", start)
        parts.append(f"\n\n[This page as a notebook]({file})\n")
    return "".join(parts)


_IN = re.compile(r"^\s+in\s+\[[^\]]*$")
"""What stands between a name and the link to its file, as in "`softmax` in [ops/softmax.py]"."""


def _copy(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, to)


def _code_index() -> str:
    """The package's table of contents, with the first sentence of each file."""
    parts = ["# The code, in reading order\n\n"
             "A file imports only from files before its own. Each page shows a file's words beside "
             "its code; a name leads to where it is defined. What the chapters, the wings and the "
             "engine room are is told by [the package's docstring](__init__.py.md)."]  # fmt: skip
    for title, files in (contents.chapters() | contents.scripts()).items():
        parts.append(_listing(title, files, "tinyattn", level="##"))
    return "\n\n".join(parts) + "\n"


def _listing(title: str, files: list[str], folder: str, level: str = "#") -> str:
    """A table of files and what they are."""
    rows = [f"| [{file.removeprefix(f'{folder}/')}]({posixpath.relpath(file, folder)}.md) "
            f"| {_about(file)} |" for file in files]  # fmt: skip
    return f"{level} {title}\n\n| file | about |\n| --- | --- |\n" + "\n".join(rows)


def _about(file: str) -> str:
    """The first sentence of a file's docstring, without the name of its chapter, in a table."""
    text = first_sentence(ast.get_docstring(module(file).tree) or "")
    text = re.sub(r"^(Chapters?|Wing|Engine room)\b[^:]*: ", "", text)
    return re.sub(r"([|*_<$\\])", r"\\\1", text[:1].upper() + text[1:])
