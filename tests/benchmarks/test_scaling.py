"""The benchmark of how a step scales, on tiny sizes."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def scaling(bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script as a module, with small sizes."""
    axes = {"width": (32, 64), "layers": (1, 2), "context": (4, 8, 16), "batch": (1, 2)}
    base = {"width": 32, "layers": 1, "context": 8, "batch": 2}
    for name, value in {"BASE": base, "AXES": axes, "TURN": 0.0}.items():
        monkeypatch.setattr(bench.scaling, name, value)
    monkeypatch.setattr("tinyattn.measure.profile.PRODUCT", 32)
    return bench.scaling


def test_two_terms_are_found(scaling: Any) -> None:
    x = np.array([1.0, 2, 4, 8])
    assert scaling.two_terms("width", x, 3 * x + 5 * x**2) == pytest.approx((3, 5))
    assert scaling.two_terms("layers", x, 2 + 7 * x) == pytest.approx((2, 7))
    assert scaling.two_terms("context", x, 2 + 7 * x) == pytest.approx((2, 7))
    assert scaling.two_terms("batch", x, 2 + 7 / x) == pytest.approx((2, 7))


def test_json_and_the_counts(
    scaling: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["scaling.py", "--rounds", "2", "--workers", "1", "--json"]
    monkeypatch.setattr(sys, "argv", words)
    scaling.main()
    found = json.loads(capsys.readouterr().out)
    assert len(found["points"]) == 1 + 1 + 1 + 2 + 1  # the base is on every axis
    for p in found["points"]:
        C, n, T = p["width"], p["layers"], p["context"]
        assert p["multiply_adds"] == 3 * (12 * n * C * C + 256 * C + n * C * (T + 1))
        assert 0 < p["low"] <= p["seconds"] <= p["high"]
        assert sum(p["shares"].values()) == pytest.approx(1)
    fits = {fit["axis"]: fit for fit in found["fits"]}
    assert fits["batch"]["counted_power"] == pytest.approx(0, abs=1e-9)
    assert 1 < fits["width"]["counted_power"] < 2
    per_pair = 3 * 1 * 32 / found["product_rate"]  # one more position: n·C for each, three times
    assert fits["context"]["counted_terms"][1] == pytest.approx(per_pair)


def test_table_and_picture(
    scaling: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    pytest.importorskip("matplotlib")
    path = tmp_path / "s.png"
    words = ["scaling.py", "--rounds", "2", "--workers", "1"]
    parts = ["--only", "context", "--only", "batch"]
    monkeypatch.setattr(sys, "argv", [*words, *parts, "--picture", str(path)])
    scaling.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["context", "parameters"]
    assert [line.split()[0] for line in lines[1:4]] == ["4", "8", "16"]
    assert any(line.startswith("context T, 4 to 16 ") for line in lines)
    assert any(line.startswith("batch B, 1 to 2 ") and "B^0.00" in line for line in lines)
    assert path.read_bytes().startswith(b"\x89PNG")
