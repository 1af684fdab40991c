"""Chapter 7: claims of papers about finding a fact inside a model, and changing it.

The first claims are about small networks that can be computed exactly, the last ones about trained
models, whose results are in derivations/26_where_it_lies.md. An edit adds a rank-one update D to a
matrix: D changes the output for one input, the key k, by δ.
"""

from __future__ import annotations

import numpy as np

from tinyattn import ops
from tinyattn.nn import FeedForward, Hooks
from tinyattn.theory.claim import CONDITIONAL, FALSE, OPEN, TRUE, Claim
from tinyattn.theory.claims.extraction import INVERTED
from tinyattn.theory.finding import NEARLY, Finding, at_most, equal, every, fact
from tinyattn.theory.lab import Lab, Real, Whole
from tinyattn.theory.law import check
from tinyattn.theory.laws.weights import masking_divides_by_the_rest
from tinyattn.theory.rank_one_update import RIDGE, rank_one_update, second_moment

WIDTH = 4
"""The number of elements of an output."""
HARDLY = 1e-12
"""A ridge that hardly matters."""


def normal(lab: Lab, *shape: int) -> np.ndarray:
    """Independent standard normal elements, as an array."""
    return lab.normal(*shape).numpy()


# Edits ---------------------------------------------------------------------------------------


@check(rank_one_update, second_moment, n=Whole(1, 12), F=Whole(2, 10))
def no_change_is_smaller(lab: Lab, n: int, F: int) -> Finding:
    """The rank-one update D with C⁻¹k has the least mean square of the changes of other outputs.

    With C + λI in place of C it has the least sum of this and λ|D|². Each other change is D + E
    with kᵀE = 0, and costs more by the cost of E.
    """
    keys, key, delta = normal(lab, n, F), normal(lab, F), normal(lab, WIDTH)
    E = normal(lab, F, WIDTH)
    E -= np.outer(key, key @ E) / (key @ key)
    D, ridge = rank_one_update(keys, key, delta), RIDGE * (keys**2).sum() / (n * F)
    cost, more, both = (((keys @ X) ** 2).sum() / n + ridge * (X**2).sum() for X in (D, E, D + E))
    return every(
        equal("k D", key @ D, delta),
        equal("rank", np.linalg.matrix_rank(D), 1),
        equal("cost of D + E over cost of D and of E", both / (cost + more), 1.0),
    )


def others_stay(lab: Lab, n: int, shared: float) -> Finding:
    """Outputs of new keys hardly change, if n keys that share a vector with them are in C."""
    F = 32
    keys = shared * normal(lab, F) + normal(lab, n + 21, F)
    D = rank_one_update(keys[:n], keys[n], np.ones(1))
    return at_most("mean change of other outputs, in δ", np.abs(keys[n + 1 :] @ D).mean(), NEARLY)


@check(rank_one_update, second_moment, n=Whole(1, 12), F=Whole(2, 10), part=Real(-2, 2))
def how_far_others_change(lab: Lab, n: int, F: int, part: float) -> Finding:
    """The output for another key k_i changes by δ·(k_iᵀC⁻¹k)/(kᵀC⁻¹k).

    That is part·δ for k_i = part·k + a vector orthogonal to k in C⁻¹: 0 if k_i is orthogonal to k,
    all of δ if it is the same.
    """
    keys, key, delta = normal(lab, n, F), normal(lab, F), normal(lab, WIDTH)
    ridge = RIDGE * (keys**2).sum() / (n * F)
    inverse = np.linalg.inv(keys.T @ keys / n + ridge * np.eye(F))
    other = normal(lab, F)
    other -= key * (other @ inverse @ key) / (key @ inverse @ key)
    change = (other + part * key) @ rank_one_update(keys, key, delta)
    return every(
        equal("C", second_moment(keys) @ inverse, np.eye(F), INVERTED),
        equal("largest error of the change", np.abs(change - part * delta).max(), 0.0, INVERTED),
    )


