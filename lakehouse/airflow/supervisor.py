"""The one process that keeps Airflow's parts running: `python -m lakehouse.airflow.supervisor HOME`.

HOME/supervisor.json (`Spec`) names the parts to run; HOME/state.json, and lines on its stdout, report on them. The
supervisor restarts a part that ends after a pause that doubles each time, and gives up a part that keeps ending.
SIGTERM ends all parts with everything that they started. If the supervisor itself is killed, Linux sends its parts
SIGTERM; the next `up` or `down` finds and ends processes that still live (members.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from lakehouse.airflow import members
from lakehouse.airflow.private import write_private
from lakehouse.passed_on import SUPERVISED_BY
from lakehouse.process import parent_death_hook, start_mark
from lakehouse.signals import event_setter

SPEC_FILE = "supervisor.json"
STATE_FILE = "state.json"
POLL_SECONDS = 0.2
LOG_KEPT_BYTES = 10_000_000


@dataclass(frozen=True)
class Spec:
    """The parts to run. parts: name to argument list; the last part, to which the others report, ends after them.

    A part that lived for `steady_seconds` counts as well started; a part that ended earlier `restarts_max` times is
    given up. grace_seconds: between SIGTERM and SIGKILL.
    """

    parts: dict[str, list[str]]
    environ: dict[str, str]
    folder: str
    logs: str
    restarts_max: int = 8
    first_pause_seconds: float = 1.0
    longest_pause_seconds: float = 60.0
    steady_seconds: float = 60.0
    grace_seconds: float = 10.0

    @classmethod
    def read(cls, home: Path) -> Spec:
        """Return the spec in a home. Raises OSError, ValueError or TypeError if there is none, or it isn't a spec."""
        return cls(**json.loads((home / SPEC_FILE).read_text()))

    def write(self, home: Path) -> None:
        """Write the spec to the place where the supervisor of `home` reads it."""
        write_private(home / SPEC_FILE, json.dumps(asdict(self), indent=1) + "\n")


@dataclass
class Component:
    """The present state of a part. failures: how often in a row it ended early; due: the time of its restart."""

    name: str
    argv: list[str]
    process: subprocess.Popen[bytes] | None = None
    created: float = 0.0
    restarts: int = 0
    failures: int = 0
    due: float = 0.0
    started: float = 0.0
    last_end: str | None = None
    given_up: bool = False

    def state_entry(self) -> dict[str, Any]:
        """Return the part's entry in the state file."""
        process_id = self.process.pid if self.process is not None else None
        return {
            "pid": process_id,
            "created": self.created if process_id else None,
            "restarts": self.restarts,
            "last_end": self.last_end,
            "given_up": self.given_up,
        }


