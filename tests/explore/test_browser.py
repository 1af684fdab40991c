"""The page in a real browser: each wish of people who look at attention, as a test.

Needs playwright and a Chromium of the system (Debian: apt-get install chromium).
"""

import csv
import io
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyattn.explore import Section, explore, fragment, sections_of
from tinyattn.explore.page import PAGE
from tinyattn.tasks.runs import load_run

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
TOKENS = ["a", " ", "</script>", "é", "\n", "<b>x</b>"]
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield made
        made.close()


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Open a page; at the end no request was made and no error printed."""
    requests: list[str] = []
    errors: list[str] = []
    contexts = []

    def show(page: str, *, width: int = 1400, scheme: str = "light") -> Any:
        file = tmp_path / "page.html"
        file.write_text(page, encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 900},
                                      color_scheme=scheme, accept_downloads=True)  # fmt: skip
        contexts.append(context)
        tab = context.new_page()
        tab.on("request", lambda r: requests.append(r.url))
        tab.on("pageerror", lambda e: errors.append(str(e)))
        tab.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        tab.goto(file.as_uri())
        tab.wait_for_function(
            "[...document.querySelectorAll('.tinyattn')].every(r => r.dataset.ready === 'yes')"
        )
        return tab

    yield show
    for context in contexts:
        context.close()
    assert not errors
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests), requests


def weights(L: int, H: int, T: int, S: int, *, causal: bool = False, seed: int = 0) -> np.ndarray:
    e = np.exp(np.random.default_rng(seed).standard_normal((L, H, T, S)) * 2)
    e = np.tril(e) if causal else e
    return np.asarray(e / e.sum(-1, keepdims=True))


def queries(tab: Any, section: int = 0) -> Any:
    return tab.locator("section").nth(section).locator(".controls .tokens").nth(0).locator("button")


def keys(tab: Any, section: int = 0) -> Any:
    return tab.locator("section").nth(section).locator(".controls .tokens").nth(1).locator("button")


def table(tab: Any) -> dict[int, float]:
    """The weights in the table of the chosen queries."""
    rows = tab.locator(".readout tr[data-key]").all()
    return {int(row.get_attribute("data-key")): float(row.locator(".weight").inner_text())
            for row in rows}  # fmt: skip


def near(found: dict[int, float], wanted: np.ndarray, most: float) -> None:
    assert found and all(abs(value - wanted[s]) <= most for s, value in found.items())
    assert min(found.values()) >= np.sort(wanted)[::-1][: len(found)].min() - 2 * most


PIXEL = 1e-4  # four decimals; a large page has steps of 1/255 of the root of a weight


def test_a_token_is_pinned_and_unpinned(show: Open) -> None:
    w = weights(2, 3, 6, 6)
    tab = show(explore(TOKENS, w))
    tab.get_by_label("layer 1 head 2", exact=True).click()
    queries(tab).nth(3).click()
    assert queries(tab).nth(3).get_attribute("aria-pressed") == "true"
    near(table(tab), w[1, 2, 3], PIXEL)
    queries(tab).nth(3).click()
    assert queries(tab).nth(3).get_attribute("aria-pressed") == "false"
    assert tab.locator(".readout").inner_text() == "nothing is pinned"


def test_several_tokens_are_summed(show: Open) -> None:
    w = weights(1, 1, 6, 6)
    tab = show(explore(TOKENS, w))
    queries(tab).nth(1).click()
    queries(tab).nth(4).click(modifiers=["Shift"])
    near(table(tab), w[0, 0, [1, 4]].sum(0), 2 * PIXEL)
    tab.get_by_role("button", name="all queries").click()
    near(table(tab), w[0, 0].sum(0), 6 * PIXEL)


def test_numbers_are_shown_on_hover_and_click(show: Open) -> None:
    w = weights(1, 2, 6, 6)
    tab = show(explore(TOKENS, w))
    box = tab.locator("canvas.matrix").first.bounding_box()
    for t, s in ((0, 0), (2, 5), (5, 1)):
        at = {"x": (s + 0.5) * box["width"] / 6, "y": (t + 0.5) * box["height"] / 6}
        tab.locator("canvas.matrix").first.hover(position=at)
        text = tab.locator(".hover").inner_text()
        assert text.startswith(f"{t} ") and f"→ {s} " in text
        assert abs(float(text.rpartition(" ")[2]) - w[0, 0, t, s]) <= PIXEL
        tab.locator("canvas.matrix").first.click(position=at)
        assert queries(tab).nth(t).get_attribute("aria-pressed") == "true"
        assert keys(tab).nth(s).get_attribute("aria-pressed") == "true"
        queries(tab).nth(t).click()  # unpinned again


def test_weights_are_copied_as_csv(show: Open) -> None:
    w = weights(1, 1, 6, 6)
    tab = show(explore(TOKENS, w))
    queries(tab).nth(2).click()
    tab.get_by_role("button", name="copy weights as CSV").click()
    rows = [*csv.reader(io.StringIO(tab.locator("textarea.copied").last.input_value()))]
    assert rows[0] == ["index", "key", "weight"] and [row[1] for row in rows[1:]] == TOKENS
    assert np.abs(np.array([float(row[2]) for row in rows[1:]]) - w[0, 0, 2]).max() <= PIXEL
    tab.get_by_role("button", name="copy matrix as CSV").click()
    rows = [*csv.reader(io.StringIO(tab.locator("textarea.copied").last.input_value()))]
    assert rows[0][1:] == TOKENS and [row[0] for row in rows[1:]] == TOKENS
    found = np.array([[float(x) for x in row[1:]] for row in rows[1:]])
    assert np.abs(found - w[0, 0]).max() <= PIXEL


def test_a_saved_svg_keeps_what_is_chosen(show: Open, tmp_path: Path) -> None:
    w = weights(1, 1, 6, 6)
    tab = show(explore(TOKENS, w))
    queries(tab).nth(1).click()
    keys(tab).nth(3).click()
    with tab.expect_download() as download:
        tab.get_by_role("button", name="save lines as SVG").click()
    svg = Path(download.value.path()).read_text("utf-8")
    assert svg.startswith("<svg") and 'font-weight="bold"' in svg
    lines = [float(x) for x in re.findall(r'data-weight="([\d.]+)"', svg)]
    assert np.abs(np.sort(lines) - np.sort(w[0, 0, 1][w[0, 0, 1] >= 0.004])).max() <= PIXEL
    assert "<b>" not in svg  # text stays text


def test_cross_attention_has_other_keys(show: Open) -> None:
    w, names = weights(2, 2, 6, 4), ["un", "deux", "trois", "quatre"]
    tab = show(explore(TOKENS, w, keys=names))
    assert keys(tab).all_inner_texts() == names and queries(tab).count() == 6
    queries(tab).nth(0).click()
    near(table(tab), w[0, 0, 0], PIXEL)


def test_bidirectional_weights_are_whole(show: Open) -> None:
    w = weights(1, 1, 6, 6)
    tab = show(explore(TOKENS, w, q=np.ones((1, 1, 6, 2)), k=np.ones((1, 1, 6, 2))))
    queries(tab).nth(0).click()
    keys(tab).nth(5).click()
    assert "masked" not in tab.locator(".score .sum").inner_text()
    near(table(tab), w[0, 0, 0], PIXEL)


def test_sequences_of_unequal_lengths(show: Open) -> None:
    one, two = weights(1, 2, 6, 6), weights(1, 2, 3, 3, seed=1)
    tab = show(explore([Section(TOKENS, one, title="long"), Section(["x", "y", "z"], two)]))
    assert queries(tab, 0).count() == 6 and queries(tab, 1).count() == 3
    queries(tab, 1).nth(0).click()
    first = tab.locator("section").nth(1).locator(".readout .weight").first.inner_text()
    assert abs(float(first) - two[0, 0, 0].max()) <= PIXEL


def test_one_page_has_several_explorers(show: Open) -> None:
    parts = [fragment([Section(TOKENS, weights(1, 1, 6, 6, seed=i))], title=f"page {i}")
             for i in range(2)]  # fmt: skip
    tab = show(PAGE.format(title="two", body="".join(parts)))
    assert tab.locator("h1").all_inner_texts() == ["page 0", "page 1"]
    assert tab.locator("section").count() == 2 and tab.locator(".heads button").count() == 2


def test_a_score_is_taken_apart(show: Open) -> None:
    """From q and k; with a temperature the softmax is computed again."""
    rng = np.random.default_rng(3)
    q, k, scale = rng.standard_normal((1, 2, 6, 5)), rng.standard_normal((1, 2, 6, 5)), 0.3
    scores = np.where(np.tri(6, dtype=bool), q @ k.swapaxes(-1, -2) * scale, -np.inf)

    def softmax(s: np.ndarray) -> np.ndarray:
        e = np.exp(s - s.max(-1, keepdims=True))
        return np.asarray(e / e.sum(-1, keepdims=True))

    tab = show(explore(TOKENS, softmax(scores), q=q, k=k, scale=scale))
    queries(tab).nth(4).click()
    keys(tab).nth(2).click()
    text = tab.locator(".score .sum").inner_text()
    product = float(q[0, 0, 4] @ k[0, 0, 2])
    found = [float(x) for x in re.findall(r"-?\d+\.\d+", text)]
    assert np.allclose(found[:3], [product, scale, product * scale], atol=1e-3)
    assert abs(found[-1] - softmax(scores)[0, 0, 4, 2]) <= PIXEL
    terms = {int(row.get_attribute("data-dimension")): float(row.locator(".term").inner_text())
             for row in tab.locator(".score tr[data-dimension]").all()}  # fmt: skip
    assert np.allclose([terms[d] for d in range(5)], q[0, 0, 4] * k[0, 0, 2], atol=1e-3)
    for exponent in (-1, 1.5):
        tab.get_by_label("temperature").fill(str(exponent))
        wanted = softmax(scores / 2**exponent)[0, 0, 4]
        assert abs(float(tab.locator(".score .result").inner_text()) - wanted[2]) <= 1e-3
        near(table(tab), wanted, 1e-3)
    keys(tab).nth(5).click()
    assert "masked" in tab.locator(".score .sum").inner_text()


def test_values_and_what_they_add(show: Open) -> None:
    w, v = weights(1, 2, 6, 6), np.random.default_rng(1).standard_normal((1, 2, 6, 3))
    out = np.random.default_rng(2).standard_normal((1, 6, 4))
    tab = show(explore(TOKENS, w, v=v, out=out))
    queries(tab).nth(2).click()
    for row in tab.locator(".readout tr[data-key]").all():
        s = int(row.get_attribute("data-key"))
        wanted = w[0, 0, 2, s] * np.linalg.norm(v[0, 0, s] @ out[0, :3])
        assert abs(float(row.locator(".adds").inner_text()) - wanted) <= 1e-3


def test_the_layout_can_be_horizontal(show: Open) -> None:
    tab = show(explore(TOKENS, weights(1, 1, 6, 6)))
    tall = tab.locator(".lines svg").bounding_box()
    tab.get_by_role("button", name="layout: vertical").click()
    wide = tab.locator(".lines svg").bounding_box()
    texts = tab.locator(".lines svg text").all()
    assert len({round(text.bounding_box()["y"]) for text in texts[:6]}) == 1
    assert wide["height"] != tall["height"]


def test_keyboard_and_names_for_a_screen_reader(show: Open) -> None:
    w = weights(2, 2, 6, 6)
    tab = show(explore(TOKENS, w))
    tab.keyboard.press("Tab")
    seen = set()
    for _ in range(40):
        seen.add(tab.evaluate("document.activeElement.getAttribute('aria-label') "
                              "|| document.activeElement.innerText"))  # fmt: skip
        tab.keyboard.press("Tab")
    assert {"layer 0 head 0", "layer 1 head 1", "temperature", "save lines as SVG"} <= seen
    queries(tab).nth(0).focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Enter")
    assert queries(tab).nth(1).get_attribute("aria-pressed") == "true"
    assert tab.evaluate("document.activeElement.title").startswith("query 1")  # still there
    tab.locator("canvas.matrix").first.focus()
    tab.keyboard.press("ArrowDown")
    assert queries(tab).nth(2).get_attribute("aria-pressed") == "true"
    assert tab.locator(".readout[aria-live=polite], .hover[aria-live=polite]").count() == 2
    assert tab.locator("canvas.matrix").first.get_attribute("aria-label").startswith("weights of")


def test_not_by_colour_alone(show: Open) -> None:
    """A pinned token is underlined, a large weight is a thick line and a number."""
    w = weights(1, 1, 6, 6)
    tab = show(explore(TOKENS, w))
    queries(tab).nth(2).click()
    style = "getComputedStyle(document.querySelector('[aria-pressed=true]')).textDecorationLine"
    assert tab.evaluate(style) == "underline"
    lines = tab.locator(".lines svg line").all()
    pairs = sorted((float(line.get_attribute("data-weight")),
                    float(line.get_attribute("stroke-width"))) for line in lines)  # fmt: skip
    assert pairs[0][1] < pairs[-1][1] and len(pairs) > 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_light_and_dark_narrow_and_wide(show: Open, scheme: str, width: int) -> None:
    tab = show(explore(TOKENS, weights(2, 8, 6, 6)), width=width, scheme=scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    root = "getComputedStyle(document.querySelector('.tinyattn'))"
    before = tab.evaluate(f"[{root}.color, {root}.backgroundColor]")
    luminance = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in before]
    assert (luminance[0] > luminance[1]) == (scheme == "dark")
    tab.get_by_role("button", name="light or dark").click()
    assert tab.evaluate(f"[{root}.color, {root}.backgroundColor]") != before


def test_text_that_looks_like_markup_is_text(show: Open) -> None:
    bad = "</script><img src=x onerror=alert(1)>"
    tab = show(explore([bad, "b"], weights(1, 1, 2, 2), title=bad))
    assert tab.locator("h1").inner_text() == bad and tab.locator("img").count() == 0
    assert queries(tab).nth(0).inner_text() == bad.replace(" ", "␣")


def test_512_positions(show: Open) -> None:
    """How long it takes is measured by benchmarks/page.py."""
    w = weights(4, 8, 512, 512, causal=True)
    page = explore([f"t{i}" for i in range(512)], w)
    assert len(page.encode()) <= 8e6
    tab = show(page)
    queries(tab).nth(400).click()
    near(table(tab), w[0, 0, 400], 1 / 255)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model with large random parameters, so that its answers differ."""
    from click.testing import CliRunner

    from tinyattn.cli import main

    folder = tmp_path_factory.mktemp("explore")
    (folder / "small.toml").write_text(
        "[model]\ncontext = 80\nlayers = 2\nheads = 2\nwidth = 16\ndropout = 0.0\n"
        "[data]\nlongest = 72\n[pretrain]\nsteps = 3\n"
    )
    for words in (
        ["world", "--out", folder / "world", "--people", 12, "--places", 3, "--dev", 4],
        ["pretrain", folder / "world/corpus.txt", "--config", folder / "small.toml",
         "--objective", "next", "--out", folder / "run"],
    ):  # fmt: skip
        done = CliRunner().invoke(main, [str(word) for word in words])
        assert done.exit_code == 0, done.output
    run = load_run(folder / "run")
    rng = np.random.default_rng(2)
    for parameter in run.model.parameters():
        parameter.data = rng.standard_normal(parameter.shape) * 0.7
    return run


