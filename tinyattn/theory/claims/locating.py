"""Chapter 7: what papers say about finding a fact inside a model, and changing it.

Here the claims are about small networks that can be computed exactly; what trained models say is in
derivations/26_where_it_lies.md. An edit adds the least change D with k D = δ to a matrix, and k is
the input whose output is to move by δ.
"""

from __future__ import annotations

import numpy as np

from tinyattn import ops
from tinyattn.nn import FeedForward, Hooks
from tinyattn.theory.claim import CONDITIONAL, FALSE, TRUE, Claim
from tinyattn.theory.finding import Finding, at_least, at_most, equal, every
from tinyattn.theory.lab import Lab, Real, Whole
from tinyattn.theory.least_change import least_change, second_moment
from tinyattn.theory.queries import copying_query

WIDTH = 4
"""The number of elements of an output."""
NO_RIDGE = 1e-12
"""A λ so small that it hardly matters."""
COPIED = 60.0
"""The lead of the score of a key that is copied: other weights are below e^-60."""


def normal(lab: Lab, *shape: int) -> np.ndarray:
    """Independent standard normal elements, as an array."""
    return lab.normal(*shape).numpy()


# Edits ---------------------------------------------------------------------------------------


def no_change_is_smaller(lab: Lab, n: int, F: int) -> Finding:
    """Each other change is D + E with kᵀE = 0, and costs tr(EᵀCE) more."""
    keys, key, delta = normal(lab, n, F), normal(lab, F), normal(lab, WIDTH)
    D, C = least_change(keys, key, delta), second_moment(keys)
    E = normal(lab, F, WIDTH)
    E -= np.outer(key, key @ E) / (key @ key)
    cost, more, both = (np.trace(X.T @ C @ X) for X in (D, E, D + E))
    return every(
        equal("k D", key @ D, delta),
        equal("rank", np.linalg.matrix_rank(D), 1),
        equal("cost of D + E over cost of D and of E", both / (cost + more), 1.0),
    )


def only_one_moves(lab: Lab, shared: float) -> Finding:
    """With keys that all contain one vector, and C = I, the others move too."""
    direction, F = normal(lab, 32), 32
    key, *others = shared * direction + normal(lab, 21, F)
    moved = np.array(others) @ least_change(np.eye(F), key, np.ones(1))
    return at_most("mean distance of the others in δ", np.abs(moved).mean(), 0.05)


def how_far_others_move(lab: Lab, n: int, F: int, part: float) -> Finding:
    """By δ·(k_iᵀC⁻¹k)/(kᵀC⁻¹k), which is `part` for k_i = part·k + what is orthogonal in C⁻¹."""
    keys, key, delta = normal(lab, n, F), normal(lab, F), normal(lab, WIDTH)
    inverse = np.linalg.inv(second_moment(keys))
    other = normal(lab, F)
    other -= key * (other @ inverse @ key) / (key @ inverse @ key)
    moved = (other + part * key) @ least_change(keys, key, delta)
    return equal("largest error of the distance", np.abs(moved - part * delta).max(), 0.0, 1e-9)


def tested_stay_so_do_others(lab: Lab, n: int, F: int) -> Finding:
    """The literal claim: where the tested keys stay, new keys move by less than 0.05 δ."""
    stay, others = seen_and_new(lab, n, F)
    return every(at_most("tested keys", stay, 1e-3), at_most("new keys", others, 0.05))


def tested_keys_always_stay(lab: Lab, n: int, more: int) -> Finding:
    """Of n < F keys in C none moves for λ → 0; new normal ones do, by δ over the distance of k."""
    F = n + more
    keys, key = normal(lab, n, F), normal(lab, F)
    D = least_change(keys, key, np.ones(1), ridge=NO_RIDGE)
    outside = key - np.linalg.pinv(keys) @ (keys @ key)  # the part of k that no key contains
    return every(
        at_most("largest distance of a key in C", np.abs(keys @ D).max(), 1e-3),
        equal("new keys, root mean square times |k outside|",
              np.linalg.norm(D) * np.linalg.norm(outside), 1.0, 1e-3),
    )  # fmt: skip


def seen_and_new(lab: Lab, n: int, F: int) -> tuple[float, float]:
    """The mean distances, in δ, of keys that are in C and of as many new ones."""
    keys, new, key = normal(lab, n, F), normal(lab, n, F), normal(lab, F)
    D = least_change(keys, key, np.ones(1), ridge=NO_RIDGE)
    return float(np.abs(keys @ D).mean()), float(np.abs(new @ D).mean())


