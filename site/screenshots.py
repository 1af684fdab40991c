"""Screenshots of six pages of a built site: light, dark, on a narrow screen, and printed.

python site/screenshots.py DIR OUT      # needs playwright and Debian's chromium
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

PAGES = {
    "start": "index.html",
    "book": "derivations/11_two_heads.html",
    "code": "tinyattn/attention/multihead.py.html",
    "contents": "tinyattn/index.html",
    "reference": "reference/ops.html",
    "speed": "benchmarks/speed.html",
}
VIEWS = {"light": (1400, "light"), "dark": (1400, "dark"), "narrow": (360, "light")}
"""The width in pixels and the colour scheme."""


def shoot(browser: Any, page: Path, into: Path, name: str) -> None:
    """All pictures of one page, and the page as it is printed."""
    for view, (width, scheme) in VIEWS.items():
        size = {"width": width, "height": 1000}
        tab = browser.new_page(viewport=size, color_scheme=scheme)
        tab.goto(page.resolve().as_uri())
        tab.evaluate("document.fonts.ready")
        tab.screenshot(path=into / f"{name}_{view}.png")
        tab.close()
    tab = browser.new_page()
    tab.goto(page.resolve().as_uri())
    tab.pdf(path=into / f"{name}.pdf", format="A4", margin=dict.fromkeys(
        ("top", "bottom", "left", "right"), "15mm"))  # fmt: skip
    tab.close()


def main() -> None:
    """The command."""
    site, into = Path(sys.argv[1]), Path(sys.argv[2])
    into.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for name, page in PAGES.items():
            shoot(browser, site / page, into, name)
        browser.close()


if __name__ == "__main__":
    main()
