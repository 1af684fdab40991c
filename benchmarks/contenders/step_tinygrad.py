"""The contender tinygrad: its generated kernels are compiled by clang and replayed by TinyJit."""

import os

os.environ.setdefault("DEV", "CPU")

from importlib.metadata import version

import plain_gpt
from common import ADAM, SIZES, batch, choose, decays, initial_values, options
from serving import serve
from tinygrad import Context, Tensor, TinyJit, nn


class Tinygrad(plain_gpt.Library):
    """tinygrad's own functions, which are methods of its tensors."""

    number = float

    def constant(self, values):
        return Tensor(values)

    def transpose(self, x, axes):
        return x.permute(axes)

    def layer_norm(self, x, gain, bias):
        return x.layernorm() * gain + bias

    def softmax(self, x):
        return x.softmax()

    def gelu(self, x):
        return x.gelu("none" if self.exact else "tanh")

    def dropout(self, x):
        return x.dropout(self.rate)

    def mean_loss(self, logits, targets, weights):
        return logits.sparse_categorical_crossentropy(targets, ignore_index=0)


def adamw(names: list[str], weight_decay: float) -> nn.optim.Optimizer:
    beta_1, beta_2 = ADAM["betas"]
    return nn.optim.AdamW([values[name] for name in names], lr=ADAM["learning_rate"], b1=beta_1,
                          b2=beta_2, eps=ADAM["eps"], weight_decay=weight_decay)  # fmt: skip


chosen = choose(options())
size = SIZES[chosen.size]
Tensor.manual_seed(0)
library = Tinygrad(None, chosen.dropout, chosen.gelu)
ids, targets, weights = plain_gpt.flat_examples(*batch(size, chosen.batch))
examples = Tensor(ids.astype("int32")), Tensor(targets.astype("int32")), weights
values = {name: Tensor(w) for name, w in initial_values(size).items()}
optimizer = nn.optim.OptimizerGroup(
    adamw([name for name in values if decays(name)], ADAM["weight_decay"]),
    adamw([name for name in values if not decays(name)], 0.0),
)


@TinyJit
def step() -> Tensor:
    with Context(TRAINING=1):
        optimizer.zero_grad()
        loss = plain_gpt.loss(library, values, size, examples).backward()
        return loss.realize(*optimizer.schedule_step())


serve(lambda: step().item(), f"tinygrad {version('tinygrad')}")
