"""Chapters 5 and 6: tasks, which define what a model learns."""

from tinyattn.tasks.task import TASKS, Job, Task
from tinyattn.tasks.examples import DocumentExamples, QuestionExamples, TextExamples
from tinyattn.tasks.preparation import document_examples, question_examples, text_examples
from tinyattn.tasks.knowledge import Trained, finetuning, language_model_loss, pretraining
from tinyattn.tasks.recipe import Recipe, load_recipe
from tinyattn.tasks.lock import alone_in
from tinyattn.tasks.runs import load, load_run
from tinyattn.tasks.text_task import TextTask
from tinyattn.tasks.running import RunOptions, finetune, pretrain, train
from tinyattn.tasks.evaluation import Score, answer, score
from tinyattn.tasks.similarity import Probe, nearest, probe
from tinyattn.tasks.error_analysis import Report, analyse_errors
from tinyattn.tasks.conversion import convert
from tinyattn.tasks.quickstart import quickstart
from tinyattn.tasks.quickstart_all import causal_attentions, quickstart_all, with_attention

__all__ = [
    "DocumentExamples", "Job", "Probe", "QuestionExamples", "Recipe", "Report", "RunOptions",
    "Score", "TASKS", "Task", "TextExamples", "TextTask", "Trained", "alone_in",
    "analyse_errors", "answer", "causal_attentions", "convert", "document_examples", "finetune",
    "finetuning", "language_model_loss", "load", "load_recipe", "load_run", "nearest",
    "pretrain", "pretraining", "probe", "question_examples", "quickstart", "quickstart_all",
    "score", "text_examples", "train", "with_attention",
]  # fmt: skip
