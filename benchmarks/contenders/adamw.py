"""AdamW for libraries that have no optimizer, as one function of arrays.

Loshchilov and Hutter 2019, algorithm 2; as in PyTorch the learning rate also scales the decay.
"""

from typing import Any

import numpy as np
from common import ADAM, decays


def start(values: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The optimizer state: both moments of every parameter, zero."""
    return {name: (np.zeros_like(w), np.zeros_like(w)) for name, w in values.items()}


def moved(name: str, w: Any, g: Any, state: tuple[Any, Any], t: Any, sqrt: Any) -> Any:
    """A parameter and its state after step t = 1, 2, ..; `sqrt` is the library's."""
    (beta_1, beta_2), rate = ADAM["betas"], ADAM["learning_rate"]
    m = beta_1 * state[0] + (1 - beta_1) * g
    v = beta_2 * state[1] + (1 - beta_2) * g * g
    if decays(name):
        w = w * (1 - rate * ADAM["weight_decay"])
    w = w - rate * (m / (1 - beta_1**t)) / (sqrt(v / (1 - beta_2**t)) + ADAM["eps"])
    return w, (m, v)
