"""`lakehouse kafka topics` and `lakehouse kafka groups`: what a Kafka has, and who reads it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, settings_of
from lakehouse.errors import NotFound
from lakehouse.run.start.kafka import open_kafka

if TYPE_CHECKING:
    from lakehouse.kafka.topics import Cluster

TOPIC_COLUMNS = ("topic", "partitions", "replicas", "offsets")
GROUP_COLUMNS = ("group", "state", "topic", "lag")


def topics(config: ConfigOption = None, lake: LakeOption = None, json: JsonOption = False) -> None:
    """List the topics: partitions, replicas, and the offsets between the first record and the end.

    There may be fewer records than offsets, where Kafka compacts a topic or a producer uses transactions.

    Example: lakehouse kafka topics
    """
    from lakehouse.kafka.topics import Cluster

    settings = settings_of(config, lake)
    with open_kafka(settings) as servers:
        rows = _topic_rows(Cluster(servers, settings.kafka.options))
    _show_rows(TOPIC_COLUMNS, rows, as_json=json, none=f"Kafka at {servers} has no topic.")


def groups(config: ConfigOption = None, lake: LakeOption = None, json: JsonOption = False) -> None:
    """List the consumer groups, and how many offsets each is behind the end of the topics that it reads.

    lakehouse has none: its progress is in the lake.

    Example: lakehouse kafka groups
    """
    from lakehouse.kafka.topics import Cluster

    settings = settings_of(config, lake)
    with open_kafka(settings) as servers:
        rows = _group_rows(Cluster(servers, settings.kafka.options))
    _show_rows(GROUP_COLUMNS, rows, as_json=json, none=f"Kafka at {servers} has no consumer group.")


def _topic_rows(cluster: Cluster) -> list[tuple[object, ...]]:
    facts_by_name = cluster.topics(".*")
    offsets = cluster.offsets(
        (name, number) for name, facts in facts_by_name.items() for number in range(facts.partitions)
    )
    counts: dict[str, int] = defaultdict(int)
    for (name, _), (first, end) in offsets.items():
        counts[name] += end - first
    return [(name, facts.partitions, facts.replicas, counts[name]) for name, facts in sorted(facts_by_name.items())]


def _group_rows(cluster: Cluster) -> list[tuple[object, ...]]:
    """Return a row for each group and topic. lag: None for a topic that is not there any more."""
    rows: list[tuple[object, ...]] = []
    for group, state in sorted(cluster.group_states().items()):
        kept_offsets = cluster.group_offsets(group)
        rows += [
            (group, state, topic, _count_lag(cluster, topic, kept_offsets))
            for topic in sorted({t for t, _ in kept_offsets})
        ]
        if not kept_offsets:
            rows.append((group, state, None, None))
    return rows


def _count_lag(cluster: Cluster, topic: str, kept_offsets: dict[tuple[str, int], int]) -> int | None:
    places = [place for place in kept_offsets if place[0] == topic]
    try:
        ends = cluster.offsets(places)
    except NotFound:
        return None
    return sum(max(0, end - kept_offsets[place]) for place, (_, end) in ends.items())


def _show_rows(columns: tuple[str, ...], rows: list[tuple[object, ...]], *, as_json: bool, none: str) -> None:
    if as_json:
        for row in rows:
            show.print_json(dict(zip(columns, row, strict=True)))
    elif rows:
        show.print_table("", columns, rows)
    else:
        show.say(none)
