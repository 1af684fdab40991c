"""The comparison of attention types: all measurements exist, and false claims are detected."""

import json
from typing import Any

import numpy as np
import pytest
from attention_cases import about, with_options
from blocks import after
from formulas import meeting

from tinyattn import Tensor
from tinyattn.attention import ATTENTION, Call, MultiHead, causal, influence
from tinyattn.measure import DownAndUp, compare, new_block
from tinyattn.measure.comparison import Subject, slope
from tinyattn.models import ATTENTION_TYPES

T = 40


@pytest.mark.parametrize("name", ATTENTION_TYPES)
def test_uses_are_found(name: str) -> None:
    assert Subject(name, 8, 2).uses() == about(name).USES


@pytest.mark.parametrize("name", ATTENTION_TYPES)
@pytest.mark.parametrize("is_causal", [True, False])
def test_influence(name: str, is_causal: bool, device: str) -> None:
    if is_causal not in about(name).USES:
        with pytest.raises(ValueError, match="cannot"):
            influence(new_block(name, 8, 2, T), T, is_causal)
        return
    block = new_block(with_options(name), 8, 2, T)
    block.to(device)
    expected = about(name).attends(block, T, is_causal)
    np.testing.assert_array_equal(influence(block, T, is_causal), expected)


def test_influence_tries_a_copy() -> None:
    block = new_block("multihead", 8, 2, T)
    before = block.state()
    influence(block, T, True)
    for name, array in block.state().items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, before[name])


class Liar(MultiHead):
    """Claims that it can be causal, but attends to everything."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        return super().attend(q, k, v, call._replace(causal=False))


class Blinkered(MultiHead):
    """Claims that it can be bidirectional, but attends to earlier positions only."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        return super().attend(q, k, v, call._replace(causal=True))


def test_false_claims_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATTENTION, "liar", Liar)
    monkeypatch.setitem(ATTENTION, "blinkered", Blinkered)
    found = compare(["liar", "blinkered"], width=8, heads=2, lengths=(8, 16), rounds=1)
    liar, blinkered = found.rows
    assert (liar.causal, liar.uses, liar.use) == (False, "bidirectional", "causal")
    assert (blinkered.causal, blinkered.uses) == (True, "causal")


def test_down_and_up_is_the_perceiver(device: str) -> None:
    """Its equation, with explicit masks; it has the parameters of two blocks and Z."""
    block = new_block("perceiver,latents=6", 8, 2, T)
    assert isinstance(block, DownAndUp)
    block.astype("float64").to(device)
    rng = np.random.default_rng(0)
    for parameter in block.parameters():
        parameter.data = rng.standard_normal(parameter.shape)
    x = Tensor(rng.standard_normal((3, T, 8)), device=device)
    down, up = block.down, block.up
    latents = block.perceiver.latents.broadcast_to((3, 6, 8))
    z = latents + down(latents, context=x, allowed=causal(6, T, align="start", xp=x.xp))
    y = x + up(x, context=z, allowed=causal(T, 6, align="start", xp=x.xp))
    np.testing.assert_allclose(block(x, causal=True).numpy(), y.numpy(), rtol=1e-13)
    assert block.parameter_count() == 2 * (4 * 8 * 8 + 4 * 8) + 6 * 8
    with pytest.raises(ValueError, match="later positions: its masks are causal by index"):
        block(x)


def test_slope() -> None:
    assert slope([256, 512, 4096], [3 * n**1.5 for n in (256, 512, 4096)]) == pytest.approx(1.5)


@pytest.fixture(scope="module")
def found() -> Any:
    """A comparison of all attention types, and the calls for its progress bar."""
    progress: dict[str, Any] = {"done": 0}
    comparison = compare(
        [*ATTENTION_TYPES], width=16, heads=2, lengths=(128, 512), length=256, rounds=1,
        on_start=lambda done, total: progress.update(total=total),
        on_step=lambda count: progress.update(done=progress["done"] + count),
    )  # fmt: skip
    return comparison, progress


def test_a_row_for_each_attention_type(found: Any) -> None:
    comparison, progress = found
    assert [row.name for row in comparison.rows] == [*ATTENTION_TYPES]
    assert progress["done"] == progress["total"] > 0
    for row in comparison.rows:
        assert row.causal == (True in about(row.name).USES)
        assert row.use == ("causal" if row.causal else "bidirectional")
        assert [*row.seconds] == [*row.peak_bytes] == [128, 256, 512]
        assert min(row.seconds.values()) > 0 and row.step_ratio > 0
    assert [row.use for row in comparison.dense] == ["causal", "bidirectional"]
    assert all(row.step_ratio == 1 for row in comparison.dense)
    assert comparison.rows[0] is comparison.dense[0]


@pytest.mark.parametrize("name", ATTENTION_TYPES)
def test_hops(name: str, found: Any) -> None:
    """Layers until all allowed positions have influence, of 128; None if never."""
    (row,) = [row for row in found[0].rows if row.name == name]
    seen = about(name).attends(new_block(name, 8, 2, 128), 128, row.causal)
    wanted = meeting(128, row.causal)
    layers = range(1, 129)
    assert row.hops == next((n for n in layers if (after(n, seen) >= wanted).all()), None)


def test_hops_of_some(found: Any) -> None:
    """Inputs from the 64th on influence no other output of a Perceiver."""
    hops = {row.name: row.hops for row in found[0].rows}
    assert (hops["multihead"], hops["bigbird"], hops["perceiver"]) == (1, 3, None)


def test_memory_grows_as_in_the_formulas(found: Any) -> None:
    """Types linear in T are measured as nearly linear; those that keep all weights are not."""
    slopes = {(row.name, row.use): row.memory_slope for row in found[0].rows + found[0].dense}
    assert slopes["bigbird", "causal"] < 1.2 > slopes["linformer", "bidirectional"]
    assert slopes["perceiver", "causal"] < 1.2
    assert slopes["multihead", "bidirectional"] < 1.2 and slopes["multihead", "causal"] < 1.2
    assert slopes["synthesizer", "causal"] > 1.6 < slopes["random-synthesizer", "causal"]
    for row in found[0].dense:
        assert row.multiply_adds_number == 4 * 256 * 16**2 + 2 * 256**2 * 16
        assert row.kept_bytes == 4 * 4 * 256 * 16


def test_as_dict_is_json(found: Any) -> None:
    rows = json.loads(json.dumps(found[0].as_dict(), allow_nan=False))["rows"]
    wanted = {"name", "parameters", "causal", "time_slope", "memory_slope", "step_ratio"}
    assert all(row.keys() >= wanted for row in rows)
    assert all(type(row["causal"]) is bool for row in rows)


def test_a_slope_needs_two_lengths() -> None:
    with pytest.raises(ValueError, match="two lengths"):
        compare(["multihead"], lengths=(64, 64))
