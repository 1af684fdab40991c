"""The laws of attention for anybody's attention: right ones break none, and each bug its own."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gpu import needs_gpu
from hypothesis import given
from hypothesis import strategies as st
from wrong_attention import BUGS, Bug, attention, from_the_top_left, inverted, nan_behind_a_mask

from tinyattn import Tensor, formulas, ops
from tinyattn.backend import asarray, asnumpy
from tinyattn.check import check_attention, masks, parametrize_with_laws, qkv, report, scores
from tinyattn.check.conformance import FIRST, Conformance, expected, in_order
from tinyattn.check.implementation import Called, Implementation, Library
from tinyattn.check.search import SINGLE, Counterexample
from tinyattn.theory import LAWS
from tinyattn.theory.conventions import EXPECTED, FEATURES, Conventions
from tinyattn.theory.finding import rounding
from tinyattn.theory.lab import Lab

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


def test_noise_in_float32_has_its_norm_for_a_tiny_query() -> None:
    """Its direction was q/10⁻³⁰⁰ where |q|² is 0 by underflow, and ∞ in float32."""

    def single(q: Any, k: Any, v: Any) -> Any:
        return attention(q, k, v)

    conventions = Conventions(frozenset({"exact", "rectangular"}))
    lab = Lab(np.random.default_rng(0), conventions=conventions)
    with Implementation(single, conventions).in_use(), rounding(SINGLE):
        found = LAWS["noise_moves_weights"](lab, n=2, c1=1e-190, c2=0.0, x=0.0, delta=1.0)
    assert found.holds, found.text


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


def the_example(found: Conformance) -> tuple[Counterexample, Called]:
    """The counterexample of the first broken law, and its call."""
    example = found.broken[0].counterexample
    assert example is not None and example.call is not None
    return example, example.call


def test_what_is_right_is_what_is_declared() -> None:
    law = LAWS["without_a_key_all_is_zero"]
    for no_key, wanted in (("mean", None), ("nan", np.nan)):
        _, call = the_example(check_attention(attention, laws=[law], no_key=no_key))
        assert call.allowed is not None
        without = ~call.allowed.any(-1)
        assert without.any()
        values = call.arrays[2].mean(-2, keepdims=True) if wanted is None else wanted
        np.testing.assert_allclose(
            call.right[without], np.broadcast_to(values, call.right.shape)[without]
        )
    law = LAWS["a_causal_mask_ends_at_the_last_key"]
    _, call = the_example(check_attention(attention, laws=[law], causal_from="start"))
    np.testing.assert_allclose(call.right, from_the_top_left(*call.arrays, causal=True))


def test_a_scale_that_a_function_does_not_have_is_a_factor_of_the_queries() -> None:
    def scaled(context: Any) -> list[Any]:
        leaves = [Tensor(a, requires_grad=True) for a in np.random.default_rng(0).random((3, 4, 2))]
        with context:
            y = ops.attention(*leaves, scale=0.3)
            (y * y).sum().backward()
        return [y.numpy(), *(asnumpy(leaf.grad) for leaf in leaves)]

    def plain(q: Any, k: Any, v: Any) -> Any:
        y = attention(q, k, v)
        q *= 2  # the product with the factor is a new array, which the function may change
        return y

    found = scaled(Implementation(plain, Conventions(expected(plain))).in_use())
    for mine, right in zip(found, scaled(nullcontext()), strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-9)


def test_a_square_attention_gets_as_many_keys_as_queries() -> None:
    def square(q: Any, k: Any, v: Any) -> Any:
        assert q.shape[-2] == k.shape[-2]
        return attention(q, k, v)

    found = check_attention(square, expected(square) - {"rectangular"}, laws=SIMPLE)
    assert found.ok, str(found)


def test_a_counterexample_is_small() -> None:
    found = check_attention(inverted, laws=[LAWS["true_means_may_attend"]])
    example, _ = the_example(found)
    assert example.arguments == {"batch": (), "T": 1, "S": 2}


def test_the_code_of_a_counterexample_knows_nan_and_the_library_of_the_arrays() -> None:
    found = check_attention(nan_behind_a_mask, laws=[LAWS["a_masked_nan_has_no_effect"]])
    example, call = the_example(found)
    there = Library(np.asarray, np.asarray, "np.asfortranarray")
    for lib in (call.library, there):
        shown = replace(example, call=replace(call, library=lib))
        code = shown.code("nan_behind_a_mask", "wrong_attention")
        exec(code, {"print": lambda y: None})
        assert ("mask=np.asfortranarray(np.array(" in code) == (lib is there)
        assert "np.nan" in code


def test_what_is_shown_are_the_inputs_before_the_function_changed_them() -> None:
    def changes(q: Any, k: Any, v: Any) -> Any:
        y = 2 * attention(q, k, v) + 1
        q[...] = k[...] = v[...] = np.nan
        return y

    single = expected(changes) - {"float64"}  # arrays of float64 are read-only
    _, call = the_example(check_attention(changes, single, laws=[LAWS["two_equations"]]))
    np.testing.assert_allclose(call.got, 2 * attention(*call.arrays) + 1, rtol=1e-5)


def test_the_same_numbers_are_tried_again() -> None:
    def tried() -> list[bytes]:
        seen: list[bytes] = []

        def recorded(q: Any, k: Any, v: Any) -> Any:
            seen.append(q.tobytes() + k.tobytes())
            return attention(q, k, v)

        assert check_attention(recorded, laws=SIMPLE[:6], examples=20).ok
        return seen

    assert tried() == tried()


def test_text_that_looks_like_markup_is_text() -> None:
    def marked(q: Any, k: Any, v: Any) -> Any:
        raise ValueError("<script>alert(1)</script>")

    page = report.as_html(check_attention(marked, laws=SIMPLE[:2]))
    assert "&lt;script&gt;" in page and "<script>" not in page
