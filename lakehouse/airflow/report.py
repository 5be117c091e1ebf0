"""The report of `lakehouse airflow status`: every process, its health according to Airflow, DAGs and applications."""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from lakehouse.airflow import api, manifest
from lakehouse.airflow.home import Home
from lakehouse.airflow.service import Running, find
from lakehouse.errors import AirflowError
from lakehouse.settings import config


@dataclass(frozen=True)
class Process:
    """A part of Airflow; `health` is Airflow's own answer.

    `memory_bytes` includes its children, and counts shared memory once if the system tells (Linux); `rss_bytes` counts
    shared memory for each process.
    """

    name: str
    pid: int | None
    uptime_seconds: float | None
    memory_bytes: int
    rss_bytes: int
    restarts: int
    last_end: str | None
    given_up: bool
    health: str | None


@dataclass(frozen=True)
class Report:
    """The whole report. `dags` and `import_errors` are None if Airflow could not be asked."""

    running: bool
    healthy: bool
    home: str
    url: str | None
    user: str
    password_file: str
    memory_bytes: int
    rss_bytes: int
    processes: tuple[Process, ...]
    dags: int | None
    import_errors: dict[str, str] | None
    applications: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def report(settings: config.Airflow) -> Report:
    """Look at the Airflow of a home. Raises ConfigError if a manifest there is invalid."""
    home = Home(settings.home)
    user = next(name for name, role in settings.users.items() if role == "admin")
    applications = tuple(str(one["name"]) for one in manifest.read_all(home.applications))
    running = find(home)
    if running is None:
        return Report(
            False, False, str(home.folder), None, user, str(home.passwords), 0, 0, (), None, None, applications
        )  # fmt: skip
    health = api.health(running.url)
    parts = tuple(_process(name, part, health) for name, part in running.parts.items())
    uptime = time.time() - running.created
    supervisor = Process("supervisor", running.pid, uptime, *_memory(running.pid, False), 0, None, False, None)
    seen = _dags(home, running, user)
    return Report(
        running=True,
        healthy=health is not None and health.is_healthy,
        home=str(home.folder),
        url=running.url,
        user=user,
        password_file=str(home.passwords),
        memory_bytes=sum(part.memory_bytes for part in (supervisor, *parts)),
        rss_bytes=sum(part.rss_bytes for part in (supervisor, *parts)),
        processes=(supervisor, *parts),
        dags=seen.count if seen else None,
        import_errors=seen.import_errors if seen else None,
        applications=applications,
    )


def _dags(home: Home, running: Running, user: str) -> api.Dags | None:
    with contextlib.suppress(AirflowError):
        if (password := home.password(user)) is not None:
            return api.dags(running.url, api.token(running.url, user, password))
    return None


def _process(name: str, part: dict[str, Any], health: api.Health | None) -> Process:
    pid = part["pid"]
    return Process(
        name,
        pid,
        time.time() - part["created"] if pid else None,
        *(_memory(pid, True) if pid else (0, 0)),
        part["restarts"],
        part["last_end"],
        part["given_up"],
        health.parts.get(name) if health else None,
    )


def _memory(pid: int, with_children: bool) -> tuple[int, int]:
    """The memory of a process, and its resident set, in bytes."""
    memory = resident = 0
    with contextlib.suppress(psutil.Error):
        own = psutil.Process(pid)
        for process in (own, *(own.children(recursive=True) if with_children else ())):
            with contextlib.suppress(psutil.Error):
                found = process.memory_full_info()
                memory += getattr(found, "pss", found.rss)
                resident += found.rss
    return memory, resident
