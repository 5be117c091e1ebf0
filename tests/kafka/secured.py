"""Brokers with TLS: certificates by Java's keytool, and a listener for each way to be known, and to be wrong."""

from __future__ import annotations

import base64
import re
import shutil
import socket
import subprocess
import time
import uuid
from pathlib import Path
from typing import ClassVar

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from lakehouse.errors import KafkaUnavailable
from lakehouse.kafka.embedded import server
from lakehouse.kafka.topics import Cluster
from lakehouse.setup.jars import find_java

START_SECONDS = 120
USER, PASSWORD = "lake", 'l"s\\cret 2'  # a quote, a backslash, a blank
STORE_PASSWORD = "changeit-canary"
HERE = "san=ip:127.0.0.1"


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Authority:
    """Signs certificates. pem: its own certificate, which clients trust."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder, self.pem = folder, folder / "authority.pem"
        self._make_pair("authority", "-ext", "bc:c=ca:true", "-dname", "CN=authority")
        self._keytool("authority", "-exportcert", "-rfc", "-alias", "authority", "-file", str(self.pem))

    def issue(self, name: str, extension: str = HERE, *validity: str) -> Path:
        """Return a PKCS#12 file with a new key and its certificate. validity: options of keytool."""
        request, certificate = self.folder / f"{name}.request", self.folder / f"{name}.pem"
        self._make_pair(name, "-dname", f"CN={name}")
        self._keytool(name, "-certreq", "-alias", name, "-file", str(request))
        self._keytool(
            "authority", "-gencert", "-rfc", "-alias", "authority", "-infile", str(request), "-outfile",
            str(certificate), "-ext", extension, *(validity or ("-validity", "30")),
        )  # fmt: skip
        self._keytool(name, "-importcert", "-noprompt", "-alias", "authority", "-file", str(self.pem))
        self._keytool(name, "-importcert", "-noprompt", "-alias", name, "-file", str(certificate))
        return self.folder / f"{name}.p12"

    def _make_pair(self, name: str, *options: str) -> None:
        self._keytool(
            name, "-genkeypair", "-alias", name, "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "30", *options
        )

    def _keytool(self, store: str, *arguments: str) -> None:
        keytool = str(Path(find_java()).with_name("keytool")) if "/" in find_java() else "keytool"
        options = ("-keystore", str(self.folder / f"{store}.p12"), "-storetype", "PKCS12", "-storepass", STORE_PASSWORD)
        subprocess.run([keytool, *arguments, *options], check=True, capture_output=True, stdin=subprocess.DEVNULL)


def listener_lines(name: str, keystore: Path, authority: Authority, protocol: str) -> list[str]:
    """Return the settings of one listener. Clients of the one that is called mutual need a certificate."""
    start = f"listener.name.{name}"
    lines = [
        f"{start}.ssl.keystore.type=PKCS12",
        f"{start}.ssl.keystore.location={keystore}",
        f"{start}.ssl.keystore.password={STORE_PASSWORD}",
        f"{start}.ssl.key.password={STORE_PASSWORD}",
        f"{start}.ssl.truststore.type=PEM",
        f"{start}.ssl.truststore.location={authority.pem}",
    ]
    if name == "mutual":
        lines.append(f"{start}.ssl.client.auth=required")
    if protocol == "SASL_SSL":
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        lines += [
            f"{start}.sasl.enabled.mechanisms=SCRAM-SHA-512",
            f"{start}.scram-sha-512.sasl.jaas.config={login}",
        ]
    return lines


def write_users_listener(folder: Path, *lines: str) -> tuple[str, str]:
    """Write the settings of a broker with a listener USERS for logins; lines: what else they say.

    Return the address at which anybody comes in, and that for users.
    """
    inner, controller, outer = (f"127.0.0.1:{port}" for port in free_ports(3))
    server.write_settings(folder, *(int(address.rpartition(":")[2]) for address in (inner, controller)))
    server.format_storage(folder)
    own_lines = (
        f"listeners=BROKER://{inner},CONTROLLER://{controller},USERS://{outer}",
        f"advertised.listeners=BROKER://{inner},USERS://{outer}",
        "listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,USERS:SASL_PLAINTEXT",
    )
    with (folder / "server.properties").open("a") as settings:
        settings.write("\n".join([*own_lines, *lines, ""]))
    return inner, outer


