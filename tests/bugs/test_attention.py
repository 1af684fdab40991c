"""Reports about masks: rows without allowed keys, rectangles, and the meaning of "causal"."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinyattn import Tensor, gradcheck, no_grad, ops
from tinyattn.attention import ATTENTION, AttentionBlock, MultiHead, attend, causal, padding
from tinyattn.backend import array_module, asarray, asnumpy
from tinyattn.models import GPT, GPTConfig
from tinyattn.nn import Module, Parameter, Rotary
from tinyattn.rng import DropoutRNG


def leaf(values: Any, device: str = "cpu", dtype: Any = np.float64) -> Tensor:
    return Tensor(np.array(values, dtype), requires_grad=True, device=device)


def close(actual: Any, expected: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(asnumpy(actual), expected, rtol=0, atol=tolerance)


def double(module: Module) -> None:
    """Convert every parameter to float64, and set biases to other values than 0."""
    rng = np.random.default_rng(0)
    for name, value in list(vars(module).items()):
        if isinstance(value, Parameter):
            setattr(module, name, Parameter(rng.normal(size=value.shape)))
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Module):
                double(item)


def bits(rows: str) -> np.ndarray:
    """A mask from rows of 0 and 1."""
    return np.array([[c == "1" for c in row] for row in rows.split("/")])


# rows without allowed keys --------------------------------------------------------------

Q, K = [[1, 0], [0, 1], [1, 1]], [[1, 2], [3, 4], [5, 6]]
V = [[1, 10], [2, 20], [3, 30]]
ALLOW = bits("100/000/110")


def by_steps(q: Tensor, k: Tensor, v: Tensor, allowed: Any) -> Tensor:
    """The same attention as separate operations."""
    return ops.softmax(q @ k.swapaxes(-1, -2) * (1 / np.sqrt(q.shape[-1])), allowed) @ v


WAYS: dict[str, Callable[..., Tensor]] = {
    "one operation": lambda q, k, v, allowed: ops.attention(q, k, v, allowed),
    "step by step": by_steps,
    "in a batch": lambda q, k, v, allowed: ops.attention(
        *[ops.stack([x, x * 0.5]) for x in (q, k, v)], allowed
    )[0],
    "with a mask for each head": lambda q, k, v, allowed: ops.attention(
        *[x.reshape(1, 1, *x.shape) for x in (q, k, v)], allowed[None, None]
    )[0, 0],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_query_without_allowed_keys_gets_zeros_and_gradients_of_zero(
    way: str, device: str
) -> None:
    """pytorch/pytorch#41508, tracel-ai/burn#4697, robertknight/rten#1321."""
    q, k, v = (leaf(x, device) for x in (Q, K, V))
    y = WAYS[way](q, k, v, asarray(ALLOW, device=device))
    close(y.data, [[1, 10], [0, 0], [1.94419278, 19.44192781]], 5e-9)
    y.sum().backward()
    close(q.grad, [[0, 0], [0, 0], [0.81970718, 0.81970718]], 5e-9)
    close(k.grad, [[-0.40985359] * 2, [0.40985359] * 2, [0, 0]], 5e-9)
    close(v.grad, [[1.05580722] * 2, [0.94419278] * 2, [0, 0]], 5e-9)


def test_its_weights_are_zero_and_not_uniform(device: str) -> None:
    """Filling with -10¹⁰ would give [2, 20], the mean of the hidden values."""
    q, k = leaf(Q, device), leaf(K, device)
    weights = ops.softmax(q @ k.T * (1 / np.sqrt(2)), asarray(ALLOW, device=device))
    close(weights.numpy().sum(axis=-1), [1, 0, 1])
    assert not weights.numpy()[~ALLOW].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e3, 1e15])
def test_they_are_zeros_whatever_the_scores_are(size: float, dtype: Any, device: str) -> None:
    """Also for scores that are not small compared with -10⁹ or -10¹⁰."""
    for sign in (1, -1):
        q, v = leaf([[1.0], [1.0]], device, dtype), leaf([[1.0], [2.0]], device, dtype)
        k = leaf([[sign * size], [sign * size]], device, dtype)
        y = ops.attention(q, k, v, asarray(bits("01/00"), device=device), scale=1.0)
        y.backward(np.ones((2, 1)))
        close(y.data, [[2], [0]])
        close(v.grad, [[0], [1]])
        assert not asnumpy(q.grad).any() and not asnumpy(k.grad).any()


