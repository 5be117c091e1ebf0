"""Checks that Kafka has the topics that an application reads, before Spark starts."""

from __future__ import annotations

import socket

from lakehouse.errors import KafkaUnavailable, NotFound
from lakehouse.kafka.rights import user_of
from lakehouse.kafka.snapshot_topic import create_topic
from lakehouse.kafka.topics import Cluster
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App
from lakehouse.plan.refused.near import suggest_near
from lakehouse.semantics.operators.truncate import several_partitions_error
from lakehouse.settings.config import Settings

CONNECT_SECONDS = 2.0


def check_topics(settings: Settings, app: App, servers: str) -> None:
    """Raise NotFound for topics that neither Kafka nor bronze has; KafkaUnavailable, at once if nobody listens.

    Topics of snapshots are created.

    A topic that bronze has and Kafka has lost is data loss: ingest finds the missing records.
    Raises PlanError for a topic whose truncates are applied, if it has several partitions.
    """
    check_listening(servers)
    cluster = Cluster(servers, settings.kafka.options)
    kafka_topics = cluster.names()
    kafka_topics += _create_snapshot_topics(app, cluster, kafka_topics)
    layout = Layout(settings.lake.path)
    bronze_topics = reader.read_bronze_coverage(layout).topics
    missing_topics = [
        name for name in (*app.topics, *settings.kafka.topics) if name not in kafka_topics and name not in bronze_topics
    ]
    if missing_topics:
        others_text = (
            f"It has: {', '.join(kafka_topics[:10])}{', ...' if len(kafka_topics) > 10 else ''}."
            if kafka_topics
            else "It has none."
        )
        # Kafka hides a topic from a user who may not describe it.
        user = user_of(settings.kafka.options)
        hidden_text = f", or user {user!r} may not describe it" if user else ""
        grant_text = "; `lakehouse kafka acls` prints the rights that it needs" if user else ""
        raise NotFound(
            f"Kafka at {servers} has no topic {', '.join(missing_topics)}{hidden_text}."
            f"{suggest_near(missing_topics[0], kafka_topics)} {others_text} Create it, or correct the name in the "
            f"application{grant_text}."
        )
    truncated_topics = {source.topic for source in app.sources if source.applies_truncates} & set(kafka_topics)
    for name, facts in cluster.topics(sorted(truncated_topics)).items() if truncated_topics else ():
        if facts.partitions > 1:
            raise several_partitions_error(name)


def check_listening(servers: str) -> None:
    """Raise KafkaUnavailable if every address refuses a connection: Kafka's client would try again for 15 seconds.

    It leaves an address that does not answer in time to the client.
    """
    reasons = []
    for server in servers.split(","):
        host, _, port = server.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS):
                return
        except TimeoutError:
            return
        except OSError as error:
            reasons.append(f"{server}: {error.strerror or error}")
    raise KafkaUnavailable(
        f"Nobody listens at {servers} ({'; '.join(reasons)}). Expected a Kafka broker there. Check that it runs, and "
        "that the address is right (kafka.bootstrap_servers)."
    )


def _create_snapshot_topics(app: App, cluster: Cluster, existing_topics: list[str]) -> list[str]:
    """Create the topics of snapshots that Kafka does not have, and keeps for ever; return their names."""
    partitions = {source.topic: source.snapshots.partitions for source in app.snapshot_sources if source.snapshots}
    missing_topics = [topic for topic in partitions if topic not in existing_topics]
    for topic in missing_topics:
        create_topic(cluster, topic, partitions[topic])
    return missing_topics
