"""A random world: topics with records of every kind, an application over them, and what may happen to it.

Everything is drawn from one seed, but for the moments at which a process has come so far.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import psutil
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from lakehouse.kafka.embedded.broker import Broker
from lakehouse.registry.embedded import EmbeddedRegistry
from tests.faults.worlds.application import Application
from tests.faults.worlds.oracle import FIXED
from tests.faults.worlds.reading import Place, Stored, bronze_records, commit_ticks, drain

START_MS = 1_700_000_000_000
CLOSING_MS = START_MS + 400 * 86_400_000
TOPICS = {"orders": 4, "clicks": 3, "users": 2, "payments": 2}  # with the most partitions that they have at first
CUSTOMERS = ("anna", "Zo\u00eb", "c/3", "\U0001f600", "", "with, comma")
COMMAND = (sys.executable, "-m", "lakehouse.cli.main")
MARK = "LAKEHOUSE_WORLD"  # in the environment of all processes of a world
Draw = Callable[[], tuple[str, bytes | None, bytes | None]]
FIXES = f"""
import dataclasses


def fix(record):
    return dataclasses.replace(record, value={json.dumps(FIXED).encode()!r})
"""
PAYMENT: dict[str, Any] = {
    "type": "record", "name": "Payment", "fields": [
        {"name": "amount", "type": "long"},
        {"name": "method", "type": {"type": "enum", "name": "Method", "symbols": ["CARD", "CASH"]}},
    ],
}  # fmt: skip
PAYMENT_WITH_TIP = {
    **PAYMENT, "fields": [{"name": "tip", "type": ["null", "long"], "default": None}, *PAYMENT["fields"]]
}  # fmt: skip


@dataclass
class World:
    """A folder with a broker, a lake and an application.

    story: what happened, for people. ledger: each record that was ever in a topic, by topic and place.
    writers: the schemas of the records in Avro, by their ids. gone_before: the places that Kafka had lost before the
    lake had its first tick: of those it never knew.
    """

    seed: int
    folder: Path
    story: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice, self.id, self.began = random.Random(self.seed), uuid.uuid4().hex, time.monotonic()
        self.broker = Broker(self.folder / "kafka")
        self.job: subprocess.Popen[bytes] | None = None
        self.sent, self.last_start = 0, 0.0
        self.fault_times: list[tuple[str, float]] = []
        self.ledger: dict[str, dict[Place, Stored]] = {name: {} for name in TOPICS}
        self.writers: dict[int, Any] = {}
        self.gone_before: set[Place] = set()
        self.registry: EmbeddedRegistry | None = None
        (self.folder / "tmp").mkdir(parents=True)

        orders, clicks = [self._order] * 6, [self._click] * 4
        self._kinds: tuple[Draw, ...] = (*orders, *clicks, self._user, self._payment)

    # -- set up --

    def open(self, *, published: int = 2, in_sql: bool | None = None) -> None:
        """Start the broker, make the topics and the application. published, in_sql: see Application; None: drawn."""
        self.broker.start()
        topics = [NewTopic(name, self.dice.randint(1, most)) for name, most in TOPICS.items()]
        topics += [NewTopic(name, 2) for name in ("totals-changes", "latest-changes")]
        admin = self._admin()  # as long as its answers are awaited
        for future in admin.create_topics(topics).values():
            future.result()
        drawn = self.dice.random() < 0.3, self.dice.random() < 0.5, self.dice.random() < 0.5
        self.application = Application(drawn[0] if in_sql is None else in_sql, drawn[1], drawn[2], published)
        self.tell(str(self.application))
        (self.folder / self.application.file).write_text(self.application.text)
        (self.folder / "fixes.py").write_text(FIXES)
        registry = ""
        if self.application.in_avro:
            self._start_registry()
            registry = f'[registry]\nurl = "{self._registry_url}"\n'
        (self.folder / "lakehouse.toml").write_text(
            f'[lake]\npath = "./lake"\n[kafka]\nbootstrap_servers = "{self.servers}"\n{registry}'
            '[run]\non_data_loss = "record"\n[spark]\nmemory = "1g"\nkeep = "1 second"\n'
        )

    def _start_registry(self) -> None:
        self.registry = EmbeddedRegistry(self.folder / "registry")
        self.registry.start()
        self._registry_url = self.registry.url

    @property
    def servers(self) -> str:
        return self.broker.bootstrap_servers

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def tell(self, text: str) -> None:
        self.story.append(f"{time.monotonic() - self.began:6.1f} s  {text}")

    # -- records --

    def send(self, count: int, *kinds: Draw) -> None:
        """Produce records of these kinds, or of all, some of them in a transaction that is aborted."""
        for aborted in (False, True) if self.dice.random() < 0.3 else (False,):
            options = {"transactional.id": f"world-{self.id}"} if aborted else {"enable.idempotence": True}
            producer = Producer({"bootstrap.servers": self.servers, "log_level": 0, "acks": "all", **options})
            if aborted:
                producer.init_transactions(30)
                producer.begin_transaction()
            for _ in range(5 if aborted else count):
                self.sent += 1
                draw = self.dice.choice(kinds or self._kinds)
                topic, key, value = draw()
                at = START_MS + self.dice.randrange(60_000)
                producer.produce(topic, value, key, timestamp=at)
            if aborted:
                producer.abort_transaction(30)
            assert producer.flush(60) == 0
        self.tell(f"sent {count} records")

    def _order(self) -> tuple[str, bytes | None, bytes | None]:
        key = f"o{self.dice.randrange(30)}".encode()
        if (chance := self.dice.random()) < 0.12:
            return "orders", key, None
        if chance < 0.2:
            bad = (b"no JSON", b"\xff\xfe\x00", b'{"amount": "many"}', b'{"amount": 1', b"[1]")
            return "orders", key, self.dice.choice(bad)
        customer = self.dice.choice((*CUSTOMERS, None))
        note = "x" * 100_000 if chance > 0.99 else self.dice.choice(("", "a note", "\u0000\u2028", None))
        amount = None if chance > 0.97 else self.dice.randrange(-1000, 1000)
        fields = {"customer": customer, "amount": amount, "note": note}
        ascii_only = self.dice.random() < 0.5
        return "orders", key, json.dumps(fields, ensure_ascii=ascii_only).encode()

    def _click(self) -> tuple[str, bytes | None, bytes | None]:
        key = None if self.dice.random() < 0.1 else f"u{self.dice.randrange(5)}".encode()
        chance = self.dice.random()
        value = None if chance < 0.05 else b"{" if chance < 0.1 else b'{"page": "home"}'
        return "clicks", key, value

    def _user(self) -> tuple[str, bytes | None, bytes | None]:
        city = self.dice.choice(("Lima", "Reykjav\u00edk", None))
        value = None if self.dice.random() < 0.2 else json.dumps({"city": city}).encode()
        return "users", f"u{self.dice.randrange(5)}".encode(), value

    def _payment(self) -> tuple[str, bytes | None, bytes | None]:
        key, chance = self.dice.choice(CUSTOMERS).encode(), self.dice.random()
        fields: dict[str, Any] = {"amount": self.dice.randrange(10**12), "method": self.dice.choice(("CARD", "CASH"))}
        if has_tip := self.dice.random() < 0.5:
            fields["tip"] = self.dice.choice((None, 3))
        if chance < 0.1:
            return "payments", key, None
        if chance < 0.2:
            return "payments", key, self.dice.choice((b"no value", b"", b"\x00\x00"))
        if self.registry is None:
            return "payments", key, json.dumps(fields).encode()
        schema = PAYMENT_WITH_TIP if has_tip else PAYMENT
        body = io.BytesIO()
        fastavro.schemaless_writer(body, schema, fields)
        end = -1 if chance < 0.25 else None  # cut off
        return "payments", key, b"\0" + self._schema_id(schema).to_bytes(4) + body.getvalue()[:end]

    def _schema_id(self, schema: dict[str, Any]) -> int:
        """Return the id of a schema; register it before its first record."""
        for number, known in self.writers.items():
            if known == schema:
                return number
        client = SchemaRegistryClient({"url": self._registry_url})
        number = int(client.register_schema("payments-value", Schema(json.dumps(schema), "AVRO")))
        self.writers[number] = schema
        return number

    def look(self) -> dict[str, set[Place]]:
        """Write down what is in the topics; return the places of these records by topic."""
        present = {}
        for topic, places in self.ledger.items():
            records = drain(self.servers, topic)
            places.update((record.place, record) for record in records)
            present[topic] = {record.place for record in records}
        return present

    def close_windows(self) -> None:
        """Produce a record of a later year to each partition of clicks: all windows before it close."""
        producer = Producer({"bootstrap.servers": self.servers, "log_level": 0, "acks": "all"})
        for partition in self._admin().list_topics("clicks", timeout=30).topics["clicks"].partitions:
            producer.produce("clicks", b'{"page": "last"}', b"u0", partition=partition, timestamp=CLOSING_MS)
        assert producer.flush(60) == 0
        self.tell("sent the records that close all windows")

    # -- the job --

    def environ(self) -> dict[str, str]:
        own = ("LAKEHOUSE_JARS",)
        environ = {name: text for name, text in os.environ.items() if name in own or not name.startswith("LAKEHOUSE_")}
        return {**environ, MARK: self.id, "TMPDIR": str(self.folder / "tmp")}

    def call(self, *arguments: str, timeout: int = 600) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self.environ(),
            capture_output=True,
            timeout=timeout,
            check=False,
        )

    def start_job(self, *options: str) -> None:
        log = (self.folder / "job.log").open("ab")
        self.job = subprocess.Popen(
            [*COMMAND, "run", self.application.file, *options],
            cwd=self.folder,
            env=self.environ(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self.last_start = time.monotonic()
        self.tell("started the job")

    def has_job(self) -> bool:
        return self.job is not None and self.job.poll() is None

    def await_end(self, seconds: float) -> int:
        """Wait for the job's end; return its exit code. Raises AssertionError if it does not come."""
        assert self.job is not None
        try:
            return self.job.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the job did not end within {seconds} s") from None

    def members(self) -> list[psutil.Process]:
        """The running processes of this world, without the broker."""
        result = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.id and process.status() != psutil.STATUS_ZOMBIE:
                    result.append(process)
            except (psutil.Error, OSError):
                continue
        return result

    # -- faults --

    def faults(self) -> dict[str, Callable[[], None]]:
        """Return what may happen in this world. A revert opens fixed records again, so it has reverts or fixes."""
        decision = {"revert": self._revert} if self.dice.random() < 0.5 else {"fix": self._fix}
        registry = {"stop the registry": self._stop_registry} if self.registry else {}
        return {
            "kill": self._kill_group, "terminate": self.terminate, "freeze": self._freeze,
            "kill Java": self._kill_java, "kill a worker": self._kill_worker, "kill the broker": self._kill_broker,
            "stop the broker": self._stop_broker, "add a partition": self._add_partition,
            "make a topic anew": self._remake_topic, "expire records": self._expire_records,
            "lose control": self._lose_control, "lose a checkpoint": self._lose_checkpoint,
            "compact by hand": self._compact, "start a second job": self._start_second, "backfill": self._backfill,
            "upkeep": self._upkeep, **decision, **registry,
        }  # fmt: skip

    def _kill_group(self) -> None:
        assert self.job is not None
        os.killpg(self.job.pid, signal.SIGKILL)
        self.job.wait()

    def terminate(self, codes: tuple[int, ...] = (0,)) -> None:
        """End the job by SIGTERM. codes: with which it may end."""
        assert self.job is not None
        began = time.monotonic()
        self.job.send_signal(signal.SIGTERM)
        code = self.await_end(60)
        self.tell(f"it ended with {code} after {time.monotonic() - began:.1f} s")
        assert code in codes, f"SIGTERM: exit code {code}"

    def _freeze(self) -> None:
        assert self.job is not None
        os.killpg(self.job.pid, signal.SIGSTOP)
        time.sleep(self.dice.uniform(1, 8))
        os.killpg(self.job.pid, signal.SIGCONT)

    def _java(self) -> list[psutil.Process]:
        return [process for process in self.members() if process.name() == "java"]

    def _kill_java(self) -> None:
        for process in self._java():
            process.kill()
        code = self.await_end(90)
        assert code == 1, f"without its Java the job ended with {code}"

    def _kill_worker(self) -> None:
        workers = [item for item in self.members() if any("pyspark.daemon" in part for part in item.cmdline())]
        if workers:
            self.dice.choice(workers).kill()

    def _kill_broker(self) -> None:
        process = self.broker.running.process()
        assert process is not None
        process.kill()
        time.sleep(self.dice.uniform(0.5, 6))
        self._restart_broker()

    def _stop_broker(self) -> None:
        self.broker.stop()
        time.sleep(self.dice.uniform(0.5, 12))
        self._restart_broker()

    def _restart_broker(self) -> None:
        self.broker = Broker(self.folder / "kafka")
        self.broker.start()

    def _add_partition(self) -> None:
        topic = self.dice.choice(("orders", "clicks"))
        admin = self._admin()
        count = len(admin.list_topics(topic, timeout=30).topics[topic].partitions)
        for future in admin.create_partitions([NewPartitions(topic, count + 1)]).values():
            future.result()

    def _stop_registry(self) -> None:
        assert self.registry is not None
        self.registry.stop()
        self.send(5, self._order, self._click)
        time.sleep(self.dice.uniform(0.5, 12))
        self._start_registry()

    def _remake_topic(self) -> None:
        """Delete a topic and make it again; what the job has not read of it is lost."""
        topic = self.dice.choice(("orders", "users", "payments"))
        self.tell(topic)
        self._lose(self.look()[topic])
        admin = self._admin()
        admin.delete_topics([topic])[topic].result()
        deadline = time.monotonic() + 30
        while topic in admin.list_topics(timeout=30).topics:
            assert time.monotonic() < deadline, f"topic {topic} is not deleted"
            time.sleep(0.2)
        time.sleep(self.dice.choice((0, self.dice.uniform(0, 8))))
        admin.create_topics([NewTopic(topic, self.dice.randint(1, TOPICS[topic]))])[topic].result()

    def _expire_records(self) -> None:
        """Remove the first records of a partition, as a topic's retention does."""
        topic, admin = self.dice.choice(tuple(TOPICS)), self._admin()
        present = self.look()[topic]
        partition = self.dice.choice(sorted(admin.list_topics(topic, timeout=30).topics[topic].partitions))
        places = sorted(place for place in present if place[1] == partition)
        place = TopicPartition(topic, partition, self.dice.randint(0, places[-1][2] + 1 if places else 0))
        self._lose(item for item in places if item[2] < place.offset)
        (future,) = admin.delete_records([place]).values()
        self.tell(f"{topic}/{partition} up to {place.offset}: {future.result().low_watermark}")

    def _lose(self, places: Iterable[Place]) -> None:
        """Note places of which Kafka is about to lose the records, if the lake has no tick yet."""
        if not any(bronze_records(path) for path in self.bronze_tables()):
            self.gone_before.update(places)

    def bronze_tables(self) -> list[Path]:
        """Return the tables of bronze that have records."""
        return [self.lake / "bronze/records", *self.lake.glob("bronze/own/*")]

    def _compact(self) -> None:
        """Write the files of some tables anew, as people do with tools of their own."""
        logs = sorted(self.lake.glob("silver/*/_delta_log"))
        for log in self.dice.sample(logs, min(len(logs), 3)):
            try:
                DeltaTable(str(log.parent)).optimize.compact()
            except CommitFailedError as error:  # the job was quicker
                self.tell(f"{log.parent.name}: {error}")

    def _lose_control(self) -> None:
        """Remove what may be lost, while no job runs: checkpoints, and the progress of publishing."""
        if self.has_job():
            self._kill_group()
        for name in ("checkpoints", "published"):
            shutil.rmtree(self.lake / "control" / name, ignore_errors=True)

    def _lose_checkpoint(self) -> None:
        """Remove what Delta makes from a log, of a table."""
        logs = sorted(self.lake.glob("*/*/_delta_log"))
        for log in self.dice.sample(logs, min(len(logs), 2)):
            for file in (*log.glob("_last_checkpoint"), *log.glob("*.crc"), *log.glob("*.checkpoint*")):
                file.unlink(missing_ok=True)

    # -- what people do meanwhile --

    def _start_second(self) -> None:
        """Start a second job: it is refused, unless the first one has not come so far; then that one is."""
        code = self._command("run", self.application.file, "--until", "caught-up")
        if code == 0 and self.job is not None:
            assert self.await_end(120) == 3, "two jobs ran at once"

    def _revert(self) -> None:
        table = self.dice.choice(("totals", "cities"))
        path = self.lake / "silver" / table
        ticks = [tick for _, tick in commit_ticks(path)] if path.is_dir() else []
        if ticks:
            tick = self.dice.choice(ticks)
            self.tell(f"{table} to tick {tick} of {ticks[-1]}")
            self._command("repair", "revert", table, *self._app, "--tick", str(tick), "--why", "a world")

    def _fix(self) -> None:
        """Fix all orders that are in the quarantine."""
        self._command("repair", "replay", "orders", *self._app, "--fix", "fixes.py:fix", "--again", "--why", "a world")

    def _backfill(self) -> None:
        table = self.dice.choice(("totals", "visits", "pairs"))
        if (self.lake / "silver" / table).is_dir():
            self._command("repair", "backfill", table, *self._app, "--why", "a world")

    def _upkeep(self) -> None:
        self._command("repair", "upkeep", *self._app)

    @property
    def _app(self) -> tuple[str, str]:
        return "--app", self.application.file

    def _command(self, *arguments: str) -> int:
        """Run a command beside the job; return its exit code. Raises AssertionError for one that it may not have."""
        done = self.call(*arguments)
        self.tell(f"{' '.join(arguments[:2])}: {done.returncode}")
        # A table that is written by another process, or that does not exist yet.
        assert done.returncode in (0, 2, 3), f"{arguments}: {done.returncode}\n{done.stderr.decode()[-3000:]}"
        assert b"Traceback" not in done.stderr, done.stderr.decode()[-3000:]
        return done.returncode

    # -- the end --

    def close(self) -> None:
        """End everything that runs in this world, and nothing else."""
        for process in self.members():
            process.kill()
        if self.job is not None:
            self.job.wait()
        self.broker.stop()
        if self.registry is not None:
            self.registry.stop()

    def facts(self) -> dict[str, Any]:
        return {"seed": self.seed, "records": self.sent, "seconds": round(time.monotonic() - self.began, 1)}
