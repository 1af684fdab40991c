"""The contender tinyattn: the training step that `tinyattn pretrain` takes."""

import numpy as np
from common import ADAM, SIZES, arguments, batch, initial_values, serve

from tinyattn import backend
from tinyattn.data.batches import Batch
from tinyattn.models import GPT, GPTConfig
from tinyattn.tasks.knowledge import language_model_loss
from tinyattn.training.optimizers import AdamW
from tinyattn.training.step import Step

options = arguments()
size = SIZES[options.size]


class WholeBatch(Batch):
    """A batch that is not cut to its longest row: PyTorch computes on all positions, so do we."""

    def split(self, parts: int) -> list[Batch]:
        pieces = zip(np.array_split(self.inputs, parts), np.array_split(self.targets, parts),
                     strict=True)  # fmt: skip
        return [Batch(inputs, targets) for inputs, targets in pieces]


backend.keep_freed_memory()
model = GPT(GPTConfig(**size, dropout=options.dropout, gelu=options.gelu))
model.load_state(initial_values({name: p.shape for name, p in model.named_parameters()}))
optimizer = AdamW(model.named_parameters(), betas=ADAM["betas"], eps=ADAM["eps"],
                  weight_decay=ADAM["weight_decay"])  # fmt: skip
examples = WholeBatch(*batch(size, options.batch))
take = Step(language_model_loss(model), [optimizer], clip=1e9, workers=options.threads)
number = iter(range(1_000_000))
with take:
    serve(lambda: take(examples, next(number), ADAM["learning_rate"]).loss)
