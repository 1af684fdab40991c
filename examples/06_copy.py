"""A query that copies one of ten values: its score must be large enough, compared with the others.

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
keys = Tensor(orthonormal(rng, n, 16))  # one key for each word
values = Tensor(np.eye(n))  # one-hot, so that the output shows the weights


def show(size):
    """Print the weights of a query of this size for the wanted word."""
    output = attend(copying_query(keys, WANTED, size), keys, values)[0].numpy()
    print(f"query of size {size:.2f}: {output[WANTED]:.4f} of {WORDS[WANTED]!r}")
    for word, weight in zip(WORDS, output, strict=True):
        print(f"    {word:7}{'#' * round(40 * weight):41}{weight:.3f}")


for size in (0, 1, lead_needed(n, error=0.5)):  # a unit query is far from a copy; a weight of 0.5
    show(size)
show(lead_needed(n, error=0.01))  # the score must be larger by ln((n - 1) * 0.99 / 0.01)

print("\nhow much larger must the score be for a weight of 0.99?")
for count in (2, 10, 1_000, 50_257):
    print(f"    than {count - 1:6,} others: {lead_needed(count, error=0.01):5.2f}")
