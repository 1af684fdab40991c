"""Small attention blocks: how tests build them, and which inputs influence which outputs."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from attention_cases import about
from cases import in_float64

from tinyattn import Tensor, no_grad
from tinyattn.attention import ATTENTION, AttentionBlock
from tinyattn.backend import asarray, asnumpy
from tinyattn.nn import Rotary

C, H, LONGEST = 8, 2, 16
CLOSE = {"rtol": 1e-12, "atol": 1e-12}

LENGTHS = [1, 3, 4, 6, 12, 14]
"""Shorter than a segment of four, exactly one segment, no multiple, and several segments."""


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Normally distributed values that depend only on these arguments."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def can(name: str, *abilities: str) -> bool:
    """Whether a block has all these abilities."""
    return not any(ability in ATTENTION[name].cannot for ability in abilities)


def new(name: str, **options: Any) -> AttentionBlock:
    """A block as a model creates it, in float32."""
    given = {"heads": H, "max_length": LONGEST, "rng": np.random.default_rng(0)}
    options["rotary"] = Rotary if options.get("rotary") else None
    return ATTENTION[name](C, **{**given, **about(name).OPTIONS, **options})


def build(name: str = "multihead", device: str = "cpu", **options: Any) -> Any:
    """A block in float64, with all parameters (biases too) so large that no result is nearly 0."""
    block = in_float64(new(name, **options))
    for i, parameter in enumerate(block.parameters()):
        parameter.data = 0.5 * numbers(*parameter.shape, seed=i)
    return block.to(device)


def put(values: np.ndarray | None, device: str) -> Any:
    """An argument for a block on this device: values as a Tensor, a mask as an array."""
    if values is None:
        return None
    return asarray(values, device=device) if values.dtype == bool else Tensor(values, device=device)


def ways(*abilities: str) -> list[Any]:
    """Each block with these abilities, causal and bidirectional where it can be."""
    return [
        pytest.param(name, causal, id=f"{name}-{'causal' if causal else 'bidirectional'}")
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
    """As `ways`, and each also with rotary positions, if it can have them."""
    return [
        pytest.param(*way.values, rotary, id=f"{way.id}{'-rotary' * rotary}")
        for way in ways(*abilities)
        for rotary in (False, True)
        if not rotary or can(str(way.values[0]), "rotary")
    ]


every_way_and_position = pytest.mark.parametrize(("name", "causal", "rotary"), with_positions())


def after(layers: int, seen: np.ndarray) -> np.ndarray:
    """Which inputs reach which outputs of `layers` layers with residual connections: (T, T)."""
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
    """The same by gradients, which must be exactly zero where there is no influence: (any, T)."""
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
    """The block as a function of x and of every parameter, and the values of its parameters.

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
