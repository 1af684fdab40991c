"""Chapter 7: questions 2 and 3, what the sheets make of their models' answers. No check can tell.

What they report in numbers stands among the remarks (theory/remarks.py).
"""

from __future__ import annotations

from tinyattn.theory.claim import OPEN, Claim

# fmt: off
CLAIMS = [
    Claim(
        "S000-2.g.3", "272", OPEN,
        says="a synthesizer therefore performs poorly on long-distance relations between words",
        truth="nothing in the sheet measures such relations, and of all answers more are right "
        "with the synthesizer (S000-2.g.1)",
    ),
    Claim(
        "S000-3", "278-288", OPEN,
        says="pretraining data tell birthplaces and generalise, invented places mislead, a name is "
        "taken for the nearest one known and does not tell a birthplace",
        truth="opinions; what can be counted of a model, `evaluate --report` counts; it is done "
        "for a made-up world in derivations/23_knowledge.md, which finds the first",
    ),
    Claim(
        "S001-2.g.2", "189-191", OPEN,
        says="the Perceiver's 5.0 % were reached by rescaling some of its parameters",
        truth="too little is told to try it; 25 of 500 is what the other sheets get by answering "
        "London always (S001-2.g.1)",
    ),
    Claim(
        "S001-3", "205-216", OPEN,
        says="pretraining brings knowledge, made-up answers cannot be told from true ones, and for "
        "new names the model goes by data it has seen, not by facts",
        truth="opinions; some can be counted (S000-3)",
    ),
    Claim(
        "S002-4", "31-34", OPEN,
        says="pretraining brings structure and facts about people, answers mislead by their "
        "language, names do not tell a birthplace",
        truth="opinions; some can be counted (S000-3)",
    ),
]
