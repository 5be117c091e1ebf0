"""The topics of a Kafka cluster: ids, partitions and offsets, through one admin client that is reused."""

from __future__ import annotations

import difflib
import re
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from lakehouse.errors import KafkaUnavailable, LakehouseError, NotFound
from lakehouse.kafka.diagnosis import describe_refusal
from lakehouse.kafka.options import librdkafka_options, refused_options_error
from lakehouse.kafka.rights import Right, describe_missing_right

TIMEOUT_SECONDS = 15.0
# Not all that begins with __: Debezium has __debezium-heartbeat.NAME.
INTERNAL_TOPICS = {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
# Errors just after a topic was created or recreated, or a broker came back; they pass by themselves. (A wait begins
# only after a check that the topic exists.)
NOT_READY_YET = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError._NOENT,  # librdkafka's own "no leaders found"
        KafkaError._UNKNOWN_PARTITION,  # it remembers the earlier topic of this name, which had fewer partitions
    }
)  # fmt: skip
# For a topic whose event times may lie in the future: by default, Kafka 4 refuses records more than an hour ahead.
TO_COME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
# For a topic that keeps its records as they were written: all of them, however old they are, with their own times.
FOR_EVER = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
}
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class TopicFacts:
    """A topic as it is now. ``id`` distinguishes it from a deleted topic of the same name.

    replicas: of each partition, the fewest if they differ.
    """

    name: str
    id: str
    partitions: int
    replicas: int = 1


