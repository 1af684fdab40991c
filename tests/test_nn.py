"""Modules: finding, moving and storing parameters; layers; positions."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import in_float64, normal
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor, nn, ops
from tinyattn.backend import asnumpy
from tinyattn.nn import Module, Parameter, Role
from tinyattn.rng import DropoutRNG


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


class Pair(Module):
    """Two layers in a list, one in a submodule, its own parameter, and a tied parameter."""

    def __init__(self) -> None:
        self.name = "not a parameter"
        self.scale = Parameter(np.ones(2, np.float32), name="scale")
        self.layers = [nn.Linear(2, 3, rng=rng()), nn.Linear(3, 2, rng=rng(), bias=False)]
        self.tied = self.layers[0].weight
        self.norms = [nn.LayerNorm(2)]
        self.frozen = Tensor([1.0])


NAMES = ["scale", "layers.0.weight", "layers.0.bias", "layers.1.weight", "norms.0.gain",
         "norms.0.bias"]  # fmt: skip

# Names -------------------------------------------------------------------------------------


def test_a_parameter_has_the_name_of_its_path_and_occurs_once() -> None:
    pair = Pair()
    assert [name for name, _ in pair.named_parameters()] == NAMES
    assert pair.parameter_count() == 2 + 6 + 3 + 6 + 2 + 2
    assert len(pair.parameters()) == len(NAMES)


@pytest.mark.parametrize(
    "shelf", [tuple, set, lambda items: dict(enumerate(items)), lambda items: [1, items]]
)
@pytest.mark.parametrize("kept", [Parameter([1.0]), nn.LayerNorm(2)])
def test_a_parameter_that_would_be_overlooked_is_refused(shelf: Any, kept: Any) -> None:
    module = Module()
    module.shelf = shelf([kept])  # type: ignore[attr-defined]
    with pytest.raises(
        TypeError, match=r"Module.shelf.*: keep parameters and modules in a list, not"
    ):
        module.parameters()
    module.shelf = shelf([1, "two"])  # type: ignore[attr-defined]
    assert module.parameters() == []


def test_zero_grad_reaches_every_parameter() -> None:
    pair = Pair()
    for parameter in pair.parameters():
        parameter.grad = np.ones(parameter.shape, parameter.dtype)
    pair.zero_grad()
    assert all(parameter.grad is None for parameter in pair.parameters())


def test_a_tied_parameter_receives_both_gradients() -> None:
    pair = Pair()
    (pair.layers[0].weight * 2 + pair.tied * 3).sum().backward()
    assert_array_equal(pair.tied.grad, np.full((2, 3), 5))


def test_to_moves_everything_and_keeps_ties_and_names(device: str) -> None:
    pair = Pair()
    before = pair.state()
    assert pair.to(device) is pair
    assert {p.device for p in pair.parameters()} == {device}
    assert pair.tied is pair.layers[0].weight
    assert pair.scale.name == "scale"
    assert all(p.requires_grad and isinstance(p, Parameter) for p in pair.parameters())
    for name, value in pair.state().items():
        assert_array_equal(value, before[name])


# State -------------------------------------------------------------------------------------


def test_state_is_a_copy_and_load_state_restores_it(device: str) -> None:
    one, other = Pair().to(device), Pair().to(device)
    for parameter in one.parameters():
        parameter.data = normal(*parameter.shape)
    state = one.state()
    assert list(state) == NAMES
    other.load_state(state)
    for value in state.values():
        value[...] = 0
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert asnumpy(a.data).any()
        assert_array_equal(b.numpy(), a.numpy())
    assert other.tied is other.layers[0].weight


def test_load_state_names_all_mistakes_and_changes_nothing() -> None:
    pair = Pair()
    before, state = pair.state(), pair.state()
    del state["scale"]
    state["extra"] = np.ones(1)
    state["layers.0.bias"] = np.ones(4, np.float32)
    state["layers.1.weight"] = np.ones((3, 2))
    state["norms.0.gain"] += 1
    with pytest.raises(ValueError) as error:
        pair.load_state(state)
    for complaint in [
        "scale is missing",
        "extra is not a parameter here",
        "layers.0.bias should have shape (3,), has (4,)",
        "layers.1.weight should be float32, is float64",
    ]:
        assert complaint in str(error.value)
    for name, value in pair.state().items():
        assert_array_equal(value, before[name])


# Initial values ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("init", "std", "bound"),
    [
        (nn.zeros, 0, 0),
        (nn.A5, 0.02, 1),
        (nn.normal(0.5), 0.5, 5),
        (nn.uniform(0.3), 0.3 / 3**0.5, 0.3),
        (nn.xavier_uniform, (2 / 300) ** 0.5, (6 / 300) ** 0.5),
    ],
)
def test_initial_values_have_the_right_size(init: Any, std: float, bound: float) -> None:
    values = init((100, 200), rng())
    assert values.dtype == np.float32
    assert values.std() == pytest.approx(std, rel=0.02)
    assert np.abs(values).max() <= bound
    assert_array_equal(values, init((100, 200), rng()))


def test_ones_are_ones() -> None:
    assert_array_equal(nn.ones((2, 3), rng()), np.ones((2, 3), np.float32))


# Layers ------------------------------------------------------------------------------------

X = normal(2, 5, 4)
LAYERS: dict[str, tuple[Callable[[], Module], Callable[..., Any]]] = {
    "Linear": (lambda: nn.Linear(4, 3, rng=rng()), lambda x, w, b: x @ w + b),
    "Linear without bias": (lambda: nn.Linear(4, 3, rng=rng(), bias=False), lambda x, w: x @ w),
    "LayerNorm": (
        lambda: nn.LayerNorm(4, eps=0.1),
        lambda x, gain, bias: (x - x.mean(-1, keepdims=True))
        / np.sqrt(x.var(-1, keepdims=True) + 0.1) * gain + bias,
    ),
    "FeedForward": (
        lambda: nn.FeedForward(4, 8, rng=rng(), exact_gelu=False, dropout=0.5),
        lambda x, w1, b1, w2, b2: ops.gelu(x @ w1 + b1, exact=False).numpy() @ w2 + b2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_its_formula(name: str) -> None:
    make, formula = LAYERS[name]
    layer = in_float64(make())
    for parameter in layer.parameters():
        parameter.data = normal(*parameter.shape)
    assert_allclose(layer(Tensor(X)).numpy(), formula(X, *layer.state().values()), rtol=1e-12)


def test_an_embedding_is_a_table() -> None:
    table = nn.Embedding(7, 3, rng=rng())
    ids = np.array([[6, 0], [0, 2]])
    assert_array_equal(table(ids).numpy(), table.weight.numpy()[ids])


def test_a_layer_has_dropout_only_with_a_dropout_rng() -> None:
    x = Tensor(X)
    drop, feed = nn.Dropout(0.5), nn.FeedForward(4, 8, rng=rng(), dropout=0.5)
    assert drop(x) is x
    assert_array_equal(drop(x, DropoutRNG(1)).numpy(), ops.dropout(x, 0.5, DropoutRNG(1)).numpy())
    feed = in_float64(feed)
    assert_array_equal(feed(x, DropoutRNG(1)).numpy(), drop(feed(x), DropoutRNG(1)).numpy())
    with pytest.raises(ValueError, match="rate must be at least 0 and at most 255/256"):
        nn.Dropout(1.0)


# Positions ---------------------------------------------------------------------------------


def test_learned_positions_are_rows_that_begin_at_zero() -> None:
    positions = nn.LearnedPositions(6, 2)
    assert not positions(0, 6).numpy().any()
    positions.weight.data = np.arange(12).reshape(6, 2)
    y = positions(2, 4)
    assert_array_equal(y.numpy(), [[4, 5], [6, 7]])
    y.sum().backward()
    assert_array_equal(positions.weight.grad.sum(axis=1), [0, 0, 2, 2, 0, 0])
    with pytest.raises(ValueError, match="has 6 positions; got a sequence of 7"):
        positions(5, 7)


def at(rotary: nn.Rotary, x: np.ndarray, position: int) -> np.ndarray:
    return rotary(Tensor(x[None, :]), position).numpy()[0]


def test_rotary_rotates_pairs_counterclockwise_each_at_its_frequency() -> None:
    rotary = nn.Rotary(4, base=100.0)
    rotated = at(rotary, np.array([1.0, 0.0, 0.0, 2.0]), 3)
    fast, slow = 3 * 1.0, 3 * 0.1
    expected = [np.cos(fast), np.sin(fast), -2 * np.sin(slow), 2 * np.cos(slow)]
    assert_allclose(rotated, expected, rtol=1e-12)


places = st.integers(0, 300)


@given(places, places, st.integers(0, 300), st.integers(0, 1000))
def test_rotary_products_depend_on_the_distance_only(t: int, s: int, shift: int, seed: int) -> None:
    rotary = nn.Rotary(6)
    q, k = np.random.default_rng(seed).standard_normal((2, 6))
    here = at(rotary, q, t) @ at(rotary, k, s)
    there = at(rotary, q, t + shift) @ at(rotary, k, s + shift)
    assert_allclose(there, here, rtol=1e-10, atol=1e-10)
    assert_allclose(np.linalg.norm(at(rotary, q, t)), np.linalg.norm(q))
    assert_allclose(at(rotary, q, 0), q)


def test_rotary_counts_from_the_given_start_on_every_device(device: str) -> None:
    """Also beyond the 128 positions of its first table."""
    x = normal(2, 200, 4)
    whole = nn.Rotary(4)(Tensor(x)).numpy()
    rotary = nn.Rotary(4)
    for start, stop in [(0, 3), (3, 150), (150, 200)]:
        part = rotary(Tensor(x[:, start:stop], device=device), start)
        assert_allclose(part.numpy(), whole[:, start:stop], rtol=1e-12)


def test_rotary_needs_pairs() -> None:
    with pytest.raises(ValueError, match="must be even; got 3"):
        nn.Rotary(3)


def test_a_parameter_changes_in_place_and_a_tensor_does_not() -> None:
    w = Parameter(np.array([3.0, 4.0]))
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    values = w.data
    w.data -= 0.25 * w.grad
    assert w.data is values and w.data.tolist() == [1.5, 2.0]
    with pytest.raises(RuntimeError, match="was changed in place after"):
        loss.backward()
    w.zero_grad()
    (w * w).sum().backward()
    assert w.grad.tolist() == [3.0, 4.0]
    with pytest.raises(ValueError, match="read-only"):
        Tensor([3.0], requires_grad=True).data -= 1


def test_a_parameter_on_another_device_changes_in_place_too() -> None:
    flat = np.zeros(4)
    w = Parameter(np.zeros(2))
    w.share(flat[1:3])
    loss = w.sum()
    w.data += 1.0
    assert flat.tolist() == [0, 1, 1, 0]
    with pytest.raises(RuntimeError, match="was changed in place after"):
        loss.backward()


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda w: pickle.loads(pickle.dumps(w))])
def test_a_copy_of_a_parameter_keeps_its_role(how: Any) -> None:
    w = Parameter([1.0], role=Role.GAIN, name="w")
    w.grad = np.ones(1)
    kept = how(w)
    assert type(kept) is Parameter and kept.role is Role.GAIN and kept.name == "w"
    assert kept.grad.tolist() == [1.0] and kept.requires_grad
    kept.data += 1.0
    assert w.data.tolist() == [1.0]
    layer = nn.Linear(2, 3, rng=np.random.default_rng(0), role=Role.OUTPUT).astype("float64")
    assert (layer.weight.role, layer.bias.role) == (Role.OUTPUT, Role.BIAS)
    layer.load_state(layer.state())
    assert layer.weight.role is Role.OUTPUT and layer.weight.data.flags.writeable
