"""Airflow is ended, or loses its api-server, while a job of the project runs."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from lakehouse.airflow import api, members

from .real import Project

pytestmark = pytest.mark.airflow

DAG = "/api/v2/dags/lakehouse_catch_up"
# Below the project's folder, as the DAG requires.
SLOW_APP = "tests/airflow/slow_app.py"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project.make(tmp_path)
    yield made
    made.down()


def ask(project: Project, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    bearer = api.sign_in(project.url, "admin", project.password("admin"))
    request = urllib.request.Request(
        project.url + path,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return dict(json.load(answer))


def until(condition: Callable[[], Any], timeout_s: float = 120.0) -> Any:
    """Wait for a condition, and return its value."""
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.5)
    return result


def jobs(project: Project) -> list[psutil.Process]:
    """The jobs that this Airflow's scheduler has started."""
    scheduler = next(item["pid"] for item in project.json("status")["processes"] if item["name"] == "scheduler")
    return [item for item in psutil.Process(scheduler).children(recursive=True) if SLOW_APP in command_line(item)]


def command_line(process: psutil.Process) -> list[str]:
    """A process' command line; empty where it has ended since it was listed."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # of ZombieProcess, too
        return []


def test_a_running_job_ends_with_airflow_and_is_tried_again(project: Project) -> None:
    code, said = project.run("up")
    assert code == 0, said
    until(lambda: api.ask_dags(project.url, api.sign_in(project.url, "admin", project.password("admin"))).count)
    run = ask(project, f"{DAG}/dagRuns", {"logical_date": None, "conf": {"app": SLOW_APP}})["dag_run_id"]
    own = until(lambda: jobs(project))
    log = f"{DAG}/dagRuns/{run}/taskInstances/ingest/logs/1"
    until(lambda: "Pre Execute" in json.dumps(ask(project, log)))  # a running task's log, without a log server

    code, said = project.run("down")
    assert code == 0, said
    assert members.wait_until_ended(own, 0.0) == []
    assert members.processes_of_home(project.home) == []

    code, said = project.run("up")
    assert code == 0, said
    assert ask(project, f"{DAG}/dagRuns/{run}")["state"] == "running"
    task = ask(project, f"{DAG}/dagRuns/{run}/taskInstances/ingest")
    assert task["state"] in ("up_for_retry", "scheduled", "queued", "running"), "its end was reported before"
