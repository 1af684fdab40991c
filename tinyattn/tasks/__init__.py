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

__all__ = [
    "DocumentExamples", "Probe", "QuestionExamples", "Recipe", "Report", "RunOptions", "Score",
    "TextExamples", "Trained", "alone_in", "answer", "causal_attentions", "consider", "convert",
    "document_examples", "family", "finetune", "load_recipe", "load_run", "nearest", "pretrain",
    "probe", "question_examples", "quickstart", "score", "text_examples", "with_attention",
]  # fmt: skip
