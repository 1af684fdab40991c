"""The site: nothing is missing on it, every link leads somewhere, every formula is rendered."""

import html
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import modules
import pytest
import test_docs

from tinyattn.op import OPS

ROOT = Path(__file__).parents[2]
PYTHON_BLOCK = re.compile(r'<div class="language-python highlight">(.*?)</div>', re.S)
PRE = re.compile(r"<pre[^>]*>(.*?)</pre>", re.S)


def text_of(markup: str) -> str:
    """What a browser shows of a piece of HTML."""
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


# The built site ------------------------------------------------------------------------------


def test_the_site_has_no_problems(built: Path, maker: SimpleNamespace) -> None:
    site = maker.check.Site(built)
    assert len(site.pages) > 300 and sum(len(page.links) for page in site.pages.values()) > 10_000
    assert site.problems() == []


def test_every_formula_of_the_book_is_rendered(built: Path, maker: SimpleNamespace) -> None:
    count = 0
    for page in test_docs.DERIVATIONS:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.S)
        formulas = maker.check.read(built / f"derivations/{page.stem}.html").formulas
        assert formulas == len(test_docs.MATHS.findall(text)), page
        count += formulas
    print(f"{count} formulas in the book")
    assert count > 900


def test_every_python_block_is_one_that_the_tests_run(built: Path, maker: SimpleNamespace) -> None:
    """`test_docs` runs the blocks of its pages; no other page may have any."""
    tested = {test_docs.name_of(page): page.read_text("utf-8") for page in test_docs.PAGES}
    count = 0
    for page in maker.contents.pages():
        address = maker.addresses.address(maker.contents.staged_page(page))
        shown = (built / address).read_text("utf-8")
        blocks = [text_of(block).strip() for block in PYTHON_BLOCK.findall(shown)]
        run = [code.strip() for code, _ in test_docs.PYTHON.findall(tested.get(page, ""))]
        assert blocks == run, page
        count += len(blocks)
    assert count > 50


def test_a_code_page_shows_the_code(built: Path, maker: SimpleNamespace) -> None:
    shown = (built / "tinyattn/ops/softmax.py.html").read_text("utf-8")
    lines = [line for pre in PRE.findall(shown) for line in text_of(pre).splitlines()]
    source = (ROOT / "tinyattn/ops/softmax.py").read_text("utf-8")
    kept = re.sub(r'^ *""".*?"""\n', "", source, flags=re.M | re.S).splitlines()
    assert [line for line in lines if line] == [line for line in kept if line]


def test_names_lead_to_their_definitions(built: Path) -> None:
    shown = (built / "tinyattn/attention/multihead.py.html").read_text("utf-8")
    assert '<a href="../ops/softmax.py.html#softmax">' in shown  # ops.softmax, re-exported
    assert '<a href="block.py.html#Call.causal">' in shown  # an attribute of a parameter's class
    assert '<a href="multihead.py.html#split_heads">' in shown
    assert '<a href="block.py.html#AttentionBlock.query_width">' in shown  # inherited


def test_a_name_in_the_book_leads_to_its_definition(built: Path) -> None:
    shown = (built / "derivations/03_softmax.html").read_text("utf-8")
    assert '<a href="../tinyattn/ops/softmax.py.html#softmax">' in shown


def test_the_reference_has_what_the_package_exports(built: Path, maker: SimpleNamespace) -> None:
    pages = (built / "reference").glob("*.html")
    anchors = {anchor for page in pages for anchor in maker.check.read(page).ids}
    wanted = {op.__module__ + "." + name for name, op in OPS.items()}
    for name in ("tinyattn", *(name for name in modules.names() if name.count(".") == 1)):
        module = importlib.import_module(name)
        for export in getattr(module, "__all__", ()):
            value = getattr(module, export)
            if inspect.isclass(value) or inspect.isfunction(value):
                wanted.add(f"{value.__module__}.{value.__qualname__}")
    named = {name for name in wanted if name.startswith("tinyattn.") and "<" not in name}
    ours = {name.removeprefix("tinyattn.") for name in named}
    assert len(ours) > 200 and ours <= anchors


# What is on it -------------------------------------------------------------------------------


def test_all_pages_of_the_repository_are_on_the_site(maker: SimpleNamespace) -> None:
    found = [*ROOT.glob("*.md"), *(ROOT / "tests").rglob("README.md"),
             *(page for name in ("derivations", "docs", "benchmarks")
               for page in (ROOT / name).glob("*.md"))]  # fmt: skip
    assert sorted(maker.contents.pages()) == sorted(test_docs.name_of(page) for page in found)


def test_all_files_of_the_package_and_all_examples_have_a_page(maker: SimpleNamespace) -> None:
    files = [*(ROOT / "tinyattn").rglob("*.py"), *(ROOT / "examples").glob("*.py")]
    assert {test_docs.name_of(file) for file in files} <= {*maker.contents.code()}


def test_no_line_of_a_file_is_lost(maker: SimpleNamespace) -> None:
    """Each line is code beside some words, or one of the words, or blank."""
    for file in test_docs.SOURCES:
        check_lines(test_docs.name_of(file), maker)


