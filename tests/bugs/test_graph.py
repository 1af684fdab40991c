"""Reports about the graph: shared nodes, depth, backward twice, values changed in place."""

import copy
import pickle
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinyattn import Tensor, no_grad, ops
from tinyattn.backend import asarray, asnumpy, is_array
from tinyattn.models import GPT, GPTConfig
from tinyattn.nn import Linear, Module, Parameter
from tinyattn.parallel.flat import flat_of
from tinyattn.tensor import gradients
from tinyattn.training.muon import Muon
from tinyattn.training.optimizer_table import make_optimizers
from tinyattn.training.optimizers import AdamW


def leaf(values: Any, device: str = "cpu") -> Tensor:
    return Tensor(np.array(values, np.float64), requires_grad=True, device=device)


def ids(values: list[int], beside: Tensor) -> Any:
    """Integers on the device of a tensor."""
    return asarray(np.array(values), device=beside.device)


def close(actual: Any, expected: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(asnumpy(actual), expected, rtol=0, atol=tolerance)


# gradients of a tensor, and scalars ------------------------------------------------------


def test_an_assigned_gradient_must_fit(device: str) -> None:
    x = leaf([1.0, 2.0], device)
    x.name = "weight"
    x.grad = asarray(np.array([1.0, 2.0]), device=device)
    for wrong in (np.ones(3), np.ones((1, 2)), np.ones(2, np.float32), np.ones(2, int)):
        with pytest.raises(ValueError, match=r"grad: weight of shape \(2,\) and float64 needs"):
            x.grad = asarray(wrong, device=device)
    for strange in (1.0, [1.0, 2.0], leaf([1.0, 2.0], "strict" if device == "cpu" else "cpu")):
        with pytest.raises(TypeError, match=f"grad: must be an array on {device}, or None"):
            x.grad = strange
    x.grad = Tensor(x.data)
    close(x.grad, [1, 2])
    x.grad = None
    assert x.grad is None


def test_a_scalar_tensor_is_formatted_and_rounded_like_a_number(device: str) -> None:
    for loss in (leaf(2.75, device), leaf([[2.75]], device)):
        assert f"{loss:.1f} {loss:6.3f}" == "2.8  2.750"
        assert (int(loss), float(loss), round(loss), round(loss, 1)) == (2, 2.75, 3, 2.8)
        assert f"{loss}" == str(loss)
    with pytest.raises(TypeError, match=r"format '.2f': only a tensor with one element"):
        f"{leaf([1.0, 2.0], device):.2f}"


# a result that is used twice ------------------------------------------------------------


def test_a_sum_with_itself_done_twice_has_four_paths() -> None:
    """karpathy/micrograd#64."""
    a = leaf(1.0)
    b = a + a
    c = b + b
    c.backward()
    assert a.grad == 4


def test_a_polynomial_written_with_shared_products_has_its_derivative() -> None:
    """sebgao/cTensor#5: 6, where the report got 7."""
    x, k = leaf(1.0), Tensor(1.0)
    xk, x2 = x * k, x * x
    f = x * xk + x2 * k + x * xk
    f.backward()
    assert f.item() == 3 and x.grad == 6


def test_values_that_are_combined_at_the_end_count_once_per_path() -> None:
    """karpathy/micrograd#2, #68."""
    a, b = leaf(2.0), leaf(3.0)
    c, d = a + b, a * b
    e = c + d
    f = c * d
    y = e + f
    y.backward()
    assert (y.item(), a.grad, b.grad) == (41, 25, 19)


def test_exponentially_many_paths_need_one_visit_per_node() -> None:
    """2⁶⁰ paths lead to x; a backward that follows each path would never end."""
    x = y = leaf(1.0)
    for _ in range(60):
        y = y + y
    y.backward()
    assert x.grad == 2.0**60


SHARED: dict[str, Callable[[Tensor], Tensor]] = {
    name: getattr(ops, name)
    for name in "exp log sqrt tanh sigmoid erf absolute relu gelu negative softmax cumsum".split()
} | {
    "reshape": lambda x: x.reshape(4),
    "transpose": lambda x: x.T.reshape(4),
    "slices": lambda x: ops.concatenate([x[1:], x[:1]]).reshape(4),
    "index": lambda x: x[[0, 0, 1]][:2].reshape(4),
    "matmul": lambda x: (x @ x).reshape(4),
    "mean": lambda x: x - x.mean(),
    "max": lambda x: x / x.max(axis=0),
    "layer norm": lambda x: ops.layer_norm(x, x[0], x[1]),
    "attention": lambda x: ops.attention(x, x, x),
}


@pytest.mark.parametrize("name", SHARED)
def test_a_node_with_three_users_gets_the_sum_of_their_contributions(name: str) -> None:
    """The same function on one node, and on three separate copies of it."""

    def loss(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return (a * b).sum() + (c * c * c).sum()

    values = [[0.3, 1.7], [0.9, 0.4]]
    x = leaf(values)
    y = SHARED[name](x)
    loss(y, y, y).backward()
    alone = [leaf(values) for _ in range(3)]
    loss(*[SHARED[name](one) for one in alone]).backward()
    close(x.grad, sum(asnumpy(one.grad) for one in alone))


@pytest.mark.parametrize("seed", range(20))
def test_a_random_tangle_of_nodes_agrees_with_forward_mode(seed: int) -> None:
    """Forward mode computes derivatives beside the values, so no order of visits is involved."""
    rng = np.random.default_rng(seed)
    leaves = [leaf(v) for v in rng.uniform(0.5, 1.5, 3)]
    nodes = list(leaves)
    duals = [(x.item(), np.eye(3)[i]) for i, x in enumerate(leaves)]
    for _ in range(40):
        i, j = (int(k) for k in rng.integers(max(0, len(nodes) - 8), len(nodes), 2))
        (u, du), (v, dv) = duals[i], duals[j]
        choice = int(rng.integers(4))
        if choice == 0:
            nodes.append(nodes[i] + nodes[j] * 0.5)
            duals.append((u + v * 0.5, du + dv * 0.5))
        elif choice == 1:
            nodes.append(ops.tanh(nodes[i]) * nodes[j])
            duals.append((np.tanh(u) * v, (1 - np.tanh(u) ** 2) * du * v + np.tanh(u) * dv))
        elif choice == 2:
            nodes.append(nodes[i] - nodes[j] / 3)
            duals.append((u - v / 3, du - dv / 3))
        else:
            nodes.append((nodes[i] * nodes[i] + 1) ** 0.5)
            duals.append((np.hypot(u, 1), u * du / np.hypot(u, 1)))
    nodes[-1].backward()
    got = [0.0 if x.grad is None else float(x.grad) for x in leaves]
    np.testing.assert_allclose(got, duals[-1][1], rtol=1e-9, atol=1e-9)


def test_users_created_in_any_order_both_contribute() -> None:
    """karpathy/micrograd#64: the order of the operands must not determine the order of visits."""
    for swap in (False, True):
        x = leaf(3.0)
        y = x * 2
        near, far = y + 1, ((y * y) * 1.0) * 1.0
        total = far + near if swap else near + far
        total.backward()
        assert x.grad == 2 * (1 + 2 * 6)


def test_one_weight_in_many_layers_gets_contributions_of_all() -> None:
    """A parameter that is used three times, once transposed."""
    w = Parameter(np.array([[0.5, -1.0], [2.0, 0.25]]))
    x = np.array([[1.0, 2.0]])
    (((Tensor(x) @ w) @ w) @ w.T).sum().backward()
    ones, v = np.ones((1, 2)), w.numpy()
    expected = x.T @ ones @ (v @ v.T).T + (x @ v).T @ (ones @ v) + (ones.T @ (x @ v @ v))
    close(w.grad, expected)


def test_a_gradient_is_an_array_however_often_its_leaf_was_used() -> None:
    """NumPy converts sums of 0-d arrays to scalars; `.grad` must not change its type."""
    for uses in (1, 2, 3):
        x = leaf(2.0)
        total = sum([x] * uses)
        total.backward()
        assert is_array(x.grad) and x.grad.shape == () and x.grad == uses
        (x * x).backward()
        assert is_array(x.grad) and x.grad.shape == ()


def test_nodes_without_influence_on_the_loss_get_no_gradient() -> None:
    """A shared node may also have users without influence on the loss."""
    x, other = leaf(2.0), leaf(5.0)
    y = x * 3
    dead_end = y * other
    (y * y).backward()
    assert x.grad == 36 and other.grad is None and dead_end.grad is None and y.grad is None


# a deep chain ---------------------------------------------------------------------------


def test_fifty_thousand_additions_need_no_deeper_recursion() -> None:
    """karpathy/micrograd#90 and tinygrad/tinygrad#9979."""
    limit, began = sys.getrecursionlimit(), time.perf_counter()
    x = leaf(1.0)
    y = x
    for _ in range(50_000):
        y = y + x
    y.backward()
    assert x.grad == 50_001
    assert sys.getrecursionlimit() == limit
    assert time.perf_counter() - began < 20


def test_a_small_net_unrolled_over_five_thousand_steps() -> None:
    """The same depth with matrices, compared with backpropagation through time by hand."""
    rng = np.random.default_rng(0)
    w, u = rng.normal(size=(3, 3)) * 0.4, rng.normal(size=(5_000, 3))
    weight, h = leaf(w), Tensor(np.zeros(3))
    states = [h.numpy()]
    for step in u:
        h = ops.tanh(h @ weight + step)
        states.append(h.numpy())
    h.sum().backward()
    g, expected = np.ones(3), np.zeros((3, 3))
    for before, after in zip(states[-2::-1], states[:0:-1], strict=True):
        g = g * (1 - after**2)
        expected += np.outer(before, g)
        g = g @ w.T
    close(weight.grad, expected)


DEEP: dict[str, Callable[[Tensor], Tensor]] = {
    "multiply": lambda y: y * 1.0,
    "getitem": lambda y: y[...],
    "reshape": lambda y: y.reshape(1),
    "concatenate": lambda y: ops.concatenate([y]),
    "softmax": lambda y: ops.softmax(y) * y,
    "where": lambda y: ops.where(y.data > 0, y, y),
}


@pytest.mark.parametrize("name", DEEP)
def test_a_deep_chain_of_any_operation(name: str) -> None:
    """Deeper than the recursion limit allows, for chains of every operation."""
    x = leaf([2.0])
    y = x
    for _ in range(3 * sys.getrecursionlimit()):
        y = DEEP[name](y)
    y.sum().backward()
    close(x.grad, [1.0])


def test_a_deep_graph_can_be_kept_and_freed() -> None:
    """Freeing a long chain of objects recurses too, in C, where it would be a crash.

    A thread with a small stack would crash first.
    """
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for keep in (True, False):
                x = leaf(1.0)
                y = x
                for _ in range(30_000):
                    y = y + x
                if keep:
                    y.backward(retain_graph=True)
                    assert x.grad == 30_001
                del y
        except BaseException as error:
            failures.append(error)

    before = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert not failures


def test_without_a_graph_a_long_chain_keeps_no_memory() -> None:
    """Inside no_grad every intermediate is freed at once."""
    with no_grad():
        x = y = leaf([1.0])
        first = weakref.ref(y + x)
        for _ in range(1_000):
            y = y + x
    assert first() is None and not y.requires_grad


# backward twice -------------------------------------------------------------------------


def report() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    a, b, d = leaf(3.0), leaf(2.0), leaf(1.0)
    return a, b, d, (a + b) * d


def test_a_second_backward_without_the_graph_is_an_error_and_changes_nothing() -> None:
    """karpathy/micrograd#53."""
    a, b, d, e = report()
    e.backward()
    assert (a.grad, b.grad, d.grad) == (1, 1, 5)
    with pytest.raises(RuntimeError, match=r"freed by an earlier backward.*retain_graph"):
        e.backward()
    assert (a.grad, b.grad, d.grad) == (1, 1, 5)


def test_with_the_graph_kept_gradients_add_up() -> None:
    """karpathy/micrograd#102: twice is 2x and three times 3x, never 3x for 2."""
    a, b, d, e = report()
    for times in (1, 2, 3):
        e.backward(retain_graph=True)
        assert (a.grad, b.grad, d.grad) == (times, times, 5 * times)


def test_after_zero_grad_gradients_start_again_from_zero() -> None:
    """No gradient may stay inside the graph."""
    a, b, d, e = report()
    for _ in range(3):
        for x in (a, b, d):
            x.zero_grad()
        e.backward(retain_graph=True)
        assert (a.grad, b.grad, d.grad) == (1, 1, 5)


def test_two_losses_that_share_a_graph() -> None:
    """The second loss either has its whole graph, or raises an error; never part of the graph."""
    x = leaf(2.0)
    shared = x * x
    first, second = shared * 3, shared * 5
    first.backward(retain_graph=True)
    second.backward()
    assert x.grad == 3 * 4 + 5 * 4
    y = leaf(2.0)
    shared = y * y
    first, second = shared * 3, shared * 5
    first.backward()
    with pytest.raises(RuntimeError, match="freed"):
        second.backward()
    assert y.grad == 12


def test_backward_from_an_intermediate_and_from_the_end() -> None:
    """An intermediate keeps no gradient that the second call would use again."""
    x = leaf(3.0)
    middle = x * x
    end = middle * 2
    middle.backward(retain_graph=True)
    assert x.grad == 6 and middle.grad is None
    end.backward()
    assert x.grad == 6 + 12 and middle.grad is None


def test_two_graphs_over_the_same_leaves_add_up() -> None:
    """Gradient accumulation over two batches equals one batch of both."""
    rng = np.random.default_rng(0)
    layer = Linear(3, 2, rng=rng)
    x = rng.normal(size=(4, 3)).astype(np.float32)
    (layer(Tensor(x)) ** 2).sum().backward()
    both = {name: p.grad for name, p in layer.named_parameters()}
    layer.zero_grad()
    assert all(p.grad is None for p in layer.parameters())
    for part in (x[:2], x[2:]):
        (layer(Tensor(part)) ** 2).sum().backward()
    for name, parameter in layer.named_parameters():
        np.testing.assert_allclose(parameter.grad, both[name], rtol=1e-5)


def test_a_leaf_may_be_its_own_loss() -> None:
    """Without any node there is nothing to free."""
    x = leaf(3.0)
    x.backward()
    x.backward()
    assert x.grad == 2


def test_gradients_changes_no_grad() -> None:
    """`gradients` returns the arrays that backward would add, and adds nothing."""
    a, b, d, e = report()
    a.grad = np.array(7.0)
    got = {id(x): g for x, g in gradients(e, retain_graph=True)}
    assert [float(got[id(x)]) for x in (a, b, d)] == [1, 1, 5]
    assert a.grad == 7 and b.grad is None
    e.backward()
    assert a.grad == 8


# values that change between forward and backward ----------------------------------------

SAVING: dict[str, Callable[[Tensor], Tensor]] = {
    name: getattr(ops, name)
    for name in """sigmoid tanh exp sqrt log erf absolute relu gelu softmax log_softmax logsumexp
                   max min var std norm cumsum""".split()
} | {
    "square": lambda x: x * x,
    "cube": lambda x: x**3,
    "reciprocal": lambda x: 1 / x,
    "power": lambda x: x**2.5,
    "base": lambda x: 2**x,
    "matmul": lambda x: x @ x,
    "maximum": lambda x: ops.maximum(x, x * x),
    "layer norm": lambda x: ops.layer_norm(x, x, x),
    "attention": lambda x: ops.attention(x.reshape(3, 1), x.reshape(3, 1), x.reshape(3, 1)),
    "cross-entropy": lambda x: ops.cross_entropy(x.reshape(1, 3), ids([1], x)),
    "einsum": lambda x: ops.einsum(x, x, equation="i,j->ij"),
    "tanh gelu": lambda x: ops.gelu(x, exact=False),
}
WEIGHTS = np.arange(1.0, 10.0)


def pull(y: Tensor) -> None:
    """Backward with different weights, so that an exchange of elements changes the result."""
    y.backward(WEIGHTS[: y.size].reshape(y.shape))


def untouched(function: Callable[[Tensor], Tensor]) -> np.ndarray:
    x = leaf([1.0, 2.0, 3.0])
    pull(function(x))
    return asnumpy(x.grad)


def test_the_saved_output_of_a_sigmoid_cannot_be_overwritten() -> None:
    """HIPS/autograd#58 and linkedin/Liger-Kernel#272: -2 in the middle is the bug."""
    x = leaf([1.0, 2.0, 3.0])
    s = ops.sigmoid(x)
    with pytest.raises(ValueError, match="read-only"):
        s.data[1] = 2
    with pytest.raises(TypeError, match="cannot be assigned to in place"):
        s[1] = 2
    s.sum().backward()
    close(x.grad, [0.19661193, 0.10499359, 0.04517666], 5e-9)


def test_the_saved_output_of_a_tanh_cannot_be_overwritten() -> None:
    """pytorch/pytorch#9391: never -3."""
    x = leaf([1.0, 2.0, 3.0])
    t = x.tanh()
    with pytest.raises(ValueError, match="read-only"):
        t.data[1] = 2
    t.sum().backward()
    close(x.grad, 1 - np.tanh([1.0, 2.0, 3.0]) ** 2)


@pytest.mark.parametrize("name", SAVING)
def test_no_array_that_a_vjp_needs_can_be_written_to(name: str) -> None:
    """Every way to write to the input or the result is an error, and changes nothing."""
    x = leaf([1.0, 2.0, 3.0])
    y = SAVING[name](x)
    for tensor in (x, y):
        for write in (
            lambda a: a.__setitem__(..., 7),
            lambda a: a.__iadd__(1),
            lambda a: a.fill(7),
            lambda a: a.reshape(-1).__setitem__(0, 7),
            lambda a: np.multiply(a, 2, out=a),
            lambda a: np.copyto(a, 0),
        ):
            with pytest.raises(ValueError, match="read-only"):
                write(tensor.data)
    pull(y)
    close(x.grad, untouched(SAVING[name]))


@pytest.mark.parametrize("name", SAVING)
def test_the_array_that_was_passed_in_belongs_to_the_caller(name: str, device: str) -> None:
    """HIPS/autograd#375: a Tensor copies; so does assignment to `.data`, and `.numpy()`."""
    mine = np.array([1.0, 2.0, 3.0])
    x = Tensor(mine, requires_grad=True, device=device)
    y = SAVING[name](x)
    mine[...] = -9
    y.numpy()[...] = -9
    x.detach().numpy()[...] = -9
    x.data = mine
    mine[...] = 4
    pull(y)
    close(x.grad, untouched(SAVING[name]))
    close(x.data, [-9, -9, -9])


def test_an_array_of_the_device_is_copied_too(device: str) -> None:
    """Also an array that is on the same device already."""
    mine = Tensor([1.0, 2.0, 3.0], device=device).data.copy()
    x = Tensor(mine, requires_grad=True)
    y = x * x
    mine[...] = -9
    y.sum().backward()
    close(x.grad, [2, 4, 6])


OPERANDS: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "multiply": lambda x, c: x * c,
    "array on the left": lambda x, c: c * x,
    "divide": lambda x, c: x / c,
    "divide by x": lambda x, c: c / x,
    "power": lambda x, c: x**c,
    "base": lambda x, c: c**x,
    "matmul": lambda x, c: x @ c,
    "maximum": lambda x, c: ops.maximum(x, c),
    "minimum": lambda x, c: ops.minimum(x, c),
    "where": lambda x, c: ops.where(c > 1.5, x, c) + ops.where(c < 1.5, c, x),
    "linear": lambda x, c: ops.linear(x, c.reshape(3, 1)),
    "einsum": lambda x, c: ops.einsum("i,i->", x, c),
    "layer norm": lambda x, c: ops.layer_norm(x, c, c),
    "attention": lambda x, c: ops.attention(x.reshape(3, 1), c.reshape(3, 1), c.reshape(3, 1)),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_a_plain_array_used_with_a_tensor_may_change_afterwards(name: str) -> None:
    """Constants are copied too, because vjps keep them."""
    function, expected = OPERANDS[name], leaf([1.0, 2.0, 3.0])
    pull(function(expected, np.array([2.0, 1.0, 3.0])))
    x, mine = leaf([1.0, 2.0, 3.0]), np.array([2.0, 1.0, 3.0])
    y = function(x, mine)
    mine[...] = 77
    pull(y)
    close(x.grad, expected.grad)


INDEXED: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "getitem": lambda x, i: x[i],
    "getitem in a tuple": lambda x, i: x[i, :],
    "take": lambda x, i: ops.take(x, i),
    "embedding": lambda x, i: ops.embedding(x, i),
    "gather": lambda x, i: ops.gather(x, i.reshape(2, 1), axis=0),
    "scatter_add": lambda x, i: ops.scatter_add(x * 1, i.reshape(2, 1), x[:2] * x[1:], axis=0),
    "cross-entropy": lambda x, i: ops.cross_entropy(x.reshape(1, 3)[[0, 0]], i),
}


@pytest.mark.parametrize("name", INDEXED)
def test_an_index_buffer_may_be_used_again_for_the_next_batch(name: str, device: str) -> None:
    """A data loader that fills one buffer again and again must not change gradients."""
    grads = []
    for change in (False, True):
        x = leaf([[1.0], [2.0], [3.0]], device)
        mine = ids([0, 0], x)
        y = INDEXED[name](x, mine)
        if change:
            mine[...] = 2
        pull(y)
        grads.append(asnumpy(x.grad))
    np.testing.assert_array_equal(*grads)


MASKED: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "getitem": lambda x, m: x[m],
    "where": lambda x, m: ops.where(m, x, 0.0),
    "softmax": lambda x, m: ops.softmax(x, m),
    "attention": lambda x, m: ops.attention(*[x.reshape(3, 1)] * 3, m),
}


