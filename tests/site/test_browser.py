"""The site in a real browser, opened from disk: no other host, no error, a search that works.

Needs playwright and a Chromium of the system (Debian: apt-get install chromium).
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
OTHERS = ("index.html", "tinyattn/tensor.py.html", "tinyattn/index.html", "reference/index.html",
          "reference/ops.html", "tests/properties.html", "benchmarks/speed.html")  # fmt: skip
"""Pages of each kind, besides those of the book."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield made
        made.close()


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """An empty tab of a narrow screen; at the end no other host was asked, no error printed."""
    requests: list[str] = []
    errors: list[str] = []
    made = browser.new_page(viewport={"width": 360, "height": 800}, color_scheme="dark")
    made.on("request", lambda r: requests.append(r.url))
    made.on("pageerror", lambda e: errors.append(str(e)))
    made.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    yield made
    made.close()
    assert errors == []
    assert requests and [url for url in requests if not url.startswith(("file:", "data:"))] == []


def test_pages_load_nothing_from_elsewhere_and_fit_a_narrow_screen(
    built: Path, tab: Any, maker: SimpleNamespace
) -> None:
    loaded: set[str] = set()
    tab.on("request", lambda r: loaded.add(r.url.partition("?")[0]))
    formulas, heaviest = 0, (0, "")
    for page in (*map(maker.addresses.address, maker.contents.BOOK), *OTHERS):
        loaded.clear()
        tab.goto((built / page).as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360, page
        assert tab.locator(".katex-error").count() == 0
        shown = tab.locator(".katex").count()
        assert shown == tab.locator(".arithmatex").count()
        formulas += shown
        files = [Path(url2pathname(urlsplit(url).path)) for url in loaded if url[:5] == "file:"]
        size = sum(maker.check.compressed(f) for f in files if f.name != "search.js")
        heaviest = max(heaviest, (size, page))
    print(f"{formulas} formulas in the browser; {heaviest[1]} loads {heaviest[0]:,} bytes")
    assert formulas > 900 and heaviest[0] <= maker.check.LARGEST


def test_light_and_dark(built: Path, browser: Any) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        tab = browser.new_page(color_scheme=scheme)
        tab.goto((built / "derivations/03_softmax.html").as_uri())
        style = "getComputedStyle(document.body).backgroundColor"
        colours[scheme] = sum(map(int, tab.evaluate(style)[4:-1].split(",")[:3]))
        tab.close()
    assert colours["light"] > 600 > 150 > colours["dark"]


def test_words_stand_beside_code_on_a_wide_screen_and_above_it_on_a_narrow_one(
    built: Path, tab: Any
) -> None:
    tab.goto((built / "tinyattn/ops/softmax.py.html").as_uri())
    row = tab.locator("section:has(> .words > h2#softmax)")

    def corners() -> tuple[Any, Any]:
        return row.locator(".words").bounding_box(), row.locator("> .highlight").bounding_box()

    words, code = corners()
    assert code["y"] >= words["y"] + words["height"]
    tab.set_viewport_size({"width": 1400, "height": 900})
    words, code = corners()
    assert abs(code["y"] - words["y"]) < 20 and code["x"] > words["x"] + words["width"]


def test_search_finds_softmax(built: Path, tab: Any) -> None:
    tab.set_viewport_size({"width": 1400, "height": 900})
    tab.goto((built / "index.html").as_uri())
    tab.locator(".md-search__button").first.click()
    tab.get_by_role("combobox", name="Search").fill("softmax")
    found = tab.get_by_role("option")
    found.first.wait_for()
    titles = [text.partition("\n")[0] for text in found.all_inner_texts()[:8]]
    assert {"softmax", "3. Softmax"} <= {*titles}  # the reference, and the book
    found.filter(has_text="3. Softmax").first.click()
    tab.wait_for_url("**/03_softmax.html*")
