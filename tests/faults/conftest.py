"""Child processes that are killed, and what must be there afterwards, folded in plain Python."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.formats.decode import decode_record
from lakehouse.kafka.drain import read_topic
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.lake.layout import Layout
from lakehouse.model import model
from lakehouse.run.scenario.replay import rows_of
from lakehouse.run.sql import records

from ..seeds import draw

if TYPE_CHECKING:
    from lakehouse.run.lake import Lake

DRIVER = Path(__file__).with_name("driver.py")
T = 1_700_000_000_000


@pytest.fixture(scope="session")
def driver() -> ModuleType:
    spec = importlib.util.spec_from_file_location("faults_driver", DRIVER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class World:
    """The two topics, the records produced into them, and the child processes."""

    def __init__(self, broker: Broker, folder: Path, driver: ModuleType) -> None:
        self.servers, self.folder, self.driver = broker.bootstrap_servers, folder, driver
        self.cluster = Cluster(self.servers)
        self._random, self._sent = random.Random(draw()), 0
        for topic in (driver.ORDERS, driver.OWN, driver.CHANGELOG, driver.SUMS):
            if topic in self.cluster.names():
                self.cluster.delete(topic)
        self.cluster.create(driver.ORDERS, partitions=3)
        self.cluster.create(driver.OWN, partitions=2)

    def send(self, count: int, pace_ms: int = 0) -> None:
        """Produce `count` records to each topic, of any time within a second; one in eight is a tombstone.

        pace_ms: by how much the second moves on with each record.
        """
        orders, own = [], []
        for _ in range(count):
            self._sent += 1
            n, other = self._random.randrange(1000), self._random.randrange(1000)
            times = [T + of + self._sent * pace_ms for of in (n, other)]
            value = json.dumps({"customer": f"c{n % 5}", "amount": n}).encode()
            orders.append(ProducerRecord(f"o{n % 40}".encode(), None if n % 8 == 0 else value, times[0]))
            number = struct.pack(">q", other)
            own.append(ProducerRecord(f"o{other % 40}".encode(), None if other % 8 == 1 else number, times[1]))
        produce(self.servers, {}, self.driver.ORDERS, orders)
        produce(self.servers, {}, self.driver.OWN, own)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(DRIVER), str(self.folder), self.servers, *arguments]
        log = (self.folder.parent / "driver.log").open("a")
        root = str(DRIVER.parents[2])
        environ = {**os.environ, "PYTHONPATH": root}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environ)

    def log(self) -> str:
        return (self.folder.parent / "driver.log").read_text()[-3000:]

    def check(self, lake: Lake) -> None:
        """Compare every table and the changelog with what was produced, drained here and folded in plain Python."""
        app = self.driver.application()
        orders = list(read_topic(self.cluster, {}, self.driver.ORDERS))
        by_id: dict[str, tuple[str, int]] = {}
        totals: dict[str, tuple[int, int]] = {}
        for message in orders:
            key, value = message.key().decode(), message.value()
            by_id.pop(key, None)
            if value is not None:
                data = json.loads(value)
                by_id[key] = (data["customer"], data["amount"])
                n, amount = totals.get(data["customer"], (0, 0))
                totals[data["customer"]] = (n + 1, amount + data["amount"])
        own: dict[str, int] = {}
        for message in read_topic(self.cluster, {}, self.driver.OWN):
            own.pop(message.key().decode(), None)
            if message.value() is not None:
                own[message.key().decode()] = struct.unpack(">q", message.value())[0]
        assert self._rows(lake, app, "totals") == sorted((k, *v) for k, v in totals.items())
        assert self._rows(lake, app, "by_id") == sorted((k, *v) for k, v in by_id.items())
        assert self._rows(lake, app, "own") == sorted(own.items())
        self._check_changelog(orders)

    def check_chain(self, lake: Lake) -> None:
        """The same for tables of tables: pairs of records, the rows of both topics, sums of them, and the changes."""
        app = self.driver.chain()
        held: dict[str, dict[str, Any]] = {self.driver.ORDERS: {}, self.driver.OWN: {}}
        counts: dict[str, dict[str, int]] = {self.driver.ORDERS: {}, self.driver.OWN: {}}
        for topic, rows in held.items():
            for message in read_topic(self.cluster, {}, topic):
                key, value = message.key().decode(), message.value()
                rows.pop(key, None)
                if value is not None:
                    rows[key] = json.loads(value) if topic == self.driver.ORDERS else struct.unpack(">q", value)[0]
                    counts[topic][key] = counts[topic].get(key, 0) + 1
        orders, own = held.values()
        met = {key: n * counts[self.driver.OWN].get(key, 0) for key, n in counts[self.driver.ORDERS].items()}
        assert self._rows(lake, app, "pairs") == sorted((key, n) for key, n in met.items() if n)
        nothing = {"customer": None, "amount": None}
        both = {(key, *orders.get(key, nothing).values(), own.get(key)) for key in {*orders, *own}}
        assert {tuple(row) for row in lake.read(app.table("both")).collect()} == both
        sums: dict[str, tuple[int, int, list[str]]] = {}
        for key, row in orders.items():
            n, total, names = sums.get(row["customer"], (0, 0, []))
            sums[row["customer"]] = (n + 1, total + own.get(key, 0), sorted([*names, key]))
        result = [(row[0], row[1], row[2] or 0, sorted(row[3])) for row in self._rows(lake, app, "sums") if row[1]]
        assert result == sorted((customer, *of) for customer, of in sums.items())
        last: dict[str, int] = {}
        seen: list[str] = []
        for message in read_topic(self.cluster, {}, self.driver.SUMS):
            seen.append(dict(message.headers() or [])["lakehouse.position"])
            last[message.key().decode()] = json.loads(message.value())["n"]
        assert len(seen) == len(set(seen)), "a change came twice"
        assert {key: n for key, n in last.items() if n} == {key: of[0] for key, of in sums.items()}
        for name in ("both", "sums"):
            assert lake.audit(app, app.table(name)).problems == [], name

    def check_joins(self, lake: Lake) -> None:
        """Compare each table, and the changelog as a whole, with the model's run over bronze: one without kills."""
        app, layout = self.driver.joins(), Layout(str(self.folder))
        expected = model.run(
            app, records.read_all_records(app.sources, layout, records.last_tick(layout, app.sources)), decode_record
        )
        for table in app.tables:
            result = rows_of(table, lake.read(table).toArrow().to_pylist(maps_as_pydicts="strict"))
            assert result == expected.tables[table.name], table.name
        assert any(row["n"] > row["met"] > 0 for row in expected.tables["pairs"].values())
        changes: dict[str, list[Any]] = {}
        for change in expected.topics[self.driver.SUMS]:
            changes.setdefault(change.key[0], []).append(change.value)
        published: dict[str, list[Any]] = {}
        for message in read_topic(self.cluster, {}, self.driver.SUMS):
            published.setdefault(message.key().decode(), []).append(json.loads(message.value()))
        assert published == changes

    def _rows(self, lake: Lake, app: Any, table: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in lake.read(app.table(table)).collect())

    def _check_changelog(self, orders: list[Any]) -> None:
        """Each order with a value is one change, at its position; a customer's changes add up one by one."""
        values = {(m.partition(), m.offset()): json.loads(m.value()) for m in orders if m.value() is not None}
        seen: list[tuple[int, int]] = []
        totals: dict[str, tuple[int, int]] = {}
        for message in read_topic(self.cluster, {}, self.driver.CHANGELOG):
            position = json.loads(dict(message.headers() or [])["lakehouse.position"])
            place = (position[3], position[4])
            seen.append(place)
            customer = message.key().decode()
            n, amount = totals.get(customer, (0, 0))
            totals[customer] = (n + 1, amount + values[place]["amount"])
            assert json.loads(message.value()) == dict(zip(("n", "amount"), totals[customer], strict=True))
        assert sorted(seen) == sorted(values)


@pytest.fixture
def world(broker: Broker, tmp_path: Path, driver: ModuleType) -> Iterator[World]:
    folder = tmp_path / "lake"
    folder.mkdir()
    return World(broker, folder, driver)


@pytest.fixture
def killed(world: World) -> Callable[..., None]:
    """killed(point): run a child that ends itself at the point, and see that it did."""

    def run(*arguments: str) -> None:
        point, child = arguments[0], world.start(*arguments)
        assert child.wait(900) == -9, f"{point}: the child was not killed there\n{world.log()}"

    return run
