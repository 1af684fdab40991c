"""Answers to the exercises: the package's own, none, and wrong ones that students give."""

import ast
import textwrap
from typing import NamedTuple

from tinyattn.exercise import Exercise, blank


def solution(exercise: Exercise, *edits: tuple[str, str]) -> str:
    """The file of an exercise with the body of the package's function in it.

    Args: edits: pairs of old text, which occurs once, and new text.
    """
    body, helpers = taken_out(exercise)
    for old, new in edits:
        assert body.count(old) + helpers.count(old) == 1, (exercise.name, old)
        body, helpers = body.replace(old, new), helpers.replace(old, new)
    return answer(exercise, textwrap.dedent(body)) + f"\n\n{helpers}\n"


def answer(exercise: Exercise, body: str) -> str:
    """The file of an exercise with another body."""
    head, _, _ = blank(exercise, "own.py").rpartition("    raise NotImplementedError")
    return head + textwrap.indent(body, "    ") + "\n"


def taken_out(exercise: Exercise) -> tuple[str, str]:
    """The body of the function after its docstring, and the functions of its file it uses."""
    module, lines = ast.parse(exercise.source), exercise.source.splitlines()
    functions = {f.name: f for f in module.body if isinstance(f, ast.FunctionDef)}
    body = functions[exercise.name].body
    first = body[0].end_lineno if isinstance(body[0], ast.Expr) else body[0].lineno - 1
    names = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)}
    used = [f for name, f in functions.items() if name in names]
    helpers = ["\n".join(lines[f.lineno - 1 : f.end_lineno]) for f in used]
    return "\n".join(lines[first : body[-1].end_lineno]), "\n\n\n".join(helpers)


class Mistake(NamedTuple):
    """A wrong answer.

    Args:
        what: the mistake, in words.
        edits: pairs of old and new text of the package's function.
        broken: the first check that must not hold.
        found: a part of what is printed about it.
    """

    what: str
    edits: tuple[tuple[str, str], ...]
    broken: str
    found: str


def mistake(what: str, old: str, new: str, broken: str, found: str) -> Mistake:
    return Mistake(what, ((old, new),), broken, found)


