"""The parser: scores by its equation, no influence of padding, all attention types."""

from typing import Any

import numpy as np
import pytest
from attention_cases import with_options
from blocks import can, put
from cases import in_float64
from numpy.testing import assert_allclose

from tinyattn import ops
from tinyattn.attention import ABILITIES, ATTENTION, Penalty
from tinyattn.backend import asnumpy
from tinyattn.graph import no_grad
from tinyattn.nn import weight_hooks
from tinyattn.parsing import Parser, ParserConfig
from tinyattn.parsing.model import NO_TOKEN, ROOT
from tinyattn.rng import DropoutRNG
from tinyattn.tensor import Tensor

SIZES: dict[str, Any] = {"vocabulary": 9, "relations": 3, "context": 7, "layers": 2, "heads": 2,
                         "width": 8, "label_width": 3}  # fmt: skip
LENGTHS = [6, 3, 2]  # with ROOT
SPECS = {name: with_options(name) for name in ATTENTION if can(name, "bidirectional", "padding")}


def new(device: str = "cpu", **sizes: Any) -> Parser:
    """A parser in float64 with parameters so large that no result is nearly 0."""
    parser: Parser = in_float64(Parser(ParserConfig(**{**SIZES, **sizes}), device=device))
    rng = np.random.default_rng(1)
    for parameter in parser.parameters():
        parameter.data = 0.5 * rng.standard_normal(parameter.shape)
    return parser


def batch(lengths: list[int] = LENGTHS) -> np.ndarray:
    """Sentences of these lengths, ROOT first: (B, T, 2)."""
    inputs = np.random.default_rng(2).integers(2, 9, (len(lengths), max(lengths), 2))
    inputs[:, 0] = ROOT
    for row, length in zip(inputs, lengths, strict=True):
        row[length:] = NO_TOKEN
    return inputs


def with_attention(name: str) -> dict[str, Any]:
    return {"attention": SPECS[name], "positions": "rotary" if can(name, "rotary") else "learned"}


every_attention = pytest.mark.parametrize("name", SPECS)


def test_the_attention_types_of_a_parser() -> None:
    assert {"multihead", "bilinear", "linformer", "bigbird", "synthesizer"} <= SPECS.keys()


@every_attention
def test_which_words_can_be_heads(name: str, device: str) -> None:
    """All words except the word itself and padding; the probabilities of a word sum to one."""
    inputs = batch()
    scores = new(device, **with_attention(name))(inputs).numpy()
    assert scores.shape == (3, 6, 3, 6)
    for row, length in zip(scores, LENGTHS, strict=True):
        finite = np.isfinite(row)
        for t in range(6):
            assert finite[t].all(axis=0).tolist() == [s < length and s != t for s in range(6)]
        assert (row[~finite] == -np.inf).all()


@every_attention
def test_padding_changes_nothing(name: str, device: str) -> None:
    parser, inputs = new(device, **with_attention(name)), batch()
    together = parser(inputs).numpy()
    for i, length in enumerate(LENGTHS):
        alone = parser(inputs[i : i + 1, :length]).numpy()[0]
        assert_allclose(together[i, :length, :, :length], alone, rtol=1e-9, atol=1e-9)


def test_scores_are_those_of_the_equation(device: str) -> None:
    """Without layers: the layer norm of the embeddings, and two products."""
    parser, inputs = new(device, layers=1, positions="learned"), batch([4])
    parser.layers = []
    table = parser.embedding.weight.numpy()
    x = table[inputs[0, :, 0]] + table[inputs[0, :, 1]] + parser.positions.weight.numpy()[:4]
    x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    h = x * parser.norm.gain.numpy() + parser.norm.bias.numpy()

    def linear(module: Any) -> np.ndarray:
        return h @ module.weight.numpy() + module.bias.numpy()

    def rotated(v: np.ndarray, t: int) -> np.ndarray:
        angles = t * 10_000.0 ** (-np.arange(0, 8, 2) / 8)
        z = (v[0::2] + 1j * v[1::2]) * np.exp(1j * angles)
        return np.stack([z.real, z.imag], axis=1).ravel()

    q, k = linear(parser.dependent).reshape(4, 3, 3), linear(parser.governor).reshape(4, 3, 3)
    q_any, k_any = linear(parser.dependent_any), linear(parser.governor_any)
    scores = parser(inputs).numpy()[0]
    for t, relation, s in np.ndindex(4, 3, 4):
        own = q[t, relation] @ k[s, relation] / 3**0.5
        shared = rotated(q_any[t], t) @ rotated(k_any[s], s) / 8**0.5
        want = -np.inf if s == t else own + shared
        assert_allclose(scores[t, relation, s], want, rtol=1e-9)


