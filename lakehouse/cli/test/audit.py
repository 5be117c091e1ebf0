"""`lakehouse test audit`: what became of every offset that a table has taken in, and whether the sums agree."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, lake_of

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
    wanted = application.table(table)
    with ExitStack() as stack:
        found = Lake(settings=settings).audit(
            application, wanted, deep=deep, listen=_told if json else _progress(stack)
        )  # fmt: skip
    if json:
        show.as_json(found.plain())
    else:
        _print(found)
    if not found.ok:
        raise typer.Exit(FAILED)


def _told(part: str) -> None:
    """The part that is being checked, for a program that waits."""
    show.as_json({"event": "progress", "part": part}, stderr=True)


def _progress(stack: ExitStack) -> Callable[[str], None]:
    """The part that is being checked, for a person who waits: on stderr, if that is a terminal."""
    console = show.console(stderr=True)
    if not console.is_terminal:
        return lambda part: None
    status = stack.enter_context(console.status("audit: starting Spark"))
    return lambda part: status.update(f"audit: {part}")


def _print(found: Audit) -> None:
    title, columns, rows = found.counted()
    if rows:
        show.table(title, columns, rows)
    else:
        show.say(title)
    for note in found.notes:
        show.say(f"note: {note}.")
    for number, problem in enumerate(found.problems, 1):
        show.say(f"\nproblem {number}: {problem.found}\n  expected: {problem.expected}\n  do: {problem.do}")
    total = sum(partition.offsets for partition in found.partitions)
    if found.ok:
        said = [f"{total:,} offsets, each accounted for"] if found.partitions else []
        show.say(f"ok: {', '.join([*said, *(['rows as a refold gives'] if found.deep else [])])}.")
