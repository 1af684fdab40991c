"""Optimizers compared with plain loops; formula and kernel, on separate and on flat arrays."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tinyattn import formulas, ops
from tinyattn.attention import ATTENTION_TYPES
from tinyattn.kernels.cpu.tiles import TILE
from tinyattn.models import GPT, GPTConfig
from tinyattn.nn import Parameter, Role
from tinyattn.parallel.flat import flat_of
from tinyattn.parsing.model import Parser, ParserConfig
from tinyattn.training import OPTIMIZERS
from tinyattn.training.muon import POLYNOMIALS, Muon
from tinyattn.training.optimizer_table import make_optimizers
from tinyattn.training.optimizers import (
    SGD,
    AdamW,
    Optimizer,
    clip_gradients,
    decays_a5,
    decays_matrices,
)

Arrays = dict[str, np.ndarray]
MODEL = GPTConfig(vocabulary=11, context=8, layers=2, heads=2, width=8)


@pytest.fixture(autouse=True, params=["kernels", "formulas"])
def _formula_and_kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the tests with formula and kernel."""
    if request.param == "kernels":
        yield
    else:
        with formulas():
            yield


def random_arrays(seed: int, shapes: dict[str, tuple[int, ...]]) -> Arrays:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def parameters(arrays: Arrays) -> list[tuple[str, Parameter]]:
    """Parameters named weight are matrices with weight decay, the others are not."""
    return [
        (name, Parameter(value, role=Role.HIDDEN if name.endswith("weight") else Role.BIAS))
        for name, value in arrays.items()
    ]


def train(optimizer: Optimizer, gradients: list[Arrays], rates: list[float]) -> Arrays:
    """Take one step per gradient, and return the parameters."""
    for gradient, rate in zip(gradients, rates, strict=True):
        for name, parameter in optimizer.named.items():
            parameter.grad = gradient[name]
        optimizer.step(rate)
    return {name: parameter.numpy() for name, parameter in optimizer.named.items()}


def train_flat(optimizer: Optimizer, gradients: list[Arrays], rates: list[float]) -> Arrays:
    """The same as in a step of several threads: on pieces of one array."""
    flat = flat_of(optimizer)
    with ThreadPoolExecutor(3) as executor:
        for gradient, rate in zip(gradients, rates, strict=True):
            for name, slot in flat.views(flat.grads).items():
                slot[...] = gradient[name]
            optimizer.steps += 1
            list(executor.map(lambda piece, rate=rate: optimizer.move(*piece[:3], rate, piece[3]),
                              flat.pieces))  # fmt: skip
    return {name: parameter.numpy() for name, parameter in optimizer.named.items()}


both_ways = pytest.mark.parametrize("train", [train, train_flat])

# Two of the shapes are longer than a tile, so tiles end within a parameter and where decay ends.
SHAPES = {"a.bias": (5,), "a.weight": (3, 7), "b.weight": (TILE + 3,), "b.bias": (TILE + 5,),
          "c.weight": (2, 2)}  # fmt: skip
GRADIENTS = [random_arrays(seed, SHAPES) for seed in range(1, 9)]
RATES = [0.1 / n for n in range(1, 9)]


@both_ways
def test_sgd_equals_a_plain_loop(train: Callable) -> None:
    expected = random_arrays(0, SHAPES)
    for name, w in expected.items():
        m = np.zeros_like(w)
        for gradient, rate in zip(GRADIENTS, RATES, strict=True):
            m = 0.9 * m + gradient[name]
            w -= 0.5 * rate * (m + (0.2 * w if name.endswith("weight") else 0))
    start = parameters(random_arrays(0, SHAPES))
    found = train(SGD(start, momentum=0.9, weight_decay=0.2, scale=0.5), GRADIENTS, RATES)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-12)


@both_ways
def test_adamw_equals_a_plain_loop(train: Callable) -> None:
    expected = random_arrays(0, SHAPES)
    for name, w in expected.items():
        m, v = np.zeros_like(w), np.zeros_like(w)
        for t, (gradient, rate) in enumerate(zip(GRADIENTS, RATES, strict=True), 1):
            g = gradient[name]
            m = 0.9 * m + 0.1 * g
            v = 0.95 * v + 0.05 * g**2
            if name.endswith("weight"):
                w -= 0.5 * rate * 0.2 * w
            w -= 0.5 * rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.95**t)) + 1e-8)
    start = parameters(random_arrays(0, SHAPES))
    found = train(AdamW(start, weight_decay=0.2, scale=0.5), GRADIENTS, RATES)
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-12)


