"""How large a page with 512 positions is, and how fast a browser shows it.

pip install '.[web]'              # and Debian's chromium
python benchmarks/page.py
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

from tinyattn.explore import explore

T, LAYERS, HEADS, TIMES = 512, 4, 8, 5
LIMITS = {"first paint": 2000, "click on a query": 50, "click on a head": 50}
"""Milliseconds."""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
READY = "document.querySelector('.tinyattn').dataset.ready === 'yes'"
CLICK = """(button) => {
  const start = performance.now(); button.click(); return performance.now() - start; }"""


def causal_weights() -> np.ndarray:
    """Random weights in which a position attends to itself and earlier ones: (L, H, T, T)."""
    e = np.exp(2 * np.random.default_rng(0).standard_normal((LAYERS, HEADS, T, T)))
    e = np.tril(e)
    return np.asarray(e / e.sum(-1, keepdims=True))


def measured(browser: Any, file: Path) -> dict[str, float]:
    """Milliseconds to the first paint (the title), until all is drawn, and for clicks."""
    tab = browser.new_page(viewport={"width": 1400, "height": 900})
    tab.goto(file.as_uri())
    tab.wait_for_function(READY)
    drawn = tab.evaluate("performance.now()")
    tab.wait_for_function(PAINT)
    found = {"first paint": tab.evaluate(PAINT), "all drawn": drawn}
    query = tab.locator(".controls .tokens").nth(0).locator("button").nth(300)
    found["click on a query"] = query.evaluate(CLICK)
    found["click on a head"] = tab.locator(".heads button").nth(20).evaluate(CLICK)
    tab.close()
    return found


def main() -> None:
    """Print medians; the exit status is 1 if one is above its limit."""
    page = explore([f"t{i}" for i in range(T)], causal_weights())
    print(f"{T} positions, {LAYERS} layers of {HEADS} heads: {len(page.encode()) / 1e6:.1f} MB")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "page.html"
        file.write_text(page, encoding="utf-8")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        rows = [measured(browser, file) for _ in range(TIMES)]
        medians = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    for name, median in medians.items():
        print(f"{name:17} {median:6.0f} ms")
    if too_slow := [name for name, limit in LIMITS.items() if medians[name] > limit]:
        raise SystemExit(f"above the limits {LIMITS}: {', '.join(too_slow)}")


if __name__ == "__main__":
    main()
