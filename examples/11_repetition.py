"""Cold text goes round in circles.

python examples/11_repetition.py
A model learns from a made-up text which letter follows which two, and writes at four temperatures.
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
print(f"{len(letters)} letters: some pair must come again within {most:,} of them.")
for temperature in (0, 0.3, 1, 3):
    text = model.write(*start, 298, temperature=temperature)
    print(f"temperature {temperature}: a pair again after {first_repeat(text)} letters; "
          f"{len(set(pairwise(text)))} different pairs in {len(text)} letters")  # fmt: skip
    print("   ", "".join(letters[i] for i in text[:90]).replace("\n", " "))

before, period = loop(model.text(*start))
print("At temperature 0 the last two letters decide the next one:")
print(f"    after {before} pairs, {period} pairs come again for ever")

# The other extreme: text at temperature 0 that does not repeat itself before it must.
words = 10
angle = 2 * np.pi * np.arange(words) / words  # embeddings on a circle
patient = table_model(de_bruijn_table(words), np.stack([np.cos(angle), np.sin(angle)], axis=1))
print(f"A patient model of {words} words, at temperature 0 too: a pair again after "
      f"{first_repeat(patient.text(0, 0))} words")  # fmt: skip
print("   ", "".join(map(str, patient.write(0, 0, words**2))))
