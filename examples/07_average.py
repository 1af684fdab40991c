"""A query that averages two or three values, or mixes all of them with given weights.

python examples/07_average.py
"""

import numpy as np

from tinyattn import Tensor
from tinyattn.attention.core import attend
from tinyattn.theory import averaging_query, distribution_query, family_query, orthonormal, query_of

WORDS = "red green blue white black".split()
COLOURS = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 0]]

rng = np.random.default_rng(0)
keys = Tensor(orthonormal(rng, len(WORDS), 8))
values = Tensor(np.array(COLOURS, dtype=float))  # the output of a query is a mixed colour


def show(what, query):
    """Print the weights of a query (one mark for each 1/40) and the mixed colour."""
    colour, weights = (t.numpy() for t in attend(query, keys, values))
    print(f"{what}\n    colour: {colour.round(3)}")
    for word, weight in zip(WORDS, weights, strict=True):
        print(f"    {word:6}{'#' * round(40 * weight):41}{weight:.4f}")


RED, BLUE, WHITE = (WORDS.index(word) for word in ("red", "blue", "white"))
for size in (1, 4, 8):
    show(f"{size} (red + blue): near their mean", averaging_query(keys, [RED, BLUE], size))

show("-8 (all the others): the same", family_query(keys, [RED, BLUE], 0, -8))
show("8 (red + blue + white): a mean of three", averaging_query(keys, [RED, BLUE, WHITE], 8))
show("8 red + 7 blue: nearly equal is not equal", query_of(keys, [8, 0, 7, 0, 0]))

recipe = [0.5, 0.05, 0.2, 0.1, 0.15]
show(f"logarithms of {recipe}: exactly these", distribution_query(keys, recipe))
