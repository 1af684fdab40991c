"""Hooks: they see every activation of every attention type, and change nothing by themselves."""

from typing import Any

import numpy as np
import pytest
from blocks import CLOSE
from numpy.testing import assert_allclose, assert_array_equal
from tiny import CONTEXT, TINY, every_type, ids_of, tiny

from tinyattn import Tensor, no_grad, ops
from tinyattn.attention import ATTENTION, AttentionBlock
from tinyattn.attention.block import Call
from tinyattn.models import GPT, GPTConfig
from tinyattn.nn import Linear
from tinyattn.nn.hooks import Hook, activation_names
from tinyattn.rng import DropoutRNG

NAMES = activation_names(TINY["layers"])
LAST = f"layers.{TINY['layers'] - 1}"


def wide(name: str = "multihead", positions: str = "learned") -> GPT:
    """A small GPT in float64."""
    model = tiny(name, positions)
    model.astype("float64")
    return model


def seen(model: GPT, ids: np.ndarray, **more: Hook) -> tuple[np.ndarray, dict[str, Tensor]]:
    """The logits, and all activations after the other hooks."""
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Hook:
        def hook(x: Tensor) -> Tensor | None:
            y = more[name](x) if name in more else None
            found[name] = x if y is None else y
            return y

        return hook

    with no_grad():
        return model(ids, hooks={name: keep(name) for name in NAMES}).numpy(), found


