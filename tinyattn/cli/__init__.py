"""Wing, the command line: its commands, their errors and their exit status.

An option overrides the environment (TINYATTN_PRETRAIN_SEED=1), which overrides a settings file
(--config), which overrides the recipe. The exit status is 0 for success, 1 for bad data or a bad
file, 2 for wrong usage. An error that a user can cause is one line on stderr. Long work shows its
progress if stderr is a terminal. While a model trains, Ctrl-C saves a checkpoint and prints how to
resume the run. SIGTERM and SIGHUP do the same; their exit status is 128 plus the number of the
signal. At any other time Ctrl-C ends with status 130.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NoReturn

import click
import numpy as np

from tinyattn import __version__
from tinyattn.attention.lookup import own_class
from tinyattn.cli.streams import open_streams
from tinyattn.cli.own_code import OwnCodeError, attention_in, naming_own_code
from tinyattn.cli.types import option_for, wrong
from tinyattn.cli.options import option
from tinyattn.cli.outputs import fail
from tinyattn.cli.world_command import world
from tinyattn.cli.train import finetune, pretrain, quickstart
from tinyattn.cli.task_commands import score, train_task
from tinyattn.cli.use import ask, baseline, evaluate
from tinyattn.cli.generate_command import generate
from tinyattn.cli.convert_command import convert
from tinyattn.cli.claims_command import claims
from tinyattn.cli.info import info
from tinyattn.data.text import DataError
from tinyattn.data.vocabulary import UnknownCharacter
from tinyattn.data.world import WorldExists
from tinyattn.models.generate import ScoresError
from tinyattn.nn import NoActivation
from tinyattn.switches import formulas as by_formulas
from tinyattn.switches import names_in
from tinyattn.tasks.recipe import home_of
from tinyattn.workers import NoThreads, keep_freed_memory
from tinyattn.training.checkpoint import CheckpointError
from tinyattn.training.keep import TrainingFailed
from tinyattn.training.ranks import MissingMPI, RanksDiffer, started
from tinyattn.training.settings import SettingError
from tinyattn.training.signals import Interrupted

__all__ = ["main"]


class Commands(click.Group):
    """Turns the errors a user can cause into one line and an exit status."""

    def main(self, *args: Any, **options: Any) -> Any:
        """The whole program, from its arguments to its exit status."""
        open_streams()  # before anything is written, or a file is opened
        return super().main(*args, **options)

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        """Parse what goes before the command; an error there ends with status 2."""
        try:
            return super().make_context(*args, **options)
        except click.exceptions.NoArgsIsHelpError:
            raise  # click prints the help
        except click.UsageError as error:
            _fail_usage(error, "tinyattn")

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. An error of the user ends with status 1 (data or file) or 2 (usage)."""

        try:
            with naming_own_code():
                return super().invoke(ctx)
        except OwnCodeError as error:
            fail(str(error), 1)
        except UnknownCharacter as error:
            can_drop = option_for("unknown", self.commands[ctx.invoked_subcommand or ""])
            joint = ", or" if error.remedy else ";"
            fail(f"{error}{f'{joint} use --unknown drop to leave it out' if can_drop else ''}", 1)
        except (DataError, CheckpointError, ScoresError, TrainingFailed, NoActivation) as error:
            fail(str(error), 1)
        except (SettingError, WorldExists, MissingMPI, NoThreads) as error:
            fail(str(error), 2)
        except RanksDiffer as error:
            fail(str(error), 2, all_know=True)
        except KeyboardInterrupt:
            fail("stopped at once; files that were written before are kept", 130)
        except Interrupted as error:
            again = [word for word in sys.argv[1:] if word not in ("--overwrite", "--resume")]
            together = f"mpiexec -n {started(np)[0]} " if started(np)[0] > 1 else ""
            how = f"go on with: {together}tinyattn {shlex.join(again)} --resume"
            if ctx.invoked_subcommand in ("quickstart", "parse"):
                how = (f"a {ctx.invoked_subcommand} cannot be resumed; start it again, "
                       "with --overwrite if it has a folder")  # fmt: skip
            status = 1 if error.number == signal.SIGINT else 128 + error.number
            fail(f"{error}; {how}", status, all_know=True)
        except click.UsageError as error:
            of_command = error.ctx is not ctx and ctx.invoked_subcommand
            _fail_usage(error, f"tinyattn {of_command}" if of_command else "tinyattn")
        except MemoryError as error:
            fail(f"there is not enough memory for this: {error}", 1)
        except RuntimeError as error:
            if "new thread" not in str(error):
                raise
            parameters = self.commands[ctx.invoked_subcommand or ""].params
            fewer = "; use fewer --workers" * any(p.name == "workers" for p in parameters)
            fail(f"the system starts no more threads{fewer}", 1)
        except BrokenPipeError:
            raise  # the reader has stopped, as in `tinyattn info | head`; click ends quietly
        except OSError as error:
            fail(f"{error.filename or 'output'}: {error.strerror or error}", 1)


