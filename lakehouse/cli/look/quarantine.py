"""`lakehouse look quarantine`: records that did not fit a stream's schema: a list, by reason, or after a trial fix."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.look.fixes import Attempt, NewBytes, ReplayRequest, attempt_fix
from lakehouse.cli.look.read import ROWS_SHOWN, LimitOption, print_first_rows
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import (
    AppOption,
    ConfigOption,
    DecidedByOption,
    JsonOption,
    LakeOption,
    app_of,
    lake_of,
)
from lakehouse.errors import ConfigError
from lakehouse.semantics.moment import to_datetime

if TYPE_CHECKING:
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.record.quarantine import Choice, Quarantined, RecordPlace

PLACE = re.compile(r"([A-Za-z0-9._-]{1,249})/(\d{1,9})/(\d{1,18})", re.ASCII)


class CountBy(StrEnum):
    """The property by which to count records."""

    reason = "reason"


def quarantine(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="A stream; its topic's name, with _ for - and dots.")],
    by: Annotated[CountBy | None, typer.Option("--by", help="Count them by reason, with an example of each.")] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Only those whose reason contains this text.")
    ] = None,
    position: Annotated[
        list[str] | None,
        typer.Option("--position", metavar="TOPIC/PARTITION/OFFSET", help="Only this record; can be repeated."),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Only those of this time or later.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Only those before this time.")] = None,
    open: Annotated[bool, typer.Option("--open", help="Leave out those that a replay has fixed.")] = False,
    app: AppOption = None,
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
    plan: Annotated[bool, typer.Option("--plan", help="Show what would become of them.")] = False,
    replay: Annotated[
        bool, typer.Option("--replay", help="Those that fit now count, at their original positions.")
    ] = False,
    again: Annotated[
        bool,
        typer.Option("--again", help="With --replay: leave out those fixed before, which are otherwise refused."),
    ] = False,
    instead: Annotated[
        bool, typer.Option("--instead", help="With --replay: those fixed before count with the new bytes.")
    ] = False,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="It is kept in the interventions.")] = "",
    decided_by: DecidedByOption = None,
    limit: LimitOption = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Show the records of a stream that did not fit its schema, the newest first; count them; fix and replay them.

    A fixed record stays in the list, with the tick from which on it counts; --open leaves it out.

    A fix is a function (record -> record, bytes, or None), a new value or key of one record, or nothing, if the
    stream's declaration has changed. Only --replay changes something, and only it needs Spark: fixed records count at
    their original positions, as an intervention, and what depends on them is rebuilt.

    Example: lakehouse look quarantine orders --by reason
    """
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.record.quarantine import Choice
    from lakehouse.plan.schema import check_name
    from lakehouse.semantics.moment import time_ms

    check_name(stream, "stream")
    record_choice = Choice(
        reason, tuple(map(_parse_place, position or ())), None if start is None else time_ms(start, "--from"),
        None if end is None else time_ms(end, "--to"), open,
    )  # fmt: skip
    new_values = {"value": NewBytes(value, value_file, null_value), "key": NewBytes(key, key_file)}
    settings = lake_of(config, lake)
    if (
        app is not None
        or plan
        or replay
        or fix is not None
        or any(new_bytes.given for new_bytes in new_values.values())
    ):
        app = app_of(app, settings)
        if plan == replay:
            conflicting_options = "--plan and --replay" if replay else "a fix, or --app, alone"
            raise ConfigError(
                f"quarantine: found {conflicting_options}; expected --plan, to see what a fix makes, or --replay."
            )
        if by is not None:
            raise ConfigError("quarantine: found --by beside a fix; expected only one of them.")
    layout = Layout(settings.lake.path)
    if app is not None:
        replay_request = ReplayRequest(why, decided_by, again, instead) if replay else None
        attempt_fix(settings, Attempt(app, stream, record_choice, fix, new_values), replay_request, limit, json=json)
    elif by is not None:
        _count_by_reason(layout, stream, record_choice, limit, json)
    else:
        _list_records(layout, stream, record_choice, limit, json)


