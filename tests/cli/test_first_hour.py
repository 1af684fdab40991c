"""The first commands of a new user: ask, list wrong answers, use one's own attention type."""

import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tinyattn.attention import ATTENTION

AsJson = Callable[..., dict[str, Any]]
FEW = [f"--set={table}.steps=2" for table in ("pretrain", "finetune", "scratch")]
TINY = ["--set=model.layers=1", "--set=model.heads=2", "--set=model.width=8"]
QUESTION = "Where was Kamzol Kapnalm born?"
OWN = """
from tinyattn.attention import MultiHead


class Window(MultiHead):
    def build(self, rng, *, reach=3):
        super().build(rng)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a user's own module."""
    before = {**ATTENTION}
    (tmp_path / "my_window.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("my_window", None)
    for name in ATTENTION.keys() - before.keys():
        del ATTENTION[name]


def next_commands(printed: str) -> list[list[str]]:
    """The commands that a quickstart prints at its end, as a shell splits them."""
    lines = [line for line in printed.splitlines() if line.startswith("    tinyattn ")]
    return [shlex.split(line)[1:] for line in lines]


def test_the_quickstart_keeps_its_models_where_the_next_commands_look(
    tinyattn: Any, as_json: AsJson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = tinyattn("quickstart", *FEW, *TINY).stdout
    assert "The data and the models are in runs." in printed
    commands = next_commands(printed)
    assert [words[0] for words in commands] == ["ask", "evaluate"]
    assert all(tinyattn(*words).stdout for words in commands)
    assert tinyattn("generate", "--prompt", "Who", "--count", 3).stdout
    found = as_json("ask", "Where was Ada born?", "--unknown", "drop", "--count", 3)
    assert found["question"] == "Where was Ada born?" and 1 <= len(found["answers"]) <= 3
    assert all(one.keys() == {"answer", "probability"} for one in found["answers"])


def test_the_next_commands_name_another_folder(
    tinyattn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In quotes, if the name needs them."""
    monkeypatch.chdir(tmp_path)
    commands = next_commands(tinyattn("quickstart", *FEW, *TINY, "--out", "my runs").stdout)
    assert [words[-2:] for words in commands] == [["--from", "my runs/finetune"]] * 2
    assert all(tinyattn(*words).stdout for words in commands)


def test_a_second_quickstart_prints_what_to_type(
    tinyattn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tinyattn("quickstart", *FEW, *TINY, "--json")
    message = tinyattn("quickstart", *FEW, *TINY, status=2).stderr
    assert "use --overwrite to start again, or another --out" in message


def test_each_attention_type_is_printed_when_it_is_there(
    tinyattn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last line names the folder of the models."""
    module = sys.modules["tinyattn.tasks.quickstart_all"]
    monkeypatch.setattr(module, "causal_attentions", lambda: ["multihead", "synthesizer"])
    out = tmp_path / "all"
    printed = tinyattn("quickstart", "--attention", "all", "--out", out, *FEW, *TINY).stdout
    first = [line.split()[0] for line in printed.splitlines()]
    assert first == ["attention", "most", "multihead", "synthesizer", "The"]
    assert f"models are in {out}." in printed


def test_wrong_answers_are_listed(job: Any, tinyattn: Any, as_json: AsJson, tmp_path: Path) -> None:
    words = ["--from", job.finetuned, "--predictions", tmp_path / "p", "--wrong"]
    found = as_json("evaluate", job.dev, *words)
    assert len(found["wrong"]) == found["total"] - found["correct"]
    assert all(row.keys() == {"question", "expected", "answer"} for row in found["wrong"])
    printed = tinyattn("evaluate", job.dev, *words).stdout
    for row in found["wrong"]:
        assert row["question"] in printed and row["expected"] in printed
    message = tinyattn("evaluate", job.test, *words, status=1).stderr
    assert "--wrong needs them" in message


def test_a_model_without_finetuning_gives_a_note(job: Any, tinyattn: Any) -> None:
    message = tinyattn("ask", QUESTION, "--from", job.pretrained, "--unknown", "drop").stderr
    assert "never taught to answer" in message


def test_a_users_attention_type_by_its_module(
    own: Path, job: Any, tinyattn: Any, as_json: AsJson
) -> None:
    name = "my_window:Window"
    run = own / "run"
    as_json("pretrain", job.corpus, *job.settings, "--attention", f"{name},reach=2", "--out", run)
    about = as_json("info", "--from", run)
    assert about["model.attention"] == f"{name},reach=2"
    del ATTENTION[name]
    message = tinyattn("info", "--from", run, status=1).stderr
    assert (
        f"attention '{name}' is not imported: start with `tinyattn --import my_window`" in message
    )
    assert as_json("--import", "my_window", "info", "--from", run) == about


def test_the_quickstart_prints_commands_that_import_a_users_attention_type(
    own: Path, tinyattn: Any
) -> None:
    name = "my_window.py:Window,reach=2"
    printed = tinyattn("quickstart", "--attention", name, "--out", own / "w", *FEW, *TINY).stdout
    commands = [line.strip() for line in printed.splitlines() if line.startswith("    tinyattn ")]
    assert len(commands) == 2
    for command in commands:
        ATTENTION.pop("my_window.py:Window")
        assert tinyattn(*shlex.split(command)[1:]).stdout


def test_a_users_attention_type_by_its_file(own: Path, job: Any, as_json: AsJson) -> None:
    shutil.move(own / "my_window.py", own / "1 window.py")
    found = as_json("compare", "--attention", "1 window.py:Window", "--lengths", "8,16")
    assert [row["name"] for row in found["rows"]] == ["1 window.py:Window"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere:Window", "cannot import nowhere: ModuleNotFoundError: No module named 'nowhere'"),
        ("nowhere.py:Window", "cannot import nowhere.py: no such file"),
        ("my_window:Windows", "my_window has no attention type 'Windows'; did you mean 'Window'?"),
        ("json:Window", "json has no attention type 'Window'; derive a class from MultiHead"),
        ("broken:Window", "cannot import broken: ZeroDivisionError: division by zero"),
        ("my_window:Window,near=2", "has no option 'near'; it has reach=3"),
    ],
)
def test_a_failed_import_gives_one_line(
    own: Path, job: Any, tinyattn: Any, name: str, message: str
) -> None:
    (own / "broken.py").write_text("1 / 0")
    result = tinyattn("pretrain", job.corpus, "--attention", name, status=2)
    assert message in result.stderr and result.stderr.count("\n") == 1


ATTEND = "def attend(self, q, k, v, call): "
HEAD = """from tinyattn.attention import MultiHead

class Mixin:
    def attend(self, q, k, v, call):
        return v.mean(axis=2, keepdims=True).broadcast_to(q.shape[:3] + v.shape[3:])

class Window(MultiHead):
    """


def with_class(own: Path, code: str) -> list[Any]:
    """The arguments that train with a class of this code, from a file of the user."""
    (own / "my_window.py").write_text(HEAD + code)
    return ["--attention", "my_window.py:Window", "--out", own / "run"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (f"{ATTEND}return q @ missing", "my_window.py:8, in attend: NameError: name 'missing' is"),
        (f"{ATTEND}open('nofile')", "my_window.py:8, in attend: FileNotFoundError: "),
        ("def weigh(self, x, call): return 1 + None", "my_window.py:8, in weigh: TypeError: "),
        ("def build(self, rng): self.query = 1", "my_window.py: Window, in "),
        ("def build(self, rng): raise ValueError('mine')", "my_window.py:8, in build: "),
    ],
)
def test_an_error_in_a_users_own_code_names_its_place(
    own: Path, job: Any, tinyattn: Any, code: str, message: str
) -> None:
    words = with_class(own, code)
    printed = tinyattn("pretrain", job.corpus, *words, *job.settings, status=1).stderr
    assert message in printed and printed.count("\n") == 1


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def forward(self, x, call): pass", "the output must be a Tensor of shape (1, 16, 8)"),
        ("def forward(self, x, call): return x.numpy()", "got ndarray (1, 16, 8)"),
        (f"{ATTEND}pass",
         "the result of `attend` must be a Tensor of shape (1, 2, 16, 4); got None"),
        (f"{ATTEND}return q", "when v is the identity matrix (16, 16) in each head, must be a"),
        (f"{ATTEND}return v + v.mean(axis=2, keepdims=True)",
         "the output at a position depends on later positions, though a GPT calls it with causal"),
        ("def atend(self): pass", "has a method 'atend', but MultiHead has none; did you mean"),
    ],
)  # fmt: skip
def test_a_wrong_result_of_a_users_own_code_is_found_before_training(
    own: Path, job: Any, tinyattn: Any, code: str, message: str
) -> None:
    words = with_class(own, code)
    printed = tinyattn("pretrain", job.corpus, *words, status=2).stderr
    assert message in printed and printed.count("\n") == 1


