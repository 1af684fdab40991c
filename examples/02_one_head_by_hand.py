"""One attention head in five lines, compared with the operation of the package.

python examples/02_one_head_by_hand.py
"""

import math

import numpy as np

from tinyattn import Tensor, ops
from tinyattn.attention import causal

T, D = 4, 8  # positions, width of the head
rng = np.random.default_rng(0)
q, k, v = (Tensor(rng.standard_normal((T, D))) for _ in range(3))

# How well does each query match each key? The causal mask hides later keys.
scores = q @ k.T / math.sqrt(D)  # (T, T)
allowed = causal(T, T)
weights = ops.softmax(scores, allowed)
y = weights @ v  # (T, D)

print("attention weights (rows: queries, columns: keys; a row sums to 1)")
for row in weights.numpy():
    print("   ", "  ".join(f"{w:.2f}" if w else "  · " for w in row))

# The package has this as one operation, which needs less memory.
fused = ops.attention(q, k, v, allowed)
print("largest difference from ops.attention:", np.abs(y.numpy() - fused.numpy()).max())

# The first position attends only to itself, so its output is its own value.
print("first output is the first value:", np.allclose(y.numpy()[0], v.numpy()[0]))
