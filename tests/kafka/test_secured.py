"""Kafka as companies run it: TLS, logins, clients' certificates, three brokers of which some die."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import deltalake
import pytest

from lakehouse.errors import ConfigError, KafkaUnavailable
from lakehouse.kafka.drain import read_topic
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from tests.kafka.oauth import SECRET, OauthBroker
from tests.kafka.secured import PASSWORD, STORE_PASSWORD, USER, Authority, Secured

pytestmark = pytest.mark.slow

T = 1_700_000_000_000
SECONDS = 400
APP = """
import lakehouse as lh

orders = lh.stream("orders", key="id string", schema="customer string, amount bigint")
totals = orders.group_by("customer").agg(orders=lh.count(), total=lh.sum("amount")).table("totals")
app = lh.app(orders.latest("last_order"), totals.changes().to_topic("totals-changelog"))
"""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    brokers = Secured(tmp_path_factory.mktemp("secured"))
    try:
        brokers.wait()
        yield brokers
    finally:
        brokers.end()


def test_each_way_to_be_wrong_has_a_sentence_of_its_own(secured: Secured, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    tls, scram, mutual = (secured.options(name) for name in ("tls", "scram", "mutual"))
    speaks_tls = 'speaks TLS: set security.protocol = SSL, or SASL_SSL with a login, beside "ssl.ca.location"'
    distrust = "has a certificate that this client does not trust: "
    cases: list[tuple[str, str, dict[str, str], str]] = [
        ("no TLS to a port with TLS", "tls", {}, speaks_tls),
        ("a login without TLS", "scram", {**scram, "security.protocol": "SASL_PLAINTEXT"}, speaks_tls),
        ("TLS to a port without it", "inner", tls, "does not speak TLS: set security.protocol = PLAINTEXT"),
        ("a login where none is", "tls", scram, "takes no login by sasl.mechanism = SCRAM-SHA-512 at this port"),
        ("no login where one is", "scram", tls, "its port may ask for a login"),
        ("an expired certificate", "expired", tls, f"{distrust}certificate has expired. Look at"),
        ("another host's certificate", "elsewhere", tls, f"{distrust}IP address mismatch"),
        ("another authority", "tls", {**tls, "ssl.ca.location": str(other.pem)}, f"{distrust}self-signed certificate"),
        ("no authority", "tls", {"security.protocol": "SSL"}, f"{distrust}self-signed certificate"),
        ("a wrong password", "scram", {**scram, "sasl.password": "x"}, f"refuses the login of user {USER!r}"),
        ("a wrong user", "scram", {**scram, "sasl.username": "who"}, "refuses the login of user 'who'"),
        ("a wrong mechanism", "scram", {**scram, "sasl.mechanism": "PLAIN"}, "no login by sasl.mechanism = PLAIN"),
        ("no certificate of the client", "mutual", tls, "asks for a client's certificate, or refuses this one"),
    ]
    for name, listener, options, sentence in cases:
        servers = secured.inner if listener == "inner" else secured.servers[listener]
        with pytest.raises(KafkaUnavailable) as failure:
            Cluster(servers, options, timeout_seconds=4).names()
        message = str(failure.value)
        assert sentence in message, name
        assert not re.search(f"{re.escape(PASSWORD)}|{STORE_PASSWORD}", message), name
    for options in ({**tls, "ssl.ca.location": "/nowhere/ca.pem"}, {**mutual, "ssl.keystore.password": "x"}):
        with pytest.raises(ConfigError, match=r"kafka\.options: "):
            Cluster(secured.servers["tls"], options)
    # Nothing of it is said of settings that are right.
    for listener in ("tls", "scram", "mutual"):
        assert isinstance(Cluster(secured.servers[listener], secured.options(listener)).names(), list)


class Project:
    """A folder with an application, and the settings of a listener. inner: where anybody may come in."""

    def __init__(self, folder: Path, inner: str, servers: str, options: dict[str, str]) -> None:
        self.folder, self.inner = folder, inner
        (folder / "app.py").write_text(APP)
        options_text = ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in options.items())
        (folder / "lakehouse.toml").write_text(
            f'[lake]\npath = "./lake"\napp = "app.py"\n[kafka]\nbootstrap_servers = "{servers}"\n'
            f'options = {{ {options_text} }}\n[spark]\nmemory = "1g"\n'
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "lakehouse.cli.main", *arguments], cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ),
        )  # fmt: skip

    def run(self, *arguments: str) -> str:
        process = self.start(*arguments)
        output = process.communicate(timeout=SECONDS)[0]
        assert process.returncode == 0, output
        self.check_secrets(output)
        return output

    def check_secrets(self, output: str) -> None:
        files = [path for path in self.folder.rglob("*") if path.is_file() and path.name != "lakehouse.toml"]
        for secret in (PASSWORD, json.dumps(PASSWORD)[1:-1], STORE_PASSWORD, SECRET):
            assert secret not in output
            assert not [path for path in files if secret.encode() in path.read_bytes()]

    def produce(self, first: int, count: int) -> None:
        records = [
            ProducerRecord(f"o{n}".encode(), json.dumps({"customer": f"c{n % 7}", "amount": n}).encode(), T + n)
            for n in range(first, first + count)
        ]
        assert produce(self.inner, {}, "orders", records) == count

    def totals(self, lake: str = "lake") -> dict[str, tuple[int, int]]:
        rows = deltalake.DeltaTable(str(self.folder / lake / "silver/totals")).to_pyarrow_table().to_pylist()
        return {row["customer"]: (row["orders"], row["total"]) for row in rows}

    def published(self) -> dict[str, tuple[int, int]]:
        totals = {}
        for message in read_topic(Cluster(self.inner), {}, "totals-changelog"):
            value = json.loads(message.value())
            totals[message.key().decode()] = (value["orders"], value["total"])
        return totals


def expected_totals(count: int) -> dict[str, tuple[int, int]]:
    numbers = {f"c{rest}": list(range(rest, count, 7)) for rest in range(7)}
    return {customer: (len(amounts), sum(amounts)) for customer, amounts in numbers.items()}


@pytest.mark.parametrize("listener", ["scram", "mutual"])
def test_ingest_publish_restore_and_audit_over_tls(secured: Secured, tmp_path: Path, listener: str) -> None:
    project = Project(tmp_path, secured.inner, secured.servers[listener], secured.options(listener))
    run_whole_application(project)


def test_ingest_publish_restore_and_audit_with_tokens(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    (tmp_path / "project").mkdir()
    broker = OauthBroker(tmp_path / "broker")
    try:
        broker.wait()
        run_whole_application(Project(tmp_path / "project", broker.inner, broker.servers, broker.options()))
        assert broker.tokens.granted > 0
        with pytest.raises(KafkaUnavailable, match=r"There was no token for this client: look at ") as failure:
            Cluster(broker.servers, broker.options("another"), timeout_seconds=4).names()
        assert "another" not in str(failure.value)
    finally:
        broker.end()


def run_whole_application(project: Project) -> None:
    """Ingest, publish, restore and audit, as the settings of a project say."""
    cluster = Cluster(project.inner)
    for topic in set(cluster.names()) & {"orders", "totals-changelog", "totals-changelog-covers"}:
        cluster.delete(topic)
    cluster.create("orders", 2)
    project.produce(0, 3000)  # so many that librdkafka reads some of them
    project.run("run", "--until", "caught-up")
    project.produce(3000, 500)
    project.run("run", "--until", "caught-up")
    assert project.totals() == project.published() == expected_totals(3500)
    assert json.loads(project.run("test", "check"))["ok"]
    project.run("test", "audit", "totals")
    consumed = project.run("kafka", "consume", "orders", "--from", "-1", "--json")
    assert {json.loads(line)["value"]["amount"] for line in consumed.splitlines()} > {3499}
    assert '"totals-changelog"' in project.run("kafka", "topics", "--json")
    assert project.run("kafka", "groups", "--json") == ""
    project.run("repair", "restore", "totals", "totals-changelog", "--lake", "./other")
    assert project.totals("other") == expected_totals(3500)


def test_of_three_brokers_each_may_die_while_others_keep_two_copies(tmp_path: Path) -> None:
    brokers, job = Secured(tmp_path / "brokers", 3), None
    try:
        brokers.wait()
        (tmp_path / "project").mkdir()
        project = Project(tmp_path / "project", brokers.inner, brokers.servers["mutual"], brokers.options("mutual"))
        cluster = Cluster(brokers.inner)
        cluster.create("orders", 3, replicas=3)
        assert cluster.config("orders")["min.insync.replicas"] == "2"
        project.produce(0, 2000)
        job = project.start("run")
        produced = 2000
        for number in (1, 2, 3):
            _await(project.totals, expected_totals(produced), job)
            brokers.kill(number)
            Cluster(brokers.inner, timeout_seconds=SECONDS).names()  # on a busy machine the others need a while
            project.produce(produced, 2000)
            produced += 2000
            _await(project.totals, expected_totals(produced), job)
            _await(project.published, expected_totals(produced), job)
            brokers.start(number)
            brokers.wait()
        job.send_signal(signal.SIGTERM)
        output = job.communicate(timeout=SECONDS)[0]
        assert job.returncode == 0, output
        assert project.published() == expected_totals(produced)
        assert json.loads(project.run("test", "check"))["ok"]
        facts = cluster.config("totals-changelog")
        assert facts["min.insync.replicas"] == "2"
        project.run("repair", "restore", "totals", "totals-changelog", "--lake", "./other")
        assert project.totals("other") == expected_totals(produced)
    finally:
        if job is not None:
            job.kill()
        brokers.end()


def _await(read: Callable[[], dict[str, tuple[int, int]]], expected: object, job: subprocess.Popen[str]) -> None:
    """Wait until the totals, in the lake or in Kafka, are as expected."""
    end = time.monotonic() + SECONDS
    while True:
        assert job.poll() is None, job.communicate()[0]
        try:
            actual: object = read()
        except (deltalake.exceptions.TableNotFoundError, KafkaUnavailable, OSError) as error:
            actual = error
        if actual == expected:
            return
        assert time.monotonic() < end, actual
        time.sleep(0.5)
