"""The modules of site/, and the site itself, built once for all tests."""

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("addresses", "check", "code_pages", "contents", "names", "npm", "reference", "uses",
         "words")  # fmt: skip


@pytest.fixture(scope="module")
def maker() -> Iterator[SimpleNamespace]:
    """What makes the site, as modules; afterwards they can no longer be imported."""
    pytest.importorskip("pygments", reason="needs pygments")
    pytest.importorskip("jupytext", reason="needs jupytext")
    before, path = set(sys.modules), sys.path.copy()
    sys.path.insert(0, str(ROOT / "site"))
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in NAMES})
    sys.path[:] = path
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(ROOT / "site"):
            del sys.modules[name]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site. The first of several processes builds it, the others wait."""
    pytest.importorskip("zensical", reason="needs zensical")
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    site, log = shared / "site", shared / "site.log"
    try:
        (shared / "site.started").mkdir()
    except FileExistsError:
        wait_for(log)
    else:
        run = subprocess.run([sys.executable, ROOT / "site/build.py", "--out", site],
                             capture_output=True, text=True)  # fmt: skip
        (shared / "site.tmp").write_text(f"{run.returncode}\n{run.stdout}{run.stderr}")
        (shared / "site.tmp").rename(log)
    status, _, text = log.read_text().partition("\n")
    if "npm could not get it" in text or "which is not installed" in text:
        pytest.skip(text)
    assert status == "0", text
    print(text)
    return site


def wait_for(file: Path) -> None:
    """Wait until another process has written a file."""
    end = time.monotonic() + 600
    while not file.exists():
        assert time.monotonic() < end
        time.sleep(0.2)
