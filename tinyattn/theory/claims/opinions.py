"""Chapter 7: questions 2 and 3, opinions of the answer sheets that no check can decide.

Numbers that the sheets report are in theory/remarks.py.
"""

from __future__ import annotations

from tinyattn.theory.claim import OPEN, Claim

# fmt: off
CLAIMS = [
    Claim(
        "S000-2.g.3", "272", OPEN,
        says="a synthesizer therefore performs poorly on long-distance relations between words",
        truth="the sheet does not measure such relations; over all questions, the synthesizer "
        "has more correct answers (S000-2.g.1)",
    ),
    Claim(
        "S000-3", "278-288", OPEN,
        says="pretraining teaches birthplaces and helps to generalise; invented places mislead "
        "users; a model treats a new name as a similar known one, which gives no birthplace",
        truth="these are opinions; `evaluate --report` counts what can be counted; "
        "derivations/23_knowledge.md does so for an invented world and finds the first",
    ),
    Claim(
        "S001-2.g.2", "189-191", OPEN,
        says="the Perceiver reached 5.0 % after some of its parameters were rescaled",
        truth="the sheet does not describe it well enough to repeat it; the other sheets get 25 "
        "of 500, too, by always answering London (S001-2.g.1)",
    ),
    Claim(
        "S001-3", "205-216", OPEN,
        says="pretraining gives knowledge; users cannot distinguish invented answers from true "
        "ones; for new names the model uses its training data, not facts",
        truth="these are opinions; some can be counted (S000-3)",
    ),
    Claim(
        "S002-4", "31-34", OPEN,
        says="pretraining teaches structure and facts about people; fluent answers mislead "
        "users; names do not determine a birthplace",
        truth="these are opinions; some can be counted (S000-3)",
    ),
]
