"""The embedded broker: a real Kafka (KRaft, one node) as a child process, with its data in one folder.

    with Broker(folder) as broker:
        ...  broker.bootstrap_servers

The broker ends with its parent, however that ends, unless started with ``detach=True``; then ``find_broker(folder)``
returns it. Its records and its cluster id survive restarts.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lakehouse import process
from lakehouse.errors import BrokerError, LakehouseError
from lakehouse.kafka.embedded import server
from lakehouse.kafka.embedded.local_server import LocalServer, RunningServer, find_server


class RunningBroker(RunningServer):
    """A broker process that is alive."""

    KIND: ClassVar[str] = "broker"

    @property
    def bootstrap_servers(self) -> str:
        """The address that a client connects to."""
        return f"{process.HOST}:{self.port}"

    @property
    def address(self) -> str:
        """The address that a client connects to."""
        return self.bootstrap_servers

    @property
    def mark(self) -> str:
        """An argument of the broker's command line that identifies the folder."""
        return server.broker_command_mark(self.folder)


def find_broker(folder: Path) -> RunningBroker | None:
    """Return the broker that runs on ``folder``; None if none does, even if an old state file is there."""
    return find_server(RunningBroker, folder)


class Broker(LocalServer[RunningBroker]):
    """The broker of ``folder``, on ``port`` of 127.0.0.1 (default: the last start's port if it is free, else any)."""

    RUNNING = RunningBroker
    ERROR: ClassVar[type[LakehouseError]] = BrokerError
    NAME: ClassVar[str] = "broker"
    PROGRAM: ClassVar[str] = "Kafka"
    SECTION: ClassVar[str] = "kafka"

    @property
    def bootstrap_servers(self) -> str:
        """The address that a client connects to. Raises BrokerError if this object has not started a broker."""
        return self.running.bootstrap_servers

    @property
    def _log_file(self) -> Path:
        return server.broker_log_file(self.folder)

    def _prepare(self, port: int) -> list[str]:
        server.write_settings(self.folder, port, process.find_free_port(other_than=port))
        server.format_storage(self.folder)
        return server.broker_command(self.folder)

    def _is_answering(self) -> bool:
        if not process.is_accepting(self.bootstrap_servers):  # cheap, and keeps the client from logging every refusal
            return False
        client = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        try:
            return bool(client.list_topics(timeout=2.0).brokers)
        except KafkaException:
            return False
