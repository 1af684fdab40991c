"""A GPT that learns to add, from examples such as 27+48=570 (digits of the sum last to first).

It takes about a minute: python examples/03_add_numbers.py
"""

import numpy as np

from tinyattn import ops
from tinyattn.models import GPT, GPTConfig, generate
from tinyattn.training.optimizer_table import make_optimizers
from tinyattn.training.schedule import Schedule

TOKENS = "0123456789+="
STEPS, BATCH = 400, 128


def ids(text):
    """The token ids of a text; a token is one character."""
    return [TOKENS.index(c) for c in text]


def problem(a, b):
    """27, 48 -> the ids of 27+48=570: backwards, so that each carry is known when it is needed."""
    return ids(f"{a:02d}+{b:02d}={a + b:03d}"[:6] + f"{a + b:03d}"[::-1])


rng = np.random.default_rng(0)
pairs = rng.permutation([(a, b) for a in range(100) for b in range(100)])
held_out, trained = pairs[:500], pairs[500:]  # the model never sees the first 500 sums

config = GPTConfig(vocabulary=12, context=9, layers=2, heads=4, width=64, dropout=0.0,
                   positions="rotary", gelu="tanh")  # fmt: skip
model = GPT(config, seed=0)
optimizers = make_optimizers(model, "muon")
schedule = Schedule("linear", learning_rate=0.02, warmup=10, end=STEPS)
print(f"{model.parameter_count():,} parameters; loss of guessing {np.log(10):.2f} nats per digit")

for step in range(STEPS):
    batch = np.array([problem(a, b) for a, b in rng.choice(trained, BATCH)])
    logits = model(batch[:, :-1])
    loss = ops.cross_entropy(logits[:, 5:], batch[:, 6:])  # the loss has only the sum
    loss.backward()
    for optimizer in optimizers:
        optimizer.step(schedule(step))
    if step % 50 == 0 or step == STEPS - 1:
        print(f"step {step:3d}  loss {loss.item():.3f}")

sequences = np.array([problem(a, b) for a, b in held_out])
answers = np.stack(list(generate(model, sequences[:, :6], 3, temperature=0)), axis=1)
right = (answers == sequences[:, 6:]).all(axis=1)
print(f"right sums among {len(right)} that it never saw: {right.mean():.1%}")
for ids_of_sum, answer in list(zip(sequences, answers, strict=True))[:5]:
    question = "".join(TOKENS[i] for i in ids_of_sum[:6])
    print("  ", question + "".join(TOKENS[i] for i in answer[::-1]))
