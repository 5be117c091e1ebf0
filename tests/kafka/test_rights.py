"""A real broker whose ACLs allow nothing by default: what the printed rights allow, and what a missing one says."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

import lakehouse as lh
from lakehouse.errors import KafkaUnavailable
from lakehouse.kafka.drain import read_topic
from lakehouse.kafka.embedded import server
from lakehouse.kafka.holes import Holes
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.publish import Publisher
from lakehouse.kafka.ranges import read_ranges
from lakehouse.kafka.rights import Right
from lakehouse.kafka.topics import Cluster
from lakehouse.run.start.rights import application_rights
from tests.kafka.secured import await_broker, write_users_listener

pytestmark = pytest.mark.slow

USER, PASSWORD = "la'ke $x", "hush hush"
OPTIONS = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": USER,
    "sasl.password": PASSWORD,
}
KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}
OPERATIONS = {
    "Describe": AclOperation.DESCRIBE,
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
}
T = 1_700_000_000_000
RECORDS = 60_000  # few records are all read before Kafka refuses the group


class GuardedBroker:
    """One broker: `servers` for users, who need rights; the administrator comes by another port, unnamed."""

    def __init__(self, folder: Path) -> None:
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        self._inner, self.servers = write_users_listener(
            folder,
            "listener.name.users.sasl.enabled.mechanisms=PLAIN",
            f'listener.name.users.plain.sasl.jaas.config={login} "user_{USER}"="{PASSWORD}";',
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ANONYMOUS",
        )
        self.folder = folder
        self.process = subprocess.Popen(server.broker_command(folder), cwd=folder, stdin=subprocess.DEVNULL)
        self.admin = AdminClient({"bootstrap.servers": self._inner, "log_level": 0})
        self.cluster = Cluster(self._inner)

    def wait(self) -> None:
        await_broker(self._inner, self.process, self.folder)

    def grant(self, right: Right) -> None:
        self._wait_all(self.admin.create_acls([self._binding(right)]))

    def withdraw(self, right: Right) -> None:
        from confluent_kafka.admin import AclBindingFilter

        binding = self._binding(right)
        fields = (
            binding.restype, binding.name, binding.resource_pattern_type, binding.principal, binding.host,
            binding.operation, binding.permission_type,
        )  # fmt: skip
        self._wait_all(self.admin.delete_acls([AclBindingFilter(*fields)]))

    @contextmanager
    def without(self, right: Right) -> Iterator[None]:
        self.withdraw(right)
        time.sleep(0.2)  # the authorizer learns of it by the metadata log
        try:
            yield
        finally:
            self.grant(right)
            time.sleep(0.2)

    @staticmethod
    def _binding(right: Right) -> AclBinding:
        return AclBinding(
            KINDS[right.kind], right.name, ResourcePatternType.LITERAL, f"User:{USER}", "*",
            OPERATIONS[right.operation], AclPermissionType.ALLOW,
        )  # fmt: skip

    @staticmethod
    def _wait_all(futures: dict[Any, Any]) -> None:
        for future in futures.values():
            future.result(30)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    broker = GuardedBroker(tmp_path_factory.mktemp("guarded"))
    try:
        broker.wait()
        broker.cluster.create("orders", 1)
        produce(broker._inner, {}, "orders", [ProducerRecord(b"k", b'{"amount": 1}', T) for _ in range(RECORDS)])
        yield broker
    finally:
        broker.process.terminate()
        broker.process.wait(60)


def application() -> lh.App:
    orders = lh.stream("orders", key="id string", schema="amount bigint")
    return lh.app(orders.latest("last_order").changes().to_topic("last-orders"))


def test_each_missing_right_is_named_with_the_line_that_grants_it(guarded: GuardedBroker) -> None:
    rights = application_rights(application())
    # A topic that can't be described is not there at all.
    for right in [*rights, Right("Describe", "topic", "orders")]:
        guarded.grant(right)
    cluster = Cluster(guarded.servers, OPTIONS)
    assert cluster.names() == ["orders"]
    cluster.create("last-orders", 1)
    cluster.create("last-orders-covers", 1)

    def ingest() -> None:
        assert len(list(read_ranges(guarded.servers, OPTIONS, {"orders": {0: 0}}, {"orders": {0: RECORDS}}))) == RECORDS

    def explain_holes() -> None:
        with Holes(cluster, OPTIONS) as holes:
            holes.explain("orders", 0, [(0, RECORDS)])

    def publish() -> None:
        Publisher(cluster, OPTIONS, "last-orders", keep_progress=lambda progress: None)

    uses: list[tuple[Right, Callable[[], object]]] = [
        (Right("Read", "group", "lakehouse.ingest"), ingest),
        (Right("Read", "topic", "orders"), ingest),
        (Right("Read", "group", "lakehouse.holes"), explain_holes),
        (Right("Read", "group", "lakehouse.drain"), lambda: list(read_topic(cluster, OPTIONS, "orders"))),
        (Right("Write", "transactional-id", "lakehouse.publish.last-orders"), publish),
        (Right("Create", "topic", "last-orders"), lambda: cluster.create("last-orders", 1)),
        (Right("DescribeConfigs", "topic", "last-orders"), lambda: cluster.config("last-orders")),
    ]
    assert {right for right, _ in uses} <= set(rights)
    for right, use in uses:
        if right.operation == "Create":
            guarded.cluster.delete(right.name)
        with guarded.without(right), pytest.raises(KafkaUnavailable) as failure:
            use()
        message = str(failure.value)
        assert f"user {USER!r} may not {right.operation.upper()} {right.kind} {right.name!r}; grant it" in message, (
            right
        )
        command = shlex.split(re.search(r"kafka-acls .*", message)[0])  # type: ignore[index]
        assert command[-6:] == ["--allow-principal", f"User:{USER}", "--operation", right.operation,
                                f"--{right.kind}", right.name]  # fmt: skip
        assert PASSWORD not in message
        use()


def test_the_printed_rights_are_enough_to_ingest_publish_and_check(guarded: GuardedBroker, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        'import lakehouse as lh\norders = lh.stream("orders", key="id string", schema="amount bigint")\n'
        'app = lh.app(orders.latest("last_order").changes().to_topic("other-orders"))\n'
    )
    options = ", ".join(f'"{name}" = {json.dumps(value)}' for name, value in OPTIONS.items())
    (tmp_path / "lakehouse.toml").write_text(
        f'[lake]\npath = "./lake"\napp = "app.py"\n[kafka]\nbootstrap_servers = "{guarded.servers}"\n'
        f'options = {{ {options} }}\n[spark]\nmemory = "1g"\n'
    )

    def run(*arguments: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "lakehouse.cli.main", *arguments]
        process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
        assert process.returncode == code, process.stdout + process.stderr
        assert PASSWORD not in process.stdout + process.stderr
        return process.stdout + process.stderr

    lines = run("kafka", "acls").splitlines()
    rights = json.loads(run("kafka", "acls", "--json"))
    assert rights["user"] == USER
    assert [f"kafka-acls --bootstrap-server {guarded.servers} {Right(**right).acl_options(USER)}" for right in
            rights["rights"]] == lines  # fmt: skip
    for right in [*(Right(**fields) for fields in rights["rights"]), Right("Describe", "topic", "orders")]:
        guarded.withdraw(right)
    time.sleep(0.5)
    refusal = run("run", "--until", "caught-up", code=2)
    assert f"has no topic orders, or user {USER!r} may not describe it." in refusal
    for right in rights["rights"]:
        guarded.grant(Right(**right))
    time.sleep(0.5)
    run("run", "--until", "caught-up")
    produce(guarded._inner, {}, "orders", [ProducerRecord(b"k2", b'{"amount": 2}', T)])
    run("run", "--until", "caught-up")
    assert json.loads(run("test", "check"))["ok"]
    published = [message.key() for message in read_topic(guarded.cluster, {}, "other-orders")]
    assert published == [*[b"k"] * RECORDS, b"k2"]