def test_softmax_along_any_axis_with_nothing_allowed(device: str) -> None:
    """The same rule in softmax alone, for masks that broadcast."""
    for axis, allowed in ((0, bits("010")), (1, bits("0/1")), (-1, np.array(False)),
                          (0, np.array([[False], [False]]))):  # fmt: skip
        x = leaf([[1.0, 2, 3], [4, 5, 6]], device)
        y = ops.softmax(x, asarray(allowed, device=device), axis=axis)
        totals = np.broadcast_to(allowed, (2, 3)).any(axis=axis)
        close(y.numpy().sum(axis=axis), totals)
        y.backward(np.arange(6.0).reshape(2, 3))
        assert np.isfinite(asnumpy(x.grad)).all()
        assert not asnumpy(x.grad)[~np.broadcast_to(allowed, (2, 3))].any()


def block_and_inputs(device: str, rotary: bool) -> tuple[MultiHead, Tensor, Tensor]:
    block = MultiHead(4, 2, max_length=5, rng=np.random.default_rng(0),
                      rotary=Rotary if rotary else None)  # fmt: skip
    double(block)
    block.to(device)
    rng = np.random.default_rng(1)
    return block, leaf(rng.normal(size=(2, 3, 4)), device), leaf(rng.normal(size=(2, 5, 4)), device)


@pytest.mark.parametrize("rotary", [False, True])
def test_no_parameter_of_a_block_gets_nan(rotary: bool, device: str) -> None:
    """pytorch/pytorch#196170: a sequence that is only padding beside an ordinary one.

    Its heads give zeros, so its outputs are the bias of the output projection. Every parameter
    except this bias has the gradient that the ordinary sequence alone would give.
    """
    block, x, z = block_and_inputs(device, rotary)
    allowed = asarray(padding([3, 0], 5), device=device)
    y = block(x, context=z, allowed=allowed)
    close(asnumpy(y.data)[1], np.broadcast_to(block.out.bias.numpy(), (3, 4)))
    g = np.random.default_rng(2).normal(size=(2, 3, 4))
    y.backward(g)
    both = {name: asnumpy(p.grad) for name, p in block.named_parameters()}
    assert not asnumpy(x.grad)[1].any() and not asnumpy(z.grad)[1].any()
    assert not asnumpy(z.grad)[0, 3:].any()
    block.zero_grad()
    block(x[:1], context=z[:1, :3]).backward(g[:1])
    for name, parameter in block.named_parameters():
        rest = g[1].sum(axis=0) if name == "out.bias" else 0
        close(both[name], asnumpy(parameter.grad) + rest)


@pytest.mark.parametrize("rotary", [False, True])
def test_gradients_of_a_block_with_rows_without_keys_pass_the_check(rotary: bool) -> None:
    """Against finite differences, for the inputs and every parameter."""
    block, x, z = block_and_inputs("cpu", rotary)
    allowed = bits("01011/00000/11100")
    names, values = zip(*((n, p.numpy()) for n, p in block.named_parameters()), strict=True)

    def run(x: Tensor, z: Tensor, *parameters: Tensor) -> Tensor:
        for name, tensor in zip(names, parameters, strict=True):
            layer, parameter = name.split(".")
            setattr(getattr(block, layer), parameter, tensor)
        return block(x, context=z, allowed=allowed)

    assert gradcheck(run, x, z, *values)


def test_the_weights_of_a_block_are_zero_where_nothing_is_allowed(device: str) -> None:
    """So that a picture of the weights shows what was computed."""
    block, x, z = block_and_inputs(device, False)
    allowed = asarray(bits("01011/00000/11100"), device=device)
    weights = block.weights(x, context=z, allowed=allowed).numpy()
    close(weights.sum(axis=-1), np.broadcast_to([1, 0, 1], (2, 2, 3)))
    assert not weights[..., ~bits("01011/00000/11100")].any()


def test_dropout_of_weights_keeps_a_row_of_zeros() -> None:
    """0 divided by the keep probability is still 0."""
    for seed in range(5):
        q, k, v = leaf(Q), leaf(K), leaf(V)
        y = ops.attention(q, k, v, ALLOW, dropout=0.5, dropout_rng=DropoutRNG(seed))
        y.sum().backward()
        close(y.data[1], [0, 0])
        assert all(np.isfinite(t.grad).all() for t in (q, k, v))


def test_a_mask_must_be_boolean(device: str) -> None:
    """0 and 1, or 0 and -10¹⁰, could be misunderstood without an error."""
    q, k, v = (leaf(x, device) for x in (Q, K, V))
    for wrong in (ALLOW.astype(np.int64), np.where(ALLOW, 0, -1e10), ALLOW.astype(np.float32)):
        mask = asarray(wrong, device=device)
        with pytest.raises(TypeError, match=r"boolean"):
            ops.attention(q, k, v, mask)
        with pytest.raises(TypeError, match=r"boolean"):
            ops.softmax(q @ k.T, mask)


