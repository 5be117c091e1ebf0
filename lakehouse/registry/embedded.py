"""The embedded registry: a real schema registry as a child process, with its schemas in one folder.

    with EmbeddedRegistry(folder) as embedded:
        ...  embedded.url

It ends with its parent, however that ends, unless started with ``detach=True``; then ``find_registry(folder)`` returns
it. Its schemas and their ids survive restarts, also a kill: an id never names two schemas.
"""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import ClassVar

from lakehouse import process
from lakehouse.errors import LakehouseError, RegistryError
from lakehouse.kafka.embedded.local_server import LocalServer, RunningServer, find_server
from lakehouse.registry import server

COMPATIBILITY = "BACKWARD"  # Confluent's default; Apicurio's is NONE
ANSWER_TIMEOUT_SECONDS = 5.0


class RunningRegistry(RunningServer):
    """A registry process that is alive."""

    KIND: ClassVar[str] = "registry"

    @property
    def url(self) -> str:
        """The URL of its Confluent-compatible interface."""
        return f"http://{process.HOST}:{self.port}{server.API_PATH}"

    @property
    def address(self) -> str:
        """The address that a client connects to."""
        return self.url

    @property
    def mark(self) -> str:
        """An argument of the registry's command line that identifies the folder."""
        return server.registry_command_mark(self.folder)


def find_registry(folder: Path) -> RunningRegistry | None:
    """Return the registry that runs on ``folder``; None if none does, even if an old state file is there."""
    return find_server(RunningRegistry, folder)


class EmbeddedRegistry(LocalServer[RunningRegistry]):
    """The registry of ``folder``, on ``port`` of 127.0.0.1 (default: the last start's port if it is free, else any)."""

    RUNNING = RunningRegistry
    ERROR: ClassVar[type[LakehouseError]] = RegistryError
    NAME: ClassVar[str] = "registry"
    PROGRAM: ClassVar[str] = "schema registry"
    SECTION: ClassVar[str] = "registry"

    @property
    def url(self) -> str:
        """The URL that a client needs. Raises RegistryError if this object has not started a registry."""
        return self.running.url

    @property
    def _log_file(self) -> Path:
        return self.folder / server.LOG_NAME

    def _prepare(self, port: int) -> list[str]:
        return server.registry_command(self.folder, port)

    def _is_answering(self) -> bool:
        """Also set the compatibility at the first start, so that nobody finds a registry that takes any schema."""
        port = self.running.port
        if not process.is_accepting(f"{process.HOST}:{port}") or _ask(port, "GET", "/subjects") != 200:
            return False
        first_start_file = self.folder / "first-start.done"
        if not first_start_file.exists():  # later it is whatever its users set
            if _ask(port, "PUT", "/config", {"compatibility": COMPATIBILITY}) != 200:
                return False
            first_start_file.touch()
        return True


def _ask(port: int, method: str, path: str, body: dict[str, str] | None = None) -> int:
    """Return the status of an answer; 0 if there is none."""
    connection = http.client.HTTPConnection(process.HOST, port, timeout=ANSWER_TIMEOUT_SECONDS)
    try:
        connection.request(
            method, server.API_PATH + path, json.dumps(body) if body else None, {"Content-Type": "application/json"}
        )
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()