@pytest.mark.parametrize("name", MASKED)
def test_a_mask_buffer_may_be_used_again(name: str, device: str) -> None:
    """The same for a mask."""
    grads = []
    for change in (False, True):
        x = leaf([1.0, 2.0, 3.0], device)
        mask = Tensor([1.0, 0.0, 1.0], device=device).data > 0.5
        y = MASKED[name](x, mask)
        if change:
            mask[...] = mask ^ True
        pull(y)
        grads.append(asnumpy(x.grad))
    np.testing.assert_array_equal(*grads)


def test_tables_of_angles_may_change_after_a_rotation(device: str) -> None:
    """Cos and sin are options; they are saved like operands."""
    grads = []
    for change in (False, True):
        x = leaf([[1.0, 2.0]], device)
        cos, sin = (Tensor([[v]], device=device).data.copy() for v in (0.6, 0.8))
        y = ops.rotate(x, cos=cos, sin=sin)
        if change:
            cos[...] = sin[...] = 0
        pull(y)
        grads.append(asnumpy(x.grad))
    np.testing.assert_array_equal(*grads)


def test_gradients_share_no_memory_with_one_another_or_with_the_argument() -> None:
    """Clipping one gradient in place must not scale another."""
    a, b, g = leaf([1.0, 2.0]), leaf([3.0, 4.0]), np.array([1.0, 1.0])
    (a + b).backward(g)
    a.grad *= 10
    close(b.grad, [1, 1])
    close(g, [1, 1])
    g[...] = 5
    close(b.grad, [1, 1])
    c = leaf([1.0, 2.0])
    c.sum().backward()  # the gradient of a sum is one broadcast number
    c.grad *= 2
    close(c.grad, [2, 2])


