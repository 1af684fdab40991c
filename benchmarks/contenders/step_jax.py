"""The contender JAX: the whole step, with the optimizer, compiled into one program."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import adamw
import jax
import plain_gpt
from common import SIZES, batch, choose, initial_values, options
from jax import numpy as jnp
from serving import serve


class Jax(plain_gpt.Library):
    """JAX's own functions; `key` is the key of the step's random numbers."""

    key: jax.Array

    def softmax(self, x):
        return jax.nn.softmax(x)

    def log_softmax(self, x):
        return jax.nn.log_softmax(x)

    def gelu(self, x):
        return jax.nn.gelu(x, approximate=not self.exact)

    def dropout(self, x):
        if not self.rate:
            return x
        self.key, key = jax.random.split(self.key)
        return jnp.where(jax.random.bernoulli(key, 1 - self.rate, x.shape), x / (1 - self.rate), 0)


chosen = choose(options())
size = SIZES[chosen.size]
library = Jax(jnp, chosen.dropout, chosen.gelu)
examples = jax.tree.map(jnp.asarray, plain_gpt.flat_examples(*batch(size, chosen.batch)))


def loss_of(values, examples, key):
    library.key = key
    return plain_gpt.loss(library, values, size, examples)


def updated(values, state, t, examples, key):
    loss, gradient = jax.value_and_grad(loss_of)(values, examples, key)
    for name, g in gradient.items():
        values[name], state[name] = adamw.moved(name, values[name], g, state[name], t, jnp.sqrt)
    return values, state, loss


compiled = jax.jit(updated, donate_argnums=(0, 1))
values = jax.tree.map(jnp.asarray, initial_values(size))
state = jax.tree.map(jnp.asarray, adamw.start(initial_values(size)))
number = iter(range(1, 1_000_000))


def step() -> float:
    global values, state
    t = next(number)
    key = jax.random.key(t)
    values, state, loss = compiled(values, state, jnp.float32(t), examples, key)
    jax.block_until_ready(values)
    return float(loss)


serve(step, f"jax {jax.__version__}")
