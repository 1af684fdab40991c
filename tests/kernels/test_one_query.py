"""Attention of one query in each sequence, as in generation: the kernels have no tiles for it."""

import numpy as np
import pytest

from tinyattn import Tensor, formulas, ops
from tinyattn.dispatch import KERNELS, ROOMS

OTHERS = {room: ["numba"] if room == "cpu" else ["0"] for room in ROOMS["cpu"]}
"""What to switch off so that the kernel of a room computes; "0" is nothing."""
HERE = [room for room in ROOMS["cpu"] if ("attention", room) in KERNELS]
rooms = pytest.mark.parametrize("room", HERE)


@rooms
def test_one_query_has_the_gradients_of_its_formula(room: str) -> None:
    rng = np.random.default_rng(0)
    shapes = (2, 3, 1, 8), (2, 3, 9, 8), (2, 3, 9, 4)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    leaves, others = ([Tensor(a, requires_grad=True) for a in arrays] for _ in range(2))
    with formulas(*OTHERS[room]):
        ops.attention(*leaves).sum().backward()
    with formulas("attention"):
        ops.attention(*others).sum().backward()
    for leaf, other in zip(leaves, others, strict=True):
        np.testing.assert_allclose(leaf.grad, other.grad, atol=1e-6)


@rooms
def test_one_query_reads_keys_and_values_where_they_are(room: str) -> None:
    """From a cache with room for more keys; the same as the loops over tiles give."""
    rng = np.random.default_rng(0)
    q, store = (rng.standard_normal((2, 3, n, 8)).astype(np.float32) for n in (1, 40))
    for kept in (store[:, :, :17], store[:, :, 3:4], store.swapaxes(0, 1)[:2, :2, :9]):
        lead = q[:, : kept.shape[1]]
        values = kept[..., ::-1]
        with formulas(*OTHERS[room]):
            one = ops.attention(Tensor(lead), Tensor(kept), Tensor(values)).numpy()
            two = ops.attention(Tensor(lead.repeat(2, 2)), Tensor(kept), Tensor(values)).numpy()
        np.testing.assert_allclose(one, two[:, :, :1], atol=1e-6)
