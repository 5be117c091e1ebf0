"""Compares a scenario's expectations with an engine's results; the difference as text.

Outputs are compared in order, tables in any order. Doubles compare within 1e-6, decimals exactly, scale included,
also as texts.
Timestamps, dates and binaries are compared as their text in JSON. A row of a windowed table has its window beside its
key: "window": {"start": ms, "end": ms, "type": "time"}, or "session" for a session window.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from lakehouse.formats.epoch import numbers, plain_format
from lakehouse.formats.json_text import write
from lakehouse.model.event import Late, unhashable
from lakehouse.model.model import Result
from lakehouse.plan.app import App
from lakehouse.run.scenario.as_written import as_row, plain, sink_of
from lakehouse.run.scenario.field_names import in_fields
from lakehouse.run.scenario.keys import Keys, keys_in
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.java_double import java_double

DOUBLE_TOLERANCE = 1e-6
_KEPT = "  "
_MISSING = "- "
_EXTRA = "+ "


def compare(app: App, result: Result, expected: Mapping[str, Any]) -> list[str]:
    """Return one text for each topic, table, quarantine, counter and list of late records that is not as expected.

    `expected` holds "outputs", "tables", "quarantine", "null_keys" and "late" as a scenario file has them; anything
    not named there is not checked. In a difference, "-" is the expected line and "+" the actual one.
    """
    failures = []
    result = in_fields(app, result)
    outputs: dict[str, list[dict[str, Any]]] = {}
    for item in expected.get("outputs", []):
        outputs.setdefault(_spelled(item["topic"], {**result.topics, **result.changelogs}), []).append(item)
    for topic, wanted in outputs.items():
        found = _as_sent(app, topic, result.topics.get(topic, result.changelogs.get(topic)))
        known = {**result.changelogs, **result.topics}
        if found is None:
            failures += _missing("topic", topic, known)
        else:
            failures += _outputs(app, topic, wanted, found)
    for written, rows in expected.get("tables", {}).items():
        table = result.tables.get(name := _spelled(written, result.tables))
        if table is None:
            failures += _missing("table", name, result.tables)
        else:
            failures += _table(name, keys_in(app, app.table(name)), rows, table)
    for written, bad in expected.get("quarantine", {}).items():
        kept = result.quarantine.get(name := _spelled(written, result.quarantine))
        if kept is None:
            failures += _missing("quarantine", name, result.quarantine)
        else:
            failures += _quarantine(name, bad, [(r.partition, r.offset, reason) for r, reason in kept])
    for written, count in expected.get("null_keys", {}).items():
        if (ignored := result.null_keys.get(name := _spelled(written, result.tables), 0)) != count:
            failures.append(f"table {name}: expected {count} records ignored for a null key, found {ignored}")
    for written, wanted in expected.get("late", {}).items():
        late = result.late.get(name := _spelled(written, result.late))
        if late is None:
            failures += _missing("table", name, result.late)
        else:
            failures += _late(name, keys_in(app, app.table(name)), wanted, late)
    return failures


def begins(app: App, result: Result, expected: list[dict[str, Any]]) -> list[str]:
    """Return one text for each topic whose records do not begin with these, as `compare` does."""
    failures = []
    result = in_fields(app, result)
    for topic in dict.fromkeys(item["topic"] for item in expected):
        found = _as_sent(app, topic, result.topics.get(topic, result.changelogs.get(topic))) or []
        key = _published(app, topic)
        wanted = [item for item in expected if item["topic"] == topic]
        wanted = [
            item | ({"window": item["window"] | {"type": key.window}} if "window" in item else {}) for item in wanted
        ]
        failures += _outputs(app, topic, wanted, found[: len(wanted)])
    return failures


def _spelled(name: str, known: Iterable[str]) -> str:
    """A name as the application has it: in SQL its case makes no difference."""
    known = list(known)
    return name if name in known else next((one for one in known if one.lower() == name.lower()), name)


def _missing(what: str, name: str, known: Iterable[str]) -> list[str]:
    return [f"{what} {name}: does not exist. There are: {', '.join(sorted(known)) or 'none'}"]


def _published(app: App, topic: str) -> Keys:
    """The keys of what is published to a topic, or of the table that is named instead of a topic."""
    return keys_in(app, next((sink.of for sink in app.sinks if sink.topic == topic), None) or app.table(topic))


def _as_sent(app: App, topic: str, found: list[Change] | None) -> list[Change] | None:
    """The changes with their moments as numbers, if that is how the topic has them."""
    sink = sink_of(app, topic)
    if found is None or sink is None or not plain_format(sink.format)[1]:
        return found
    names = _published(app, topic).columns
    made = []
    for change in found:
        key, value = change.key, change.value
        if key is not None:
            parts = dict(zip(names, map(unhashable, key), strict=False))
            key = (*numbers(parts).values(), *key[len(names) :])
        made.append(replace(change, key=key, value=None if value is None else numbers(value)))
    return made


def _outputs(app: App, topic: str, wanted: list[dict[str, Any]], found: list[Change]) -> list[str]:
    key, sink = _published(app, topic), sink_of(app, topic)
    lines: list[str] = []
    equal = True
    for number in range(max(len(wanted), len(found))):
        want = wanted[number] if number < len(wanted) else None
        change = _shown(found[number], key) if number < len(found) else None
        if want is not None and change is not None and _fits(as_row(sink, key.columns, want, found[number]), change):
            lines.append(_KEPT + write(change))
            continue
        equal = False
        if want is not None:
            lines.append(_MISSING + write({name: value for name, value in want.items() if name != "topic"}))
        if change is not None:
            lines.append(_EXTRA + write(change))
    header = f"topic {topic}: expected {len(wanted)} records, found {len(found)}"
    return [] if equal else ["\n".join([header, *lines])]


def _shown(change: Change, key: Keys) -> dict[str, Any]:
    """A change in the form of a scenario."""
    return {**key.shown(change.key), "value": plain(change.value), "timestamp": change.timestamp}


def _fits(want: dict[str, Any], found: dict[str, Any]) -> bool:
    same = all(_equal(want.get(name), found.get(name)) for name in ("key", "window", "value"))
    return same and ("timestamp" not in want or want["timestamp"] == found["timestamp"])


def _table(name: str, key: Keys, wanted: list[dict[str, Any]], found: dict[Key, Any]) -> list[str]:
    left = [{**key.shown(values), "value": plain(row)} for values, row in found.items()]
    missing = []
    for want in wanted:
        match = next((n for n, row in enumerate(left) if _fits(want, row)), None)
        if match is None:
            missing.append(_MISSING + write(want))
        else:
            left.pop(match)
    if not missing and not left:
        return []
    header = f"table {name}: expected {len(wanted)} rows, found {len(found)}"
    return ["\n".join([header, *missing, *(_EXTRA + write(row) for row in left)])]


def _quarantine(name: str, wanted: list[dict[str, Any]], found: list[tuple[int, int, str]]) -> list[str]:
    fits = len(wanted) == len(found) and all(
        (want.get("partition", 0), want["offset"]) == (partition, offset) and want.get("reason contains", "") in reason
        for want, (partition, offset, reason) in zip(wanted, found, strict=True)
    )
    if fits:
        return []
    lines = [_MISSING + write(want) for want in wanted]
    lines += [_EXTRA + write({"offset": o, "partition": p, "reason": reason}) for p, o, reason in found]
    return ["\n".join([f"quarantine {name}: expected {len(wanted)} records, found {len(found)}", *lines])]


def _late(name: str, key: Keys, wanted: list[dict[str, Any]], late: list[Late]) -> list[str]:
    """Late records in position order; one that came too late for several windows is listed once for each."""
    found: list[dict[str, Any]] = [
        {"offset": item.identity.offset, "partition": item.identity.partition} for item in late
    ]
    for line, item in zip(found, late, strict=True):
        if item.span is not None:
            line["window"] = key.bounds(*item.span)
    if [{"partition": 0, **want} for want in wanted] == found:
        return []
    lines = [_MISSING + write(want) for want in wanted] + [_EXTRA + write(line) for line in found]
    return ["\n".join([f"table {name}: expected {len(wanted)} late records, found {len(found)}", *lines])]


def same(one: Any, other: Any) -> bool:
    """Say whether two values of `plain` are the same, doubles within the tolerance."""
    if isinstance(one, float) and not math.isfinite(one):
        one = java_double(one)
    return _equal(one, other)


def _decimal(written: int | Decimal | str) -> Decimal:
    try:
        return Decimal(written)
    except InvalidOperation:
        return Decimal("NaN")


def _equal(want: Any, found: Any) -> bool:
    match found:
        case float():
            if isinstance(want, str):  # "NaN", "Infinity", "-Infinity"
                return want == java_double(found)
            number = isinstance(want, int | Decimal | float) and not isinstance(want, bool)
            return number and abs(float(want) - found) <= DOUBLE_TOLERANCE
        case int() if isinstance(want, Decimal) and not isinstance(found, bool):
            return want == found
        case Decimal():
            exact = isinstance(want, int | Decimal | str) and not isinstance(want, bool)
            return exact and _decimal(want).as_tuple() == found.as_tuple()
        case dict():
            return (
                isinstance(want, dict) and want.keys() == found.keys() and all(same(want[k], found[k]) for k in found)
            )
        case list():
            return isinstance(want, list) and len(want) == len(found) and all(map(same, want, found))
    return type(want) is type(found) and bool(want == found)
