"""The Perceiver of A5: what its latents attend to, and the influence on the outputs."""

from typing import Any

import numpy as np
import pytest
from blocks import C, H, build, influence, numbers, put, reach, with_or_without_rotary
from cases import attention, gelu, in_float64, layer_norm
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor, gradcheck
from tinyattn.models import Layer, Perceiver
from tinyattn.nn import NO_HOOKS, Hooks, weight_hooks
from tinyattn.rng import DropoutRNG


def perceiver(
    device: str, latents: int, layers: int, rotary: bool = False, dropout: float = 0.0
) -> tuple[Any, list[Any]]:
    """Latents and layers in float64 with large parameters."""
    rng = np.random.default_rng(0)
    made = in_float64(Perceiver(C, rng=rng, latents=latents))
    made.latents.data = numbers(latents, C)
    stack = []
    for i in range(layers):
        block = build("multihead", rotary=rotary, dropout=dropout)
        layer = in_float64(Layer(block, rng=rng, exact_gelu=True, dropout=dropout))
        for j, parameter in enumerate(layer.parameters()):
            parameter.data = 0.5 * numbers(*parameter.shape, seed=10 * i + j)
        stack.append(layer.to(device))
    return made.to(device), stack


def rows(text: str) -> np.ndarray:
    return np.array([[c == "1" for c in row] for row in text.split("/")])


def expected_influence(T: int, L: int) -> np.ndarray:
    """Position t depends on itself, and on what the latents 0..t attend to: the inputs before L."""
    return np.array([[s == t or (s <= t and s < L) for s in range(T)] for t in range(T)])


def test_five_positions_and_two_latents(device: str) -> None:
    """Inputs 2, 3 and 4 influence only their own outputs."""
    made, layers = perceiver(device, latents=2, layers=2)
    expected = rows("10000/11000/11100/11010/11001")
    assert_array_equal(influence(lambda x: made(x, layers), numbers(5, C), device), expected)
    assert_array_equal(reach(lambda x: made(x, layers), numbers(5, C), device), expected)


@pytest.mark.parametrize("T", [1, 3, 5, 9])
@pytest.mark.parametrize("L", [1, 3, 6])
@pytest.mark.parametrize("layers", [2, 4])
@with_or_without_rotary
def test_only_inputs_before_the_end_of_the_latents_have_influence(
    rotary: bool, layers: int, L: int, T: int, device: str
) -> None:
    """Also with more layers between: all influence goes through the latents."""
    made, stack = perceiver(device, L, layers, rotary)
    matrix = influence(lambda x: made(x, stack), numbers(T, C), device)
    assert_array_equal(matrix, expected_influence(T, L))


@pytest.mark.parametrize("layers", [2, 4])
def test_latent_j_attends_to_the_inputs_up_to_j(layers: int, device: str) -> None:
    """Row j of the latents, down and between: 1 where it changes with an input."""
    made, stack = perceiver(device, latents=4, layers=layers)
    x = numbers(6, C)

    def latents(x: Tensor) -> Tensor:
        z = made.down(x, stack[0], None, NO_HOOKS)
        for layer in stack[1:-1]:
            z = layer(z, causal=True)
        return z

    assert_array_equal(reach(latents, x, device), np.tri(4, 6, dtype=bool))


