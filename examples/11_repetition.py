"""Generated text at low temperature repeats itself.

python examples/11_repetition.py
A model counts in a made-up text which letter follows which two letters. It generates text at four
temperatures. A token is one letter here.
"""

from itertools import pairwise

import numpy as np

from tinyattn.data import make_world
from tinyattn.theory import counted_model, de_bruijn_table, first_repeat, loop, table_model

corpus = make_world().corpus
letters = sorted(set(corpus))
model = counted_model(np.array([letters.index(letter) for letter in corpus]), len(letters))
start = letters.index("T"), letters.index("h")

most = len(letters) ** 2 + 2
print(f"{len(letters)} letters: some pair must occur again within {most:,} of them.")
for temperature in (0, 0.3, 1, 3):
    text = model.generate(*start, 298, temperature=temperature)
    print(f"temperature {temperature}: a pair occurs again after {first_repeat(text)} letters; "
          f"{len(set(pairwise(text)))} different pairs in {len(text)} letters")  # fmt: skip
    print("   ", "".join(letters[i] for i in text[:90]).replace("\n", " "))

before, period = loop(model.stream(*start))
print("At temperature 0 the last two letters determine the next one:")
print(f"    after {before} pairs, a cycle of {period} pairs repeats for ever")

# The other extreme: text at temperature 0 that repeats itself as late as possible.
words = 10
angle = 2 * np.pi * np.arange(words) / words  # embeddings on a circle
latest = table_model(de_bruijn_table(words), np.stack([np.cos(angle), np.sin(angle)], axis=1))
print(f"A model of a de Bruijn sequence of {words} words, also at temperature 0: a pair occurs "
      f"again after {first_repeat(latest.stream(0, 0))} words")  # fmt: skip
print("   ", "".join(map(str, latest.generate(0, 0, words**2))))