def await_broker(servers: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    cluster = Cluster(servers, timeout_seconds=5)
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            cluster.names()
            return
        except KafkaUnavailable:
            log = (folder / "broker.log").read_text()[-3000:]
            assert time.monotonic() < end, log
            assert process.poll() is None, log


class Secured:
    """Brokers that listen by TLS; `inner` takes anybody without it. servers: their addresses by listener."""

    PROTOCOLS: ClassVar = {"tls": "SSL", "scram": "SASL_SSL", "mutual": "SSL", "expired": "SSL", "elsewhere": "SSL"}

    def __init__(self, folder: Path, brokers: int = 1) -> None:
        self.folders = [folder / f"broker-{number}" for number in range(1, brokers + 1)]
        self.authority = Authority(folder / "authority")
        self.keystores = {name: self.authority.issue(name) for name in ("tls", "scram", "mutual")}
        self.keystores["expired"] = self.authority.issue("expired", HERE, "-startdate", "-9d", "-validity", "2")
        self.keystores["elsewhere"] = self.authority.issue("elsewhere", "san=dns:kafka.example.com")
        self._client = self.authority.issue("client")
        names = ("BROKER", "CONTROLLER", *(name.upper() for name in self.PROTOCOLS))
        self._addresses = [
            dict(zip(names, (f"127.0.0.1:{port}" for port in free_ports(len(names))), strict=True))
            for _ in self.folders
        ]
        self.inner = self._servers("BROKER")
        self.servers = {name: self._servers(name.upper()) for name in self.PROTOCOLS}
        for number, broker_folder in enumerate(self.folders, 1):
            broker_folder.mkdir()
            self._write_settings(number, broker_folder)
        self.processes = [self._start(broker_folder) for broker_folder in self.folders]

    def _servers(self, name: str) -> str:
        return ",".join(addresses[name] for addresses in self._addresses)

    def _write_settings(self, number: int, folder: Path) -> None:
        addresses = self._addresses[number - 1]
        ports = [int(addresses[name].rpartition(":")[2]) for name in ("BROKER", "CONTROLLER")]
        server.write_settings(folder, *ports)
        if number == 1:
            server.format_storage(folder)
        else:
            _copy_storage(self.folders[0], folder, number)
        listeners = [f"{name}://{address}" for name, address in addresses.items()]
        protocols = ",".join(f"{name.upper()}:{protocol}" for name, protocol in self.PROTOCOLS.items())
        voters = ",".join(f"{n}@{known['CONTROLLER']}" for n, known in enumerate(self._addresses, 1))
        replicas = len(self.folders)
        lines = [
            f"node.id={number}",
            f"controller.quorum.voters={voters}",
            f"listeners={','.join(listeners)}",
            f"advertised.listeners={','.join(line for line in listeners if not line.startswith('CONTROLLER'))}",
            f"listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,{protocols}",
            f"default.replication.factor={replicas}",
            f"min.insync.replicas={min(replicas, 2)}",
            f"offsets.topic.replication.factor={replicas}",
            f"transaction.state.log.replication.factor={replicas}",
            f"transaction.state.log.min.isr={min(replicas, 2)}",
        ]
        for name, protocol in self.PROTOCOLS.items():
            lines += listener_lines(name, self.keystores[name], self.authority, protocol)
        with (folder / "server.properties").open("a") as settings:
            settings.write("\n".join(lines) + "\n")

    def _start(self, folder: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(server.broker_command(folder), cwd=folder, stdin=subprocess.DEVNULL)

    def wait(self) -> None:
        """Wait for the brokers, and make the user."""
        for addresses, process, folder in zip(self._addresses, self.processes, self.folders, strict=True):
            await_broker(addresses["BROKER"], process, folder)
        credential = UserScramCredentialUpsertion(
            USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
        )
        admin = AdminClient({"bootstrap.servers": self.inner, "log_level": 0})
        for future in admin.alter_user_scram_credentials([credential]).values():
            future.result(30)

    def kill(self, number: int) -> None:
        self.processes[number - 1].kill()
        self.processes[number - 1].wait()

    def start(self, number: int) -> None:
        self.processes[number - 1] = self._start(self.folders[number - 1])

    def options(self, listener: str) -> dict[str, str]:
        """Return kafka.options with which a listener is rightly reached."""
        options = {"security.protocol": self.PROTOCOLS[listener], "ssl.ca.location": str(self.authority.pem)}
        if listener == "scram":
            options |= {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": USER, "sasl.password": PASSWORD}
        if listener == "mutual":
            options |= {"ssl.keystore.location": str(self._client), "ssl.keystore.password": STORE_PASSWORD}
        return options

    def end(self) -> None:
        for process in self.processes:
            process.kill()  # the last of several would wait for a quorum
            process.wait()


def _copy_storage(formatted: Path, folder: Path, number: int) -> None:
    """Give a further broker a storage of the same cluster, with an id of its own."""
    shutil.copytree(server.broker_data_folder(formatted), server.broker_data_folder(folder))
    path = server.broker_data_folder(folder) / "meta.properties"
    directory = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
    text = re.sub(r"(?m)^node\.id=.*$", f"node.id={number}", path.read_text())
    path.write_text(re.sub(r"(?m)^directory\.id=.*$", f"directory.id={directory}", text))
