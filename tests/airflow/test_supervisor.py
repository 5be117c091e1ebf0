"""The supervisor, with small processes in place of Airflow's parts: real processes, real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from lakehouse.airflow import members
from lakehouse.airflow.supervisor import LOG_KEPT_BYTES, STATE_FILE, Spec, move_large_log

SLEEP = "import time; time.sleep(600)"
# A part with a child in its own session, like a task's job, which ignores SIGTERM, like a hanging JVM.
FAMILY = f"""
import subprocess, sys, time
deaf = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print("deaf", flush=True); time.sleep(600)'
child = subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
print("ready", flush=True)
{SLEEP}
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home; processes that a test leaves running in it are ended."""
    yield tmp_path
    members.sweep_processes(tmp_path, None, 0.2)


@pytest.fixture
def supervise(home: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a supervisor over parts given as Python sources."""
    started = []

    def start(parts: dict[str, str], **options: Any) -> subprocess.Popen[bytes]:
        (home / "logs").mkdir(exist_ok=True)
        argv = {name: [sys.executable, "-c", source] for name, source in parts.items()}
        Spec(
            argv, {"PATH": os.environ["PATH"]}, str(home), str(home / "logs"), **{"grace_seconds": 1.0} | options
        ).write(home)
        with (home / "logs" / "supervisor.log").open("ab") as log:
            command = [sys.executable, "-m", "lakehouse.airflow.supervisor", str(home)]
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def until(condition: Callable[[], Any], timeout_s: float = 30.0) -> Any:
    """Wait for a condition, and return its value."""
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return result


def parts(home: Path) -> dict[str, dict[str, Any]]:
    try:
        return dict(json.loads((home / STATE_FILE).read_text())["parts"])
    except FileNotFoundError:
        return {}


def running(home: Path, *names: str) -> dict[str, int] | None:
    """The pids of the parts, as soon as all of them run."""
    result = {name: part["pid"] for name, part in parts(home).items() if part["pid"] and psutil.pid_exists(part["pid"])}
    return result if set(result) == set(names) else None


def log(home: Path) -> str:
    return (home / "logs" / "supervisor.log").read_text()


def test_sigterm_ends_every_part_and_what_it_started(home: Path, supervise: Callable[..., Any]) -> None:
    process = supervise({"one": FAMILY, "two": SLEEP})
    until(lambda: running(home, "one", "two"))
    until(lambda: "ready" in (home / "logs" / "one.log").read_text())
    before = members.processes_of_home(home)
    assert len(before) == 3
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert members.processes_of_home(home) == []
    assert members.wait_until_ended(before, 0.0) == []
    assert not (home / STATE_FILE).exists()
    assert "one left 1 processes behind; they were ended" in log(home)
    assert "ended all parts" in log(home)


def test_the_last_part_outlives_the_others(home: Path, supervise: Callable[..., Any]) -> None:
    """Tasks still report to the api-server while they are ended."""
    note = "import signal, sys, time, pathlib\ndef end(*_):\n {then}\n sys.exit()\nsignal.signal(signal.SIGTERM, end)\n"
    then = "pathlib.Path('{0}').write_text(str(time.time()))"
    slow = note.format(then="time.sleep(0.7); " + then.format("first")) + "print('ready', flush=True)\n" + SLEEP
    last = note.format(then=then.format("last")) + "print('ready', flush=True)\n" + SLEEP
    process = supervise({"first": slow, "last": last}, grace_seconds=10.0)
    for name in ("first", "last"):
        until(
            lambda name=name: (
                (home / "logs" / f"{name}.log").exists() and "ready" in (home / "logs" / f"{name}.log").read_text()
            )
        )
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert float((home / "first").read_text()) < float((home / "last").read_text())


def test_when_it_is_killed_its_parts_end_also_those_that_ignore_sigterm(
    home: Path, supervise: Callable[..., Any]
) -> None:
    process = supervise({"one": FAMILY, "two": SLEEP})
    pids = until(lambda: running(home, "one", "two"))
    until(lambda: "ready" in (home / "logs" / "one.log").read_text())
    process.kill()
    process.wait()
    own = [psutil.Process(pid) for pid in pids.values() if psutil.pid_exists(pid)]
    if sys.platform.startswith("linux"):  # elsewhere only the sweep ends them
        assert members.wait_until_ended(own, 10.0) == []
        assert len(members.processes_of_home(home)) == 1, "the deaf grandchild"
    assert members.sweep_processes(home, None, 0.3) >= 1
    assert members.processes_of_home(home) == []


