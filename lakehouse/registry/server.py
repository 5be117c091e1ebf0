"""The command of the embedded registry: Apicurio Registry in a JVM of its own, its schemas in one file of H2.

The current folder of the process is the registry's, so that no path has to be spelled in H2's and Quarkus's ways.
"""

from __future__ import annotations

from pathlib import Path

from lakehouse.errors import ConfigError, RegistryError
from lakehouse.process import HOST
from lakehouse.setup import jars
from lakehouse.setup.places import jars_target
from lakehouse.setup.registry import fetch_registry, registry_jar

API_PATH = "/apis/ccompat/v7"  # where Apicurio speaks Confluent's interface
LOG_NAME = "registry.log"
# A short start and little memory matter more than speed: as for the embedded broker.
JVM_FLAGS = (
    "-Xmx192m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:MaxMetaspaceSize=192m",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    "-XX:+ExitOnOutOfMemoryError",
)
PROPERTIES = {
    "quarkus.http.host": HOST,
    "apicurio.storage.kind": "sql",
    "apicurio.storage.sql.kind": "h2",
    # Without a delay an id is in the file before anybody hears of it: a killed registry gives none a second time.
    "apicurio.datasource.url": "jdbc:h2:file:./schemas;WRITE_DELAY=0",
    # One client on one machine; 20 connections, the default, would lengthen the start.
    "apicurio.datasource.jdbc.initial-size": "1",
    "apicurio.datasource.jdbc.min-size": "1",
    "apicurio.datasource.jdbc.max-size": "8",
    "quarkus.banner.enabled": "false",
    "quarkus.http.access-log.enabled": "false",
    'quarkus.log.category."io.apicurio".level': "WARN",
    "quarkus.log.console.enable": "false",
    "quarkus.log.file.enable": "true",
    "quarkus.log.file.path": LOG_NAME,
    "quarkus.log.file.format": "%d{yyyy-MM-dd'T'HH:mm:ss.SSSX} %p %m (%c{1})%e%n",
    "quarkus.log.file.json": "false",
    "quarkus.log.file.rotation.max-file-size": "10M",
    "quarkus.log.file.rotation.max-backup-index": "2",
    "quarkus.log.file.rotation.rotate-on-boot": "false",
}


def registry_command(folder: Path, port: int) -> list[str]:
    """Return the command that runs the registry of ``folder``; fetch its program first if it is not there.

    Raises RegistryError if there is no Java, or no program and no way to fetch it.
    """
    if "\\" in str(folder):
        raise RegistryError(
            f"Found a backslash in {folder}; the registry's database reads it as a slash. Give a folder without one "
            "(setting registry.folder)."
        )
    try:
        java_path = jars.find_java()
        fetch_registry(jars_target())
    except (jars.ResolveError, ConfigError, OSError) as error:
        raise RegistryError(str(error)) from None
    properties = PROPERTIES | {"quarkus.http.port": str(port)}
    return [
        *(java_path, *JVM_FLAGS, registry_command_mark(folder)),
        *(f"-D{name}={value}" for name, value in properties.items()),
        *("-jar", str(registry_jar(jars_target()))),
    ]


def registry_command_mark(folder: Path) -> str:
    """Return the argument of the registry's command that identifies the process later."""
    return f"-Dlakehouse.registry={folder}"
