"""What tables must hold, from the records that they have: plain Python, which shares no code with lakehouse."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import fastavro

from tests.faults.worlds.reading import Place, Rows, Stored, Taken

WINDOW_MS, HOP_MS, GAP_MS, WITHIN_MS = 10_000, 5_000, 3_000, 2_000
BAD = object()
TYPES: dict[str, dict[str, type]] = {
    "orders": {"customer": str, "amount": int, "note": str}, "clicks": {"page": str}, "users": {"city": str},
    "payments": {"amount": int, "method": str, "tip": int},
}  # fmt: skip
SMALL = 900  # orders of this amount and more, and of none, are not what is expected
FIXED = {"customer": "fixed", "amount": 1, "note": None}  # the fix of each bad order


def read_value(value: bytes | None, types: Mapping[str, type]) -> Any:
    """Return the fields of a record, None for a tombstone, BAD for what does not fit."""
    if value is None:
        return None
    try:
        fields = json.loads(value)
    except ValueError:
        return BAD
    if not isinstance(fields, dict):
        return BAD
    row = {name: fields.get(name) for name in types}
    fits = all(item is None or type(item) is types[name] for name, item in row.items())
    return row if fits else BAD


def from_avro(value: bytes | None, writers: Mapping[int, Any]) -> bytes | None:
    """Return the JSON of a value in Avro, and what is no JSON for one that can't be read. writers: schemas by id."""
    if value is None:
        return None
    schema = writers.get(int.from_bytes(value[1:5])) if len(value) > 5 and value[0] == 0 else None
    try:
        body = io.BytesIO(value[5:])
        fields = None if schema is None else fastavro.schemaless_reader(body, schema, None)
        is_whole = fields is not None and not body.read(1)
    except (EOFError, ValueError, IndexError):
        is_whole = False
    return json.dumps(fields).encode() if is_whole else b"not Avro"


def row_of(topic: str, record: Stored) -> Any:
    """Return the fields of a record, None for a tombstone, BAD for one that does not fit or is not as expected."""
    row = read_value(record.value, TYPES[topic])
    is_unexpected = topic == "orders" and isinstance(row, dict) and (row["amount"] is None or row["amount"] >= SMALL)
    return BAD if is_unexpected else row


def bad_places(topic: str, records: Iterable[Stored]) -> list[Place]:
    return [record.place for record in records if row_of(topic, record) is BAD]


def with_fixes(taken: Iterable[Taken], places: set[Place]) -> list[Taken]:
    """Return the records, those at these places with the fixed value."""
    value = json.dumps(FIXED).encode()
    return [
        item._replace(record=item.record._replace(value=value)) if item.record.place in places else item
        for item in taken
    ]


def good(taken: Iterable[Taken], *topics: str) -> Iterator[tuple[str, str, int, Any]]:
    """Yield topic, key, time and fields (None for a tombstone) of the good records with a key, in the lake's order."""
    for _, _, topic, record in taken:
        if topic in topics and record.key is not None and (row := row_of(topic, record)) is not BAD:
            yield topic, record.key.decode(), record.timestamp, row


def last_rows(topic: str) -> Callable[[Iterable[Taken]], Rows]:
    def fold(taken: Iterable[Taken]) -> Rows:
        rows: Rows = {}
        for _, key, _, row in good(taken, topic):
            rows.pop(key, None)
            if row is not None:
                rows[key] = row
        return rows

    return fold


def newest_orders(taken: Iterable[Taken]) -> Rows:
    """The orders of the latest event time; of one time the last."""
    newest: dict[str, tuple[int, Any]] = {}
    for _, key, time, row in good(taken, "orders"):
        if key not in newest or newest[key][0] <= time:
            newest[key] = time, row
    return {key: row for key, (_, row) in newest.items() if row is not None}


def order_states(taken: Iterable[Taken]) -> Rows:
    """Who ordered, from when on until when: one row while the customer is the same."""
    by_key: dict[str, dict[int, Any]] = {}
    for _, key, time, row in good(taken, "orders"):
        by_key.setdefault(key, {})[time] = row
    rows: Rows = {}
    for key, states in by_key.items():
        begin: int | None = None
        for time in sorted(states):
            row = states[time]
            if begin is not None and row is not None and rows[key, begin]["customer"] == row["customer"]:
                continue
            if begin is not None:
                rows[key, begin]["valid_to"] = time
            begin = None if row is None else time
            if row is not None:
                rows[key, time] = {"valid_to": None, "customer": row["customer"]}
    return rows


def totals(taken: Iterable[Taken]) -> Rows:
    rows: Rows = {}
    for _, _, _, row in good(taken, "orders"):
        if row is None or row["customer"] is None:
            continue
        one = rows.setdefault(row["customer"], {"n": 0, "total": 0, "most": row["amount"], "twice": 0})
        one["n"] += 1
        one["total"] += row["amount"]
        one["most"] = max(one["most"], row["amount"])
        one["twice"] += 2 * row["amount"]
    return rows


