"""The request of a run: its params are checked together, before anything starts. Standard library only.

Airflow checks each param by its schema when a run is created; here unknown params are refused, each is checked again (a
run's conf has more ways in than the form), and so are combinations of params. A request is a plain JSON object. The
first task returns it, for people to see; every other task recomputes it from the run's params, since a task's result
can be changed in Airflow's UI and API.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from lakehouse_dags.manifest import END, NAME, Application

ALL = "all"
CLOCKS = ("event", "commit", "tick", "version", "offsets")
DAMAGES = ("lost file", "broken log entry", "missing log entry", "flipped bit", "wrong merge", "lost checkpoint")
LEAST_KEEP_HOURS = 168
MOST_KEEP_HOURS = 24 * 3660
CHUNKS_MAX = 200

_DAY, _CLOCK = r"[0-9]{4}-[0-9]{2}-[0-9]{2}", r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
TIME = rf"^{_DAY}([T ]{_CLOCK}(Z|[+-][0-9]{{2}}:[0-9]{{2}})?)?{END}"
_PLACE = r"[A-Za-z0-9._-]{1,249}/[0-9]{1,9}"
OFFSET_RANGES = rf"^{_PLACE}=[0-9]{{1,18}}\.\.[0-9]{{1,18}}(,{_PLACE}=[0-9]{{1,18}}\.\.[0-9]{{1,18}})*{END}"
OFFSETS = rf"^{_PLACE}=[0-9]{{1,18}}(,{_PLACE}=[0-9]{{1,18}})*{END}"
NUMBER = rf"^[0-9]{{1,18}}{END}"
FUNCTION = rf"^[A-Za-z_][A-Za-z0-9_]{{0,99}}{END}"
LINE = rf"^[^\x00-\x1f\x7f]*{END}"  # one line of text: it appears in the interventions, in logs and in the UI

_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,99}"
COLUMNS = rf"^{_NAME}(\.{_NAME}){{1,9}}(, ?{_NAME}(\.{_NAME}){{1,9}})*{END}"

# JSON may hold half a character; an argument can't. Not in LINE: JavaScript sees halves in good characters, too.
SURROGATE = re.compile(r"[\ud800-\udfff]")

Request = dict[str, Any]


class BadRequest(Exception):
    """A run can't do what was requested; the message says what lakehouse found, what it expected and what to do."""


def refuse_unknown(conf: Mapping[str, Any] | None, names: Iterable[str]) -> None:
    """Raise BadRequest for params that the DAG doesn't have: Airflow would ignore a mistyped one."""
    expected = sorted(names)
    unknown = sorted(str(name)[:80] for name in set(conf or ()) - set(expected))
    if unknown:
        expected_text = ", ".join(expected) or "none"
        raise BadRequest(
            f"found params that this DAG does not have: {unknown!r:.500}; expected some of {expected_text}."
        )


def check_backfill_range(app: Application, params: Mapping[str, Any]) -> Request:
    """Return {"table", "from", "to", "offsets", "dry_run", "reason", "chunk_hours"} of a `backfill_range` run."""
    start, end = _check_time(params, "from"), _check_time(params, "to")
    offsets = _check_text(params, "offsets", OFFSET_RANGES, 2000, nullable=True)
    if offsets is not None and (start is not None or end is not None):
        raise BadRequest("found offsets beside from or to; expected event times, or offsets, or neither for all rows.")
    _check_order(start, end)
    for part in (offsets or "").split(",") if offsets else ():
        topic, first, last = part.partition("/")[0], *part.partition("=")[2].split("..")
        if topic not in app.topics:
            raise BadRequest(f"offsets: found topic {topic!r}, expected one of {', '.join(app.topics)}.")
        if int(first) > int(last):
            raise BadRequest(f"offsets: found {part!r}, expected the smaller offset first.")
    request = {
        "table": _check_choice(params, "table", app.tables),
        "from": _format_time(start),
        "to": _format_time(end),
        "offsets": offsets,
        "chunk_hours": _check_number(params, "chunk_hours", 1, 24 * 366),
        **_check_decision(params),
    }
    split_backfill(request)
    return request


def check_backfill_interval(
    app: Application, params: Mapping[str, Any], interval: tuple[datetime, datetime] | None
) -> Request:
    """Return {"tables", "from", "to", "reason"}: the params' times if given, else the run's data interval."""
    start, end = _check_time(params, "from"), _check_time(params, "to")
    if (start is None) != (end is None):
        raise BadRequest("found one of from and to; expected both, or neither in a run that has a data interval.")
    if start is None or end is None:
        if interval is None or interval[0] >= interval[1]:
            raise BadRequest("this run has no data interval: expected the params from and to, such as 2013-06-01.")
        start, end = interval
    _check_order(start, end)
    span = {"from": _format_time(start), "to": _format_time(end)}
    return {"tables": _check_tables(app, params), **span, "reason": "by interval"}


