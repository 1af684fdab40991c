"""An attention type of your own: each position attends to those nearer than three places.

It takes a second: python examples/05_your_own_attention.py
Every command that makes a model takes it from this file:

    tinyattn quickstart --attention examples/05_your_own_attention.py:Window,reach=30 --out runs/own

In the package it would be a file in tinyattn/attention/ and a line in its attention_types.py; its
tests need one more file, in tests/attention/cases/, with its formula in plain NumPy.
"""

from typing import ClassVar

import numpy as np

from tinyattn import Tensor, gradcheck
from tinyattn.attention import ATTENTION, MultiHead, hops, influence
from tinyattn.models import GPT, GPTConfig, generate


class Window(MultiHead):
    """Multi-head attention to what is nearer than `reach` positions."""

    # What the block cannot do, with the reason; such calls are refused.
    cannot: ClassVar = {
        "context": "distances are between positions of one sequence",
        "cache": "with a cache, the place of a query is not its index among the queries",
    }

    def build(self, rng, *, reach=3):
        """Create multi-head attention's parameters; `reach` is an option of the attention type."""
        super().build(rng)
        self.reach = reach

    def attend(self, q, k, v, call):
        """The output of multi-head attention, with a mask for what is too far away."""
        places = q.xp.arange(q.shape[2])  # NumPy or CuPy, wherever the queries are
        near = abs(places[:, None] - places) < self.reach
        if call.allowed is not None:
            near = near & call.allowed
        return super().attend(q, k, v, call._replace(allowed=near))


def main():
    """Print which positions it attends to, a check of its gradients, and a GPT with it."""
    ATTENTION["window"] = Window  # in Python; commands take FILE.py:Window

    block = Window(8, 2, max_length=9, rng=np.random.default_rng(0))
    for causal in (False, True):
        depends = influence(block, 9, causal)
        print("causal:" if causal else "bidirectional:")
        print("\n".join("  " + " ".join("x" if d else "." for d in row) for row in depends))
        print(f"  the last position depends on the first after {hops(depends)[-1, 0]} layers")

    block.astype("float64")
    x = Tensor(np.random.default_rng(1).standard_normal((2, 9, 8)))
    print("gradients are right:", gradcheck(lambda x: block(x, causal=True), x))
    weights = block.weights(x, causal=True).numpy()
    print("weights of the last position:", weights[0, 0, -1].round(2))

    config = GPTConfig(
        vocabulary=12, context=9, layers=2, heads=2, width=8, attention="window,reach=4"
    )
    model = GPT(config)
    print(f"a GPT with it has {model.parameter_count():,} parameters")
    made = generate(model, np.array([[1, 2]]), 5, temperature=0)
    print("it generates:", [int(i[0]) for i in made])


if __name__ == "__main__":
    main()
