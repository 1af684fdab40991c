"""A made-up treebank: sentences of a small grammar; tags and their order determine the trees."""

import numpy as np

from tinyattn.parsing import Sentence

WORDS = {"DET": ["the", "a"], "ADJ": ["big", "old", "red"], "NOUN": ["cat", "dog", "sun", "sea"],
         "VERB": ["sees", "likes"], "ADP": ["near", "with"], "PUNCT": ["."]}  # fmt: skip


Phrase = list[tuple[str, str, bool]]  # tag, relation, whether the verb is the head (governor)


def phrase(rng: np.random.Generator, relation: str) -> Phrase:
    """A noun phrase."""
    before = [("ADP", "case", False)] if relation == "obl" else []
    between = [("ADJ", "amod", False)] * int(rng.integers(0, 2))
    return [*before, ("DET", "det", False), *between, ("NOUN", relation, True)]


def sentence(rng: np.random.Generator) -> Sentence:
    """`The cat sees a big dog near the sea .`, with or without its optional parts."""
    words = [*phrase(rng, "nsubj"), ("VERB", "root", False), *phrase(rng, "obj")]
    words += phrase(rng, "obl") * int(rng.integers(0, 2)) + [("PUNCT", "punct", True)]
    tags = [tag for tag, _, _ in words]
    verb = tags.index("VERB") + 1
    governors = []
    for i, (tag, _, of_verb) in enumerate(words):
        noun = next((j for j in range(i, len(words)) if tags[j] == "NOUN"), 0) + 1
        governors.append(0 if tag == "VERB" else verb if of_verb else noun)
    forms = [str(rng.choice(WORDS[tag])) for tag in tags]
    forms[0] = forms[0].capitalize()
    relations = tuple(relation for _, relation, _ in words)
    return Sentence(tuple(forms), tuple(tags), tuple(governors), relations)


def documents(count: int, sentences: int = 4, seed: int = 0) -> list[list[Sentence]]:
    """A list of documents, each with its sentences."""
    rng = np.random.default_rng(seed)
    return [[sentence(rng) for _ in range(sentences)] for _ in range(count)]


def as_conllu(documents: list[list[Sentence]]) -> str:
    """The documents as the text of a CoNLL-U file."""
    lines = []
    for document in documents:
        lines.append("# newdoc")
        for s in document:
            rows = zip(s.words, s.tags, s.governors, s.relations, strict=True)
            for i, (word, tag, governor, relation) in enumerate(rows, start=1):
                lines.append(f"{i}\t{word}\t_\t{tag}\t_\t_\t{governor}\t{relation}\t_\t_")
            lines.append("")
    return "\n".join(lines) + "\n"