def test_one_query_with_extreme_scores_attends_without_a_mask() -> None:
    """`attend` is the same softmax."""
    answer, weights = attend([1e4, -1e4], [[1.0, 0.0], [0.0, 1.0]], [[1.0], [2.0]])
    close(answer.data, [1])
    close(weights.data, [1, 0])


# rectangles -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queries", "keys", "start", "end"),
    [
        (2, 5, "10000/11000", "11110/11111"),
        (5, 2, "10/11/11/11/11", "00/00/00/10/11"),
        (3, 3, "100/110/111", "100/110/111"),
        (1, 4, "1000", "1111"),
        (4, 1, "1/1/1/1", "0/0/0/1"),
        (1, 1, "1", "1"),
    ],
)
def test_both_alignments_of_a_causal_mask(
    queries: int, keys: int, start: str, end: str, device: str
) -> None:
    """pytorch/pytorch#103082, Dao-AILab/flash-attention#517, ml-explore/mlx#2835."""
    xp = asarray(np.zeros(1), device=device)
    for align, expected in (("start", start), ("end", end)):
        mask = causal(queries, keys, align=align, xp=array_module(xp))
        assert mask.dtype == bool and mask.shape == (queries, keys)
        np.testing.assert_array_equal(asnumpy(mask), bits(expected))
    np.testing.assert_array_equal(causal(queries, keys), bits(end))


def test_the_alignment_is_an_argument_with_two_values() -> None:
    """nguynking/CS224N#1, floriankark/cs224n-win2223#5."""
    for wrong in ("top-left", "bottom", "", None, True):
        with pytest.raises(ValueError, match="align must be 'end' or 'start'"):
            causal(2, 5, align=wrong)  # type: ignore[arg-type]


def influence(function: Callable[[Tensor], Tensor], x: np.ndarray) -> np.ndarray:
    """Which output positions change at all when 1 is added to an input position: (out, in)."""
    with no_grad():
        before = function(Tensor(x)).numpy()
        columns = []
        for j in range(len(x)):
            moved = x.copy()
            moved[j] += 1
            columns.append((function(Tensor(moved)).numpy() != before).any(axis=-1))
    return np.stack(columns, axis=1)


def reach(function: Callable[[Tensor], Tensor], x: np.ndarray) -> np.ndarray:
    """The same by gradients, which must be exactly zero without influence: (out, in)."""
    rows = []
    for i in range(len(x)):
        t = leaf(x)
        y = function(t)
        g = np.zeros(y.shape)
        g[i] = np.random.default_rng(i).normal(size=y.shape[1:])
        y.backward(g)
        rows.append((t.grad != 0).any(axis=-1))
    return np.stack(rows)


def bottleneck(align: str) -> Callable[[Tensor], Tensor]:
    """Two latents attend to five inputs and to each other, and the inputs attend to the latents."""
    rng = np.random.default_rng(0)
    latents = rng.normal(size=(2, 3))
    w = [rng.normal(size=(3, 3)) for _ in range(9)]

    def run(x: Tensor) -> Tensor:
        down = ops.attention(Tensor(latents) @ w[0], x @ w[1], x @ w[2], causal(2, 5, align=align))
        z = ops.attention(down @ w[3], down @ w[4], down @ w[5], causal(2, 2, align=align))
        up = ops.attention(x @ w[6], z @ w[7], z @ w[8], causal(5, 2, align=align))
        return x + up

    return run


@pytest.mark.parametrize(
    ("align", "expected"),
    [("start", "10000/11000/11100/11010/11001"), ("end", "10000/01000/00100/11110/11111")],
)
def test_the_influence_through_a_bottleneck(align: str, expected: str) -> None:
    """Both alignments are causal, and neither leaks, because a row without keys gives zeros.

    Aligned to the start, inputs 2, 3 and 4 influence only themselves: this is the mask, not a
    bug. If filled with -10¹⁰, rows without keys would attend to the future: 11111 in the first row.
    """
    x = np.random.default_rng(1).normal(size=(5, 3))
    matrix = influence(bottleneck(align), x)
    np.testing.assert_array_equal(matrix, bits(expected))
    np.testing.assert_array_equal(reach(bottleneck(align), x), bits(expected))
    assert not np.triu(matrix, 1).any()


