"""An attention block of your own: each position sees those nearer than three places.

A second: python examples/05_your_own_attention.py
In the package it would be a file in tinyattn/attention/ and a line in its registry.py; its tests
need one file more, in tests/attention/kinds/, that says in plain NumPy what it computes.
"""

from typing import ClassVar

import numpy as np

from tinyattn import Tensor, gradcheck
from tinyattn.attention import ATTENTION, MultiHead, hops, influence
from tinyattn.models import GPT, GPTConfig, generate


class Window(MultiHead):
    """Multi-head attention to what is nearer than `reach` positions."""

    # What a block cannot do it names, with the reason; it is then refused. The rest it can do.
    cannot: ClassVar = {
        "context": "near is a matter of one's own sequence",
        "cache": "a query's own place is not its number among the new ones",
    }

    def build(self, rng, *, reach=3):
        """Multi-head attention's parameters; `reach` can be set where attention is named."""
        super().build(rng)
        self.reach = reach

    def attend(self, q, k, v, call):
        """Multi-head attention's answers, with more hidden."""
        places = q.xp.arange(q.shape[2])  # NumPy's or CuPy's, wherever the queries live
        near = abs(places[:, None] - places) < self.reach
        if call.allowed is not None:
            near = near & call.allowed
        return super().attend(q, k, v, call._replace(allowed=near))


ATTENTION["window"] = Window  # the registry line: models, commands and tables now know it

block = Window(8, 2, longest=9, rng=np.random.default_rng(0))
for causal in (False, True):
    sees = influence(block, 9, causal)
    print("causal:" if causal else "both ways:")
    print("\n".join("  " + " ".join("x" if s else "." for s in row) for row in sees))
    print(f"  the last position knows of the first after {hops(sees)[-1, 0]} layers")

block.astype("float64")
x = Tensor(np.random.default_rng(1).standard_normal((2, 9, 8)))
print("gradients are right:", gradcheck(lambda x: block(x, causal=True), x))
print("weights of the last position:", block.weights(x, causal=True).numpy()[0, 0, -1].round(2))

config = GPTConfig(vocabulary=12, context=9, layers=2, heads=2, width=8, attention="window,reach=4")
model = GPT(config)
print(f"a GPT with it has {model.parameter_count():,} parameters")
print("it writes:", [int(i[0]) for i in generate(model, np.array([[1, 2]]), 5, temperature=0)])
