"""Engine room, measuring: the commands that the command line gets from here."""

from tinyattn.measure.compare_command import compare
from tinyattn.measure.profile_command import profile

COMMANDS = (compare, profile)
