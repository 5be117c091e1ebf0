"""The differences of two declarations, part by part, and what each means (rules: `lakehouse.plan.evolution.change`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from lakehouse.duration import duration_text
from lakehouse.plan.evolution.fingerprint import as_text
from lakehouse.plan.expression import SQL, Json
from lakehouse.plan.schema import JSON_FORMATS
from lakehouse.plan.written.canonical import canonical

Meaning = Literal["same", "compatible", "refold", "new_table"]
KINDS: tuple[Meaning, ...] = ("same", "compatible", "refold", "new_table")

REFOLD = "its rows were computed the earlier way, so refold the table"
NEW = "it identifies the rows, so declare a new table"
GOES_ON = "the table continues, there is nothing to do"

ORIGINS = (
    "merge",
    "join_of",
    "changes_of",
    "alert_of",
    "join",
    "rows_of",
    "rows_join",
    "foreign_key_join",
    "topic",
)  # in a fingerprint
SIMPLE_NAME = re.compile(r"`([A-Za-z_]\w*)`")


class Verdict(NamedTuple):
    """The meaning of a difference, and a sentence about it."""

    kind: Meaning
    text: str


def differences(was: Json, now: Json) -> list[Verdict]:
    """Return the differences of two fingerprints; none if they are equal."""
    was, now = _renewed(was), _renewed(now)
    found = [*_key(was, now), *_content(was, now), *_beside(was, now), *_stream(was["stream"], now["stream"])]
    if not found and _untyped(was) != _untyped(now):
        found = [_differs("refold", "declaration", as_text(was), as_text(now), REFOLD)]
    return found


def _differs(kind: Meaning, what: str, was: str, now: str, meaning: str) -> Verdict:
    return Verdict(kind, f"{what}: found {was}, declared {now}; {meaning}.")


def _renewed(value: Any) -> Any:
    """SQL in the form of today's sqlglot, which may differ from the form that the table was created with."""
    if isinstance(value, dict):
        return {n: canonical(v) if n == SQL else _renewed(v) for n, v in value.items()}
    return list(map(_renewed, value)) if isinstance(value, list) else value


def _untyped(value: Json) -> Json:
    """A key type that only one of two releases can tell is not a difference."""
    return {**value, "key": [name for name, _ in value["key"]]}


def _key(was: Json, now: Json) -> Iterator[Verdict]:
    same = [a[0] for a in was["key"]] == [b[0] for b in now["key"]] and all(
        None in (a[1], b[1]) or a[1] == b[1] for a, b in zip(was["key"], now["key"], strict=True)
    )
    if not same:
        yield _differs("new_table", "key", _columns(was["key"]), _columns(now["key"]), NEW)
    if (was["window"] is None) != (now["window"] is None):
        yield _differs("new_table", "window", _window(was["window"]), _window(now["window"]), NEW)


def _content(was: Json, now: Json) -> Iterator[Verdict]:
    if was["window"] != now["window"] and None not in (was["window"], now["window"]):
        yield _differs("refold", "window", _window(was["window"]), _window(now["window"]), REFOLD)
    if ("columns" in was) != ("columns" in now):
        latest, aggregates = "the latest value of each key", "aggregates"
        pair = (latest, aggregates) if "columns" in was else (aggregates, latest)
        yield _differs("refold", "content", *pair, REFOLD)
    elif "columns" in was:
        if was["columns"] != now["columns"]:
            yield _differs("refold", "columns", ", ".join(was["columns"]), ", ".join(now["columns"]), REFOLD)
    else:
        for name, sql in was["group_by"].items():
            if now["group_by"].get(name, sql) != sql:
                yield _differs("refold", f"group by {name}", _sql(sql), _sql(now["group_by"][name]), REFOLD)
        for name in sorted({*was["aggregates"], *now["aggregates"]}):
            a, b = was["aggregates"].get(name), now["aggregates"].get(name)
            if a != b:
                yield _differs("refold", f"aggregate {name}", _aggregate(a), _aggregate(b), REFOLD)
    for part in ("having", "order_by"):
        if was[part] != now[part]:
            yield _differs("refold", part, _sql(was[part]), _sql(now[part]), REFOLD)
    unit, other = (of.get("order_unit", "milliseconds") for of in (was, now))
    if unit != other and was["order_by"] == now["order_by"]:
        yield _differs("refold", "the times of order_by", unit, other, REFOLD)
    before, after = (of.get("tombstones", "by order") for of in (was, now))
    if before != after:
        yield _differs("refold", "tombstones", before, after, REFOLD)
    if was["emit"] != now["emit"]:
        yield _differs("refold", "emit", was["emit"], now["emit"], REFOLD)


