"""The smaller benchmarks, on tiny models: by the minute, Muon, a generated token."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tinyattn.kernels.cpu import decoding, optimizers
from tinyattn.kernels.cpu.orthogonal import orthogonal
from tinyattn.services import SERVICES
from tinyattn.tasks.running import RunOptions


def test_a_row_is_the_mean_over_its_minutes(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    """Here two minutes; nothing was logged from the second to the fourth."""
    lines = [{"seconds": seconds, "step": step, "epoch": step // 3, "loss": loss,
              "learning_rate": 0.01 / step}
             for step, (seconds, loss) in enumerate([(30, 4.0), (90, 2.0), (250, 1.5)], 1)
             ]  # fmt: skip
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr(sys, "argv", ["by_minute.py", str(tmp_path), "--every", "2"])
    bench.by_minute.main()
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| 1.5 | 2 | 0 | 3.000 | 0.00500 |",
        "| 4.2 | 3 | 1 | 1.500 | 0.00333 |",
    ]


@pytest.fixture
def tiny(bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script about Muon, with a tiny model."""
    sizes = bench.muon.replace(bench.muon.A5, context=16, layers=1, heads=2, width=32)
    monkeypatch.setattr(bench.muon, "A5", sizes)
    return bench.muon


def test_what_muon_costs_and_does(
    tiny: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["muon.py", "--batch", "2", "--steps", "1", "--rounds", "2"])
    tiny.main()
    costs, values = capsys.readouterr().out.split("\n\n")
    assert [line.split("  ")[0] for line in costs.splitlines()[1:2]] == ["training step, batch 2"]
    assert costs.splitlines()[1].split()[-1] == "100.0%" and len(costs.splitlines()) == 6
    for form in ("square", "long"):
        before, five, ours = (line for line in values.splitlines() if line.startswith(form))
        assert float(before.split()[-1]) == 1  # the largest
        for line in (five, ours):  # all directions but the weakest come out about equally long
            assert 0.6 < float(line.split()[-2]) and float(line.split()[-1]) < 1.3


def test_the_exact_way_has_singular_values_of_one(tiny: Any) -> None:
    g = np.random.default_rng(0).standard_normal((6, 4), np.float32)
    np.testing.assert_allclose(np.linalg.svd(tiny.exact(np, g), compute_uv=False), 1, rtol=1e-5)


def test_every_way_trains_and_is_removed_again(
    tiny: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    used = []

    def pretend(corpus: str, recipe: Any, options: RunOptions) -> None:
        assert (recipe.pretrain.epochs, recipe.pretrain.learning_rate) == (3, 0.5)
        used.append(optimizers.orthogonal)
        for step in range(200):
            assert options.on_step is not None
            options.on_step({"loss": float(len(used) * (1 if step < 150 else 2))})

    monkeypatch.setattr(tiny, "pretrain", pretend)
    tiny.train([0], epochs=3, rate=0.5)
    assert used == list(tiny.WAYS.values()) and optimizers.orthogonal is orthogonal
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split()[:4] == ["seed", "0,", "200", "steps"]
    assert [float(cell) for cell in row.split()[4:]] == [1, 2, 2, 4, 3, 6]

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(tiny, "pretrain", fails)
    with pytest.raises(ZeroDivisionError):
        tiny.train([0], epochs=3, rate=0.5)
    assert optimizers.orthogonal is orthogonal


def test_where_the_time_of_a_token_goes(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = bench.generation
    monkeypatch.setattr(script, "A5", bench.muon.replace(
        script.A5, context=32, layers=2, heads=2, width=32))  # fmt: skip
    monkeypatch.setattr(script, "ROUNDS", 2)
    monkeypatch.setattr(script, "COUNT", 6)
    script.main()
    for row, batch in zip(capsys.readouterr().out.splitlines()[1:3], ("1", "32"), strict=True):
        number, token, tensors, ratio, product, rest = row.replace("ms", "").split()
        assert number == batch
        assert float(product) + float(rest) == pytest.approx(float(token), abs=0.03)
        assert float(ratio) == pytest.approx(float(token) / float(tensors), abs=0.1)
    with script.with_tensors():
        assert ("next_logits", "cpu") not in SERVICES
    assert SERVICES["next_logits", "cpu"] is decoding.next_logits
