"""`lakehouse repair replay`: fixes records of a quarantine; those that fit count at their original positions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.look.quarantine import (
    FromOption,
    OpenOption,
    PositionOption,
    ReasonOption,
    StreamArgument,
    ToOption,
    choice_of_options,
)
from lakehouse.cli.look.read import LimitOption
from lakehouse.cli.repair.fixes import Attempt, NewBytes, ReplayRequest, attempt_fix
from lakehouse.cli.terminal.options import (
    AppOption,
    ConfigOption,
    DecidedByOption,
    JsonOption,
    LakeOption,
    app_of,
    lake_of,
)


def replay(
    stream: StreamArgument,
    app: AppOption = None,
    reason: ReasonOption = None,
    position: PositionOption = None,
    start: FromOption = None,
    end: ToOption = None,
    open: OpenOption = False,
    fix: Annotated[
        str | None,
        typer.Option("--fix", metavar="FUNCTION", help="Fix them by FILE.py:NAME, MODULE:NAME, or a NAME in APP."),
    ] = None,
    value: Annotated[str | None, typer.Option("--value", metavar="TEXT", help="The one record's new value.")] = None,
    value_file: Annotated[
        Path | None, typer.Option("--value-file", metavar="FILE", help="Its new value, the bytes of a file.")
    ] = None,
    null_value: Annotated[bool, typer.Option("--null-value", help="Its new value is null: it deletes.")] = False,
    key: Annotated[str | None, typer.Option("--key", metavar="TEXT", help="The one record's new key.")] = None,
    key_file: Annotated[
        Path | None, typer.Option("--key-file", metavar="FILE", help="Its new key, the bytes of a file.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show what would become of them, and change nothing.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Leave out those fixed before, which are otherwise refused.")
    ] = False,
    instead: Annotated[bool, typer.Option("--instead", help="Those fixed before count with the new bytes.")] = False,
    expect: Annotated[
        str | None,
        typer.Option(
            "--expect", metavar="DIGEST", help="Refuse other records or bytes than --plan said this digest of."
        ),
    ] = None,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="It is kept in the interventions.")] = "",
    decided_by: DecidedByOption = None,
    limit: LimitOption = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Fix records of a stream's quarantine, and let those that fit now count, at their original positions.

    A fix is a function (record -> record, bytes, or None), a new value or key of one record, or nothing, if the
    stream's declaration has changed. It is an intervention, and what depends on the records is rebuilt. --plan shows
    the records before and after, refuses what the replay would refuse, and changes nothing. --expect, with the digest
    that --plan --json says, leaves out records that came since, and refuses to give the others other bytes.

    Example: lakehouse repair replay orders --app app.py --fix repair --plan
    """
    from lakehouse.plan.expression.schema import check_name

    check_name(stream, "stream")
    settings = lake_of(config, lake)
    record_choice = choice_of_options(reason, position, start, end, is_open=open)
    new_values = {"value": NewBytes(value, value_file, null_value), "key": NewBytes(key, key_file)}
    fix_attempt = Attempt(app_of(app, settings), stream, record_choice, fix, new_values)
    replay_request = ReplayRequest(why, decided_by, again, instead, expect)
    attempt_fix(settings, fix_attempt, replay_request, limit, only_plan=plan, json=json)