def test_assigning_new_values_does_not_change_an_old_graph(device: str) -> None:
    """`.data = ` replaces the array; the vjp keeps the old one."""
    x = leaf([1.0, 2.0, 3.0], device)
    y = x * x
    x.data = np.array([7.0, 7.0, 7.0])
    y.sum().backward()
    close(x.grad, [2, 4, 6])


def step(optimizer: AdamW | Muon, loss: Tensor) -> None:
    """One step of a training loop."""
    loss.backward()
    optimizer.step(0.1)


USES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "matmul": lambda x, w: x @ w,
    "matmul of its transpose": lambda x, w: x @ w.T,
    "matmul of a slice": lambda x, w: x @ w[:, :1],
    "linear": lambda x, w: ops.linear(x, w, w[0]),
    "square": lambda x, w: w * w,
    "exp": lambda x, w: ops.exp(w),
    "sigmoid": lambda x, w: ops.sigmoid(w.reshape(4)),
    "embedding": lambda x, w: ops.embedding(w, ids([0, 1, 1], w)),
    "addition, which saves nothing": lambda x, w: w + 1,
}


@pytest.mark.parametrize("optimizer", [AdamW, Muon])
@pytest.mark.parametrize("name", USES)
def test_a_step_between_forward_and_backward_is_an_error_that_names_the_parameter(
    name: str, optimizer: Any, device: str
) -> None:
    """The optimizer writes in place, so the old graph is invalid; the next graph is valid again."""
    w = Parameter(np.array([[1.0, 2.0], [3.0, 5.0]]), device=device, name="hidden.weight")
    x = Tensor([[1.0, -1.0]], device=device)
    optimizer = optimizer([("hidden.weight", w)])
    stale = USES[name](x, w).sum()
    step(optimizer, (w * w).sum())
    with pytest.raises(RuntimeError, match=r"hidden\.weight of shape \(2, 2\) was changed"):
        stale.backward()
    assert w.grad is None
    USES[name](x, w).sum().backward()
    assert w.grad is not None


