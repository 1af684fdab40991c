"""The command line, called in this process, and a small job that was done with it."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tinyattn.cli import main

SETTINGS = """
[model]
context = 80
layers = 1
heads = 2
width = 16
dropout = 0.0

[data]
longest = 72

[pretrain]
steps = 3

[finetune]
steps = 3

[scratch]
steps = 3
"""

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def tinyattn() -> Run:
    """Call the command line; a traceback, or another exit status than `status`, is a failure."""

    def call(*words: Any, status: int = 0, **options: Any) -> Result:
        result = CliRunner().invoke(main, [str(word) for word in words], **options)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == status, result.output
        return result

    return call


@dataclass(frozen=True)
class Job:
    """Files and runs that tests use and must not change."""

    folder: Path

    @property
    def settings(self) -> Sequence[str]:
        """Options for a model that trains in a second."""
        return ["--config", str(self.folder / "small.toml")]

    def __getattr__(self, name: str) -> Path:
        """`job.corpus`, `job.train`, `job.dev`, `job.test`; `job.pretrained`, `job.finetuned`."""
        names = {"corpus": "corpus.txt", "train": "birth_train.tsv", "dev": "birth_dev.tsv",
                 "test": "birth_test_inputs.tsv"}  # fmt: skip
        return self.folder / "world" / names[name] if name in names else self.folder / name


@pytest.fixture(scope="session")
def job(tinyattn: Run, tmp_path_factory: pytest.TempPathFactory) -> Job:
    job = Job(tmp_path_factory.mktemp("job"))
    (job.folder / "small.toml").write_text(SETTINGS)
    tinyattn("world", "--out", job.folder / "world", "--people", 12, "--places", 3, "--dev", 4,
             "--test", 2, "--sentences", 2)  # fmt: skip
    tinyattn("pretrain", job.corpus, *job.settings, "--out", job.pretrained)
    tinyattn("finetune", job.train, "--from", job.pretrained, "--out", job.finetuned)
    return job


@pytest.fixture
def matplotlib_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], None]:
    """Replace matplotlib by a module with this source, for all later imports."""

    def set_up(text: str) -> None:
        folder = tmp_path_factory.mktemp("matplotlib")
        (folder / "matplotlib.py").write_text(text)
        monkeypatch.syspath_prepend(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
            monkeypatch.delitem(sys.modules, name)

    return set_up


def only_json(result: Result) -> dict[str, Any]:
    """The one object on stdout; stderr is empty, because it is not a terminal."""
    assert result.stderr == ""
    value = json.loads(result.stdout)
    assert isinstance(value, dict) and result.stdout.count("\n") == 1
    return value


@pytest.fixture(scope="session")
def as_json(tinyattn: Run) -> Callable[..., dict[str, Any]]:
    """Call the command line with --json."""
    return lambda *words: only_json(tinyattn(*words, "--json"))
