"""The differences of two declarations, part by part, and their meanings (rules: `lakehouse.plan.evolution.change`)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from lakehouse.duration import duration_text
from lakehouse.plan.expression.expression import SQL, Json
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.written.canonical import canonical_sql

ChangeKind = Literal["same", "compatible", "refold", "new_table"]
KINDS: tuple[ChangeKind, ...] = ("same", "compatible", "refold", "new_table")

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
MISSING = object()  # instead of a part that only the other fingerprint has
SIMPLE_NAME = re.compile(r"`([A-Za-z_]\w*)`")


class Verdict(NamedTuple):
    """The meaning of a difference, and a sentence about it."""

    kind: ChangeKind
    text: str


def find_differences(old_plan: Json, new_plan: Json) -> list[Verdict]:
    """Return the differences of two fingerprints; none if they are equal."""
    old_plan, new_plan = _with_canonical_sql(old_plan), _with_canonical_sql(new_plan)
    verdicts = [
        *_key_differences(old_plan, new_plan),
        *_content_differences(old_plan, new_plan),
        *_beside_differences(old_plan, new_plan),
        *_stream_differences(old_plan["stream"], new_plan["stream"]),
    ]
    if not any(verdict.kind in ("refold", "new_table") for verdict in verdicts):
        verdicts += _other_differences(old_plan, new_plan)
    return verdicts


def _describe_change(verdict_kind: ChangeKind, part: str, old_text: str, new_text: str, consequence: str) -> Verdict:
    return Verdict(verdict_kind, f"{part}: found {old_text}, declared {new_text}; {consequence}.")


def _with_canonical_sql(value: Any) -> Any:
    """Return a fingerprint with its SQL in today's canonical form, which may differ from the stored form."""
    if isinstance(value, dict):
        return {name: canonical_sql(part) if name == SQL else _with_canonical_sql(part) for name, part in value.items()}
    return list(map(_with_canonical_sql, value)) if isinstance(value, list) else value


def _other_differences(old_plan: Json, new_plan: Json) -> Iterator[Verdict]:
    """Yield a verdict for each part that differs, but for the parts whose differences are known to be harmless.

    A part without a rule of its own may decide rows: only what is proven to be harmless lets a table go on.
    """
    is_final = old_plan["emit"] == new_plan["emit"] == "final"
    for name, old_part, new_part in _differing_parts(
        _without_harmless(old_plan, is_final), _without_harmless(new_plan, is_final)
    ):
        yield _describe_change("refold", name, _format_part(old_part), _format_part(new_part), REFOLD)


def _without_harmless(plan: Json, is_final: bool) -> Json:
    """Return a fingerprint without the parts that have a rule by which a table can go on with another value.

    Without key types: if only one of two releases knows a type, that is no difference.
    """
    ruled_names = ("suppress", "retention", *(("idle",) if is_final else ()))
    return {
        **plan,
        "key": [name for name, _ in plan["key"]],
        "beside": {name: option for name, option in plan["beside"].items() if name not in ruled_names},
        "stream": _without_harmless_of_stream(plan["stream"]),
    }


def _without_harmless_of_stream(stream: Json) -> Json:
    rest = dict(stream)
    for name in ("merge", "join_of"):
        if name in stream:
            rest[name] = list(map(_without_harmless_of_stream, stream[name]))
    if isinstance(stream.get("stream"), dict):
        rest["stream"] = _without_harmless_of_stream(stream["stream"])
    if "topic" in stream:
        rest["beside"] = {name: part for name, part in stream["beside"].items() if name not in ("name", "unread")}
    return rest