def test_a_step_between_two_backwards_of_a_kept_graph_is_the_same_error() -> None:
    """retain_graph keeps the graph, not the values."""
    w = Parameter(np.array([[1.0, 2.0]]), name="w")
    optimizer = AdamW([("w", w)])
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    step(optimizer, (w * w).sum())
    with pytest.raises(RuntimeError, match="w of shape"):
        loss.backward()


def test_loading_parameters_of_an_optimizer_also_invalidates_old_graphs() -> None:
    """load_state writes to the memory of the optimizer."""
    layer = Linear(2, 2, rng=np.random.default_rng(0))
    AdamW(layer.named_parameters())
    loss = (layer(Tensor(np.ones((1, 2), np.float32))) ** 2).sum()
    layer.load_state({name: 0 * p.numpy() for name, p in layer.named_parameters()})
    with pytest.raises(RuntimeError, match="was changed in place"):
        loss.backward()


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_a_step_between_forward_and_backward_of_a_whole_model(name: str) -> None:
    """Also if most parameters are used through several layers."""
    model = GPT(GPTConfig(vocabulary=5, context=4, layers=1, heads=1, width=4, dropout=0.0))
    optimizers = make_optimizers(model, name)
    logits = model(np.array([[1, 2, 3]]))
    for optimizer in optimizers:
        optimizer.step(0.1)
    with pytest.raises(RuntimeError, match=r"\w+\.weight of shape .* was changed in place"):
        logits.sum().backward()
    assert all(p.grad is None for p in model.parameters())


