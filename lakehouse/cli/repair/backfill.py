"""`lakehouse repair backfill`: a table's rows rebuilt from bronze, while its job keeps running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.differing import differing_rows
from lakehouse.cli.terminal.options import (
    AppOption,
    ConfigOption,
    DecidedByOption,
    JsonOption,
    LakeOption,
    PlanOption,
    WhyOption,
    app_of,
    lake_of,
    with_app,
)
from lakehouse.errors import ConfigError

if TYPE_CHECKING:
    from lakehouse.plan.table import Table
    from lakehouse.run.repair.backfill import Backfilled, Range, ShowProgress


EXAMPLES = 10
ExamplesOption = Annotated[
    int, typer.Option("--limit", metavar="ROWS", min=0, help="With --plan: how many of the rows that differ are shown.")
]


def backfill(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table whose rows are rebuilt.")],
    app: AppOption = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="For records of this event time or later.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="For records before this event time.")] = None,
    offsets: Annotated[
        str | None, typer.Option("--offsets", metavar="TOPIC/P=FIRST..LAST,...", help="For records at these offsets.")
    ] = None,
    why: WhyOption = "",
    decided_by: DecidedByOption = None,
    plan: PlanOption = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="Remove what a --plan, or a killed backfill, left beside the table.")
    ] = False,
    limit: ExamplesOption = EXAMPLES,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Rebuild a table's rows from bronze: all, also with new logic, or those that a range of records touches.

    Its job keeps running. The rows that differ are merged in, at a tick of their own; only they reach the changelog.
    All rows: the table is built beside the live one, compared, and swapped in. Interrupted, run it again to continue.

    Example: lakehouse repair backfill totals --plan
    """
    from lakehouse.plan.evolution.change import reaches
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings, of = lake_of(config, lake), range_of(start, end, offsets)
    application, one = load_app(app_of(app, settings)), Lake(settings=settings)
    if discard:
        if of is not None or plan:
            raise ConfigError("backfill --discard: found a range, or --plan; it only removes what was built beside.")
        discarded = one.discard(application.table(table))
        if json:
            show.as_json({"table": table, "discarded": discarded})
        else:
            show.say(
                f"{table}: {'what was built beside it was removed' if discarded else 'nothing was built beside it'}."
            )
        return
    with progress(as_json=json) as listen:
        done = one.backfill(
            application, application.table(table),
            of=of, reason=why, by=decided_by, dry_run=plan, examples=limit if plan else 0, listen=listen,
        )  # fmt: skip
    below = [item.name for item in application.below(application.table(table))] if done.changed else []
    if json:
        show.as_json(as_object(application.table(table), done, plan=plan) | ({"read_by": below} if below else {}))
        return
    show.say(f"{done.records:,} records of bronze {'are' if of is not None and plan else 'were'} read.")
    say(app, application.table(table), done)
    if plan and of is None:
        show.say("What was built stays beside the table: a backfill continues from it.")
    if below:
        show.say(reaches(table, below))


def range_of(start: str | None, end: str | None, offsets: str | None) -> Range | None:
    """Return the range that a command line means; None for all. Raises ConfigError."""
    from lakehouse.run.repair.backfill import Range
    from lakehouse.semantics.moment import ranges_of, time_ms

    if start is None and end is None:
        return None if offsets is None else Range(offsets=ranges_of(offsets))
    if offsets is not None:
        raise ConfigError("found --offsets beside --from or --to; expected offsets, or event times.")
    first = None if start is None else time_ms(start, "--from")
    last = None if end is None else time_ms(end, "--to") - 1
    if first is not None and last is not None and first > last:
        raise ConfigError(f"--from {start} --to {end}: expected the earlier time first; --to is not in the range.")
    return Range(first, last)


@contextmanager
def progress(*, as_json: bool) -> Iterator[ShowProgress]:
    """Show a build on stderr while it lasts; give its listener. as_json: a line for each step, for programs."""
    if as_json:
        yield lambda phase, done, total: show.as_json(
            {"event": "progress", "phase": phase, "records": done, "of": total}, stderr=True
        )
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description:8}"), BarColumn(), TextColumn("{task.fields[said]}"))
    with Progress(*columns, TimeElapsedColumn(), console=show.console(stderr=True)) as bars:
        task = bars.add_task("start", total=None, said="")

        def listen(phase: str, done: int, total: int) -> None:
            said = f"{done:,} records of {total:,}"
            bars.update(task, description=phase, total=total or None, completed=done, said=said)

        yield listen


def as_object(made: Table, done: Backfilled, *, plan: bool) -> dict[str, Any]:
    """Return what was changed, for programs; of a plan also the first rows that would change, if any are wanted."""
    of = done.differing
    return {
        "table": made.name, "plan": plan, "tick": done.tick, "back_to": done.before,
        "undone_by": undone_by(made, done), "records": done.records,
        **of.counts(), **({"changes": of.changes} if of.changes else {}),
    }  # fmt: skip


def undone_by(made: Table, done: Backfilled) -> str:
    """Say what undoes a change, or would: what `revert` of `lakehouse.run.repair.backfill` refuses is not promised."""
    from lakehouse.plan.rows import takes_out

    read = f"what it was can still be read, at tick {done.before}, and made a table of its own by a checkout"
    if done.changed:
        return f"a backfill with the declaration that it had; {read}"
    if takes_out(made):
        return f"a repair of the tables that it is made of; {read}"
    return f"a revert to tick {done.before}"


def say(app: str | None, made: Table, done: Backfilled) -> None:
    """Say what was changed, and how to go back."""
    from lakehouse.plan.rows import takes_out

    of, table = done.differing, made.name
    rows = f"{of.added:,} rows added, {of.removed:,} removed, {of.changed:,} changed"
    if done.tick is None:
        if of.changes:
            some = f"the first {len(of.changes):,} of {of.keys:,} rows; --limit shows more"
            differing_rows(of.changes, some if len(of.changes) < of.keys else None)
        show.say(f"{table}: nothing differs." if of.equal else f"{table}: {rows}, if applied. Nothing was changed.")
        return
    show.say(f"{table}: {rows}, at tick {done.tick:,}.")
    if done.changed:
        show.say("The way back: lakehouse repair backfill, with the declaration that it had.")
    if done.changed or takes_out(made):
        show.say(f"What it was: lakehouse past checkout {table} {table}_before --tick {done.before}{with_app(app)}")
    else:
        show.say(f"The way back: lakehouse repair revert {table} --tick {done.before}{with_app(app)}")
