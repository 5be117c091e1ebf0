"""The sections of the settings as frozen values. lakehouse.settings.config reads and checks them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

# What a property's name contains, or ends with, if its value is a secret. No property whose name ends with key is known
# to be none; but key.converter and the like begin with it.
SECRET = re.compile(
    r"pass|pwd|secret|token|jaas|credential|private|signature|user[._-]?info|connection[._-]?string|"
    r"(?<![a-z])sas(?![a-z])|(access|account|api|encryption|keystore|shared|storage)[._-]?key|key[._-]?pem|key$",
    re.IGNORECASE,
)
MASK = "********"


class Options(Mapping[str, str]):
    """Read-only properties for Kafka or Spark; their repr shows no secrets."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def masked_values(self) -> dict[str, str]:
        """Return the properties, without the values of secrets."""
        return {name: MASK if SECRET.search(name) else value for name, value in self._values.items()}

    def __repr__(self) -> str:
        return f"Options({self.masked_values()})"


@dataclass(frozen=True)
class LakeSection:
    """The place of the lake, and the application of commands that name none.

    path: absolute, or a Hadoop URI. app: a file, absolute, with :NAME behind it if it has several; or a module; None if
    there is no default. options: how a store of objects is reached, see `lakehouse.settings.store`; what is missing
    comes from the environment, as for other programs of that store. single_writer: nobody else writes to the lake,
    which a store without conditional PUTs needs.
    """

    path: str
    app: str | None = None
    options: Options = field(default_factory=Options)
    single_writer: bool = False


@dataclass(frozen=True)
class Kafka:
    """The Kafka to use; ``port`` and ``folder`` are the embedded broker's. Reads are always read_committed."""

    folder: Path
    bootstrap_servers: str | None = None
    options: Options = field(default_factory=Options)
    port: int | None = None
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None

    @property
    def embedded(self) -> bool:
        """True if no Kafka is configured, so that lakehouse starts its own."""
        return self.bootstrap_servers is None


@dataclass(frozen=True)
class RegistrySection:
    """The schema registry to use; ``port`` and ``folder`` are the embedded one's. Secrets are never shown.

    url: one address, or several with commas between. user and password, or token (a bearer token): the login. ca_file:
    the authorities that may have signed its certificate. certificate_file, key_file, key_password: the client's own.
    timeout_seconds: of one request. auto_register: whether a run registers the schemas of what it publishes.
    subject_strategy: how a schema's subject is named.
    """

    folder: Path
    url: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    port: int | None = None
    timeout_seconds: float = 5.0
    auto_register: bool = True
    subject_strategy: Literal["topic", "record", "topic_record"] = "topic"

    @property
    def embedded(self) -> bool:
        """True if no registry is configured, so that lakehouse may start its own."""
        return self.url is None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may show."""
        return tuple(secret for secret in (self.password, self.token, self.key_password) if secret)


@dataclass(frozen=True)
class Spark:
    """The settings of Spark; ``memory`` is the driver's.

    internals: False keeps to the public interfaces of Spark and Delta, which is slower. python: the Python that runs
    functions on the executors. driver_host: the address by which executors reach the driver. executor_wait_seconds: how
    long a start waits for a cluster's first executor. keep: for how long Spark waits for the next command: a duration,
    "off", or "auto", see `lakehouse.spark.jvm.kept.choice`.
    """

    master: str = "local[*]"
    memory: str = "3g"
    internals: bool = True
    python: str | None = None
    driver_host: str | None = None
    executor_wait_seconds: float = 120.0
    keep: str = "auto"
    options: Options = field(default_factory=Options)


@dataclass(frozen=True)
class Run:
    """The settings of ingest. ``trigger_seconds`` 0.0: as soon as there are records."""

    trigger_seconds: float = 0.0
    max_records_per_tick: int = 5_000_000
    max_bytes_per_tick: int = 1_073_741_824
    max_record_bytes: int = 33_554_432
    on_data_loss: Literal["fail", "record"] = "fail"


@dataclass(frozen=True)
class Upkeep:
    """The settings that keep tables small and their past readable: see docs/upkeep.md. Durations are text."""

    enabled: bool = True
    every_ticks: int = 50
    every_seconds: float = 600.0
    optimize_files: int = 32
    keep_versions: str = "7 days"
    anchors_every: str = "1 day"
    keep_anchors: str = "90 days"


@dataclass(frozen=True)
class Log:
    """The output of `lakehouse run` while it runs. format: "auto" is bars on a terminal, and "text" everywhere else.

    lag_seconds: how often a continuous run reports how many records wait in Kafka; 0.0 for never.
    """

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "text", "json"] = "auto"
    lag_seconds: float = 60.0


@dataclass(frozen=True)
class Metrics:
    """The metrics that a continuous run serves to Prometheus; none without a ``port``."""

    port: int | None = None
    host: str = "127.0.0.1"


@dataclass(frozen=True)
class Lineage:
    """The catalog that gets, as OpenLineage, the sources of the tables; none without a ``url``.

    ``namespace``: of the jobs. ``api_key``: sent as a bearer token, never shown.
    """

    url: str | None = None
    namespace: str = "lakehouse"
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Airflow:
    """The Airflow that `lakehouse airflow` runs. ``database`` is a URL that may hold a password: never shown.

    ``home``: its folder. ``port`` None: the last one used, 8080 or a free one. ``workers``: tasks at a time. ``users``:
    name to role. ``options``: further settings of Airflow, "section.name" to value. ``pass_on``: the variables of the
    environment that jobs see beside the usual ones, see `lakehouse.passed_on`.
    """

    home: Path
    host: str = "127.0.0.1"
    port: int | None = None
    database: str | None = field(default=None, repr=False)
    workers: int = 2
    users: Options = field(default_factory=lambda: Options({"admin": "admin"}))
    options: Options = field(default_factory=Options)
    pass_on: tuple[str, ...] = ()
