"""A table of another application is read up to the tick that it has: what reads it waits, and nothing else does."""

from __future__ import annotations

import json
import random
import time
from contextlib import ExitStack
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import StorageError
from lakehouse.kafka.topics import Cluster
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.run.watch.event import JobEvent
from lakehouse.semantics.moment import AtTick
from tests.kafka.test_several_processes import SECONDS, Keeper, ended, table_ticks
from tests.seeds import draw

SILVER = ("silver",)


class Applications:
    """Two applications of one lake: the first keeps planes, the second joins flights with them."""

    def __init__(self, name: str, plane_columns: str = "model string") -> None:
        self.planes_topic, self.flights_topic = f"{name}-planes", f"{name}-flights"
        self.planes = lh.stream(self.planes_topic, key="plane string", schema=plane_columns).latest("planes")
        flights = lh.stream(self.flights_topic, key="flight string", schema="plane string")
        joined = flights.join(self.planes, on="plane", how="left")
        self.enriched = joined.latest("enriched")
        self.by_model = joined.group_by("model").agg(n=lh.count()).table("by_model")
        self.flown = flights.latest("flown")
        self.keeper = lh.app(self.planes)
        self.reader = lh.app(
            self.enriched, self.by_model, self.flown, self.flown.changes().to_topic(f"{name}-flown"),
            joined.to_topic(f"{name}-joined"), upstream=[self.planes],
        )  # fmt: skip


def values(messages: list[Any]) -> list[str]:
    return [message.value().decode() for message in messages]


@pytest.mark.slow
def test_what_reads_another_application_waits_for_it(lake, cluster, send, ingest, records) -> None:
    both = Applications("upstream")
    cluster.create(both.planes_topic)
    cluster.create(both.flights_topic)
    one = lake()
    layout = Layout(one.settings.lake.path)
    names = ("planes", "enriched", "by_model", "flown")

    def run(app: lh.App) -> list[JobEvent]:
        events: list[JobEvent] = []
        one.run(app, until="caught_up", parts=SILVER, listen=events.append)
        return events

    def send_tick(plane: str, flight: str) -> int:
        send(both.planes_topic, [("p", plane)])
        send(both.flights_topic, [(flight, '{"plane": "p"}')])
        return ingest(one, both.reader)[-1][0]

    first_tick = send_tick('{"model": "A"}', "f1")
    (waiting,) = [event for event in run(both.reader) if event.kind == "waiting"]
    assert waiting.tick == 0
    readers = ["enriched", "by_model", "upstream-joined"]
    assert waiting.details == {"upstream": "planes", "readers": readers, "is_kept": False}
    assert table_ticks(layout, names) == [-1, 0, 0, first_tick]
    assert (len(records("upstream-flown")), len(records("upstream-joined"))) == (1, 0)

    run(both.keeper)
    assert [event.kind for event in run(both.reader) if event.kind == "waiting"] == []
    assert table_ticks(layout, names) == [first_tick] * 4
    assert values(records("upstream-joined")) == ['{"plane":"p","model":"A"}']

    last_tick = send_tick('{"model": "B"}', "f2")
    (waiting,) = [event for event in run(both.reader) if event.kind == "waiting"]
    assert waiting.tick == first_tick
    assert table_ticks(layout, names) == [first_tick, first_tick, first_tick, last_tick]
    assert (len(records("upstream-flown")), len(records("upstream-joined"))) == (2, 1)

    run(both.keeper)
    run(both.reader)
    assert table_ticks(layout, names) == [last_tick] * 4
    assert {row.flight: row.model for row in one.read(both.enriched).collect()} == {"f1": "A", "f2": "B"}
    assert {row.model: row.n for row in one.read(both.by_model).collect()} == {"A": 1, "B": 1}
    assert len(records("upstream-joined")) == 2
    for table in both.reader.tables:
        assert one.audit(both.reader, table, deep=True).ok
    # Its own table can't be reverted while the one that it reads has ticks to take in, and nobody does that.
    send_tick('{"model": "C"}', "f3")
    with pytest.raises(StorageError, match=r"no process keeps it\. Run that application, and then this one"):
        one.revert(both.reader, both.enriched, AtTick(first_tick))
    run(both.keeper)
    run(both.reader)
    assert {row.flight: row.model for row in one.read(both.enriched).collect()} == {"f1": "A"}


