"""Gradient descent by hand: a model, a loss, and steps against the gradient.

python examples/00_train_by_hand.py
"""

import numpy as np

from tinyattn import nn, ops

# Sequences of five digits. The question: which digit is the largest?
rng = np.random.default_rng(0)
digits = rng.integers(0, 10, (1000, 5))
largest = digits.max(axis=1)


class Model(nn.Module):
    """A vector for each digit; the mean of the vectors goes through two linear layers."""

    def __init__(self, width=32):
        self.embedding = nn.Embedding(10, width, rng=rng, init=nn.normal(1.0))
        self.hidden = nn.Linear(width, width, rng=rng, init=nn.xavier_uniform)
        self.out = nn.Linear(width, 10, rng=rng, init=nn.xavier_uniform)

    def __call__(self, ids):
        return self.out(ops.gelu(self.hidden(self.embedding(ids).mean(axis=1))))


model = Model()
print(f"{model.parameter_count()} parameters; guessing has a loss of {np.log(10):.2f} nats")

learning_rate = 0.5
for step in range(401):
    loss = ops.cross_entropy(model(digits), largest)
    loss.backward()  # adds d loss / d w to each parameter's .grad
    for w in model.parameters():
        w.data -= learning_rate * w.grad  # a step against the gradient
        w.zero_grad()
    if step % 100 == 0:
        print(f"step {step:3d}  loss {loss.item():.3f}")

unseen = rng.integers(0, 10, (1000, 5))
right = model(unseen).data.argmax(axis=1) == unseen.max(axis=1)
print(f"right for sequences that it never saw: {right.mean():.1%}")