def _parse_place(text: str) -> RecordPlace:
    from lakehouse.lake.record.quarantine import RecordPlace

    if (match := PLACE.fullmatch(text)) is None:
        raise ConfigError(f"--position {text!r}: expected TOPIC/PARTITION/OFFSET, such as orders/0/17.")
    return RecordPlace(match[1], int(match[2]), int(match[3]))


def _list_records(layout: Layout, stream: str, choice: Choice, limit: int | None, json: bool) -> None:
    from lakehouse.lake.record.quarantine import count_quarantined_records, read_quarantined

    bad_records = read_quarantined(
        layout, stream, choice, limit or (None if json else ROWS_SHOWN + 1), newest_first=True
    )
    if json:
        for bad_record in bad_records:
            show.as_json(record_facts(bad_record))
    elif not bad_records:
        _say_none_found(stream, choice)
    else:
        # If some are fixed, a column for the tick from which on they count.
        fix_ticks = (
            [bad_record.fixed_at for bad_record in bad_records]
            if any(bad_record.fixed_at is not None for bad_record in bad_records)
            else None
        )
        record_rows = [
            (
                str(bad_record.place),
                to_datetime(bad_record.record.timestamp),
                bad_record.reason,
                bad_record.record.key,
                bad_record.record.value,
                *([] if fix_ticks is None else [bad_record.fixed_at]),
            )
            for bad_record in bad_records
        ]
        column_titles = (
            "position",
            "time",
            "reason",
            "key",
            "value",
            *([] if fix_ticks is None else ["fixed at tick"]),
        )
        print_first_rows(
            record_rows,
            limit,
            lambda first_rows, caption: show.print_table(stream, column_titles, first_rows, caption=caption),
        )
        record_count, open_count = count_quarantined_records(layout, stream, choice)
        show.say(f"{record_count:,} records, {open_count:,} of them open: no replay has fixed them.")


def _count_by_reason(layout: Layout, stream: str, choice: Choice, limit: int | None, json: bool) -> None:
    from dataclasses import asdict

    from lakehouse.lake.record.quarantine import read_reasons

    reason_counts = read_reasons(layout, stream, choice, limit or (None if json else ROWS_SHOWN + 1))
    if json:
        for reason_count in reason_counts:
            show.as_json({**asdict(reason_count), "example": record_facts(reason_count.example)})
    elif not reason_counts:
        _say_none_found(stream, choice)
    else:
        reason_rows = [
            (
                reason_count.kind,
                reason_count.records,
                reason_count.open,
                _format_tick_span(reason_count.first_tick, reason_count.last_tick),
                reason_count.first_time,
                reason_count.last_time,
                str(reason_count.example.place),
                reason_count.example.record.value,
            )
            for reason_count in reason_counts
        ]
        column_titles = ("reason", "records", "open", "ticks", "first time", "last time", "for example", "its value")
        print_first_rows(
            reason_rows,
            limit,
            lambda first_rows, caption: show.print_table(stream, column_titles, first_rows, caption=caption),
        )


def _say_none_found(stream: str, choice: Choice) -> None:
    from lakehouse.lake.record.quarantine import ALL_RECORDS

    show.say(f"The quarantine of {stream} {'is empty' if choice == ALL_RECORDS else 'has no such record'}.")


def _format_tick_span(first_tick: int, last_tick: int) -> str:
    return str(first_tick) if first_tick == last_tick else f"{first_tick}-{last_tick}"


def record_facts(bad_record: Quarantined) -> dict[str, Any]:
    """Return a quarantined record in JSON's form."""
    field_names = ("topic", "topic_id", "partition", "offset", "tick", "key", "value")
    return {
        **{name: getattr(bad_record.record, name) for name in field_names},
        "timestamp": to_datetime(bad_record.record.timestamp),
        "reason": bad_record.reason,
        "fixed_at": bad_record.fixed_at,
    }