def test_the_page_of_a_model_shows_its_numbers(show: Open, trained: Any) -> None:
    sections = sections_of(trained, ["Who was Al?", "In was born"], steps=4)
    tab = show(explore(sections, title="a model"))
    (one, two) = sections
    lens = tab.locator("section").nth(0).locator(".lens td")
    wanted = [top[0][1] for row in one.more["lens"] for top in row]
    found = [float(cell.get_attribute("data-p")) for cell in lens.all()]
    assert np.allclose(found, wanted, atol=1e-3)
    p = tab.locator("section").nth(1).locator(".generation .p").all_inner_texts()
    assert np.allclose([float(x.split()[0]) / 100 for x in p],
                       [step["p"] for step in two.more["generation"]], atol=1e-3)  # fmt: skip
    knock = tab.locator("section").nth(0).locator(".knock td").all()
    assert np.allclose([float(cell.get_attribute("title")) for cell in knock],
                       np.ravel(one.more["knock"]["heads"]), atol=1e-3)  # fmt: skip
    check_maps(tab, one)
    pairs = int(one.more["influence"].sum())
    assert pairs > 50 and not np.triu(one.more["influence"], 1).any()
    assert f"{pairs} of 121 pairs" in tab.locator(".influence").first.inner_text()
    cells = tab.locator("section").nth(1).locator(".patch td").all()
    assert np.allclose([float(cell.get_attribute("title")) for cell in cells],
                       np.ravel(two.more["patch"]["rows"]), atol=1e-3)  # fmt: skip


