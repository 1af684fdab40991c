"""Tensors and the computation graph: build an expression, differentiate it, check it.

python examples/01_first_gradient.py
"""

import numpy as np

from tinyattn import Tensor, gradcheck, ops

# Softmax of three scores, and the weighted average of three values: attention with one query.
scores = Tensor([2.0, 1.0, -1.0], requires_grad=True)
values = Tensor([10.0, 20.0, 30.0], requires_grad=True)
average = (ops.softmax(scores) * values).sum()
print("average of the values:", round(average.item(), 4))

# backward() goes from the result to the leaves and adds to each its gradient.
average.backward()
print("d average / d values :", np.round(values.grad, 4), "(the weights themselves)")
print("d average / d scores :", np.round(scores.grad, 4), "(weight times distance from average)")

# The same by hand: change one score a little, and measure the change of the average.
step = 1e-6
moved = Tensor([2.0 + step, 1.0, -1.0])
slope = ((ops.softmax(moved) * values).sum().item() - average.item()) / step
print("by finite differences:", round(slope, 4), "for the first score")

# gradcheck does this for all inputs at once, in random directions.
print("gradcheck            :", gradcheck(lambda s, v: (ops.softmax(s) * v).sum(), scores, values))
