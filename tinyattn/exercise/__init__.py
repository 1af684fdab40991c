"""Wing, exercise: functions of this package for readers to write, and a grade for what they wrote.

`tinyattn exercise softmax` writes a file in which the body of this function is left out. With
`--check` it compares what a reader wrote with the function of the package. Only this needs
Hypothesis, the extra `check`.
"""

from tinyattn.exercise.exercise import Exercise
from tinyattn.exercise.exercises import EXERCISES
from tinyattn.exercise.blank import blank

__all__ = ["EXERCISES", "Exercise", "blank"]
