"""The scripts of the benchmarks as modules, for all tests of this folder."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
NAMES = ("adamw", "agreement", "attention_inputs", "busy", "by_minute", "common", "compare",
         "conformance", "contender", "floor", "generation", "muon", "peers", "plain_gpt", "race",
         "ratios", "rows", "scaling", "table", "workloads")  # fmt: skip


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    """The scripts as modules; afterwards they can no longer be imported."""
    before, path = set(sys.modules), sys.path.copy()
    sys.path[:0] = [str(FOLDER), str(FOLDER / "contenders")]
    yield SimpleNamespace(folder=FOLDER, **{name: importlib.import_module(name) for name in NAMES})
    sys.path[:] = path
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(FOLDER):
            del sys.modules[name]


@pytest.fixture
def program(bench: SimpleNamespace, tmp_path: Path) -> Callable[..., Any]:
    """Makes a contender from a few lines that define step(); `first` runs before its imports."""

    def made(name: str, step: str, first: str = "") -> Any:
        script = tmp_path / f"{name}.py"
        script.write_text(f"""{first}
import sys
sys.path.insert(0, {str(FOLDER / "contenders")!r})
from serving import serve
{step}
serve(step, {name!r})
""")
        return bench.contender.Program("tinyattn", str(script))

    return made
