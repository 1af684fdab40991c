"""Chapters 4 to 6: from files to batches of token ids."""

from tinyattn.data.batches import PAD, Batch, pad_rows
from tinyattn.data.forms import form_of, look_alike, mixed_forms
from tinyattn.data.text import DataError, documents_of, read_pairs, read_text
from tinyattn.data.vocabulary import MASK_CHARACTER, PAD_CHARACTER, Vocabulary
from tinyattn.data.questions import answer_of, question_example
from tinyattn.data.corruption import Corruption
from tinyattn.data.files import write, write_all
from tinyattn.data.cloze import Cloze, Gaps, Phrase
from tinyattn.data.world import World, make_world

__all__ = [
    "MASK_CHARACTER", "PAD", "PAD_CHARACTER", "Batch", "Cloze", "Corruption", "DataError", "Gaps",
    "Phrase", "Vocabulary", "World", "answer_of", "documents_of", "form_of",
    "look_alike", "make_world", "mixed_forms", "pad_rows", "question_example",
    "read_pairs", "read_text", "write", "write_all",
]  # fmt: skip
