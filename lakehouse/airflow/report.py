"""The report of `lakehouse airflow status`: every process, its health according to Airflow, DAGs and applications."""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from lakehouse.airflow import api, manifest
from lakehouse.airflow.home import Home
from lakehouse.airflow.service import RunningAirflow, find_running
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
        """Return the report for programs."""
        return asdict(self)


def report_airflow(settings: config.Airflow) -> Report:
    """Return a report of the Airflow of a home. Raises ConfigError if a manifest there is invalid."""
    home = Home(settings.home)
    admin_user = next(name for name, role in settings.users.items() if role == "admin")
    applications = tuple(str(app_manifest["name"]) for app_manifest in manifest.read_manifests(home.applications))
    running = find_running(home)
    if running is None:
        return Report(
            False, False, str(home.folder), None, admin_user, str(home.passwords), 0, 0, (), None, None, applications
        )  # fmt: skip
    airflow_health = api.ask_health(running.url)
    part_processes = tuple(_process_of_part(name, part, airflow_health) for name, part in running.parts.items())
    uptime_seconds = time.time() - running.created
    supervisor_process = Process(
        "supervisor", running.pid, uptime_seconds, *_memory_bytes(running.pid, False), 0, None, False, None
    )
    known_dags = _ask_dags(home, running, admin_user)
    return Report(
        running=True,
        healthy=airflow_health is not None and airflow_health.is_healthy,
        home=str(home.folder),
        url=running.url,
        user=admin_user,
        password_file=str(home.passwords),
        memory_bytes=sum(part.memory_bytes for part in (supervisor_process, *part_processes)),
        rss_bytes=sum(part.rss_bytes for part in (supervisor_process, *part_processes)),
        processes=(supervisor_process, *part_processes),
        dags=known_dags.count if known_dags else None,
        import_errors=known_dags.import_errors if known_dags else None,
        applications=applications,
    )


def _ask_dags(home: Home, running: RunningAirflow, user: str) -> api.Dags | None:
    with contextlib.suppress(AirflowError):
        if (password := home.password(user)) is not None:
            return api.ask_dags(running.url, api.sign_in(running.url, user, password))
    return None


def _process_of_part(name: str, part: dict[str, Any], airflow_health: api.Health | None) -> Process:
    process_id = part["pid"]
    return Process(
        name,
        process_id,
        time.time() - part["created"] if process_id else None,
        *(_memory_bytes(process_id, True) if process_id else (0, 0)),
        part["restarts"],
        part["last_end"],
        part["given_up"],
        airflow_health.parts.get(name) if airflow_health else None,
    )


def _memory_bytes(pid: int, with_children: bool) -> tuple[int, int]:
    """Return the memory of a process, and its resident set, in bytes."""
    memory_total = resident_total = 0
    with contextlib.suppress(psutil.Error):
        parent_process = psutil.Process(pid)
        for process in (parent_process, *(parent_process.children(recursive=True) if with_children else ())):
            with contextlib.suppress(psutil.Error):
                memory_info = process.memory_full_info()
                memory_total += getattr(memory_info, "pss", memory_info.rss)
                resident_total += memory_info.rss
    return memory_total, resident_total
