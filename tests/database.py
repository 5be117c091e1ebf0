"""A shop's database, and a connector that writes its changes to Kafka as Debezium does: for tests of change logs.

Transactions change several tables: orders with their lines are placed, changed and taken back, customers get another
primary key, and keys that were deleted come again. The connector begins with a snapshot, reads rows again now and then
(an incremental snapshot), and after a restart sends the last changes once more. What the tables must be is known twice:
the database has them, and `fold` makes them of the records; `Database.at` has them at any position of its log. None of
these knows lakehouse.
"""

from __future__ import annotations

import base64
import json
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import lakehouse as lh
from lakehouse.semantics.record import Record

Row = dict[str, Any]
Key = tuple[Any, ...]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START_MS = 1_767_225_600_000
NOT_SENT = "__debezium_unavailable_value"
KEYS = {"customers": ("id",), "orders": ("id",), "lines": ("order_id", "line")}
# Texts that PostgreSQL stores apart: an update that does not change them does not send them.
LARGE = {"orders": "note"}
CUSTOMERS = lh.debezium(
    "shop.customers", key="id bigint", schema="name string, credit decimal(12, 2), since timestamp, active boolean"
)
ORDERS = lh.debezium(
    "shop.orders",
    key="id bigint",
    schema="customer bigint, status string, total decimal(12, 2), placed timestamp, day date, note string",
    decimals="precise",
    times={"placed": "micros"},
    meta="tx bigint from 'source.txId'",
)
LINES = lh.debezium(
    "shop.lines",
    key="order_id bigint, line int",
    schema="item string, quantity int, price decimal(8, 2)",
    decimals="string",
)
TABLES = {
    name: stream.drop(*meta).latest(name)
    for name, stream, meta in (("customers", CUSTOMERS, ()), ("orders", ORDERS, ("tx",)), ("lines", LINES, ()))
}
APP = lh.app(*TABLES.values())


@dataclass(frozen=True)
class _Change:
    """A line of the database's log. row: after the change; None for a delete.

    before, commit: the commit before its transaction, also of those that change no captured table; and its own.
    """

    table: str
    operation: str
    key: Key
    row: Row | None
    transaction: int
    ms: int
    lsn: int
    unsent: str = ""
    before: int | None = None
    commit: int = 0


