"""Reports about saving: arrays of any layout are restored exactly, tied parameters tied."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError

from tinyattn import Tensor, ops
from tinyattn.backend import asarray, asnumpy
from tinyattn.models import GPT, GPTConfig
from tinyattn.nn import Embedding, Linear, Module, Parameter
from tinyattn.training import checkpoint
from tinyattn.training.checkpoint import CheckpointError
from tinyattn.training.optimizer_table import make_optimizers
from tinyattn.training.optimizers import AdamW

BASE = np.arange(24.0).reshape(4, 6)

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda a: a.T,
    "every other column": lambda a: a[:, ::2],
    "every other row": lambda a: a[::2],
    "backwards": lambda a: a[::-1, ::-1],
    "a column": lambda a: a[:, 1],
    "a window": lambda a: a[1:3, 2:5],
    "three axes exchanged": lambda a: a.reshape(2, 3, 4).transpose(2, 0, 1),
    "two axes exchanged": lambda a: a.reshape(2, 3, 4).swapaxes(0, 1),
    "a transposed slice": lambda a: a.T[::2, 1:3],
    "one row": lambda a: a[:1].T,
    "no axis": lambda a: a[0, 0],
    "a size of nothing": lambda a: a[:0],
    "nothing in the middle": lambda a: a.reshape(4, 6)[:, 3:3],
    "contiguous": lambda a: a,
}
HOST_LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "broadcast row": lambda a: np.broadcast_to(a[0], (3, 6)),
    "broadcast column": lambda a: np.broadcast_to(a[:, :1], (4, 5)),
    "broadcast number": lambda a: np.broadcast_to(a[0, 1], (2, 2)),
    "Fortran order": np.asfortranarray,
    "read-only": lambda a: np.broadcast_to(a, a.shape),
    "diagonal": lambda a: a[:, :4].diagonal(),
    "overlapping windows": lambda a: np.lib.stride_tricks.sliding_window_view(a[0], 3),
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "big-endian, transposed": lambda a: a.astype(a.dtype.newbyteorder(">")).T,
}
TYPES = ["float64", "float32", "int64", "uint8", "bool"]


def same(actual: np.ndarray, expected: np.ndarray) -> None:
    """Equal in all bits, in shape and in dtype (except the byte order)."""
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype.newbyteorder("=")
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", LAYOUTS)
def test_an_array_of_any_layout_is_restored(
    name: str, dtype: str, device: str, tmp_path: Path
) -> None:
    """safetensors/safetensors#825: version 0.8.0 wrote memory in the wrong order, silently."""
    plain = LAYOUTS[name](BASE.astype(dtype))
    there = LAYOUTS[name](asarray(BASE.astype(dtype), device=device))
    path = tmp_path / "a.safetensors"
    checkpoint.save(path, {"x": there, "beside": asarray(BASE, device=device)}, {"step": 1})
    saved = checkpoint.load(path)
    same(saved.arrays["x"], np.asarray(plain))
    same(saved.arrays["beside"], BASE)
    assert saved.about == {"step": 1}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("name", HOST_LAYOUTS)
def test_views_that_only_a_host_has_are_restored_too(name: str, dtype: str, tmp_path: Path) -> None:
    """MinishLab/model2vec#341: broadcast views, windows, other byte orders."""
    array = HOST_LAYOUTS[name](BASE.astype(dtype))
    before = array.copy()
    checkpoint.save(tmp_path / "a.safetensors", {"x": array}, {})
    same(checkpoint.load(tmp_path / "a.safetensors").arrays["x"], before)
    np.testing.assert_array_equal(array, before)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_chain_of_views_is_restored(data: st.DataObject, tmp_path: Path) -> None:
    """Permuted, sliced and reversed in any combination."""
    shape = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    array = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    for _ in range(data.draw(st.integers(1, 3))):
        array = array.transpose(data.draw(st.permutations(range(array.ndim))))
        steps = data.draw(st.lists(st.sampled_from([1, 2, -1, -2]), min_size=array.ndim,
                                   max_size=array.ndim))  # fmt: skip
        array = array[tuple(slice(None, None, step) for step in steps)]
    path = tmp_path / "a.safetensors"
    checkpoint.save(path, {"x": array, "y": array.T}, {})
    saved = checkpoint.load(path)
    same(saved.arrays["x"], array)
    same(saved.arrays["y"], array.T)


