"""Helpers of the tests of ingest and publishing: send records, read bronze's rows and a topic's records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Message

import lakehouse as lh
from lakehouse.kafka.drain import read_topic
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.semantics.record import Record

from ..conftest import settings_for
from ..written_bronze import write_bronze

if TYPE_CHECKING:
    from lakehouse.run.lake import Lake

Rows = list[dict[str, Any]]
INGEST = ("ingest",)
WAIT_SECONDS = 60.0


@pytest.fixture
def cluster(broker: Broker) -> Cluster:
    return Cluster(broker.bootstrap_servers)


@pytest.fixture
def send(broker: Broker) -> Callable[..., int]:
    """send(topic, records): each (key, value), with a timestamp in milliseconds and a partition if given."""

    def send(topic: str, records: Iterable[tuple[Any, ...]]) -> int:
        made = []
        for key, value, *rest in records:
            stamp, partition = (*rest, None, None)[:2]
            made.append(ProducerRecord(_bytes(key), _bytes(value), stamp, partition=partition))
        return produce(broker.bootstrap_servers, {}, topic, made)

    return send


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


@pytest.fixture
def latest() -> Callable[..., lh.App]:
    """latest(*topics): an application with a table for each topic: the latest word of each key."""

    def make(*topics: str, own_table: bool = False) -> lh.App:
        tables = [
            lh.stream(topic, key="k string", schema="word string", format="kafka", own_table=own_table).latest(
                topic.replace("-", "_")
            )
            for topic in topics
        ]
        return lh.app(*tables)

    return make


@pytest.fixture
def bronze() -> Callable[..., Rows]:
    """bronze(lake): all rows of its shared bronze table in position order; bronze(lake, topic): of a topic's own."""

    def read(lake: Lake, own: str | None = None) -> Rows:
        layout = Layout(lake.settings.lake.path)
        rows = reader.open_dataset(layout.records if own is None else layout.own_records(own)).to_table().to_pylist()
        return sorted(rows, key=lambda row: (row["tick"], row["topic"], row["partition"], row["offset"]))

    return read


@pytest.fixture
def bronze_of(broker: Broker, tmp_path: Path) -> Callable[..., Lake]:
    """bronze_of(records): a lake whose bronze has these records."""

    def make(records: list[Record], **more: Any) -> Lake:
        from lakehouse.run.lake import Lake

        write_bronze(tmp_path / "lake", records, **more)
        return Lake(settings=settings_for(tmp_path / "lake", broker.bootstrap_servers))

    return make


@pytest.fixture
def records(cluster: Cluster) -> Callable[[str], list[Message]]:
    """records(topic): its committed records, each partition in order."""
    return lambda topic: list(read_topic(cluster, {}, topic))


@pytest.fixture
def ingest() -> Callable[[Lake, lh.App], list[tuple[int, int]]]:
    """ingest(lake, app): run until caught up, and return the ticks: (tick, rows)."""

    def run(lake: Lake, app: lh.App) -> list[tuple[int, int]]:
        ticks: list[tuple[int, int]] = []
        lake.run(app, until="caught_up", parts=INGEST, listen=lambda event: ticks.append((event.tick, event.records)))
        return ticks

    return run


@pytest.fixture
def running() -> Callable[..., AbstractContextManager[Callable[[int], None]]]:
    """with running(lake, app) as wait: the job runs in a thread; wait(n) until its ticks have brought n records."""
    return _running


@contextmanager
def _running(
    lake: Lake, app: lh.App, parts: tuple[str, ...] = INGEST, kind: str = "tick"
) -> Iterator[Callable[[int], None]]:
    """Run in a thread; give a function that waits until events of a kind have brought a number of records."""
    stop, came, rows = threading.Event(), threading.Condition(), 0
    failure: list[BaseException] = []

    def listen(event: Any) -> None:
        nonlocal rows
        with came:
            rows += event.records if event.kind == kind else 0
            came.notify_all()

    def work() -> None:
        try:
            lake.run(app, stop=stop, parts=parts, listen=listen)
        except BaseException as error:
            failure.append(error)
            with came:
                came.notify_all()

    def wait(wanted: int) -> None:
        with came:
            assert came.wait_for(lambda: rows >= wanted or failure, WAIT_SECONDS), f"{rows} of {wanted} rows came"

    thread = threading.Thread(target=work, name="ingest-test")
    thread.start()
    try:
        yield wait
    finally:
        stop.set()
        thread.join(WAIT_SECONDS)
        if failure:
            raise failure[0]
