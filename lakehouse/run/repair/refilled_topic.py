"""The topic that gets bronze's records back: created, or checked that it keeps them; and the progress in it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from lakehouse.errors import ConfigError
from lakehouse.kafka.topics import FOR_EVER, TO_COME, Cluster, TopicFacts
from lakehouse.lake import store
from lakehouse.lake.control import note
from lakehouse.lake.record.bronze_rows import BronzeRows
from lakehouse.semantics.epoch_time import moment_text

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
        return _partition_ends(cluster, self.name, self.partitions)

    def remember(self, path: str) -> None:
        """Note where our records begin: after an interruption a later run goes on from there."""
        note.write(path, {"topic_id": self.id, "begin": self.begin})


def open_target(
    cluster: Cluster, source: BronzeRows, name: str, partitions: int | None, append: bool, progress_path: str
) -> Target:
    """Return the topic to write to; it is created if it does not exist.

    partitions: of a new topic; None for as many as the source has. Raises ConfigError for a topic that has too few,
    that would not keep the records, or that holds records of the source itself; and for a source that has taken in what
    an interrupted run wrote.
    """
    needed_partitions = 1 + max(source.counts, default=0)
    if name not in cluster.names():
        topic_facts = _create_target(cluster, source, name, partitions, needed_partitions)
        return Target(
            name, topic_facts.id, dict.fromkeys(range(topic_facts.partitions), 0), True, _largest_batch(cluster, name)
        )
    topic_facts = cluster.topics([name])[name]
    if topic_facts.partitions < needed_partitions or partitions not in (None, topic_facts.partitions):
        raise ConfigError(
            f"topic {name!r} has {topic_facts.partitions} partitions; expected "
            f"{partitions or f'{needed_partitions} or more'}: a record keeps its partition. Name another topic; one "
            "that does not exist is created."
        )
    _check_config(name, cluster.config(name), source)
    begin = _begin_offsets(cluster, source, topic_facts, append, progress_path)
    return Target(name, topic_facts.id, begin, False, _largest_batch(cluster, name))


def _create_target(
    cluster: Cluster, source: BronzeRows, name: str, partitions: int | None, needed_partitions: int
) -> TopicFacts:
    topic_config = dict(FOR_EVER)
    if source.newest_ms is not None and source.newest_ms > time.time() * 1000:
        topic_config |= TO_COME
    source_partitions = source.partitions
    if source.topic in cluster.names():
        topic_facts = cluster.topics([source.topic])[source.topic]
        topic_config[LARGEST] = str(_largest_batch(cluster, source.topic))
        if topic_facts.id in source.ids:
            source_partitions = max(source_partitions, topic_facts.partitions)
    if partitions is not None and partitions < needed_partitions:
        raise ConfigError(
            f"{partitions} partitions: topic {source.topic!r} has records in partition {needed_partitions - 1}; "
            f"expected {needed_partitions} or more: a record keeps its partition."
        )
    cluster.create(name, partitions or source_partitions, topic_config)
    return cluster.topics([name])[name]


def _check_config(name: str, config: Mapping[str, str | None], source: BronzeRows) -> None:
    """Raise ConfigError for a topic whose settings would change or drop the records."""
    wrong_settings = []
    if "compact" in (config.get("cleanup.policy") or ""):
        wrong_settings.append("cleanup.policy")
    retention_ms = int(config.get("retention.ms") or -1)
    if source.oldest_ms is not None and 0 <= retention_ms < time.time() * 1000 - source.oldest_ms:
        wrong_settings.append("retention.ms")
    if int(config.get("retention.bytes") or -1) >= 0:
        wrong_settings.append("retention.bytes")
    if (config.get("message.timestamp.type") or "CreateTime") != "CreateTime":
        wrong_settings.append("message.timestamp.type")
    if wrong_settings:
        settings_text = ", ".join(f"{key}={config[key]}" for key in wrong_settings)
        oldest_text = "" if source.oldest_ms is None else f" (the oldest record is of {moment_text(source.oldest_ms)})"
        raise ConfigError(
            f"topic {name!r} has {settings_text}: it would not keep the records as they are{oldest_text}; expected "
            f"{', '.join(f'{key}={FOR_EVER[key]}' for key in wrong_settings)}. Set that, or name a topic that "
            "does not exist: it is created so."
        )


def _begin_offsets(
    cluster: Cluster, source: BronzeRows, facts: TopicFacts, append: bool, progress_path: str
) -> Mapping[int, int]:
    end_offsets = _partition_ends(cluster, facts.name, facts.partitions)
    if (begin_offsets := _read_remembered(progress_path, facts)) is not None:
        _check_not_taken_in(source, facts, begin_offsets)
        return begin_offsets
    if facts.id in source.ids and any(end_offset > first_offset for first_offset, end_offset in end_offsets.values()):
        raise ConfigError(
            f"topic {facts.name!r} is in Kafka, with records of its own; expected none there. Rehydrate into another "
            "topic: --to NAME."
        )
    return {
        partition: end_offset if append else first_offset
        for partition, (first_offset, end_offset) in end_offsets.items()
    }


def _check_not_taken_in(source: BronzeRows, facts: TopicFacts, begin_offsets: Mapping[int, int]) -> None:
    """Raise ConfigError if the chosen records have some that the interrupted run wrote: they'd be written again."""
    if any(
        part.topic_id == facts.id and part.last_offset >= begin_offsets.get(part.partition, 0) for part in source.parts
    ):
        raise ConfigError(
            f"topic {facts.name!r}: an interrupted rehydrate wrote records to it, and this lake has taken them in from "
            "there since; expected a choice without them, or they would be in the topic twice. Choose the records of "
            f"before: --tick N, with the last tick before that (`lakehouse past log bronze.{source.topic}`)."
        )


def _read_remembered(path: str, facts: TopicFacts) -> dict[int, int] | None:
    """Return the offsets where the records of an interrupted run begin; None without such a run for this topic."""
    if not store.file_exists(path):
        return None
    stored = note.read(path)
    if stored is None or not {"topic_id", "begin"} <= set(stored):
        raise ConfigError(
            f"{path} can't be read; expected where the records that are being written to topic {facts.name!r} begin. "
            "Delete the topic, then the file, and rehydrate again; or name another topic: --to NAME."
        )
    return {int(p): offset for p, offset in stored["begin"].items()} if stored["topic_id"] == facts.id else None


def _partition_ends(cluster: Cluster, name: str, partitions: int) -> dict[int, tuple[int, int]]:
    offsets_by_place = cluster.offsets((name, partition) for partition in range(partitions))
    return {partition: ends for (_, partition), ends in offsets_by_place.items()}


def _largest_batch(cluster: Cluster, name: str) -> int:
    return int(cluster.config(name).get(LARGEST) or 2**20)