PLANES_FILE = """
import lakehouse as lh

planes = lh.stream({topic!r}, key="plane string", schema="model string").latest("planes")
app = lh.app(planes)
"""
FLIGHTS_FILE = """
import lakehouse as lh
from planes_app import planes

flights = lh.stream({topic!r}, key="flight string", schema="plane string")
app = lh.app(flights.join(planes, on="plane", how="left").latest("enriched"), upstream=[planes])
"""


@pytest.mark.slow
def test_two_applications_in_processes_with_sigkills(broker, tmp_path, lake, send) -> None:
    """One ingests, one keeps planes, one joins flights with them. The two are killed, and started again."""
    seed = draw()
    print(f"seed {seed}")
    dice = random.Random(seed)
    planes_topic, flights_topic = f"planes-{seed}", f"flights-{seed}"
    cluster = Cluster(broker.bootstrap_servers)
    cluster.create(planes_topic)
    cluster.create(flights_topic, partitions=2)
    layout = Layout(str(tmp_path / "shared"))
    (tmp_path / "planes_app.py").write_text(PLANES_FILE.format(topic=planes_topic))
    (tmp_path / "flights_app.py").write_text(FLIGHTS_FILE.format(topic=flights_topic))
    (tmp_path / "lakehouse.toml").write_text(
        f"[lake]\npath = {json.dumps(layout.root)}\n"
        f"[kafka]\nbootstrap_servers = {json.dumps(broker.bootstrap_servers)}\n"
    )
    ingesting = Keeper(tmp_path, "--only", "ingest", app_file="flights_app.py")
    planes_keeper = Keeper(tmp_path, "--only", "silver", app_file="planes_app.py")
    flights_keeper = Keeper(tmp_path, "--only", "silver", app_file="flights_app.py")
    keepers = [ingesting, planes_keeper, flights_keeper]
    flight_count = 0

    def send_some() -> None:
        nonlocal flight_count
        send(planes_topic, [(f"p{dice.randrange(4)}", json.dumps({"model": f"m{dice.randrange(99)}"}))])
        numbers = range(flight_count, flight_count := flight_count + dice.randrange(1, 20))
        send(flights_topic, [(f"f{number}", json.dumps({"plane": f"p{dice.randrange(4)}"})) for number in numbers])

    def await_flights(seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert all(keeper.is_alive for keeper in keepers), [keeper.output.read_text() for keeper in keepers]
            has_table = "enriched" in reader.table_names(layout, "silver")
            if has_table and reader.open_dataset(layout.silver("enriched")).count_rows() == flight_count:
                return
            time.sleep(1)
        pytest.fail(f"{flight_count} flights are not there: {flights_keeper.output.read_text()}")

    with ExitStack() as stack:
        for keeper in keepers:
            stack.enter_context(ended(keeper)).start()
        for _ in range(4):
            send_some()
            time.sleep(dice.uniform(1, 8))
            victim = dice.choice(keepers[1:])
            victim.kill()
            victim.start()
        await_flights(SECONDS)
        planes_keeper.kill()
        keepers.remove(planes_keeper)
        send_some()
        deadline = time.monotonic() + SECONDS
        while "no process keeps the table: run its application" not in flights_keeper.output.read_text():
            assert time.monotonic() < deadline, flights_keeper.output.read_text()
            time.sleep(1)
        planes_tick, enriched_tick = table_ticks(layout, ("planes", "enriched"))
        assert enriched_tick <= planes_tick
        planes_keeper.start()
        keepers.append(planes_keeper)
        await_flights(SECONDS)
        for keeper in reversed(keepers):
            keeper.stop()
    planes = lh.stream(planes_topic, key="plane string", schema="model string").latest("planes")
    flights = lh.stream(flights_topic, key="flight string", schema="plane string")
    app = lh.app(flights.join(planes, on="plane", how="left").latest("enriched"), upstream=[planes])
    one = lake("shared")
    for some in (lh.app(planes), app):
        one.run(some, until="caught_up", parts=SILVER)
        assert all(one.audit(some, table, deep=True).ok for table in some.tables)
    assert one.read(app.table("enriched")).count() == flight_count
