"""An application over a topic in Avro and one in JSON Schema, by the command: read with the registry, built without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

from lakehouse.kafka.embedded.broker import Broker
from lakehouse.registry.embedded import EmbeddedRegistry

APP = """
import lakehouse as lh

orders = lh.stream({topic!r}, key="id", format="avro", key_format="avro", name="orders")
clicks = lh.stream({topic!r} + "-clicks", key="page string", schema="user string", format="json_sr", validate=True,
                   name="clicks")
totals = orders.group_by("city").agg(n=lh.count(), total=lh.sum("amount")).table("totals")
app = lh.app(orders.latest("last_order"), totals, clicks.latest("last_click"))
"""
AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
ORDER = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [{"name": "city", "type": "string"}, {"name": "amount", "type": AMOUNT}],
}  # fmt: skip
WIDER = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
CLICK = {
    "$schema": "http://json-schema.org/draft-07/schema#", "title": "Click", "type": "object", "required": ["user"],
    "properties": {"user": {"type": "string"}, "ms": {"type": "integer"}},
}  # fmt: skip
AWAY = "http://127.0.0.1:9"
SECONDS = 900


class RegisteredProject:
    """A folder with an application over two topics, and settings that name a registry. settings: of the lake, Spark."""

    def __init__(self, folder: Path, broker: Broker, registry: EmbeddedRegistry, settings: str) -> None:
        self.folder, self.topic, self._url = folder, f"orders-{uuid.uuid4().hex[:8]}", registry.url
        (folder / "app.py").write_text(APP.format(topic=self.topic))
        (folder / "lakehouse.toml").write_text(
            f'{settings}\n[kafka]\nbootstrap_servers = "{broker.bootstrap_servers}"\n'
            f'[registry]\nurl = "{registry.url}"\ntimeout_seconds = 2\n'
        )

    def lose_registry(self) -> None:
        settings = (self.folder / "lakehouse.toml").read_text()
        (self.folder / "lakehouse.toml").write_text(settings.replace(self._url, AWAY))

    def run(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "lakehouse.cli.main", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, env=dict(os.environ), timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def produce(self) -> None:
        """Write orders in two schemas, and clicks of which one does not fit its schema."""
        for name, content in (("first", ORDER), ("wider", WIDER), ("key", "long"), ("click", CLICK)):
            (self.folder / f"{name}.avsc").write_text(json.dumps(content))
        orders = [{"key": n, "value": {"city": f"c{n % 3}", "amount": n + 0.25}} for n in range(60)]
        self._produce(self.topic, orders[:30], "avro", "--schema", "first.avsc", "--key-schema", "key.avsc")
        wider = [{**order, "value": {**order["value"], "note": "é"}} for order in orders[30:]]
        self._produce(self.topic, wider, "avro", "--schema", "wider.avsc", "--key-schema", "key.avsc")
        clicks = [{"key": f"p{n % 5}", "value": {"user": f"u{n}", "ms": n}} for n in range(20)]
        self._produce(f"{self.topic}-clicks", clicks, "json_sr", "--schema", "click.avsc")
        id = self.run("kafka", "consume", f"{self.topic}-clicks", "--limit", "1", "--json")
        assert json.loads(id)["value"]["user"] == "u0"
        self.run("schema", "pull", self.topic)

    def _produce(self, topic: str, lines: list[dict[str, object]], format: str, *schemas: str) -> None:
        (self.folder / "lines.jsonl").write_text("\n".join(map(json.dumps, lines)))
        self.run("kafka", "produce", topic, "lines.jsonl", "--partitions", "1", "--format", format, *schemas)

    def check_tables(self) -> None:
        totals = [json.loads(line) for line in self._query("SELECT * FROM totals ORDER BY city")]
        assert [(row["city"], row["n"], float(row["total"])) for row in totals] == [
            (f"c{rest}", 20, sum(n + 0.25 for n in range(rest, 60, 3))) for rest in range(3)
        ]
        notes = "SELECT count(*) AS n, count(note) AS notes FROM last_order"
        assert [json.loads(line) for line in self._query(notes)] == [{"n": 60, "notes": 30}]
        clicks = [json.loads(line) for line in self._query('SELECT page, "user" FROM last_click ORDER BY page')]
        assert clicks == [{"page": f"p{n}", "user": f"u{15 + n}"} for n in range(5)]

    def _query(self, sql: str) -> list[str]:
        return self.run("query", sql, "--json").splitlines()

    def check_whole_way(self) -> None:
        """Read by the registry, then build all of it again without the registry."""
        self.produce()
        self.run("run", "--until", "caught-up")
        self.check_tables()
        self.lose_registry()
        for table in ("totals", "last_click"):
            self.run("repair", "backfill", table, "--app", "app.py", "--why", "the registry is gone")
        self.check_tables()