def test_a_method_must_take_the_arguments_of_the_one_that_it_overrides(
    own: Path, job: Any, tinyattn: Any
) -> None:
    words = with_class(own, "def attend(self, q, k, v): return q")
    printed = tinyattn("pretrain", job.corpus, *words, status=2).stderr
    assert (
        "Window: attend must take (self, q_BHTD: " in printed and "got (self, q, k, v)" in printed
    )


@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("pass", "overrides nothing of MultiHead, so it computes the same"),
        ("def build(self, rng): super().build(rng)\n    def attned(self, q, k, v, call): pass",
         "has a method 'attned', but MultiHead has none; did you mean 'attend'?"),
        ("def build(self, rng): super().build(rng)", ""),
        ("query_width = property(lambda self: self.width // self.heads)", ""),
        ("pass\nclass Window(Mixin, MultiHead):\n    pass", ""),
    ],
)  # fmt: skip
def test_a_class_that_overrides_nothing_gives_a_note(
    own: Path, tinyattn: Any, code: str, note: str
) -> None:
    words = with_class(own, code)[:2]
    printed = tinyattn("compare", *words, "--lengths", "8,16", "--width", 8, "--heads", 2).stderr
    assert f"note: my_window.py:Window {note}" in printed if note else not printed


def test_a_wrong_run_folder_gives_the_right_one(job: Any, tinyattn: Any, tmp_path: Path) -> None:
    shutil.copytree(job.finetuned, tmp_path / "w" / "finetune")
    for typed in ("w", "w/finetune2"):
        message = tinyattn("ask", QUESTION, "--from", tmp_path / typed, status=1).stderr
        assert f"did you mean {tmp_path / 'w' / 'finetune'}?" in message
    for typed in ("elsewhere", "w/pretrain"):
        message = tinyattn("ask", QUESTION, "--from", tmp_path / typed, status=1).stderr
        assert "no such file; run `tinyattn quickstart`" in message


