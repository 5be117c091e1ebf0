"""`lakehouse airflow` without a running Airflow. With one: tests/airflow/test_real_airflow.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Command

APP = """
import lakehouse as lh

orders = lh.stream("orders", key="customer string", format="json", schema="amount double")
app = lh.app(orders.latest("last_order"))
"""


@pytest.fixture
def shop(folder: Path) -> Path:
    (folder / "shop").mkdir()
    (folder / "shop" / "app.py").write_text(APP)
    (folder / "shop" / "lakehouse.toml").write_text("")
    return folder / "shop" / "app.py"


def test_add_and_remove(lakehouse: Command, folder: Path, shop: Path) -> None:
    outcome = lakehouse("airflow", "add", "shop/app.py", "--schedule", "*/5 * * * *", "--json")
    assert outcome.code == 0, outcome.err
    manifest = json.loads((folder / ".lakehouse" / "airflow" / "applications" / "shop.json").read_text())
    assert json.loads(outcome.out) == manifest | {"file": str(folder / ".lakehouse/airflow/applications/shop.json")}
    assert (manifest["app"], manifest["config"], manifest["lake"]) == (str(shop), None, str(folder / "lake"))
    assert manifest["schedule"] == "*/5 * * * *"
    actual = json.loads(lakehouse("airflow", "status", "--json").out)
    assert actual["applications"] == ["shop"]
    assert lakehouse("airflow", "remove", "shop").code == 0
    again = lakehouse("airflow", "remove", "shop")
    assert again.code == 2
    assert "no application shop" in again.err


def test_schedules_that_are_left_out_stay(lakehouse: Command, shop: Path) -> None:
    def schedules(*options: str) -> list[Any]:
        outcome = lakehouse("airflow", "add", "shop/app.py", *options, "--json")
        manifest = json.loads(outcome.out)
        return [manifest[name] for name in ("schedule", "backfill_schedule", "freshness_minutes")]

    options = ("--schedule", "*/15 * * * *", "--backfill-schedule", "@hourly", "--freshness-minutes", "60")
    assert schedules(*options) == ["*/15 * * * *", "@hourly", 60]
    assert schedules() == ["*/15 * * * *", "@hourly", 60], "as `airflow up --app` gives them"
    assert schedules("--schedule", "@daily") == ["@daily", "@hourly", 60]
    assert schedules("--backfill-schedule", "none", "--freshness-minutes", "0") == ["@daily", None, None]
    assert "schedules: catch-up @daily." in lakehouse("airflow", "add", "shop/app.py").out


def test_an_application_with_settings_of_its_own_into_one_airflow(lakehouse: Command, folder: Path, shop: Path) -> None:
    outcome = lakehouse("airflow", "add", "shop/app.py:app", "--config", "shop/lakehouse.toml", "--home", "one")
    assert outcome.code == 0, outcome.err
    manifest = json.loads((folder / "one" / "applications" / "shop.json").read_text())
    assert manifest["app"] == f"{shop}:app"
    assert manifest["config"] == str(shop.parent / "lakehouse.toml")
    assert manifest["lake"] == str(shop.parent / "lake")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("absent.py",), "no such file"),
        (("shop.app",), "is a module; expected the application's file"),
        (("shop/app.py", "--name", "../x"), "expected a lower-case letter"),
        (("shop/app.py", "--schedule", "often"), "expected five fields"),
        (("shop/app.py", "--backfill-schedule", "60 * * * *"), "minute: found '60'"),
        (("shop/app.py", "--freshness-minutes", "-1"), "--freshness-minutes"),
    ],
)
def test_what_cannot_be_added(
    lakehouse: Command, folder: Path, shop: Path, arguments: tuple[str, ...], said: str
) -> None:
    outcome = lakehouse("airflow", "add", *arguments)
    assert outcome.code == 2
    assert said in outcome.err
    assert not list(folder.rglob("applications/*"))


def test_up_adds_the_application_of_the_settings(lakehouse: Command, folder: Path, shop: Path) -> None:
    """One that can't be added is refused before Airflow starts."""
    (folder / "lakehouse.toml").write_text('[lake]\napp = "absent.py"\n')
    outcome = lakehouse("airflow", "up")
    assert outcome.code == 2
    assert "absent.py" in outcome.err
    assert "no such file" in outcome.err
    assert not (folder / ".lakehouse").exists()


def test_status_and_down_where_nothing_runs(lakehouse: Command, folder: Path) -> None:
    status = lakehouse("airflow", "status")
    assert status.code == 1
    assert "does not run; `lakehouse airflow up` starts it" in status.out
    actual = json.loads(lakehouse("airflow", "status", "--json").out)
    assert (actual["running"], actual["healthy"], actual["processes"]) == (False, False, [])
    down = lakehouse("airflow", "down")
    assert (down.code, "nothing to stop" in down.out) == (0, True)
    assert json.loads(lakehouse("airflow", "down", "--json").out)["changed"] is False
    assert not (folder / ".lakehouse").exists(), "looking makes nothing"


def test_an_old_state_file_is_not_trusted(lakehouse: Command, folder: Path) -> None:
    """Its pid belongs to another process by now, which is neither shown nor ended."""
    home = folder / ".lakehouse" / "airflow"
    home.mkdir(parents=True)
    (home / "state.json").write_text(json.dumps({"pid": 1, "created": 0.0, "parts": {}}))
    (home / "address.json").write_text(json.dumps({"url": "http://127.0.0.1:1", "port": 1}))
    assert lakehouse("airflow", "status").code == 1
    assert "nothing to stop" in lakehouse("airflow", "down").out
