"""Optimisers, each beside the plainest loop that says the same."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.kernels.cpu.tiles import TILE
from tinyattn.models import GPT, GPTConfig
from tinyattn.nn import Parameter
from tinyattn.training.optimizers import (
    AdamW,
    Muon,
    decays_a5,
    decays_matrices,
    make_optimizers,
)
from tinyattn.training.orthogonal import POLYNOMIALS

Arrays = dict[str, np.ndarray]
MODEL = GPTConfig(vocabulary=11, context=8, layers=2, heads=2, width=8)


def random_arrays(seed: int, shapes: dict[str, tuple[int, ...]]) -> Arrays:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def train(optimizer: AdamW | Muon, gradients: list[Arrays], rates: list[float]) -> Arrays:
    """Take one step a gradient, with threads, and return the parameters."""
    slots = optimizer.flat.views(optimizer.flat.grads)
    with ThreadPoolExecutor(3) as executor:
        for gradient, rate in zip(gradients, rates, strict=True):
            for name, slot in slots.items():
                slot[...] = gradient[name]
            optimizer.step(rate, executor)
    return {name: parameter.numpy() for name, parameter in optimizer.flat.named.items()}


# Two of the shapes are longer than a tile, so tiles end within a parameter and where decay ends.
SHAPES = {"a.bias": (5,), "a.weight": (3, 7), "b.weight": (TILE + 3,), "b.bias": (TILE + 5,),
          "c.weight": (2, 2)}  # fmt: skip
GRADIENTS = [random_arrays(seed, SHAPES) for seed in range(1, 9)]
RATES = [0.1 / n for n in range(1, 9)]


def adamw(optimizer: Callable = AdamW, **settings: object) -> Arrays:
    start = random_arrays(0, SHAPES)
    named = [(name, Parameter(value)) for name, value in start.items()]
    return train(optimizer(named, **settings), GRADIENTS, RATES)


def test_adamw_is_the_textbooks_loop() -> None:
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
    found = adamw(weight_decay=0.2, scale=0.5)
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-12)


def test_adamw_is_torchs() -> None:
    torch = pytest.importorskip("torch")
    parameters = {
        n: torch.nn.Parameter(torch.tensor(w)) for n, w in random_arrays(0, SHAPES).items()
    }
    decay, spared = ([p for n, p in parameters.items() if n.endswith(end)]
                     for end in ("weight", "bias"))  # fmt: skip
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": spared, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)
    for gradient, rate in zip(GRADIENTS, RATES, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        for name, parameter in parameters.items():
            parameter.grad = torch.tensor(gradient[name])
        optimizer.step()
    found = adamw()
    for name, parameter in parameters.items():
        np.testing.assert_allclose(found[name], parameter.detach().numpy(), rtol=1e-12, atol=1e-12)


def test_muon_is_the_textbooks_loop() -> None:
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
            for a, b, c in POLYNOMIALS:  # no transposing: (XXᵀ)X is X(XᵀX)
                x = a * x + b * x @ x.T @ x + c * x @ x.T @ x @ x.T @ x
            w -= rate * 0.1 * w + rate * math.sqrt(max(1, w.shape[1] / w.shape[0])) * x
    named = [(name, Parameter(value)) for name, value in random_arrays(0, shapes).items()]
    found = train(Muon(named), gradients, RATES[:5])
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)


def test_muon_shares_its_matrices_out() -> None:
    """However many threads there are, not a bit changes; wide matrices take the largest steps."""
    shapes = {"square": (6, 6), "wide": (8, 128), "tall": (128, 8)}
    gradient, results = random_arrays(1, shapes), []
    for executor in (None, ThreadPoolExecutor(1), ThreadPoolExecutor(3)):
        named = [(name, Parameter(np.zeros(shape))) for name, shape in shapes.items()]
        muon = Muon(named)
        for name, slot in muon.flat.views(muon.flat.grads).items():
            slot[...] = gradient[name]
        muon.step(0.01, executor)
        results.append(muon.flat.values.copy())
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])
    for name, step in muon.flat.views(results[0]).items():
        longest = 0.01 * math.sqrt(128 / 8 if name == "wide" else 1)
        assert 0.8 * longest < np.linalg.norm(step, 2) < 1.2 * longest


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_a_step_takes_the_gradients_from_where_backward_leaves_them(name: str) -> None:
    """A loop of `backward` and `step` trains, and each gradient counts once."""
    model = GPT(MODEL)
    optimizers, ids = make_optimizers(model, name), np.array([[1, 2, 3, 4]])
    losses = []
    for _ in range(30):
        loss = ops.cross_entropy(model(ids[:, :-1]), ids[:, 1:])
        losses.append(loss.item())
        loss.backward()
        for optimizer in optimizers:
            optimizer.step(0.1 if name == "muon" else 0.02)
        assert all(parameter.grad is None for parameter in model.parameters())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("optimizer", [AdamW, Muon])
def test_each_gradient_counts_once(optimizer: type[AdamW | Muon]) -> None:
    """What a second step without a backward has of the first is momentum alone."""
    w = Parameter(np.ones((2, 2)))
    rule = optimizer([("w", w)], weight_decay=0.0)
    w.grad = np.full((2, 2), 3.0)
    rule.step(0.1)
    assert w.grad is None and not rule.flat.grads.any()


def test_a_trainers_gradients_are_not_mixed_with_what_backward_left() -> None:
    w = Parameter(np.ones(3))
    optimizer = AdamW([("w", w)], weight_decay=0.0)
    w.grad = np.full(3, -1.0)
    optimizer.flat.grads[...] = 1.0
    with ThreadPoolExecutor(1) as executor:
        optimizer.step(0.1, executor)
    np.testing.assert_allclose(w.data, 0.9)


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_every_parameter_has_exactly_one_optimizer(name: str) -> None:
    model = GPT(MODEL)
    before = model.state()
    optimizers = make_optimizers(model, name)
    owned = [id(p) for optimizer in optimizers for p in optimizer.flat.named.values()]
    assert sorted(owned) == sorted(map(id, model.parameters()))
    for parameter, value in before.items():  # moving into the flat array changes no value
        np.testing.assert_array_equal(model.state()[parameter], value)


def test_muon_takes_the_matrices_between_hidden_layers() -> None:
    muon, rest = make_optimizers(GPT(MODEL), "muon")
    assert isinstance(muon, Muon) and isinstance(rest, AdamW)
    assert all(n.startswith("blocks.") and n.endswith(".weight") for n in muon.flat.named)
    assert len(muon.flat.named) == 2 * 6  # query, key, value, out, expand, contract of each block
    with pytest.raises(ValueError, match=r"b must be a matrix; it has shape \(3,\)"):
        Muon([("b", Parameter(np.zeros(3)))])
    with pytest.raises(ValueError, match="must be 'adamw' or 'muon'; got 'sgd'"):
        make_optimizers(GPT(MODEL), "sgd")


def test_who_decays() -> None:
    names = [name for name, _ in GPT(MODEL).named_parameters()]
    spared_by_a5 = {name for name in names if not decays_a5(name)}
    assert spared_by_a5 == {name for name in names if "bias" in name}
    assert {"embedding.weight", "norm.gain"} <= set(names) - spared_by_a5
    ours = {name for name in names if decays_matrices(name)}
    assert ours == {n for n in names if n.endswith("weight")} - {"embedding.weight"} - {
        n for n in names if n.startswith("positions")
    }
