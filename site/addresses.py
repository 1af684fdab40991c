"""Where the files of the repository are on the site, and how one page links to another."""

from __future__ import annotations

import posixpath
import re
from pathlib import PurePosixPath

import contents
from names import Target, lookup, module


def address(page: str) -> str:
    """The address of a staged Markdown file; README.md is the index of its folder."""
    path = PurePosixPath(page)
    return str(path.with_name("index.html") if path.stem == "README" else path.with_suffix(".html"))


class Addresses:
    """The addresses of all pages and files of code that are on the site."""

    def __init__(self) -> None:
        self.staged = {page: contents.staged_page(page) for page in contents.pages()}
        self.staged |= {file: f"{file}.md" for file in contents.code()}

    def seen_from(self, file: str) -> View:
        """Links from the page of this file, a page of the repository or a file of code."""
        return View(self, file, self.staged.get(file, file))

    def staged_at(self, path: str) -> str | None:
        """The Markdown file for a path of the repository; for a folder, its first page."""
        path = path.rstrip("/")
        inside = (path, f"{path}/__init__.py", f"{path}/README.md")
        found = next((self.staged[name] for name in inside if name in self.staged), None)
        return f"{path}/index.md" if path in contents.linked_folders() else found


class View:
    """Links from one page.

    Args:
        addresses: where everything is.
        file: whose page it is; names are looked up there.
        page: the staged Markdown file.
    """

    def __init__(self, addresses: Addresses, file: str, page: str) -> None:
        self.addresses, self.file = addresses, file
        self.folder = posixpath.dirname(address(page))

    def to(self, target: Target | None) -> str | None:
        """The address of a definition, or None if it has no page."""
        if target is None or target.file not in self.addresses.staged:
            return None
        if target.name and target.name not in module(target.file).defined:
            return None
        page = posixpath.relpath(address(self.addresses.staged[target.file]), self.folder or ".")
        return f"{page}#{target.name}" if target.name else page

    def mentioned(self, text: str) -> str | None:
        """The address of what a docstring mentions: a file, or a name such as `ops.softmax`."""
        if re.fullmatch(r"[\w/]+\.(py|md)", text):
            beside = posixpath.join(posixpath.dirname(self.file), text)
            found = (beside, f"tinyattn/{text}", text)
            file = next((f for f in found if f in self.addresses.staged), None)
            return self.to(Target(file)) if file else None
        name = text.removesuffix("()").removeprefix("@")
        if not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", name) or not self.file.endswith(".py"):
            return None
        target: Target | None = Target(self.file)
        for part in name.split("."):
            target = lookup(target, part)
        return self.to(target)