@check(rank_one_update, n=Whole(1, 12), more=Whole(2, 20))
def tested_keys_always_stay(lab: Lab, n: int, more: int) -> Finding:
    """If only n tested keys are in C, and λ → 0, their outputs stay for any model.

    This is so for fewer keys than dimensions, F = n + more, and a k that is not in their span. The
    outputs of new standard normal keys change by δ over the distance of k from that span (root mean
    square).
    """
    F = n + more
    keys, key = normal(lab, n, F), normal(lab, F)
    D = rank_one_update(keys, key, np.ones(1), HARDLY)
    distance = float(np.linalg.norm(key - np.linalg.pinv(keys) @ (keys @ key)))
    return every(
        at_most("largest change of a tested output", np.abs(keys @ D).max(), NEARLY**2),
        equal("change of new outputs, in δ", np.linalg.norm(D), 1 / distance, NEARLY**2 / distance),
    )


@check(rank_one_update, n=Whole(2, 8))
def edited_where_patching_finds_nothing(lab: Lab, n: int) -> Finding:
    """A layer that adds the same b for all x has no patching effect, though an edit changes y by δ.

    Here y = x A + b: the first map contains the facts, and the second is edited.
    """
    x, A, b = normal(lab, n, 6), normal(lab, 6, WIDTH), normal(lab, WIDTH)
    W, delta = np.zeros((6, WIDTH)), normal(lab, WIDTH)
    (first, other), own = x[:2], x[0] @ A
    D = rank_one_update(x, first, delta)
    return every(
        equal("patch of the first output", other @ A + first @ W + b, other @ A + other @ W + b),
        equal("patch of the second output", own + other @ W + b, own + first @ W + b),
        equal("edit of the second matrix", own + first @ (W + D) + b, own + b + delta),
    )


# Taking parts out ----------------------------------------------------------------------------


def lead(lab: Lab, m: int, without: int) -> float:
    """The lead of the right answer: m equal neurons support it, a bias of half a neuron the other.

    `without` of the neurons are taken out.
    """
    layer = FeedForward(2, m, rng=lab.rng)
    layer.astype("float64")
    one = ops.gelu(lab.tensor([1.0])).item()
    rows = {"expand.weight": [[1.0], [1.0]], "expand.bias": [0.0],
            "contract.weight": [[1.0, 0.0]], "contract.bias": [0.0, one / 2]}  # fmt: skip
    for name, parameter in layer.named_parameters():
        parameter.data[:] = np.broadcast_to(np.array(rows[name]), parameter.shape)
    layer.to(lab.device)
    keep = lab.tensor(np.arange(m) >= without)
    y = layer(lab.tensor([1.0, 0.0]), hooks=Hooks({"hidden": lambda h: h * keep}))
    return (y[0] - y[1]).item() / one


def kept_without_any(lab: Lab, m: int) -> Finding:
    """If the answer is right without each single neuron, it is right without all of them."""
    one, every_one = lead(lab, m, 1), lead(lab, m, m)
    return fact(one <= 0 or every_one > 0, "wrong without one, or right without all",
                f"lead {one:.4g} without one, {every_one:.4g} without all")  # fmt: skip


@check(FeedForward, ops.gelu, m=Whole(2, 40))
def each_has_its_part(lab: Lab, m: int) -> Finding:
    """Without k of m equal neurons the lead is m - k - ½: below 0 only without all of them."""
    k = int(lab.rng.integers(m + 1))
    return every(
        *(equal(f"lead without {i}", lead(lab, m, i), m - i - 0.5, INVERTED) for i in (0, 1, k)),
        equal("lead without all", lead(lab, m, m), -0.5, INVERTED),
    )


def logit(lab: Lab, x: np.ndarray, u: np.ndarray) -> float:
    """norm(x)·u, with neither gain nor bias."""
    gain, bias = lab.tensor(np.ones(len(x))), lab.tensor(np.zeros(len(x)))
    y = ops.layer_norm(lab.tensor(x), gain, bias, eps=0.0)
    return float(y.numpy() @ u)


