"""Chapter 7: query, key and value matrices for given outputs.

Question 1 (e), which only answer sheet 000 has, gives three inputs made of four orthogonal vectors,
and asks for matrices Q, K and V such that the first two outputs are u_b - u_c and u_b. The outputs
differ from these by errors that are known exactly (derivations/12_construction.md).

    x_1 = u_d + u_b     x_2 = u_a     x_3 = u_c + u_b     |u_i| = β, all orthogonal
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tinyattn import ops
from tinyattn.attention.core import attend
from tinyattn.tensor import Tensor
from tinyattn.theory.queries import averaging_weight
from tinyattn.theory.weights import lead_needed


@dataclass(frozen=True)
class Parts:
    """The four orthogonal vectors of which the inputs are sums, each of norm β.

    Shapes: u_a, u_b, u_c, u_d (D,)
    """

    u_a: Tensor
    u_b: Tensor
    u_c: Tensor
    u_d: Tensor

    @property
    def beta(self) -> float:
        """Their norm."""
        return math.sqrt(ops.matmul(self.u_a, self.u_a).item())

    def inputs(self) -> Tensor:
        """x_1, x_2 and x_3 as rows: (3, D)."""
        return ops.stack([self.u_d + self.u_b, self.u_a, self.u_c + self.u_b])

    def value_matrix(self) -> Tensor:
        """V = (u_b u_bᵀ - u_c u_cᵀ)/β², so that V x_i = u_b, 0 and u_b - u_c: (D, D)."""
        return (outer(self.u_b, self.u_b) - outer(self.u_c, self.u_c)) / self.beta**2

    def query_matrix(self) -> Tensor:
        """Q = (u_d u_aᵀ + u_c u_dᵀ)/β²: x_2 attends to x_1, x_1 to x_3, x_3 to all: (D, D)."""
        return (outer(self.u_d, self.u_a) + outer(self.u_c, self.u_d)) / self.beta**2


def parts(orthonormal: Tensor, beta: float) -> Parts:
    """The vectors of norm β along four orthonormal rows.

    Shapes:  orthonormal (4, D)
    Raises:  ValueError for another number of rows, or a β below 0
    Source:  sheet 000, question 1 (e)
    """
    if orthonormal.ndim != 2 or orthonormal.shape[0] != 4 or not beta >= 0:
        raise ValueError("parts: needs 4 orthonormal rows, (4, D), and beta >= 0; "
                         f"got {orthonormal.shape} and {beta}")  # fmt: skip
    return Parts(*(orthonormal[i] * beta for i in range(4)))


def outer(u: Tensor, v: Tensor) -> Tensor:
    """u vᵀ: (D,), (D,) -> (D, D)."""
    return ops.matmul(u.reshape(-1, 1), v.reshape(1, -1))


def self_attention(
    x: Tensor, query: Tensor | None = None, key: Tensor | None = None, value: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Outputs and weights of a head with the scale 1 of the scores, as in the sheet.

    Forward: q_i = Q x_i, k_i = K x_i, v_i = V x_i; weights softmax(k_jᵀ q_i) over j; a matrix that
             is not given is the identity
    Shapes:  x (.., T, D), matrices (D, D) -> outputs (.., T, D), weights (.., T, T)
    Raises:  ValueError for other shapes
    Source:  sheet 000, question 1 (e)
    """
    given = [m.shape for m in (query, key, value) if m is not None]
    if x.ndim < 2 or any(shape != (x.shape[-1], x.shape[-1]) for shape in given):
        raise ValueError("self_attention: x must be (.., T, D), and each matrix (D, D); "
                         f"got {x.shape} and {given}")  # fmt: skip
    q, k, v = (x if m is None else ops.matmul(x, m.swapaxes(-1, -2)) for m in (query, key, value))
    return attend(q, k, v)


def self_weight(beta: float) -> float:
    """The weight of x_2 in its own output, if Q, K and V are identities.

    Forward: e^β²/(2 + e^β²); the two others have 1/(2 + e^β²) each, since their scores are 0.
             With `query_matrix` it is the weight of x_3 for x_1, and of x_1 for x_2
    Raises:  ValueError for a β below 0 or not finite
    Source:  derivations/12_construction.md
    """
    _check_length("self_weight", beta)
    return averaging_weight(3, beta * beta, many=1)  # a copy of one of three, by a lead of β²


def construction_errors(beta: float) -> dict[str, float]:
    """The exact distances of the outputs from the wanted ones.

    Forward: identities: |c_2 - u_a| = √10 β/(2 + e^β²); with Q and V: |c_1 - (u_b - u_c)| =
             √5 β/(2 + e^β²) and |c_2 - u_b| = √2 β/(2 + e^β²)
    Raises:  ValueError for a β below 0 or not finite
    Source:  derivations/12_construction.md
    """
    _check_length("construction_errors", beta)
    off = beta * math.exp(-beta * beta) * self_weight(beta)  # β/(2 + e^β²)
    return {"identities": math.sqrt(10) * off, "c_1": math.sqrt(5) * off, "c_2": math.sqrt(2) * off}


def beta_needed(error: float) -> float:
    """The β at which the weight of x_2 in its own output is 1 - `error`.

    Forward: β = √ln(2 (1 - η)/η), η = error
    Raises:  ValueError unless 0 < error < ⅔, the error at β = 0
    Source:  derivations/12_construction.md
    """
    if not 0 < error < 2 / 3:
        raise ValueError(f"beta_needed: error must be above 0 and below 2/3; got {error}")
    return math.sqrt(lead_needed(3, error))


def closest_copy(beta: float) -> float:
    """A lower bound of |c_2 - u_b| for x_2 = u_a + s u_d + t u_c, for all s and t.

    Forward: √2 β/3, since the weight of x_2 in its own output is at least a third
    Raises:  ValueError for a β below 0 or not finite
    Source:  derivations/12_construction.md
    """
    _check_length("closest_copy", beta)
    return math.sqrt(2) * beta / 3


def _check_length(where: str, beta: float) -> None:
    """Raises: ValueError unless 0 ≤ β < ∞."""
    if not 0 <= beta < math.inf:
        raise ValueError(f"{where}: beta must be at least 0 and finite; got {beta}")
