"""The parts of one embedded Kafka node: its configuration, its Java command, its formatted storage."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import uuid
from pathlib import Path

from lakehouse.errors import BrokerError
from lakehouse.process import HOST
from lakehouse.setup.jars import without_variables
from lakehouse.setup.java_process import java_variables
from lakehouse.setup.places import jars_folder

HEAP_MB = 512
# A short start matters more than peak speed: only the quick compiler, and the simplest garbage collector.
JVM_FLAGS = (
    f"-Xmx{HEAP_MB}m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    "-XX:+ExitOnOutOfMemoryError",
)

SETTINGS = """\
process.roles=broker,controller
node.id=1
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=BROKER

# One node: every internal topic has one replica, and few partitions, so that the start is short.
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0

# After a kill the old registration holds up the new one for this long. Not less: busy is not dead.
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=1000

# A name mistyped by a client is an error, not a new topic.
auto.create.topics.enable=false

# Records of any age are taken and kept: retention and segment rolling go by the records' own timestamps,
# and a year of history is produced within a minute.
log.retention.ms=-1
log.retention.bytes=-1
log.roll.hours=876000
log.message.timestamp.after.max.ms=9223372036854775807
# The cleaner's default buffer would take a quarter of the heap.
log.cleaner.dedupe.buffer.size=16777216

num.network.threads=2
num.io.threads=4
"""

LOGGING = """\
status=error
appender.file.type=RollingFile
appender.file.name=file
appender.file.fileName=${sys:lakehouse.log}
appender.file.filePattern=${sys:lakehouse.log}.%i
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d{yyyy-MM-dd'T'HH:mm:ss.SSSX} %p %m (%c{1})%n
appender.file.policies.type=Policies
appender.file.policies.size.type=SizeBasedTriggeringPolicy
appender.file.policies.size.size=10MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.max=2
rootLogger.level=info
rootLogger.appenderRef.file.ref=file
"""


def find_java() -> str:
    """Return the path of java: from ``JAVA_HOME`` if it is set, else from the PATH. Raises BrokerError."""
    java_home = os.environ.get("JAVA_HOME")
    java_path = shutil.which(str(Path(java_home) / "bin" / "java")) if java_home else shutil.which("java")
    if java_path is None:
        raise BrokerError(
            f"Found no java {f'in JAVA_HOME={java_home}' if java_home else 'on the PATH'}; the embedded Kafka needs "
            "Java 17 or "
            "newer. Install one, or set JAVA_HOME to its folder."
        )
    return java_path


def broker_data_folder(folder: Path) -> Path:
    """Return the folder in which a broker of ``folder`` keeps its records."""
    return folder / "data"


def broker_log_file(folder: Path) -> Path:
    """Return the file of Kafka's own log."""
    return folder / "broker.log"


def write_settings(folder: Path, port: int, controller_port: int) -> None:
    """Write the configuration for one start into ``folder``."""
    (folder / "log4j2.properties").write_text(LOGGING)
    _settings_file(folder).write_text(_settings_text(broker_data_folder(folder), port, controller_port))


def broker_command(folder: Path) -> list[str]:
    """Return the command that runs the broker of ``folder``."""
    return [*_jvm_command(folder, broker_log_file(folder)), "kafka.Kafka", str(_settings_file(folder))]


def broker_command_mark(folder: Path) -> str:
    """Return the argument of the broker's command that identifies the process later."""
    return str(_settings_file(folder))


def format_storage(folder: Path) -> None:
    """Give ``folder`` a formatted storage with its own cluster id, unless it has one. Raises BrokerError.

    The storage is built beside its final place and renamed, so that an interrupted start leaves no half of it.
    """
    if (broker_data_folder(folder) / "meta.properties").is_file():
        return
    if broker_data_folder(folder).exists() and any(broker_data_folder(folder).iterdir()):
        raise BrokerError(
            f"Found {broker_data_folder(folder)} with files in it but no meta.properties; expected a formatted "
            "Kafka storage or "
            "nothing. Move the folder away, or give another one (setting kafka.folder)."
        )
    fresh_folder = folder / "data.new"
    shutil.rmtree(fresh_folder, ignore_errors=True)
    settings_file = folder / "format.properties"
    settings_file.write_text(_settings_text(fresh_folder, 1, 2))
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
    tool_command = [
        *_jvm_command(folder, folder / "format.log"),
        "kafka.tools.StorageTool",
        "format",
        "-t",
        cluster_id,
        "-c",
        str(settings_file),
    ]
    completed = subprocess.run(
        tool_command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        env={**os.environ, **java_variables()},
    )  # fmt: skip
    if completed.returncode != 0:
        output = without_variables(completed.stdout + completed.stderr)
        last_lines = "\n".join(output.strip().splitlines()[-8:])
        raise BrokerError(
            f"Kafka's storage tool could not format {fresh_folder} (exit code {completed.returncode}). It "
            f"said:\n{last_lines}"
        )
    settings_file.unlink()
    if broker_data_folder(folder).exists():
        broker_data_folder(folder).rmdir()
    fresh_folder.rename(broker_data_folder(folder))


def _jvm_command(folder: Path, log_path: Path) -> list[str]:
    return [
        *(
            find_java(),
            *JVM_FLAGS,
            f"-Dlakehouse.log={log_path}",
            f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        ),
        *("-cp", str(jars_folder("kafka") / "*")),
    ]


def _settings_file(folder: Path) -> Path:
    return folder / "server.properties"


def _settings_text(data_path: Path, port: int, controller_port: int) -> str:
    if "," in str(data_path):
        raise BrokerError(
            f"Found a comma in {data_path}; Kafka reads it as two folders. Give a folder without one (kafka.folder)."
        )
    # Java reads properties files as Latin-1 with escapes.
    escaped_path = "".join(
        character if " " <= character <= "~" and character != "\\" else _escape_character(character)
        for character in str(data_path)
    )
    return SETTINGS + (
        f"listeners=BROKER://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}\n"
        f"advertised.listeners=BROKER://{HOST}:{port}\n"
        f"controller.quorum.voters=1@{HOST}:{controller_port}\n"
        f"log.dirs={escaped_path}\n"
    )


def _escape_character(character: str) -> str:
    utf16_bytes = character.encode("utf-16-be")
    return "".join(f"\\u{utf16_bytes[i]:02x}{utf16_bytes[i + 1]:02x}" for i in range(0, len(utf16_bytes), 2))
