"""What a page shows of a model, against other ways to compute it."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tiny import CONTEXT, TINY, every_type, ids_of, tiny

from tinyattn import Tensor, no_grad, ops
from tinyattn.attention import ATTENTION, MultiHead
from tinyattn.explore.model_page import _without_edges, _without_neurons
from tinyattn.models import GPT, GPTConfig
from tinyattn.trace.measures import no_bar

STEP = no_bar("", 0)


def next_token(model: GPT, ids: np.ndarray) -> np.ndarray:
    """The probabilities of the next token."""
    with no_grad():
        return ops.softmax(model(ids[None])[0, -1]).numpy()


@every_type
def test_without_a_neuron_its_row_of_weights_is_0(name: str, positions: str) -> None:
    model = tiny(name, positions)
    model.astype("float64")
    ids = ids_of(CONTEXT)
    for layer, part in enumerate(model.layers):
        found = _without_neurons(model, layer, ids, STEP)
        weight = part.feedforward.contract.weight
        for neuron in range(4 * TINY["width"]):
            kept = weight.data[neuron].copy()
            weight.data[neuron] = 0
            assert_allclose(found[neuron], next_token(model, ids), rtol=1e-8, atol=1e-12)
            weight.data[neuron] = kept


def test_without_an_edge_the_key_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the first of two layers; a query that has no key left gets 0."""
    calls: list[int] = []
    cut: tuple[int, int, int] = 0, 0, 0

    class Masked(MultiHead):
        def attend(self, q: Tensor, k: Tensor, v: Tensor, call: Any) -> Tensor:
            allowed = np.ones((CONTEXT, CONTEXT), bool)
            if len(calls) % 2 == cut[0]:
                allowed[cut[1:]] = False
            calls.append(1)
            return super().attend(q, k, v, call._replace(allowed=allowed))

    model, ids, token = tiny(), ids_of(CONTEXT), 3
    model.astype("float64")
    found = [_without_edges(model, layer, ids, token, STEP) for layer in range(2)]
    monkeypatch.setitem(ATTENTION, "masked", Masked)
    masked = GPT(GPTConfig(**TINY, attention="masked"))
    masked.astype("float64")
    for name, parameter in masked.named_parameters():
        parameter.data = model.state()[name].copy()
    for t in range(CONTEXT):
        assert np.isnan(found[0][t, t + 1 :]).all()
        for s in range(t + 1):
            for layer in range(2):
                cut = layer, t, s
                wanted = next_token(masked, ids)[token]
                assert_allclose(found[layer][t, s], wanted, rtol=1e-8)
    assert np.ptp(found[0][-1]) > 1e-3
