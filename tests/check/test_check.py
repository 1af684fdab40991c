"""The laws of attention for anybody's attention: right ones break none, and each bug its own."""

from typing import Any

import numpy as np
import pytest
from gpu import needs_gpu
from hypothesis import given
from hypothesis import strategies as st
from wrong_attention import BUGS, Bug, attention, inverted

from tinyattn import Tensor, formulas, ops
from tinyattn.backend import asarray, asnumpy
from tinyattn.check import check_attention, masks, parametrize_with_laws, qkv, report, scores
from tinyattn.check.conformance import FIRST, expected, in_order
from tinyattn.theory import LAWS
from tinyattn.theory.conventions import EXPECTED, FEATURES

SIMPLE = [law for law in in_order() if law.run.__module__.rpartition(".")[2] in FIRST]


def ours(q: Any, k: Any, v: Any, mask: Any = None, **options: Any) -> np.ndarray:
    """`ops.attention` as a function of arrays."""
    return ops.attention(*map(Tensor, (q, k, v)), mask, **options).numpy()


def our_gradients(q: Any, k: Any, v: Any, g: Any, mask: Any = None, **options: Any) -> Any:
    leaves = [Tensor(a, requires_grad=True) for a in (q, k, v)]
    ops.attention(*leaves, mask, **options).backward(g)
    return [asnumpy(leaf.grad) for leaf in leaves]


def test_our_attention_breaks_no_law() -> None:
    found = check_attention(ours, FEATURES - {"dropout"}, vjp=our_gradients, examples=8)
    assert found.ok, str(found)
    assert found.counts()["left out"] == 2  # the laws of dropout
    with formulas():
        assert check_attention(ours, laws=SIMPLE, examples=8).ok


def test_our_attention_breaks_no_law_on_a_device(device: str) -> None:
    def there(q: Any, k: Any, v: Any, mask: Any = None, **options: Any) -> np.ndarray:
        tensors = [Tensor(a, device=device) for a in (q, k, v)]
        allowed = None if mask is None else asarray(mask, device=device)
        return ops.attention(*tensors, allowed, **options).numpy()

    assert check_attention(there, FEATURES - {"dropout", "grad"}, laws=SIMPLE, examples=8).ok


@pytest.mark.parametrize("arrays", [pytest.param("cupy", marks=needs_gpu)])
def test_arrays_of_another_library_are_what_the_function_gets(arrays: str) -> None:
    def there(q: Any, k: Any, v: Any, mask: Any = None, **options: Any) -> Any:
        assert type(q).__module__.startswith("cupy")
        return ops.attention(*map(Tensor, (q, k, v)), mask, **options).data

    assert check_attention(there, arrays=arrays, laws=SIMPLE, examples=8).ok


def test_a_right_function_breaks_no_law() -> None:
    found = check_attention(attention, FEATURES - {"grad"}, examples=10)
    assert found.ok, str(found)
    assert {r.why for r in found.results if r.state == "left out"} == {"grad"}


@pytest.mark.parametrize("bug", BUGS, ids=[bug.report for bug in BUGS])
def test_a_bug_is_named_by_its_law(bug: Bug) -> None:
    """Within ten seconds; the first broken law is the one that says what is wrong."""
    until = SIMPLE[: SIMPLE.index(LAWS[bug.law]) + 1]
    found = check_attention(bug.f, **bug.options, laws=until)
    assert [result.law.name for result in found.broken] == [bug.law]
    assert found.broken[0].counterexample is not None
    assert sum(result.seconds for result in found.results) < 10


def test_a_counterexample_has_three_lines_that_show_it() -> None:
    found = check_attention(inverted, laws=[LAWS["true_means_may_attend"]])
    example = found.broken[0].counterexample
    assert example is not None and example.call is not None
    code = example.code("inverted", "wrong_attention")
    assert code.count("\n") == 2
    printed: list[np.ndarray] = []
    exec(code, {"print": printed.append})
    np.testing.assert_allclose(printed[0], example.call.got)
    right = attention(*example.call.arrays, mask=example.call.keywords["mask"])
    np.testing.assert_allclose(right, example.call.right)
    assert not np.allclose(example.call.got, right)


def test_by_default_a_function_supports_the_keywords_that_it_has() -> None:
    def plain(q: Any, k: Any, v: Any) -> Any:
        return attention(q, k, v)

    def open_to_all(q: Any, k: Any, v: Any, **options: Any) -> Any:
        return attention(q, k, v, **options)

    assert expected(plain) == EXPECTED - {"mask", "causal", "scale"}
    assert expected(attention) == expected(open_to_all) == EXPECTED
    assert expected(max) == EXPECTED  # compiled: it has no signature
    found = check_attention(plain, examples=5)
    assert found.ok, str(found)


def test_a_function_that_returns_nothing_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgot(q: Any, k: Any, v: Any) -> None:
        attention(q, k, v)

    found = check_attention(forgot, laws=SIMPLE[:12])
    assert "returned None: does it end with `return`?" in str(found)
    monkeypatch.setattr(report, "NAMED", 2)
    names = [result.law.name for result in found.broken[report.SHOWN :]]
    assert len(names) == 4 and f"also broken: {names[0]}, {names[1]}, and 2 more" in str(found)


