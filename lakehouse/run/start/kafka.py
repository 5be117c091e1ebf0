"""Finds the Kafka of a run: the configured one, the embedded one that runs already, or one started for this run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from lakehouse.kafka.embedded.broker import Broker, find_broker
from lakehouse.phases import phase
from lakehouse.settings.config import Settings


@contextmanager
def open_kafka(settings: Settings) -> Iterator[str]:
    """Yield the bootstrap servers; when the block ends, stop the broker if it was started here."""
    if settings.kafka.bootstrap_servers is not None:
        yield settings.kafka.bootstrap_servers
    elif (running := find_broker(settings.kafka.folder)) is not None:
        yield running.bootstrap_servers
    else:
        with ExitStack() as stack:
            with phase("starting Kafka"):
                broker = stack.enter_context(Broker(settings.kafka.folder, settings.kafka.port))
            yield broker.bootstrap_servers


def running_servers(settings: Settings) -> str | None:
    """Return the bootstrap servers of the configured Kafka, or of the embedded one if it runs; start none."""
    if settings.kafka.bootstrap_servers is not None:
        return settings.kafka.bootstrap_servers
    broker = find_broker(settings.kafka.folder)
    return broker.bootstrap_servers if broker is not None else None
