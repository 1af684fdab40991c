"""Wing, the command line: commands read what was typed, and call what stands before.

Options come before the environment (TINYATTN_PRETRAIN_SEED=1), that before a settings file
(--config), and that before the recipe. Exit status: 0 done, 1 the data or a file is bad, 2 wrong
usage; errors that a user can cause are one line on stderr. Long work shows progress, unless stderr
is no terminal. While a model trains, Ctrl-C keeps a checkpoint and says how to go on, and so do
SIGTERM and SIGHUP, whose exit status is 128 and the signal's number; else Ctrl-C ends with status
130.
"""

from __future__ import annotations

import shlex
import signal
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click
import numpy as np

from tinyattn import __version__
from tinyattn.cli.streams import open_streams
from tinyattn.cli.types import option_for, wrong
from tinyattn.cli.options import option
from tinyattn.cli.outputs import fail
from tinyattn.cli.world import world
from tinyattn.cli.train import finetune, pretrain, quickstart
from tinyattn.cli.task import score, train_task
from tinyattn.cli.use import baseline, convert, evaluate, generate
from tinyattn.cli.claims import claims
from tinyattn.cli.info import info
from tinyattn.data.text import DataError
from tinyattn.data.world import WorldExists
from tinyattn.models.generate import ScoresError
from tinyattn.switches import formulas as by_formulas
from tinyattn.switches import names_in
from tinyattn.tasks.recipe import home_of
from tinyattn.threads import NoThreads, keep_freed_memory
from tinyattn.training.checkpoint import CheckpointError
from tinyattn.training.keep import TrainingFailed
from tinyattn.training.ranks import MissingMPI, RanksDiffer, started
from tinyattn.training.settings import SettingError
from tinyattn.training.signals import Interrupted

__all__ = ["main"]


class Commands(click.Group):
    """Turns the errors a user can cause into one line and an exit status."""

    def main(self, *args: Any, **options: Any) -> Any:
        """The whole program, from the words that were typed to its exit status."""
        open_streams()  # before anything is written, or a file is opened
        return super().main(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a user's error ends with status 1 (bad data or file) or 2 (bad usage)."""

        try:
            return super().invoke(ctx)
        except (DataError, CheckpointError, ScoresError, TrainingFailed) as error:
            fail(str(error), 1)
        except (SettingError, WorldExists, MissingMPI, NoThreads) as error:
            fail(str(error), 2)
        except RanksDiffer as error:
            fail(str(error), 2, all_know=True)
        except KeyboardInterrupt:
            fail("stopped at once; what was written before is kept", 130)
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
            command = " ".join(["tinyattn", *filter(None, [ctx.invoked_subcommand])])
            fail(f"{_with_setting(error)} (see {command} --help)", 2)
        except MemoryError as error:
            fail(f"there is not enough memory for this: {error}", 1)
        except RuntimeError as error:
            if "new thread" not in str(error):
                raise
            parameters = self.commands[ctx.invoked_subcommand or ""].params
            fewer = "; use fewer --workers" * any(p.name == "workers" for p in parameters)
            fail(f"the system starts no more threads{fewer}", 1)
        except BrokenPipeError:
            raise  # whoever reads has seen enough, as in `tinyattn info | head`; click ends quietly
        except OSError as error:
            fail(f"{error.filename or 'output'}: {error.strerror or error}", 1)


def _with_setting(error: click.UsageError) -> str:
    """What is wrong with a command; of an option that is a setting, or is called otherwise here,
    what to type instead."""
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        typed = error.option_name.lstrip("-").replace("-", "_")
        if instead := option_for(typed, error.ctx.command):
            return f"{error.message.rstrip('.')}; did you mean {instead}?"
        group = error.ctx.parent
        if group and (instead := option_for(typed, group.command)):
            return f"{error.message.rstrip('.')}; {instead} stands before the command"
        home = home_of(typed, error.ctx.info_name or "")
        if home and any(parameter.name == "sets" for parameter in error.ctx.command.params):
            return f"{error.message.rstrip('.')}; did you mean --set {home}=VALUE?"
    return error.format_message()


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
    help="Compute by these formulas where there are kernels, or by all; besides those "
    "that TINYATTN_FORMULAS names. `tinyattn info --kernels` lists them.",
)
@click.pass_context
def main(ctx: click.Context, formulas: str) -> None:
    """Attention, autograd and a GPT that learns where people were born, in plain NumPy.

    \b
    tinyattn quickstart                            the whole job on a made-up world
    \b
    tinyattn world --out world                     the same job, command by command
    tinyattn pretrain world/corpus.txt --recipe world
    tinyattn finetune world/birth_train.tsv
    tinyattn evaluate world/birth_dev.tsv
    """
    warnings.simplefilter("ignore", RuntimeWarning)  # what is not finite is noticed, and said once
    keep_freed_memory(np)
    if names := names_in(formulas):
        with wrong("--formulas"):
            ctx.with_resource(by_formulas(*names))  # until the command ends
    command = ctx.invoked_subcommand
    if command not in ("pretrain", "finetune", "train"):
        number, to_be_alone = started(np)
        if number > 1:
            raise click.UsageError(f"several processes can share pretrain, finetune and train, not "
                                   f"{command}; leave out mpiexec{to_be_alone}")  # fmt: skip


for command in (
    quickstart, world, pretrain, finetune, evaluate, baseline, generate, convert, train_task,
    score, claims, info,
):  # fmt: skip
    main.add_command(command)
# Rooms that bring commands of their own. What measures belongs to the engine room, which may have
# been deleted, and looks at its threads.
for room, needed in (("parsing", ()), ("measure", ("measure", "parallel"))):
    if all(find_spec(f"tinyattn.{name}") for name in needed):
        for command in import_module(f"tinyattn.{room}.commands").COMMANDS:
            main.add_command(command)