def test_a_part_that_dies_is_started_again_and_its_children_ended(home: Path, supervise: Callable[..., Any]) -> None:
    supervise({"one": FAMILY, "two": SLEEP}, first_pause_seconds=0.1)
    pids = until(lambda: running(home, "one", "two"))
    until(lambda: "ready" in (home / "logs" / "one.log").read_text())
    child = next(item for item in members.processes_of_home(home, "one") if item.pid != pids["one"])
    os.kill(pids["one"], signal.SIGKILL)
    until(lambda: parts(home)["one"]["restarts"] == 1 and running(home, "one", "two"))
    assert members.wait_until_ended([child], 0.0) == [], "its successor would meet it"
    assert parts(home)["one"]["last_end"] == "signal SIGKILL"
    assert running(home, "one", "two")["two"] == pids["two"], "the other part was left alone"
    assert "one ended by itself with signal SIGKILL (1 processes of it were left, and ended)" in log(home)


def test_a_part_that_keeps_dying_is_given_up_and_the_others_go_on(home: Path, supervise: Callable[..., Any]) -> None:
    process = supervise(
        {"bad": "print('why'); raise SystemExit(3)", "good": SLEEP}, first_pause_seconds=0.05, restarts_max=3
    )
    until(lambda: parts(home).get("bad", {}).get("given_up"))
    assert parts(home)["bad"] == {
        "pid": None,
        "created": None,
        "restarts": 3,
        "last_end": "exit code 3",
        "given_up": True,
    }
    assert (home / "logs" / "bad.log").read_text().count("why") == 4
    pauses = [line.rpartition(" in ")[2] for line in log(home).splitlines() if "started again" in line]
    assert pauses == ["0.05 s", "0.1 s", "0.2 s"]
    assert running(home, "good")
    assert process.poll() is None


def test_the_supervisor_ends_when_every_part_is_given_up(home: Path, supervise: Callable[..., Any]) -> None:
    process = supervise({"bad": "raise SystemExit(3)"}, first_pause_seconds=0.05, restarts_max=1)
    assert process.wait(20) == 1
    assert "every part was given up" in log(home)


def test_a_program_that_does_not_exist_is_given_up(home: Path, supervise: Callable[..., Any]) -> None:
    supervise({"one": SLEEP})
    until(lambda: running(home, "one"))
    other = home / "other"
    (other / "logs").mkdir(parents=True)
    Spec({"none": ["/no/such/program"]}, {}, str(other), str(other / "logs")).write(other)
    command = [sys.executable, "-m", "lakehouse.airflow.supervisor", str(other)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert process.returncode == 1
    assert "none can't be started, and is given up" in process.stdout
    assert running(home, "one"), "another home's parts are left alone"


def test_parts_get_only_the_given_environment(home: Path, supervise: Callable[..., Any], monkeypatch: Any) -> None:
    monkeypatch.setenv("A_SECRET", "hush")
    supervise({"one": f"import os; print(sorted(os.environ), flush=True); {SLEEP}"})
    seen = until(lambda: (home / "logs" / "one.log").exists() and (home / "logs" / "one.log").read_text())
    assert "A_SECRET" not in seen
    assert "LAKEHOUSE_SUPERVISED_BY" in seen


def test_a_large_log_is_put_aside_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "one.log"
    with path.open("ab") as writer:
        writer.write(b"x" * (LOG_KEPT_BYTES + 1))
        writer.flush()
        move_large_log(path)
        writer.write(b"next")
    assert path.read_text() == "next"
    assert (tmp_path / "one.log.1").stat().st_size == LOG_KEPT_BYTES + 1


def test_the_spec_is_private(home: Path) -> None:
    Spec({}, {}, "", "").write(home)
    assert (home / "supervisor.json").stat().st_mode & 0o777 == 0o600


def test_homes_whose_names_begin_alike_are_distinguished(home: Path, supervise: Callable[..., Any]) -> None:
    supervise({"one": SLEEP})
    until(lambda: running(home, "one"))
    assert len(members.processes_of_home(home)) == len(members.find_supervisors(home)) == 1
    for other in (Path(str(home)[:-1]), home / "one", Path(f"{home}#one"), home.parent):
        assert members.processes_of_home(other) == members.find_supervisors(other) == []
    assert members.processes_of_home(home, "on") == []
