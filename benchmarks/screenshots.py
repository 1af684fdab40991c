"""The pictures of the explorer and of the trace in README and derivations, from a quickstart's run.

pip install '.[plot,web]'                      # and Debian's chromium
tinyattn quickstart
python benchmarks/screenshots.py runs
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

FIGURES = Path(__file__).parent
TEXTS = "Where was Nizmel Widmirv born?", "Where was Zulmob Vatvurv born?"
VIEWS = {  # file: width, height, colour scheme, scrolled to this heading
    "explore_light": (1200, 1060, "light", ""),
    "explore_dark": (1200, 900, "dark", "Lens: the next token that each layer predicts already"),
    "explore_narrow": (360, 1100, "light", ""),
}


def page(runs: Path, file: Path) -> None:
    """Write the page."""
    words = [word for text in TEXTS for word in ("--text", text)]
    subprocess.run([sys.executable, "-m", "tinyattn", "explore", "--from", runs / "finetune",
                    *words, "--out", file], check=True)  # fmt: skip


def shot(browser: Any, page: Path, name: str) -> None:
    """One picture, with head 1 of the last layer and the query MASK chosen."""
    width, height, scheme, heading = VIEWS[name]
    tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    tab.goto(page.as_uri())
    tab.wait_for_selector(".tinyattn[data-ready=yes]")
    section = tab.locator("section").first
    section.locator(".heads button").nth(5).click()
    section.locator(".controls .tokens").nth(1).locator("button").nth(11).click()
    if heading:
        section.get_by_text(heading, exact=True).evaluate("(node) => node.scrollIntoView()")
    file = FIGURES / f"{name}.png"
    tab.screenshot(path=file)
    Image.open(file).convert("RGB").quantize(256).save(file, optimize=True)
    print(file, file.stat().st_size)


def main() -> None:
    """Write all pictures."""
    runs = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "page.html"
        page(runs, file)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for name in VIEWS:
            shot(browser, file, name)
        browser.close()
    world = runs / "world"
    picture = FIGURES / "trace.png"
    subprocess.run([sys.executable, "-m", "tinyattn", "trace", world / "birth_dev.tsv", "--train",
                    world / "birth_train.tsv", "--from", runs / "finetune", "--picture", picture],
                   check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    Image.open(picture).convert("RGB").quantize(256).save(picture, optimize=True)
    print(picture, picture.stat().st_size)


if __name__ == "__main__":
    main()
