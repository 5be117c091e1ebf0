"""Executors on another host than the driver: a network namespace, with its own addresses and its own 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lakehouse.kafka.embedded.broker import Broker
from tests.cluster.conftest import Host, running_cluster
from tests.cluster.test_cluster import Project

pytestmark = pytest.mark.slow

FORWARD = str(Path(__file__).with_name("forward.py"))


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    """This host's address towards the other one, and the other one. Skips who may not make a network namespace."""
    number = os.getpid() % 63 * 4  # a net of its own for each process, of the addresses that are for documentation
    here, there = f"198.51.100.{number + 1}", f"198.51.100.{number + 2}"
    name = f"lh{os.getpid()}"
    near, far = f"{name}n", f"{name}f"
    inside = ("ip", "netns", "exec", name)
    if shutil.which("ip") is None or subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
        pytest.skip("making a network namespace needs root, and `ip` of iproute2")
    try:
        for command in (
            ("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", name),
            ("ip", "addr", "add", f"{here}/30", "dev", near), ("ip", "link", "set", near, "up"),
            (*inside, "ip", "addr", "add", f"{there}/30", "dev", far), (*inside, "ip", "link", "set", far, "up"),
            (*inside, "ip", "link", "set", "lo", "up"),
        ):  # fmt: skip
            subprocess.run(command, check=True)
        yield Host(here), Host(there, inside)
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)  # its end of the pair goes, and so does the other


def forwarding(stack: ExitStack, listen: Host, port: int, target: str, target_port: int) -> int:
    """Forward connections from a host, and return the port that it listens on."""
    command = [*listen.inside, sys.executable, FORWARD, "127.0.0.1" if listen.inside else listen.address, str(port)]
    process = subprocess.Popen([*command, target, str(target_port)], stdout=subprocess.PIPE, text=True)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_executors_on_another_host_find_the_driver(tmp_path: Path, broker: Broker, hosts: tuple[Host, Host]) -> None:
    """Without a setting: by the address that reaches the master. The application is a file, beside its module."""
    here, there = hosts
    kafka_port = int(broker.bootstrap_servers.rpartition(":")[2])
    with ExitStack() as stack:
        # The broker tells its clients 127.0.0.1: there it is another one.
        port = forwarding(stack, here, 0, "127.0.0.1", kafka_port)
        forwarding(stack, there, kafka_port, here.address, port)
        cluster = stack.enter_context(running_cluster(tmp_path, 1, master_host=here, worker_host=there))
        assert here.address in cluster.master
        project = Project(
            tmp_path, broker, cluster.master, app="app.py", python=sys.executable, executor_wait_seconds=300
        )
        project.produce(0, 600)
        project.run("run", "--until", "caught-up")
        project.produce(600, 600)
        project.run("run", "--until", "caught-up")
        log = (tmp_path / "worker-0.log").read_text("utf-8", "replace")
        assert f"{there.address}:" in log
        project.check_tables()
