"""`lakehouse look quarantine`: records that did not fit a stream's schema: a list, by reason, or with a fix tried."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.look.fixes import Attempt, New, ReplayRequest, attempt
from lakehouse.cli.look.read import ROWS_SHOWN, LimitOption, shown
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
from lakehouse.semantics.moment import moment

if TYPE_CHECKING:
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.record.quarantine import Choice, Quarantined, RecordPlace

PLACE = re.compile(r"([A-Za-z0-9._-]{1,249})/(\d{1,9})/(\d{1,18})", re.ASCII)


class By(StrEnum):
    """What records are counted by."""

    reason = "reason"


def quarantine(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="A stream; its topic's name, with _ for - and dots.")],
    by: Annotated[By | None, typer.Option("--by", help="Count them by reason, with an example of each.")] = None,
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
    choice = Choice(
        reason, tuple(map(_place, position or ())), None if start is None else time_ms(start, "--from"),
        None if end is None else time_ms(end, "--to"), open,
    )  # fmt: skip
    edits = {"value": New(value, value_file, null_value), "key": New(key, key_file)}
    settings = lake_of(config, lake)
    if app is not None or plan or replay or fix is not None or any(new.given for new in edits.values()):
        app = app_of(app, settings)
        if plan == replay:
            found = "--plan and --replay" if replay else "a fix, or --app, alone"
            raise ConfigError(f"quarantine: found {found}; expected --plan, to see what a fix makes, or --replay.")
        if by is not None:
            raise ConfigError("quarantine: found --by beside a fix; expected only one of them.")
    layout = Layout(settings.lake.path)
    if app is not None:
        counted = ReplayRequest(why, decided_by, again, instead) if replay else None
        attempt(settings, Attempt(app, stream, choice, fix, edits), counted, limit, json=json)
    elif by is not None:
        _count(layout, stream, choice, limit, json)
    else:
        _list(layout, stream, choice, limit, json)


def _place(text: str) -> RecordPlace:
    from lakehouse.lake.record.quarantine import RecordPlace

    if (match := PLACE.fullmatch(text)) is None:
        raise ConfigError(f"--position {text!r}: expected TOPIC/PARTITION/OFFSET, such as orders/0/17.")
    return RecordPlace(match[1], int(match[2]), int(match[3]))


def _list(layout: Layout, stream: str, choice: Choice, limit: int | None, json: bool) -> None:
    from lakehouse.lake.record.quarantine import counts, records

    found = records(layout, stream, choice, limit or (None if json else ROWS_SHOWN + 1), newest_first=True)
    if json:
        for one in found:
            show.as_json(facts(one))
    elif not found:
        _none(stream, choice)
    else:
        # Where some are fixed, the tick from which on they count.
        fixed = [one.fixed_at for one in found] if any(one.fixed_at is not None for one in found) else None
        rows = [
            (str(one.place), moment(one.record.timestamp), one.reason, one.record.key, one.record.value,
             *([] if fixed is None else [one.fixed_at]))
            for one in found
        ]  # fmt: skip
        columns = ("position", "time", "reason", "key", "value", *([] if fixed is None else ["fixed at tick"]))
        shown(rows, limit, lambda some, caption: show.table(stream, columns, some, caption=caption))
        every, still = counts(layout, stream, choice)
        show.say(f"{every:,} records, {still:,} of them open: no replay has fixed them.")


def _count(layout: Layout, stream: str, choice: Choice, limit: int | None, json: bool) -> None:
    from dataclasses import asdict

    from lakehouse.lake.record.quarantine import reasons

    found = reasons(layout, stream, choice, limit or (None if json else ROWS_SHOWN + 1))
    if json:
        for one in found:
            show.as_json({**asdict(one), "example": facts(one.example)})
    elif not found:
        _none(stream, choice)
    else:
        rows = [
            (one.kind, one.records, one.open, _span(one.first_tick, one.last_tick), one.first_time, one.last_time,
             str(one.example.place), one.example.record.value)
            for one in found
        ]  # fmt: skip
        columns = ("reason", "records", "open", "ticks", "first time", "last time", "for example", "its value")
        shown(rows, limit, lambda some, caption: show.table(stream, columns, some, caption=caption))


def _none(stream: str, choice: Choice) -> None:
    from lakehouse.lake.record.quarantine import ALL

    show.say(f"The quarantine of {stream} {'is empty' if choice == ALL else 'has no such record'}.")


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def facts(one: Quarantined) -> dict[str, Any]:
    """A quarantined record as JSON has it."""
    names = ("topic", "topic_id", "partition", "offset", "tick", "key", "value")
    return {
        **{name: getattr(one.record, name) for name in names},
        "timestamp": moment(one.record.timestamp), "reason": one.reason, "fixed_at": one.fixed_at,
    }  # fmt: skip