def check_point_in_time(app: Application, params: Mapping[str, Any]) -> Request:
    """Return {"table", "clock", "moment", "target", "prove"} of a `reconstruct_point_in_time` run."""
    clock = _check_choice(params, "clock", CLOCKS)
    pattern = {"offsets": OFFSETS, "tick": NUMBER, "version": NUMBER}.get(clock, TIME)
    try:
        moment = _check_text(params, "moment", pattern, 2000)
    except BadRequest:
        example = {"offsets": "orders/0=120", "tick": "41", "version": "41"}.get(clock, "2013-06-30T23:59Z")
        raise BadRequest(
            f"moment is {params.get('moment')!r:.200}, expected one by the clock {clock!r}, such as {example}."
        ) from None
    if pattern is TIME:
        moment = _format_time(_parse_time(moment, "moment"))
    target = _check_text(params, "target", NAME, 63)
    if target.lower() in {table.lower() for table in app.tables}:
        raise BadRequest(f"target is {target!r}, which the application keeps; expected the name of a new table.")
    return {
        "table": _check_choice(params, "table", app.tables), "clock": clock, "moment": moment, "target": target,
        "prove": _check_flag(params, "prove"),
    }  # fmt: skip


def check_drill(app: Application, params: Mapping[str, Any]) -> Request:
    """Return {"tables", "damage"} of a `recovery_drill` run; damage is None for all."""
    damage = _check_choice(params, "damage", (ALL, *DAMAGES))
    return {"tables": _check_tables(app, params), "damage": None if damage == ALL else damage}


def check_maintenance(app: Application, params: Mapping[str, Any]) -> Request:
    """Return {"tables", "keep_hours", "dry_run"} of a `table_maintenance` run; tables is None for all, and bronze."""
    return {
        "tables": None if params.get("table") == ALL else _check_tables(app, params),
        "keep_hours": _check_number(params, "keep_hours", LEAST_KEEP_HOURS, MOST_KEEP_HOURS),
        "dry_run": _check_flag(params, "dry_run"),
    }


def check_quarantine_replay(app: Application, params: Mapping[str, Any]) -> Request:
    """Return {"stream", "contains", "fix", "dry_run", "reason"} of a `quarantine_replay` run."""
    return {
        "stream": _check_choice(params, "stream", app.streams),
        "contains": _check_text(params, "contains", LINE, 300, nullable=True) or None,
        "fix": _check_text(params, "fix", FUNCTION, 100, nullable=True),
        **_check_decision(params),
    }


def check_deploy(app: Application, params: Mapping[str, Any]) -> Request:
    """Return {"dry_run", "reason"} of a `deploy` run."""
    return _check_decision(params)


def check_erase(app: Application, params: Mapping[str, Any]) -> Request:
    """Return {"stream", "key", "named_by", "value", "dry_run", "reason"} of an `erase` run.

    What is refused is not shown: each text may name the person, and logs stay.
    """
    key = _check_text(params, "key", LINE, 300, is_shown=False)
    value = _check_text(params, "value", LINE, 300, nullable=True, is_shown=False) or None
    if not key.strip():
        raise BadRequest("key is empty; expected the key of the records to erase.")
    named_by_text = _check_text(params, "named_by", COLUMNS, 1000, nullable=True, is_shown=False) or ""
    named_by = [part.strip() for part in named_by_text.split(",")]
    for path in filter(None, named_by):
        if path.partition(".")[0] not in app.streams:
            raise BadRequest(
                f"named_by: found a column of an unknown stream, expected STREAM.COLUMN of one of "
                f"{', '.join(app.streams)}."
            )
    request = {
        "stream": _check_choice(params, "stream", app.streams, is_shown=False),
        "key": key,
        "named_by": [*filter(None, named_by)],
        "value": value,
        **_check_decision(params, is_shown=False),
    }
    if any(text and whole_word(text).search(request["reason"]) for text in (key, value)):
        raise BadRequest("reason names what is erased; expected one that can stay, such as a ticket.")
    return request


def split_request(request: Request) -> list[Request]:
    """Return the requests of a mapped task, each with its "label": a backfill's chunks, else one for each table."""
    if "chunk_hours" in request:
        return split_backfill(request)
    return [{**request, "table": table, "label": table} for table in request["tables"]]


