"""Whether Kafka has the topics that an application reads: known before Spark starts."""

from __future__ import annotations

from lakehouse.errors import NotFound
from lakehouse.kafka.topics import Cluster
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App
from lakehouse.plan.refused.near import near
from lakehouse.settings.config import Settings


def check(settings: Settings, app: App, servers: str) -> None:
    """Raise NotFound for topics that neither Kafka nor bronze has; KafkaUnavailable.

    A topic that bronze has and Kafka has lost is data loss: ingest finds what is missing.
    """
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
