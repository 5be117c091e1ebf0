"""`lakehouse airflow` on the real Airflow: its environment, four real processes, its REST API."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lakehouse.airflow import api, members
from lakehouse.errors import AirflowError

from .real import SETTINGS, Project

pytestmark = pytest.mark.airflow

PARTS = ["supervisor", "scheduler", "triggerer", "dag-processor", "api-server"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """An Airflow that is up, with an application added on the way."""
    made = Project.make(tmp_path_factory.mktemp("shop"))
    try:
        code, said = made.run("up", "--app", "app.py", "--name", "shop")
        assert code == 0, said
        assert made.url in said
        assert str(made.home / "passwords.json") in said
        assert made.password("admin") not in said
        yield made
    finally:
        made.down()


def test_it_is_up_and_healthy(running: Project) -> None:
    code, said = running.run("status")
    assert code == 0, said
    actual = running.json("status")
    assert [item["name"] for item in actual["processes"]] == PARTS
    assert {item["health"] for item in actual["processes"][1:]} == {"healthy"}
    assert {item["restarts"] for item in actual["processes"]} == {0}
    assert (actual["healthy"], actual["url"], actual["applications"]) == (True, running.url, ["shop"])
    assert actual["memory_bytes"] < 2**30


def test_a_second_up_says_so_and_changes_nothing(running: Project) -> None:
    before = [item["pid"] for item in running.json("status")["processes"]]
    started = time.monotonic()
    actual = running.json("up")
    assert time.monotonic() - started < 15
    assert actual["changed"] is False
    assert [item["pid"] for item in actual["processes"]] == before


def test_nothing_listens_outside(running: Project) -> None:
    listening = []
    supervisor = psutil.Process(running.json("status")["processes"][0]["pid"])
    for process in [*members.processes_of_home(running.home), supervisor]:
        with contextlib.suppress(psutil.NoSuchProcess):  # a process that reads DAGs lives for seconds
            listening += [
                connection.laddr
                for connection in process.net_connections(kind="inet")
                if connection.status == psutil.CONN_LISTEN
            ]
    assert [tuple(item) for item in listening] == [("127.0.0.1", running.port)]


def test_one_signs_in_with_the_generated_password_only(running: Project) -> None:
    bearer = api.sign_in(running.url, "admin", running.password("admin"))
    assert api.ask_dags(running.url, bearer).count >= 1
    for user, password in (("admin", ""), ("admin", "admin"), ("vera", running.password("admin")), ("eve", "x")):
        with pytest.raises(AirflowError, match=r"40[01]"):
            api.sign_in(running.url, user, password)
    for bearer in ("", "x.y.z"):
        with pytest.raises(AirflowError, match=r"40[13]"):
            api.ask_dags(running.url, bearer)


# What one may do, by role: without a login, viewer, user, op, admin. SECURITY.md has the same in words.
USERS = (None, "vera", "uma", "otto", "admin")
ALL, WRITERS, OPERATORS = (401, 200, 200, 200, 200), (401, 403, 200, 200, 200), (401, 403, 403, 200, 200)
NO_SUCH_DECISION = (401, 403, 404, 404, 404)
DEEDS = {
    "the page": ("GET", "/lakehouse/", None, ALL),
    "the page's applications": ("GET", "/lakehouse/api/applications", None, ALL),
    "the DAGs": ("GET", "/api/v2/dags", None, ALL),
    "pause a DAG": ("PATCH", "/api/v2/dags/lakehouse_catch_up", {"is_paused": False}, WRITERS),
    "clear a run": ("POST", "/api/v2/dags/lakehouse_catch_up/dagRuns/none/clear", {"dry_run": True}, NO_SUCH_DECISION),
    "approve": (
        "PATCH", "/api/v2/dags/shop__backfill/dagRuns/none/taskInstances/approve/-1/hitlDetails",
        {"chosen_options": ["Approve"]}, NO_SUCH_DECISION,
    ),
    "the connections": ("GET", "/api/v2/connections", None, OPERATORS),
    "the variables": ("GET", "/api/v2/variables", None, OPERATORS),
    "write a variable": ("POST", "/api/v2/variables", {"key": "x", "value": "x"}, (401, 403, 403, 201, 409)),
}  # fmt: skip


@pytest.mark.parametrize("deed", DEEDS)
def test_a_role_may_do_what_is_said_of_it(running: Project, deed: str) -> None:
    method, path, body, expected = DEEDS[deed]
    statuses = []
    for user in USERS:
        login = {} if user is None else {"Authorization": f"Bearer {bearer_of(running, user)}"}
        request = urllib.request.Request(
            f"{running.url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={**login, "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                statuses.append(answer.status)
        except urllib.error.HTTPError as error:
            statuses.append(error.code)
    assert tuple(statuses) == expected


def bearer_of(running: Project, user: str) -> str:
    return api.sign_in(running.url, user, running.password(user))


def test_no_dag_fails_to_import_and_none_is_paused(running: Project) -> None:
    bearer = api.sign_in(running.url, "admin", running.password("admin"))
    deadline = time.monotonic() + 60
    while api.ask_dags(running.url, bearer).count == 0 and time.monotonic() < deadline:
        time.sleep(1)
    assert api.ask_dags(running.url, bearer).import_errors == {}
    request = urllib.request.Request(
        f"{running.url}/api/v2/dags/lakehouse_catch_up", headers={"Authorization": f"Bearer {bearer}"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert json.load(answer)["is_paused"] is False


def test_secrets_are_in_private_files_only(running: Project) -> None:
    keys = json.loads((running.home / "keys.json").read_text())
    secrets = [*keys.values(), running.password("admin")]
    for name in ("keys.json", "passwords.json", "airflow.cfg", "supervisor.json"):
        assert (running.home / name).stat().st_mode & 0o777 == 0o600, name
    logs = "".join(path.read_text(errors="replace") for path in running.home.rglob("*.log"))
    lines = "".join(" ".join(process.cmdline()) for process in members.processes_of_home(running.home))
    for secret in secrets:
        assert secret not in logs
        assert secret not in lines


def test_a_part_that_dies_is_started_again(running: Project) -> None:
    before = {item["name"]: item["pid"] for item in running.json("status")["processes"]}
    os.kill(before["triggerer"], signal.SIGKILL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        actual = {item["name"]: item for item in running.json("status")["processes"]}
        if (
            actual["triggerer"]["restarts"] == 1
            and actual["triggerer"]["pid"]
            and actual["triggerer"]["health"] == "healthy"
        ):
            break
        time.sleep(1)
    assert actual["triggerer"]["last_end"] == "signal SIGKILL"
    assert actual["scheduler"]["pid"] == before["scheduler"]
    assert "triggerer ended by itself with signal SIGKILL" in (running.home / "logs" / "supervisor.log").read_text()


def test_a_second_home_on_another_port_beside_it(running: Project, tmp_path: Path) -> None:
    other = Project.make(tmp_path / "another 5% home")
    try:
        code, said = other.run("up")
        assert code == 0, said
        assert other.json("status")["healthy"]
        assert other.password("admin") != running.password("admin")
        with pytest.raises(AirflowError, match=r"40[13]"):
            api.ask_dags(other.url, api.sign_in(running.url, "admin", running.password("admin")))
        code, said = other.run("down")
        assert code == 0, said
        assert members.processes_of_home(other.home) == []
        assert running.json("status")["healthy"], "ending one leaves the other alone"
    finally:
        other.down()


def test_a_port_that_is_taken_is_named(running: Project, tmp_path: Path) -> None:
    other = Project.make(tmp_path)
    (tmp_path / "lakehouse.toml").write_text(SETTINGS.format(port=running.port))
    code, said = other.run("up")
    assert code == 1
    assert f"Port {running.port} on 127.0.0.1 is in use by pid" in said
    assert members.processes_of_home(other.home) == []


def test_after_the_supervisor_was_killed_up_works_again(running: Project) -> None:
    actual = running.json("status")["processes"]
    keys, password = (running.home / "keys.json").read_text(), running.password("admin")
    os.kill(actual[0]["pid"], signal.SIGKILL)
    assert running.run("status")[0] == 1
    code, said = running.run("up")
    assert code == 0, said
    after = running.json("status")
    assert after["healthy"]
    assert not {item["pid"] for item in actual} & {item["pid"] for item in after["processes"]}
    assert len(members.processes_of_home(running.home, "api-server")) == 1
    assert ((running.home / "keys.json").read_text(), running.password("admin")) == (keys, password)


def test_down_leaves_nothing_behind(running: Project) -> None:
    before = members.processes_of_home(running.home)
    assert len(before) >= 4
    started = time.monotonic()
    code, said = running.run("down")
    assert code == 0, said
    assert time.monotonic() - started < 60
    assert members.wait_until_ended(before, 0.0) == []
    assert members.processes_of_home(running.home) == []
    assert running.run("status")[0] == 1
    assert running.run("down")[0] == 0, "again: nothing to do"
