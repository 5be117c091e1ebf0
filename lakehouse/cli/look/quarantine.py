"""`lakehouse look quarantine`: the records that did not fit a stream's schema, as a list or by reason."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.look.read import ROWS_SHOWN, LimitOption, print_first_rows
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, lake_of, refuse_reversed
from lakehouse.errors import ConfigError
from lakehouse.markup.quantity import quantity
from lakehouse.semantics.epoch_time import to_datetime
from lakehouse.semantics.position import RecordPlace

if TYPE_CHECKING:
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.record.quarantine import QuarantineChoice, QuarantinedRecord

PLACE = re.compile(r"([A-Za-z0-9._-]{1,249})/(\d{1,9})/(\d{1,18})", re.ASCII)


class CountBy(StrEnum):
    """The property by which to count records."""

    reason = "reason"


StreamArgument = Annotated[
    str, typer.Argument(metavar="STREAM", help="A stream; its topic's name, with _ for - and dots.")
]
ReasonOption = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Only those whose reason contains this text.")
]
PositionOption = Annotated[
    list[str] | None,
    typer.Option("--position", metavar="TOPIC/PARTITION/OFFSET", help="Only this record; can be repeated."),
]
FromOption = Annotated[str | None, typer.Option("--from", metavar="TIME", help="Only those of this time or later.")]
ToOption = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Only those before this time.")]
OpenOption = Annotated[bool, typer.Option("--open", help="Leave out those that a replay has fixed.")]


def quarantine(
    stream: StreamArgument,
    by: Annotated[CountBy | None, typer.Option("--by", help="Count them by reason, with an example of each.")] = None,
    reason: ReasonOption = None,
    position: PositionOption = None,
    start: FromOption = None,
    end: ToOption = None,
    open: OpenOption = False,
    limit: LimitOption = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Show the records of a stream that did not fit its schema, the newest first; or count them by reason.

    A fixed record stays in the list, with the tick from which on it counts; --open leaves it out. `lakehouse repair
    replay` tries a fix, and makes the records count that fit now.

    Example: lakehouse look quarantine orders --by reason
    """
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.reader import find_stored_name
    from lakehouse.plan.expression.schema import check_name

    check_name(stream, "stream")
    record_choice = choice_of_options(reason, position, start, end, is_open=open)
    layout = Layout(lake_of(config, lake).lake.path)
    stream = find_stored_name(layout, "quarantine", stream)
    if by is not None:
        _count_by_reason(layout, stream, record_choice, limit, json)
    else:
        _list_records(layout, stream, record_choice, limit, json)


def choice_of_options(
    reason: str | None, positions: list[str] | None, start: str | None, end: str | None, *, is_open: bool
) -> QuarantineChoice:
    """Return the choice of records that a command line makes. Raises ConfigError for a position or a time that is none.

    is_open: leave out records that a replay has fixed.
    """
    from lakehouse.lake.record.quarantine import QuarantineChoice
    from lakehouse.semantics.time.named_moment import time_ms

    start_ms = None if start is None else time_ms(start, "--from")
    end_ms = None if end is None else time_ms(end, "--to")
    refuse_reversed(start, end, start_ms, end_ms)
    return QuarantineChoice(reason, tuple(map(_parse_place, positions or ())), start_ms, end_ms, is_open)


def _parse_place(text: str) -> RecordPlace:
    if (match := PLACE.fullmatch(text)) is None:
        raise ConfigError(f"--position {text!r}: expected TOPIC/PARTITION/OFFSET, such as orders/0/17.")
    return RecordPlace(match[1], int(match[2]), int(match[3]))


def _list_records(layout: Layout, stream: str, choice: QuarantineChoice, limit: int | None, json: bool) -> None:
    from lakehouse.lake.record.quarantine import count_quarantined_records, read_quarantined

    bad_records = read_quarantined(
        layout, stream, choice, limit or (None if json else ROWS_SHOWN + 1), newest_first=True
    )
    if json:
        for bad_record in bad_records:
            show.print_json(record_facts(bad_record))
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
        show.say(f"{quantity(record_count, 'record')}, {open_count:,} of them open: no replay has fixed them.")


def _count_by_reason(layout: Layout, stream: str, choice: QuarantineChoice, limit: int | None, json: bool) -> None:
    from dataclasses import asdict

    from lakehouse.lake.record.quarantine import read_reasons

    reason_counts = read_reasons(layout, stream, choice, limit or (None if json else ROWS_SHOWN + 1))
    if json:
        for reason_count in reason_counts:
            show.print_json({**asdict(reason_count), "example": record_facts(reason_count.example)})
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


def _say_none_found(stream: str, choice: QuarantineChoice) -> None:
    from lakehouse.lake.record.quarantine import ALL_RECORDS

    show.say(f"The quarantine of {stream} {'is empty' if choice == ALL_RECORDS else 'has no such record'}.")


def _format_tick_span(first_tick: int, last_tick: int) -> str:
    return str(first_tick) if first_tick == last_tick else f"{first_tick}-{last_tick}"


def record_facts(bad_record: QuarantinedRecord) -> dict[str, Any]:
    """Return a quarantined record in JSON's form."""
    field_names = ("topic", "topic_id", "partition", "offset", "tick", "key", "value")
    return {
        **{name: getattr(bad_record.record, name) for name in field_names},
        "timestamp": to_datetime(bad_record.record.timestamp),
        "reason": bad_record.reason,
        "fixed_at": bad_record.fixed_at,
    }
