"""A small GPT on a text file of your own: train it, then generate text.

python examples/04_gpt_on_your_text.py my_book.txt [steps]
Without a file it trains on the corpus of the made-up world.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from tinyattn.data import make_world, read_text
from tinyattn.models import generate
from tinyattn.tasks.recipe import load_recipe
from tinyattn.tasks.running import RunOptions, pretrain

text = read_text(sys.argv[1]) if len(sys.argv) > 1 else make_world().corpus
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
recipe = load_recipe("text", overrides={"pretrain.steps": steps})
print(f"{len(text):,} characters, {len(set(text))} different ones (tokens); {steps} steps")


def report(entry):
    if entry["step"] % 20 == 0:
        validation = f"  validation {entry['validation']:.3f}" if "validation" in entry else ""
        print(f"step {entry['step']:4d}  loss {entry['loss']:.3f}{validation}", flush=True)


with tempfile.TemporaryDirectory() as folder:
    trained = pretrain(text, recipe, RunOptions(Path(folder), on_step=report))

prompt = text[:20]
ids = trained.vocabulary.encode(prompt)[None]
rng = np.random.default_rng(0)
tokens = generate(trained.model, ids, 300, temperature=0.8, top_p=0.95, rng=rng)
print(prompt + "".join(trained.vocabulary.decode(i) for i in tokens))
