"""Wing, parsing: the commands that the command line gets from here."""

from tinyattn.parsing.parse_command import parse

COMMANDS = (parse,)