def test_adamw_equals_that_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    theirs = {n: torch.nn.Parameter(torch.tensor(w)) for n, w in random_arrays(0, SHAPES).items()}
    decay, spared = ([p for n, p in theirs.items() if n.endswith(end)]
                     for end in ("weight", "bias"))  # fmt: skip
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": spared, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)
    for gradient, rate in zip(GRADIENTS, RATES, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        for name, parameter in theirs.items():
            parameter.grad = torch.tensor(gradient[name])
        optimizer.step()
    found = train(AdamW(parameters(random_arrays(0, SHAPES))), GRADIENTS, RATES)
    for name, parameter in theirs.items():
        np.testing.assert_allclose(found[name], parameter.detach().numpy(), rtol=1e-12, atol=1e-12)


@both_ways
def test_muon_equals_a_plain_loop(train: Callable) -> None:
    shapes = {"wide": (4, 9), "tall": (9, 4), "square": (5, 5)}
    gradients = [random_arrays(seed, shapes) for seed in range(1, 6)]
    expected = random_arrays(0, shapes)
    for name, w in expected.items():
        m = np.zeros_like(w)
        for gradient, rate in zip(gradients, RATES[:5], strict=True):
            g = gradient[name]
            m = 0.95 * m + g
            x = g + 0.95 * m
            x /= (np.linalg.svd(x, compute_uv=False) ** 8).sum() ** (1 / 8)
            for a, b, c in POLYNOMIALS:  # no transpose is needed: (XXᵀ)X is X(XᵀX)
                x = a * x + b * x @ x.T @ x + c * x @ x.T @ x @ x.T @ x
            w -= rate * 0.1 * w + rate * math.sqrt(max(1, w.shape[1] / w.shape[0])) * x
    named = [(name, Parameter(value)) for name, value in random_arrays(0, shapes).items()]
    found = train(Muon(named), gradients, RATES[:5])
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)


def test_wide_matrices_have_the_largest_steps() -> None:
    shapes = {"square": (6, 6), "wide": (8, 128), "tall": (128, 8)}
    named = [(name, Parameter(np.zeros(shape))) for name, shape in shapes.items()]
    for name, step in train(Muon(named), [random_arrays(1, shapes)], [0.01]).items():
        longest = 0.01 * math.sqrt(128 / 8 if name == "wide" else 1)
        assert 0.8 * longest < np.linalg.norm(step, 2) < 1.2 * longest


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_uses_the_gradients_of_backward(name: str) -> None:
    """A loop of `backward` and `step` trains, and each gradient is used once."""
    model = GPT(MODEL)
    optimizers, ids = make_optimizers(model, name), np.array([[1, 2, 3, 4]])
    losses = []
    for _ in range(30):
        loss = ops.cross_entropy(model(ids[:, :-1]), ids[:, 1:])
        losses.append(loss.item())
        loss.backward()
        for optimizer in optimizers:
            optimizer.step({"sgd": 0.3, "adamw": 0.02, "muon": 0.1}.get(name, 0.02))
        assert all(parameter.grad is None for parameter in model.parameters())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("made", OPTIMIZERS.values())
def test_a_step_invalidates_earlier_graphs_and_keeps_the_gradient(made: type[Optimizer]) -> None:
    w = Parameter(np.ones((2, 2)), role=Role.HIDDEN)
    rule, loss = made([("w", w)]), (w * w).sum()
    g = w.grad = np.full((2, 2), 3.0)
    rule.step(0.1)
    assert w.grad is None and (g == 3).all()
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


@both_ways
def test_a_missing_gradient_is_zero(train: Callable) -> None:
    """A second step without a backward has only the momentum of the first."""
    w = Parameter(np.ones(1))
    rule = SGD([("w", w)], momentum=0.5, weight_decay=0.0)
    train(rule, [{"w": np.full(1, 3.0)}], [0.1])
    rule.step(0.1)
    np.testing.assert_allclose(w.data, 1 - 0.1 * (3 + 1.5))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_parameter_has_exactly_one_optimizer(name: str) -> None:
    model = GPT(MODEL)
    before = model.state()
    optimizers = make_optimizers(model, name)
    owned = [id(p) for optimizer in optimizers for p in optimizer.named.values()]
    assert sorted(owned) == sorted(map(id, model.parameters()))
    for optimizer in optimizers:  # a flat array changes no value
        flat_of(optimizer)
    for parameter, value in before.items():
        np.testing.assert_array_equal(model.state()[parameter], value)