# Where to edit -------------------------------------------------------------------------------


def edits_before_and_after(lab: Lab, n: int) -> Finding:
    """x at the name -> W_1 -> attention copies it to the last position -> W_2 -> answer."""
    x, W_1, W_2 = normal(lab, n, 6), normal(lab, 6, 6), normal(lab, 6, WIDTH)
    keys = lab.orthonormal(n)
    query = copying_query(keys, 0, COPIED)

    def answer(x: np.ndarray, W_1: np.ndarray, W_2: np.ndarray) -> np.ndarray:
        c, _ = lab.attend(query, keys, lab.tensor(x @ W_1))
        found: np.ndarray = c.numpy() @ W_2
        return found

    other, delta = normal(lab, 6), normal(lab, WIDTH)
    name, last = x.copy(), x.copy()
    name[0], last[-1] = other, other
    seen = np.eye(6)
    before = least_change(seen, x[0], delta @ np.linalg.pinv(W_2))
    after = least_change(seen, x[0] @ W_1, delta)
    start = answer(x, W_1, W_2)
    return every(
        equal("the other's state at the name: answer", answer(name, W_1, W_2), other @ W_1 @ W_2),
        equal("at the last position", answer(last, W_1, W_2), start),
        equal("edit of W_1: answer moved", answer(x, W_1 + before, W_2) - start, delta, 1e-8),
        equal("edit of W_2", answer(x, W_1, W_2 + after) - start, delta, 1e-8),
    )


# Taking parts out ----------------------------------------------------------------------------


def lead(lab: Lab, m: int, without: int) -> float:
    """The lead of one of two outputs of m equal neurons, some of which are taken out."""
    layer = FeedForward(2, m, rng=lab.rng)
    for linear, row in ((layer.expand, [[1.0], [1.0]]), (layer.contract, [[1.0, 0.0]])):
        linear.weight.data[:] = np.broadcast_to(row, linear.weight.shape)
    layer.astype("float64")
    layer.to(lab.device)
    keep = lab.tensor(np.arange(m) >= without)
    y = layer(lab.tensor([1.0, 0.0]), hooks=Hooks({"hidden": lambda h: h * keep}))
    return (y[0] - y[1]).item()


def nothing_lost_without_one(lab: Lab, m: int) -> Finding:
    """The literal claim: what can be lost one by one, can be lost together."""
    return every(
        at_least("lead without one", lead(lab, m, 1), 0.1),
        at_least("lead without all", lead(lab, m, m), 0.1),
    )


def each_has_its_part(lab: Lab, m: int) -> Finding:
    """Without k of m equal neurons the lead is (m - k)/m of that of all."""
    k = int(lab.rng.integers(m + 1))
    return every(
        equal("lead without some, as a part", lead(lab, m, k) / lead(lab, m, 0), (m - k) / m),
        equal("without all", lead(lab, m, m), 0.0),
        equal("with all", lead(lab, m, 0), m * ops.gelu(lab.tensor([1.0])).item()),
    )


def logit(lab: Lab, x: np.ndarray, u: np.ndarray) -> float:
    """norm(x)·u, with neither gain nor bias."""
    gain, bias = lab.tensor(np.ones(len(x))), lab.tensor(np.zeros(len(x)))
    y = ops.layer_norm(lab.tensor(x), gain, bias, eps=0.0)
    return float(y.numpy() @ u)


def terms(parts: np.ndarray, u: np.ndarray) -> np.ndarray:
    """What each part of x = Σ parts adds to norm(x)·u, with the standard deviation of x."""
    centred = parts - parts.mean(axis=1, keepdims=True)
    found: np.ndarray = centred @ u / parts.sum(axis=0).std()
    return found


def loses_its_term(lab: Lab, size: float) -> Finding:
    """The literal claim, for a large part that adds nothing to the logit."""
    parts, u = np.array([[1.0, -1, 0, 0], [0, 0, size, -size]]), np.array([1.0, 0, 0, 0])
    lost = logit(lab, parts.sum(axis=0), u) - logit(lab, parts[0], u)
    return equal("the logit loses", lost, terms(parts, u)[1], 0.01)


