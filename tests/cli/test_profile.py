"""The command that measures where the time of a step goes."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tinyattn.measure import profile as module
from tinyattn.switches import kernels_in_use

AsJson = Callable[..., dict[str, Any]]
SMALL = [
    *("--set", "model.context=16", "--set", "model.width=8", "--set", "model.layers=1"),
    *("--set", "model.heads=2", "--batch", 4, "--vocabulary", 9, "--steps", 2, "--workers", 2),
]


@pytest.fixture(autouse=True)
def small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring the peak rate takes no time."""
    monkeypatch.setattr(module, "PRODUCT", 64)


def test_json(as_json: AsJson) -> None:
    found = as_json("profile", *SMALL)
    assert (found["recipe"], found["batch"], found["length"]) == ("fast", 4, 16)
    assert (found["vocabulary"], found["workers"], found["steps"]) == (9, 2, 2)
    assert found["positions"] == 4 * 16
    assert found["multiply_adds"] == 3 * 64 * (12 * 8 * 8 + 8 * 9 + 8 * 17)
    assert found["floor_seconds"] == pytest.approx(
        found["multiply_adds"] / (2 * found["product_rate"])
    )
    assert found["tokens_per_second"] == pytest.approx(64 / found["seconds"])
    assert sum(row["seconds"] for row in found["rows"]) == pytest.approx(found["busy_seconds"])
    names = {row["name"] for row in found["rows"]}
    assert names > {"linear", "attention", "rotate", "optimizer", "clipping", "between ops"}


def test_table(tinyattn: Any) -> None:
    printed = tinyattn("profile", "--recipe", "a5", *SMALL).stdout
    lines = printed.splitlines()
    assert re.match(
        r"a5: [\d,]+ parameters, adamw, 4 random sequences of 16 tokens, .* 2 workers", printed
    )
    assert lines[2].split() == ["operation", "calls", "time", "fraction", "bytes", "multiply-adds",
                                "per", "second", "by"]  # fmt: skip
    row = next(line for line in lines if line.startswith("linear        forward"))
    assert row.split()[2] == "14" and row.endswith(" G  cpu kernel")
    assert next(line for line in lines if line.startswith("transpose")).endswith("  formula")
    table = lines[2 : lines.index("", 3)]
    assert len({line.index("%") for line in table[1:]}) == 1  # columns are aligned
    assert table[-1].startswith("total") and "100.0%" in table[-1]
    assert not any(line.startswith("rotate") for line in table)  # a5 has learned positions
    assert "floor " in printed and "GFLOP/s" in printed


def test_it_names_kernel_or_formula_and_the_reason(as_json: AsJson, tinyattn: Any) -> None:
    def by(*words: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for row in json.loads(tinyattn(*words, "profile", *SMALL, "--json").stdout)["rows"]:
            found.setdefault(row["name"], set()).add(row["by"])
        return found

    plain, off = by(), by("--formulas", "layer_norm")
    fastest = kernels_in_use("cpu")[0]
    assert plain["layer_norm"] == {f"{fastest} kernel"} and plain["add"] == {"formula"}
    assert off == plain | {"layer_norm": {"formula: switched off"}}
    assert by("--formulas", "numba")["layer_norm"] == {"cpu kernel"}
    assert plain["muon"] == {"cpu kernel"} and plain["clip_factor"] == {"formula"}


def test_a_penalty_is_part_of_the_step(as_json: AsJson) -> None:
    plain, penalised = (
        as_json("profile", *SMALL, *words) for words in ([], ["--penalty", "focus=0.1"])
    )
    assert "softmax" not in {row["name"] for row in plain["rows"]}
    assert "softmax" in {row["name"] for row in penalised["rows"]}


def test_any_attention(as_json: AsJson) -> None:
    found = as_json("profile", *SMALL, "--attention", "linformer-causal,segment=4,rows=2")
    assert "rotate" in {row["name"] for row in found["rows"]} and found["multiply_adds"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--recipe nothing", "recipe must be one of"),
        ("--set model.wide=3", "no setting 'wide'; did you mean 'width'"),
        ("--attention linformer", "a GPT needs causal attention"),
        ("--batch 0", "--batch"),
        ("--vocabulary 2", "--vocabulary"),
    ],
)
def test_wrong_usage(tinyattn: Any, words: str, message: str) -> None:
    result = tinyattn("profile", *words.split(), status=2)
    assert result.stdout == "" and message in " ".join(result.stderr.split())