def copies(x: Tensor) -> list[Tensor]:
    return [copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))]


def test_copies_of_a_tensor_are_independent_leaves() -> None:
    """A copy shares no memory, is protected like the original, and has no graph."""
    x = leaf([1.0, 2.0])
    for copied in copies(x) + copies(x * 1):
        with pytest.raises(ValueError, match="read-only"):
            copied.data[0] = 9
        copied.data = np.array([5.0, 6.0])
        (copied * copied).sum().backward()
        close(copied.grad, [10, 12])
    close(x.data, [1, 2])
    assert x.grad is None


class Pair(Module):
    def __init__(self) -> None:
        self.first = Parameter(np.array([1.0, 2.0]))
        self.second = self.first


def test_a_copied_model_is_independent_of_the_optimizer_of_the_original() -> None:
    """A copy of a model in training does not change with it, and assignments to the copy work."""
    model = Pair()
    optimizer = AdamW(model.named_parameters())
    flat_of(optimizer)
    for snapshot in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert type(snapshot.first) is Parameter and snapshot.first is snapshot.second
        loss = (snapshot.first * snapshot.first).sum()
        step(optimizer, (model.first * model.first).sum())
        close(snapshot.first.data, loss.item() and snapshot.first.numpy())
        loss.backward()
        close(snapshot.first.grad, 2 * snapshot.first.numpy())
        snapshot.load_state({"first": np.array([8.0, 9.0])})
        close(snapshot.first.data, [8, 9])
        assert not np.array_equal(model.first.numpy(), [8, 9])
