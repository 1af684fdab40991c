"""Wing, explore: the commands that the command line gets from here."""

from tinyattn.explore.explore_command import explore

COMMANDS = (explore,)