@pytest.mark.parametrize("mask", ["masked", "additive"])
def test_the_three_lines_have_the_mask_as_the_function_takes_it(mask: str) -> None:
    found = check_attention(attention, mask=mask, laws=[LAWS["true_means_may_attend"]])
    example = found.broken[0].counterexample
    assert example is not None and example.call is not None
    printed: list[np.ndarray] = []
    exec(example.code("attention", "wrong_attention"), {"print": printed.append})
    np.testing.assert_allclose(printed[0], example.call.got)


def test_what_is_declared_is_checked() -> None:
    """The mean of all values, NaN, a causal mask from the first key: right if they are declared."""
    laws = [LAWS["without_a_key_all_is_zero"], LAWS["a_causal_mask_ends_at_the_last_key"]]
    by_name = {bug.f.__name__: bug.f for bug in BUGS}
    for name, options in (
        ("nan_without_a_key", {"no_key": "nan"}),
        ("mean_without_a_key", {"no_key": "mean"}),
        ("from_the_top_left", {"causal_from": "start"}),
    ):
        assert not check_attention(by_name[name], laws=laws).ok
        assert check_attention(by_name[name], laws=laws, **options).ok  # type: ignore[arg-type]
        assert not check_attention(attention, laws=laws, **options).ok  # type: ignore[arg-type]


def test_masks_have_the_meaning_that_is_declared() -> None:
    laws = [LAWS["true_means_may_attend"], LAWS["two_equations"]]
    assert check_attention(inverted, laws=laws, mask="masked").ok

    def additive(q: Any, k: Any, v: Any, mask: Any = None, **options: Any) -> Any:
        return attention(q, k, v, None if mask is None else mask == 0, **options)

    assert check_attention(additive, laws=laws, mask="additive").ok


def test_an_attention_of_one_sequence_in_float32_is_checked_in_its_way() -> None:
    def narrow(q: Any, k: Any, v: Any) -> Any:
        assert q.ndim == 2 and q.dtype == np.float32
        return attention(q, k, v)

    found = check_attention(narrow, {"exact", "rectangular"}, examples=10)
    assert found.ok, str(found)
    assert LAWS["true_means_may_attend"] in [r.law for r in found.results if r.why == "mask"]


def test_an_attention_of_one_sequence_gets_its_own_part_of_every_mask() -> None:
    def single(q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False) -> Any:
        assert q.ndim == 2 and (mask is None or mask.shape == (len(q), len(k)))
        return attention(q, k, v, mask, causal)

    found = check_attention(single, EXPECTED - {"batch", "scale"}, laws=SIMPLE)
    assert found.ok, str(found)


def test_gradients_are_right_for_a_function_that_changes_its_inputs() -> None:
    def changes(q: Any, k: Any, v: Any, mask: Any = None, **options: Any) -> Any:
        y = attention(q, k, v, mask, **options)
        q *= 2
        return y

    found = check_attention(changes, laws=SIMPLE)
    assert "inputs_are_not_changed" in [result.law.name for result in found.broken]
    assert check_attention(changes, laws=[LAWS["its_gradients"]]).counts()["left out"] == 1


def test_an_approximation_is_checked_for_its_structure_only() -> None:
    def bent(q: Any, k: Any, v: Any) -> Any:
        return np.tanh(attention(q, k, v))

    found = check_attention(bent, {"float64", "batch", "rectangular"})
    assert [r.law.name for r in found.broken] == ["outputs_are_linear_in_values"]
    assert not check_attention(bent, {"exact", "float64", "batch"}, laws=SIMPLE).ok


def test_names_that_do_not_exist_are_refused() -> None:
    for options, message in (
        ({"supports": {"maks"}}, "supports must be of .*; got maks"),
        ({"no_key": "one"}, "no_key must be of zeros, mean, nan; got one"),
        ({"causal_from": "middle"}, "causal_from must be of end, start; got middle"),
        ({"mask": "bool"}, "mask must be one of allowed, masked, additive; got 'bool'"),
        ({"arrays": "tensor"}, "arrays must be one of numpy, torch, jax, cupy; got 'tensor'"),
        ({"supports": {"grad"}}, "grad: arrays of numpy need a function vjp; got None"),
    ):
        with pytest.raises(ValueError, match=message):
            check_attention(attention, **options, laws=[])  # type: ignore[arg-type]


@parametrize_with_laws(attention, laws=SIMPLE[:3])
def test_pytest_runs_a_test_for_each_law(law_holds: Any) -> None:
    law_holds()


@given(st.data())
def test_strategies(data: st.DataObject) -> None:
    s = data.draw(scores(5))
    assert 1 <= len(s) <= 5 and np.isfinite(s).all()
    mask = data.draw(masks(3, 4, least=2))
    assert mask.shape == (3, 4) and (mask.sum(axis=-1) >= 2).all()
    q, k, v = data.draw(qkv((2,), longest=3))
    assert q.shape[0] == k.shape[0] == v.shape[0] == 2
    assert q.shape[-1] == k.shape[-1] and k.shape[-2] == v.shape[-2]
