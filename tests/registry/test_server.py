"""The embedded registry: start, stop, what stays over a kill, and who may start it when."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from lakehouse.errors import RegistryError, RegistryUnavailable
from lakehouse.registry.embedded import EmbeddedRegistry, find_registry
from lakehouse.registry.opening import open_registry
from lakehouse.settings.sections import RegistrySection

Sections = Callable[..., RegistrySection]


def avro(name: str) -> str:
    return json.dumps({"type": "record", "name": name, "fields": []})


@pytest.mark.rotated
@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_schemas_ids_and_the_level_stay(tmp_path: Path, section: Sections, end: str) -> None:
    folder = tmp_path / "a folder; with ä ${x}"
    settings = section(folder=folder)
    embedded = EmbeddedRegistry(folder)
    embedded.start()
    url = embedded.url
    client = open_registry(settings)
    ids = [client.register(f"s{number}", avro(f"R{number}"), "AVRO") for number in range(3)]
    client._client.set_compatibility(level="FULL")
    running = find_registry(folder)
    assert running is not None
    if end == "killed":  # at once behind the last answer: nothing may wait to be written
        os.kill(running.pid, signal.SIGKILL)
    embedded.stop()
    assert find_registry(folder) is None
    with EmbeddedRegistry(folder) as again:
        assert again.url == url
        client = open_registry(settings)
        assert [client.lookup(f"s{number}", avro(f"R{number}"), "AVRO") for number in range(3)] == ids
        later = client.register("s3", avro("R3"), "AVRO")
        assert later not in ids
        assert client._client.get_compatibility() == "FULL"


def test_at_first_a_schema_must_be_able_to_read_what_was_written(registry: EmbeddedRegistry, section: Sections) -> None:
    assert open_registry(section(folder=registry.folder))._client.get_compatibility() == "BACKWARD"


def test_it_listens_on_this_machine_alone(registry: EmbeddedRegistry) -> None:
    running = find_registry(registry.folder)
    assert running is not None
    listening = [
        one.laddr for one in psutil.net_connections("tcp") if one.pid == running.pid and one.status == "LISTEN"
    ]
    assert [(place.ip.removeprefix("::ffff:"), place.port) for place in listening] == [("127.0.0.1", running.port)]


def test_a_second_start_on_the_folder_is_refused(registry: EmbeddedRegistry) -> None:
    with pytest.raises(RegistryError, match=f"already running on .*: pid .*{registry.url}"):
        EmbeddedRegistry(registry.folder).start()
    assert find_registry(registry.folder) is not None


@pytest.mark.rotated
def test_of_two_starters_at_once_one_starts_it_and_the_other_is_told(tmp_path: Path) -> None:
    starters = [EmbeddedRegistry(tmp_path) for _ in range(2)]
    failures: list[RegistryError] = []

    def start(starter: EmbeddedRegistry) -> None:
        try:
            starter.start()
        except RegistryError as error:
            failures.append(error)

    threads = [threading.Thread(target=start, args=(starter,)) for starter in starters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [str(failure).partition(" on ")[0] for failure in failures] == ["A registry is already running"]
    for starter in starters:
        starter.stop()
    assert find_registry(tmp_path) is None


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(RegistryError, match=rf"Port {port} .* in use .*registry\.port"):
            EmbeddedRegistry(tmp_path, port).start()


def test_a_missing_java_and_a_folder_that_the_database_misreads_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RegistryError, match=r"backslash.*registry\.folder"):
        EmbeddedRegistry(tmp_path / "back\\slash").start()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RegistryError, match=r"JAVA_HOME.*Java 17"):
        EmbeddedRegistry(tmp_path).start()


@pytest.mark.rotated
def test_one_that_cannot_start_shows_why(tmp_path: Path) -> None:
    (tmp_path / "schemas.mv.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(RegistryError, match=r"(?s)embedded schema registry.*registry\.log.*schemas"):
        EmbeddedRegistry(tmp_path).start(timeout_seconds=30)
    assert find_registry(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}'])
def test_a_broken_state_file_is_ignored(tmp_path: Path, section: Sections, text: str) -> None:
    (tmp_path / "registry.json").write_text(text)
    assert find_registry(tmp_path) is None
    with pytest.raises(RegistryUnavailable, match="`lakehouse registry up`"):
        open_registry(section(folder=tmp_path))


CHILD = """
import sys, time
from pathlib import Path
from lakehouse.registry.embedded import EmbeddedRegistry
EmbeddedRegistry(Path(sys.argv[1])).start()
print("up", flush=True)
time.sleep(60)
"""


@pytest.mark.rotated
def test_it_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    child.kill()
    child.communicate()
    deadline = time.monotonic() + 15
    while find_registry(tmp_path) is not None:
        assert time.monotonic() < deadline, "it goes on without its parent"
        time.sleep(0.05)
