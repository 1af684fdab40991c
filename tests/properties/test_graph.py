"""The computation graph: what it keeps, for how long, and what it refuses."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from cases import Case, cotangent_of, every_case
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tinyattn import Tensor, gradcheck, no_grad, ops
from tinyattn.graph import recording
from tinyattn.nn import Parameter
from tinyattn.tensor import gradients


def leaf(*values: float) -> Tensor:
    return Tensor(np.array(values), requires_grad=True)


# Gradients are added -----------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from("+*t"), st.integers(0, 99), st.integers(0, 99)),
                min_size=1, max_size=12))  # fmt: skip
def test_every_graph_with_shared_results(steps: list[tuple[str, int, int]]) -> None:
    """Each step takes two earlier results, however often they were used before."""

    def web(a: Tensor, b: Tensor) -> Tensor:
        made = [a, b]
        for operation, i, j in steps:
            left, right = made[i % len(made)], made[j % len(made)]
            made.append(left + right if operation == "+" else left * right.tanh()
                        if operation == "*" else left.tanh())  # fmt: skip
        return made[-1] + made[len(made) // 2]

    assert gradcheck(web, np.array([0.3, -0.8]), np.array([0.5, 0.2]), directions=1)


def test_a_shared_result_is_visited_once_after_all_its_users() -> None:
    """Otherwise the time would double with every level of this graph."""
    x = leaf(1)
    y = x
    for _ in range(60):
        y = y + y * 1.0
    y.backward(np.ones(1))
    assert x.grad == 2.0**60


def test_gradients_are_added_until_zero_grad() -> None:
    x = leaf(1, 2)
    for _ in range(2):
        (x * x).sum().backward()
    assert_array_equal(x.grad, [4, 8])
    x.zero_grad()
    assert x.grad is None


def test_only_leaves_with_requires_grad_get_a_gradient() -> None:
    x, constant = leaf(1), Tensor([2.0])
    middle = x * constant
    middle.sum().backward()
    assert (x.grad, middle.grad, constant.grad) == (2, None, None)


def test_a_gradient_shares_no_memory() -> None:
    x, u = leaf(1, 2), np.array([1.0, 1.0])
    (x + 0).backward(u)
    x.grad[...] = 7
    assert_array_equal(u, [1, 1])


def test_gradients_does_not_change_grad() -> None:
    x = leaf(3)
    ((found, gradient),) = gradients((x * x).sum())
    assert found is x
    assert (gradient, x.grad) == (6, None)


def test_a_long_chain_needs_no_recursion() -> None:
    x = leaf(1)
    y = x
    for _ in range(20_000):
        y = y + 1
    y.backward(np.ones(1))
    assert x.grad == 1


# Lifetimes ---------------------------------------------------------------------------------


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Without the garbage collector: it runs late, and the memory of a GPU would be full before."""
    gc.disable()
    yield
    gc.enable()


@every_case
def test_no_reference_cycles(name: str, case: Case, no_collector: None) -> None:
    for backward in (True, False):
        leaves = case.leaves()
        y = case.call(name, leaves)
        if backward:
            y.backward(cotangent_of(case))
        refs = [weakref.ref(x.data) for x in (*leaves, y)]
        del leaves, y
        assert [ref() for ref in refs] == [None] * len(refs)


@every_case
def test_backward_frees_saved_arrays(name: str, case: Case, no_collector: None) -> None:
    """Also if the result is kept, such as a logged loss."""
    leaves = [x * 1.5 for x in case.leaves()]
    y = case.call(name, leaves) * 1.0
    refs = [weakref.ref(x.data) for x in leaves]
    del leaves
    y.backward(cotangent_of(case))
    assert [ref() for ref in refs] == [None] * len(refs)


def test_an_array_that_no_gradient_needs_is_freed_after_its_last_use(no_collector: None) -> None:
    x = leaf(1, 2)
    sum_of, factor_of, product = x * 2, x * 3, x * 4
    y = (sum_of + 1) * (factor_of * Tensor([5.0, 5.0])) * product
    refs = [weakref.ref(t.data) for t in (sum_of, factor_of, product)]
    del sum_of, factor_of, product
    alive = [ref() is not None for ref in refs]
    assert alive == [False, False, True]  # only the last is multiplied by a parameter
    y.backward(np.ones(2))


