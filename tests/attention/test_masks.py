"""Attention masks, and the two equations of attention."""

import numpy as np
import pytest
from blocks import CLOSE, numbers, put
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor, ops
from tinyattn.attention import attend, causal, combined, merge_heads, padding, split_heads
from tinyattn.backend import asarray, asnumpy, get_device

CAUSAL = {
    (3, 3, "end"): ["x..", "xx.", "xxx"],
    (3, 3, "start"): ["x..", "xx.", "xxx"],
    (2, 4, "end"): ["xxx.", "xxxx"],
    (2, 4, "start"): ["x...", "xx.."],
    (3, 2, "end"): ["..", "x.", "xx"],
    (3, 2, "start"): ["x.", "xx", "xx"],
}


@pytest.mark.parametrize(("queries", "keys", "align"), CAUSAL)
def test_causal_in_pictures(queries: int, keys: int, align: str, device: str) -> None:
    xp = get_device(device).xp
    allowed = get_device(device).get(causal(queries, keys, align=align, xp=xp))
    picture = ["".join("x" if a else "." for a in row) for row in allowed]
    assert picture == CAUSAL[queries, keys, align]


def test_causal_has_two_alignments() -> None:
    with pytest.raises(ValueError, match="align must be 'end' or 'start'; got 'middle'"):
        causal(2, 2, align="middle")


def test_padding_hides_positions_behind_the_end() -> None:
    allowed = padding([2, 0, 3], 3)
    assert allowed.shape == (3, 1, 1, 3)
    assert_array_equal(allowed[:, 0, 0], [[1, 1, 0], [0, 0, 0], [1, 1, 1]])


def test_what_both_masks_allow(device: str) -> None:
    q, k = (Tensor(numbers(1, 1, n, 2), device=device) for n in (2, 4))
    caller = asarray(padding([3], 4), device=device)
    assert combined(None, False, q, k) is None
    assert combined(caller, False, q, k) is caller
    assert_array_equal(asnumpy(combined(None, True, q, k)), [[1, 1, 1, 0], [1, 1, 1, 1]])
    together = asnumpy(combined(caller, True, q, k))
    assert_array_equal(together, [[[[1, 1, 1, 0], [1, 1, 1, 0]]]])


def test_attend_is_two_equations(device: str) -> None:
    q, k, v = numbers(3), numbers(4, 3), numbers(4, 2)
    answer, weights = attend(*(put(a, device) for a in (q, k, v)), scale=0.7)
    e = np.exp(0.7 * k @ q)
    assert_allclose(weights.numpy(), e / e.sum(), **CLOSE)
    assert_allclose(answer.numpy(), e / e.sum() @ v, **CLOSE)
    many = ops.attention(*(put(a, device) for a in (q[None], k, v)), scale=0.7)
    assert_allclose(answer.numpy(), many.numpy()[0], **CLOSE)


def test_heads_are_slices_of_the_width(device: str) -> None:
    x = put(numbers(2, 5, 8), device)
    heads = split_heads(x, 2)
    assert heads.shape == (2, 2, 5, 4)
    assert_array_equal(heads[:, 1].numpy(), x.numpy()[:, :, 4:])
    assert_array_equal(merge_heads(heads).numpy(), x.numpy())
