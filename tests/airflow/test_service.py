"""Finding and ending the processes of a home, with small ones in place of Airflow's parts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.airflow import members, service
from lakehouse.airflow.home import Home
from lakehouse.airflow.supervisor import STATE_FILE, Spec
from lakehouse.errors import AirflowError
from lakehouse.settings.config import Airflow


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Home]:
    """A home with a supervisor of two sleeping parts, started as `up` starts it."""
    home = Home(tmp_path / "airflow")
    home.make()
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    Spec({"one": sleep, "two": sleep}, {}, str(home.folder), str(home.logs), grace_seconds=2.0).write(home.folder)
    (home.folder / "address.json").write_text('{"url": "http://127.0.0.1:9", "port": 9}')
    child = service._spawn_supervisor(home)
    try:
        deadline = time.monotonic() + 30
        while not (found := service.find_running(home)) or not all(part["pid"] for part in found.parts.values()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield home
    finally:
        child.kill()
        child.wait()
        members.sweep_processes(home.folder, None, 0.5)


def test_it_is_found_and_ended(running: Home) -> None:
    found = service.find_running(running)
    assert found is not None
    assert (found.url, set(found.parts)) == ("http://127.0.0.1:9", {"one", "two"})
    assert service.stop_airflow(Airflow(running.folder)) is True
    assert service.find_running(running) is None
    assert members.processes_of_home(running.folder) == members.find_supervisors(running.folder) == []
    assert service.stop_airflow(Airflow(running.folder)) is False


def test_it_is_ended_without_its_state_file_too(running: Home) -> None:
    """`up` was killed at a bad moment, or somebody removed the file."""
    (running.folder / STATE_FILE).unlink()
    assert service.find_running(running) is None
    assert service.stop_airflow(Airflow(running.folder)) is True
    assert members.processes_of_home(running.folder) == members.find_supervisors(running.folder) == []


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pid": "x", "created": 0, "parts": {}}'])
def test_a_broken_state_file_means_no_airflow(tmp_path: Path, text: str) -> None:
    home = Home(tmp_path)
    (tmp_path / STATE_FILE).write_text(text)
    (tmp_path / "address.json").write_text('{"url": "http://127.0.0.1:9", "port": 9}')
    assert service.find_running(home) is None


def test_up_says_when_the_settings_were_changed_meanwhile(running: Home) -> None:
    said: list[str] = []
    settings = Airflow(running.folder)
    running.write_settings(settings, 9)
    assert service.start_airflow(settings, said.append)[1] is False
    assert said == []
    service.start_airflow(Airflow(running.folder, workers=9), said.append)
    assert "The settings have changed" in said[0]


def test_up_reports_a_part_that_was_given_up(running: Home) -> None:
    running.write_settings(Airflow(running.folder), 9)
    state = json.loads((running.folder / STATE_FILE).read_text())
    state["parts"]["two"]["given_up"] = True
    (running.folder / STATE_FILE).write_text(json.dumps(state))
    with pytest.raises(AirflowError, match="but without two"):
        service.start_airflow(Airflow(running.folder), print)


def test_a_supervisor_that_cannot_start_says_why(tmp_path: Path) -> None:
    home = Home(tmp_path / "airflow")
    home.make()
    Spec({"bad": [sys.executable, "-c", "raise SystemExit('no room')"]}, {}, str(tmp_path), str(home.logs)).write(
        home.folder
    )
    (home.folder / "address.json").write_text('{"url": "http://127.0.0.1:9", "port": 9}')
    child = service._spawn_supervisor(home)
    try:
        with pytest.raises(AirflowError, match=r"Airflow's bad does not start: it ended with exit code 1") as caught:
            service._wait_until_healthy(home, child, 30.0)
        assert "no room" in str(caught.value)
    finally:
        service.stop_airflow(Airflow(home.folder))
    assert child.wait(10) == 0


def test_down_waits_for_an_up_that_is_still_running(tmp_path: Path) -> None:
    home = Home(tmp_path)
    code = (
        "import sys; from pathlib import Path; "
        "from lakehouse.airflow import service; from lakehouse.settings.config import Airflow; "
        "print(service.stop_airflow(Airflow(Path(sys.argv[1]))))"
    )
    with service._start_lock(home):
        waiting = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(3)
    assert waiting.communicate(timeout=30)[0].strip() == "False"