def sums_and_scales(lab: Lab, n: int) -> Finding:
    """Σ terms is the logit; without part i it is (logit - term_i)·σ/σ_i, σ_i that of the rest."""
    parts, u = normal(lab, n, 8), normal(lab, 8)
    x, each = parts.sum(axis=0), terms(parts, u)
    rest = x - parts[0]
    return every(
        equal("sum of the terms over the logit", each.sum() / logit(lab, x, u), 1.0, 1e-8),
        equal("without part 1, over the formula",
              logit(lab, rest, u) / ((each.sum() - each[0]) * x.std() / rest.std()), 1.0, 1e-8),
    )  # fmt: skip


def zero_and_renormalized(lab: Lab, n: int) -> Finding:
    """The weights with one of them 0, divided by their sum, and those of scores with -∞ there."""
    scores, j = normal(lab, n), int(lab.rng.integers(n))
    weights = lab.weights(scores).numpy().copy()
    weights[j] = 0
    rest = np.delete(scores, j)
    masked = np.insert(lab.weights(rest).numpy(), j, 0)
    return equal("largest difference", np.abs(weights / weights.sum() - masked).max(), 0.0)


# fmt: off
CLAIMS = [
    Claim(
        "P-1", "Meng and others 2022, equation 2 (ROME)", TRUE,
        says="of all changes that give one key another output, the rank-one change with C⁻¹k moves "
        "the outputs of other keys least",
        truth="true: another change costs tr(EᵀCE) more, E their difference",
        under_test=(least_change, second_moment),
        corrected=no_change_is_smaller, domain={"n": Whole(1, 12), "F": Whole(2, 10)},
    ),
    Claim(
        "P-2", "Meng and others 2022: specificity of an edit", CONDITIONAL,
        says="an edit of rank one changes one fact, and leaves the others as they are",
        truth="another key k_i moves by δ·(k_iᵀC⁻¹k)/(kᵀC⁻¹k): by nothing if it is orthogonal to k "
        "in C⁻¹, by all of δ if it is the same",
        under_test=(least_change, second_moment),
        corrected=how_far_others_move,
        domain={"n": Whole(1, 12), "F": Whole(2, 10), "part": Real(-2, 2)},
        literal=only_one_moves, witness={"shared": 2.0},
    ),
    Claim(
        "P-3", "a common way to test an edit", FALSE,
        says="an edit after which the tested keys have not moved moves no others",
        truth="if the tested keys are in C and fewer than dimensions, none of them moves, whatever "
        "the model has learned; new normal keys move by δ over the distance of k from them",
        under_test=(least_change,),
        corrected=tested_keys_always_stay, domain={"n": Whole(1, 12), "more": Whole(2, 20)},
        literal=tested_stay_so_do_others, witness={"n": 20, "F": 64},
    ),
    Claim(
        "P-4", "Hase and others 2023", TRUE,
        says="where patching finds a fact does not say where to edit it",
        truth="true: if attention copies a state from the name to the last position, a patch "
        "before it works at the name only, but a matrix before and one after it can be edited",
        under_test=(least_change, ops.attention, copying_query),
        corrected=edits_before_and_after, domain={"n": Whole(2, 8)},
    ),
    Claim(
        "P-5", "a common reading of knock-outs", FALSE,
        says="a part without which no answer is lost is not used for any",
        truth="each of m equal neurons adds 1/m of the lead: without one of them no answer is "
        "lost, and without all of them every answer",
        under_test=(FeedForward, ops.gelu),
        corrected=each_has_its_part, domain={"m": Whole(2, 40)},
        literal=nothing_lost_without_one, witness={"m": 2},
    ),
    Claim(
        "P-6", "a common reading of direct logit attribution (Elhage and others 2021)", FALSE,
        says="a logit loses, without a part, what the part adds to it",
        truth="the terms of the parts sum to the logit, if σ is that of their sum; without part i "
        "the logit is (logit - term_i)·σ/σ_i, since layer norm divides by the σ_i of the rest",
        under_test=(ops.layer_norm,),
        corrected=sums_and_scales, domain={"n": Whole(2, 8)},
        literal=loses_its_term, witness={"size": 3.0},
    ),
    Claim(
        "P-7", "Geva and others 2023: attention knockout", TRUE,
        says="to forbid a query to attend to a key is the same as to set its weight to 0, if the "
        "others are divided by their sum",
        truth="true: the ratios of the other weights do not depend on the score of the key",
        under_test=(ops.attention,),
        corrected=zero_and_renormalized, domain={"n": Whole(2, 9)},
    ),
]
