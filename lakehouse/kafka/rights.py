"""Messages for a user who lacks a right in Kafka: the missing right, and the line of kafka-acls that grants it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import KafkaError

from lakehouse.kafka.options import librdkafka_options

INGEST_GROUP, DRAIN_GROUP, HOLES_GROUP = "lakehouse.ingest", "lakehouse.drain", "lakehouse.holes"
PUBLISH_PREFIX, SNAPSHOTS_PREFIX = "lakehouse.publish.", "lakehouse.snapshots."  # of transactional ids

Kind = Literal["topic", "group", "transactional-id"]
# Kafka's clients name the group's or the topic's kind in the code, and neither the name nor the operation.
_KINDS: dict[int, Kind] = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional-id",
}


@dataclass(frozen=True, slots=True)
class Right:
    """A right that an ACL grants. operation: as kafka-acls writes it, such as Read or DescribeConfigs."""

    operation: str
    kind: Kind
    name: str

    def acl_options(self, user: str) -> str:
        """Return the options of kafka-acls that grant it to a user, quoted for a shell."""
        principal = shlex.quote(f"User:{user}")
        return (
            f"--add --allow-principal {principal} --operation {self.operation} --{self.kind} {shlex.quote(self.name)}"
        )


def user_of(options: Mapping[str, str]) -> str | None:
    """Return the user as whom the client's options sign in; None if a certificate says it, or nobody."""
    return librdkafka_options(options).get("sasl.username")


def describe_missing_read_right(
    error: KafkaError, options: Mapping[str, str], group: str, topic: str | None
) -> str | None:
    """Return a sentence about the right that a reader of a topic lacks; None for another error of Kafka's."""
    return describe_missing_right(error, options, Right("Read", "group", group), Right("Read", "topic", topic or "?"))


def describe_missing_right(error: KafkaError, options: Mapping[str, str], *rights: Right) -> str | None:
    """Return a sentence about the right that an error of Kafka's says is missing; None for another error.

    rights: those that the request needs; the sentence is about the first of the kind that the error names.
    """
    kind = _KINDS.get(error.code())
    right = next((right for right in rights if right.kind == kind), None)
    if right is None:
        return None
    user = user_of(options)
    user_text = f"user {user!r}" if user else "this client"
    return (
        f"{user_text} may not {right.operation.upper()} {kind} {right.name!r}; grant it with: kafka-acls "
        f"--bootstrap-server ... {right.acl_options(user or 'NAME')}"
    )
