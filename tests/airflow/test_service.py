"""Starting, finding and ending Airflow as a service, with a small command in place of Airflow's own (stand_in.py)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.airflow import members, service
from lakehouse.airflow.home import Home
from lakehouse.airflow.supervisor import STATE_FILE
from lakehouse.errors import AirflowError
from lakehouse.process import find_free_port
from lakehouse.settings.config import Airflow

STAND_IN = Path(__file__).with_name("stand_in.py")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Airflow]:
    """Settings of a home in which nothing runs yet, and nothing runs afterwards."""
    command = tmp_path / "environment" / "bin" / "airflow"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    command.chmod(0o700)
    (tmp_path / "environment" / "installed.lock").touch()
    monkeypatch.setattr("lakehouse.setup.airflow.set_up_airflow", lambda say: command)
    settings = Airflow(tmp_path / "airflow", port=find_free_port())
    yield settings
    service.stop_airflow(settings)


@pytest.fixture
def running(settings: Airflow) -> Home:
    """A home in which all parts run."""
    assert service.start_airflow(settings, print)[1] is True
    return Home(settings.home)


def test_it_is_found_and_ended(settings: Airflow, running: Home) -> None:
    actual = service.find_running(running)
    assert actual is not None
    assert (actual.url, set(actual.parts)) == (f"http://127.0.0.1:{settings.port}", set(service.PARTS))
    assert service.stop_airflow(settings) is True
    assert service.find_running(running) is None
    assert members.processes_of_home(running.folder) == members.find_supervisors(running.folder) == []
    assert service.stop_airflow(settings) is False


def test_it_is_ended_without_its_state_file_too(settings: Airflow, running: Home) -> None:
    """`up` was killed at a bad moment, or somebody removed the file."""
    (running.folder / STATE_FILE).unlink()
    assert service.find_running(running) is None
    assert service.stop_airflow(settings) is True
    assert members.processes_of_home(running.folder) == members.find_supervisors(running.folder) == []


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pid": "x", "created": 0, "parts": {}}'])
def test_a_broken_state_file_means_no_airflow(tmp_path: Path, text: str) -> None:
    home = Home(tmp_path)
    (tmp_path / STATE_FILE).write_text(text)
    (tmp_path / "address.json").write_text('{"url": "http://127.0.0.1:9", "port": 9}')
    assert service.find_running(home) is None


def test_up_says_when_the_settings_were_changed_meanwhile(settings: Airflow, running: Home) -> None:
    said: list[str] = []
    assert service.start_airflow(settings, said.append)[1] is False
    assert said == []
    service.start_airflow(Airflow(running.folder, port=settings.port, workers=9), said.append)
    assert "The settings have changed" in said[0]


def test_up_reports_a_part_that_was_given_up(settings: Airflow, running: Home) -> None:
    state = json.loads((running.folder / STATE_FILE).read_text())
    state["parts"]["triggerer"]["given_up"] = True
    (running.folder / STATE_FILE).write_text(json.dumps(state))
    with pytest.raises(AirflowError, match="but without triggerer"):
        service.start_airflow(settings, print)


@pytest.mark.rotated
def test_a_part_that_cannot_start_says_why_and_nothing_stays(settings: Airflow) -> None:
    home = Home(settings.home)
    home.make_folders()
    (home.folder / "broken").write_text("api-server")
    with pytest.raises(AirflowError, match="Airflow's api-server does not start: it ended with exit code 1") as caught:
        service.start_airflow(settings, print)
    assert "no room" in str(caught.value)
    assert service.find_running(home) is None
    assert members.processes_of_home(home.folder) == members.find_supervisors(home.folder) == []


@pytest.mark.rotated
def test_down_waits_for_an_up_that_is_still_running(settings: Airflow) -> None:
    home = Home(settings.home)
    home.make_folders()
    (home.folder / "hold").touch()
    starting = threading.Thread(target=service.start_airflow, args=(settings, print))
    starting.start()
    deadline = time.monotonic() + 30
    while not (home.folder / "migrating").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    code = (
        "import sys; from pathlib import Path; "
        "from lakehouse.airflow import service; from lakehouse.settings.config import Airflow; "
        "print(service.stop_airflow(Airflow(Path(sys.argv[1]))))"
    )
    command = [sys.executable, "-c", code, str(home.folder)]
    waiting = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(3)
    (home.folder / "hold").unlink()
    assert waiting.communicate(timeout=60)[0].strip() == "True", "it ended what had been started"
    starting.join(60)
    assert service.find_running(home) is None
