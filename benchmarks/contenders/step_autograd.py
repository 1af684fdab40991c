"""The contender HIPS autograd: NumPy with gradients, composed of primitive operations."""

from importlib.metadata import version

import adamw
import autograd.numpy
import autograd.scipy.special
import numpy as np
import plain_gpt
from autograd import value_and_grad
from common import SIZES, batch, choose, initial_values, options
from serving import serve


class Autograd(plain_gpt.Library):
    def erf(self, x):
        return autograd.scipy.special.erf(x)


chosen = choose(options())
size = SIZES[chosen.size]
library = Autograd(autograd.numpy, chosen.dropout, chosen.gelu)
examples = plain_gpt.flat_examples(*batch(size, chosen.batch))
loss_and_gradient = value_and_grad(lambda P: plain_gpt.loss(library, P, size, examples))
values = initial_values(size)
state = adamw.start(values)
number = iter(range(1, 1_000_000))


def step() -> float:
    loss, gradient = loss_and_gradient(values)
    t = next(number)
    for name, g in gradient.items():
        assert g.dtype == np.float32
        values[name], state[name] = adamw.moved(name, values[name], g, state[name], t, np.sqrt)
    return float(loss)


serve(step, f"autograd {version('autograd')}")
