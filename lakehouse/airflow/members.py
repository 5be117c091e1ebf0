"""Finds and ends the processes that belong to an Airflow home, without any file of ours.

Every process that the supervisor starts has a variable in its environment. Its children inherit the variable: Airflow's
workers, the tasks, and the jobs that these start, in whatever process group or session.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from lakehouse.passed_on import SUPERVISED_BY

SUPERVISOR = "lakehouse.airflow.supervisor"
POLL_SECONDS = 0.05


def process_mark(home: Path, part: str) -> str:
    """Return the variable's value for a part of the Airflow in `home`."""
    return f"{home}#{part}"


def processes_of_home(home: Path, part: str | None = None) -> list[psutil.Process]:
    """Return the living processes of a home, or of one part of it, without the calling process."""
    members = []
    own_pid = psutil.Process().pid
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            variable_value = process.environ().get(SUPERVISED_BY, "") if process.pid != own_pid else ""
            home_text, _, part_name = variable_value.rpartition("#")
            if home_text == str(home) and part in (None, part_name) and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
    return members


def find_supervisors(home: Path) -> list[psutil.Process]:
    """Return the living supervisors of a home, by their command line: one killed during its start left no file."""
    supervisor_processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.cmdline()[-3:] == ["-m", SUPERVISOR, str(home)] and process.status() != psutil.STATUS_ZOMBIE:
                supervisor_processes.append(process)
    return supervisor_processes


def end_processes(processes: Iterable[psutil.Process], grace_seconds: float) -> None:
    """End processes: SIGTERM to each, and SIGKILL to those that still live after `grace_seconds`."""
    process_list = list(processes)
    for process in process_list:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    for process in wait_until_ended(process_list, grace_seconds):
        with contextlib.suppress(psutil.Error):
            process.kill()
    wait_until_ended(process_list, grace_seconds)


def wait_until_ended(processes: Iterable[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Wait until the processes have ended, at most `seconds`; return those that have not."""
    deadline = time.monotonic() + seconds
    living_processes = list(processes)
    while (
        living_processes := [process for process in living_processes if _is_alive(process)]
    ) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return living_processes


def _is_alive(process: psutil.Process) -> bool:
    # A zombie only waits for its parent; psutil's own wait() would wait for zombies, too.
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def sweep_processes(home: Path, part: str | None, grace_seconds: float) -> int:
    """End every process of a home, or of one part of it; return how many there were."""
    ended_count = 0
    # A process may start another process before its end.
    while living_processes := processes_of_home(home, part):
        ended_count += len(living_processes)
        end_processes(living_processes, grace_seconds)
    return ended_count
