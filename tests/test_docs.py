"""The documentation is right: code runs, figures are drawn, files exist, commands parse."""

import contextlib
import doctest
import importlib
import io
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import modules
import numpy as np
import pytest

import tinyattn
from tinyattn.attention import ATTENTION
from tinyattn.cli import main
from tinyattn.tasks.recipe import recipe_names
from tinyattn.tensor import OPS
from tinyattn.theory import LAWS, Law

ROOT = Path(__file__).parents[1]
DERIVATIONS = sorted((ROOT / "derivations").glob("[0-9]*.md"))
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "derivations/README.md")),
         *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "benchmarks").glob("*.md")),
         *DERIVATIONS]  # fmt: skip
SOURCES = [*sorted((ROOT / "tinyattn").rglob("*.py")), *sorted((ROOT / "examples").glob("*.py"))]

PYTHON = re.compile(r"^```python\n(.*?)^```\n(?:\n*```text\n(.*?)^```$)?", re.M | re.S)
FIGURE = re.compile(r"!\[([^\]]+)\]\((figures/[^)]+)\)")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
PATH = re.compile(r"\b(?:derivations|tinyattn|tests|examples|benchmarks)/[\w./]*[\w/]")
IMPLEMENTED = re.compile(r"`(\w+)`\s+in\s+\[([\w./]+)\]")
COMMAND = re.compile(r"(?:^ +|&& |`)tinyattn (\w[^`\n]*)", re.M)
BLOCK = re.compile(r"^(?![-#>| ]|\d+[.)] |$).+\n(?:[-+*] |1[.)] |#+ |>|=+$|-+$)", re.M)
MATHS = re.compile(r"\$\$(.+?)\$\$|\$([^$]+?)\$", re.S)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)
every_derivation = pytest.mark.parametrize("page", DERIVATIONS, ids=name_of)


@pytest.fixture
def ops_restored() -> Iterator[None]:
    """A page may define its own operation, even a wrong one."""
    before = dict(OPS)
    yield
    OPS.clear()
    OPS.update(before)


