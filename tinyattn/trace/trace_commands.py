"""Wing, trace: the commands that the command line gets from here."""

from tinyattn.trace.edit_command import edit
from tinyattn.trace.trace_command import trace

COMMANDS = (trace, edit)
