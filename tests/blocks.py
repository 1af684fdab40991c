"""Attention blocks small enough to look through: how tests build them, and who reaches whom."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from cases import in_float64
from kinds import told

from tinyattn import Tensor, no_grad
from tinyattn.attention import ATTENTION, AttentionBlock
from tinyattn.backend import asarray, asnumpy
from tinyattn.nn import Rotary

C, H, LONGEST = 8, 2, 16
CLOSE = {"rtol": 1e-12, "atol": 1e-12}

LENGTHS = [1, 3, 4, 6, 12, 14]
"""Shorter than a segment of four, exactly one, no multiple, and several."""


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal numbers that depend on nothing but these arguments."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def can(name: str, *abilities: str) -> bool:
    """Whether a block does not say that it cannot."""
    return not any(ability in ATTENTION[name].cannot for ability in abilities)


def new(name: str, **options: Any) -> AttentionBlock:
    """A block as a model makes it, in float32."""
    given = {"heads": H, "longest": LONGEST, "rng": np.random.default_rng(0)}
    options["rotary"] = Rotary if options.get("rotary") else None
    return ATTENTION[name](C, **{**given, **told(name).OPTIONS, **options})


def build(name: str = "multihead", device: str = "cpu", **options: Any) -> Any:
    """A block in float64 whose parameters, biases too, are so large that nothing is nearly 0."""
    block = in_float64(new(name, **options))
    for i, parameter in enumerate(block.parameters()):
        parameter.data = 0.5 * numbers(*parameter.shape, seed=i)
    return block.to(device)


def put(values: np.ndarray | None, device: str) -> Any:
    """What a block on this device is called with: numbers as a Tensor, a mask as an array."""
    if values is None:
        return None
    return asarray(values, device=device) if values.dtype == bool else Tensor(values, device=device)


def ways(*abilities: str) -> list[Any]:
    """Each block with these abilities, and each direction in which it can look."""
    return [
        pytest.param(name, causal, id=f"{name}-{'causal' if causal else 'both-ways'}")
        for name in ATTENTION
        for causal in (False, True)
        if can(name, "causal" if causal else "bidirectional", *abilities)
    ]


def names(*abilities: str) -> list[str]:
    """The blocks with these abilities."""
    return [name for name in ATTENTION if can(name, *abilities)]


every_way = pytest.mark.parametrize(("name", "causal"), ways())
with_or_without_rotary = pytest.mark.parametrize("rotary", [False, True], ids=["plain", "rotary"])


def with_positions(*abilities: str) -> list[Any]:
    """As `ways`, and each with rotary positions too, if it can have them."""
    return [
        pytest.param(*way.values, rotary, id=f"{way.id}{'-rotary' * rotary}")
        for way in ways(*abilities)
        for rotary in (False, True)
        if not rotary or can(str(way.values[0]), "rotary")
    ]


every_way_and_position = pytest.mark.parametrize(("name", "causal", "rotary"), with_positions())


def after(layers: int, seen: np.ndarray) -> np.ndarray:
    """Which inputs reach which outputs of so many layers, where each also keeps its own: (T, T)."""
    step = seen | np.eye(len(seen), dtype=bool)
    reached = np.eye(len(seen), dtype=bool)
    for _ in range(layers):
        reached = step @ reached
    return reached


def influence(
    function: Callable[[Tensor], Tensor], x_TC: np.ndarray, device: str = "cpu"
) -> np.ndarray:
    """Which outputs (down) change at all when one input (across) changes much: (T, T)."""
    T, C = x_TC.shape
    columns = []
    with no_grad():
        before = function(put(x_TC[None], device)).numpy()[0]
        for s in range(T):
            moved = x_TC.copy()
            moved[s] = 3 * numbers(C, seed=100 + s)
            after = function(put(moved[None], device)).numpy()[0]
            columns.append((after != before).any(axis=-1))
    return np.stack(columns, axis=1)


def reach(
    function: Callable[[Tensor], Tensor], x_TC: np.ndarray, device: str = "cpu"
) -> np.ndarray:
    """The same by gradients, which must be exactly zero where nothing is seen: (any, T)."""
    leaf = Tensor(x_TC[None], device=device, requires_grad=True)
    y = function(leaf)
    rows = []
    for t in range(y.shape[1]):
        leaf.zero_grad()
        g = np.zeros(y.shape)
        g[0, t] = numbers(y.shape[-1], seed=t)
        y.backward(g, retain_graph=True)
        rows.append((asnumpy(leaf.grad)[0] != 0).any(axis=-1))
    return np.stack(rows)


def with_parameters(block: AttentionBlock, **call: Any) -> tuple[Callable[..., Tensor], list[Any]]:
    """The block as a function of x and of every parameter, and the parameters to give it.

    Args: call: the other arguments of the call.
    """
    places = list(block._walk())

    def run(x: Tensor, *parameters: Tensor) -> Tensor:
        for (_, owner, key, _), parameter in zip(places, parameters, strict=True):
            owner[key] = parameter
        return block(x, **call)

    return run, [parameter.numpy() for _, _, _, parameter in places]


def pieces(sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Start and stop of consecutive pieces."""
    start = 0
    for size in sizes:
        yield start, start + size
        start += size
