"""One matrix instead of two: the same outputs, other parameter counts, and the conversion back."""

from typing import Any

import numpy as np
import pytest
from blocks import LONGEST, C, H, build, new, numbers, put
from cases import in_float64
from numpy.testing import assert_allclose

from tinyattn import Tensor
from tinyattn.attention import KeyValueCache, MultiHead, factor, merge, padding
from tinyattn.attention.bilinear import score_parameters
from tinyattn.backend import asarray
from tinyattn.graph import no_grad

D = C // H
EXACT = {"rtol": 0, "atol": 1e-10}


def calls(device: str) -> list[dict[str, Any]]:
    """Each kind of call that both blocks support."""
    z, allowed = put(numbers(2, 9, C, seed=1), device), put(numbers(7, 9) < 0.5, device)
    padded = put(padding([3, 0], 7), device)
    return [{}, {"causal": True}, {"allowed": padded, "causal": True},
            {"context": z}, {"context": z, "allowed": allowed}]  # fmt: skip


@pytest.mark.parametrize("way", range(5))
def test_one_matrix_gives_the_same_outputs_and_two_give_them_back(way: int, device: str) -> None:
    """With biases of all maps: that of the queries becomes u, that of the keys has no effect."""
    block, x = build("multihead", device), put(numbers(2, 7, C), device)
    call, merged = calls(device)[way], merge(block)
    back = factor(merged)
    y = block(x, **call).numpy()
    assert_allclose(merged(x, **call).numpy(), y, **EXACT)
    assert_allclose(back(x, **call).numpy(), y, **EXACT)
    assert_allclose(merge(back)(x, **call).numpy(), y, **EXACT)
    weights = block.weights(x, **call).numpy()
    assert_allclose(merged.weights(x, **call).numpy(), weights, **EXACT)
    assert_allclose(back.weights(x, **call).numpy(), weights, **EXACT)


def test_a_merged_block_also_continues_a_sequence(device: str) -> None:
    block, x, cache = build("multihead", device), put(numbers(2, 7, C), device), KeyValueCache(7)
    merged = merge(block)
    with no_grad():
        parts = [merged(x[:, a:b], causal=True, cache=cache).numpy() for a, b in [(0, 4), (4, 7)]]
    whole = block(x, causal=True).numpy()
    assert_allclose(np.concatenate(parts, axis=1), whole, **EXACT)


def test_the_matrices_have_the_rank_and_the_size_of_the_answer_sheet() -> None:
    """2IJ elements in two maps, J² in one of rank at most I; also for heads of half the width."""
    block = build("multihead")
    merged = merge(block)
    matrices = merged.matrices()
    assert matrices.shape == (H, C, C)
    assert list(np.linalg.matrix_rank(matrices)) == [D] * H
    assert list(np.linalg.matrix_rank(build("bilinear").matrices())) == [C] * H
    two, one = block.query.weight.size + block.key.weight.size, merged.query.weight.size
    assert (two / H, one / H) == score_parameters(C, D) == (2 * D * C, C * C)
    assert score_parameters(10, 5) == (100, 100)
    q, k = (block.state()[f"{name}.weight"] for name in ("query", "key"))
    for h in range(H):  # entry by entry, by the definition
        heads = slice(h * D, (h + 1) * D)
        expected = np.einsum("id,jd->ij", q[:, heads], k[:, heads]) * np.sqrt(C / D)
        assert_allclose(matrices[h], expected, **EXACT)


def test_two_maps_are_the_nearest_of_rank_d(device: str) -> None:
    """The difference has the singular values that were left out (Eckart and Young 1936).

    The bias of the queries is one more row: scores are [x, 1] [W; u] zᵀ.
    """
    block = build("bilinear", device)
    made = factor(block)
    exact, near = (
        np.concatenate([b.matrices(), b.query.bias.numpy().reshape(H, 1, C)], axis=1)
        for b in (block, merge(made))
    )
    left_out = np.linalg.svd(exact, compute_uv=False)[:, D:]
    assert_allclose(((exact - near) ** 2).sum(axis=(1, 2)), (left_out**2).sum(axis=1), rtol=1e-10)
    p = made.state()
    queries = np.concatenate([p["query.weight"], p["query.bias"][None]])
    sizes = [np.linalg.norm(a, axis=0) for a in (queries, p["key.weight"])]
    assert_allclose(sizes[0], sizes[1], rtol=1e-10)  # each singular value is split evenly


def test_a_single_head_of_full_width_loses_nothing(device: str) -> None:
    block, x = build("bilinear", device, heads=1), put(numbers(2, 7, C), device)
    assert_allclose(factor(block)(x).numpy(), block(x).numpy(), **EXACT)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_converted_block_keeps_device_dtype_and_dropout(dtype: str, device: str) -> None:
    block = new("multihead", dropout=0.3)
    if dtype == "float64":
        in_float64(block)
    block.to(device)
    x = Tensor(numbers(2, 7, C), dtype=dtype, device=device)
    assert isinstance(block, MultiHead)
    for made in (merge(block), factor(merge(block))):
        assert {(p.device, str(p.dtype)) for p in made.parameters()} == {(device, dtype)}
        assert (made.dropout.rate, made.max_length, made.heads) == (0.3, LONGEST, H)
        assert_allclose(made(x).numpy(), block(x).numpy(), atol=1e-5)
        made(x).backward(asarray(numbers(2, 7, C).astype(dtype), device=device))


def test_what_no_single_matrix_can_do_is_refused() -> None:
    with pytest.raises(ValueError, match="merge: with rotary positions a score depends"):
        merge(build("multihead", rotary=True))
    with pytest.raises(ValueError, match="factor: rotary positions rotate C dimensions"):
        factor(build("bilinear", rotary=True))
    for name in ("bigbird", "bilinear"):
        with pytest.raises(ValueError, match="merge: needs a MultiHead block; got Bi"):
            merge(build(name))