# fmt: off
MISTAKES: dict[str, list[Mistake]] = {
    "sweep": [
        mistake("the oldest node first", "(-target.number, target)", "(target.number, target)",
                "result", "was freed by an earlier backward"),
        mistake("the last contribution replaces the others", "total[key] = total[key] + g",
                "total[key] = g", "result", "instead of"),
        mistake("a shared array is changed in place", "elif key in owned:", "elif True:",
                "result", ""),
        mistake("leaves are forgotten", "leaves[key] = target", "pass", "result", "is missing"),
    ],
    "softmax": [
        mistake("the largest score is not subtracted", "xp.exp(scores - m)", "xp.exp(scores)",
                "value", "instead of"),
        mistake("the wrong axis", "sum_over(xp, e, axis,", "sum_over(xp, e, 0,",
                "value", "y = "),
        mistake("weights do not share a sum in the gradient",
                "y * (g - sum_over(xp, g * y, axis, keepdims=True))", "g * y * (1 - y)",
                "gradient", "for g = (2, 0): dx = (0.5, 0) instead of (0.5, -0.5)"),
        mistake("a mask of zeros", "xp.where(allowed, x, -math.inf)", "xp.where(allowed, x, 0)",
                "value", "y = "),
        mistake("nothing allowed gives NaN", "m = xp.where(m == -math.inf, 0, m)", "pass",
                "value", "y = (nan) instead of (0)"),
    ],
    "dropout": [
        mistake("what is kept is not scaled up", "* (1 / (1 - rate))", "* 1",
                "value", "instead of"),
        mistake("also at inference", "dropout_rng is None or rate == 0", "rate == 0",
                "value", "'NoneType' object has no attribute 'mask'"),
        mistake("the gradient ignores the mask", "return drop(x), (drop,)",
                "return drop(x), (lambda g: g / (1 - rate),)", "gradient", "dx = "),
        mistake("the gradient is not scaled up", "return drop(x), (drop,)",
                "return drop(x), (lambda g: xp.where(keep, g, 0),)", "gradient", "dx = "),
    ],
    "attention": [
        mistake("no scale", "1 / math.sqrt(max(1, D)) if", "1 if", "value", "y = "),
        mistake("divided by D", "math.sqrt(max(1, D))", "max(1, D)", "value", "y = "),
        mistake("the softmax is over the queries",
                "e.sum(axis=-1, keepdims=True)", "e.sum(axis=-2, keepdims=True)", "value", "y = "),
        mistake("the causal mask is aligned at the start", "+ (S - T))", ")", "value", "y = "),
        mistake("the gradient of the softmax is diagonal", "u_du - p_g * row_sum", "u_du",
                "gradient", "dq = "),
        mistake("the gradients forget the scale", "ds = scale * xp", "ds = xp",
                "gradient", "dq = "),
    ],
    "linear": [
        mistake("no bias", "y if bias is None else y + bias", "y", "value", "y = "),
        mistake("the weight is not transposed", "xp.matmul(g, weight.T)", "xp.matmul(g, weight)",
                "gradient", ""),
        mistake("the gradient of the bias is not summed", "g.reshape(N, F).sum(axis=0)", "g",
                "gradient", "the gradient of bias must be float64 (1,), as bias is; got"),
        mistake("a mean instead of a sum", "g.reshape(N, F).sum(axis=0)",
                "g.reshape(N, F).mean(axis=0)", "gradient", "dbias = "),
    ],
    "causal": [
        mistake("not the own position", "xp.arange(keys)[None, :] <= ",
                "xp.arange(keys)[None, :] < ", "result", "the result = "),
        mistake("True = may not", "xp.arange(keys)[None, :] <= ", "xp.arange(keys)[None, :] > ",
                "result", "the result = "),
        mistake("always aligned at the start", 'keys - queries if align == "end" else 0', "0",
                "result", "the result = "),
        mistake("numbers for booleans", "return xp.arange(keys)[None, :] <= xp.arange(queries)"
                "[:, None] + offset", "return 1 * (xp.arange(keys)[None, :] <= "
                "xp.arange(queries)[:, None] + offset)", "result", "int64 instead of bool"),
    ],
    "split_heads": [
        mistake("no transpose", "reshape(B, T, heads, C // heads).transpose(0, 2, 1, 3)",
                "reshape(B, heads, T, C // heads)", "result", "the result = "),
        mistake("heads are interleaved", "heads, C // heads).transpose(0, 2, 1, 3)",
                "C // heads, heads).transpose(0, 3, 1, 2)", "result", "the result = "),
        mistake("positions come first", ".transpose(0, 2, 1, 3)", "", "result", "shape of "),
    ],
    "layer_norm": [
        mistake("the mean is not subtracted", "centred = x - mean(x)", "centred = x",
                "value", "y = "),
        mistake("eps is added to the standard deviation", "xp.sqrt(mean(centred * centred) + eps)",
                "(xp.sqrt(mean(centred * centred)) + eps)", "value", "y = "),
        mistake("the variance is a constant for the gradient", " - h * mean(dh * h)", "",
                "gradient", "dx = "),
        mistake("the gradient forgets the gain", "dh = g * gain", "dh = g", "gradient", "dx = "),
        mistake("the gradient of the gain is not summed", "(g * h).sum(axis=rows)", "g * h",
                "gradient", "the gradient of gain must be float64 (1,)"),
        mistake("the variance of n - 1 numbers", "mean(centred * centred)",
                "(centred * centred).sum(axis=-1, keepdims=True) / max(1, x.shape[-1] - 1)",
                "value", "y = "),
    ],
    "gelu": [
        mistake("the derivative is only Φ", "g * (cdf + near * slope)", "g * cdf",
                "gradient", "dx = "),
        mistake("no root of 1/2", "near * math.sqrt(0.5)", "near", "value", "y = "),
        mistake("always exact", "if exact:", "if True:", "value", "exact = False"),
        mistake("another constant", "0.044715", "0.44715", "value", "exact = False"),
        mistake("g is forgotten", "g * (cdf + near * slope)", "cdf + near * slope",
                "gradient", "dx = "),
    ],
    "embedding": [
        mistake("an id that occurs twice gets one gradient", "xp.add.at(out, ids, g)",
                "out[ids] += g", "gradient", "dweight = "),
        mistake("the last of two ids replaces the other", "xp.add.at(out, ids, g)",
                "out[ids] = g", "gradient", "dweight = "),
    ],
    "cross_entropy": [
        mistake("a sum instead of the mean", "(losses * weight).sum()", "losses.sum()",
                "value", "y = "),
        mistake("the mean also counts what is ignored", "xp.maximum(mask.sum(), 1)", "len(mask)",
                "value", "ignore = "),
        mistake("the gradient is not divided by n", "(e * (weight / total)[:, None] - onehot)",
                "(e / total[:, None] - (onehot != 0)) * valid[:, None]", "gradient", "dlogits = "),
        mistake("no one-hot target", " - onehot) * g", ") * g", "gradient", "dlogits = "),
        mistake("the largest logit is not subtracted", "z - z.max(axis=1, keepdims=True)", "z",
                "value", "y = "),
    ],
    "sgd": [
        mistake("uphill", "w -= lr", "w += lr", "result", "w afterwards = "),
        mistake("no momentum", "m[...] = momentum * m + g", "m[...] = g", "result", "m afterwards"),
        mistake("a new array", "m[...] = momentum * m + g", "m = momentum * m + g",
                "result", "m afterwards = "),
        mistake("no weight decay", "decay * w + m", "m", "result", "w afterwards = "),
    ],
    "adamw": [
        mistake("no bias correction", "m / (1 - beta1**t), v / (1 - beta2**t)", "m, v",
                "result", "w afterwards = "),
        mistake("eps inside the root", "(xp.sqrt(v_hat) + eps)", "xp.sqrt(v_hat + eps)",
                "result", "w afterwards = "),
        mistake("the gradient is not squared", "* g**2", "* g", "result", "v afterwards = "),
        mistake("decay is coupled to the gradient", "m[...] = beta1 * m + (1 - beta1) * g",
                "g = g + decay * w; m[...] = beta1 * m + (1 - beta1) * g", "result", "afterwards"),
    ],
    "clip_gradients": [
        mistake("each array by its own norm", "g *= most / (norm + 1e-6)",
                "g *= min(1, most / (math.sqrt((g * g).sum()) + 1e-6))", "result", "gradients"),
        mistake("the square of the norm", "math.sqrt(math.fsum(", "(math.fsum(",
                "result", "the result = "),
        mistake("small gradients grow", "if most < norm < math.inf:", "if norm:",
                "result", "gradients"),
        mistake("nothing is returned", "return norm", "pass", "result", "the result is None"),
    ],
    "matmul": [
        mistake("b is not transposed", "columns.swapaxes(-1, -2)", "columns", "gradient", ""),
        mistake("the gradients are exchanged", "(da, db)", "(db, da)", "gradient", ""),
        mistake("a whole transpose of a batch", "columns.swapaxes(-1, -2)", "columns.T",
                "gradient", ""),
    ],
    "rotate": [
        mistake("halves instead of neighbours", "even, odd = a[..., 0::2], a[..., 1::2]",
                "even, odd = xp.split(a, 2, axis=-1)", "value", "y = "),
        mistake("the other direction", "return rotated(x, sin), (lambda g: rotated(g, -sin),)",
                "return rotated(x, -sin), (lambda g: rotated(g, sin),)", "value", "y = "),
        mistake("the gradient is rotated forwards", "rotated(g, -sin)", "rotated(g, sin)",
                "gradient", "dx = "),
    ],
}
# fmt: on