@every_type
def test_seeing_all_activations_changes_no_bit(name: str, positions: str) -> None:
    model, ids = wide(name, positions), ids_of(3, CONTEXT)
    with no_grad():
        plain = model(ids).numpy()
    logits, found = seen(model, ids)
    assert_array_equal(logits, plain)
    assert [*found] == NAMES or {*found} == {*NAMES}
    B, C, H = 3, TINY["width"], TINY["heads"]
    for layer in range(TINY["layers"]):
        at = f"layers.{layer}"
        T = found[f"{at}.attention"].shape[1]  # fewer in a layer of latents
        assert found[f"{at}.attention.heads"].shape == (B, H, T, C // H)
        assert found[f"{at}.attention.weights"].shape[:3] == (B, H, T)
        assert found[f"{at}.feedforward.hidden"].shape == (B, T, 4 * C)
        for part in ("attention", "feedforward"):
            assert found[f"{at}.{part}"].shape == found[at].shape == (B, T, C)


@every_type
def test_heads_are_the_weights_times_the_values(name: str, positions: str) -> None:
    """So weights that a hook returns, as they were, leave the logits as they are."""
    model, ids = wide(name, positions), ids_of(3, CONTEXT)
    plain, found = seen(model, ids)
    for layer in range(TINY["layers"]):
        weights = f"layers.{layer}.attention.weights"
        logits, again = seen(model, ids, **{weights: lambda w: w + 0.0})
        heads = f"layers.{layer}.attention.heads"
        assert_allclose(again[heads].numpy(), found[heads].numpy(), **CLOSE)
        assert_allclose(logits, plain, **CLOSE)
        logits, _ = seen(model, ids, **{weights: lambda w: w * 0.0})
        assert abs(logits - plain).max() > 1e-3


@every_type
def test_a_run_patched_into_itself_changes_no_bit(name: str, positions: str) -> None:
    model, ids = wide(name, positions), ids_of(3, CONTEXT)
    plain, found = seen(model, ids)
    for at in NAMES:
        if not at.endswith("weights"):  # see above: outputs are then computed from the weights
            logits, _ = seen(model, ids, **{at: lambda x, at=at: found[at]})
            assert_array_equal(logits, plain, err_msg=at)


@every_type
def test_the_whole_of_another_run_gives_its_logits(name: str, positions: str) -> None:
    """The last residual stream decides alone; so does the first, unless the model has latents."""
    model, one, two = wide(name, positions), ids_of(3, CONTEXT), ids_of(6, CONTEXT)[3:]
    wanted, found = seen(model, two)
    assert abs(seen(model, one)[0] - wanted).max() > 1e-3
    for at in ("embedding", LAST):
        logits, _ = seen(model, one, **{at: lambda x, at=at: found[at]})
        assert_array_equal(logits, wanted, err_msg=at)


@every_type
def test_a_patch_at_a_position_changes_nothing_before_it(name: str, positions: str) -> None:
    model, ids = wide(name, positions), ids_of(3, CONTEXT)
    plain, found = seen(model, ids)
    for at in ("embedding", "layers.0", f"{LAST}.attention", f"{LAST}.feedforward.hidden"):
        if found[at].shape[1] < CONTEXT:
            continue  # latents
        for t in (0, 5, CONTEXT - 1):
            logits, _ = seen(model, ids, **{at: lambda x, t=t: changed(x, t)})
            assert_allclose(logits[:, :t], plain[:, :t], **CLOSE)
            assert abs(logits[:, t] - plain[:, t]).max() > 1e-3


@every_type
def test_the_weights_that_a_hook_sees_in_training_have_no_dropout(
    name: str, positions: str
) -> None:
    model, ids = tiny(name, positions, dropout=0.5), ids_of(3, CONTEXT)
    with no_grad():
        inputs = seen(model, ids)[1]["embedding"]
        kept: list[Tensor] = []
        for rng in (None, DropoutRNG(1)):
            hooks = {"embedding": lambda x: inputs, "layers.0.attention.weights": kept.append}
            model(ids, dropout_rng=rng, hooks=hooks)
    assert_array_equal(kept[0].numpy(), kept[1].numpy())


def changed(x: Tensor, t: int) -> Tensor:
    """Another vector at position t."""
    y = x.numpy().copy()
    y[:, t] += np.linspace(1, 2, y.shape[-1])
    return Tensor(y)


def test_gradients_pass_through_a_hook() -> None:
    """The loss of a scaled activation, against finite differences of the scale."""
    model, ids = wide(), ids_of(3, CONTEXT)
    target = ids_of(4, CONTEXT)[1:]

    def loss(scale: Tensor) -> Tensor:
        hooks = {"layers.0.attention": lambda x: x * scale}
        return ops.cross_entropy(model(ids, hooks=hooks), target)

    scale = Tensor(0.7, dtype="float64", requires_grad=True)
    loss(scale).backward()
    assert scale.grad is not None
    with no_grad():
        high, low = (loss(Tensor(0.7 + step, dtype="float64")).item() for step in (1e-6, -1e-6))
    assert_allclose(scale.grad, (high - low) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        ({"layers.2": lambda x: x}, "hooks: no activation 'layers.2'; there are embedding, layers"),
        ({"layer.0": lambda x: x}, "no activation 'layer.0'"),
        ({"embedding": lambda x: x[:, 1:]}, r"the hook of embedding must return a tensor \(3, 12"),
        ({"layers.1": lambda x: x.numpy()}, "hook of layers.1 must return .*; got ndarray"),
        (
            {"layers.1": lambda x: x.detach().astype("float32")},
            r"must .* float64 cpu; got .* float32 cpu",
        ),
    ],
)
def test_a_hook_that_would_do_nothing_is_refused(hooks: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wide()(ids_of(3, CONTEXT), hooks=hooks)


def test_hooks_need_a_call_without_a_cache() -> None:
    model = tiny()
    with no_grad(), pytest.raises(ValueError, match="hooks need a call without a cache"):
        model(ids_of(1, 3), cache=model.new_cache(), hooks={LAST: lambda x: None})


class Mean(AttentionBlock):
    """A block of one's own without heads: the mean of the past."""

    cannot = {"cache": "a test", "rotary": "a test"}  # noqa: RUF012

    def build(self, rng: np.random.Generator) -> None:
        self.value = Linear(self.width, self.width, rng=rng)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        T = x.shape[1]
        mean = np.tri(T) / np.arange(1, T + 1)[:, None]
        return Tensor(mean, dtype=x.dtype) @ self.value(x)


def test_an_activation_that_an_own_type_does_not_have_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ATTENTION, "mean", Mean)
    model, ids = GPT(GPTConfig(**TINY, attention="mean")), ids_of(3, CONTEXT)
    kept: list[Tensor] = []
    model(ids, hooks={"layers.0.attention": kept.append})
    assert kept[0].shape == (3, CONTEXT, TINY["width"])
    with pytest.raises(ValueError, match=r"type has no activation 'layers.0.attention.heads'"):
        model(ids, hooks={"layers.0.attention.heads": kept.append})
    with pytest.raises(ValueError, match="hooks: Mean: has no attention weights"):
        model(ids, hooks={"layers.0.attention.weights": kept.append})
