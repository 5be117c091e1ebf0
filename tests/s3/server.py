"""An S3 server, S3Proxy, for the tests of lakes on s3a://: its objects are files, so tests look at them without it."""

from __future__ import annotations

import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lakehouse.setup import jars
from lakehouse.setup.jars import find_java
from lakehouse.setup.log_store import build_log_store
from lakehouse.setup.places import jars_target

BUCKET = "lakes"
KEY, SECRET = "tester", "canary-of-the-secret-key"
START_SECONDS = 120


class ObjectStore(NamedTuple):
    """A running S3 server. folder: where its objects are, by bucket."""

    endpoint: str
    folder: Path

    def new_lake(self) -> str:
        """Return the URI of a lake that nobody has used."""
        return f"s3a://{BUCKET}/{uuid.uuid4().hex[:8]}"

    def files(self, uri: str) -> Path:
        """Return the folder with the objects below a URI."""
        return self.folder / uri.removeprefix("s3a://")

    def options(self) -> str:
        """Return [lake] options, as lakehouse.toml has them."""
        return f'{{ endpoint = "{self.endpoint}", path_style = true, access_key = "{KEY}", secret_key = "{SECRET}" }}'


@contextmanager
def running_store(folder: Path) -> Iterator[ObjectStore]:
    """Run the server with its objects below a folder, which must exist."""
    target = jars_target()
    jars.resolve_jars(target, ("s3",))
    jars.resolve_jars(target, ("s3proxy",))
    build_log_store(target)
    (folder / "objects" / BUCKET).mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
    settings = {
        "s3proxy.endpoint": endpoint,
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": KEY,
        "s3proxy.credential": SECRET,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": str(folder / "objects"),
    }
    (folder / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [
                *(find_java(), "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{target / 's3proxy'}/*"),
                *("org.gaul.s3proxy.Main", "--properties", str(folder / "server.properties")),
            ],
            stdout=log,
            stderr=log,
        )
    try:
        _await_port(int(endpoint.rpartition(":")[2]), server)
        yield ObjectStore(endpoint, folder / "objects")
    finally:
        server.terminate()
        server.wait()


def _await_port(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"the S3 server did not start; exit code {server.poll()}")