def terms(parts: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The term of each part of x = Σ parts in norm(x)·u, with the standard deviation of x."""
    centred = parts - parts.mean(axis=1, keepdims=True)
    found: np.ndarray = centred @ u / parts.sum(axis=0).std()
    return found


def loses_its_term(lab: Lab, size: float) -> Finding:
    """The literal claim, for a large part whose term is 0."""
    parts, u = np.array([[1.0, -1, 0, 0], [0, 0, size, -size]]), np.array([1.0, 0, 0, 0])
    lost = logit(lab, parts.sum(axis=0), u) - logit(lab, parts[0], u)
    return equal("the logit loses", lost, terms(parts, u)[1], NEARLY)


@check(ops.layer_norm, n=Whole(2, 8))
def sums_and_scales(lab: Lab, n: int) -> Finding:
    """The terms sum to the logit if σ is that of the sum.

    Without a part that no later layer reads, the logit is (logit - term)·σ/σ', since layer norm
    divides by the σ' of the rest (norm without a bias).
    """
    parts, u = normal(lab, n, 8), normal(lab, 8)
    x, each = parts.sum(axis=0), terms(parts, u)
    rest = x - parts[0]
    return every(
        equal("sum of the terms", each.sum(), logit(lab, x, u), INVERTED),
        equal("logit without part 1", logit(lab, rest, u),
              (each.sum() - each[0]) * x.std() / rest.std(), INVERTED),
    )  # fmt: skip


# fmt: off
CLAIMS = [
    Claim(
        "P-1", "Meng and others 2022, equation 2 (ROME)", TRUE,
        says="of all changes that give a key another output, the rank-one update with C⁻¹k changes "
        "the outputs of other keys least",
        check=no_change_is_smaller,
    ),
    Claim(
        "P-2", "a common summary of ROME (Meng and others 2022)", CONDITIONAL,
        says="an edit of rank one changes one fact, and leaves the others as they are",
        check=how_far_others_change,
        literal=others_stay, witness={"n": 200, "shared": 3.0},
    ),
    Claim(
        "P-3", "a common way to test an edit", FALSE,
        says="an edit after which the outputs of the tested keys stay leaves others as they are",
        check=tested_keys_always_stay,
        literal=tested_keys_always_stay.gives("change of new outputs, in δ", 0),
        witness={"n": 20, "more": 44},
    ),
    Claim(
        "P-4", "Hase and others 2023", TRUE,
        says="where patching finds a fact does not say where to edit it",
        check=edited_where_patching_finds_nothing,
    ),
    Claim(
        "P-5", "a common reading of knock-outs", FALSE,
        says="a part without which no answer is lost is not used for any answer",
        truth="of m equal neurons each can be missing, but not all: backup heads (Wang and others "
        "2022) are such parts",
        check=each_has_its_part,
        literal=kept_without_any, witness={"m": 2},
    ),
    Claim(
        "P-6", "a common reading of direct logit attribution (Elhage and others 2021)", FALSE,
        says="without a part, a logit loses the term of this part",
        check=sums_and_scales,
        literal=loses_its_term, witness={"size": 3.0},
    ),
    Claim(
        "P-7", "attention knockout, Geva and others 2023", TRUE,
        says="to mask a key is the same as to set its weight to 0 and to divide the others by "
        "their sum",
        check=masking_divides_by_the_rest,
    ),
    Claim(
        "P-8", "Meng and others 2022: causal tracing", OPEN,
        says="the last token of the subject decides, in the middle layers",
        truth="a statement about large models; in those of page 26 a token is a letter, and no "
        "letter gives above 15 % of the gap",
    ),
    Claim(
        "P-9", "Dai and others 2022: knowledge neurons", OPEN,
        says="a few neurons express a fact",
        truth="a statement about large models; in those of page 26 no neuron costs above 4 of 100 "
        "answers, but P-5 holds",
    ),
    Claim(
        "P-10", "Geva and others 2023", OPEN,
        says="attention of a late layer moves the attribute to the last position",
        truth="a statement about large models; it is true of those of page 26, where a patch of "
        "the last attention gives 97 to 100 % of the gap",
    ),
]
