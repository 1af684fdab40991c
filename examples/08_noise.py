"""A query for the mean of two values, and a key of random length (noisy keys).

python examples/08_noise.py
"""

import numpy as np

from tinyattn import Tensor
from tinyattn.theory import averaging_query, noisy_keys, one_head, one_head_distribution

a, b, draws, bins = 0, 1, 20_000, 11
keys = Tensor(np.eye(2))  # orthonormal, as in A5 (assignment 5 of Stanford CS224N)
values = Tensor([[1.0], [0.0]])  # an output of 1 is v_a, of 0 is v_b; the aim is 0.5

# k_a keeps its direction. Its length is normal with mean 1 and variance 0.5, sometimes below 0.
rng = np.random.default_rng(0)
noisy = noisy_keys(rng, keys, spread=1e-8, length_variances=[0.5, 0.0], draws=draws)
edges = np.linspace(0, 1, bins + 1)

for size in (1.0, 2.0, 10.0):
    output, _ = one_head(noisy, values, averaging_query(keys, [a, b], size))
    drawn, _ = np.histogram(output.numpy(), edges)

    # The distribution function gives the expected share of each bin without drawing.
    law = one_head_distribution(size, n=2)
    expected = np.diff([0.0, *(law.below(edge) for edge in edges[1:-1]), 1.0])

    print(f"q = {size:g} (k_a + k_b): variance {output.numpy().var():.3f}, "
          f"by the law {law.variance():.3f}; humps: {len(law.modes())}")  # fmt: skip
    for i in range(bins):
        share = drawn[i] / draws
        line = f"   {edges[i]:.2f} to {edges[i + 1]:.2f}  {share:4.0%}  law {expected[i]:4.0%}"
        print(line, "#" * round(100 * share))
print("A larger query should give a better mean, but it gives one value or the other.")
