"""Whether Kafka has the topics that an application reads: known before Spark starts."""

from __future__ import annotations

import socket

from lakehouse.errors import KafkaUnavailable, NotFound
from lakehouse.kafka.topics import Cluster
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App
from lakehouse.plan.refused.near import near
from lakehouse.settings.config import Settings

CONNECT_SECONDS = 2.0


def check(settings: Settings, app: App, servers: str) -> None:
    """Raise NotFound for topics that neither Kafka nor bronze has; KafkaUnavailable, at once where nobody listens.

    A topic that bronze has and Kafka has lost is data loss: ingest finds what is missing.
    """
    check_listening(servers)
    there = Cluster(servers, settings.kafka.options).names()
    layout = Layout(settings.lake.path)
    known = {} if "://" in layout.root else reader.bronze_covers(layout).get("topics", {})
    missing = [name for name in (*app.topics, *settings.kafka.topics) if name not in there and name not in known]
    if missing:
        others = f"It has: {', '.join(there[:10])}{', ...' if len(there) > 10 else ''}." if there else "It has none."
        raise NotFound(
            f"Kafka at {servers} has no topic {', '.join(missing)}.{near(missing[0], there)} {others} Create it, or "
            "correct the name in the application."
        )


def check_listening(servers: str) -> None:
    """Raise KafkaUnavailable if every address refuses a connection: Kafka's client would try again for 15 seconds.

    An address that does not answer in time is left to it.
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
