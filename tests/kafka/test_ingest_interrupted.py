"""What happens between two commits of ingest: an intervention that fails half way, a topic that is made again."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import lakehouse as lh
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.run.job.job import Job
from lakehouse.run.lake import Lake
from lakehouse.spark.bronze import interventions
from lakehouse.spark.bronze.ingest import Ingest
from lakehouse.spark.bronze.interventions import InterventionRequest, read_interventions
from lakehouse.spark.changelog.upstream import open_lake

T = 1_700_000_000_000


def ingest_of(lake: Lake, app: lh.App, broker: Broker) -> Ingest:
    return Job(lake.spark, lake.settings, app, broker.bootstrap_servers)._ingest()


def take_in(ingest: Ingest) -> None:
    query = ingest.start_query(available_now=True)
    query.awaitTermination()
    ingest.check_query(query)


@pytest.mark.rotated
def test_the_tick_of_an_intervention_that_failed_half_way_gets_no_records(
    lake: Any, cluster: Any, send: Any, latest: Any, bronze: Any, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has it, and bronze's own commit fails; the batch that had waited for it then goes on."""
    cluster.create("half-decided")
    send("half-decided", [("a", "one", T)])
    one, app = lake(), latest("half-decided")

    def fail(*_: object) -> None:
        raise OSError("the store did not answer")

    with ingest_of(one, app, broker) as ingest:
        take_in(ingest)
        send("half-decided", [("a", "two", T + 1)])
        request = InterventionRequest("refold", ("half_decided",), {"first_ms": 0, "last_ms": 1})
        with monkeypatch.context() as patched:
            patched.setattr(interventions, "_append_tick", fail)
            with pytest.raises(OSError, match="the store did not answer"):
                ingest.record_intervention(request)
        take_in(ingest)
        assert ingest.tick == 3
    decided = read_interventions(open_lake(one.spark, ingest._layout), "half_decided")
    assert [intervention.at for intervention in decided] == [2]
    assert [(row["tick"], row["value"]) for row in bronze(one)] == [(1, b"one"), (3, b"two")]


@pytest.mark.rotated
def test_all_records_of_a_topic_that_was_made_again_before_its_first_tick_are_taken_in(
    lake: Any, cluster: Any, send: Any, latest: Any, bronze: Any, broker: Broker
) -> None:
    """Its earlier records had expired, so the deleted topic's next offset was 5; those of the new topic begin at 0."""
    cluster.create("again-later")
    send("again-later", [("k", str(number), T) for number in range(5)])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_records([TopicPartition("again-later", 0, 5)]).values():
        future.result(10)
    one, app = lake(), latest("again-later")
    with ingest_of(one, app, broker) as ingest:
        cluster.delete("again-later")
        cluster.create("again-later")
        send("again-later", [("k", str(number), T + number) for number in range(8)])
        take_in(ingest)
    assert [(row["offset"], row["value"]) for row in bronze(one)] == [(n, str(n).encode()) for n in range(8)]
