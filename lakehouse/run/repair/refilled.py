"""The topic that bronze is written back into: it is created, or checked that it keeps the records; and its progress."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lakehouse.durable import read_object, write_durably
from lakehouse.errors import ConfigError
from lakehouse.kafka.topics import TO_COME, Cluster, TopicFacts
from lakehouse.lake.record.bronze_rows import BronzeRows
from lakehouse.semantics.moment import written

# The records are old: Kafka must not drop them for that, nor give them its own time.
MADE = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
}
LARGEST = "max.message.bytes"


@dataclass(frozen=True, slots=True)
class Target:
    """A topic to write to. `begin`: the offset of our first record, by partition; `largest`: the largest batch."""

    name: str
    id: str
    begin: Mapping[int, int]
    created: bool
    largest: int

    @property
    def partitions(self) -> int:
        return len(self.begin)

    def ends(self, cluster: Cluster) -> dict[int, tuple[int, int]]:
        """Return the present first and next offset of each partition."""
        return _ends(cluster, self.name, self.partitions)

    def remember(self, file: Path) -> None:
        """Remember in a file where our records begin: after an interruption a later run goes on from there."""
        write_durably(file, json.dumps({"topic_id": self.id, "begin": self.begin}))


def target(
    cluster: Cluster, source: BronzeRows, name: str, partitions: int | None, append: bool, remembered: Path
) -> Target:
    """Return the topic to write to; it is created if it does not exist.

    partitions: of a new topic; None for as many as the source has. Raises ConfigError for a topic that has too few,
    that would not keep the records, or that holds records of the source itself.
    """
    needed = 1 + max(source.counts, default=0)
    if name not in cluster.names():
        facts = _make(cluster, source, name, partitions, needed)
        return Target(name, facts.id, dict.fromkeys(range(facts.partitions), 0), True, _largest(cluster, name))
    facts = cluster.topics([name])[name]
    if facts.partitions < needed or partitions not in (None, facts.partitions):
        raise ConfigError(
            f"topic {name!r} has {facts.partitions} partitions; expected {partitions or f'{needed} or more'}: a record "
            "keeps its partition. Name another topic; one that does not exist is created."
        )
    _check_config(name, cluster.config(name), source)
    begin = _begin(cluster, source, facts, append, remembered)
    return Target(name, facts.id, begin, False, _largest(cluster, name))


def _make(cluster: Cluster, source: BronzeRows, name: str, partitions: int | None, needed: int) -> TopicFacts:
    config = dict(MADE)
    if source.newest_ms is not None and source.newest_ms > time.time() * 1000:
        config |= TO_COME
    same = source.partitions
    if source.topic in cluster.names():
        facts = cluster.topics([source.topic])[source.topic]
        config[LARGEST] = str(_largest(cluster, source.topic))
        if facts.id in source.ids:
            same = max(same, facts.partitions)
    if partitions is not None and partitions < needed:
        raise ConfigError(
            f"{partitions} partitions: topic {source.topic!r} has records in partition {needed - 1}; expected {needed} "
            "or more: a record keeps its partition."
        )
    cluster.create(name, partitions or same, config)
    return cluster.topics([name])[name]


def _check_config(name: str, config: Mapping[str, str | None], source: BronzeRows) -> None:
    """Raise ConfigError for a topic whose settings would change or drop the records."""
    wrong = []
    if "compact" in (config.get("cleanup.policy") or ""):
        wrong.append("cleanup.policy")
    kept = int(config.get("retention.ms") or -1)
    if source.oldest_ms is not None and 0 <= kept < time.time() * 1000 - source.oldest_ms:
        wrong.append("retention.ms")
    if (config.get("message.timestamp.type") or "CreateTime") != "CreateTime":
        wrong.append("message.timestamp.type")
    if wrong:
        found = ", ".join(f"{key}={config[key]}" for key in wrong)
        oldest = "" if source.oldest_ms is None else f" (the oldest record is of {written(source.oldest_ms)})"
        raise ConfigError(
            f"topic {name!r} has {found}: it would not keep the records as they are{oldest}; expected "
            f"{', '.join(f'{key}={MADE[key]}' for key in wrong)}. Set that, or name a topic that does not exist: it is "
            "created so."
        )


def _begin(
    cluster: Cluster, source: BronzeRows, facts: TopicFacts, append: bool, remembered: Path
) -> Mapping[int, int]:
    ends = _ends(cluster, facts.name, facts.partitions)
    if (known := _remembered(remembered, facts)) is not None:
        return known
    if facts.id in source.ids and any(end > first for first, end in ends.values()):
        raise ConfigError(
            f"topic {facts.name!r} is in Kafka, with records of its own; expected none there. Rehydrate into another "
            "topic: --to NAME."
        )
    return {partition: end if append else first for partition, (first, end) in ends.items()}


def _remembered(file: Path, facts: TopicFacts) -> dict[int, int] | None:
    """The offsets where the records of an interrupted run begin; None if there was none for this topic."""
    if not file.is_file():
        return None
    said = read_object(file)
    if said is None or not {"topic_id", "begin"} <= set(said):
        raise ConfigError(
            f"{file} can't be read; expected where the records that are being written to topic {facts.name!r} begin. "
            "Delete the topic, then the file, and rehydrate again; or name another topic: --to NAME."
        )
    return {int(p): offset for p, offset in said["begin"].items()} if said["topic_id"] == facts.id else None


def _ends(cluster: Cluster, name: str, partitions: int) -> dict[int, tuple[int, int]]:
    found = cluster.offsets((name, partition) for partition in range(partitions))
    return {partition: ends for (_, partition), ends in found.items()}


def _largest(cluster: Cluster, name: str) -> int:
    return int(cluster.config(name).get(LARGEST) or 2**20)
