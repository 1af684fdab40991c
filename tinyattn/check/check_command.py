"""Wing, check: a command that checks the laws of attention on a function of the user."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click

from tinyattn.cli import options as opt
from tinyattn.cli.outputs import check_target
from tinyattn.cli.own_code import module_of
from tinyattn.cli.types import FILE, Amount, Choice, wrong
from tinyattn.names import nearest
from tinyattn.theory.conventions import CAUSAL_FROM, FEATURES, KEYWORDS, LIBRARIES, MASKS, NO_KEY


class Supports(NamedTuple):
    """Features that a function supports, or those that it does not support."""

    names: frozenset[str]
    without: bool

    def of(self, by_default: frozenset[str]) -> frozenset[str]:
        """All features that it supports."""
        return by_default - self.names if self.without else self.names


class Features(click.ParamType[Supports]):
    """The type of --supports: names with commas between, or all but some: -mask,-causal."""

    name = "features"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Supports:
        """The features."""
        if isinstance(value, Supports):
            return value
        names = [name.strip() for name in value.split(",")]
        for name in names:
            if name.removeprefix("-") not in FEATURES:
                self.fail(f"there is no feature {name!r}{nearest(name, sorted(FEATURES))}")
        if len({name.startswith("-") for name in names}) > 1:
            self.fail("give either what it supports, or what it does not (with - before each name)")
        without = names[0].startswith("-")
        return Supports(frozenset(name.removeprefix("-") for name in names), without)


@click.command()
@click.argument("function", metavar="MODULE:FUNCTION")
@opt.option("--supports", type=Features(), metavar="NAMES",
            show_default="all but dropout, grad and the keywords it does not have",
            help="What it supports, with commas between; or what it does not, as in -mask,-causal. "
            f"Names: {', '.join(sorted(FEATURES))}.")  # fmt: skip
@opt.option("--arrays", type=Choice(LIBRARIES), default="numpy",
            help="The library of its arrays.")  # fmt: skip
@opt.option("--mask", type=Choice(MASKS), default="allowed",
            help="What a mask means: True = may attend, True = may not, or 0 and -inf to "
            "add.")  # fmt: skip
@opt.option("--no-key", type=Choice(NO_KEY), default="zeros",
            help="What a query gets that may attend to no key.")  # fmt: skip
@opt.option("--causal-from", type=Choice(CAUSAL_FROM), default="end",
            help="Where the causal mask is aligned if there are more keys than "
            "queries.")  # fmt: skip
@opt.option("--examples", default=40, type=Amount(), help="Arguments to try for each law.")
@opt.option("--html", "page", type=FILE, help="HTML file to write with all results.")
@opt.JSON
def check(
    function: str, supports: Supports | None, arrays: str, mask: str, no_key: str,
    causal_from: str, examples: int, page: Path | None,
) -> None:  # fmt: skip
    """Check the laws of attention on a function of yours.

    MODULE:FUNCTION is a function f(q, k, v) in a module or a file, with q (.., T, D), k (.., S, D)
    and v (.., S, E). It may have the keywords mask, causal, scale and dropout; they are given only
    if needed. For each law that it breaks, the numbers are printed, what came out, what is right,
    and three lines of code that show it. Then the exit status is 1.

    \b
    tinyattn check my_module:attention
    tinyattn check my_file.py:attention --supports -mask,-float64 --arrays torch
    tinyattn check my_module:attention --no-key mean --html laws.html
    """
    if find_spec("hypothesis") is None:
        raise click.UsageError("tinyattn check needs Hypothesis: pip install 'tinyattn[check]'")
    from tinyattn.check import report
    from tinyattn.check.conformance import check_attention, expected, keywords
    from tinyattn.data.files import write
    from tinyattn.report.progress import Progress
    from tinyattn.theory.laws import LAWS

    if page is not None:
        check_target(page, "--html")
    module, _, name = function.rpartition(":")
    if not module:
        raise click.BadParameter(f"must be MODULE:FUNCTION; got {function!r}",
                                 param_hint="MODULE:FUNCTION")  # fmt: skip
    with wrong("MODULE:FUNCTION"):
        made = module_of(module)
        f = getattr(made, name, None)
        if not callable(f):
            there = [key for key, value in vars(made).items() if callable(value)]
            hint = nearest(name, there) if there else "; it has no functions"
            raise ValueError(f"{module} has no function {name!r}{hint}")
    by_default = expected(f)
    supported = by_default if supports is None else supports.of(by_default)
    others = [word for word in keywords(f) or [] if word not in KEYWORDS]
    if others:
        hints = "".join(f"; for {word}, {hint.removeprefix('; ')}" for word in others
                        if (hint := nearest(word, KEYWORDS, otherwise=False)))  # fmt: skip
        click.echo(
            f"note: {name} has the keywords {', '.join(others)}, which are not given; those "
            f"that may be given are {', '.join(sorted(KEYWORDS))}{hints}",
            err=True,
        )
    with wrong("--arrays"), Progress() as bar:
        bar.start(0, len(LAWS))
        found = check_attention(f, supported, arrays=arrays, mask=mask, no_key=no_key,
                                causal_from=causal_from, examples=examples,
                                on_result=lambda result: bar.advance(1))  # fmt: skip
    if page is not None:
        write(page, report.as_html(found))
    opt.show(report.as_dict(found), report.as_text(found))
    if not found.ok:
        raise SystemExit(1)
