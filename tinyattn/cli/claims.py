"""Wing, commands: a command that tries every claim of the sheets."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from tinyattn.cli import options as opt
from tinyattn.cli.outputs import check_target
from tinyattn.cli.types import FILE, Amount, Choice

VERDICTS = {"true": "TRUE", "conditional": "TRUE WITH CONDITIONS", "false": "FALSE",
            "typo": "TYPO", "open": "NOT CHECKABLE"}  # fmt: skip
SHEETS = ("000", "001", "002", "003", "004", "general", "new")


@click.command()
@opt.option("--id", "ids", multiple=True, metavar="ID",
        help="Only this claim or remark, such as S000-b.6, in full; may be repeated.")  # fmt: skip
@opt.option("--sheet", "sheets", multiple=True, type=Choice(SHEETS),
        help="Only this sheet, general facts, or what stands in no sheet (new).")  # fmt: skip
@opt.option("--verdict", "verdicts", multiple=True,
        type=Choice([*VERDICTS], case_sensitive=False),
        help="Only claims and remarks of this verdict; may be repeated.")  # fmt: skip
@opt.option("--draws", default=12, type=Amount(), help="How often each truth is tried.")
@opt.option("--html", "page", type=FILE,
        help="Write a page that needs nothing else, and print counts only.")  # fmt: skip
@opt.SEED
@opt.DEVICE
@opt.JSON
def claims(
    ids: tuple[str, ...], sheets: tuple[str, ...], verdicts: tuple[str, ...], draws: int,
    page: Path | None, seed: int, device: str,
) -> None:  # fmt: skip
    """Try what five answer sheets claim about attention, and print their errata.

    What a sheet says must fail on its counterexample unless it is simply true; what is true instead
    must hold on random draws. Attention weights are read from the operation that models use. What
    is no claim about attention, such as a share of right answers, is a remark, checked by
    arithmetic.
    Exit status 1 if anything comes out otherwise. Verdicts: true; conditional, true on a range of
    what the claim leaves open; false; typo, a slip of the pen; open, what no check can tell. The
    sheets are not part of this package: claims stand in our words, and the lines named are
    those of the sheets.

    \b
    tinyattn claims --html errata.html
    tinyattn claims --sheet 000 --verdict false
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
            hint = f"did you mean {' or '.join(near)}?" if near else "`tinyattn claims` lists them"
            raise click.BadParameter(f"there is no claim {name!r}; {hint}", param_hint="--id")
    named = {spelled[name.upper()] for name in ids}
    wanted = {VERDICTS[name] for name in verdicts}

    def asked_for(one: Claim | Remark) -> bool:
        return (
            (not named or one.id in named) and (not sheets or one.sheet in sheets)
            and (not wanted or one.verdict in wanted)
        )  # fmt: skip

    chosen = [claim for claim in CLAIMS.values() if asked_for(claim)]
    remarks = [remark for remark in REMARKS.values() if asked_for(remark)]
    if not chosen and not remarks:
        raise click.UsageError(
            "no claim is left: none fits all that --id, --sheet and --verdict ask for"
        )
    if page is not None:
        check_target(page, "--html")
    device = opt.open_device(device)
    with Progress() as bar:
        bar.start(0, len(chosen))
        results = judge_all(chosen, draws=draws, seed=seed, device=device,
                            on_result=lambda result: bar.advance(1))  # fmt: skip
    told: list[Result | Remark] = [*results, *remarks] if ids else []
    counts = report.summary(results, remarks)
    if page is not None:
        write(page, report.as_html(results, remarks))
        told = [result for result in results if not result.ok]
        counts += f"\nThe page is {page}."
    whole = not ids and page is None
    text = "\n\n".join([*map(report.as_details, told), counts])
    opt.show(report.as_dict(results, remarks), report.as_text(results, remarks) if whole else text)
    if report.unexpected(results, remarks):
        raise SystemExit(1)
