"""A query that copies one value out of ten: all it takes is a score that leads by enough.

python examples/06_copy.py
"""

import numpy as np

from tinyattn import Tensor
from tinyattn.attention.core import attend
from tinyattn.theory import copying_query, lead_needed, orthonormal

WORDS = "the cat sat on a mat while rain fell softly".split()
WANTED = WORDS.index("rain")

rng = np.random.default_rng(0)
n = len(WORDS)
keys = Tensor(orthonormal(rng, n, 16))  # what each word answers to
values = Tensor(np.eye(n))  # what it says: itself, so that the output shows the mixture


def show(size):
    """Ask for the wanted word with a query of this size."""
    output = attend(copying_query(keys, WANTED, size), keys, values)[0].numpy()
    print(f"query of size {size:.2f}: {output[WANTED]:.4f} of {WORDS[WANTED]!r}")
    for word, share in zip(WORDS, output, strict=True):
        print(f"    {word:7}{'#' * round(40 * share):41}{share:.3f}")


for size in (0, 1, lead_needed(n, error=0.5)):  # a unit query is far from a copy; half of one
    show(size)
show(lead_needed(n, error=0.01))  # the score must lead by ln((n - 1) * 0.99 / 0.01)

print("\nhow far must the score lead for a weight of 0.99?")
for count in (2, 10, 1_000, 50_257):
    print(f"    over {count - 1:6,} others: {lead_needed(count, error=0.01):5.2f}")
