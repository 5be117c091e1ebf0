"""The checks of single settings, for lakehouse.settings.config: a value as read -> the value as used, or Wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from lakehouse.duration import duration_ms
from lakehouse.errors import PlanError

Check = Callable[[Any], Any]

HINT_TOML = 'A setting is a line key = value under a [section]; text is written in "quotes".'
# Properties that lakehouse sets itself, and what the user can do instead.
OWN_KAFKA_OPTIONS = {
    "bootstrap.servers": "use kafka.bootstrap_servers",
    "isolation.level": "leave it out: lakehouse always reads committed records only",
    "group.id": "leave it out: lakehouse keeps its progress in the lake, not in a consumer group",
    "enable.auto.commit": "leave it out: lakehouse keeps its progress in the lake, not in a consumer group",
    "auto.offset.reset": "leave it out: lakehouse starts where the lake ends",
}
ROLES = ("admin", "op", "user", "viewer")
OWN_AIRFLOW_OPTIONS = {
    "api.base_url": "use airflow.host and airflow.port",
    "api.host": "use airflow.host",
    "api.port": "use airflow.port",
    "api.secret_key": "leave it out: it is created once, in keys.json of Airflow's home",
    "api_auth.jwt_secret": "leave it out: it is created once, in keys.json of Airflow's home",
    "core.auth_manager": "leave it out: users are those of airflow.users",
    "core.dags_folder": "leave it out: it is the project's dags/",
    "core.executor": "leave it out: tasks run on this machine; for a cluster, see docs/airflow.md",
    "core.fernet_key": "leave it out: it is created once, in keys.json of Airflow's home",
    "core.plugins_folder": "leave it out: it is the project's plugins/",
    "core.parallelism": "use airflow.workers",
    "core.simple_auth_manager_all_admins": "leave it out: everyone signs in",
    "core.simple_auth_manager_users": "use airflow.users",
    "database.sql_alchemy_conn": "use airflow.database",
}


class Wrong(Exception):
    """An unusable value: found, expected, do. ``key``: the option of a table that it belongs to."""

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


def text(value: object) -> str:
    """Any text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise Wrong(f'found {value!r}; expected text in "quotes" that is not empty')
    return value.strip()


def servers(value: object) -> str:
    """``host:port``, or several separated by commas."""
    found = [part.strip() for part in text(value).split(",")]
    for part in found:
        if not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5}", part):
            raise Wrong(f'found {part!r}; expected host:port, several with commas between, such as "one:9092,two:9092"')
    return ",".join(found)


def integer(least: int, most: int | None) -> Check:
    """A whole number from ``least`` to ``most``, both included."""
    expected = f"a whole number from {least} to {most}" if most is not None else f"a whole number, {least} or more"

    def check(value: object) -> int:
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or value < least
            or (most is not None and value > most)
        ):
            raise Wrong(f"found {value!r}; expected {expected}")
        return value

    return check


def seconds(value: object) -> float:
    """A number of seconds, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise Wrong(f"found {value!r}; expected a number of seconds, 0 or more, such as 1.5")
    return float(value)


def memory(value: object) -> str:
    """A JVM memory size such as 3g or 512m."""
    if not isinstance(value, str) or not re.fullmatch(r"[1-9]\d*[mMgG]", value.strip()):
        raise Wrong(f'found {value!r}; expected a size in megabytes or gigabytes, such as "512m" or "3g"')
    return value.strip().lower()


def one_of(*known: str) -> Check:
    """One of these words."""

    def check(value: object) -> str:
        if value not in known:
            raise Wrong(f"found {value!r}; expected one of: {', '.join(known)}")
        return str(value)

    return check


def options(value: object) -> dict[str, str]:
    """A table of properties, as text. Messages never show a value: it may be a secret."""
    if not isinstance(value, dict):
        raise Wrong(
            f"found {type(value).__name__}; expected a table of names and values, in the file "
            '{ "name" = "value" }, in the environment the JSON object {"name": "value"}'
        )
    found = {}
    for name, one in value.items():
        if isinstance(one, dict):
            raise Wrong(
                f'found a table for {name}; a name with dots needs quotes: "{name}.{next(iter(one), "...")}" = ...',
                name,
            )
        if not isinstance(one, str | int | float):
            raise Wrong(f"found {type(one).__name__} for {name}; expected text, a number or true/false", name)
        found[name] = str(one).lower() if isinstance(one, bool) else str(one)
    return found


def kafka_options(value: object) -> dict[str, str]:
    """Kafka client properties, except those that lakehouse sets itself."""
    found = options(value)
    for name in found:
        plain = name.removeprefix("kafka.")
        if plain in OWN_KAFKA_OPTIONS:
            raise Wrong(f"found {name}, which lakehouse sets itself; {OWN_KAFKA_OPTIONS[plain]}", name)
        if plain != name:
            raise Wrong(f"found {name}; expected the property's own name: {plain}", name)
    return found


def airflow_options(value: object) -> dict[str, str]:
    """Settings of Airflow by "section.name", except those that lakehouse sets itself."""
    found = options(value)
    for name, one in found.items():
        if not re.fullmatch(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*", name):
            raise Wrong(
                f'found {name}; expected Airflow\'s section and name, such as "core.max_active_runs_per_dag"', name
            )
        if name in OWN_AIRFLOW_OPTIONS:
            raise Wrong(f"found {name}, which lakehouse sets itself; {OWN_AIRFLOW_OPTIONS[name]}", name)
        if "\n" in one or "\r" in one:
            raise Wrong(f"found more than one line for {name}; expected one", name)
    return found


def users(value: object) -> dict[str, str]:
    """Users of Airflow and their roles; one is an admin."""
    found = options(value)
    for name, role in found.items():
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,40}", name):
            raise Wrong(f"found the user {name!r}; expected letters, digits, _ . and -, a letter first", name)
        if role not in ROLES:
            raise Wrong(f"found the role {role!r} of {name}; expected one of: {', '.join(ROLES)}", name)
    if "admin" not in found.values():
        raise Wrong('found no admin; expected at least one, such as { admin = "admin", vera = "viewer" }')
    return found


def database(value: object) -> str:
    """Airflow's database as a SQLAlchemy URL. Messages never show the value: it contains a password."""
    if not isinstance(value, str) or not re.fullmatch(
        r"(postgresql(\+psycopg2)?://[^\s/]|sqlite:////)\S+", value.strip()
    ):
        raise Wrong(
            'this is not a database URL for Airflow; expected "postgresql+psycopg2://user:password@host/name", '
            'or "sqlite:////absolute/path.db"'
        )
    # If no driver is given, SQLAlchemy takes another one than Airflow's environment has.
    return re.sub(r"^postgresql:", "postgresql+psycopg2:", value.strip())


