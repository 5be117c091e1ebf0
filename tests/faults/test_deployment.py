"""A deployment while records come and its commands are killed: no kill leaves rows of two declarations.

The commands are the real ones, killed by SIGKILL at drawn moments, until one ends by itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lakehouse.kafka.drain import read_topic
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from tests.seeds import draw

APP = """
import lakehouse as lh

orders = lh.stream("{topic}", name="orders", key="id string", schema="customer string, amount bigint")
priced = orders.select("customer", amount="amount * {factor}").latest("priced")
by_customer = priced.group_by("customer").agg(n=lh.count(), total=lh.sum("amount")).table("by_customer")
sizes = by_customer.group_by("n").agg(customers=lh.count(), total=lh.sum("total")).table("sizes")
app = lh.app(priced, by_customer, sizes, by_customer.changes().to_topic("{topic}-totals"))
"""
SETTINGS = '[lake]\npath = "./lake"\n[kafka]\nbootstrap_servers = "{servers}"\n[spark]\nkeep = "off"\n'
KILLS = 3


@dataclass
class Shop:
    """A topic, a lake, and the commands on it."""

    folder: Path
    servers: str
    dice: Random
    topic: str = field(default_factory=lambda: f"priced-{uuid.uuid4().hex[:8]}")
    sent: int = 0
    rows: dict[str, tuple[str, int]] = field(default_factory=dict)

    def send(self, count: int) -> None:
        records = []
        for _ in range(count):
            self.sent += 1
            key, customer, amount = f"o{self.dice.randrange(60)}", f"c{self.dice.randrange(7)}", self.dice.randrange(99)
            self.rows.pop(key, None)
            if self.dice.random() < 0.15:
                records.append(ProducerRecord(key.encode(), None, 1_700_000_000_000 + self.sent))
                continue
            self.rows[key] = customer, amount
            value = json.dumps({"customer": customer, "amount": amount}).encode()
            records.append(ProducerRecord(key.encode(), value, 1_700_000_000_000 + self.sent))
        produce(self.servers, {}, self.topic, records)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "lakehouse.cli.main", *arguments]
        log = (self.folder / "log").open("a")
        # A session of its own: a kill takes Java along.
        return subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )

    def run(self, *arguments: str) -> str:
        process = self.start(*arguments)
        out, _ = process.communicate(timeout=600)
        assert process.returncode == 0, (arguments, out, (self.folder / "log").read_text()[-3000:])
        return out

    def run_through_kills(self, *arguments: str) -> str:
        """Run a command, killed at drawn moments at most KILLS times, with records that come meanwhile."""
        for _ in range(KILLS):
            process = self.start(*arguments)
            self.send(20)
            try:
                out, _ = process.communicate(timeout=self.dice.uniform(5, 40))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
            else:
                assert process.returncode == 0, (self.folder / "log").read_text()[-3000:]
                return out
        return self.run(*arguments)

    @contextmanager
    def job(self, app: str) -> Iterator[None]:
        process = self.start("run", "--app", app)
        try:
            yield
        finally:
            process.terminate()
            process.communicate(timeout=120)

    def ask(self, sql: str, *options: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run("query", sql, "--json", *options).splitlines()]

    def totals(self, factor: int) -> dict[str, tuple[int, int]]:
        result: dict[str, tuple[int, int]] = {}
        for customer, amount in self.rows.values():
            n, total = result.get(customer, (0, 0))
            result[customer] = (n + 1, total + amount * factor)
        return result

    def check(self, factor: int) -> None:
        priced = {row["id"]: (row["customer"], row["amount"]) for row in self.ask("SELECT * FROM priced")}
        assert priced == {key: (customer, amount * factor) for key, (customer, amount) in self.rows.items()}
        found = {row["customer"]: (row["n"], row["total"]) for row in self.ask("SELECT * FROM by_customer WHERE n > 0")}
        assert found == self.totals(factor)
        assert self.sums() == [sum(total for _, total in found.values())] * 3
        published: dict[str, tuple[int, int]] = {}
        for message in read_topic(Cluster(self.servers), {}, f"{self.topic}-totals"):
            published.pop(key := message.key().decode(), None)
            if message.value() is not None:
                value = json.loads(message.value())
                published[key] = value["n"], value["total"]
        assert {key: row for key, row in published.items() if row[0]} == found

    def sums(self, *options: str) -> list[int]:
        """The same sum from each of the three levels."""
        sql = " UNION ALL ".join(
            f"SELECT {number} AS level, coalesce(sum({column}), 0)::BIGINT AS s FROM {table}"
            for number, (table, column) in enumerate(
                (("priced", "amount"), ("by_customer", "total"), ("sizes", "total"))
            )
        )
        return [row["s"] for row in sorted(self.ask(sql, *options), key=lambda row: row["level"])]


@pytest.mark.slow
def test_a_deployment_survives_kills_while_records_come(broker: Broker, tmp_path: Path) -> None:
    shop = Shop(tmp_path, broker.bootstrap_servers, Random(draw()))
    Cluster(shop.servers).create(shop.topic, partitions=2)
    (tmp_path / "lakehouse.toml").write_text(SETTINGS.format(servers=shop.servers))
    for name, factor in (("old.py", 1), ("new.py", 10)):
        (tmp_path / name).write_text(APP.format(topic=shop.topic, factor=factor))
    shop.send(100)
    shop.run("run", "--app", "old.py", "--until", "caught-up")
    shop.check(1)
    with shop.job("old.py"):
        shop.run_through_kills("deploy", "stage", "--app", "new.py")
        time.sleep(5)
    assert len(set(shop.sums())) == 1, "the live tables are of one logic, whatever was killed beside them"
    shop.run("run", "--app", "old.py", "--until", "caught-up")
    shop.check(1)
    shop.run_through_kills("deploy", "promote", "--app", "new.py", "--why", "cents")
    log = [json.loads(line) for line in shop.run("look", "interventions", "--json").splitlines()]
    ticks = {item["at"] for item in log}
    assert {(item["at"], item["table"]) for item in log} == {
        (tick, table) for tick in ticks for table in ("priced", "by_customer", "sizes")
    }
    (tick,) = ticks
    before, after = shop.sums("--tick", str(tick - 1)), shop.sums("--tick", str(tick))
    assert len(set(before)) == len(set(after)) == 1, "at each tick the tables are of one logic"
    assert after[0] == 10 * before[0]
    with shop.job("new.py"):
        shop.send(40)
        time.sleep(10)
    shop.run("run", "--app", "new.py", "--until", "caught-up")
    shop.check(10)
    back = shop.run_through_kills("deploy", "back", "--app", "old.py")
    assert "all of these tables are as declared now" in back
    shop.run("run", "--app", "old.py", "--until", "caught-up")
    shop.check(1)
    for table in ("priced", "by_customer", "sizes"):
        assert json.loads(shop.run("test", "audit", table, "--app", "old.py", "--deep", "--json"))["problems"] == []
