"""A rehydrate that was interrupted or killed, or had a record refused, and is run again; on a real broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import lakehouse as lh
from lakehouse.errors import ConfigError, KafkaUnavailable
from lakehouse.kafka.ordered_producer import OrderedProducer
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.lake.layout import Layout
from lakehouse.run.lake import Lake
from lakehouse.run.repair import rehydrate as running
from lakehouse.semantics.record import Record

from ..written_bronze import write_bronze
from .rehydrated import T, arrived, check, expected, history


class Interrupted(Exception):
    pass


@pytest.fixture
def interrupted(monkeypatch) -> Callable[..., None]:
    """interrupted(lake, count, ...): a rehydrate that ends when `count` records have been sent."""

    def run(lake: Lake, count: int, *arguments: str, **more: Any) -> None:
        real = OrderedProducer.send
        left = count

        def send(self: OrderedProducer, placed: Any) -> None:
            nonlocal left
            some = list(placed)
            real(self, some[:left])
            left -= len(some)
            if left < 0:
                self.flush()
                raise Interrupted

        with monkeypatch.context() as patch:
            patch.setattr(running.OrderedProducer, "send", send)
            with pytest.raises(Interrupted):
                lake.rehydrate(*arguments, **more)

    return run


@pytest.mark.parametrize("count", [0, 1, 50, 119])
def test_an_interrupted_run_goes_on(bronze_of, interrupted, records, count: int) -> None:
    made = history("re-cut")
    lake = bronze_of(made)
    to = f"re-cut-{count}"
    interrupted(lake, count, "re-cut", to)
    assert len(records(to)) == count
    Path(Layout(lake.settings.lake.path).rehydrated(to)).unlink()  # control/ may be lost
    outcome = lake.rehydrate("re-cut", to)
    assert (outcome.records, outcome.written) == (120, 120 - count)
    check(records(to), made)


def test_an_interrupted_append_goes_on(bronze_of, interrupted, cluster, records, send) -> None:
    made = history("re-behind")
    lake = bronze_of(made)
    cluster.create("re-behind-2", partitions=4)
    send("re-behind-2", [(f"k{n}", "before", T) for n in range(20)])
    before = records("re-behind-2")
    interrupted(lake, 70, "re-behind", "re-behind-2", append=True)
    with pytest.raises(ConfigError, match=r"or remove .*re-behind-2\.json, which an interrupted run left"):
        lake.rehydrate("re-behind", "re-behind-2", append=True, from_tick=2)
    outcome = lake.rehydrate("re-behind", "re-behind-2", append=True)
    assert outcome.written == 50
    actual = records("re-behind-2")
    assert len(actual) == 140
    for partition in range(4):
        old = [m.value() for m in before if m.partition() == partition]
        of = [item for item in arrived(actual) if item[0] == partition]
        assert of[len(old) :] == expected(made, partition)
    assert lake.rehydrate("re-behind", "re-behind-2", append=True).written == 120  # a second append writes all again


def test_what_the_lake_took_in_from_an_interrupted_run_is_not_written_again(
    bronze_of, interrupted, cluster, records, tmp_path
) -> None:
    made = history("re-itself")
    lake = bronze_of(made)
    interrupted(lake, 50, "re-itself", "re-itself")
    topic_id = cluster.topics(["re-itself"])["re-itself"].id
    taken_in = [
        Record("re-itself", topic_id, m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value(), 4, T)
        for m in records("re-itself")
    ]
    write_bronze(tmp_path / "lake", taken_in)
    with pytest.raises(ConfigError, match="wrote records to it, and this lake has taken them in"):
        lake.rehydrate("re-itself", "re-itself")
    assert lake.rehydrate("re-itself", "re-itself", tick=3).written == 70
    check(records("re-itself"), made)
    with pytest.raises(ConfigError, match="is in Kafka, with records of its own"):
        lake.rehydrate("re-itself", "re-itself")


def test_a_topic_that_was_emptied_goes_on_under_its_own_id(bronze_of, interrupted, cluster, records) -> None:
    cluster.create("re-emptied", partitions=3)
    topic_id = cluster.topics(["re-emptied"])["re-emptied"].id
    made = [replace(record, topic_id=topic_id) for record in history("re-emptied")]
    lake = bronze_of(made)
    produce(
        cluster.bootstrap_servers,
        {},
        "re-emptied",
        [ProducerRecord(b"k", b"v", T, partition=n % 3) for n in range(120)],
    )
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.delete_records([TopicPartition("re-emptied", n, 40) for n in range(3)]).values():
        future.result(10)
    interrupted(lake, 50, "re-emptied", "re-emptied")
    assert lake.rehydrate("re-emptied", "re-emptied").written == 70
    check(records("re-emptied"), made)


def test_a_refused_record_stops_those_after_it(bronze_of, cluster, records) -> None:
    made = history("re-large", each=200)
    made[400] = replace(made[400], value=os.urandom(40_000))
    lake = bronze_of(made)
    cluster.create("re-large-2", 3, {"max.message.bytes": "20000"})
    with pytest.raises(KafkaUnavailable, match=r"Message size too large\. Those before it are in the topic"):
        lake.rehydrate("re-large", "re-large-2")
    for partition in range(3):
        actual = [item for item in arrived(records("re-large-2")) if item[0] == partition]
        assert actual == expected(made, partition)[: len(actual)]
    cluster.delete("re-large-2")
    cluster.create("re-large-2", 3)
    assert lake.rehydrate("re-large", "re-large-2").written == 600


def test_records_of_somebody_else_are_found(bronze_of, send) -> None:
    lake = bronze_of(history("re-two"))
    first = [True]

    def listen(done: int, total: int) -> None:
        if first:
            first.clear()
            send("re-two-2", [("k", "foreign", T)])

    with pytest.raises(KafkaUnavailable, match="Somebody else writes to it"):
        lake.rehydrate("re-two", "re-two-2", listen=listen)
    with pytest.raises(ConfigError, match="holds 41 records from offset 0 on which are not the first of the chosen"):
        lake.rehydrate("re-two", "re-two-2")


KILLED = """
import sys
from pathlib import Path
from lakehouse.settings.config import load
from lakehouse.run.lake import Lake
environ = {"LAKEHOUSE_LAKE_PATH": sys.argv[1], "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": sys.argv[2]}
lake = Lake(settings=load(environ=environ, start=Path(sys.argv[1])))
lake.rehydrate("re-kill", "re-kill-2", listen=lambda done, total: print(done, flush=True))
"""


@pytest.mark.slow
def test_killed_at_any_moment_and_run_again(bronze_of, broker, cluster, records) -> None:
    made = history("re-kill", ticks=10, each=20_000)
    lake = bronze_of(made)
    command = [sys.executable, "-c", KILLED, lake.settings.lake.path, broker.bootstrap_servers]
    environ = {**os.environ, "PYTHONPATH": str(Path(lh.__file__).parents[1])}
    reached = []
    for wanted in (1, 60_000, 130_000):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as child:
            assert child.stdout is not None
            for line in child.stdout:
                if int(line) >= wanted:
                    child.send_signal(signal.SIGKILL)
                    break
        assert child.returncode == -signal.SIGKILL
        ends = cluster.offsets(("re-kill-2", p) for p in range(3))
        reached.append(sum(end for _, end in ends.values()))
    assert 0 < reached[0] < reached[1] < reached[2] < 200_000
    assert lake.rehydrate("re-kill", "re-kill-2").records == 200_000
    check(records("re-kill-2"), made)
