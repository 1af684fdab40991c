"""A profile counts multiply-adds, does not change results, and its parts sum to the whole."""

import itertools
import math
import operator
import os
import shutil
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyattn
from tinyattn import Tensor, ops
from tinyattn.cli import main
from tinyattn.data import Batch
from tinyattn.dispatch import FORMULAS, dispatched
from tinyattn.measure import new_block, profile_step
from tinyattn.measure import profile as module
from tinyattn.measure.counting import multiply_adds
from tinyattn.measure.observer import BETWEEN, CLIPPING, MAIN, OPTIMIZER, PARTS, Observer, observed
from tinyattn.models import GPT, GPTConfig
from tinyattn.op import op
from tinyattn.parallel.flat import add_each
from tinyattn.switches import kernels_in_use
from tinyattn.tasks.knowledge import language_model_loss
from tinyattn.tensor import OPS, gradients
from tinyattn.theory import formula_value, letters
from tinyattn.training import SGD, AdamW, make_optimizers

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring the peak rate takes no time."""
    monkeypatch.setattr(module, "PRODUCT", 64)


# Counting ----------------------------------------------------------------------------------


class Counted:
    """A number that counts its products with other such numbers; with a plain number: none."""

    products = 0

    def __init__(self, value: float) -> None:
        self.value = value

    def __mul__(self, other: Any) -> "Counted":
        if not isinstance(other, Counted):
            return Counted(self.value * other)
        Counted.products += 1
        return Counted(self.value * other.value)

    __rmul__ = __mul__

    def __add__(self, other: Any) -> "Counted":
        return Counted(self.value + (other.value if isinstance(other, Counted) else other))

    __radd__ = __add__


def counted(shape: tuple[int, ...]) -> np.ndarray:
    """An array of such numbers."""
    values = rng.standard_normal(shape)
    return np.vectorize(Counted, otypes=[object])(values)


def products(compute: Any) -> tuple[Any, int]:
    """The result of `compute`, and how many products it needed."""
    before = Counted.products
    return compute(), Counted.products - before


@pytest.mark.parametrize(
    ("name", "shapes", "options"),
    [
        ("matmul", [(3, 4), (4, 5)], {}),
        ("matmul", [(2, 3, 4), (4, 5)], {}),
        ("matmul", [(2, 1, 3, 4), (6, 4, 5)], {}),
        ("matmul", [(4,), (4, 5)], {}),
        ("matmul", [(2, 3, 4), (4,)], {}),
        ("matmul", [(4,), (4,)], {}),
        ("linear", [(2, 3, 4), (4, 5), (5,)], {}),
        ("linear", [(4,), (4, 5)], {}),
        ("einsum", [(2, 3, 4), (2, 4, 5)], {"equation": "bij,bjk->bik"}),
        ("einsum", [(3, 4), (3,)], {"equation": "ij,i->"}),
        ("einsum", [(6, 3, 4), (4, 5)], {"equation": "...ij,jk->...ik"}),
    ],
)
def test_counts_are_the_products_of_the_op_itself(
    name: str, shapes: list[tuple[int, ...]], options: dict[str, Any]
) -> None:
    """Its function is run, forward and backward, on numbers that count."""
    arrays = [counted(shape) for shape in shapes]
    (y, vjps), done = products(lambda: OPS[name].__wrapped__(np, *arrays, **options))
    y = y if isinstance(y, np.ndarray) else np.array(y, dtype=object)
    forward, backward = multiply_adds(name, arrays, options, y)
    assert forward == done > 0
    g = counted(y.shape)
    for vjp, count in zip(vjps, backward, strict=False):  # linear has one for a bias in every case
        _, done = products(lambda vjp=vjp: vjp(g))
        assert done == count


def test_an_einsum_of_three_has_two_products_per_term() -> None:
    arrays = [np.ones((2, 3)), np.ones((3, 4)), np.ones((4, 5))]
    equation = {"equation": "ij,jk,kl->il"}
    terms = 2 * 3 * 4 * 5
    assert multiply_adds("einsum", arrays, equation, np.ones((2, 5))) == (
        2 * terms,
        [2 * terms] * 3,
    )
    one = multiply_adds("einsum", arrays[:1], {"equation": "ij->i"}, np.ones(2))
    assert one == (0, [0])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("hidden", [None, (1, 4), (3, 4), (2, 1, 1, 4), (2, 6, 3, 4)])
def test_attention_is_counted_pair_by_pair(causal: bool, hidden: tuple[int, ...] | None) -> None:
    """Three queries, four keys: every allowed score, and every value that it weights."""
    B, H, T, S, D, E = 2, 6, 3, 4, 5, 7
    q, k, v = counted((B, H, T, D)), counted((B, H, S, D)), counted((B, H, S, E))
    allowed = None if hidden is None else rng.random(hidden) < 0.6
    every = np.ones((B, H, T, S), bool) if allowed is None else np.broadcast_to(
        allowed, (B, H, T, S))  # fmt: skip
    weight, g = Counted(0.5), counted((B, H, T, E))

    def forward() -> int:
        pairs = 0
        for b, h, t, s in np.argwhere(every):
            if causal and s > t + S - T:
                continue
            pairs += 1
            sum(map(operator.mul, q[b, h, t], k[b, h, s]))  # the score
            [weight * value for value in v[b, h, s]]  # its term in y
        return pairs

    def backward(pairs: int) -> None:
        for _ in range(pairs):
            [weight * x for x in g[0, 0, 0]]  # of dv
            sum(map(operator.mul, g[0, 0, 0], v[0, 0, 0]))  # dP
            [weight * x for x in k[0, 0, 0]]  # of dq
            [weight * x for x in q[0, 0, 0]]  # of dk

    pairs, done = products(forward)
    masks = [] if allowed is None else [allowed]
    options = {"causal": causal}
    found, gradient = multiply_adds("attention", [q, k, v, *masks], options, g)
    assert found == done == pairs * (D + E)
    assert sum(gradient) == products(lambda: backward(pairs))[1] == 2 * found


def test_other_ops_count_nothing() -> None:
    assert multiply_adds("gelu", [np.ones(3)], {}, np.ones(3)) == (0, [0])


# Observing ---------------------------------------------------------------------------------


def total(observer: Observer, direction: str) -> float:
    return sum(note.multiply_adds for note in observer.notes if note.direction == direction)


@pytest.mark.parametrize(
    (
        "name",
        "pair",
    ),  # multiply-adds of a pair, in all heads together, where the op `attention` is used
    [
        ("multihead", "2·C"),
        ("bilinear", "H·C + C"),
        ("linformer,rows=5", "0"),
        ("synthesizer", "0"),
    ],
)
@pytest.mark.parametrize("causal", [False, True])
def test_it_agrees_with_the_formula_of_a_block(name: str, pair: str, causal: bool) -> None:
    """A formula also counts hidden pairs; causal attention has T·(T - 1)/2 of them."""
    T, C, H = 12, 8, 2
    block = new_block(name, C, H, T)
    if causal and "causal" in block.cannot:
        pytest.skip("it looks both ways only")
    x = Tensor(rng.standard_normal((1, T, C)), dtype="float32", requires_grad=True)
    observer = Observer()
    with observed(observer.observe):
        y = block(x, causal=causal)
        y.backward(np.ones(y.shape))
    by_formula = formula_value(block.multiply_adds, letters(block, T, causal))
    found = Fraction(total(observer, "forward"))
    hidden = T * (T - 1) // 2 if causal else 0
    assert found == by_formula - hidden * formula_value(pair, {"C": C, "H": H})
    assert total(observer, "backward") == 2 * found


def test_observing_changes_nothing_and_ends_with_the_context() -> None:
    x = Tensor(rng.standard_normal((3, 4)), requires_grad=True)
    weight = Tensor(rng.standard_normal((4, 4)), requires_grad=True)

    def run() -> list[np.ndarray]:
        y = ops.attention(ops.linear(x, weight), x, ops.gelu(x))
        return [y.numpy(), *(g for _, g in gradients((y * y).sum()))]

    plain, observer = run(), Observer()
    with observed(observer.observe):
        seen = run()
        number = len(observer.notes)
    for a, b in zip(plain, seen, strict=True):
        np.testing.assert_array_equal(a, b)
    assert {(n.name, n.direction) for n in observer.notes} >= {
        (name, way)
        for name in ("linear", "attention", "multiply")
        for way in ("forward", "backward")
    }
    run()
    assert len(observer.notes) == number


def test_an_error_ends_the_observation_and_keeps_its_message() -> None:
    observer, message = Observer(), "matmul: inner sizes must match"
    with pytest.raises(ValueError, match=message), observed(observer.observe):
        ops.matmul(np.ones((2, 3)), np.ones((2, 3)))
    ops.add(1.0, np.ones(2))
    assert observer.notes == []


def test_bytes_are_those_of_arrays_in_and_out() -> None:
    x = Tensor(np.ones((3, 4), np.float32), requires_grad=True)
    observer = Observer()
    with observed(observer.observe):
        y = x.exp().reshape(4, 3)
        y.backward(np.ones((4, 3)))
    found = {(note.name, note.direction): note.bytes for note in observer.notes}
    assert found["exp", "forward"] == found["exp", "backward"] == 2 * 48
    assert found["reshape", "forward"] == found["reshape", "backward"] == 0  # views


def test_an_observer_records_the_ops_of_every_thread() -> None:
    observer = Observer()

    def work() -> None:
        for _ in range(50):
            ops.add(np.ones(2), np.ones(2))

    threads = [threading.Thread(target=work) for _ in range(4)]
    with observed(observer.observe):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(observer.notes) == 200


# A step ------------------------------------------------------------------------------------

B, T, V, C, LAYERS = 6, 16, 11, 8, 2


def small(optimizer: str = "adamw", dropout: float = 0.1) -> tuple[GPT, list[Any], Batch]:
    config = GPTConfig(vocabulary=V, context=T, layers=LAYERS, heads=2, width=C, dropout=dropout)
    model = GPT(config)
    text = rng.integers(1, V, (B, T + 1))
    return model, make_optimizers(model, optimizer), Batch(text[:, :-1], text[:, 1:])


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("workers", [1, 3])
def test_the_parts_of_a_step_sum_to_the_whole(optimizer: str, workers: int) -> None:
    model, optimizers, batch = small(optimizer)
    before, counts = model.state(), []
    found = profile_step(
        language_model_loss(model), optimizers, batch, steps=3, workers=workers,
        on_step=counts.append,
    )  # fmt: skip
    assert counts == [1] * 5
    assert (found.workers, found.steps, found.positions) == (workers, 3, B * T)
    rows = {(row.name, row.direction): row for row in found.rows}
    assert len(rows) == len(found.rows)
    assert tuple(row.name for row in found.rows[-len(PARTS) :]) == PARTS
    assert rows["linear", "forward"].calls == workers * (6 * LAYERS + 1)
    assert rows["attention", "backward"].calls == workers * LAYERS
    linear = B * T * (12 * LAYERS * C * C + C * V)
    pairs = B * T * (T + 1) // 2 * LAYERS
    assert rows["linear", "forward"].multiply_adds == linear
    assert rows["linear", "backward"].multiply_adds == 2 * linear
    assert found.multiply_adds == 3 * (linear + pairs * 2 * C)
    assert all(row.seconds > 0 for row in found.rows)
    assert found.peak_bytes > 4 * B * T * C
    assert math.isclose(found.floor * found.product_rate * workers, found.multiply_adds)
    for name, value in model.state().items():  # the learning rate was 0
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_it_names_what_clips_and_updates(optimizer: str) -> None:
    """And what sums: a kernel that is switched off is reported here too, although these are no ops.

    The gradient of a bias and of the positions is a sum over rows.
    """
    model, optimizers, batch = small(optimizer)
    loss = language_model_loss(model)
    with tinyattn.formulas("adamw"):
        found = profile_step(loss, optimizers, batch, steps=1, workers=1)
    assert {row.name: row.by for row in found.rows if not row.direction} == {
        BETWEEN: "", MAIN: "", CLIPPING: "", OPTIMIZER: "", "sum_over": "cpu kernel",
        "add_each": "formula", "clip_factor": "formula", "adamw": "formula: switched off",
        **({"muon": "cpu kernel"} if optimizer == "muon" else {}),
    }  # fmt: skip


def test_a_users_rule_is_a_formula_also_with_the_name_of_a_kernel() -> None:
    def adamw(*arrays: Any, **numbers: Any) -> None: ...

    class Own(SGD):
        rule = staticmethod(dispatched(adamw))

    model, _, batch = small()
    named = list(model.named_parameters())
    both: list[Any] = [Own(named[:3]), AdamW(named[3:])]
    found = profile_step(language_model_loss(model), both, batch, steps=1, workers=1)
    calls = {row.by: row.calls for row in found.rows if row.name == "adamw"}
    assert set(calls) == {"formula", f"{kernels_in_use('cpu')[0]} kernel"}


def test_inner_operations_are_counted_only_once() -> None:
    """An op that computes and calls a formula that computes; its gradient does the same."""

    def work() -> None:
        began = time.thread_time()
        while time.thread_time() - began < 0.02:
            pass

    @dispatched
    def inner(xp: Any, x: Any) -> Any:
        work()
        return x

    @op
    def outer(xp: Any, x: Any) -> Any:
        work()

        def pull(g: Any) -> Any:
            work()
            return inner(xp, g)

        return inner(xp, x), (pull,)

    observer = Observer()
    try:
        with observed(observer.observe):
            x = Tensor(np.ones(2), requires_grad=True)
            _, rest = observer.timed(lambda: outer(x).backward(np.ones(2)))
    finally:
        del OPS["outer"], FORMULAS["outer"], FORMULAS["inner"]
    rows = {row[:2]: row.seconds for row in observer.rows(1)[: -len(PARTS)]}
    assert set(rows) == {("inner", ""), ("outer", "forward"), ("outer", "backward")}
    for name, seconds in rows.items():
        assert math.isclose(seconds, 0.04 if "inner" in name else 0.02, rel_tol=0.2), name
    assert rest < 0.01


def test_bytes_of_arrays_in_place_and_in_lists_are_counted() -> None:
    observer = Observer()
    with observed(observer.observe):
        add_each(np, [np.ones(4), np.ones(2)], [np.ones(4), np.ones(2)])
    assert [(note.name, note.bytes) for note in observer.notes] == [("add_each", 96)]


def test_time_is_computing_time_without_waiting() -> None:
    """A loss that sleeps has wall-clock time only; one that computes is between ops."""
    model, optimizers, batch = small()
    loss = language_model_loss(model)

    def slow(*args: Any) -> Tensor:
        time.sleep(0.05)
        began = time.thread_time()
        while time.thread_time() - began < 0.02:
            pass
        return loss(*args)

    found = profile_step(slow, optimizers, batch, steps=2, workers=1)
    between = next(row for row in found.rows if row.name == PARTS[0])
    assert found.seconds > 0.07 and 0.02 < between.seconds < 0.06
    assert found.busy < found.seconds - 0.04


def test_the_peak_rate_is_that_of_the_fastest_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that advances by 4, 2 and 3 seconds."""
    monkeypatch.setattr(module, "PRODUCT", 10)
    clock = itertools.chain.from_iterable((0.0, s) for s in (4.0, 2.0, 3.0))
    monkeypatch.setattr(module.time, "thread_time", lambda: next(clock))
    assert module.product_rate(1, rounds=3) == 10**3 / 2


def test_without_this_room_only_its_commands_are_missing(tmp_path: Path) -> None:
    """A copy of the package without measure/ imports every other room, and runs its commands."""
    without = shutil.ignore_patterns("measure", "__pycache__")
    shutil.copytree(Path(tinyattn.__file__).parent, tmp_path / "tinyattn", ignore=without)
    rooms = "attention, cli, models, parsing, report, tasks, theory, training"
    # An editable install has a finder that would import the missing files from the checkout.
    look = "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in str(f)]\n"
    look += f"from tinyattn import {rooms}; print(*cli.main.commands)"
    run = subprocess.run(
        [sys.executable, "-c", look], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert {*run.stdout.split()} == {*main.commands} - {"compare", "profile"}
