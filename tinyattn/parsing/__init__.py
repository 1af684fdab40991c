"""Wing: attention heads as a dependency parser. A reader may skip this folder."""

from tinyattn.parsing.conllu import Sentence, read_conllu
from tinyattn.parsing.model import Parser, ParserConfig
from tinyattn.parsing.treebank import ParserVocabulary, TreeExamples, baselines, split
from tinyattn.parsing.training import load_parser, parse_sentences, train_parser
from tinyattn.parsing.parser_comparison import attachment, compare_penalties

__all__ = [
    "Parser", "ParserConfig", "ParserVocabulary", "Sentence", "TreeExamples", "attachment",
    "baselines", "compare_penalties", "load_parser", "parse_sentences", "read_conllu", "split",
    "train_parser",
]  # fmt: skip