def test_without_grad_intermediates_are_freed_at_once(no_collector: None) -> None:
    x = leaf(1, 2)
    with no_grad():
        middle = x.exp()
        y = middle * middle
    ref = weakref.ref(middle.data)
    del middle
    assert ref() is None
    assert not y.requires_grad


def test_a_long_chain_is_freed_without_recursion(no_collector: None) -> None:
    y = leaf(1)
    for _ in range(50_000):
        y = y + 1
    del y


# Modes and threads -------------------------------------------------------------------------


def in_thread(function: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_no_grad_ends_with_its_context() -> None:
    with no_grad():
        with no_grad():
            assert not recording()
        assert not recording()
        assert not (leaf(1) * 2).requires_grad
    with pytest.raises(KeyError), no_grad():
        raise KeyError
    assert recording()


def test_no_grad_applies_to_one_thread() -> None:
    with no_grad():
        assert in_thread(recording)

    def quiet() -> bool:
        with no_grad():
            entered.set()
            left.wait(10)
            return recording()

    entered, left = threading.Event(), threading.Event()
    thread = threading.Thread(target=quiet)
    thread.start()
    entered.wait(10)
    assert recording()
    left.set()
    thread.join()


def test_threads_that_share_a_leaf_have_separate_gradients() -> None:
    x = leaf(1, 2, 3)
    found: dict[int, np.ndarray] = {}

    def work(k: int) -> None:
        for _ in range(20):
            ((_, found[k]),) = gradients((x * x * float(k)).sum())

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, gradient in found.items():
        assert_allclose(gradient, 2 * k * x.numpy())
    assert x.grad is None


# What is refused ---------------------------------------------------------------------------


def test_a_graph_can_be_used_once_unless_kept() -> None:
    x = leaf(3)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad == 12
    with pytest.raises(RuntimeError, match="'sum' was freed by an earlier backward"):
        y.backward()


def test_backward_names_what_it_needs() -> None:
    with pytest.raises(RuntimeError, match="no leaf behind this tensor requires"):
        Tensor(1.0).backward()
    with pytest.raises(ValueError, match=r"shape \(2,\) needs a cotangent"):
        leaf(1, 2).backward()
    with pytest.raises(ValueError, match=r"shape \(2,\); got \(3,\)"):
        leaf(1, 2).backward(np.ones(3))


def test_a_leaf_that_was_changed_in_place_invalidates_the_graph() -> None:
    storage = np.array([1.0, 2.0])
    x = Parameter([1.0, 2.0])
    x.share(storage)
    y = (x * x).sum()
    storage += 1
    x.changed_in_place()
    with pytest.raises(RuntimeError, match="changed in place after 'multiply' used it"):
        y.backward()
    (x * x).sum().backward()
    assert_array_equal(x.grad, [4, 6])


def test_the_values_of_a_tensor_cannot_be_changed() -> None:
    source = np.array([1.0, 2.0])
    x = Tensor(source, requires_grad=True)
    source[:] = 7
    assert_array_equal(x.numpy(), [1, 2])
    for tensor in (x, x * 2, ops.reshape(x, (2, 1)), x.detach()):
        with pytest.raises(ValueError, match="read-only"):
            tensor.data[...] = 7


def test_data_of_a_leaf_is_replaced_as_a_whole() -> None:
    x = leaf(1, 2)
    x.data = [3, 4]
    assert (x.numpy().tolist(), x.dtype) == ([3, 4], np.float64)
    with pytest.raises(ValueError, match=r"shape \(2,\) cannot take values of shape \(3,\)"):
        x.data = [1, 2, 3]
    with pytest.raises(RuntimeError, match="only a leaf"):
        (x * 2).data = [1, 2]


@pytest.mark.parametrize("values", ["text", [1j], [None], np.ones(2, np.float16)])
def test_a_tensor_has_real_values_of_two_dtypes(values: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Tensor(values)


def test_values_leave_the_graph_only_by_detach(device: str) -> None:
    """A change of device or dtype would lose the gradient without an error."""
    x = leaf(1, 2)
    for moved in (x.astype("float32"), x.to(device), (x * 1).detach()):
        assert_array_equal(moved.numpy(), [1, 2])
        moved.data = [0, 0]  # only a leaf can be assigned
    for mistake in (lambda: (x * 1).astype("float32"), lambda: (x * 1).to("strict")):
        with pytest.raises(RuntimeError, match="would not flow through; detach"):
            mistake()