@every_attention
def test_the_attention_is_bidirectional(name: str, device: str) -> None:
    """Another first word changes the scores of the last word, and the reverse."""
    parser, inputs = new(device, **with_attention(name)), batch([6])
    before = parser(inputs).numpy()[0]
    for changed, felt in ((1, 5), (5, 1)):
        other = inputs.copy()
        other[0, changed] = 8 - (other[0, changed] == 8)
        after = parser(other).numpy()[0]
        others = [s for s in range(6) if s not in (changed, felt)]
        assert np.abs(after[felt][:, others] - before[felt][:, others]).max() > 1e-6


@every_attention
def test_gradients_reach_every_parameter(name: str, device: str) -> None:
    parser, inputs = new(device, **with_attention(name)), batch()
    real = np.isfinite(parser(inputs).numpy())
    weigh = put(np.random.default_rng(3).standard_normal(real.shape) * real, device)

    def loss() -> Tensor:
        total: Tensor = (ops.where(put(real, device), parser(inputs), 0.0) * weigh).sum()
        return total

    loss().backward()
    gradients = [asnumpy(p.grad) for p in parser.parameters()]
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    # Along a random direction in all parameters at once.
    rng, step = np.random.default_rng(4), 1e-6
    directions = [rng.standard_normal(p.shape) for p in parser.parameters()]
    slope = sum(float((g * d).sum()) for g, d in zip(gradients, directions, strict=True))
    starts = [p.numpy() for p in parser.parameters()]
    values = []
    for sign in (1, -1):
        for p, start, d in zip(parser.parameters(), starts, directions, strict=True):
            p.data = start + sign * step * d
        values.append(loss().item())
    assert_allclose((values[0] - values[1]) / (2 * step), slope, rtol=1e-5)


def test_attention_weights_of_every_layer(device: str) -> None:
    parser, inputs = new(device, layers=3), batch()
    weights: list[Tensor] = []
    parser(inputs, hooks=weight_hooks(3, weights))
    assert [w.shape for w in weights] == [(3, 2, 6, 6)] * 3
    for row, length in zip(weights[0].numpy(), LENGTHS, strict=True):
        assert_allclose(row.sum(axis=-1), 1)
        assert (row[..., length:] == 0).all()
    penalty = Penalty(focus=1.0, near=0.1)(weights, put(inputs[..., 0] > ROOT, device), 8.0)
    penalty.backward()
    assert np.abs(asnumpy(parser.layers[0].attention.query.weight.grad)).max() > 0


def test_dropout_is_repeatable_and_only_in_training() -> None:
    parser, inputs = new(dropout=0.5), batch()
    dropped = [parser(inputs, dropout_rng=DropoutRNG(seed, 0, 0)).numpy() for seed in (0, 0, 1)]
    assert_allclose(dropped[0], dropped[1])
    real = np.isfinite(dropped[0])
    assert np.abs(dropped[0][real] - dropped[2][real]).max() > 1e-3
    assert_allclose(parser(inputs).numpy(), parser(inputs).numpy())


@every_attention
def test_on_another_device(name: str, device: str) -> None:
    config = ParserConfig(**{**SIZES, **with_attention(name)})
    expected = Parser(config, seed=3)(batch())
    assert expected.dtype == np.float32
    with no_grad():
        found = Parser(config, seed=3, device=device)(batch())
    assert found.device == device
    assert_allclose(asnumpy(found.data), expected.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"vocabulary": 0}, "vocabulary must be a whole number above 0; got 0"),
        ({"relations": 2.0}, "relations must be a whole number"),
        ({"heads": 3}, "width must be even and divisible by heads 3; got 8"),
        ({"width": 5, "heads": 1}, "width must be even"),
        ({"heads": 8}, "rotary positions need an even width per head; got 1"),
        ({"dropout": 1.5}, "dropout"),
        ({"positions": "none"}, "positions must be 'learned' or 'rotary'; got 'none'"),
        ({"attention": "telepathy"}, "attention must be one of"),
        ({"attention": "bigbird,blocks=2"}, "has no option 'blocks'"),
        ({"attention": "latent"}, "cannot be a parser's attention: it cannot attend to later"),
        ({"attention": "linformer-causal"}, ABILITIES["bidirectional"]),
        ({"attention": "synthesizer"}, "it cannot use rotary positions"),
    ],
)  # fmt: skip
def test_invalid_sizes_are_refused(sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ParserConfig(**{**SIZES, **sizes})


@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 3), (2, 8, 2)])
def test_inputs_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"Parser: inputs must be \(B, T, 2\), T at most 7; got"):
        new()(np.ones(shape, int))