def _beside(was: Json, now: Json) -> Iterator[Verdict]:
    before, after = was["beside"], now["beside"]
    if before["suppress"] != after["suppress"]:
        words = {True: "suppress", False: "no suppress"}
        meaning = f"only the changelog differs, from now on: {GOES_ON}"
        yield _differs("compatible", "suppress", words[before["suppress"]], words[after["suppress"]], meaning)
    final = was["emit"] == now["emit"] == "final"
    if before["idle"] != after["idle"] and final:
        meaning = f"from now on final results follow the new setting; those already emitted stay: {GOES_ON}"
        yield _differs("compatible", "idle", _ms(before["idle"]), _ms(after["idle"]), meaning)
    if before["retention"] != after["retention"] and (was["window"] is None) == (now["window"] is None):
        yield from _retention(before["retention"], after["retention"], was, final)


def _retention(before: int | None, after: int | None, was: Json, final: bool) -> Iterator[Verdict]:
    kind: Meaning = "compatible"
    if was["window"] is None:
        kind, meaning = "refold", f"it decides which records are too old and which deletes are remembered; {REFOLD}"
    elif after is not None and (before is None or after < before):
        meaning = f"rows of windows that ended longer ago are removed with the next records: {GOES_ON}"
    elif after is not None or final:
        meaning = f"rows that were removed do not come back; later ones stay longer: {GOES_ON}"
    else:
        kind = "refold"
        meaning = (
            "a removed window could be recreated from part of its records, so refold the table, or declare a "
            'long retention ("36500 days"), with which it continues'
        )
    yield _differs(kind, "retention", _ms(before), _ms(after), meaning)


def _stream(was: Json, now: Json) -> Iterator[Verdict]:
    parts, others = _parts(was), _parts(now)
    if _origin(was) != _origin(now) or len(parts) != len(others):
        yield _differs("refold", "streams", _names(parts), _names(others), REFOLD)
        return
    for part, other in zip(parts, others, strict=True):
        match _origin(was):
            case "merge" | "join_of":
                yield from _stream(part, other)
            case "topic":
                yield from _source(part, other)
            case origin:
                yield from _table(origin, part, other)
    if "join_of" in now:
        for name in ("on", "how", "within", "prefix"):
            if was[name] != now[name]:
                found, given = (_option_of_join(name, of[name]) for of in (was, now))
                yield _differs("refold", f"{name} of the join of {_names(others)}", found, given, REFOLD)
    if was["steps"] != now["steps"]:
        # Only the steps that differ, unless only their order does.
        gone = [step for step in was["steps"] if step not in now["steps"]]
        new = [step for step in now["steps"] if step not in was["steps"]]
        pair = (gone, new) if gone or new else (was["steps"], now["steps"])
        before, after = (", ".join(map(_step, steps)) or "none" for steps in pair)
        yield _differs("refold", f"steps of stream {_names([was])}", before, after, REFOLD)


def _parts(stream: Json) -> list[Json]:
    parts: list[Json] = stream.get("merge") or stream.get("join_of") or [stream]
    return parts


def _origin(stream: Json) -> str:
    return next(name for name in ORIGINS if name in stream)


def _option_of_join(part: str, value: Any) -> str:
    """A part of a join of two streams, in words."""
    match part:
        case "on":
            return ", ".join(" = ".join(pair) for pair in value)
        case "within":
            spans = ", ".join(f"{name} {_ms(value[name])}" for name in ("before", "after", "grace"))
            return f"{spans}, unmatched {'at once' if value['at_once'] else 'when it closes'}"
    return str(value)


def _table(origin: str, was: Json, now: Json) -> Iterator[Verdict]:
    """Differences where a stream reads a table: another table, or the same one by another key."""
    if was[origin] != now[origin]:
        yield _differs("refold", "table that is read", was[origin], now[origin], REFOLD)
    elif was["key"] != now["key"]:
        yield _differs("refold", f"key of table {now[origin]}", _columns(was["key"]), _columns(now["key"]), REFOLD)
    for part in ("on", "how", "prefix", "as_of"):
        if was.get(part) != now.get(part):
            pair = (of.get(part, "arrival") for of in (was, now))
            before, after = (", ".join(map(_sql, value)) if part == "on" else value for value in pair)
            yield _differs("refold", f"{part} of the join with {now[origin]}", before, after, REFOLD)
    for part in ("alert", "when", "crossing"):
        if was.get(part) != now.get(part):
            before, after = (_sql(of[part]) if part == "when" else of[part] for of in (was, now))
            yield _differs("refold", f"{part} of the alert", before, after, REFOLD)
    if "stream" in now:
        yield from _stream(was["stream"], now["stream"])


