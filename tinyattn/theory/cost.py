"""Chapter 7: the cost of a block in time and memory.

Each block has two formulas in letters for one sequence: the multiply-adds of the forward pass, and
the array elements that it keeps for the backward pass. This file evaluates them. The formulas omit
small terms: biases, softmax, the padding of a last segment, and the mask of blocks with segments
or lists of keys. They count each pair of a query and a key in its list, also masked pairs; dense
causal attention skips nearly half of them. The backward pass costs about twice as much, and
computes the scores once more, since weights are not kept (derivations/06_attention.md).

    T positions     C width       H heads     K positions in a segment or block
    R rows that keys are mixed to, all or those of each segment    L latents
    N keys, or blocks of keys, in a query's list    G blocks of queries that attend to all keys
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from fractions import Fraction

from tinyattn.attention.block import AttentionBlock


def letters(block: AttentionBlock, length: int, causal: bool) -> dict[str, int]:
    """The values of the letters in a block's formulas, for a sequence of this length."""
    values = {**block.sizes(), "T": length}
    if causal and "G" in values:
        values["G"] = 0  # causal: no query attends to all keys
    return values


def formula_value(formula: str, values: Mapping[str, int]) -> Fraction:
    """The exact value of a formula such as "4·T·C² + 2·T/K·C", by the usual precedence.

    Raises: ValueError for a letter without a value, or other signs than + - · / ² ( ) and numbers.
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