@dataclass
class Database:
    """The tables as they are now, and the log of how they became so."""

    random: Random
    sends_large: bool = True
    _places: Iterator[int] = field(default_factory=lambda: iter(()))
    tables: dict[str, dict[Key, Row]] = field(default_factory=lambda: {name: {} for name in KEYS})
    log: list[_Change] = field(default_factory=list)
    transaction: int = 700
    ms: int = START_MS
    last_commit: int = 33_000_000
    snapshot: int = 0

    def commit_one(self) -> None:
        """Commit a transaction. Its changes may lie in the log before the commit of the transaction before it."""
        self.transaction += 1
        first, before = len(self.log), self.last_commit
        # A snapshot waits for the transactions that run: none lies on both sides of it.
        self._places = iter(sorted(self.random.sample(range(max(self.snapshot, before - 40), before + 200), 80)))
        self._act()
        changes = self.log[first:]
        self.last_commit = max([before, *(change.lsn for change in changes)]) + self.random.randrange(1, 30)
        self.log[first:] = [replace(change, before=before, commit=self.last_commit) for change in changes]
        if self.random.random() < 0.3:  # a transaction in tables that nobody captures
            self.last_commit += self.random.randrange(1, 30)

    def at(self, position: int) -> dict[str, dict[Key, Row]]:
        """Return the tables as the transactions left them that had committed by a position."""
        tables: dict[str, dict[Key, Row]] = {name: {} for name in KEYS}
        for change in self.log:
            if change.commit <= position:
                if change.row is None:
                    tables[change.table].pop(change.key, None)
                else:
                    tables[change.table][change.key] = change.row
        return tables

    def _act(self) -> None:
        self.ms += self.random.randrange(1, 2_000)
        actions = (self._join, self._order, self._order, self._order, self._pay, self._pay, self._refill,
                   self._take_back, self._move, self._leave)  # fmt: skip
        for action in self.random.sample(actions, self.random.choice([1, 1, 1, 2])):
            action()

    def _write(self, table: str, row: Row) -> None:
        key = tuple(row[name] for name in KEYS[table])
        before = self.tables[table].get(key)
        large = LARGE.get(table, "")
        is_unsent = not self.sends_large and before is not None and large and before[large] == row[large]
        self.tables[table][key] = row
        self._log(table, "c" if before is None else "u", key, row, large if is_unsent else "")

    def _delete(self, table: str, key: Key) -> None:
        del self.tables[table][key]
        self._log(table, "d", key, None)

    def _log(self, table: str, operation: str, key: Key, row: Row | None, unsent: str = "") -> None:
        self.log.append(_Change(table, operation, key, row, self.transaction, self.ms, next(self._places), unsent))

    def _new_id(self, table: str) -> int:
        """Return a key that is free, often one that had a row before."""
        while True:
            id = self.random.randrange(2 * len(self.tables[table]) + 10)
            if (id,) not in self.tables[table]:
                return id

    def _any(self, table: str) -> Row | None:
        """Return a row that looks random, without a look at all of them."""
        rows = self.tables[table]
        for _ in range(20):
            if (row := rows.get((self.random.randrange(2 * len(rows) + 10),))) is not None:
                return row
        return next(iter(rows.values()), None)

    def _now(self) -> datetime:
        return EPOCH + timedelta(microseconds=self.ms * 1000 + self.random.randrange(1000))

    def _money(self, digits: int) -> Decimal:
        return Decimal(self.random.randrange(-(10**digits), 10**digits)).scaleb(-2)

    def _join(self) -> None:
        row = {"id": self._new_id("customers"), "name": self.random.choice(["ann", "bob", "é", "", None])}
        row |= {"credit": self._money(11), "since": self._now(), "active": self.random.choice([True, False, None])}
        self._write("customers", row)

    def _refill(self) -> None:
        if (row := self._any("customers")) is not None:
            self._write("customers", row | {"credit": self.random.choice([None, self._money(3), self._money(12)])})

    def _order(self) -> None:
        customer, id = self._any("customers"), self._new_id("orders")
        if customer is None:
            return self._join()
        lines = [self._line(id, number) for number in range(self.random.randrange(1, 5))]
        total = sum((line["price"] * line["quantity"] for line in lines), Decimal(0))
        row = {"id": id, "customer": customer["id"], "status": "new", "total": total, "placed": self._now()}
        row |= {"day": date(1970, 1, 1) + timedelta(days=self.random.randrange(-30_000, 40_000))}
        self._write("orders", row | {"note": self.random.choice([None, "", "gift", NOT_SENT[:-1]])})
        for line in lines:
            self._write("lines", line)
        return None

    def _line(self, order_id: int, number: int) -> Row:
        return {"order_id": order_id, "line": number, "item": self.random.choice(["tea", "jam", "Öl"]),
                "quantity": self.random.randrange(5), "price": abs(self._money(6))}  # fmt: skip

    def _pay(self) -> None:
        if (row := self._any("orders")) is not None:
            change = {"status": self.random.choice(["paid", "sent", None])}
            self._write("orders", row | change | self.random.choice([{}, {}, {"note": "call"}]))
            if (line := self.tables["lines"].get((row["id"], 0))) is not None and self.random.random() < 0.3:
                self._write("lines", line | {"quantity": self.random.choice([None, 7])})

    def _take_back(self) -> None:
        if (row := self._any("orders")) is None:
            return
        for number in range(5):
            if (row["id"], number) in self.tables["lines"]:
                self._delete("lines", (row["id"], number))
        self._delete("orders", (row["id"],))

    def _move(self) -> None:
        """Give a customer another primary key, and the newest of its orders the new reference."""
        if (row := self._any("customers")) is None:
            return
        id = self._new_id("customers")
        self._delete("customers", (row["id"],))
        self._write("customers", row | {"id": id})
        order = self._any("orders")
        if order is not None:
            self._write("orders", order | {"customer": id})

    def _leave(self) -> None:
        if self.random.random() < 0.3 and (row := self._any("customers")) is not None:
            self._delete("customers", (row["id"],))


CONNECT = "org.apache.kafka.connect.data."
CUSTOMER_FIELDS = [
    {"field": "id", "type": "int64"}, {"field": "name", "type": "string"},
    {"field": "credit", "type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": "2"}},
    {"field": "since", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    {"field": "active", "type": "boolean"},
]  # fmt: skip
AFTER = {"type": "struct", "field": "after", "fields": CUSTOMER_FIELDS}
CUSTOMER_SCHEMA = {"type": "struct", "fields": [AFTER | {"field": "before"}, AFTER]}
KEY_SCHEMA = {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}


