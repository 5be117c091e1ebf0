"""Airflow as a service of this machine: started, found again, ended."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehouse.airflow import api, environment, manifest, members
from lakehouse.airflow.home import Home, url_of
from lakehouse.airflow.private import write_private
from lakehouse.airflow.supervisor import STATE_FILE, Spec
from lakehouse.errors import AirflowError
from lakehouse.kafka import process
from lakehouse.settings import config
from lakehouse.setup import airflow as setup

# The arguments of `airflow`. The last part is ended last: the others report to it.
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
# A part that ends during its start may have met a busy database; one that ends this often can't start.
ENDS_WHILE_STARTING_MAX = 2
PORT_PATIENCE_SECONDS = 2.0
LINES_SHOWN = 12

Say = Callable[[str], None]


@dataclass(frozen=True)
class Running:
    """A supervisor that is alive. `created` is its start in seconds since 1970; `parts` is its state file's."""

    home: Home
    pid: int
    created: float
    url: str
    port: int
    parts: dict[str, dict[str, Any]]


def find(home: Home) -> Running | None:
    """The supervisor that runs on a home; None if there is none, whatever an old state file says."""
    try:
        state = json.loads((home.folder / STATE_FILE).read_text())
        place = json.loads((home.folder / "address.json").read_text())
        found = Running(
            home,
            int(state["pid"]),
            float(state["created"]),
            str(place["url"]),
            int(place["port"]),
            dict(state["parts"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if process.identify(found.pid, found.created, str(home.folder)) else None


def up(settings: config.Airflow, say: Say, timeout_seconds: float = START_TIMEOUT_SECONDS) -> tuple[Running, bool]:
    """Start Airflow and wait until it is healthy; return it, and whether it was started now.

    `say` is told about long steps. Raises AirflowError if it can't be set up or does not become healthy, ConfigError
    outside a checkout; then nothing of it runs. Also raises AirflowError if a running one has given up a part.
    """
    home = Home(settings.home)
    home.make()
    with _locked(home):
        if (running := find(home)) is not None:
            _look_at(running, settings, say)
            make_pools(running, settings)  # for applications that were added by hand
            return running, False
        if left := _end(home):
            say(f"Ended {left} processes that a killed Airflow had left behind.")
        airflow = setup.set_up(say)
        port = _choose_port(home, settings)
        home.make_passwords(tuple(settings.users))
        home.write_settings(settings, port)
        variables = environment.variables(home, airflow)
        _migrate(home, settings, airflow, variables, say)
        parts = {name: [str(airflow), *arguments] for name, arguments in PARTS.items()}
        Spec(parts, variables, str(home.folder), str(home.logs), grace_seconds=GRACE_SECONDS).write(home.folder)
        write_private(
            home.folder / "address.json", json.dumps({"url": url_of(settings.host, port), "port": port}) + "\n"
        )
        child = _spawn(home)
        try:
            running = _wait(home, child, timeout_seconds)
            make_pools(running, settings)
            return running, True
        except BaseException:
            _end(home)
            raise


def _look_at(running: Running, settings: config.Airflow, say: Say) -> None:
    """Report what is wrong with a running Airflow. Raises AirflowError if a part of it was given up."""
    home = running.home
    if gone := [name for name, part in running.parts.items() if part["given_up"]]:
        raise AirflowError(
            f"Airflow runs at {running.url}, but without {', '.join(gone)}: ended too often, and was given up. "
            f"The log: {home.logs / f'{gone[0]}.log'}. `lakehouse airflow down`, then `up`, restarts all of it."
        )
    if not home.has_settings(settings, settings.port or running.port):
        say("The settings have changed since it was started; `lakehouse airflow down`, then `up`, applies them.")


def down(settings: config.Airflow) -> bool:
    """End Airflow with everything that it started. Return whether there was something to end.

    If an `up` of this home is under way, wait for its end first.
    """
    home = Home(settings.home)
    if not home.folder.is_dir():
        return False
    with _locked(home):
        return _end(home) > 0


def _end(home: Home) -> int:
    """End everything that runs on a home; return how many processes there were."""
    supervisors = members.supervisors(home.folder)
    count = len(supervisors) + len(members.of(home.folder))
    members.end(supervisors, STOP_TIMEOUT_SECONDS)
    members.sweep(home.folder, None, GRACE_SECONDS)
    return count


def _spawn(home: Home) -> subprocess.Popen[bytes]:
    """Start the supervisor in a session of its own: it outlives the terminal and the shell."""
    with (home.logs / "supervisor.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", members.SUPERVISOR, str(home.folder)],
            cwd=home.folder,
            env={name: value for name, value in os.environ.items() if name != members.VARIABLE},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


@contextlib.contextmanager
def _locked(home: Home) -> Iterator[None]:
    """One start at a time on a home; the lock ends with the process that holds it."""
    with (home.folder / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _choose_port(home: Home, settings: config.Airflow) -> int:
    last = DEFAULT_PORT
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        last = int(json.loads((home.folder / "address.json").read_text())["port"])
    port = settings.port or last
    # A killed process holds its port for a moment after it can no longer be found.
    deadline = time.monotonic() + PORT_PATIENCE_SECONDS
    while not process.is_free(port):
        if time.monotonic() >= deadline:
            if settings.port is None:
                return process.free_port()
            raise AirflowError(
                f"Port {port} on {process.HOST} is in use{process.user_of(port)}; expected a free one. "
                "Stop what uses it, set another (setting airflow.port), or leave it out for any free port."
            )
        time.sleep(0.05)
    return port


def _migrate(home: Home, settings: config.Airflow, airflow: Path, variables: dict[str, str], say: Say) -> None:
    """Bring the database to this Airflow's schema. Skipped for our own file if this Airflow version did it before."""
    stamp = home.folder / "migrated"
    lock = hashlib.sha256((airflow.parent.parent / "installed.lock").read_bytes()).hexdigest()
    own_file = settings.database is None
    if own_file and home.database.is_file() and stamp.is_file() and stamp.read_text().strip() == lock:
        return
    say("Preparing Airflow's database (a few seconds).")
    log = home.logs / "migrate.log"
    with log.open("ab") as output:
        done = subprocess.run(
            [str(airflow), "db", "migrate"],
            env={**variables, members.VARIABLE: members.mark(home.folder, "migrate")},
            cwd=home.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        raise AirflowError(
            f"`airflow db migrate` ended with code {done.returncode}. Expected a database that can be reached and "
            f"written: setting airflow.database, or {home.database}. The whole log: {log}. Its last lines:\n"
            f"{_tail(log)}"
        )
    if own_file:
        write_private(stamp, lock + "\n")


def _wait(home: Home, child: subprocess.Popen[bytes], timeout_seconds: float) -> Running:
    started, deadline = time.time(), time.monotonic() + timeout_seconds
    said: api.Health | None = None
    while time.monotonic() < deadline:
        running = find(home)
        if child.poll() is not None:
            raise AirflowError(
                f"Airflow's supervisor ended with code {child.returncode} while it started. Its log:\n"
                f"{_tail(home.logs / 'supervisor.log')}"
            )
        if running is not None:
            for name, part in running.parts.items():
                if part["given_up"] or part["restarts"] >= ENDS_WHILE_STARTING_MAX:
                    raise AirflowError(
                        f"Airflow's {name} does not start: it ended with {part['last_end']}. The whole log: "
                        f"{home.logs / f'{name}.log'}. Its last lines:\n{_tail(home.logs / f'{name}.log')}"
                    )
            said = api.health(running.url, since=started)
            if said is not None and said.is_healthy:
                return running
        time.sleep(0.2)
    missing = [f"{part}: {state}" for part, state in (said.parts if said else {"api-server": "no answer"}).items()]
    raise AirflowError(
        f"Airflow was not healthy after {timeout_seconds:g} s ({', '.join(missing)}). Its logs are in {home.logs}. "
        "Try again when the machine is less busy."
    )


def make_pools(running: Running, settings: config.Airflow) -> None:
    """Make the pools of all applications: a task whose pool is missing would wait for ever. Raises AirflowError."""
    pools = {one["pool"]: one["name"] for one in manifest.read_all(running.home.applications) if one.get("pool")}
    if not pools:
        return
    user = next(one for one, role in settings.users.items() if role == "admin")
    bearer = api.token(running.url, user, running.home.password(user) or "")
    for pool, name in pools.items():
        api.make_pool(running.url, bearer, pool, 1, f"One writer of {name} at a time.")


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-LINES_SHOWN:] if log.is_file() else []
    return "\n".join(f"    {line}" for line in lines) or "    (nothing was logged)"
