"""Wing, check: the commands that the command line gets from here."""

from tinyattn.check.check_command import check

COMMANDS = (check,)