def check_maps(tab: Any, section: Any) -> None:
    """The page has the probability without each neuron and each edge, and the largest changes."""
    base, T = section.more["knock"]["base"], len(section.tokens)
    edges = section.more["edges"][:, *np.tril_indices(T)]
    assert not np.isnan(edges).any()
    for name, wanted in (("neurons", section.more["neurons"]), ("edges", edges)):
        part = tab.locator("section").nth(0).locator(f".{name}")
        titles = part.locator("td").evaluate_all("cells => cells.map((cell) => cell.title)")
        found = [float(title.split(": ")[1].split()[0]) / 100 for title in titles]
        assert np.allclose(found, wanted.ravel(), atol=1e-3)
        most = part.locator("li").evaluate_all("rows => rows.map((row) => +row.dataset.p)")
        far = np.sort(np.abs(wanted - base).ravel())[::-1]
        assert np.allclose(np.abs(np.array(most) - base), far[:5], atol=1e-6)
    part = tab.locator("section").nth(0).locator(".edges")
    part.locator("table").nth(1).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        tab.keyboard.press(key)
    said = part.locator("[aria-live]").inner_text()
    assert said.startswith("layers.1 2 o → 1 h: ") and said.endswith(
        f"→ {100 * section.more['edges'][1, 2, 1]:.1f} %"
    )
