"""`lakehouse test audit`: the fate of every offset that a table has taken in, and whether the sums agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, lake_of
from lakehouse.phases import phase

if TYPE_CHECKING:
    from lakehouse.run.audit.finding import Audit


def audit(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A table of the application, such as totals.")],
    app: AppOption = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also fold the table from bronze, and compare its rows.")
    ] = False,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Account for every offset that a table has taken in: applied, superseded, late, quarantined, or explained.

    Exit code 1 when something is not as it should be: each problem says what was found, what was expected, what to do.
    Offsets that bronze does not have are looked up in Kafka, if it runs. Docs: docs/audit.md.

    Example: lakehouse test audit totals
    """
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings = lake_of(config, lake)
    application = load_app(app_of(app, settings))
    declared_table = application.table(table)
    with phase("audit") as auditing:

        def show_part(part: str) -> None:
            auditing.text = f"audit of {part}"

        listener = _say_part_as_json if json else show_part
        audit_result = Lake(settings=settings).audit(application, declared_table, deep=deep, listen=listener)
    if json:
        show.print_json(audit_result.plain())
    else:
        _print_audit(audit_result)
    if not audit_result.ok:
        raise typer.Exit(FAILED)


def _say_part_as_json(part: str) -> None:
    """Print the part under check, for a program that waits."""
    show.print_json({"event": "progress", "part": part}, stderr=True)


def _print_audit(audit_result: Audit) -> None:
    title, columns, rows = audit_result.partition_table()
    if rows:
        show.print_table(title, columns, rows)
    else:
        show.say(title)
    for note in audit_result.notes:
        show.say(f"note: {note}.")
    for problem_number, problem in enumerate(audit_result.problems, 1):
        show.say(f"\nproblem {problem_number}: {problem.found}\n  expected: {problem.expected}\n  do: {problem.do}")
    offset_total = sum(partition.offsets for partition in audit_result.partitions)
    if audit_result.ok:
        ok_texts = [f"{offset_total:,} offsets, each accounted for"] if audit_result.partitions else []
        show.say(f"ok: {', '.join([*ok_texts, *(['rows as a refold gives'] if audit_result.deep else [])])}.")