def sizes(taken: Iterable[Taken]) -> Rows:
    """How many customers have a number of orders; `table_rows` leaves out numbers that nobody has any more."""
    counts: Rows = {}
    for row in totals(taken).values():
        counts[row["n"]] = {"customers": counts.get(row["n"], {"customers": 0})["customers"] + 1}
    return counts


def click_times(taken: Iterable[Taken]) -> Iterator[tuple[str, int]]:
    for _, key, time, row in good(taken, "clicks"):
        if row is not None:
            yield key, time


def counted(keys: Iterable[Any]) -> Rows:
    rows: Rows = {}
    for key in keys:
        rows.setdefault(key, {"n": 0})["n"] += 1
    return rows


def visits(taken: Iterable[Taken]) -> Rows:
    return counted((key, time // WINDOW_MS * WINDOW_MS) for key, time in click_times(taken))


def hops(taken: Iterable[Taken]) -> Rows:
    return counted(
        (key, time // HOP_MS * HOP_MS - earlier)
        for key, time in click_times(taken)
        for earlier in range(0, WINDOW_MS, HOP_MS)
    )


def sessions(taken: Iterable[Taken]) -> Rows:
    """The clicks of a user that are no further apart than the gap, by the first and the last one's time."""
    rows: Rows = {}
    current: tuple[str, int, int] | None = None
    for key, time in sorted(click_times(taken)):
        if current is not None and current[0] == key and time - current[2] <= GAP_MS:
            row = rows.pop(current)
            current = key, current[1], time
            rows[current] = {"n": row["n"] + 1}
        else:
            current = key, time, time
            rows[current] = {"n": 1}
    return rows


def final_visits(taken: Iterable[Taken]) -> Rows:
    """The visits in windows that have closed: all but those of the last time."""
    rows = visits(taken)
    last = max((window for _, window in rows), default=0)
    return {key: row for key, row in rows.items() if key[1] != last}


def recent_visits(taken: Iterable[Taken]) -> Rows:
    """The visits that have not left the table: those of the last time, when all partitions have come to it."""
    rows, final_rows = visits(taken), final_visits(taken)
    return {key: row for key, row in rows.items() if key not in final_rows}


def cities(taken: Iterable[Taken]) -> Rows:
    """How many clicks came from a city: that which the user had when the click arrived."""
    rows: Rows = {}
    city_of: dict[str, str | None] = {}
    for topic, key, _, row in good(taken, "clicks", "users"):
        if topic == "users":
            city_of[key] = None if row is None else row["city"]
        elif row is not None and (city := city_of.get(key)) is not None:
            rows.setdefault(city, {"n": 0})["n"] += 1
    return rows


def pairs(taken: Iterable[Taken]) -> Rows:
    """How often a click and a record of its user lie close together."""
    times: dict[str, dict[str, list[int]]] = {"clicks": {}, "users": {}}
    for topic, key, time, row in good(taken, "clicks", "users"):
        if row is not None:
            times[topic].setdefault(key, []).append(time)
    return counted(
        key
        for key, clicks in times["clicks"].items()
        for click in clicks
        for user in times["users"].get(key, ())
        if abs(click - user) <= WITHIN_MS
    )


def settled(taken: Iterable[Taken]) -> Rows:
    """Each order with the last payment of its customer."""
    records = list(taken)
    paid = last_rows("payments")(records)
    rows = {}
    for key, row in last_rows("orders")(records).items():
        payment = paid.get(row["customer"])
        rows[key] = {
            "amount": row["amount"],
            "paid_amount": None if payment is None else payment["amount"],
            "paid_tip": None if payment is None else payment["tip"],
        }
    return rows


class Expected(NamedTuple):
    """A table: its key, and the fold of the records."""

    keys: tuple[str, ...]
    fold: Callable[[Iterable[Taken]], Rows]


WINDOW = ("user", "window_start")
TABLES = {
    "latest_orders": Expected(("id",), last_rows("orders")),
    "newest_orders": Expected(("id",), newest_orders),
    "order_states": Expected(("id", "valid_from"), order_states),
    "totals": Expected(("customer",), totals),
    "sizes": Expected(("n",), sizes),
    "visits": Expected(WINDOW, visits),
    "final_visits": Expected(WINDOW, final_visits),
    "recent_visits": Expected(WINDOW, recent_visits),
    "hops": Expected(WINDOW, hops),
    "sessions": Expected((*WINDOW, "window_end"), sessions),
    "cities": Expected(("of_city",), cities),
    "pairs": Expected(("user",), pairs),
    "users": Expected(("user",), last_rows("users")),
    "paid": Expected(("customer",), last_rows("payments")),
    "settled": Expected(("id",), settled),
}
