"""The options that messages recommend exist, and the command of the message has them."""

import ast
import inspect
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyattn as package
from tinyattn.cli import main
from tinyattn.data.batches import Batch
from tinyattn.parallel.shards import BatchTooLarge
from tinyattn.training.fit import Fit

ROOT = Path(package.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
DATA, USAGE = 1, 2

OWN_RUN = {"pretrain", "finetune", "quickstart", "convert", "parse"}
"""Commands that write a run, or several."""
SHOWN = {
    "cli/__init__.py": {
        "--overwrite": {"quickstart", "parse", "pretrain", "finetune"},
        "--resume": {"pretrain", "finetune"},
        "--set": {"pretrain", "finetune", "quickstart", "profile"},  # commands that have settings
        "--unknown": {"pretrain", "finetune", "evaluate", "generate", "ask"},
        "--workers": {"pretrain", "finetune", "quickstart", "evaluate", "parse", "profile"},
    },
    "cli/options.py": {
        "--config": {"pretrain", "finetune", "profile"},
        "--epochs": {"pretrain", "finetune"},
        "--overwrite": {"pretrain", "finetune"},
        "--resume": {"pretrain", "finetune"},
        "--steps": {"pretrain", "finetune"},
        "--workers": {"pretrain", "finetune", "quickstart", "evaluate", "parse"},
    },
    "cli/outputs.py": {"--predictions": {"evaluate"}, "--picture": {"compare", "trace"}},
    "cli/types.py": {
        "--penalty": {"pretrain", "finetune", "quickstart", "profile", "parse"},
        "--set": {"pretrain", "finetune", "quickstart", "profile"},
    },
    "tasks/conversion.py": {"--positions": {"pretrain"}},  # about the model for convert
    "attention/lookup.py": {"--import": {"tinyattn"}},
    "data/world.py": {"--out": {"world", "quickstart"}, "--overwrite": {"world", "quickstart"}},
    "parsing/parse_task.py": {"--from": {"parse"}},
    "tasks/evaluation.py": {"--predictions": {"evaluate"}},
    "tasks/lock.py": {"--out": OWN_RUN, "--overwrite": {"pretrain", "finetune"}},
    "tasks/recipe.py": {"--recipe": {"pretrain", "finetune", "profile"}},  # commands with --config
    "tasks/running.py": {"--set": {"pretrain", "finetune", "quickstart"}},
    "tasks/runs.py": {
        "--from": {"evaluate", "ask", "generate", "convert", "info", "score", "finetune"},
        "--out": OWN_RUN,
        "--overwrite": OWN_RUN,
        "--resume": {"pretrain", "finetune"},
    },
    "parallel/mpi.py": {"--workers": {"pretrain", "finetune"}},
}
"""By file, the options in messages outside the function of a command, and the commands that
can print these messages, or are named in them."""
EXAMPLES = {
    "cli/convert_command.py": {"--positions": "pretrain"},
    "cli/train.py": {"--wrong": "evaluate"},
}
"""By file, the options in its messages that belong to an example of another command."""


def options_of(command: str) -> set[str]:
    parameters = (main if command == "tinyattn" else main.commands[command]).params
    return {option for p in parameters for option in p.opts}


def named(source: str) -> set[str]:
    """The options in the strings of a program, without docstrings."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    docs = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
    texts = [n.value for n in nodes if isinstance(n, ast.Constant) and id(n) not in docs
             and isinstance(n.value, str)]  # fmt: skip
    return {option for text in texts for option in OPTION.findall(text)}


def functions(source: str, names: set[str]) -> Iterator[str]:
    """The functions of a module whose names are not excluded, without the options that decorate
    them; `wrong` is no option, it names one in messages."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name not in names:
            node.decorator_list = [d for d in node.decorator_list
                                   if ast.unparse(d).startswith("wrong(")]  # fmt: skip
            yield ast.unparse(node)


@pytest.mark.parametrize("command", main.commands)
def test_a_command_names_its_own_options(command: str) -> None:
    source = inspect.getsource(main.commands[command].callback)
    assert named(source) <= options_of(command) | {"--help"}


def test_other_messages_name_options_of_the_commands_that_show_them() -> None:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        file = str(path.relative_to(ROOT))
        if file.startswith("theory/") or "claims" in file:
            continue
        source = path.read_text("utf-8")
        if file.endswith("_command.py") or (file.startswith("cli/") and file not in SHOWN):
            continue  # a command, and what only this command uses
        parts = functions(source, {"main", "stage_options", "set_option", "recipe_option"})
        options = {option for part in parts for option in named(part)} - {"--help"}
        if options:
            found[file] = options
    assert found == {file: {*options} for file, options in SHOWN.items()}
    for options in SHOWN.values():
        for option, commands in options.items():
            assert [c for c in sorted(commands) if option not in options_of(c)] == []


COMMANDS = sorted({*(ROOT / "cli").glob("*.py"), *ROOT.glob("*/*_command.py")})


@pytest.mark.parametrize("module", COMMANDS, ids=lambda path: path.name)
def test_a_commands_file_names_only_options_of_its_commands(module: Path) -> None:
    """Also in the functions beside the command."""
    file = str(module.relative_to(ROOT))
    source = module.read_text("utf-8")
    here = [name for name, command in main.commands.items()
            if Path(inspect.getsourcefile(command.callback)) == module]  # fmt: skip
    if file in SHOWN or "claims" in file or not here:
        return
    own = {option for command in here for option in options_of(command)}
    own |= options_of("tinyattn")  # these come before the command
    for option, command in EXAMPLES.get(file, {}).items():
        assert option in options_of(command)
        own.add(option)
    for part in functions(source, {main.commands[name].callback.__name__ for name in here}):
        assert named(part) <= own


def too_large(*_: Any) -> None:
    raise BatchTooLarge(Batch(np.ones((8, 4), int), np.ones((8, 4), int)), 4)


def test_the_error_for_a_batch_that_is_too_large_names_the_setting_of_its_command(
    job: Any, tinyattn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fit, "run", too_large)
    for table, words in {
        "pretrain": ("pretrain", job.corpus),
        "finetune": ("finetune", job.train, "--from", job.pretrained),
        "scratch": ("finetune", job.train, "--corpus", job.corpus),
    }.items():
        message = tinyattn(*words, *job.settings, "--out", tmp_path / table, status=DATA).stderr
        assert f"one of 4 would fit: --set {table}.batch=4\n" in message
        assert message.count("--set") == 1


def test_the_error_if_not_even_one_sequence_fits() -> None:
    batch = Batch(np.ones((8, 4), int), np.ones((8, 4), int))
    assert "not even one sequence of 4 tokens fits" in str(BatchTooLarge(batch, 0))


@pytest.mark.parametrize(
    ("words", "takes"),
    [("pretrain x", True), ("finetune x", True), ("profile", True), ("quickstart", False),
     ("info", False)],
)  # fmt: skip
def test_the_error_for_a_file_as_a_recipe_names_config_if_possible(
    tinyattn: Any, words: str, takes: bool
) -> None:
    message = tinyattn(*words.split(), "--recipe", "my.toml", status=USAGE).stderr
    assert "must be a name that `tinyattn info` lists; got 'my.toml'" in message
    assert ("a file goes with --config" in message) == takes


@pytest.mark.parametrize("command", ["pretrain", "finetune", "quickstart", "profile"])
def test_the_example_of_a_setting_is_one_that_the_command_uses(tinyattn: Any, command: str) -> None:
    text = " ".join(tinyattn(command, "--help").output.split())
    table = "finetune" if command == "finetune" else "pretrain"
    assert f"such as {table}.learning_rate=3e-3" in text


def test_only_a_command_with_workers_recommends_fewer(
    job: Any, tinyattn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def make_world(**_: Any) -> None:
        threading.Thread().start()

    monkeypatch.setattr(threading.Thread, "start", start)
    monkeypatch.setattr(sys.modules["tinyattn.cli.world_command"], "make_world", make_world)
    message = tinyattn("world", "--out", "nowhere", status=DATA).stderr
    assert "starts no more threads\n" in message