def split_backfill(request: Request) -> list[Request]:
    """Return the parts of a backfill, each one run of the command, each safe to repeat.

    A range of event times in steps of chunk_hours; offsets partition by partition; all rows, or a range with an open
    end, as one. The order doesn't matter: a key is rebuilt from all its records. Raises BadRequest.
    """
    if request["offsets"] is not None:
        return [{**request, "offsets": part, "label": part} for part in request["offsets"].split(",")]
    if request["from"] is None or request["to"] is None:
        return [{**request, "label": describe_range(request)}]
    start, end = datetime.fromisoformat(request["from"]), datetime.fromisoformat(request["to"])
    step = timedelta(hours=request["chunk_hours"])
    count = -(-(end - start) // step)
    if count > CHUNKS_MAX:
        hours = -(-(end - start) // (timedelta(hours=1) * CHUNKS_MAX))
        raise BadRequest(
            f"from {request['from']} to {request['to']} in chunks of {request['chunk_hours']} hours are {count} "
            f"chunks; expected at most {CHUNKS_MAX}. Choose chunk_hours of {hours} or more."
        )
    bounds = [min(start + number * step, end) for number in range(count + 1)]
    parts = [{**request, "from": _format_time(a), "to": _format_time(b)} for a, b in pairwise(bounds)]
    return [{**part, "label": describe_range(part)} for part in parts]


def describe_range(request: Request) -> str:
    """Return the range of a backfill, for people."""
    if request.get("offsets") is not None:
        return str(request["offsets"])
    if request["from"] is None and request["to"] is None:
        return "all rows"
    return f"{request['from'] or 'the first record'} to {request['to'] or 'the last one'}"


def check_nothing(app: Application, params: Mapping[str, Any]) -> Request:
    """Return the request of a run that has no params."""
    return {}


CHECKS: dict[str, Callable[[Application, Mapping[str, Any]], Request]] = {
    "catch_up": check_nothing,
    "backfill_range": check_backfill_range,
    "reconstruct_point_in_time": check_point_in_time,
    "recovery_drill": check_drill,
    "table_maintenance": check_maintenance,
    "quarantine_replay": check_quarantine_replay,
    "deploy": check_deploy,
    "erase": check_erase,
}


def _check_decision(params: Mapping[str, Any], *, is_shown: bool = True) -> Request:
    dry_run, reason = (
        _check_flag(params, "dry_run"),
        (_check_text(params, "reason", LINE, 300, nullable=True, is_shown=is_shown) or "").strip(),
    )
    if not dry_run and not reason:
        raise BadRequest("reason is empty; expected why, when dry_run is off: it is kept in the interventions.")
    return {"dry_run": dry_run, "reason": reason}


def _check_tables(app: Application, params: Mapping[str, Any]) -> list[str]:
    choice = _check_choice(params, "table", (ALL, *app.tables))
    return list(app.tables) if choice == ALL else [choice]


def _check_choice(params: Mapping[str, Any], name: str, allowed: Iterable[str], *, is_shown: bool = True) -> str:
    value, allowed_values = params.get(name), tuple(allowed)
    if not isinstance(value, str) or value not in allowed_values:
        raise BadRequest(f"{name} is {_shown(value, is_shown)}, expected one of {', '.join(allowed_values)}.")
    return value


def _check_flag(params: Mapping[str, Any], name: str) -> bool:
    value = params.get(name)
    if not isinstance(value, bool):
        raise BadRequest(f"{name} is {value!r:.200}, expected true or false.")
    return value


def _check_number(params: Mapping[str, Any], name: str, least: int, most: int) -> int:
    value = params.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadRequest(f"{name} is {value!r:.200}, expected a whole number from {least} to {most}.")
    return value


def _check_text(
    params: Mapping[str, Any], name: str, pattern: str, longest: int, *, nullable: bool = False, is_shown: bool = True
) -> Any:
    value = params.get(name)
    if value is None and nullable:
        return None
    if not isinstance(value, str) or len(value) > longest or not re.match(pattern, value) or SURROGATE.search(value):
        shown = _shown(value, is_shown)
        raise BadRequest(f"{name} is {shown}, expected a text of at most {longest} characters: {pattern}")
    return value


def whole_word(text: str) -> re.Pattern[str]:
    """Return what finds a text, but not as a part of a longer word or number."""
    return re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")


def _shown(value: Any, is_shown: bool) -> str:
    """Return a param for an error; one that may name a person only if it is none."""
    return f"{value!r:.200}" if is_shown or value is None else "***"


def _check_time(params: Mapping[str, Any], name: str) -> datetime | None:
    value = _check_text(params, name, TIME, 40, nullable=True)
    return None if value is None else _parse_time(value, name)


def _parse_time(value: str, name: str) -> datetime:
    try:
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadRequest(f"{name} is {value!r}; expected a day or a time, such as 2013-06-01T18:00Z.") from None


def _check_order(start: datetime | None, end: datetime | None) -> None:
    if start is not None and end is not None and start >= end:
        raise BadRequest(
            f"from is {_format_time(start)}, to is {_format_time(end)}; expected the earlier first: to is not in."
        )


def _format_time(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat().replace("+00:00", "Z")
