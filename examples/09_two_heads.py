"""Three ways to the mean of two values when the length of a key is random.

python examples/09_two_heads.py
"""

import numpy as np

from tinyattn import Tensor
from tinyattn.theory import (
    averaging_query,
    copying_query,
    noisy_keys,
    one_head,
    orthonormal,
    repelling_query,
    two_heads,
)

a, b, n, size, draws, bins = 0, 1, 6, 20.0, 10_000, 11
rng = np.random.default_rng(0)
means, values = Tensor(orthonormal(rng, n, 8)), Tensor(np.eye(n))  # an output contains its weights
wanted = np.array([0.5, 0.5, 0, 0, 0, 0])

# One head has a query for both keys, two heads have a query for one key each. The query of the
# third way repels all other keys. It is orthogonal to the two, so their lengths have no influence.
pair = averaging_query(means, [a, b], size)
first, second = copying_query(means, a, size), copying_query(means, b, size)
repelling = repelling_query(means, [a, b], size)


def three_ways(random: int) -> dict[str, np.ndarray]:
    """Outputs (N, n) of each way, when the key with this index has the random length."""
    lengths = [0.5 if key == random else 0.0 for key in range(n)]
    keys = noisy_keys(rng, means, spread=1e-8, length_variances=lengths, draws=draws)
    found = {
        "one head": one_head(keys, values, pair),
        "two heads": two_heads(keys, values, first, second),
        "one that repels": one_head(keys, values, repelling),
    }
    return {name: output.numpy() for name, (output, _) in found.items()}


print("k_a has a random length: the weight of v_a")
for name, output in three_ways(random=a).items():
    shares = np.histogram(output[:, a], bins, range=(0, 1))[0] / draws
    error = ((output - wanted) ** 2).sum(axis=1).mean()
    print(f"  {name:15}  variance {output.var(axis=0).sum():.6f}, mean square error {error:.6f}")
    print("    0 |" + " ".join(f"{s:4.0%}" if s >= 0.005 else "   ." for s in shares) + " | 1")

print("another key has a random length")
for name, output in three_ways(random=2).items():
    print(f"  {name:15}  variance {output.var(axis=0).sum():.6f}")