class Cluster:
    """One Kafka cluster. Every method raises KafkaUnavailable if the cluster does not answer, or refuses."""

    def __init__(
        self,
        bootstrap_servers: str,
        options: Mapping[str, str] | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._timeout, self._options = timeout_seconds, dict(options or {})
        self._reasons: deque[str] = deque(maxlen=20)
        admin_settings: dict[str, Any] = {
            **librdkafka_options(options or {}),
            "bootstrap.servers": bootstrap_servers,
            "log_level": 0,  # errors arrive as exceptions with a reason; lines on stderr would repeat them
            "error_cb": lambda error: self._reasons.append(error.str()),
        }
        try:
            self._admin = AdminClient(admin_settings)
        except KafkaException as error:
            raise refused_options_error(error) from None

    def topics(self, names: Sequence[str] | str) -> dict[str, TopicFacts]:
        """Return the facts of topics by name, for a list of names, or for a regular expression of whole names.

        Raises NotFound for a listed name that does not exist. A pattern that matches nothing gives {}; a pattern never
        matches Kafka's own topics.
        """
        if isinstance(names, str):
            pattern = re.compile(names)
            # One of them may be deleted between the two requests.
            return self.existing_topics(name for name in self.names() if pattern.fullmatch(name))
        return self._describe_topics(names, may_lack=False)

    def existing_topics(self, names: Iterable[str]) -> dict[str, TopicFacts]:
        """Return the facts of those of some topics that exist.

        Kafka's list of topics leaves out those that this user may not see. Here it is asked for each by its name, and
        says so: that raises KafkaUnavailable.
        """
        return self._describe_topics(list(names), may_lack=True)

    def _describe_topics(self, names: Sequence[str], *, may_lack: bool) -> dict[str, TopicFacts]:
        """Return the facts of topics by name. may_lack: leave out those that do not exist; else raise NotFound."""
        if not names:
            return {}
        futures_by_name = self._call(
            lambda: self._admin.describe_topics(TopicCollection(list(names)), request_timeout=self._timeout)
        )
        facts_by_name = {}
        for name in names:
            try:
                description = self._wait(futures_by_name[name])
            except KafkaException as error:
                if may_lack and _error_code(error) == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                raise self._translate(error, name) from None
            facts_by_name[name] = TopicFacts(
                name,
                _format_topic_id(description.topic_id),
                len(description.partitions),
                min((len(partition.replicas) for partition in description.partitions), default=0),
            )
        return facts_by_name

    def names(self) -> list[str]:
        """Return the names of all topics except Kafka's internal ones, sorted."""
        topic_listing = self._call(lambda: self._admin.list_topics(timeout=self._timeout))
        return sorted(name for name in topic_listing.topics if name not in INTERNAL_TOPICS)

    def offsets(
        self, partitions: Iterable[tuple[str, int]], *, committed: bool = True
    ) -> dict[tuple[str, int], tuple[int, int]]:
        """Return the (earliest, latest) offset of each (topic, partition).

        Latest is the end for a read_committed reader, before the first open transaction; if not committed, the end of
        all records. Raises NotFound.
        """
        return self._bounds(partitions, OffsetSpec.latest(), committed=committed)

    def offsets_at(self, partitions: Iterable[tuple[str, int]], time_ms: int) -> dict[tuple[str, int], int | None]:
        """Return for each (topic, partition) the offset of the first record whose timestamp is not before a time.

        None where all records are earlier. Raises NotFound.
        """
        bounds = self._bounds(partitions, OffsetSpec.for_timestamp(time_ms), committed=True)
        return {place: None if offset < 0 else offset for place, (_, offset) in bounds.items()}

    def _bounds(
        self, partitions: Iterable[tuple[str, int]], second: OffsetSpec, *, committed: bool
    ) -> dict[tuple[str, int], tuple[int, int]]:
        """Return the earliest offset of each (topic, partition), and a second one. Raises NotFound."""
        topic_partitions = [TopicPartition(topic, partition) for topic, partition in partitions]
        if not topic_partitions:
            return {}
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return self._offsets(topic_partitions, second, committed=committed)
            except KafkaException as error:
                self._require_partitions(topic_partitions)
                if _error_code(error) not in NOT_READY_YET or time.monotonic() > deadline:
                    raise self._translate(error) from None
                time.sleep(0.02)

    def _offsets(
        self, topic_partitions: list[TopicPartition], second: OffsetSpec, *, committed: bool
    ) -> dict[tuple[str, int], tuple[int, int]]:
        offset_specs: list[Any] = [OffsetSpec.earliest(), second]
        answers = [
            self._admin.list_offsets(
                dict.fromkeys(topic_partitions, offset_spec),
                isolation_level=IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED,
                request_timeout=self._timeout,
            )
            for offset_spec in offset_specs
        ]
        earliest, latest = (
            {topic_partition: self._wait(answer[topic_partition]).offset for topic_partition in topic_partitions}
            for answer in answers
        )
        return {
            (topic_partition.topic, topic_partition.partition): (earliest[topic_partition], latest[topic_partition])
            for topic_partition in topic_partitions
        }

    def _require_partitions(self, partitions: list[TopicPartition]) -> None:
        """Raise NotFound for the first partition that does not exist: Kafka's own answer does not name it."""
        topic_facts = self.topics(sorted({topic_partition.topic for topic_partition in partitions}))
        for topic_partition in partitions:
            if not 0 <= topic_partition.partition < topic_facts[topic_partition.topic].partitions:
                raise NotFound(
                    f"Found no partition {topic_partition.partition} of topic {topic_partition.topic!r} on "
                    f"{self.bootstrap_servers}; expected 0 to {topic_facts[topic_partition.topic].partitions - 1}."
                )

    def group_states(self) -> dict[str, str]:
        """Return the consumer groups that this user may see, with their states, such as STABLE or EMPTY."""
        listing = self._wait(self._call(lambda: self._admin.list_consumer_groups(request_timeout=self._timeout)))
        return {group.group_id: group.state.name for group in listing.valid}

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Return the offset of the next record that a group reads, by topic and partition, where it has kept one."""
        asked_groups = [ConsumerGroupTopicPartitions(group)]
        futures_by_group = self._call(
            lambda: self._admin.list_consumer_group_offsets(asked_groups, request_timeout=self._timeout)
        )
        try:
            kept_offsets = self._wait(futures_by_group[group]).topic_partitions or []
        except KafkaException as error:
            raise self._translate(error) from None
        return {(place.topic, place.partition): place.offset for place in kept_offsets if place.offset >= 0}

    def config(self, name: str) -> dict[str, str | None]:
        """Return the settings of a topic, such as ``cleanup.policy``. Raises NotFound."""
        topic_resource = ConfigResource(ResourceType.TOPIC, name)
        futures_by_resource = self._call(
            lambda: self._admin.describe_configs([topic_resource], request_timeout=self._timeout)
        )
        try:
            config_entries = self._wait(futures_by_resource[topic_resource])
        except KafkaException as error:
            raise self._translate(error, name, "DescribeConfigs") from None
        return {key: config_entry.value for key, config_entry in config_entries.items()}

    def create(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None, replicas: int = -1
    ) -> None:
        """Create a topic; ``replicas`` -1: the broker's default. Raises LakehouseError if it exists.

        Returns when the topic can be used, which is a little later than Kafka's own answer.
        """
        new_topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=dict(config or {}))
        self._request(
            lambda: self._admin.create_topics([new_topic], request_timeout=self._timeout)[name], name, "Create"
        )
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                self.offsets((name, partition) for partition in range(partitions))
                return
            except NotFound:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def delete(self, name: str) -> None:
        """Delete a topic with its records. Raises NotFound.

        Returns when Kafka does not show the topic any more, which is a little later than its own answer: a topic of
        this name that is created before would be taken for the deleted one, and vanish for a moment with it.
        """
        deleted_id = self.topics([name])[name].id
        self._request(lambda: self._admin.delete_topics([name], request_timeout=self._timeout)[name], name, "Delete")
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            if deleted_id not in (topic.id for topic in self.existing_topics([name]).values()):
                return
            time.sleep(0.02)

    def _request(self, request: Any, name: str, operation: str) -> None:
        try:
            self._wait(self._call(request))
        except KafkaException as error:
            raise self._translate(error, name, operation) from None

    def _call(self, request: Any) -> Any:
        """Make a request. An immediate failure means that no broker is there to answer."""
        try:
            return request()
        except KafkaException as error:
            raise self._translate(error) from None

    def _wait(self, future: Future[Answer]) -> Answer:
        try:
            return future.result(self._timeout + 1.0)
        except FutureTimeout:
            raise self._unavailable_error("no answer") from None

    def _translate(
        self, error: KafkaException, topic: str | None = None, operation: str = "Describe"
    ) -> LakehouseError:
        error_code = _error_code(error)
        if topic is not None and error_code is not None:
            right = Right(operation, "topic", topic)
            if (missing_right := describe_missing_right(error.args[0], self._options, right)) is not None:
                return KafkaUnavailable(missing_right)
        topic_label = f"topic {topic!r}"
        if topic is not None and error_code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            topic_names = self.names()
            close_names = difflib.get_close_matches(topic, topic_names, n=1)
            hint = (
                f"Did you mean {close_names[0]!r}?"
                if close_names
                else f"It has: {', '.join(topic_names[:10]) or 'no topics'}."
            )
            return NotFound(
                f"Found no {topic_label} on {self.bootstrap_servers}; expected it to exist. {hint} "
                "Create it, or correct the name."
            )
        if error_code == KafkaError.TOPIC_ALREADY_EXISTS:
            return LakehouseError(
                f"Found {topic_label} on {self.bootstrap_servers} already; expected none. Use it, or delete it first."
            )
        if (
            topic is not None
            and error_code is not None
            and error_code > 0
            and error_code != KafkaError.REQUEST_TIMED_OUT
        ):
            return KafkaUnavailable(
                f"Kafka on {self.bootstrap_servers} refused the request for {topic_label}: {error.args[0].str()}."
            )
        return self._unavailable_error(error.args[0].str() if error_code is not None else str(error))

    def _unavailable_error(self, reason: str) -> KafkaUnavailable:
        self._admin.poll(0)  # lets the client report its reason, if it has one
        # "0/2 brokers are down" follows each reason.
        telling_reasons = [reason_text for reason_text in self._reasons if not reason_text.endswith("brokers are down")]
        reason = next(reversed(telling_reasons or self._reasons), reason)
        advice = describe_refusal(self.bootstrap_servers, self._options, reason) or (
            "Check that it runs, that the address is right (kafka.bootstrap_servers), and its security settings "
            "(kafka.options)."
        )
        return KafkaUnavailable(
            f"Kafka on {self.bootstrap_servers} did not answer within {self._timeout:g} s: {reason}. Expected a broker "
            f"there. {advice}"
        )


def _error_code(error: KafkaException) -> int | None:
    kafka_error = error.args[0] if error.args else None
    return int(kafka_error.code()) if isinstance(kafka_error, KafkaError) else None


def _format_topic_id(topic_id: Any) -> str:
    """Return a topic's id as Kafka's own tools print it."""
    return str(topic_id).replace("+", "-").replace("/", "_")


def listed_topics(cluster: Cluster, names: Iterable[str]) -> dict[str, TopicFacts]:
    """Return the facts of those topics that are in Kafka's list, which has no topic that this user may not see."""
    all_names = set(cluster.names())
    return cluster.topics([name for name in names if name in all_names])


def create_for_times_to_come(cluster: Cluster, topic: str, partitions: int, config: dict[str, str]) -> None:
    """Create a topic that takes records with times ahead, such as a booking's. Raises as `Cluster.create` does."""
    try:
        cluster.create(topic, partitions, config | TO_COME)
    except KafkaUnavailable:
        cluster.create(topic, partitions, config)  # a Kafka before 3.6 does not know the setting
