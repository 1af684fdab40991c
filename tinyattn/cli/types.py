"""Wing, commands: the types of options, and the parsing of --set and --penalty."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from tinyattn.limits import MOST, brief
from tinyattn.names import nearest, ours
from tinyattn.tasks.recipe import home_of
from tinyattn.training.settings import SettingError

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path)


def typed(text: str) -> str:
    """An argument as text, decoded as UTF-8 where the locale could not decode it."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


class Amount(click.IntRange):
    """The type of an option whose value is a count or a seed."""

    def __init__(self, least: int = 1, most: int = MOST) -> None:
        super().__init__(least)
        self.most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number that was typed."""
        number = int(super().convert(value, param, ctx))
        if number > self.most:
            self.fail(f"must be at most {self.most}; got {brief(number)}", param, ctx)
        return number


class Real(click.FloatRange):
    """The type of an option whose value is a finite number in a range."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number that was typed."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"must be finite; got {value}", param, ctx)
        return number


class Choice(click.Choice[str]):
    """The type of an option whose value is one of some names; its error suggests the nearest."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """The message for a name that is not among them, with the nearest one that is."""
        message = super().get_invalid_choice_message(value, ctx)
        return f"{message.rstrip('.')}{nearest(str(value), self.choices, otherwise=False)}"


def option_for(name: str, command: click.Command) -> str:
    """The option of a command for a name, also one of another library; empty if there is none."""
    known = {o.removeprefix("--") for p in command.params for o in p.opts if o.startswith("--")}
    ours_is = ours(name.replace("-", "_"), known)
    return f"--{ours_is}" if ours_is in known else ""


@contextmanager
def wrong(option: str = "", error: type[Exception] = ValueError) -> Iterator[None]:
    """Turn an error in the block into a usage error (status 2) about `option`, or a setting."""
    try:
        yield
    except error as found:
        kind = click.BadParameter(str(found), param_hint=option) if option else None
        raise kind or SettingError(str(found)) from found


@wrong("--penalty")
def parse_penalties(penalties: tuple[str, ...]) -> dict[str, float]:
    """The settings focus, near and cap from `focus=0.01` and `near=0.001,cap=64`."""
    found: dict[str, float] = {}
    for item in penalties:
        for position, part in enumerate(item.split(",")):
            key, _, value = part.strip().partition("=")
            known = ("focus", "near") if position == 0 else ("cap",)
            if key not in known:
                near = nearest(key, known, otherwise=False)
                raise ValueError(
                    f"needs focus=WEIGHT, or near=WEIGHT,cap=SQUARE; got {brief(item)}{near}"
                )
            try:
                found[key] = float(value)
            except ValueError:
                example = f"{key} needs a number, such as {key}=0.01"
                raise ValueError(f"{example}; got {brief(item)}") from None
    return found


@wrong("--set")
def parse_settings(sets: tuple[str, ...]) -> dict[str, Any]:
    """The settings from `TABLE.KEY=VALUE`. The value is TOML; a bare word is a string.

    Raises: click.BadParameter for another form, for the name of an option of the command, or for
        a value that is too long or nested too deep.
    """
    settings, ctx = {}, click.get_current_context()
    for item in sets:
        key, equals, value = item.partition("=")
        name = key.rpartition(".")[2]
        if equals and not home_of(name) and (instead := option_for(name, ctx.command)):
            raise ValueError(f"no setting {brief(key)}; did you mean {instead}?")
        if not equals or "." not in key:
            home = home_of(key, ctx.info_name or "")
            near = f"; did you mean {home}=VALUE?" if home else ""
            raise ValueError(f"needs TABLE.KEY=VALUE; got {item!r}{near}")
        try:
            settings[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            settings[key] = value
        except (ValueError, RecursionError):
            raise ValueError(f"{key}: its value is too long, or nested too deep") from None
    return settings
