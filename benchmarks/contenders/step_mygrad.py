"""The contender MyGrad: a tape over NumPy, with softmax and its logarithm as one operation each."""

from importlib.metadata import version

import adamw
import mygrad
import numpy as np
import plain_gpt
from common import SIZES, batch, choose, initial_values, options
from mygrad import nnet
from serving import serve


class MyGrad(plain_gpt.Library):
    def softmax(self, x):
        return nnet.softmax(x, axis=-1)

    def log_softmax(self, x):
        return nnet.logsoftmax(x, axis=-1)


mygrad.turn_memory_guarding_off()  # its documentation's advice for speed
chosen = choose(options())
size = SIZES[chosen.size]
library = MyGrad(mygrad, chosen.dropout, chosen.gelu)
examples = plain_gpt.flat_examples(*batch(size, chosen.batch))
values = initial_values(size)
state = adamw.start(values)
number = iter(range(1, 1_000_000))


def step() -> float:
    P = {name: mygrad.tensor(w) for name, w in values.items()}
    loss = plain_gpt.loss(library, P, size, examples)
    loss.backward()
    t = next(number)
    for name, w in P.items():
        assert w.grad.dtype == np.float32
        values[name], state[name] = adamw.moved(name, w.data, w.grad, state[name], t, np.sqrt)
    return float(loss.data)


serve(step, f"mygrad {version('mygrad')}")