def test_the_state_keeps_its_values_in_flat_arrays() -> None:
    """So a run resumes from the values of `restore`, before or after."""
    arrays = random_arrays(0, SHAPES)
    alone, moved = AdamW(parameters(arrays)), AdamW(parameters(arrays))
    for _ in range(2):
        train(alone, GRADIENTS[:2], RATES[:2])
    train(moved, GRADIENTS[:2], RATES[:2])
    flat = flat_of(moved)
    assert flat_of(moved) is flat
    train(moved, GRADIENTS[:2], RATES[:2])  # and the plain step continues with them
    for moment, pieces in alone.state().items():
        for name, array in pieces.items():
            np.testing.assert_array_equal(moved.state()[moment][name], array)
            assert np.shares_memory(moved.state()[moment][name], flat.moments[moment == "second"])
    for name, parameter in alone.named.items():
        np.testing.assert_array_equal(moved.named[name].data, parameter.data)


def test_muon_gets_the_matrices_between_hidden_layers() -> None:
    muon, rest = make_optimizers(GPT(MODEL), "muon")
    assert isinstance(muon, Muon) and isinstance(rest, AdamW)
    assert all(n.startswith("layers.") and n.endswith(".weight") for n in muon.named)
    assert len(muon.named) == 2 * 6  # query, key, value, out, expand, contract of each layer
    with pytest.raises(ValueError, match=r"b must be a matrix; it has shape \(3,\)"):
        Muon([("b", Parameter(np.zeros(3)))])


def test_what_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match=r"must be one of .*'adamw', .*'sgd'.*; got 'adam'"):
        make_optimizers(GPT(MODEL), "adam")
    with pytest.raises(TypeError, match=r"no optimizer has a momentun; did you mean .momentum"):
        make_optimizers(GPT(MODEL), "sgd", momentun=0.5)
    with pytest.raises(TypeError, match="SGD: has no hyperparameter beta1; it has momentum"):
        SGD([("w", Parameter([1.0]))], beta1=0.5)
    with pytest.raises(ValueError, match="SGD: the model has no parameters"):
        SGD([])
    mixed = [("a", Parameter([1.0])), ("b", Parameter(np.ones(1, np.float32)))]
    with pytest.raises(TypeError, match="the parameters must share one dtype"):
        SGD(mixed)


def test_hyperparameters_reach_the_rules_that_have_them() -> None:
    muon, rest = make_optimizers(GPT(MODEL), "muon", momentum=0.5, beta1=0.6, eps=1e-3)
    assert muon.given == {"momentum": 0.5}
    assert rest.given == {"beta1": 0.6, "beta2": 0.95, "eps": 1e-3}


def by_name(name: str, parameter: Parameter) -> tuple[bool, bool, bool]:
    """The parameters of Muon, those with weight decay, and those by A5's rule, by their names."""
    ends = name.endswith(".weight") and not name.startswith(("embedding.", "positions."))
    return parameter.ndim == 2 and name.startswith("layers."), ends, "bias" not in name


MODELS: list[Any] = [
    *(name for name in ATTENTION_TYPES if name != "linformer"), "parser", "rotary"
]  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_parameters_with_weight_decay_and_those_of_muon(name: str) -> None:
    if name == "parser":
        model: Any = Parser(ParserConfig(vocabulary=9, relations=3, heads=2, width=8))
    else:
        positions = "rotary" if name == "rotary" else "learned"
        model = GPT(GPTConfig(vocabulary=11, context=16, layers=3, heads=2, width=8,
                              attention=name.replace("rotary", "multihead"),
                              positions=positions))  # fmt: skip
    for path, parameter in model.named_parameters():
        found = Muon.takes(parameter), decays_matrices(parameter), decays_a5(parameter)
        assert found == by_name(path, parameter), path


def test_gradients_are_clipped_together() -> None:
    gradients = [np.array([3.0, 0.0]), np.array([[4.0]])]
    assert clip_gradients(gradients, 10.0) == 5.0 and gradients[1].item() == 4.0
    assert clip_gradients(gradients, 1.0) == pytest.approx(5.0)
    found = np.concatenate([g.ravel() for g in gradients])
    np.testing.assert_allclose(found, [0.6, 0, 0.8], rtol=1e-6)
    gradients[0][0] = np.inf
    assert clip_gradients(gradients, 1.0) == math.inf and gradients[0][0] == math.inf


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_gradient_is_used_once(name: str) -> None:
    """A second step without a backward has only the momentum of the first."""
    w = Parameter(np.ones((2, 2)))
    rule = OPTIMIZERS[name]([("w", w)], weight_decay=0.0)
    w.grad = np.full((2, 2), 3.0)
    rule.step(0.1)
    assert w.grad is None
