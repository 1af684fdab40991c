"""Attention copies an orthogonal input too: three inputs made of four orthogonal vectors.

python examples/10_construction.py
"""

import numpy as np

from tinyattn import Tensor
from tinyattn.theory import beta_needed, construction_errors, orthonormal, parts, self_attention

rng = np.random.default_rng(0)
directions = Tensor(orthonormal(rng, 4, 8))  # u_a, u_b, u_c and u_d will have length β


def spelled(vector, u):
    """A vector as a sum of u_a, u_b, u_c and u_d."""
    shares = {name: (getattr(u, name) * vector).sum().item() / u.beta**2 for name in vars(u)}
    terms = (f"{share:+.2f} {name}" for name, share in shares.items() if abs(share) > 0.005)
    return " ".join(terms) or "0"


def show(what, u, *matrices):
    """Print the attention weights and the outputs."""
    outputs, weights = self_attention(u.inputs(), *matrices)
    print(what)
    for i, row in enumerate(weights.numpy()):
        bars = "  ".join(f"{weight:.2f} {'#' * round(10 * weight):10}" for weight in row)
        print(f"    {bars}  c_{i + 1} = {spelled(outputs[i], u)}")


u = parts(directions, 2.0)
for i, x in enumerate(u.inputs()):
    print(f"x_{i + 1} = {spelled(x, u)}")
show("no matrices: x_2 is orthogonal to the others, but its weights on them are not 0", u)

# Only x_1 contains u_d, and only x_3 contains u_c: with these x_1 attends to x_3, and x_2 to x_1.
# Values are u_b, 0 and u_b - u_c.
Q, V = u.query_matrix(), u.value_matrix()
show("Q and V for c_1 = u_b - u_c and c_2 = u_b", u, Q, None, V)

# Answer sheet 000 (a published solution of A5) requires of x_1 only that its score for x_3 is
# larger than that for x_1. With this Q its score for x_2 is the largest.
wrong = Q + 10 * u.u_a.reshape(-1, 1) @ u.u_d.reshape(1, -1) / u.beta**2
show("a Q that meets the conditions of sheet 000, but fails", u, wrong, None, V)

print("length β for which the others have a weight of")
for error in (0.1, 0.01, 0.001):
    beta = beta_needed(error)
    off = construction_errors(beta)["c_2"] / beta
    print(f"    {error:5.1%}: β = {beta:.3f}, and c_2 is wrong by {off:.2%} of u_b")