def _source(was: Json, now: Json) -> Iterator[Verdict]:
    stream = f"of stream {now['beside']['name']}"
    for part in ("topic", "key_format", "value_format"):
        if was[part] != now[part]:
            yield _differs("refold", f"{part.replace('_', ' ')} {stream}", was[part], now[part], REFOLD)
    if was["key"] != now["key"]:
        yield _differs("refold", f"key {stream}", _columns(was["key"]), _columns(now["key"]), REFOLD)
    if was["event_time"] != now["event_time"]:
        yield _differs("refold", f"event time {stream}", _sql(was["event_time"]), _sql(now["event_time"]), REFOLD)
    if was.get("max_ahead") != now.get("max_ahead"):
        before, after = ("any" if (ms := of.get("max_ahead")) is None else duration_text(ms) for of in (was, now))
        yield _differs("refold", f"max_ahead {stream}", before, after, REFOLD)
    if was["value_format"] == now["value_format"]:
        yield from _value(was, now, stream)
    a, b = was["beside"]["name"], now["beside"]["name"]
    if a != b:
        meaning = f"bad records go to quarantine.{b} from now on, the earlier ones stay in quarantine.{a}: {GOES_ON}"
        yield _differs("compatible", "name of the stream", a, b, meaning)


def _value(was: Json, now: Json, stream: str) -> Iterator[Verdict]:
    if was["value_format"] not in JSON_FORMATS:
        if was["value"] != now["value"]:
            yield _differs("refold", f"schema {stream}", _columns(was["value"]), _columns(now["value"]), REFOLD)
        return
    before, after = was["value"] | was["beside"]["unread"], now["value"] | now["beside"]["unread"]
    changed = [name for name in sorted(before | after) if before.get(name) != after.get(name)]
    for name in changed:
        # A column that only one of them has, and reads, is named where it is read.
        if name in was["value"] | now["value"] and name in before and name in after:
            yield _differs("refold", f"column {name} {stream}", before[name], after[name], REFOLD)
    unread = [name for name in changed if name not in was["value"] | now["value"]]
    if unread:
        meaning = f"the table does not read them, but a record that does not fit them is quarantined: {GOES_ON}"
        a, b = (_columns([[name, of[name]] for name in unread if name in of]) for of in (before, after))
        yield _differs("compatible", f"columns {stream}", a, b, meaning)


def _columns(columns: list[list[Any]]) -> str:
    return ", ".join(f"{name} {kind}" if kind else name for name, kind in columns) or "none"


def _names(streams: list[Json]) -> str:
    parts = [(part, _parts(part)) for part in streams]
    return " + ".join(part["beside"]["name"] if inner == [part] else _names(inner) for part, inner in parts)


def _sql(value: Json | None) -> str:
    return "none" if value is None else SIMPLE_NAME.sub(r"\1", value[SQL])


def _ms(value: int | None) -> str:
    return "none" if value is None else f"{value} ms"


def _window(value: Json | None) -> str:
    if value is None:
        return "none"
    if value["kind"] == "hopping" and value["size"] == value["advance"]:
        value = {"kind": "tumbling", "size": value["size"], "grace": value["grace"]}
    return f"{value['kind']} ({', '.join(f'{name} {_ms(of)}' for name, of in value.items() if name != 'kind')})"


def _aggregate(value: Json | None) -> str:
    if value is None:
        return "none"
    shown = [f"{name}={_option(of)}" for name, of in sorted(value["options"].items())]
    return f"{value['kind']}({', '.join([_sql(value['argument']) if value['argument'] else '*', *shown])})"


def _option(value: Any) -> str:
    return f"function #{value['function']}" if isinstance(value, dict) else str(value)


def _step(step: Json) -> str:
    ((what, of),) = step.items()
    if what in ("filter", "retime"):
        return f"{what} {_sql(of)}"
    if what == "map":
        ((name, made),) = of.items()
        arguments = ", ".join(map(_sql, made["arguments"]))
        return f"map {name} {made['type']} = function #{made['function']}({arguments})"
    return f"{what} {', '.join(f'{_sql(sql)} AS {name}' for name, sql in sorted(of.items()))}"
