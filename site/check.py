"""Check a built site: links and anchors, sizes of the pages, formulas, requests to other hosts.

python site/check.py DIR
"""

from __future__ import annotations

import gzip
import html
import posixpath
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

LARGEST = 600_000
"""Bytes of a page, and bytes that a browser loads to show it, compressed as a server does it."""
LARGEST_INDEX = 300_000
"""Bytes of the search's index, compressed, which a browser loads once, behind the first page."""

_TAG = re.compile(r"<(\w+)((?:\s+[^\s=<>]+(?:=(?:\"[^\"]*\"|'[^']*'|[^\s>]+))?)*)\s*/?>")
_ATTRIBUTE = re.compile(r"([^\s=<>]+)=(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+))")
_URL = re.compile(r"url\(['\"]?([^)'\"]+\.woff2)")


class Page(NamedTuple):
    """One page.

    Attributes:
        ids: its anchors, one for each time that it has them.
        links: the addresses of its links.
        loads: the addresses of what a browser loads with it.
        formulas: the number of formulas.
        size: bytes.
    """

    ids: list[str]
    links: list[str]
    loads: list[str]
    formulas: int
    size: int


def read(file: Path) -> Page:
    """Read a page of the site."""
    text = file.read_text("utf-8")
    ids, links, loads = [], [], []
    for tag, attributes in _TAG.findall(text):
        values = {
            name: html.unescape(a or b or c) for name, a, b, c in _ATTRIBUTE.findall(attributes)
        }
        ids += [values["id"]] if "id" in values else []
        if tag == "a" and "href" in values:
            links.append(values["href"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon"):
            loads.append(values["href"])
        elif tag in ("script", "img", "iframe", "source") and "src" in values:
            loads.append(values["src"])
    return Page(ids, links, loads, text.count('class="katex"'), len(text.encode()))


class Site:
    """All pages of a built site.

    Args: folder: the folder of the site.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = sorted(folder.rglob("*.html"))
        self.pages = {file.relative_to(folder).as_posix(): read(file) for file in files}

    def problems(self) -> list[str]:
        """Everything that is wrong, one line each."""
        found = [f"{name}: {wrong}" for name in self.pages for wrong in self._of_page(name)]
        found += [f"a style sheet names {font}, which is not there" for font in self._no_fonts()]
        if self.index_size() > LARGEST_INDEX:
            found.append(
                f"the search's index: {self.index_size():,} bytes; at most {LARGEST_INDEX:,}"
            )
        return found

    def _of_page(self, name: str) -> Iterator[str]:
        page = self.pages[name]
        for link in page.links:
            if not re.match(r"https?:|mailto:", link) and not self._leads_somewhere(name, link):
                yield f"a link to {link}"
        for address in page.loads:
            if re.match(r"(https?:)?//", address):
                yield f"loads {address} from another host"
            elif not self._file(name, address).is_file():
                yield f"loads {address}, which is not there"
        for anchor in sorted({i for i in page.ids if page.ids.count(i) > 1}):
            yield f"the anchor {anchor} twice"
        text = (self.folder / name).read_text("utf-8")
        if "katex-error" in text or re.search(r'class="arithmatex">\\[(\[]', text):
            yield "a formula that is not rendered"
        for size, what in ((page.size, "bytes"), (self.weight(name), "bytes with all it loads")):
            if size > LARGEST:
                yield f"{size:,} {what}; at most {LARGEST:,}"

    def _file(self, page: str, address: str) -> Path:
        path = unquote(address.partition("#")[0].partition("?")[0])
        return self.folder / posixpath.normpath(posixpath.join(posixpath.dirname(page), path))

    def _leads_somewhere(self, page: str, link: str) -> bool:
        anchor = unquote(link.partition("#")[2])
        file = self._file(page, link) if link.partition("#")[0] else self.folder / page
        file = file / "index.html" if file.is_dir() else file
        if not file.is_file():
            return False
        if not anchor:
            return True
        other = self.pages.get(file.relative_to(self.folder).as_posix())
        return other is not None and anchor in other.ids

    def weight(self, name: str) -> int:
        """The bytes that a browser loads to show a page, fonts left out."""
        page = self.pages[name]
        files = {self.folder / name, *(self._file(name, load) for load in page.loads)}
        return sum(compressed(file) for file in files if file.is_file())

    def index_size(self) -> int:
        """The bytes of the search's index; 0 if there is none."""
        index = [self.folder / name for name in ("search.json", "search/search_index.json")]
        return sum(compressed(file) for file in index if file.is_file())

    def _no_fonts(self) -> list[str]:
        """Fonts that a style sheet names and that are not there."""
        sheets = [*self.folder.rglob("*.css")]
        named = [(s.parent / url) for s in sheets for url in _URL.findall(s.read_text("utf-8"))]
        return [str(file) for file in named if not file.is_file()]


@cache
def compressed(file: Path) -> int:
    """The size of a file, compressed if it is text."""
    data = file.read_bytes()
    return (
        len(gzip.compress(data, 6))
        if file.suffix in (".html", ".css", ".js", ".json")
        else len(data)
    )


def main() -> int:
    """The command. Returns: 1 if something is wrong."""
    site = Site(Path(sys.argv[1]))
    wrong = site.problems()
    print(*wrong, sep="\n")
    pages = site.pages
    heaviest = max(pages, key=site.weight)
    largest = max(pages, key=lambda name: pages[name].size)
    print(
        f"{len(pages)} pages, {sum(len(p.links) for p in pages.values()):,} links, "
        f"{sum(p.formulas for p in pages.values()):,} formulas, {len(wrong)} problems\n"
        f"largest page: {largest}, {pages[largest].size:,} bytes\n"
        f"heaviest page: {heaviest}, {site.weight(heaviest):,} bytes with all it loads but fonts\n"
        f"the search's index: {site.index_size():,} bytes, compressed"
    )
    return 1 if wrong or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