def test_a_model_of_a_text_is_told_apart(tmp_path: Path, job: Any, tinyattn: Any) -> None:
    words = ["pretrain", job.corpus, "--objective", "next", "--steps", 2, *TINY]
    words += ["--set", "model.context=16"]
    tinyattn(*words, "--out", tmp_path / "book")
    message = tinyattn("ask", "A", "--from", tmp_path / "book", "--unknown", "drop").stderr
    assert "never taught to answer questions; it continues a text: use `generate`" in message


def test_a_file_never_replaces_an_installed_module(own: Path, job: Any, as_json: AsJson) -> None:
    shutil.copy(own / "my_window.py", own / "json.py")
    before = sys.modules["json"]
    as_json("compare", "--attention", "json.py:Window", "--lengths", "8,16")
    assert sys.modules["json"] is before


def test_a_wrong_device_is_reported_before_the_folder(
    job: Any, tinyattn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a quickstart, whose runs are where training commands write by default."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(job.pretrained, tmp_path / "runs" / "pretrain")
    words = ["pretrain", job.corpus, "--device", "cuda", "--workers", 2]
    assert "--workers are threads of the CPU" in tinyattn(*words, status=2).stderr


def test_a_checkpoint_imports_nothing(own: Path, job: Any, tinyattn: Any, as_json: AsJson) -> None:
    """A file from someone else must not decide which code runs."""
    run = own / "run"
    as_json("pretrain", job.corpus, *job.settings, "--attention", "my_window:Window", "--out", run)
    ATTENTION.pop("my_window:Window")
    sys.modules.pop("my_window")
    (own / "my_window.py").write_text("raise SystemExit('code of a checkpoint ran')")
    for words in (["generate", "--prompt", "A"], ["info"]):
        message = tinyattn(*words, "--from", run, status=1).stderr
        assert "is not imported" in message and "ran" not in message
    assert "my_window" not in sys.modules
