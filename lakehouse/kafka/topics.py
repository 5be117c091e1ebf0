"""The topics of a Kafka: ids, partitions and offsets, over one admin client that is kept."""

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

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from lakehouse.errors import KafkaUnavailable, LakehouseError, NotFound
from lakehouse.kafka.options import for_librdkafka, refused

TIMEOUT_SECONDS = 15.0
# Just after a topic was created or recreated, or a broker came back; these pass by themselves. (Whether the topic
# exists is checked before anybody waits for it.)
NOT_READY_YET = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError._NOENT,  # librdkafka's own "no leaders found"
    }
)  # fmt: skip
# For a topic with event times, which may be in the future: Kafka 4 refuses those more than an hour ahead.
TO_COME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
T = TypeVar("T")


@dataclass(frozen=True)
class TopicFacts:
    """A topic as it is now. ``id`` tells it from a deleted topic of the same name."""

    name: str
    id: str
    partitions: int


class Cluster:
    """One Kafka. Every method raises KafkaUnavailable when it does not answer, or refuses."""

    def __init__(
        self,
        bootstrap_servers: str,
        options: Mapping[str, str] | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._timeout = timeout_seconds
        self._reasons: deque[str] = deque(maxlen=1)
        settings: dict[str, Any] = {
            **for_librdkafka(options or {}),
            "bootstrap.servers": bootstrap_servers,
            "log_level": 0,  # what matters comes as an error with a reason, not as a line on stderr
            "error_cb": lambda error: self._reasons.append(error.str()),
        }
        try:
            self._admin = AdminClient(settings)
        except KafkaException as error:
            raise refused(error) from None

    def topics(self, names: Sequence[str] | str) -> dict[str, TopicFacts]:
        """Facts by topic name, for a list of names or for a regular expression that matches whole names.

        Raises NotFound for a listed name that does not exist. A pattern that matches nothing gives {}, and
        never Kafka's own topics.
        """
        if isinstance(names, str):
            pattern = re.compile(names)
            wanted = [name for name in self.names() if pattern.fullmatch(name)]
        else:
            wanted = list(names)
        if not wanted:
            return {}
        asked = self._call(lambda: self._admin.describe_topics(TopicCollection(wanted), request_timeout=self._timeout))
        found = {}
        for name in wanted:
            try:
                description = self._wait(asked[name])
            except KafkaException as error:
                if isinstance(names, str) and _code(error) == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue  # deleted between the listing and the question
                raise self._translate(error, name) from None
            found[name] = TopicFacts(name, _id(description.topic_id), len(description.partitions))
        return found

    def names(self) -> list[str]:
        """The names of all topics except Kafka's internal ones, sorted."""
        listed = self._call(lambda: self._admin.list_topics(timeout=self._timeout))
        return sorted(name for name in listed.topics if not name.startswith("__"))

    def offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """(earliest, latest) offset of each (topic, partition).

        Latest is the end for a read_committed reader, before the first open transaction. Raises NotFound.
        """
        wanted = [TopicPartition(topic, partition) for topic, partition in partitions]
        if not wanted:
            return {}
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return self._offsets(wanted)
            except KafkaException as error:
                self._require(wanted)
                if _code(error) not in NOT_READY_YET or time.monotonic() > deadline:
                    raise self._translate(error) from None
                time.sleep(0.02)

    def _offsets(self, wanted: list[TopicPartition]) -> dict[tuple[str, int], tuple[int, int]]:
        specs: list[Any] = [OffsetSpec.earliest(), OffsetSpec.latest()]
        asked = [
            self._admin.list_offsets(
                dict.fromkeys(wanted, spec),
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=self._timeout,
            )
            for spec in specs
        ]
        earliest, latest = ({one: self._wait(answer[one]).offset for one in wanted} for answer in asked)
        return {(one.topic, one.partition): (earliest[one], latest[one]) for one in wanted}

    def _require(self, partitions: list[TopicPartition]) -> None:
        """Raise NotFound for the first one that does not exist: Kafka's own answer does not say which it was."""
        facts = self.topics(sorted({one.topic for one in partitions}))
        for one in partitions:
            if not 0 <= one.partition < facts[one.topic].partitions:
                raise NotFound(
                    f"Found no partition {one.partition} of topic {one.topic!r} on {self.bootstrap_servers}; "
                    f"expected 0 to {facts[one.topic].partitions - 1}."
                )

    def config(self, name: str) -> dict[str, str | None]:
        """The settings of a topic, such as ``cleanup.policy``. Raises NotFound."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        asked = self._call(lambda: self._admin.describe_configs([resource], request_timeout=self._timeout))
        try:
            entries = self._wait(asked[resource])
        except KafkaException as error:
            raise self._translate(error, name) from None
        return {key: entry.value for key, entry in entries.items()}

    def create(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None, replicas: int = -1
    ) -> None:
        """Create a topic; ``replicas`` -1: the broker's default. Raises LakehouseError if it exists.

        Returns when the topic can be used, which is a little later than Kafka's own answer.
        """
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=dict(config or {}))
        self._do(lambda: self._admin.create_topics([topic], request_timeout=self._timeout)[name], name)
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
        """Delete a topic with its records. Raises NotFound."""
        self._do(lambda: self._admin.delete_topics([name], request_timeout=self._timeout)[name], name)

    def _do(self, ask: Any, name: str) -> None:
        try:
            self._wait(self._call(ask))
        except KafkaException as error:
            raise self._translate(error, name) from None

    def _call(self, ask: Any) -> Any:
        """Ask; a failure that comes at once means that nobody is there to answer."""
        try:
            return ask()
        except KafkaException as error:
            raise self._translate(error) from None

    def _wait(self, asked: Future[T]) -> T:
        try:
            return asked.result(self._timeout + 1.0)
        except FutureTimeout:
            raise self._unavailable("no answer") from None

    def _translate(self, error: KafkaException, topic: str | None = None) -> LakehouseError:
        code = _code(error)
        where = f"topic {topic!r}"
        if topic is not None and code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            known = self.names()
            near = difflib.get_close_matches(topic, known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"It has: {', '.join(known[:10]) or 'no topics'}."
            return NotFound(
                f"Found no {where} on {self.bootstrap_servers}; expected it to exist. {hint} "
                "Create it, or correct the name."
            )
        if code == KafkaError.TOPIC_ALREADY_EXISTS:
            return LakehouseError(
                f"Found {where} on {self.bootstrap_servers} already; expected none. Use it, or delete it first."
            )
        if topic is not None and code is not None and code > 0 and code != KafkaError.REQUEST_TIMED_OUT:
            return KafkaUnavailable(
                f"Kafka on {self.bootstrap_servers} refused the request for {where}: {error.args[0].str()}."
            )
        return self._unavailable(error.args[0].str() if code is not None else str(error))

    def _unavailable(self, reason: str) -> KafkaUnavailable:
        self._admin.poll(0)  # hands over the client's reason, if it has one
        reason = self._reasons[-1] if self._reasons else reason
        return KafkaUnavailable(
            f"Kafka on {self.bootstrap_servers} did not answer within {self._timeout:g} s: {reason}. "
            "Expected a broker there. "
            "Check that it runs, that the address is right (kafka.bootstrap_servers), and its security "
            "settings (kafka.options)."
        )


def _code(error: KafkaException) -> int | None:
    cause = error.args[0] if error.args else None
    return int(cause.code()) if isinstance(cause, KafkaError) else None


def _id(topic_id: Any) -> str:
    """The id as Kafka's own tools print it."""
    return str(topic_id).replace("+", "-").replace("/", "_")
