"""A tensor that remembers: build an expression, differentiate it, check it.

python examples/01_first_gradient.py
"""

import numpy as np

from tinyattn import Tensor, gradcheck, ops

# Three scores become weights, the weights average three values: attention with one query.
scores = Tensor([2.0, 1.0, -1.0], requires_grad=True)
values = Tensor([10.0, 20.0, 30.0], requires_grad=True)
average = (ops.softmax(scores) * values).sum()
print("average of the values:", round(average.item(), 4))

# backward() walks from the result to the leaves and leaves a gradient in each.
average.backward()
print("d average / d values :", np.round(values.grad, 4), "(the weights themselves)")
print("d average / d scores :", np.round(scores.grad, 4), "(weight times distance from average)")

# The same by hand: move one score a little, watch the average.
step = 1e-6
moved = Tensor([2.0 + step, 1.0, -1.0])
slope = ((ops.softmax(moved) * values).sum().item() - average.item()) / step
print("by finite differences:", round(slope, 4), "for the first score")

# gradcheck does that for every input at once, in random directions.
print("gradcheck            :", gradcheck(lambda s, v: (ops.softmax(s) * v).sum(), scores, values))
