"""Chapter 7: question 1 (c) i, keys with small noise in every direction.

Noise in the keys changes scores in proportion to the norm of the query. So the norm must be large
enough for a lead over n - 2 keys, and small enough for a small effect of the noise.
"""

from __future__ import annotations

from tinyattn.theory.claim import CONDITIONAL, Claim
from tinyattn.theory.laws.noisy_keys import (
    noise_moves_weights,
    noise_splits_two_keys,
    one_head_has_a_window,
)

LITTLE = 0.05
"""The largest change of weights that is called small."""

# fmt: off
CLAIMS = [
    Claim(
        "S000-c.i", "71-75", CONDITIONAL,
        says="with vanishing noise q = M(μ_a + μ_b) averages v_a and v_b, for any large M",
        truth="|c - ½(v_a + v_b)| ≤ diam(V)·((n - 2)/(n - 2 + 2e^M) + tanh(Mδ/√2)) for noise of "
        "norm δ, where diam(V) is the largest distance of two values: M must exceed ln n by a few "
        "(any M for n = 2), and M ≪ 1/(2√α)",
        check=one_head_has_a_window,
        literal=noise_splits_two_keys.gives_at_most("mean |α_a - ½|", LITTLE),
        witness={"M": 1000.0, "x": 0.0, "alpha": 1e-4},
    ),
    Claim(
        "S001-c.i", "106-107", CONDITIONAL,
        says="for α → 0 k_i ≈ μ_i, so the same query can be used",
        truth="as S000-c.i: α must be small enough for the chosen M",
        check=one_head_has_a_window,
        literal=noise_splits_two_keys.gives_at_most("mean |α_a - ½|", LITTLE),
        witness={"M": 10_000.0, "x": 0.0, "alpha": 1e-6},
    ),
    Claim(
        "S002-c.1", "10", CONDITIONAL,
        says="with vanishing noise q = c_1(μ_a + μ_b) + c_2 Σ μ_i + x averages, for any x ⟂ μ_i",
        truth="weights change by up to tanh(|q|δ/2); x and c_2 increase |q|, so they must be small",
        check=noise_moves_weights,
        literal=noise_splits_two_keys.gives_at_most("mean |α_a - ½|", LITTLE),
        witness={"M": 10.0, "x": 10_000.0, "alpha": 1e-4},
    ),
    Claim(
        "S004-c.2", "116", CONDITIONAL, of_question=True,
        says="a single head is robust to small noise in the keys",
        truth="noise of norm δ changes weights by at most tanh(|q|δ/2), which can be attained; so "
        "|q|δ must be small",
        check=noise_moves_weights,
        literal=noise_moves_weights.gives_at_most("½ Σ |Δα_i| for noise along q", LITTLE),
        witness={"n": 2, "c1": 100.0, "c2": 0.0, "x": 0.0, "delta": 0.01},
    ),
]