def _differing_parts(old_part: Any, new_part: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the innermost parts that differ, with their names; MISSING for one that is not there."""
    if isinstance(old_part, dict) and isinstance(new_part, dict):
        for key in sorted({*old_part, *new_part}):
            yield from _differing_parts(
                old_part.get(key, MISSING), new_part.get(key, MISSING), f"{name} {key}".lstrip()
            )
    elif isinstance(old_part, list) and isinstance(new_part, list) and len(old_part) == len(new_part):
        for old_item, new_item in zip(old_part, new_part, strict=True):
            yield from _differing_parts(old_item, new_item, name)
    elif old_part != new_part:
        yield name, old_part, new_part


def _format_part(part: Any) -> str:
    if part in (MISSING, None):
        return "none"
    return part if isinstance(part, str) else json.dumps(part, sort_keys=True, ensure_ascii=False)


def _key_differences(old_plan: Json, new_plan: Json) -> Iterator[Verdict]:
    is_same = [old_column[0] for old_column in old_plan["key"]] == [
        new_column[0] for new_column in new_plan["key"]
    ] and all(
        None in (old_column[1], new_column[1]) or old_column[1] == new_column[1]
        for old_column, new_column in zip(old_plan["key"], new_plan["key"], strict=True)
    )
    if not is_same:
        yield _describe_change(
            "new_table", "key", _format_columns(old_plan["key"]), _format_columns(new_plan["key"]), NEW
        )
    if old_plan.get("history") != new_plan.get("history"):
        old_content, new_content = (
            "the rows of history, with valid_from in the key" if "history" in plan else "one row of each key"
            for plan in (old_plan, new_plan)
        )
        yield _describe_change("new_table", "history", old_content, new_content, NEW)
    if (old_plan["window"] is None) != (new_plan["window"] is None):
        yield _describe_change(
            "new_table", "window", _format_window(old_plan["window"]), _format_window(new_plan["window"]), NEW
        )


def _content_differences(old_plan: Json, new_plan: Json) -> Iterator[Verdict]:
    if old_plan["window"] != new_plan["window"] and None not in (old_plan["window"], new_plan["window"]):
        yield _describe_change(
            "refold", "window", _format_window(old_plan["window"]), _format_window(new_plan["window"]), REFOLD
        )
    if ("columns" in old_plan) != ("columns" in new_plan):
        latest_content, aggregate_content = "the latest value of each key", "aggregates"
        contents = (latest_content, aggregate_content) if "columns" in old_plan else (aggregate_content, latest_content)
        yield _describe_change("refold", "content", *contents, REFOLD)
    elif "columns" in old_plan:
        if old_plan["columns"] != new_plan["columns"]:
            yield _describe_change(
                "refold", "columns", ", ".join(old_plan["columns"]), ", ".join(new_plan["columns"]), REFOLD
            )
    else:
        for name, old_sql in old_plan["group_by"].items():
            if new_plan["group_by"].get(name, old_sql) != old_sql:
                yield _describe_change(
                    "refold", f"group by {name}", _format_sql(old_sql), _format_sql(new_plan["group_by"][name]), REFOLD
                )
        for name in sorted({*old_plan["aggregates"], *new_plan["aggregates"]}):
            old_aggregate, new_aggregate = old_plan["aggregates"].get(name), new_plan["aggregates"].get(name)
            if old_aggregate != new_aggregate:
                yield _describe_change(
                    "refold",
                    f"aggregate {name}",
                    _format_aggregate(old_aggregate),
                    _format_aggregate(new_aggregate),
                    REFOLD,
                )
    for part in ("having", "order_by"):
        if old_plan[part] != new_plan[part]:
            yield _describe_change("refold", part, _format_sql(old_plan[part]), _format_sql(new_plan[part]), REFOLD)
    old_unit, new_unit = (plan.get("order_unit", "milliseconds") for plan in (old_plan, new_plan))
    if old_unit != new_unit and old_plan["order_by"] == new_plan["order_by"]:
        yield _describe_change("refold", "the times of order_by", old_unit, new_unit, REFOLD)
    old_tombstones, new_tombstones = (plan.get("tombstones", "by order") for plan in (old_plan, new_plan))
    if old_tombstones != new_tombstones:
        yield _describe_change("refold", "tombstones", old_tombstones, new_tombstones, REFOLD)
    if old_plan["emit"] != new_plan["emit"]:
        yield _describe_change("refold", "emit", old_plan["emit"], new_plan["emit"], REFOLD)


def _beside_differences(old_plan: Json, new_plan: Json) -> Iterator[Verdict]:
    old_beside, new_beside = old_plan["beside"], new_plan["beside"]
    if old_beside["suppress"] != new_beside["suppress"]:
        setting_words = {True: "suppress", False: "no suppress"}
        consequence = f"only the changelog differs, from now on: {GOES_ON}"
        yield _describe_change(
            "compatible",
            "suppress",
            setting_words[old_beside["suppress"]],
            setting_words[new_beside["suppress"]],
            consequence,
        )
    is_final = old_plan["emit"] == new_plan["emit"] == "final"
    if old_beside["idle"] != new_beside["idle"] and is_final:
        consequence = f"from now on final results follow the new setting; those already emitted stay: {GOES_ON}"
        yield _describe_change(
            "compatible", "idle", _format_ms(old_beside["idle"]), _format_ms(new_beside["idle"]), consequence
        )
    if old_beside["retention"] != new_beside["retention"] and (old_plan["window"] is None) == (
        new_plan["window"] is None
    ):
        yield from _retention_differences(old_beside["retention"], new_beside["retention"], old_plan, is_final)


def _retention_differences(
    old_retention: int | None, new_retention: int | None, old_plan: Json, is_final: bool
) -> Iterator[Verdict]:
    verdict_kind: ChangeKind = "compatible"
    if old_plan["window"] is None:
        verdict_kind, consequence = (
            "refold",
            f"it decides which records are too old and which deletes are remembered; {REFOLD}",
        )
    elif new_retention is not None and (old_retention is None or new_retention < old_retention):
        consequence = f"rows of windows that ended longer ago are removed with the next records: {GOES_ON}"
    elif new_retention is not None or is_final:
        consequence = f"rows that were removed do not come back; later ones stay longer: {GOES_ON}"
    else:
        verdict_kind = "refold"
        consequence = (
            "a removed window could be recreated from part of its records, so refold the table, or declare a "
            'long retention ("36500 days"), with which it continues'
        )
    yield _describe_change(verdict_kind, "retention", _format_ms(old_retention), _format_ms(new_retention), consequence)


def _stream_differences(old_stream: Json, new_stream: Json) -> Iterator[Verdict]:
    old_parts, new_parts = _stream_parts(old_stream), _stream_parts(new_stream)
    if _origin_name(old_stream) != _origin_name(new_stream) or len(old_parts) != len(new_parts):
        yield _describe_change("refold", "streams", _stream_names(old_parts), _stream_names(new_parts), REFOLD)
        return
    for old_part, new_part in zip(old_parts, new_parts, strict=True):
        match _origin_name(old_stream):
            case "merge" | "join_of":
                yield from _stream_differences(old_part, new_part)
            case "topic":
                yield from _source_differences(old_part, new_part)
            case origin:
                yield from _table_differences(origin, old_part, new_part)
    if "join_of" in new_stream:
        for option_name in ("on", "how", "within", "prefix"):
            if old_stream[option_name] != new_stream[option_name]:
                old_option, new_option = (
                    _option_of_join(option_name, stream[option_name]) for stream in (old_stream, new_stream)
                )
                yield _describe_change(
                    "refold", f"{option_name} of the join of {_stream_names(new_parts)}", old_option, new_option, REFOLD
                )
    if old_stream["steps"] != new_stream["steps"]:
        # Only the steps that differ, unless only their order differs.
        removed_steps = [step for step in old_stream["steps"] if step not in new_stream["steps"]]
        added_steps = [step for step in new_stream["steps"] if step not in old_stream["steps"]]
        shown_steps = (
            (removed_steps, added_steps) if removed_steps or added_steps else (old_stream["steps"], new_stream["steps"])
        )
        old_text, new_text = (", ".join(map(_format_step, steps)) or "none" for steps in shown_steps)
        yield _describe_change("refold", f"steps of stream {_stream_names([old_stream])}", old_text, new_text, REFOLD)


def _stream_parts(stream: Json) -> list[Json]:
    parts: list[Json] = stream.get("merge") or stream.get("join_of") or [stream]
    return parts


def _origin_name(stream: Json) -> str:
    return next(name for name in ORIGINS if name in stream)


def _option_of_join(option_name: str, option_value: Any) -> str:
    """Return an option of a join of two streams in words."""
    match option_name:
        case "on":
            return ", ".join(" = ".join(pair) for pair in option_value)
        case "within":
            span_texts = ", ".join(f"{name} {_format_ms(option_value[name])}" for name in ("before", "after", "grace"))
            return f"{span_texts}, unmatched {'at once' if option_value['at_once'] else 'when it closes'}"
    return str(option_value)


def _table_differences(origin: str, old_stream: Json, new_stream: Json) -> Iterator[Verdict]:
    """Yield the differences of a stream that reads a table: another table, or the same table by another key."""
    if old_stream[origin] != new_stream[origin]:
        yield _describe_change("refold", "table that is read", old_stream[origin], new_stream[origin], REFOLD)
    elif old_stream["key"] != new_stream["key"]:
        yield _describe_change(
            "refold",
            f"key of table {new_stream[origin]}",
            _format_columns(old_stream["key"]),
            _format_columns(new_stream["key"]),
            REFOLD,
        )
    for option_name in ("on", "how", "prefix", "as_of"):
        if old_stream.get(option_name) != new_stream.get(option_name):
            option_values = (stream.get(option_name, "arrival") for stream in (old_stream, new_stream))
            old_text, new_text = (
                ", ".join(map(_format_sql, option_value)) if option_name == "on" else option_value
                for option_value in option_values
            )
            yield _describe_change(
                "refold", f"{option_name} of the join with {new_stream[origin]}", old_text, new_text, REFOLD
            )
    for option_name in ("alert", "when", "crossing"):
        if old_stream.get(option_name) != new_stream.get(option_name):
            old_text, new_text = (
                _format_sql(stream[option_name]) if option_name == "when" else stream[option_name]
                for stream in (old_stream, new_stream)
            )
            yield _describe_change("refold", f"{option_name} of the alert", old_text, new_text, REFOLD)
    if "stream" in new_stream:
        yield from _stream_differences(old_stream["stream"], new_stream["stream"])


def _source_differences(old_source: Json, new_source: Json) -> Iterator[Verdict]:
    stream_text = f"of stream {new_source['beside']['name']}"
    formatters: dict[str, Callable[[Any], str]] = {
        "topic": str,
        "key_format": str,
        "value_format": str,
        "key": _format_columns,
        "event_time": _format_sql,
    }
    for option_name, format_value in formatters.items():
        if old_source[option_name] != new_source[option_name]:
            old_text, new_text = (format_value(source[option_name]) for source in (old_source, new_source))
            yield _describe_change(
                "refold", f"{option_name.replace('_', ' ')} {stream_text}", old_text, new_text, REFOLD
            )
    if old_source.get("max_ahead") != new_source.get("max_ahead"):
        old_limit, new_limit = (
            "any" if (ms := source.get("max_ahead")) is None else duration_text(ms)
            for source in (old_source, new_source)
        )
        yield _describe_change("refold", f"max_ahead {stream_text}", old_limit, new_limit, REFOLD)
    if old_source.get("expect") != new_source.get("expect"):
        old_conditions, new_conditions = (
            ", ".join(map(_format_sql, source.get("expect", []))) or "nothing" for source in (old_source, new_source)
        )
        yield _describe_change("refold", f"what is expected {stream_text}", old_conditions, new_conditions, REFOLD)
    if old_source["value_format"] == new_source["value_format"]:
        yield from _value_differences(old_source, new_source, stream_text)
    old_name, new_name = old_source["beside"]["name"], new_source["beside"]["name"]
    if old_name != new_name:
        consequence = (
            f"bad records go to quarantine.{new_name} from now on, the earlier ones stay in quarantine.{old_name}: "
            f"{GOES_ON}"
        )
        yield _describe_change("compatible", "name of the stream", old_name, new_name, consequence)


def _value_differences(old_source: Json, new_source: Json, stream_text: str) -> Iterator[Verdict]:
    if not parse_format(old_source["value_format"]).is_by_name:
        if old_source["value"] != new_source["value"]:
            yield _describe_change(
                "refold",
                f"schema {stream_text}",
                _format_columns(old_source["value"]),
                _format_columns(new_source["value"]),
                REFOLD,
            )
        return
    old_columns, new_columns = (
        old_source["value"] | old_source["beside"]["unread"],
        new_source["value"] | new_source["beside"]["unread"],
    )
    changed_names = [
        name for name in sorted(old_columns | new_columns) if old_columns.get(name) != new_columns.get(name)
    ]
    for name in changed_names:
        # A column that only one declaration has, and reads, is reported where it is read.
        if name in old_source["value"] | new_source["value"] and name in old_columns and name in new_columns:
            yield _describe_change(
                "refold", f"column {name} {stream_text}", old_columns[name], new_columns[name], REFOLD
            )
    unread_names = [name for name in changed_names if name not in old_source["value"] | new_source["value"]]
    if unread_names:
        consequence = f"the table does not read them, but a record that does not fit them is quarantined: {GOES_ON}"
        old_unread, new_unread = (
            _format_columns([[name, columns[name]] for name in unread_names if name in columns])
            for columns in (old_columns, new_columns)
        )
        yield _describe_change("compatible", f"columns {stream_text}", old_unread, new_unread, consequence)


def _format_columns(columns: list[list[Any]]) -> str:
    return ", ".join(f"{name} {column_type}" if column_type else name for name, column_type in columns) or "none"


def _stream_names(streams: list[Json]) -> str:
    parts = [(part, _stream_parts(part)) for part in streams]
    return " + ".join(
        part["beside"]["name"] if inner_parts == [part] else _stream_names(inner_parts) for part, inner_parts in parts
    )


def _format_sql(sql_part: Json | None) -> str:
    return "none" if sql_part is None else SIMPLE_NAME.sub(r"\1", sql_part[SQL])


def _format_ms(value: int | None) -> str:
    return "none" if value is None else f"{value} ms"


def _format_window(window_part: Json | None) -> str:
    if window_part is None:
        return "none"
    if window_part["kind"] == "hopping" and window_part["size"] == window_part["advance"]:
        window_part = {"kind": "tumbling", "size": window_part["size"], "grace": window_part["grace"]}
    sizes = [f"{name} {_format_ms(size_ms)}" for name, size_ms in window_part.items() if name != "kind"]
    return f"{window_part['kind']} ({', '.join(sizes)})"


def _format_aggregate(aggregate_part: Json | None) -> str:
    if aggregate_part is None:
        return "none"
    option_texts = [f"{name}={_format_option(option)}" for name, option in sorted(aggregate_part["options"].items())]
    argument_text = _format_sql(aggregate_part["argument"]) if aggregate_part["argument"] else "*"
    return f"{aggregate_part['kind']}({', '.join([argument_text, *option_texts])})"


def _format_option(option_value: Any) -> str:
    return f"function #{option_value['function']}" if isinstance(option_value, dict) else str(option_value)


def _format_step(step: Json) -> str:
    """Return a step in words. That of a rekey whose key nothing reads as one has two parts."""
    return ", ".join(_format_step_part(kind, part) for kind, part in step.items())


def _format_step_part(step_kind: str, step_part: Any) -> str:
    if step_kind in ("filter", "retime"):
        return f"{step_kind} {_format_sql(step_part)}"
    if step_kind == "map":
        ((name, map_part),) = step_part.items()
        arguments = ", ".join(map(_format_sql, map_part["arguments"]))
        return f"map {name} {map_part['type']} = function #{map_part['function']}({arguments})"
    return f"{step_kind} {', '.join(f'{_format_sql(sql)} AS {name}' for name, sql in sorted(step_part.items()))}"