@pytest.fixture
def studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page runs in its own folder, with an empty figures/ for its pictures."""
    (tmp_path / "figures").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextlib.contextmanager
def drawing_without_a_screen(page: Path) -> Iterator[None]:
    """For a page that draws: matplotlib (the extra `test` has it) with its own settings."""
    if not re.search(r"^ *(import|from) matplotlib", page.read_text("utf-8"), re.M):
        yield
        return
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    try:
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            yield
    finally:
        pyplot.close("all")


# Code --------------------------------------------------------------------------------------


@every_page
def test_python_on_a_page_prints_and_draws_what_the_page_shows(
    page: Path, studio: Path, ops_restored: None
) -> None:
    text = page.read_text("utf-8")
    # Pages count the work of the kernels that everybody has, not of compiled loops.
    with tinyattn.formulas("numba"), drawing_without_a_screen(page):
        namespace = {"__name__": page.stem}
        for number, block in enumerate(PYTHON.finditer(text), start=1):
            code, expected = block.groups()
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, f"{page.name}, block {number}", "exec"), namespace)
            if expected is not None:
                assert printed.getvalue() == expected
    drawn = {f"figures/{file.name}" for file in (studio / "figures").iterdir()}
    assert drawn == {file for _, file in FIGURE.findall(text)}
    for file in sorted(drawn):
        assert_same_picture(studio / file, page.parent / file)


@every_derivation
def test_a_derivation_has_code_that_prints(page: Path) -> None:
    assert any(expected for _, expected in PYTHON.findall(page.read_text("utf-8")))


def test_examples_in_docstrings_are_right() -> None:
    for name in modules.names():
        assert doctest.testmod(importlib.import_module(name)).failed == 0, name


# Figures -----------------------------------------------------------------------------------


def assert_same_picture(new: Path, kept: Path) -> None:
    """The picture in the repository is the one that the page draws now.

    Versions of matplotlib place letters differently: pixels are compared if the version is the
    same, otherwise only the size.
    """
    from PIL import Image  # matplotlib has it

    advice = f"{kept} is not what the page draws; if it should be, copy {new} there"
    assert kept.exists(), advice
    with Image.open(new) as now, Image.open(kept) as then:
        assert now.size == then.size, advice
        if now.info.get("Software") == then.info.get("Software"):
            moved = np.asarray(now, int) - np.asarray(then, int)
            assert (abs(moved).max(axis=-1) > 25).mean() < 0.001, advice


def test_pictures_are_those_that_pages_show() -> None:
    shown = {file for page in DERIVATIONS for _, file in FIGURE.findall(page.read_text("utf-8"))}
    kept = {f"figures/{file.name}" for file in (ROOT / "derivations/figures").glob("*")}
    assert kept == shown


# Names -------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", [*PAGES, *SOURCES], ids=name_of)
def test_files_that_are_named_exist(file: Path) -> None:
    text = file.read_text("utf-8")
    links = LINK.findall(text) if file.suffix == ".md" else []
    named = [file.parent / link for link in links] + [ROOT / path for path in PATH.findall(text)]
    assert [str(path) for path in named if not path.exists()] == []


@every_derivation
def test_code_is_where_a_derivation_points(page: Path) -> None:
    named = IMPLEMENTED.findall(page.read_text("utf-8"))
    assert named
    for name, path in named:
        assert re.search(rf"^(def|class) {name}\b", (ROOT / path).read_text("utf-8"), re.M), name


@pytest.mark.parametrize("law", LAWS.values(), ids=list(LAWS))
def test_the_page_of_a_law_names_it(law: Law) -> None:
    assert f"`{law.name}`" in (ROOT / f"derivations/{law.page}.md").read_text("utf-8")


def test_derivations_are_listed_in_reading_order() -> None:
    listed = LINK.findall((ROOT / "derivations/README.md").read_text("utf-8"))
    assert listed == [page.name for page in DERIVATIONS]


# Commands ----------------------------------------------------------------------------------


def documented_commands() -> list[str]:
    """From the README and from the help of the commands, without the comments behind them."""
    help_texts = [command.help or "" for command in (main, *main.commands.values())]
    texts = [page.read_text("utf-8") for page in PAGES] + help_texts
    lines = [line for text in texts for line in COMMAND.findall(text)]
    return sorted({re.split(r"\s{2,}|\s#", line)[0] for line in lines})


@pytest.fixture
def own_attention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder where a page's reader has the examples, and a copy of one as a file of his own."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copy(ROOT / "examples/05_your_own_attention.py", tmp_path / "my_window.py")
    monkeypatch.chdir(tmp_path)
    known = {**ATTENTION}
    yield
    for name in ATTENTION.keys() - known.keys():
        del ATTENTION[name]


@pytest.mark.parametrize("line", documented_commands())
def test_commands_that_are_shown_can_be_typed(line: str, own_attention: None) -> None:
    name, *args = shlex.split(line)
    assert name in main.commands
    if not args:
        return  # a text may name a command without what it needs
    parent = click.Context(main, **main.context_settings)
    context = main.commands[name].make_context(name, args, parent=parent)
    assert context.params.get("recipe") in (None, *recipe_names())


def test_options_and_recipes_that_the_readme_mentions_exist() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    parameters = [p for command in (main, *main.commands.values()) for p in command.params]
    options = {o for p in parameters if isinstance(p, click.Option) for o in p.opts} | {"--help"}
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text)) <= options
    assert set(re.findall(r"--recipe ([\w-]+)", text)) <= set(recipe_names())


# Mathematics -------------------------------------------------------------------------------


@every_derivation
def test_formulas_and_paragraphs_survive_markdown(page: Path) -> None:
    """An escaped character loses its backslash, and paired characters become emphasis."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.S)
    assert "$" not in MATHS.sub("", text)
    assert not BLOCK.search(text), "a line inside a paragraph that Markdown takes for a list"
    for display, inline in MATHS.findall(text):
        formula = display or inline
        assert not re.search(r"\\[^A-Za-z]|[*<]|[^A-Za-z0-9]_", formula), formula
        assert display or formula == formula.strip()
