"""Chapter 5, the end: every attention block by the name that users write.

A model looks its block up here, and tests, commands and tables walk this dictionary. Next: models.
"""

from __future__ import annotations

from tinyattn.attention.block import AttentionBlock
from tinyattn.attention.multihead import MultiHead

ATTENTION: dict[str, type[AttentionBlock]] = {
    "multihead": MultiHead,
}
