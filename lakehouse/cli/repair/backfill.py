"""`lakehouse repair backfill`: a table's rows rebuilt from bronze, while its job keeps running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.repair.stages import say_stages
from lakehouse.cli.terminal import show
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
from lakehouse.cli.terminal.row_differences import print_differing_rows
from lakehouse.errors import ConfigError, PlanError
from lakehouse.markup.quantity import quantity

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
    expect: Annotated[
        str | None,
        typer.Option(
            "--expect", metavar="DIGEST", help="Refuse another declaration than that of a `--plan`, by its digest."
        ),
    ] = None,
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
    from lakehouse.plan.evolution.change import declarations_digest, explain_reach
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings, record_range = lake_of(config, lake), chosen_range(start, end, offsets)
    application, lake_api = load_app(app_of(app, settings)), Lake(settings=settings)
    if discard:
        if record_range is not None or plan or expect is not None:
            raise ConfigError(
                "backfill --discard: found a range, --plan or --expect; it only removes what was built beside."
            )
        discarded = lake_api.discard(application.table(table))
        if json:
            show.print_json({"table": table, "discarded": discarded})
        else:
            show.say(
                f"{table}: {'what was built beside it was removed' if discarded else 'nothing was built beside it'}."
            )
        return
    listener = build_listener(as_json=json)
    declared_table = application.table(table)
    digest = declarations_digest((*declared_table.stream.tables, declared_table))
    if expect is not None and digest != expect:
        raise PlanError(
            f"table {table!r}: found a declaration, with those above it, of the digest {digest}, expected "
            f"{expect!r:.80}, as it was when the backfill was planned: the application has changed since. Put its file "
            "back, or plan again: lakehouse repair backfill --plan."
        )
    if plan:
        repair_plan = lake_api.plan_backfill(application.table(table), of=record_range, examples=limit, listen=listener)
        outcome = repair_plan.expected
    else:
        repair_plan = None
        outcome = lake_api.backfill(
            application, application.table(table), of=record_range, reason=why, by=decided_by, listen=listener
        )
    tables_below = [item.name for item in application.tables_below(application.table(table))] if outcome.changed else []
    if json:
        show.print_json(
            change_as_json(application.table(table), outcome, plan=plan)
            | ({} if repair_plan is None else {"stages": repair_plan.describe(), "digest": digest})
            | ({"read_by": tables_below} if tables_below else {})
        )
        return
    show.say(f"{quantity(outcome.records, 'record')} of bronze read.")
    if repair_plan is not None:
        say_stages(repair_plan)
    say_what_changed(app, application.table(table), outcome)
    if plan and record_range is None:
        show.say("What was built stays beside the table: a backfill continues from it.")
    if tables_below:
        show.say(explain_reach(table, tables_below))


def chosen_range(start: str | None, end: str | None, offsets: str | None) -> Range | None:
    """Return the range that the options mean; None for all. Raises ConfigError."""
    from lakehouse.run.repair.backfill import Range
    from lakehouse.semantics.time.named_moment import ranges_of, time_ms

    if start is None and end is None:
        return None if offsets is None else Range(offsets=ranges_of(offsets))
    if offsets is not None:
        raise ConfigError("found --offsets beside --from or --to; expected offsets, or event times.")
    first_ms = None if start is None else time_ms(start, "--from")
    last_ms = None if end is None else time_ms(end, "--to") - 1
    if first_ms is not None and last_ms is not None and first_ms > last_ms:
        raise ConfigError(f"--from {start} --to {end}: expected the earlier time first; --to is not in the range.")
    return Range(first_ms, last_ms)


def build_listener(*, as_json: bool) -> ShowProgress | None:
    """Return what prints each step of a build for programs; None for people, who see its phases."""
    if not as_json:
        return None
    return lambda phase, record_count, record_total: show.print_json(
        {"event": "progress", "phase": phase, "records": record_count, "of": record_total}, stderr=True
    )


def change_as_json(declared_table: Table, outcome: Backfilled, *, plan: bool) -> dict[str, Any]:
    """Return the changes, for programs; of a plan also the first rows that would change, if any are wanted."""
    differences = outcome.differing
    return {
        "table": declared_table.name, "plan": plan, "tick": outcome.tick, "back_to": outcome.before,
        "undone_by": way_to_undo(declared_table, outcome), "records": outcome.records,
        **differences.counts(), **({"changes": differences.changes} if differences.changes else {}),
    }  # fmt: skip


def way_to_undo(declared_table: Table, outcome: Backfilled) -> str:
    """Return the command that undoes a change, or would; only if `lakehouse.run.repair.backfill.revert` allows it."""
    from lakehouse.plan.rows import takes_out_rows

    how_to_read = f"what it was can still be read, at tick {outcome.before}, and made a table of its own by a checkout"
    if outcome.changed:
        return f"a backfill with the declaration that it had; {how_to_read}"
    if takes_out_rows(declared_table):
        return f"a repair of the tables that it is made of; {how_to_read}"
    return f"a revert to tick {outcome.before}"


def say_what_changed(app: str | None, declared_table: Table, outcome: Backfilled) -> None:
    """Print the changes, and how to go back."""
    from lakehouse.plan.rows import takes_out_rows

    differences, table_name = outcome.differing, declared_table.name
    row_counts = (
        f"{quantity(differences.added, 'row')} added, {differences.removed:,} removed, {differences.changed:,} changed"
    )
    if outcome.tick is None:
        if differences.changes:
            row_caption = f"the first {len(differences.changes):,} of {differences.keys:,} rows; --limit shows more"
            print_differing_rows(
                differences.changes, row_caption if len(differences.changes) < differences.keys else None
            )
        show.say(
            f"{table_name}: nothing differs."
            if differences.equal
            else f"{table_name}: {row_counts}, if applied. Nothing was changed."
        )
        return
    show.say(f"{table_name}: {row_counts}, at tick {outcome.tick:,}.")
    if outcome.changed:
        show.say("The way back: lakehouse repair backfill, with the declaration that it had.")
    if outcome.changed or takes_out_rows(declared_table):
        show.say(
            f"What it was: lakehouse past checkout {table_name} {table_name}_before --tick "
            f"{outcome.before}{with_app(app)}"
        )
    else:
        show.say(f"The way back: lakehouse repair revert {table_name} --tick {outcome.before}{with_app(app)}")