def test_values_that_are_not_finite_are_restored_exactly(tmp_path: Path) -> None:
    """NaN with its sign, infinities, the smallest numbers and minus zero, in all bits."""
    odd = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 5e-324, 1.7e308])
    checkpoint.save(tmp_path / "a.safetensors", {"x": odd, "t": np.stack([odd, odd]).T}, {})
    saved = checkpoint.load(tmp_path / "a.safetensors").arrays
    assert saved["x"].tobytes() == odd.tobytes()
    assert saved["t"].tobytes() == np.ascontiguousarray(np.stack([odd, odd]).T).tobytes()


def test_no_arrays_and_two_names_for_one_array(tmp_path: Path) -> None:
    """ml-explore/mlx#369: views of one buffer are saved separately."""
    path = tmp_path / "a.safetensors"
    checkpoint.save(path, {}, {"step": 0})
    assert checkpoint.load(path).arrays == {}
    checkpoint.save(path, {"a": BASE, "b": BASE, "c": BASE.T, "d.e.f": BASE[1]}, {})
    saved = checkpoint.load(path)
    for name, expected in {"a": BASE, "b": BASE, "c": BASE.T, "d.e.f": BASE[1]}.items():
        same(saved.arrays[name], expected)
    same(saved.group("d")["e.f"], BASE[1])


class Strange(Module):
    """A module whose parameters were created from arrays of every layout."""

    def __init__(self, fill: float | None = None) -> None:
        for i, layout in enumerate([*LAYOUTS.values(), *HOST_LAYOUTS.values()]):
            array = np.asarray(layout(BASE)).astype(np.float64, order="K", copy=False)
            if array.dtype.byteorder == ">":
                array = array.astype(np.float64, order="K")
            setattr(self, f"p{i}", Parameter(array if fill is None else array * 0 + fill))


def test_a_module_made_of_such_arrays_is_restored(device: str, tmp_path: Path) -> None:
    """Through state, save, load and load_state, before and after a step of an optimizer."""
    module = Strange()
    module.to(device)
    AdamW(module.named_parameters())
    path = tmp_path / "m.safetensors"
    checkpoint.save(path, {f"model.{n}": p.data for n, p in module.named_parameters()}, {})
    for owned in (False, True):
        other = Strange(fill=-1.0)
        other.to(device)
        if owned:
            AdamW(other.named_parameters())
        other.load_state(checkpoint.load(path).group("model"))
        for (name, ours), (_, theirs) in zip(other.named_parameters(), module.named_parameters(),
                                             strict=True):  # fmt: skip
            same(asnumpy(ours.data), asnumpy(theirs.data))
            expected = dict(Strange().named_parameters())[name]
            same(asnumpy(ours.data), expected.numpy())


def test_the_state_of_an_optimizer_has_views_and_is_restored(tmp_path: Path, device: str) -> None:
    """Every view of the one long array has the shape of its parameter."""
    model = GPT(GPTConfig(vocabulary=5, context=4, layers=1, heads=1, width=4))
    model.to(device)
    for optimizer in make_optimizers(model, "muon"):
        for pieces in optimizer.state().values():
            for i, piece in enumerate(pieces.values()):
                piece[...] = i + 1
            checkpoint.save(tmp_path / "o.safetensors", {n: p.T for n, p in pieces.items()}, {})
            saved = checkpoint.load(tmp_path / "o.safetensors").arrays
            for name, piece in pieces.items():
                same(saved[name], asnumpy(piece).T)


