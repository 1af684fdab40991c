"""The contender numpygrad: a tape over NumPy that looks like PyTorch.

Its LayerNorm, its GELU and its MultiHeadAttention convert float32 to float64 (a scalar combined
with an array becomes a float64 array), and so do `-` and `/`. All three are composed here of
operations that keep float32, which halves its memory traffic; also, its own attention has no
dropout.
"""

import math
from importlib.metadata import version

import numpy as np
import numpygrad
import numpygrad.nn
import numpygrad.ops
import plain_gpt
from common import ADAM, SIZES, batch, choose, decays, initial_values, options
from numpygrad.optim import AdamW
from serving import serve

F = np.float32


class NumpyGrad(plain_gpt.Library):
    def rows(self, table, ids):
        return numpygrad.ops.embedding(table, ids)

    def transpose(self, x, axes):
        return x.transpose(axes)

    def layer_norm(self, x, gain, bias):
        centred = x + x.mean(axis=-1, keepdims=True) * F(-1)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        return centred * (variance + F(1e-5)) ** F(-0.5) * gain + bias

    def softmax(self, x):
        return numpygrad.softmax(x, axis=-1)

    def gelu(self, x):
        assert not self.exact, "numpygrad has no error function"
        inner = (x + x * x * x * F(0.044715)) * F(math.sqrt(2 / math.pi))
        return x * F(0.5) * (numpygrad.tanh(inner) + F(1))

    def dropout(self, x):
        return drop(x)

    def mean_loss(self, logits, targets, weights):
        log_p = numpygrad.log_softmax(logits, axis=-1)[np.arange(len(targets)), targets]
        return (log_p * -weights).sum()


def adamw(names: list[str], weight_decay: float) -> AdamW:
    return AdamW([values[name] for name in names], ADAM["learning_rate"], ADAM["betas"],
                 ADAM["eps"], weight_decay)  # fmt: skip


chosen = choose(options())
size = SIZES[chosen.size]
drop = numpygrad.nn.Dropout(chosen.dropout)
library = NumpyGrad(numpygrad, chosen.dropout, chosen.gelu)
examples = plain_gpt.flat_examples(*batch(size, chosen.batch))
values = {name: numpygrad.array(w, requires_grad=True) for name, w in initial_values(size).items()}
optimizers = [
    adamw([name for name in values if decays(name)], ADAM["weight_decay"]),
    adamw([name for name in values if not decays(name)], 0.0),
]


def step() -> float:
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss = plain_gpt.loss(library, values, size, examples)
    assert loss.dtype == F
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return float(loss.item())


serve(step, f"numpygrad {version('numpygrad')}")
