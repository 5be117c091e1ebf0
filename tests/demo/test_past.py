"""Planes in the air at a moment, on real Kafka, Spark and Delta: every way to ask gives plain Python's answer.

The records of three days around the moment; some of those before it arrive only after the first question.
"""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from examples.year_of_flights import flights
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.semantics.moment import AtTick
from lakehouse.semantics.time.named_moment import moment_from_text

if TYPE_CHECKING:
    from lakehouse.kafka.embedded.broker import Broker

AT = "2013-07-04T18:00Z"
FIRST, MOMENT, LAST = (
    int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
    for text in ("2013-07-03T12:00", "2013-07-04T18:00", "2013-07-05T12:00")
)
SCHEMA = "carrier string, flight int, origin string, dest string, took_off_at timestamp, lands_at timestamp"


def in_the_air(records: list[flights.FlightRecord]) -> dict[str, tuple[str, int]]:
    """A take-off is a value, a landing a null; the last record of a plane counts."""
    planes: dict[str, tuple[str, int]] = {}
    for record in records:
        assert record.key is not None
        planes.pop(record.key.decode(), None)
        if record.value is not None:
            data = json.loads(record.value)
            planes[record.key.decode()] = (data["dest"], data["flight"])
    return planes


@pytest.mark.slow
def test_planes_in_the_air(broker: Broker, lake: Any) -> None:
    records = [r for r in flights.read_records("airborne") if FIRST <= r.timestamp_ms <= LAST and r.key is not None]
    before = [r for r in records if r.timestamp_ms <= MOMENT]
    # Late: every fifteenth take-off or landing of the last hours, none of a plane that has a later record by then.
    newest = {r.key: r for r in before}
    late = [r for n, r in enumerate(newest.values()) if r.timestamp_ms > MOMENT - 6 * 3_600_000 and n % 15 == 0]
    assert 5 < len(late) < len(before)
    known = [r for r in before if r not in late]
    later = [r for r in records if r.timestamp_ms > MOMENT]

    topic = f"airborne-{uuid.uuid4().hex[:8]}"
    stream = lh.stream(topic, key="tailnum string", schema=SCHEMA)
    table = stream.latest("airborne")
    app = lh.app(table, table.changes().to_topic(f"{topic}-changelog"))
    cluster = Cluster(broker.bootstrap_servers)
    for name in (topic, f"{topic}-changelog"):
        cluster.create(name, partitions=4, config={"retention.ms": "-1"})
    one = lake("flights")
    for part in (known, late, later):
        made = [ProducerRecord(r.key, r.value, r.timestamp_ms) for r in part]
        produce(broker.bootstrap_servers, {}, topic, made)
        one.run(app, until="caught_up")

    def planes(**moment: Any) -> dict[str, tuple[str, int]]:
        return {r["tailnum"]: (r["dest"], r["flight"]) for r in one.read(table, **moment).collect()}

    knew, truth = in_the_air(known), in_the_air(before)
    assert len(truth) > 50
    assert knew != truth
    assert planes(tick=1) == knew, "what we knew"
    assert planes(at=AT) == planes(tick=2) == truth, "the world then"
    assert planes() == in_the_air(records)

    proofs = one.prove(table, AtTick(2), topic=f"{topic}-changelog")
    assert [proof.origin for proof in proofs] == ["version", "bronze", "changelog"]
    assert [proof.refused for proof in proofs] == [None, None, None]
    assert {proof.content for proof in proofs} == {one.checkout(table, "in_the_air_then", moment_from_text(AT))}
    assert {r["tailnum"] for r in one.read(table, at=AT).collect()} == truth.keys()

    # Explain says why: the record that makes the difference came in tick 2.
    plane = next(
        r.key.decode() for r in late if r.key is not None and knew.get(r.key.decode()) != truth.get(r.key.decode())
    )
    (then,), (by_then,) = one.explain(table, plane, moment_from_text(AT)), one.explain(table, plane, AtTick(1))
    assert then.agrees
    assert by_then.agrees
    assert then.steps[-1].position.tick == 2
    assert [step.position for step in by_then.steps] == [step.position for step in then.steps][:-1]