def check_lines(file: str, maker: SimpleNamespace) -> None:
    here = maker.names.module(file)
    rows = maker.code_pages.rows(here)
    shown = [number for row in rows for a, b in row.spans for number in range(a, b)]
    assert shown == sorted(set(shown))
    lines = here.text.splitlines()
    words = "".join("".join(row.words.split()) for row in rows)
    for number in sorted({*range(len(lines))} - {*shown}):
        left = "".join(re.sub(r'^r?"""|"""$', "", lines[number].strip()).split())
        assert left.encode().decode("unicode_escape", "ignore") in words or left in words, (
            file,
            number,
        )


# Its parts -----------------------------------------------------------------------------------


def test_a_local_name_hides_an_import(
    maker: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "from tinyattn.ops import f\n"
        "def g(f):\n    return f(1)\n"
        "def h(x):\n    return f(x)\n"
        "def i():\n    f = 2\n    return lambda x: f\n"
    )
    (tmp_path / "tinyattn").mkdir()
    (tmp_path / "tinyattn/ops.py").write_text("def f(x):\n    return x\n")
    (tmp_path / "tinyattn/here.py").write_text(text)
    monkeypatch.setattr(maker.names, "ROOT", tmp_path)
    maker.names.module.cache_clear()
    found = maker.uses.uses(maker.names.module("tinyattn/here.py"))
    maker.names.module.cache_clear()
    lines = [text[: use.start].count("\n") for use in found if use.target.name == "f"]
    assert lines == [0, 4]


def test_a_docstring_becomes_html(maker: SimpleNamespace) -> None:
    text = inspect.cleandoc(
        """
        Take `x` and *halve* it. Raises: ValueError for <b>.

            y = x/2

        - one `a*b`,
          still one
        - two

        Args:
            x: a number,
                not 0.
            y, z: more.
        Shapes:   x (N,) -> y (N,)
        """
    )
    made = maker.words.words(text, lambda name: "x.html" if name == "x" else None)
    assert '<p>Take <a href="x.html"><code>x</code></a> and <em>halve</em> it.</p>' in made
    assert "<dt>Raises</dt> <dd>ValueError for &lt;b&gt;.</dd>" in made
    assert "<pre>y = x/2</pre>" in made
    assert "<li>one <code>a*b</code>, still one</li><li>two</li>" in made
    assert "<div><code>x</code>: a number, not 0.</div><div><code>y, z</code>: more.</div>" in made
    assert "<dt>Shapes</dt> <dd>x (N,) -&gt; y (N,)</dd>" in made


def test_a_signature_shows_how_an_operation_is_called(maker: SimpleNamespace) -> None:
    def shown(file: str, name: str) -> str:
        node = maker.names.module(file).defined[name]
        return str(maker.reference.signature(file, name, node))

    softmax = shown("tinyattn/ops/softmax.py", "softmax")
    assert softmax == "softmax(x: Array, allowed: Mask=None, *, axis: int=-1) -> Tensor"
    multihead = shown("tinyattn/attention/multihead.py", "MultiHead")  # __init__ is inherited
    assert multihead.startswith("class MultiHead(\n    width: int,\n    heads: int,\n    *,\n")


# What goes wrong -----------------------------------------------------------------------------

PAGE = '<html><link rel="icon" href="data:,"><body id="top">{}</body></html>'
MISTAKES = {
    "a file that is not there": ('<a href="other.html">x</a>', "a link to other.html"),
    "an anchor that is not there": ('<a href="#none">x</a>', "a link to #none"),
    "an anchor twice": ('<p id="top">x</p>', "the anchor top twice"),
    "a script from elsewhere": ('<script src="https://a.b/c.js"></script>', "from another host"),
    "a picture that is not there": ('<img alt="" src="x.png">', "loads x.png"),
    "a formula in TeX": (r'<span class="arithmatex">\(x\)</span>', "a formula"),
    "a page that is too large": ("x" * 700_000, "at most 600,000"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_on_a_page_is_found(mistake: str, maker: SimpleNamespace, tmp_path: Path) -> None:
    body, wanted = MISTAKES[mistake]
    (tmp_path / "index.html").write_text(PAGE.format(body).replace(' href="data:,"', ' href="i"'))
    (tmp_path / "i").touch()
    found = maker.check.Site(tmp_path).problems()
    assert len(found) == 1 and wanted in found[0]


def test_without_npm_the_builder_says_what_is_missing(tmp_path: Path) -> None:
    pytest.importorskip("pygments", reason="needs pygments")
    words = [sys.executable, ROOT / "site/build.py", "--out", tmp_path / "site"]
    nothing = {**os.environ, "PATH": ""}
    run = subprocess.run(words, env=nothing, capture_output=True, text=True)
    assert run.returncode == 1 and not (tmp_path / "site").exists()
    assert "NO SITE WAS BUILT" in run.stderr
    assert "npm: formulas would stay TeX" in run.stderr and "node: " in run.stderr


@pytest.mark.skipif(os.name == "nt", reason="a program as a script of the shell")
def test_a_package_with_another_sum_is_refused(
    maker: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho another > katex.tgz\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"has the sum .*; expected "):
        maker.npm.fetch("katex@0.19.1", tmp_path / "cache")
    assert not [*(tmp_path / "cache").iterdir()]


def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    run = subprocess.run([sys.executable, ROOT / "site/build.py", "--out", tmp_path],
                         capture_output=True, text=True)  # fmt: skip
    assert run.returncode == 2 and "it would be replaced" in run.stderr
    assert (tmp_path / "mine").exists()
