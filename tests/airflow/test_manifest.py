"""Manifests: what Airflow is told about an application, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.airflow import cron, manifest
from lakehouse.errors import ConfigError, NotFound
from lakehouse.ksql.script import application as in_sql
from lakehouse.settings.config import load


def application() -> lh.App:
    orders = lh.stream(
        "orders", key="customer string", format="json", schema="amount double, at timestamp", event_time="at"
    )
    returns = lh.stream(
        "returns", key="customer string", format="json", schema="amount double, at timestamp", event_time="at"
    )
    totals = orders.group_by("customer").agg(total=lh.sum("amount")).table("totals")
    hourly = orders.merge(returns).group_by("customer").window(lh.tumbling("1 hour")).agg(n=lh.count()).table("hourly")
    return lh.app(
        totals, hourly, totals.changes().to_topic("totals-changelog"), orders.filter("amount > 9").to_topic("big")
    )


@pytest.fixture
def made(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "lakehouse.toml").write_text("")
    settings = load(tmp_path / "lakehouse.toml", environ={})
    return manifest.manifest_of_app(
        application(), "/shop/app.py", settings, "shop", manifest.Schedules("@hourly", freshness_minutes=90)
    )


def test_what_airflow_is_told(made: dict[str, Any], tmp_path: Path) -> None:
    lineage = made.pop("lineage")
    assert made == {
        "version": 1,
        "name": "shop",
        "app": "/shop/app.py",
        "config": str(tmp_path / "lakehouse.toml"),
        "lake": str(tmp_path / "lake"),
        "topics": ["orders", "returns"],
        "streams": ["orders", "returns"],
        "tables": [
            {"name": "totals", "key": ["customer"], "windowed": False, "source_topics": ["orders"]},
            {
                "name": "hourly",
                "key": ["customer", "window_start", "window_end"],
                "windowed": True,
                "source_topics": ["orders", "returns"],
            },
        ],
        "sinks": [{"table": "totals", "topic": "totals-changelog"}],
        "schedule": "@hourly",
        "backfill_schedule": None,
        "freshness_minutes": 90,
        "pool": "lakehouse_shop",
    }
    assert [node["id"] for node in lineage["nodes"] if node["kind"] == "table"] == ["table:totals", "table:hourly"]
    assert {tuple(edge) for edge in lineage["edges"]} == {
        ("topic:orders", "stream:orders"),
        ("topic:returns", "stream:returns"),
        ("stream:orders", "table:totals"),
        ("stream:orders", "table:hourly"),
        ("stream:returns", "table:hourly"),
        ("table:totals", "changelog:totals-changelog"),
        ("stream:orders", "topic:big"),
    }
    ids = [node["id"] for node in lineage["nodes"]]
    assert {end for edge in lineage["edges"] for end in edge} == set(ids)
    assert len(ids) == len(set(ids))


def test_without_a_settings_file(tmp_path: Path) -> None:
    actual = manifest.manifest_of_app(application(), "/shop/app.py", load(environ={}, start=tmp_path), "shop")
    assert actual["config"] is None
    assert actual["lake"] == str(tmp_path / "lake")


def test_an_application_in_sql(tmp_path: Path) -> None:
    app = in_sql(
        "CREATE STREAM clicks (url VARCHAR KEY, ms BIGINT) WITH (kafka_topic='clicks', value_format='JSON');"
        "CREATE TABLE urls (url VARCHAR PRIMARY KEY, city VARCHAR) WITH (kafka_topic='urls', value_format='JSON');"
        "CREATE STREAM placed AS SELECT * FROM clicks c LEFT JOIN urls u ON c.url = u.url;"
        "CREATE TABLE means AS SELECT url, SUM(ms) / COUNT(*) AS mean FROM clicks WINDOW TUMBLING (SIZE 1 HOUR) "
        "GROUP BY url;"
    )
    actual = manifest.manifest_of_app(app, "/shop/app.sql", load(environ={}, start=tmp_path), "shop")
    assert {item["name"]: (item["key"], item["windowed"]) for item in actual["tables"]} == {
        "URLS": (["URL"], False),
        "MEANS_AGGREGATES": (["URL", "window_start", "window_end"], True),
        "MEANS": (["URL", "window_start", "window_end"], True),
    }
    assert actual["sinks"] == [{"table": "MEANS", "topic": "MEANS"}]
    edges = [tuple(edge) for edge in actual["lineage"]["edges"]]
    assert ("table:MEANS_AGGREGATES", "table:MEANS") in edges
    assert ("table:MEANS", "changelog:MEANS") in edges
    assert {edge for edge in edges if edge[1] == "topic:PLACED"} == {
        ("stream:CLICKS", "topic:PLACED"), ("table:URLS", "topic:PLACED"),
    }  # fmt: skip


def test_written_read_and_removed(made: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "applications"
    path = manifest.write_manifest(folder, made)
    assert [item.name for item in folder.iterdir()] == ["shop.json"], "nothing half written stays"
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text()) == made
    assert manifest.read_manifests(folder) == [made]
    manifest.write_manifest(folder, made | {"schedule": None})
    assert manifest.read_manifests(folder)[0]["schedule"] is None, "added again, it is replaced"
    manifest.remove_manifest(folder, "shop")
    assert manifest.read_manifests(folder) == []
    with pytest.raises(NotFound, match="There are: none"):
        manifest.remove_manifest(folder, "shop")


def test_a_name_belongs_to_one_application(made: dict[str, Any], tmp_path: Path) -> None:
    manifest.write_manifest(tmp_path, made)
    with pytest.raises(ConfigError, match=r"shop is already the application /shop/app\.py"):
        manifest.write_manifest(tmp_path, made | {"app": "/other/app.py"})
    with pytest.raises(ConfigError, match="was already added as shop"):
        manifest.write_manifest(tmp_path, made | {"name": "again"})
    manifest.write_manifest(tmp_path, made | {"name": "again", "lake": "/another/lake"})
    assert [item["name"] for item in manifest.read_manifests(tmp_path)] == ["again", "shop"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version": 2, "name": "odd"}', '{"version": 1, "name": "another"}'])
def test_a_file_that_is_no_manifest_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(ConfigError, match=r"odd\.json is not a manifest"):
        manifest.read_manifests(tmp_path)


HOSTILE = [
    "",
    "Shop",
    "1shop",
    "_shop",
    "shop-1",
    "shop.x",
    "../shop",
    "/shop",
    "a/b",
    "shop\n",
    "shop ",
    "a" * 42,
    "é",
    "{{x}}",
    "$(x)",
    "';--",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused(made: dict[str, Any], tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="expected a lower-case letter"):
        manifest.check_app_name(name)
    with pytest.raises(ConfigError):
        manifest.remove_manifest(tmp_path, name)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("/x/shop/app.py", "shop"),
        ("/x/flights.py", "flights"),
        ("/x/My Shop-2/main.py", "my_shop_2"),
        ("/x/A.B.py", "a_b"),
    ],
)
def test_a_name_from_the_file(file: str, name: str) -> None:
    assert manifest.suggest_app_name(Path(file)) == name


def test_a_file_whose_name_cannot_be_one() -> None:
    with pytest.raises(ConfigError, match="--name"):
        manifest.suggest_app_name(Path("/x/2024.py"))


@pytest.mark.parametrize("minutes", [0, -1, 10**9])
def test_freshness_has_bounds(minutes: int) -> None:
    with pytest.raises(ConfigError, match="--freshness-minutes"):
        manifest.Schedules(freshness_minutes=minutes)


@pytest.mark.parametrize(
    "text",
    [
        "@daily",
        "* * * * *",
        "*/15 * * * *",
        "0,30 9-17 1 jan-jun MON-fri",
        "59 23 31 12 7",
        "0-30/10 0 * * *",
        "0 0 29 2 *",
        "0 0 31 2 1",
    ],
)
def test_schedules(text: str) -> None:
    assert cron.check_schedule(text, "--schedule") == text


@pytest.mark.parametrize(
    "text",
    [
        "", "@never", "@reboot", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *",
        "* * * * 8", "5-1 * * * *", "*/0 * * * *", "a * * * *", "*  * * * *", "* * * * mon\n", "; rm * * *",
        "{{ x }} * * * *", "0 0 * * '", "-1 * * * *", "1- * * * *", "* * * * *; x",
        "0 0 31 2 *", "0 0 30,31 2 *", "0 0 31 4,jun,9-9,11 */1",
    ],
)  # fmt: skip
def test_a_text_that_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--schedule"):
        cron.check_schedule(text, "--schedule")
