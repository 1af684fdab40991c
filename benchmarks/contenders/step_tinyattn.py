"""The contender tinyattn: the training step that `tinyattn pretrain` takes."""

import numpy as np
from common import ADAM, SIZES, batch, choose, initial_values, options
from serving import serve

import tinyattn
from tinyattn.data.batches import Batch
from tinyattn.models import GPT, GPTConfig
from tinyattn.parallel.shards import ShardedStep as Step
from tinyattn.tasks.knowledge import language_model_loss
from tinyattn.training.optimizers import AdamW


class WholeBatch(Batch):
    """A batch that is not cut to its longest row, because the others compute all positions."""

    def split(self, parts: int) -> list[Batch]:
        parts = min(parts, len(self.inputs))
        pieces = zip(np.array_split(self.inputs, parts), np.array_split(self.targets, parts),
                     strict=True)  # fmt: skip
        return [Batch(inputs, targets) for inputs, targets in pieces]


chosen = choose(options())
size = SIZES[chosen.size]
model = GPT(GPTConfig(**size, dropout=chosen.dropout, gelu=chosen.gelu))
model.load_state(initial_values(size))
beta1, beta2 = ADAM["betas"]
optimizer = AdamW(model.named_parameters(), beta1=beta1, beta2=beta2, eps=ADAM["eps"],
                  weight_decay=ADAM["weight_decay"])  # fmt: skip
examples = WholeBatch(*batch(size, chosen.batch))
take = Step(language_model_loss(model), [optimizer], clip=1e9, workers=chosen.threads)
number = iter(range(1_000_000))
with take:
    serve(lambda: take(examples, next(number), ADAM["learning_rate"]).loss,
          f"NumPy {np.__version__}, tinyattn {tinyattn.__version__}")  # fmt: skip
