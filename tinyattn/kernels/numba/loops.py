"""Engine room, Numba: the compiled loops. They read as the formulas do for one element.

Numba compiles a function at its first call, and keeps the machine code on disk if it may write
there. Numbers with a point are float32. The loops run without the interpreter's lock, so threads do
not wait for each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

f32, i32, u32 = np.float32, np.int32, np.uint32

FAST = {"contract", "nsz"}  # fused multiply-adds; the sign of 0 is ignored, but NaN and ∞ are not
inlined = njit(inline="always", error_model="numpy", fastmath=FAST)


def compiled(fastmath: set[str]) -> Any:
    """A decorator for loops. Without a folder to write to, they are compiled in each process."""

    def decorator(function: Any) -> Any:
        try:
            return njit(nogil=True, cache=True, error_model="numpy", fastmath=fastmath)(function)
        except RuntimeError:  # no folder for the machine code
            return njit(nogil=True, error_model="numpy", fastmath=fastmath)(function)

    return decorator


loop = compiled(FAST)
summing = compiled(FAST | {"reassoc"})  # sums in any order, which vectors need

# Numba keeps the machine code until this file changes: so numbers of other files are arguments.
LOG2_E, LN2_HIGH, LN2_LOW = f32(1.44269504), f32(0.693359375), f32(-2.12194440e-4)
# eʳ ≈ 1 + r + r²·(E2 + E3·r + ..) on |r| ≤ ½ ln 2: a least-squares fit on 1,500 Chebyshev nodes,
# reweighted until the largest relative errors were equal, 3e-9.
E2, E3, E4 = f32(4.999999345e-01), f32(1.666652063e-01), f32(4.166838809e-02)
E5, E6 = f32(8.368717086e-03), f32(1.381459665e-03)
LEAST = f32(-105.0)  # its exponential is 0 in float32


@inlined
def exponential(x: Any) -> Any:
    """eˣ to 2 units in the last place, for x below 88; NaN for NaN.

    eˣ = 2ᵏ·eʳ, with a polynomial for eʳ; 2ᵏ in two factors, so that tiny results are
    subnormal numbers and not 0 (Cody and Waite 1980, chapter 6).
    """
    x = LEAST if x < LEAST else x
    k = np.floor(x * LOG2_E + f32(0.5))
    r = x - k * LN2_HIGH - k * LN2_LOW
    p = ((((E6 * r + E5) * r + E4) * r + E3) * r + E2) * (r * r) + r + f32(1)
    whole = i32(k)
    half = whole >> i32(1)
    return p * power_of_two(half) * power_of_two(whole - half)


@inlined
def power_of_two(k: Any) -> Any:
    """2ᵏ, from the bits of a float32."""
    return i32((k + i32(127)) << i32(23)).view(np.float32)


# GELU, layer norm, AdamW ---------------------------------------------------------------------


@loop
def gelu_exact(x: Any, y: Any, slope: Any, cdf: Any, far: Any, low: Any) -> bool:
    """y = x·Φ(x), slope = Φ(x) + x·φ(x); `cdf` gives Φ on ±far. Returns: if some x is below low."""
    c6, c5, c4, c3, c2, c1, c0 = cdf
    some_low = False
    for i in range(x.size):
        near = min(max(x[i], -far), far)
        square = near * near
        u = ((((((c6 * square + c5) * square + c4) * square + c3) * square + c2) * square + c1)
             * square + c0) * near  # fmt: skip
        share = f32(1) / (f32(1) + exponential(f32(-2) * u))
        y[i] = x[i] * share
        slope[i] = share + near * f32(0.398942280) * exponential(f32(-0.5) * square)
        some_low |= not x[i] >= low
    return some_low


@loop
def gelu_tanh(x: Any, y: Any, slope: Any, low: Any) -> bool:
    """y = x·s, s = σ(2u), u = cx + dx³; slope = s + 2x·s(1 - s)·(c + 3dx²). See `gelu_exact`."""
    c, d = f32(0.7978845608), f32(0.03567740814)
    some_low = False
    for i in range(x.size):
        near = min(max(x[i], f32(-9.5)), f32(9.5))  # beyond, s is 0 or 1
        u = near * (c + d * near * near)
        e = exponential(f32(-2) * u)
        share = f32(1) / (f32(1) + e)
        y[i] = x[i] * share
        slope[i] = share + f32(2) * near * share * (e * share) * (c + f32(3) * d * near * near)
        some_low |= not x[i] >= low
    return some_low


@summing
def layer_norm_rows(x: Any, gain: Any, bias: Any, eps: Any, h: Any, r: Any, y: Any) -> Any:
    """h = (x - m)·r, r = 1/√(v + eps), y = h·gain + bias, row by row. Returns: least, largest v."""
    C = x.shape[1]
    least, most = f32(np.inf), f32(0)
    for i in range(x.shape[0]):
        m = f32(0)
        for j in range(C):
            m += x[i, j]
        m /= f32(C)
        v = f32(0)
        for j in range(C):
            v += (x[i, j] - m) * (x[i, j] - m)
        v = v / f32(C) + eps
        least, most = min(least, v), max(most, v)
        r[i] = f32(1) / np.sqrt(v)
        for j in range(C):
            h[i, j] = (x[i, j] - m) * r[i]
            y[i, j] = h[i, j] * gain[j] + bias[j]
        if np.isnan(v):
            most = v
    return least, most


@summing
def layer_norm_slopes(g: Any, h: Any, r: Any, gain: Any, dx: Any, dgain: Any, dbias: Any) -> None:
    """dx = r·(g' - mean g' - h·mean g'h) with g' = g·gain; dgain = Σ g·h, dbias = Σ g."""
    C = g.shape[1]
    for i in range(g.shape[0]):
        mean, mean_gh = f32(0), f32(0)
        for j in range(C):
            dgain[j] += g[i, j] * h[i, j]
            dbias[j] += g[i, j]
            mean += g[i, j] * gain[j]
            mean_gh += g[i, j] * gain[j] * h[i, j]
        mean, mean_gh = mean / f32(C), mean_gh / f32(C)
        for j in range(C):
            dx[i, j] = r[i] * (g[i, j] * gain[j] - mean - h[i, j] * mean_gh)


@loop
def adamw_step(
    w: Any, g: Any, m: Any, v: Any, lr: Any, eps: Any, shrink: Any, beta1: Any, rest1: Any,
    beta2: Any, rest2: Any,
) -> None:  # fmt: skip
    """One step of AdamW.

    Args: lr, eps: corrected for the bias of m and v; rest1, rest2: 1 - beta1, 1 - beta2;
        shrink: learning rate · decay, one number or one for each w.
    """
    for i in range(w.size):
        m[i] = beta1 * m[i] + rest1 * g[i]
        v[i] = beta2 * v[i] + rest2 * g[i] * g[i]
        decay = shrink[i if shrink.size > 1 else 0] * w[i]
        w[i] -= decay + lr * m[i] / (np.sqrt(v[i]) + eps)


# Dropout -------------------------------------------------------------------------------------


@inlined
def random_words(row: Any, first: Any, key: Any, words: Any) -> None:
    """Fill `words` with the random bits of a row, as `rng.hashed` does."""
    for j in range(words.size):  # Numba computes with 64 bits: u32 cuts them off
        x = u32(first + j) ^ key
        x = u32(x ^ (x >> u32(16)))
        x = u32(u32(x * u32(0x7FEB352D)) ^ row)
        x = u32(x ^ (x >> u32(15)))
        x = u32(x * u32(0x846CA68B))
        words[j] = u32(x ^ (x >> u32(16)))


@loop
def drop(x: Any, rows: Any, least: Any, key: Any, scale: Any, y: Any) -> None:
    """y = x·scale where the byte of an element is at least the `least` of its row, else 0."""
    words = np.empty((x.shape[1] + 3) // 4, np.uint32)
    draws = words.view(np.uint8)
    for i in range(x.shape[0]):
        random_words(rows[i], 0, key, words)
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] * scale if draws[j] >= least[i] else f32(0)


# Attention: tiles whose rows are keys and whose columns are queries --------------------------


@loop
def online_softmax(x: Any, ahead: Any, largest: Any, total: Any, sums: Any) -> None:
    """The online softmax: x becomes exp(x - m), and total its sum over all keys so far.

    Shapes: x (N, K, Q), largest m and total (N, Q), sums of weighted values (N, Q, E)
    Args:   ahead: query j may attend to key i of the tile if i ≤ j + ahead.
    """
    N, K, Q = x.shape
    before = np.empty(Q, np.float32)
    for n in range(N):
        m, t = largest[n], total[n]
        before[:] = m
        for i in range(K):
            first = min(max(0, i - ahead), Q)
            scores, most = x[n, i, first:], m[first:]
            for j in range(scores.size):
                most[j] = max(most[j], scores[j])
        for j in range(Q):
            if before[j] > -np.inf and m[j] > before[j]:
                shrink = exponential(before[j] - m[j])
                t[j] *= shrink
                for e in range(sums.shape[2]):
                    sums[n, j, e] *= shrink
        for j in range(Q):
            before[j] = m[j] if m[j] > -np.inf else f32(0)  # -∞ - -∞ would be NaN
        for i in range(K):
            first = min(max(0, i - ahead), Q)
            x[n, i, :first] = 0
            scores, shift, sum_of = x[n, i, first:], before[first:], t[first:]
            for j in range(scores.size):
                scores[j] = exponential(scores[j] - shift[j])
                sum_of[j] += scores[j]


@loop
def weigh(x: Any, ahead: Any, log_total: Any) -> None:
    """x becomes the weights exp(x - ln Σ exp x), 0 for masked pairs; see `online_softmax`."""
    N, K, Q = x.shape
    for n in range(N):
        for i in range(K):
            first = min(max(0, i - ahead), Q)
            x[n, i, :first] = 0
            scores, shift = x[n, i, first:], log_total[n, first:]
            for j in range(scores.size):
                scores[j] = exponential(scores[j] - shift[j])


@loop
def drop_weights(x: Any, rows: Any, least: Any, column: Any, key: Any, y: Any) -> None:
    """y = x where dropout keeps an element, else 0. Shapes: x, y (N, K, Q), rows, least (N·K)."""
    N, K, Q = x.shape
    skip = column % 4
    words = np.empty((skip + Q + 3) // 4, np.uint32)
    draws = words.view(np.uint8)
    for n in range(N):
        for i in range(K):
            random_words(rows[n * K + i], column // 4, key, words)
            for j in range(Q):
                y[n, i, j] = x[n, i, j] if draws[skip + j] >= least[n * K + i] else f32(0)


@loop
def slopes_of_scores(ds: Any, used: Any, p: Any, inner: Any) -> None:
    """ds becomes ds·used - p·inner. Shapes: ds, used, p (N, K, Q), inner (N, Q)"""
    N, K, Q = ds.shape
    for n in range(N):
        for i in range(K):
            for j in range(Q):
                ds[n, i, j] = ds[n, i, j] * used[n, i, j] - p[n, i, j] * inner[n, j]


BLOCK = 256  # terms of a sum; a longer one would lose digits


@summing
def one_query(
    q: Any, k: Any, v: Any, k_steps: Any, v_steps: Any, S: Any, scale: Any, y: Any
) -> None:
    """Attention of one query in each head to S keys, as when a token is generated.

    Shapes: q (B, H, D), y (B, H, E), rows of keys k (R, D) and of values v (R', E)
    Args:   k_steps, v_steps: how many rows lie between two sequences, and between two heads.
    """
    B, H, D = q.shape
    p, part = np.empty(S, np.float32), np.empty(y.shape[2], np.float32)
    for b in range(B):
        for h in range(H):
            query, output = q[b, h], y[b, h]
            row = b * k_steps[0] + h * k_steps[1]
            largest = f32(-np.inf)
            for i in range(S):
                score, key = f32(0), k[row + i]
                for d in range(D):
                    score += query[d] * key[d]
                p[i] = score * scale
                largest = max(largest, p[i])
            largest = largest if largest > -np.inf else f32(0)
            total = f32(0)
            for i in range(S):
                p[i] = exponential(p[i] - largest)
                total += p[i]
            output[:] = 0
            row = b * v_steps[0] + h * v_steps[1]
            for start in range(0, S, BLOCK):
                part[:] = 0
                for i in range(start, min(start + BLOCK, S)):
                    weight, value = p[i] / total, v[row + i]
                    for e in range(part.size):
                        part[e] += weight * value[e]
                for e in range(part.size):
                    output[e] += part[e]
