"""What a page shows of a model, against other ways to compute it."""

from typing import Any

import numpy as np
from numpy.testing import assert_allclose
from tiny import CONTEXT, TINY, every_type, ids_of, tiny

from tinyattn import Tensor, no_grad, ops
from tinyattn.attention.block import Call
from tinyattn.explore.knockout_maps import edge_map, head_map, neuron_map, why_no_edges
from tinyattn.models import GPT
from tinyattn.trace.measures import no_bar

STEP = no_bar("", 0)
TOKEN = 3


def probability(model: GPT, ids: np.ndarray) -> float:
    """The probability that the next token is TOKEN."""
    with no_grad():
        return float(ops.softmax(model(ids[None])[0, -1])[TOKEN].item())


@every_type
def test_without_a_part_its_rows_of_weights_are_0(name: str, positions: str) -> None:
    model = tiny(name, positions)
    model.astype("float64")
    ids, D = ids_of(CONTEXT), TINY["width"] // TINY["heads"]
    heads, neurons = head_map(model, ids, TOKEN), neuron_map(model, ids, TOKEN, STEP)
    for layer, part in enumerate(model.layers):
        out: Any = part.attention
        contract = part.feedforward.contract
        for found, weight, size in (
            (heads[layer], out.out.weight, D),
            (neurons[layer], contract.weight, 1),
        ):
            for i, p in enumerate(found):
                kept = weight.data.copy()
                weight.data[i * size : (i + 1) * size] = 0
                assert_allclose(p, probability(model, ids), rtol=1e-8, atol=1e-12)
                weight.data[:] = kept


@every_type
def test_without_an_edge_its_weights_are_0(name: str, positions: str) -> None:
    """Or NaN where no head has a weight. Only the layer of the edge has other weights."""
    model = tiny(name, positions)
    model.astype("float64")
    if model.perceiver is not None:
        assert "latents" in why_no_edges(model, 100)
        return
    ids = ids_of(CONTEXT)
    found = edge_map(model, ids, TOKEN, STEP)
    for layer in range(len(model.layers)):
        for t, s in np.ndindex(CONTEXT, CONTEXT):
            p, was = by_hand(model, ids, layer, t, s)
            assert np.isnan(found[layer, t, s]) == (not was)
            if was:
                assert_allclose(found[layer, t, s], p, rtol=1e-8)
    assert np.nanmax(found) - np.nanmin(found) > 1e-3


def by_hand(model: GPT, ids: np.ndarray, cut: int, t: int, s: int) -> tuple[float, bool]:
    """The probability without an edge, and whether there was one."""
    was = False
    with no_grad():
        x = model.embedding(ids[None]) + (model.positions.weight[: len(ids)]
                                          if model.positions is not None else 0.0)  # fmt: skip
        for i, layer in enumerate(model.layers):
            block: Any = layer.attention
            z = layer.norm_1(x)
            w = block.weigh(z, Call(causal=True)).numpy().copy()
            if i == cut:
                was = bool((w[0, :, t, s] > 0).any())
                w[0, :, t, s] = 0
                w /= np.maximum(w.sum(-1, keepdims=True), 1e-300)
            y = Tensor(w) @ block.weighted_values(z, Call(causal=True))  # (1, H, T, D)
            x = x + block.out(y.swapaxes(1, 2).reshape(*x.shape))
            x = x + layer.feedforward(layer.norm_2(x))
        return float(ops.softmax(model.head(model.norm(x))[0, -1])[TOKEN].item()), was


def test_long_texts_have_no_map_of_edges() -> None:
    assert why_no_edges(tiny(), 48) == ""
    assert why_no_edges(tiny(), 49) == "Not computed for more than 48 tokens."