class Tied(Module):
    """One table for input and output, in two lists, and a shared module."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.read = Embedding(4, 3, rng=rng)
        self.write = self.read.weight
        self.layers = [Linear(3, 3, rng=rng)]
        self.layers.append(self.layers[0])
        self.more = [Linear(3, 3, rng=rng), self.layers[0]]

    def __call__(self, ids: Any) -> Tensor:
        x = self.layers[1](self.layers[0](self.read(ids)))
        return self.more[1](self.more[0](x)) @ self.write.T


def check_ties(model: Tied) -> None:
    assert model.write is model.read.weight
    assert model.layers[0].weight is model.layers[1].weight is model.more[1].weight
    assert [n for n, _ in model.named_parameters()] == [
        "read.weight", "layers.0.weight", "layers.0.bias", "more.0.weight", "more.0.bias"
    ]  # fmt: skip


@pytest.mark.parametrize("owned", [False, True])
def test_tied_parameters_are_restored_tied(owned: bool, device: str, tmp_path: Path) -> None:
    """ml-explore/mlx#369: saved once, and still one parameter after loading and moving."""
    first, second = Tied(0), Tied(1)
    for model in (first, second):
        model.to(device)
        check_ties(model)
        if owned:
            make_optimizers(model, "adamw")
    path = tmp_path / "t.safetensors"
    checkpoint.save(path, {n: p.data for n, p in first.named_parameters()}, {})
    saved = checkpoint.load(path)
    assert len(saved.arrays) == 5
    second.load_state(saved.arrays)
    check_ties(second)
    for (_, ours), (_, theirs) in zip(second.named_parameters(), first.named_parameters(),
                                      strict=True):  # fmt: skip
        same(asnumpy(ours.data), asnumpy(theirs.data))
    ids = asarray(np.array([0, 3, 3]), device=device)
    np.testing.assert_array_equal(second(ids).numpy(), first(ids).numpy())
    ops.sum(second(ids)).backward()
    assert second.write.grad is second.read.weight.grad
    assert all(p.grad is not None and p.device == device for p in second.parameters())
    second.to("cpu")
    check_ties(second)
    check_ties(copy.deepcopy(second))


def test_an_optimizer_updates_a_tied_parameter_once(device: str) -> None:
    """Two names must not cause two updates, or two copies with different values."""
    model = Tied(0)
    model.to(device)
    (optimizer,) = make_optimizers(model, "adamw", weight_decay=0.0)
    before = model.write.numpy()
    model.write.grad = asarray(np.ones_like(before), device=device)
    optimizer.step(0.5)
    np.testing.assert_allclose(model.write.numpy(), before - 0.5, rtol=1e-6)
    check_ties(model)


def test_loading_is_complete_or_changes_nothing_and_names_all_mistakes() -> None:
    """A state that does not fit changes nothing, whichever name does not fit."""
    model = Tied(0)
    before = model.state()
    state = {n: a + 1 for n, a in before.items()}
    del state["layers.0.bias"]
    state["more.0.weight"] = state["more.0.weight"].astype(np.float64)
    state["more.0.bias"] = state["more.0.bias"][:2]
    state["write"] = state["read.weight"]
    with pytest.raises(ValueError) as caught:
        model.load_state(state)
    for part in ("layers.0.bias is missing", "write is not a parameter", "more.0.weight should be"
                 " float32", "more.0.bias should have shape (3,), has (2,)"):  # fmt: skip
        assert part in str(caught.value)
    for name, array in model.state().items():
        same(array, before[name])


@pytest.mark.parametrize("owned", [False, True])
def test_loading_copies_and_accepts_views_of_the_model_itself(owned: bool) -> None:
    """Parameters may be exchanged, and the model shares no memory with the caller's arrays."""
    rng = np.random.default_rng(0)

    class Two(Module):
        def __init__(self) -> None:
            self.a = Parameter(rng.normal(size=(3, 3)))
            self.b = Parameter(rng.normal(size=(3, 3)))

    model = Two()
    if owned:
        AdamW(model.named_parameters())
    a, b = model.a.numpy(), model.b.numpy()
    model.load_state({"a": model.b.data.T, "b": model.a.data})
    same(model.a.numpy(), b.T)
    same(model.b.numpy(), a)
    mine = np.ones((3, 3))
    model.load_state({"a": mine, "b": mine})
    mine[...] = 9
    assert (model.a.numpy() == 1).all() and (model.b.numpy() == 1).all()


def test_an_array_that_cannot_be_saved_leaves_the_old_file(tmp_path: Path) -> None:
    """The error names its type, and no part of a file is written."""
    path = tmp_path / "a.safetensors"
    checkpoint.save(path, {"x": BASE.T}, {})
    for wrong in (np.array([None]), np.array(["a"]), np.array([1], "datetime64[s]")):
        with pytest.raises((CheckpointError, SafetensorError), match=wrong.dtype.name[:6]):
            checkpoint.save(path, {"x": wrong}, {})
    same(checkpoint.load(path).arrays["x"], BASE.T)
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]
