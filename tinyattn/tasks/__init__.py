"""Chapter 9: tasks, which say what to learn."""

from tinyattn.tasks.recipe import Recipe, load_recipe
from tinyattn.tasks.runs import Trained, load_run
from tinyattn.tasks.examples import QuestionExamples, SpanExamples, TextExamples
from tinyattn.tasks.knowledge import RunOptions, finetune, pretrain
from tinyattn.tasks.evaluation import Score, answer, score
from tinyattn.tasks.quickstart import quickstart

__all__ = [
    "QuestionExamples", "Recipe", "RunOptions", "Score", "SpanExamples", "TextExamples", "Trained",
    "answer", "finetune", "load_recipe", "load_run", "pretrain", "quickstart", "score",
]  # fmt: skip