def url(value: object) -> str:
    """The address of a catalog."""
    if not re.fullmatch(r"https?://[^\s/@]+(/\S*)?", found := text(value)):
        raise Wrong('expected an address without user and password, such as "http://localhost:5000/api/v1/lineage"')
    return found


def secret(value: object) -> str:
    """A secret in one line. Messages never show the value."""
    if not isinstance(value, str) or not re.fullmatch(r"[\x21-\x7e]+", value.strip()):
        raise Wrong("expected one word of printable ASCII characters")
    return value.strip()


def host(value: object) -> str:
    """An address to listen on."""
    if not re.fullmatch(r"[A-Za-z0-9.:-]+", found := text(value)):
        raise Wrong(f'found {value!r}; expected an address of this machine, such as "127.0.0.1"')
    return found


def topics(value: object) -> tuple[str, ...]:
    """A list of topic names; in the environment, separated by commas."""
    found = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list) or not all(
        isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name.strip()) for name in found
    ):
        raise Wrong(f'found {value!r}; expected a list of topic names, such as ["orders", "clicks"]')
    return tuple(name.strip() for name in found)


def pattern(value: object) -> str:
    """A regular expression that matches whole topic names."""
    found = text(value)
    try:
        re.compile(found)
    except re.error as error:
        raise Wrong(f"found {value!r}, which is not a regular expression: {error}") from None
    return found


def boolean(value: object) -> bool:
    """true or false."""
    if value not in (True, False, "true", "false") or (value in (0, 1) and not isinstance(value, bool)):
        raise Wrong(f"found {value!r}; expected true or false")
    return value in (True, "true")


def duration(*words: str, least: str, why: str = "") -> Check:
    """A duration as text, at least `least`, or one of the words. `why`: the effect of a shorter one."""
    expected = " or ".join(['a duration such as "7 days"', *[f'"{word}"' for word in words]])

    def check(value: object) -> str:
        if value in words:
            return str(value)
        try:
            found = duration_ms(text(value), "")
        except PlanError:
            raise Wrong(f"found {value!r}; expected {expected}") from None
        if found < duration_ms(least, ""):
            raise Wrong(f"found {value!r}; expected at least {least}{f': {why}' if why else ''}")
        return text(value)

    return check


# The check of every setting, by section.
CHECKS: dict[str, dict[str, Check]] = {
    "lake": {"path": text, "app": text},
    "kafka": {
        "bootstrap_servers": servers,
        "options": kafka_options,
        "port": integer(1, 65535),
        "folder": text,
        "topics": topics,
        "topic_pattern": pattern,
    },
    "spark": {"master": text, "memory": memory, "options": options},
    "run": {
        "trigger_seconds": seconds,
        "max_records_per_tick": integer(1, None),
        "max_bytes_per_tick": integer(1024, None),
        "max_record_bytes": integer(1024, 1_000_000_000),
        "on_data_loss": one_of("fail", "record"),
    },
    "upkeep": {
        "enabled": boolean,
        "every_ticks": integer(1, None),
        "every_seconds": seconds,
        "optimize_files": integer(2, None),
        "keep_versions": duration(least="1 hour", why="a read in progress needs the files that it started with"),
        "anchors_every": duration(least="1 second"),
        "keep_anchors": duration("forever", least="1 second"),
    },
    "log": {
        "level": one_of("debug", "info", "warning", "error"),
        "format": one_of("auto", "text", "json"),
        "lag_seconds": seconds,
    },
    "metrics": {"port": integer(1, 65535), "host": host},
    "lineage": {"url": url, "namespace": text, "api_key": secret},
    "airflow": {
        "home": text,
        "host": host,
        "port": integer(1, 65535),
        "database": database,
        "workers": integer(1, 64),
        "users": users,
        "options": airflow_options,
    },
}