@dataclass
class Supervisor:
    """Runs a spec until `stop` is set."""

    home: Path
    spec: Spec
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._parts = [Component(name, argv) for name, argv in self.spec.parts.items()]

    def run(self) -> int:
        """Keep the parts running until `stop` is set, or until all are given up; return the exit code."""
        try:
            while not self.stop.is_set() and not all(part.given_up for part in self._parts):
                part_changes = [self._watch_part(part) for part in self._parts]
                if any(part_changes):
                    self._write_state()
                self.stop.wait(POLL_SECONDS)
        finally:
            self._end_parts(self._parts[:-1])
            self._end_parts(self._parts[-1:])
            (self.home / STATE_FILE).unlink(missing_ok=True)
        if not self.stop.is_set():
            write_log_line("every part was given up; this supervisor ends")
            return 1
        write_log_line("ended all parts")
        return 0

    def _watch_part(self, part: Component) -> bool:
        """Start a part that is due, and note a part that has ended; return whether something changed."""
        now = time.monotonic()
        if part.process is None:
            if part.given_up or now < part.due:
                return False
            self._start_part(part, now)
            return True
        exit_code = part.process.poll()
        if exit_code is None:
            move_large_log(self._log_file(part))
            return False
        part.last_end = describe_exit_code(exit_code)
        part.process = None
        # Otherwise its children would write at the same time as its successor.
        swept_count = members.sweep_processes(self.home, part.name, self.spec.grace_seconds)
        part.failures = 1 if now - part.started >= self.spec.steady_seconds else part.failures + 1
        part.given_up = part.failures > self.spec.restarts_max
        restart_pause = min(self.spec.first_pause_seconds * 2 ** (part.failures - 1), self.spec.longest_pause_seconds)
        part.due = time.monotonic() + restart_pause
        next_step = "given up" if part.given_up else f"it is started again in {restart_pause:g} s"
        write_log_line(
            f"{part.name} ended by itself with {part.last_end} ({swept_count} processes of it were left, and ended); "
            f"{next_step}"
        )
        return True

    def _start_part(self, part: Component, now: float) -> None:
        part.restarts += part.last_end is not None
        part.started = now
        log_file = self._log_file(part)
        try:
            with log_file.open("ab") as log_stream:
                part.process = subprocess.Popen(
                    part.argv,
                    cwd=self.spec.folder,
                    env={**self.spec.environ, SUPERVISED_BY: members.process_mark(self.home, part.name)},
                    stdin=subprocess.DEVNULL,
                    stdout=log_stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=parent_death_hook(),
                )
        except OSError as error:
            part.last_end, part.given_up = str(error), True
            write_log_line(f"{part.name} can't be started, and is given up: {error}")
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            part.created = psutil.Process(part.process.pid).create_time()
        write_log_line(f"{part.name} runs as process {part.process.pid}, its output goes to {log_file}")

    def _log_file(self, part: Component) -> Path:
        return Path(self.spec.logs) / f"{part.name}.log"

    def _end_parts(self, parts: list[Component]) -> None:
        running = [part.process for part in parts if part.process is not None]
        deadline = time.monotonic() + self.spec.grace_seconds
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            for process in running:
                # To the whole group: on its own, Airflow's scheduler would wait for its tasks to finish.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal_number)
            for process in running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()) if signal_number == signal.SIGTERM else None)
        # A task's job is in a group of its own. Normally the task ends it; this ends the remaining jobs.
        for part in parts:
            if swept_count := members.sweep_processes(self.home, part.name, self.spec.grace_seconds):
                write_log_line(f"{part.name} left {swept_count} processes behind; they were ended")

    def _write_state(self) -> None:
        supervisor_process = psutil.Process()
        state = {
            "pid": supervisor_process.pid,
            "created": supervisor_process.create_time(),
            "start": start_mark(supervisor_process.pid),
            "parts": {part.name: part.state_entry() for part in self._parts},
        }
        write_private(self.home / STATE_FILE, json.dumps(state, indent=1) + "\n")


def move_large_log(log_file: Path) -> None:
    """Move a large log's content aside, over the content moved before; its writer goes on."""
    if log_file.is_file() and log_file.stat().st_size > LOG_KEPT_BYTES:
        shutil.copyfile(log_file, log_file.with_name(f"{log_file.name}.1"))
        os.truncate(log_file, 0)  # the part appends, so that its next line is the first again


def describe_exit_code(exit_code: int) -> str:
    """Return how a process ended, for people."""
    return f"exit code {exit_code}" if exit_code >= 0 else f"signal {signal.Signals(-exit_code).name}"


def write_log_line(text: str) -> None:
    """Write a line of the supervisor's log."""
    print(f"{datetime.now(UTC).isoformat(timespec='seconds')} {text}", flush=True)


def main(arguments: list[str]) -> int:
    """Run the supervisor of the home that the command line names."""
    home = Path(arguments[0])
    supervisor = Supervisor(home, Spec.read(home))
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, event_setter(supervisor.stop))
    write_log_line(f"supervisor of {home}, process {os.getpid()}")
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
