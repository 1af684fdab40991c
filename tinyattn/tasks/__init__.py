"""Chapter 9: tasks, which say what to learn."""

from tinyattn.tasks.recipe import Recipe, load_recipe
from tinyattn.tasks.lock import alone_in
from tinyattn.tasks.runs import Trained, load_run
from tinyattn.tasks.examples import DocumentExamples, QuestionExamples, TextExamples
from tinyattn.tasks.preparation import document_examples, question_examples, text_examples
from tinyattn.tasks.knowledge import RunOptions, finetune, pretrain
from tinyattn.tasks.evaluation import Score, answer, score
from tinyattn.tasks.similarity import Probe, nearest, probe
from tinyattn.tasks.considered import Report, consider
from tinyattn.tasks.conversion import convert
from tinyattn.tasks.quickstart import quickstart
from tinyattn.tasks.family import causal_attentions, family, with_attention
from tinyattn.tasks.treebank import Symbols, TreeExamples, baselines, split
from tinyattn.tasks.dependency import load_parser, parse_sentences, train_parser
from tinyattn.tasks.parsers import attachment, compare_penalties

__all__ = [
    "DocumentExamples", "Probe", "QuestionExamples", "Recipe", "Report", "RunOptions", "Score",
    "Symbols", "TextExamples", "Trained", "TreeExamples", "alone_in", "answer", "attachment",
    "baselines", "causal_attentions", "compare_penalties", "consider", "convert",
    "document_examples", "family", "finetune", "load_parser", "load_recipe", "load_run", "nearest",
    "parse_sentences", "pretrain", "probe", "question_examples", "quickstart", "score", "split",
    "text_examples", "train_parser", "with_attention",
]  # fmt: skip
