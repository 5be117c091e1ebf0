"""A topic with several partitions, whose truncates are to be applied, is refused before Spark starts."""

from __future__ import annotations

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.run.start.topics import check_topics


def test_several_partitions_are_refused_at_the_start(lake, broker, cluster) -> None:
    cluster.create("cut-one")
    cluster.create("cut-two", 2)
    for topic, truncates in (("cut-one", "apply"), ("cut-two", "quarantine")):
        stream = lh.debezium(topic, key="id int", schema="n int", truncates=truncates)
        check_topics(lake().settings, lh.app(stream.latest("rows")), broker.bootstrap_servers)
    stream = lh.debezium("cut-two", key="id int", schema="n int", truncates="apply")
    with pytest.raises(PlanError, match=r"topic 'cut-two' has several partitions.*Expected one partition"):
        check_topics(lake().settings, lh.app(stream.latest("rows")), broker.bootstrap_servers)
    # Other readers have it in the quarantine, and any number of partitions.
    check_topics(lake().settings, lh.app(stream.filter("n > 1").latest("some")), broker.bootstrap_servers)
