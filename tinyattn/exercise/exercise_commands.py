"""Wing, exercise: the commands that the command line gets from here."""

from tinyattn.exercise.exercise_command import exercise

COMMANDS = (exercise,)
"""In the order of the help."""
