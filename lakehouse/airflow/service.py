"""Starts, finds and ends Airflow as a service of this machine."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehouse import process
from lakehouse.airflow import api, environment, manifest, members
from lakehouse.airflow.home import Home, airflow_url
from lakehouse.airflow.private import write_private
from lakehouse.airflow.supervisor import STATE_FILE, Spec
from lakehouse.durable import lock_start
from lakehouse.errors import AirflowError
from lakehouse.passed_on import SUPERVISED_BY
from lakehouse.settings import config
from lakehouse.setup import airflow as setup

# The arguments of `airflow`. The last part ends last, since the others report to it.
PARTS: dict[str, tuple[str, ...]] = {
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "triggerer": ("triggerer", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "api-server": ("api-server",),
}
DEFAULT_PORT = 8080
START_TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 45.0
GRACE_SECONDS = 10.0
# A part that ends during its start may have met a busy database; a part that ends this often can't start.
ENDS_WHILE_STARTING_MAX = 2
PORT_PATIENCE_SECONDS = 2.0
LINES_SHOWN = 12

Say = Callable[[str], None]


@dataclass(frozen=True)
class RunningAirflow:
    """A living supervisor. created: its start in seconds since 1970; parts: from its state file."""

    home: Home
    pid: int
    created: float
    url: str
    port: int
    parts: dict[str, dict[str, Any]]


def find_running(home: Home) -> RunningAirflow | None:
    """Return the supervisor that runs on a home; None if there is none, whatever an old state file says."""
    try:
        supervisor_state = json.loads((home.folder / STATE_FILE).read_text())
        address = json.loads((home.folder / "address.json").read_text())
        running_airflow = RunningAirflow(
            home,
            int(supervisor_state["pid"]),
            float(supervisor_state["created"]),
            str(address["url"]),
            int(address["port"]),
            dict(supervisor_state["parts"]),
        )
        start = str(supervisor_state.get("start", ""))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    supervisor = process.identify_process(running_airflow.pid, running_airflow.created, str(home.folder), start)
    return running_airflow if supervisor else None


def start_airflow(
    settings: config.Airflow, say: Say, timeout_seconds: float = START_TIMEOUT_SECONDS
) -> tuple[RunningAirflow, bool]:
    """Start Airflow and wait until it is healthy; return it, and whether it was started now.

    say: called before long steps. Raises AirflowError if it can't be set up or does not become healthy, ConfigError
    outside a checkout; then nothing of it runs. Also raises AirflowError if a running Airflow has given up a part.
    """
    home = Home(settings.home)
    home.make_folders()
    with lock_start(home.folder):
        if (running := find_running(home)) is not None:
            _check_running(running, settings, say)
            make_pools(running, settings)  # for applications added by hand
            return running, False
        if ended_count := _end_all(home):
            say(f"Ended {ended_count} processes that a killed Airflow had left behind.")
        airflow = setup.set_up_airflow(say)
        port = _choose_port(home, settings)
        home.make_passwords(tuple(settings.users))
        home.write_settings(settings, port)
        airflow_variables = environment.airflow_variables(home, airflow, pass_on=settings.pass_on)
        _migrate_database(home, settings, airflow, airflow_variables, say)
        part_commands = {name: [str(airflow), *arguments] for name, arguments in PARTS.items()}
        Spec(part_commands, airflow_variables, str(home.folder), str(home.logs), grace_seconds=GRACE_SECONDS).write(
            home.folder
        )
        write_private(
            home.folder / "address.json", json.dumps({"url": airflow_url(settings.host, port), "port": port}) + "\n"
        )
        supervisor_process = _spawn_supervisor(home)
        try:
            running = _wait_until_healthy(home, supervisor_process, timeout_seconds)
            make_pools(running, settings)
            return running, True
        except BaseException:
            _end_all(home)
            raise


def _check_running(running: RunningAirflow, settings: config.Airflow, say: Say) -> None:
    """Report the faults of a running Airflow. Raises AirflowError if the supervisor has given up a part of it."""
    airflow_home = running.home
    if given_up_parts := [name for name, part in running.parts.items() if part["given_up"]]:
        raise AirflowError(
            f"Airflow runs at {running.url}, but without {', '.join(given_up_parts)}: ended too often, and was given "
            f"up. The log: {airflow_home.logs / f'{given_up_parts[0]}.log'}. `lakehouse airflow down`, then `up`, "
            "restarts all of it."
        )
    if not airflow_home.has_settings(settings, settings.port or running.port):
        say("The settings have changed since it was started; `lakehouse airflow down`, then `up`, applies them.")


def stop_airflow(settings: config.Airflow) -> bool:
    """End Airflow with everything that it started; return whether there was something to end.

    If an `up` of this home is under way, wait for its end first.
    """
    home = Home(settings.home)
    if not home.folder.is_dir():
        return False
    with lock_start(home.folder):
        return _end_all(home) > 0


def _end_all(home: Home) -> int:
    """End everything that runs on a home; return how many processes there were."""
    supervisors = members.find_supervisors(home.folder)
    process_count = len(supervisors) + len(members.processes_of_home(home.folder))
    members.end_processes(supervisors, STOP_TIMEOUT_SECONDS)
    members.sweep_processes(home.folder, None, GRACE_SECONDS)
    return process_count


def _spawn_supervisor(home: Home) -> subprocess.Popen[bytes]:
    """Start the supervisor in a session of its own: it outlives the terminal and the shell."""
    with (home.logs / "supervisor.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", members.SUPERVISOR, str(home.folder)],
            cwd=home.folder,
            env={name: value for name, value in os.environ.items() if name != SUPERVISED_BY},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _choose_port(home: Home, settings: config.Airflow) -> int:
    last_port = DEFAULT_PORT
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        last_port = int(json.loads((home.folder / "address.json").read_text())["port"])
    port = settings.port or last_port
    # A killed process holds its port for a moment after it has gone.
    deadline = time.monotonic() + PORT_PATIENCE_SECONDS
    while not process.is_port_free(port):
        if time.monotonic() >= deadline:
            if settings.port is None:
                return process.find_free_port()
            raise AirflowError(
                f"Port {port} on {process.HOST} is in use{process.describe_port_user(port)}; expected a free one. "
                "Stop what uses it, set another (setting airflow.port), or leave it out for any free port."
            )
        time.sleep(0.05)
    return port


def _migrate_database(home: Home, settings: config.Airflow, airflow: Path, variables: dict[str, str], say: Say) -> None:
    """Migrate the database to this Airflow's schema. Skip our own file if this version has migrated it before."""
    stamp_file = home.folder / "migrated"
    lock_digest = hashlib.sha256((airflow.parent.parent / "installed.lock").read_bytes()).hexdigest()
    is_own_file = settings.database is None
    if (
        is_own_file
        and home.database.is_file()
        and stamp_file.is_file()
        and stamp_file.read_text().strip() == lock_digest
    ):
        return
    say("Preparing Airflow's database (a few seconds).")
    migrate_log = home.logs / "migrate.log"
    with migrate_log.open("ab") as output:
        migration = subprocess.run(
            [str(airflow), "db", "migrate"],
            env={**variables, SUPERVISED_BY: members.process_mark(home.folder, "migrate")},
            cwd=home.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if migration.returncode != 0:
        raise AirflowError(
            f"`airflow db migrate` ended with code {migration.returncode}. Expected a database that can be reached and "
            f"written: setting airflow.database, or {home.database}. The whole log: {migrate_log}. Its last lines:\n"
            f"{_last_lines(migrate_log)}"
        )
    if is_own_file:
        write_private(stamp_file, lock_digest + "\n")


def _wait_until_healthy(
    home: Home, supervisor_process: subprocess.Popen[bytes], timeout_seconds: float
) -> RunningAirflow:
    start_time, deadline = time.time(), time.monotonic() + timeout_seconds
    last_health: api.Health | None = None
    while time.monotonic() < deadline:
        running = find_running(home)
        if supervisor_process.poll() is not None:
            raise AirflowError(
                f"Airflow's supervisor ended with code {supervisor_process.returncode} while it started. Its log:\n"
                f"{_last_lines(home.logs / 'supervisor.log')}"
            )
        if running is not None:
            for name, part in running.parts.items():
                if part["given_up"] or part["restarts"] >= ENDS_WHILE_STARTING_MAX:
                    raise AirflowError(
                        f"Airflow's {name} does not start: it ended with {part['last_end']}. The whole log: "
                        f"{home.logs / f'{name}.log'}. Its last lines:\n{_last_lines(home.logs / f'{name}.log')}"
                    )
            last_health = api.ask_health(running.url, since=start_time)
            if last_health is not None and last_health.is_healthy:
                return running
        time.sleep(0.2)
    unhealthy_parts = [
        f"{part}: {state}"
        for part, state in (last_health.parts if last_health else {"api-server": "no answer"}).items()
    ]
    raise AirflowError(
        f"Airflow was not healthy after {timeout_seconds:g} s ({', '.join(unhealthy_parts)}). Its logs are in "
        f"{home.logs}. Try again when the machine is less busy."
    )


def make_pools(running: RunningAirflow, settings: config.Airflow) -> None:
    """Create the pools of all applications: a task without its pool would wait for ever. Raises AirflowError."""
    app_by_pool = {
        entry["pool"]: entry["name"]
        for entry in manifest.read_manifests(running.home.applications)
        if entry.get("pool")
    }
    if not app_by_pool:
        return
    admin_user = next(entry for entry, role in settings.users.items() if role == "admin")
    bearer_token = api.sign_in(running.url, admin_user, running.home.password(admin_user) or "")
    for pool, name in app_by_pool.items():
        api.make_pool(running.url, bearer_token, pool, 1, f"One writer of {name} at a time.")


def _last_lines(log_file: Path) -> str:
    last_lines = log_file.read_text(errors="replace").splitlines()[-LINES_SHOWN:] if log_file.is_file() else []
    return "\n".join(f"    {line}" for line in last_lines) or "    (nothing was logged)"