def test_continuing_a_sequence_with_a_cache_is_the_alignment_to_the_end(device: str) -> None:
    """With the last two of five queries, the last two rows of the whole."""
    rng = np.random.default_rng(0)
    q, k, v = (Tensor(rng.normal(size=(5, 2)), device=device) for _ in range(3))
    whole = ops.attention(q, k, v, asarray(causal(5, 5), device=device)).numpy()
    for rest in range(1, 6):
        tail = ops.attention(q[5 - rest :], k, v, asarray(causal(rest, 5), device=device))
        close(tail.data, whole[5 - rest :])


# causal blocks --------------------------------------------------------------------------


def make(name: str, **options: int) -> AttentionBlock:
    block: AttentionBlock = ATTENTION[name](
        8, 2, max_length=6, rng=np.random.default_rng(0), **options
    )
    double(block)
    return block


LEAKS = {("linformer", 3, None): 15, ("linformer-causal", 3, 3): 0, ("linformer-causal", 2, 4): 0}


@pytest.mark.parametrize(("name", "rows", "segment"), LEAKS)
def test_a_block_that_mixes_positions_before_the_mask_refuses_to_be_causal(
    name: str, rows: int, segment: int | None
) -> None:
    """tatp22/linformer-pytorch#16: influence on 15 of the 15 pairs above the diagonal.

    The causal Linformer has influence on none of them, and on all below.
    """
    causal = segment is not None
    block = make(name, rows=rows, **({"segment": segment} if segment is not None else {}))

    def run(t: Tensor) -> Tensor:
        return block(t.reshape(1, 6, 8), causal=causal).reshape(6, 8)

    x = np.random.default_rng(1).normal(size=(6, 8))
    for matrix in (influence(run, x), reach(run, x)):
        assert np.triu(matrix, 1).sum() == LEAKS[name, rows, segment]
        assert np.tril(matrix).sum() == 21
    with pytest.raises(ValueError, match="cannot"):
        block(Tensor(x[None]), causal=not causal)
    with pytest.raises(ValueError, match="cannot use an attention mask"):  # nor with a mask
        block(Tensor(x[None]), allowed=np.tri(6, dtype=bool), causal=causal)


def test_a_projection_for_six_positions_takes_four() -> None:
    """lucidrains/linformer#8: softmax(Q (E[:, :4] K)ᵀ/√D) (F[:, :4] V)."""
    block, x = make("linformer", rows=3), np.random.default_rng(1).normal(size=(1, 4, 8))
    p = block.state()
    q, k, v = ((x @ p[f"{n}.weight"] + p[f"{n}.bias"]).reshape(4, 2, 4).swapaxes(0, 1)
               for n in ("query", "key", "value"))  # fmt: skip
    k, v = p["mix_keys"][:, :4] @ k, p["mix_values"][:, :4] @ v
    e = np.exp(q @ k.swapaxes(1, 2) / 2)
    y = (e / e.sum(axis=-1, keepdims=True) @ v).swapaxes(0, 1).reshape(4, 8)
    close(block(Tensor(x)).data[0], y @ p["out.weight"] + p["out.bias"])
    with pytest.raises(ValueError, match="at most 6; got 7"):
        block(Tensor(np.zeros((1, 7, 8))))


@pytest.mark.parametrize("name", ATTENTION)
def test_a_mask_or_a_context_is_never_ignored(name: str) -> None:
    """An ignored mask is a leak. Either it changes the result, or it is refused."""
    rng, cannot = np.random.default_rng(1), ATTENTION[name].cannot
    causal = "causal" not in cannot
    block, x = make(name), Tensor(rng.normal(size=(1, 6, 8)))
    calls: dict[str, dict[str, Any]] = {
        "context": {"context": Tensor(rng.normal(size=(1, 4, 8)))},
        "mask": {"allowed": np.eye(6, dtype=bool)},
        "padding": {"allowed": padding([2], 6)},
    }
    for ability, call in calls.items():
        if ability in cannot:
            with pytest.raises(ValueError, match="cannot"):
                block(x, causal=causal, **call)
        else:
            y = block(x, causal=causal, **call).data
            assert not np.array_equal(y, block(x, causal=causal).data)


def test_padding_behind_a_sequence_changes_nothing_before_it() -> None:
    """Therefore batches may be padded with PAD on the right."""
    config = GPTConfig(vocabulary=5, context=8, layers=2, heads=2, width=8, dropout=0.0)
    model = GPT(config)
    double(model)
    short = np.array([[1, 2, 3]])
    long = np.array([[1, 2, 3, 0, 0, 0]])
    close(model(long).data[:, :3], model(short).data)