def by_hand(made: Perceiver, layers: list[Layer], x: np.ndarray) -> np.ndarray:
    """The equations in plain NumPy; the layers between are like the first, with z instead of x."""

    def attend(p: Any, queries: Any, context: Any) -> Any:
        q, k, v = (
            np.stack(np.split(a @ p[f"{n}.weight"] + p[f"{n}.bias"], H, axis=-1), axis=1)
            for n, a in [("query", queries), ("key", context), ("value", context)]
        )
        y = attention(np, q, k, v, np.tri(q.shape[2], k.shape[2], dtype=bool))
        return np.concatenate([*y.swapaxes(0, 1)], axis=-1) @ p["out.weight"] + p["out.bias"]

    def norm(layer: Layer, which: str, x: Any) -> Any:
        p = layer.state()
        return layer_norm(np, x, p[f"{which}.gain"], p[f"{which}.bias"])

    def add_feedforward(layer: Layer, x: Any) -> Any:
        p = layer.state()
        hidden = (
            norm(layer, "norm_2", x) @ p["feedforward.expand.weight"] + p["feedforward.expand.bias"]
        )
        return (
            x + gelu(np, hidden) @ p["feedforward.contract.weight"] + p["feedforward.contract.bias"]
        )

    first, *between, last = layers
    z = np.broadcast_to(made.latents.numpy(), (len(x), *made.latents.shape))
    z = add_feedforward(first, z + attend(first.attention.state(), norm(first, "norm_1", z), x))
    for layer in between:
        seen = norm(layer, "norm_1", z)
        z = add_feedforward(layer, z + attend(layer.attention.state(), seen, seen))
    return add_feedforward(last, x + attend(last.attention.state(), x, norm(last, "norm_1", z)))


@pytest.mark.parametrize(("T", "L"), [(5, 2), (3, 6), (4, 4)])
@pytest.mark.parametrize("layers", [2, 4])
def test_a_perceiver_is_its_equations(layers: int, T: int, L: int, device: str) -> None:
    made, stack = perceiver(device, L, layers)
    x = numbers(2, T, C)
    y = made(put(x, device), stack).numpy()
    assert_allclose(y, by_hand(made, stack, x), rtol=1e-10, atol=1e-10)


def test_gradients_are_those_of_small_changes(device: str) -> None:
    made, layers = perceiver(device, latents=2, layers=3)
    places = [place for owner in (made, *layers) for place in owner._walk()]

    def run(x: Tensor, *parameters: Tensor) -> Tensor:
        for (_, owner, key, _), parameter in zip(places, parameters, strict=True):
            owner[key] = parameter
        return made(x, layers)

    x, parameters = put(numbers(2, 4, C), device), [p.numpy() for *_, p in places]
    assert gradcheck(run, x, *parameters, directions=1)


def test_outputs_stay_when_a_sequence_grows(device: str) -> None:
    made, layers = perceiver(device, latents=3, layers=3)
    x = numbers(2, 7, C)
    whole = made(put(x, device), layers).numpy()
    for T in range(1, 7):
        assert_allclose(made(put(x[:, :T], device), layers).numpy(), whole[:, :T], rtol=1e-10)


def test_attention_weights_of_every_layer(device: str) -> None:
    made, layers = perceiver(device, latents=2, layers=4)
    all_weights: list[Tensor] = []
    made(put(numbers(3, 5, C), device), layers, hooks=Hooks(weight_hooks(4, all_weights)))
    assert [w.shape for w in all_weights] == [
        (3, H, 2, 5),
        (3, H, 2, 2),
        (3, H, 2, 2),
        (3, H, 5, 2),
    ]
    for weights in all_weights:
        T, S = weights.shape[-2:]
        assert_allclose(weights.numpy().sum(axis=-1), 1, rtol=1e-12)
        assert_array_equal(weights.numpy() > 0, np.broadcast_to(np.tri(T, S), weights.shape))


def test_a_split_batch_has_the_dropout_masks_of_the_whole(device: str) -> None:
    made, layers = perceiver(device, latents=2, layers=3, dropout=0.4)
    x = numbers(4, 5, C)
    whole = made(put(x, device), layers, DropoutRNG(1)).numpy()
    parts = [
        made(put(x[a:b], device), layers, DropoutRNG(1, first_row=a)).numpy()
        for a, b in [(0, 1), (1, 4)]
    ]
    assert_allclose(np.concatenate(parts), whole, rtol=1e-10, atol=1e-12)
    assert np.abs(whole - made(put(x, device), layers).numpy()).max() > 0.1


def test_what_does_not_fit_raises_an_error() -> None:
    made, layers = perceiver("cpu", latents=2, layers=2)
    with pytest.raises(ValueError, match="needs at least 2 layers, down and up; got 1"):
        made(Tensor(numbers(1, 5, C)), layers[:1])
    with pytest.raises(ValueError, match="latents must be at least 1; got 0"):
        Perceiver(C, rng=np.random.default_rng(0), latents=0)
