"""What is on the site, in reading order: pages of the repository, and pages made from its code."""

from __future__ import annotations

import re
import sys
from functools import cache

from names import ROOT

sys.path.append(str(ROOT / "tests"))
import reading_order

Nav = list["str | dict[str, str | Nav]"]
"""As in mkdocs.yml: pages, pages with a title, and sections."""

LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
"""A link in Markdown to something else than a place of the same page."""
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.M | re.S)
ROOMS = {
    "1": "1 Gradients", "2": "2 Attention", "3": "3 A GPT", "4": "4 Training", "5": "5 A task",
    "6": "6 More of it", "7": "7 Theory",
}  # fmt: skip
"""Titles of the chapters of the package's docstring."""
ENGINE_ROOM = ("kernels/", "parallel/", "measure/")

_CHAPTERS = sorted((ROOT / "derivations").glob("[0-9]*.md"))
BOOK = ["derivations/README.md", *(f"derivations/{page.name}" for page in _CHAPTERS)]
PAGES: dict[str, dict[str, str]] = {
    "Start": {
        "README.md": "Start",
        "docs/first_hour.md": "Your first hour",
        "docs/reading.md": "What to read",
        "docs/pytorch.md": "The same in PyTorch",
        "docs/exercises.md": "Exercises",
        "docs/glossary.md": "Glossary",
        "CHANGELOG.md": "Changelog",
    },
    "Book": dict.fromkeys(BOOK, ""),
    "How to": {
        "docs/experiment.md": "The experiment by command, and your own text",
        "docs/attention_types.md": "Attention types, and your own",
        "docs/check.md": "Check an attention function of your own",
        "docs/explore.md": "Look at attention",
        "docs/gpu.md": "A GPU, or several processes",
        "docs/a5.md": "A5 in an hour",
        "CONTRIBUTING.md": "Change the package, add a task",
    },
    "Evidence": {
        "docs/claims.md": "Claims and errata",
        "tests/theory/README.md": "",
        "tests/properties/README.md": "Laws, and mistakes that they find",
        "benchmarks/conformance.md": "Attention of other libraries",
    },
    "Speed": {
        "benchmarks/README.md": "",
        "benchmarks/speed.md": "",
        "benchmarks/attention_types.md": "",
        "benchmarks/world.md": "",
        "benchmarks/a5.md": "",
    },
}
"""The pages of the repository by section, each with its title there, or "" for its own title."""


def staged_page(page: str) -> str:
    """Where a page is staged: as in the repository, but for the README of a folder of tests, which
    would become the first page of its section."""
    return re.sub(r"^(tests/\w+)/README\.md$", r"\1.md", page)


def pages() -> list[str]:
    """All pages of the repository that are on the site."""
    return [page for section in PAGES.values() for page in section]


def outside_code(text: str) -> list[tuple[bool, str]]:
    """A page in pieces, each with whether it is text, and not code."""
    return [(number % 2 == 0, piece) for number, piece in enumerate(_CODE.split(text))]


def links(page: str) -> list[str]:
    """What a page of the repository links to or shows, relative to the repository."""
    pieces = outside_code((ROOT / page).read_text("utf-8"))
    found = [link[2] for is_text, piece in pieces if is_text for link in LINK.finditer(piece)]
    return [resolved(page, link) for link in found if "://" not in link]


def resolved(page: str, link: str) -> str:
    """The path of a link's target, relative to the repository."""
    path = (ROOT / page).parent.joinpath(link).resolve()
    return path.relative_to(ROOT.resolve()).as_posix()


@cache
def chapters() -> dict[str, list[str]]:
    """The files of the package by chapter, in reading order, and last the __init__ files."""
    found: dict[str, list[str]] = {}
    for name, number in reading_order.chapters().items():
        side = "Engine room" if name.startswith(ENGINE_ROOM) else "Wings"
        found.setdefault(ROOMS.get(number, side), []).append(f"tinyattn/{name}.py")
    package = sorted((ROOT / "tinyattn").rglob("__*__.py"))
    found["Contents of the folders"] = [str(file.relative_to(ROOT)) for file in package]
    return found


@cache
def linked_folders() -> list[str]:
    """Folders of code outside of the package that a page links to; each has a page of its own."""
    linked = {link.rstrip("/") for page in pages() for link in links(page)}
    return [name for name in sorted(linked) if not name.startswith("tinyattn")
            and [*(ROOT / name).glob("*.py")] and f"{name}/README.md" not in pages()]  # fmt: skip


@cache
def scripts() -> dict[str, list[str]]:
    """Files of code outside of the package: all examples, and what a page links to."""
    linked = {link for page in pages() for link in links(page)}
    inside = {
        str(f.relative_to(ROOT)) for name in linked_folders() for f in (ROOT / name).glob("*.py")
    }
    outside = {link for link in linked if link.endswith(".py") and link[:9] != "tinyattn/"} | inside
    examples = sorted(file for file in outside if file.startswith("examples/"))
    return {"Examples": examples, "Scripts and tests": sorted(outside - {*examples})}


def code() -> list[str]:
    """All files that have a page with their code."""
    return [file for files in (chapters() | scripts()).values() for file in files]


def folders() -> list[str]:
    """The folders of the package in reading order; "tinyattn" has the files of the top level."""
    names = [
        file.rpartition("/")[0] for file in map("tinyattn/{}.py".format, reading_order.contents())
    ]
    return [*dict.fromkeys(names)]


def nav() -> Nav:
    """The contents of the site, for mkdocs.yml."""
    sections: Nav = []
    for title, part in PAGES.items():
        staged = [(staged_page(page), name) for page, name in part.items()]
        sections.append({title: [{name: page} if name else page for page, name in staged]})
        if title == "Book":
            sections += [_code(), _reference()]
    return sections


def _code() -> dict[str, str | Nav]:
    groups: Nav = ["tinyattn/index.md"]
    for title, files in (chapters() | scripts()).items():
        shown: Nav = [{file.removeprefix("tinyattn/"): f"{file}.md"} for file in files]
        groups.append({title: shown})
    return {"Code": groups}


def reference_page(folder: str) -> str:
    """The file that has the reference of a folder of the package."""
    inner = folder.removeprefix("tinyattn").strip("/").replace("/", "_")
    return f"reference/{inner or 'tinyattn'}.md"


def _reference() -> dict[str, str | Nav]:
    titled: Nav = [{folder.replace("/", "."): reference_page(folder)} for folder in folders()]
    return {"Reference": ["reference/index.md", *titled]}
