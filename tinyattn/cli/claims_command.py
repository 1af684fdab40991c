"""Wing, commands: a command that checks every claim of the answer sheets."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from tinyattn.cli import options as opt
from tinyattn.cli.outputs import check_target
from tinyattn.cli.types import FILE, Amount, Choice

VERDICTS = {"true": "TRUE", "conditional": "TRUE WITH CONDITIONS", "false": "FALSE",
            "typo": "TYPO", "open": "NOT CHECKABLE"}  # fmt: skip
SHEETS = ("000", "001", "002", "003", "004", "general", "new", "papers")


class VerdictName(Choice):
    """The type of --verdict: the short names, and the names that the table prints."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The short name."""
        short = {printed.lower(): name for name, printed in VERDICTS.items()}
        words = " ".join(value.lower().split())
        return str(super().convert(short.get(words, value), param, ctx))


@click.command()
@opt.option("--id", "ids", multiple=True, metavar="ID",
        help="Claim or remark to check and print in full, such as S000-b.6; may be "
        "repeated.")  # fmt: skip
@opt.option("--sheet", "sheets", multiple=True, type=Choice(SHEETS),
        help="Answer sheet to check, or general facts, results that are in no sheet (new), or "
        "claims of papers; may be repeated.")  # fmt: skip
@opt.option("--verdict", "verdicts", multiple=True,
        type=VerdictName([*VERDICTS], case_sensitive=False),
        help="Verdict of the claims and remarks to check, as here or as the table prints it; may "
        "be repeated.")  # fmt: skip
@opt.option("--draws", default=12, type=Amount(), help="Random draws for each true statement.")
@opt.option("--html", "page", type=FILE,
        help="HTML file to write with all results; then only counts are printed.")  # fmt: skip
@opt.SEED
@opt.DEVICE
@opt.JSON
def claims(
    ids: tuple[str, ...], sheets: tuple[str, ...], verdicts: tuple[str, ...], draws: int,
    page: Path | None, seed: int, device: str,
) -> None:  # fmt: skip
    """Check the claims of five answer sheets about attention.

    An answer sheet is a student's published solutions of an assignment. The checks take a quarter
    of a minute; then verdicts and errata are printed. A good result ends with "unexpected: 0";
    otherwise the exit status is 1.

    A claim that is not simply true must fail on its counterexample, and the true statement in its
    place must hold on random draws. Attention weights come from the operation that models use. A
    statement that is not about attention, such as an accuracy, is a remark, checked
    by arithmetic.

    \b
    true         TRUE: the claim holds as it is written
    conditional  TRUE WITH CONDITIONS: it holds under a condition that it does not name
    false        FALSE: no such condition makes it true
    typo         TYPO: it is wrong as it is written, but the intended claim is clear
    open         NOT CHECKABLE: no check can decide it

    The sheets are not part of this package: the claims are in our words, and the line numbers are
    those of the sheets.

    \b
    tinyattn claims --html errata.html
    tinyattn claims --sheet 000 --verdict false
    tinyattn claims --verdict "true with conditions"
    tinyattn claims --id S000-b.6 --id N-1
    """
    from tinyattn.data.files import write
    from tinyattn.report import claims as report
    from tinyattn.report.progress import Progress
    from tinyattn.theory import CLAIMS, REMARKS, Claim, Remark, Result, judge_all

    spelled = {name.upper(): name for name in (*CLAIMS, *REMARKS)}
    for name in ids:
        if name.upper() not in spelled:
            near = difflib.get_close_matches(name, spelled.values(), n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else "`tinyattn claims` lists all"
            raise click.BadParameter(f"there is no claim {name!r}; {hint}", param_hint="--id")
    named = {spelled[name.upper()] for name in ids}
    wanted = {VERDICTS[name] for name in verdicts}

    def is_chosen(one: Claim | Remark) -> bool:
        return (
            (not named or one.id in named) and (not sheets or one.sheet in sheets)
            and (not wanted or one.verdict in wanted)
        )  # fmt: skip

    chosen = [claim for claim in CLAIMS.values() if is_chosen(claim)]
    remarks = [remark for remark in REMARKS.values() if is_chosen(remark)]
    if not chosen and not remarks:
        raise click.UsageError(
            "no claim is left: no claim has all of the given --id, --sheet and --verdict"
        )
    if page is not None:
        check_target(page, "--html")
    device = opt.open_device(device)
    with Progress() as bar:
        bar.start(0, len(chosen))
        results = judge_all(chosen, draws=draws, seed=seed, device=device,
                            on_result=lambda result: bar.advance(1))  # fmt: skip
    shown: list[Result | Remark] = [*results, *remarks] if ids else []
    counts = report.summary(results, remarks)
    if page is not None:
        write(page, report.as_html(results, remarks))
        shown = [result for result in results if not result.ok]
        counts += f"\nThe page is {page}."
    whole = not ids and page is None
    text = "\n\n".join([*map(report.as_details, shown), counts])
    opt.show(report.as_dict(results, remarks), report.as_text(results, remarks) if whole else text)
    if report.unexpected(results, remarks):
        raise SystemExit(1)