class Connector:
    """Writes the log to topics of three partitions, one a table: at least once, in each partition in its order."""

    def __init__(self, database: Database, random: Random) -> None:
        self.database, self.random = database, random
        self.sent: list[tuple[str, bytes, bytes | None, int]] = []
        self._position = 0
        self.database.snapshot = self.database.last_commit

    def read_rows(self, row_count: int | None = None) -> None:
        """Send rows as they are, as a snapshot does: all of them; or some, between changes, when all were sent."""
        if row_count is not None:
            self.catch_up()
        snapshot = "true" if row_count is None else "incremental"
        for table, rows in self.database.tables.items():
            keys = list(rows)
            if row_count is not None:
                keys = self.random.sample(keys, min(row_count, len(keys)))
            for key in keys:
                lsn = self.database.last_commit
                row = _Change(table, "r", key, rows[key], self.database.transaction, self.database.ms, lsn)
                self._send(row, snapshot)

    def catch_up(self) -> None:
        for change in self.database.log[self._position :]:
            self._send(change)
        self._position = len(self.database.log)

    def restart(self) -> None:
        """Begin again at the last position that was stored, some changes ago."""
        self._position = max(self._position - self.random.randrange(1, 40), 0)
        self.catch_up()

    def _send(self, change: _Change, snapshot: str = "false") -> None:
        names = KEYS[change.table]
        key: Any = dict(zip(names, change.key, strict=True))
        source = {
            "connector": "postgresql", "ts_ms": change.ms, "db": "shop", "table": change.table,
            "txId": change.transaction, "lsn": change.lsn, "snapshot": snapshot, "name": "shop",
            "sequence": json.dumps([self._commit_before(change), str(change.lsn)]),
        }  # fmt: skip
        after = None if change.row is None else {name: _written(change.table, v) for name, v in change.row.items()}
        if after is not None and change.unsent:
            after[change.unsent] = NOT_SENT
        value: Any = {"before": key if after is None else None, "after": after, "source": source,
                      "op": change.operation, "ts_ms": change.ms + 5, "transaction": None}  # fmt: skip
        if change.table == "customers":
            key, value = {"schema": KEY_SCHEMA, "payload": key}, {"schema": CUSTOMER_SCHEMA, "payload": value}
        key_bytes = json.dumps(key).encode()
        self.sent.append((change.table, key_bytes, json.dumps(value).encode(), change.ms + 7))
        if change.operation == "d" and change.table != "lines":  # tombstones.on.delete=false for the lines
            self.sent.append((change.table, key_bytes, None, change.ms + 7))

    def _commit_before(self, change: _Change) -> str | None:
        """Return the last commit that the connector has seen before a change: none until the first one."""
        is_known = change.before is not None and change.before > self.database.snapshot
        return str(change.before) if is_known else None

    def records(self, ticks: int) -> list[Record]:
        """Return all that was sent, in ticks from 1 on."""
        ends = sorted(self.random.sample(range(1, len(self.sent)), ticks - 1))
        offsets: dict[tuple[str, int], int] = {}
        records = []
        for number, (table, key, value, ms) in enumerate(self.sent):
            partition = zlib.crc32(key) % 3
            offset = offsets[table, partition] = offsets.get((table, partition), -1) + 1
            place = (f"shop.{table}", table, partition, offset)
            records.append(Record(*place, ms, key, value, bisect_right(ends, number) + 1, ms))
        return records


def _written(table: str, value: Any) -> Any:
    """Return a value as the connector of a table writes it."""
    match value:
        case Decimal() if table == "lines":  # decimal.handling.mode=string
            return str(value)
        case Decimal():
            unscaled = int(value.scaleb(2))
            return base64.b64encode(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)).decode()
        case datetime():
            return (value - EPOCH) // timedelta(microseconds=1)
        case date():
            return (value - EPOCH.date()).days
    return value


def history(
    seed: int, changes: int, ticks: int, *, sends_large: bool = True
) -> tuple[dict[str, dict[Key, Row]], list[Record]]:
    """Return a database's tables after this many changes, and the records of its change log, in ticks from 1 on."""
    connector = connect(seed, changes, sends_large=sends_large)
    return connector.database.tables, connector.records(ticks)


def connect(seed: int, changes: int, *, sends_large: bool = True) -> Connector:
    """Return a connector that has sent the changes of a database."""
    random = Random(seed)
    database = Database(random, sends_large)
    while len(database.log) < changes // 10:
        database.commit_one()
    connector = Connector(database, random)
    connector._position = len(database.log)  # rows from before the connector come by its snapshot
    connector.read_rows()
    steps: list[tuple[float, Callable[[], None]]] = [
        (0.5, connector.catch_up), (0.005, connector.restart), (0.002, lambda: connector.read_rows(20))
    ]  # fmt: skip
    while len(database.log) < changes:
        database.commit_one()
        for chance, step in steps:
            if random.random() < chance:
                step()
    connector.restart()
    return connector


def fold(records: Iterable[Record]) -> dict[str, dict[str, Row]]:
    """Return the rows that records make, a dict a table, as the connector writes them: the newest wins."""
    tables: dict[str, dict[str, Row]] = {name: {} for name in KEYS}
    for record in records:
        assert record.key is not None
        key, value = (None if data is None else json.loads(data) for data in (record.key, record.value))
        key_text = json.dumps(key.get("payload", key))
        event = None if value is None else value.get("payload", value)
        rows = tables[record.topic.removeprefix("shop.")]
        if event is None or event["op"] == "d":
            rows.pop(key_text, None)
        else:
            unsent = {name: rows.get(key_text, {}).get(name) for name, v in event["after"].items() if v == NOT_SENT}
            rows[key_text] = event["after"] | unsent
    return tables


def written(tables: dict[str, dict[Key, Row]]) -> dict[str, dict[str, Row]]:
    """Return a database's tables in the form that `fold` gives."""
    return {
        table: {
            json.dumps(dict(zip(KEYS[table], key, strict=True))): {
                name: _written(table, item) for name, item in row.items()
            }
            for key, row in rows.items()
        }
        for table, rows in tables.items()
    }


def columns(tables: dict[str, dict[Key, Row]]) -> dict[str, dict[Key, Row]]:
    """Return a database's tables as lakehouse shows them: by key, the other columns in each row."""
    return {
        table: {key: {name: v for name, v in row.items() if name not in KEYS[table]} for key, row in rows.items()}
        for table, rows in tables.items()
    }
