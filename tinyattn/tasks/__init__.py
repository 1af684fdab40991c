"""Chapters 5 and 6: tasks, which say what to learn."""

from tinyattn.tasks.task import TASKS, Job, Task
from tinyattn.tasks.examples import DocumentExamples, QuestionExamples, TextExamples
from tinyattn.tasks.preparation import document_examples, question_examples, text_examples
from tinyattn.tasks.knowledge import Trained, finetuning, language_model_loss, pretraining
from tinyattn.tasks.recipe import Recipe, load_recipe
from tinyattn.tasks.lock import alone_in
from tinyattn.tasks.runs import load, load_run
from tinyattn.tasks.texts import TextTask
from tinyattn.tasks.running import RunOptions, finetune, pretrain, train
from tinyattn.tasks.evaluation import Score, answer, score
from tinyattn.tasks.similarity import Probe, nearest, probe
from tinyattn.tasks.considered import Report, consider
from tinyattn.tasks.conversion import convert
from tinyattn.tasks.quickstart import quickstart
from tinyattn.tasks.family import causal_attentions, family, with_attention

__all__ = [
    "TASKS", "DocumentExamples", "Job", "Probe", "QuestionExamples", "Recipe", "Report",
    "RunOptions", "Score", "Task", "TextExamples", "TextTask", "Trained", "alone_in", "answer",
    "causal_attentions", "consider", "convert", "document_examples", "family", "finetune",
    "finetuning", "language_model_loss", "load", "load_recipe", "load_run", "nearest", "pretrain",
    "pretraining", "probe", "question_examples", "quickstart", "score", "text_examples", "train",
    "with_attention",
]  # fmt: skip