EXTRA = re.compile(r"unexpected extra arguments? \((.*)\)", re.DOTALL)
"""How click reports arguments that a command does not take."""


def _fail_usage(error: click.UsageError, command: str) -> NoReturn:
    """Print the error, what to type instead where that is known, and whose help has more; exit."""
    hint = ""
    if error.ctx is not None:
        if isinstance(error, click.NoSuchOption):
            hint = _option_hint(error.option_name, error.ctx)
        elif extra := EXTRA.search(error.message):
            hint = _argument_hint(extra[1], error.ctx)
    message = f"{error.message.rstrip('.')}; {hint}" if hint else error.format_message()
    fail(f"{message} (see {command} --help)", 2)


def _option_hint(option: str, ctx: click.Context) -> str:
    """The option or setting that was meant, or where the option goes; empty if it is unknown."""
    typed = option.lstrip("-").replace("-", "_")
    if instead := option_for(typed, ctx.command):
        return f"did you mean {instead}?"
    if ctx.parent and (instead := option_for(typed, ctx.parent.command)):
        return f"{instead} goes before the command"
    if isinstance(ctx.command, click.Group):
        commands = ctx.command.commands.values()
        known = any(option in p.opts for command in commands for p in command.params)
        return f"{option} goes after the command" if known else ""
    home = home_of(typed, ctx.info_name or "")
    takes = any(parameter.name == "settings" for parameter in ctx.command.params)
    return f"did you mean --set {home}=VALUE?" if home and takes else ""


def _argument_hint(extra: str, ctx: click.Context) -> str:
    """What to type in place of arguments that a command does not take; empty if it is unknown."""
    command, run = ctx.command, option_for("from", ctx.command)
    is_path = os.path.exists(extra) or (os.sep in extra and " " not in extra)
    takes_text = any(parameter.name in ("prompt", "question") for parameter in command.params)
    if takes_text and not is_path:
        return "a text of several words needs quotes"
    if " " in extra and not is_path:
        return ""  # several arguments
    given = ctx.get_parameter_source("start") is click.core.ParameterSource.COMMANDLINE
    bare = not any(isinstance(parameter, click.Argument) for parameter in command.params)
    meant = run and not given and (bare or takes_text or os.path.isdir(extra))
    return f"did you mean {run} {shlex.quote(extra)}?" if meant else ""


@click.group(
    cls=Commands,
    context_settings={"auto_envvar_prefix": "TINYATTN", "help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="tinyattn")
@option(
    "--formulas",
    default="",
    show_default=False,
    metavar="NAME,..",
    help="Operations that use the plain formula, not the fast kernel; or all. Those that "
    "TINYATTN_FORMULAS names do so too. `tinyattn info --kernels` lists them.",
)
@option(
    "--import",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="Module of your own, or FILE.py, to import before the command. A run whose attention is "
    "MODULE:CLASS needs it. May be repeated.",
)
@click.pass_context
def main(ctx: click.Context, formulas: str, modules: tuple[str, ...]) -> None:
    """Train a small GPT in plain NumPy, and ask it where people were born.

    The quickstart takes about three minutes on two cores. Every command also takes --help and
    --json (one JSON object instead of text); they go after its name.

    \b
    tinyattn quickstart                            the whole experiment on synthetic data
    \b
    tinyattn world --out world                     the same experiment, command by command
    tinyattn pretrain world/corpus.txt --recipe world
    tinyattn finetune world/birth_train.tsv
    tinyattn evaluate world/birth_dev.tsv
    """
    warnings.simplefilter("ignore", RuntimeWarning)  # values that are not finite raise one error
    keep_freed_memory(np)
    if names := names_in(formulas):
        with wrong("--formulas"):
            ctx.with_resource(by_formulas(*names))  # until the command ends
    for module in modules:
        with wrong("--import"):
            attention_in(own_class(module)[0] or module)  # also MODULE:CLASS, as for --attention
    command = ctx.invoked_subcommand
    if command not in ("pretrain", "finetune", "train"):
        number, to_be_alone = started(np)
        if number > 1:
            raise click.UsageError(f"several processes can share pretrain, finetune and train, not "
                                   f"{command}; leave out mpiexec{to_be_alone}")  # fmt: skip


for command in (
    quickstart, ask, world, pretrain, finetune, evaluate, baseline, generate, convert, train_task,
    score, claims, info,
):  # fmt: skip
    main.add_command(command)
# Other folders add commands. measure/ is part of the engine room, which may have been deleted; it
# needs parallel/.
ROOMS = {
    "parsing": (), "trace": (), "explore": (), "check": (), "exercise": (),
    "measure": ("measure", "parallel"),
}  # fmt: skip
for room, needed in ROOMS.items():
    if all(find_spec(f"tinyattn.{name}") for name in needed):
        for command in import_module(f"tinyattn.{room}.{room}_commands").COMMANDS:
            main.add_command(command)
