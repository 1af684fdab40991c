"""Chapter 7: what a block costs.

Each block states two formulas in letters: the multiply-adds that it does on one sequence, forward,
and the numbers that it keeps of it for backward. Here numbers are put in for the letters. What the
formulas leave out is small: biases, softmax, the zeros that fill up a last segment, and the mask
that blocks with segments or lists of keys keep. They count every pair of a query and a key in its
list, also those that a mask hides; of these dense causal attention leaves nearly half out. Backward
does about twice as much again, and computes the scores once more, since weights are not kept
(derivations/06_attention.md).

    T positions     C width       H heads     K positions a segment or block
    R rows that keys are mixed to, all or each segment's    L latents
    N keys, or blocks of keys, in a query's list    G blocks of queries that see everything
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from fractions import Fraction

from tinyattn.attention.block import AttentionBlock


def letters(block: AttentionBlock, length: int, causal: bool) -> dict[str, int]:
    """What the letters in a block's formulas stand for, on a sequence of such a length."""
    values = {**block.sizes(), "T": length}
    if causal and "G" in values:
        values["G"] = 0  # nobody sees everything then
    return values


def formula_value(formula: str, values: Mapping[str, int]) -> Fraction:
    """The exact value of a formula such as "4·T·C² + 2·T/K·C", products and quotients first.

    Raises: ValueError for a letter without a value, or what is not + - · / ² ( ) and numbers.
    """
    try:
        tree = ast.parse(formula.replace("·", "*").replace("²", "**2"), mode="eval")
        return _value(tree.body, values)
    except (SyntaxError, TypeError, KeyError, ValueError) as error:
        raise ValueError(f"formula_value: cannot read {formula!r}: {error}") from error


def _value(node: ast.expr, values: Mapping[str, int]) -> Fraction:
    match node:
        case ast.Constant(value=int(number)):
            return Fraction(number)
        case ast.Name(id=letter):
            return Fraction(values[letter])
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=2)):
            return _value(left, values) ** 2
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = _value(left, values), _value(right, values)
            match operator:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.Div():
                    return a / b
    raise ValueError(f"{ast.unparse(node)!r} is no sum or product")
