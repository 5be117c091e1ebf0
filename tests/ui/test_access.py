"""Without signing in nothing is shown; each request is checked before anything is opened or started."""

from __future__ import annotations

import json
import urllib.parse

import pytest

pytestmark = pytest.mark.ui

APP = "/lakehouse/api/applications/shop"
PATHS = [
    "/lakehouse/",
    "/lakehouse/static/app.js",
    "/lakehouse/static/vendor/uPlot.esm.js",
    "/lakehouse/api/applications",
    APP,
    f"{APP}/lag",
    f"{APP}/drills",
    f"{APP}/tables/totals/versions",
    f"{APP}/tables/totals/rows",
    f"{APP}/tables/totals/difference?a=1",
    f"{APP}/tables/totals/history?key=ann",
]
HOSTILE = [
    "../totals", "totals'--", 'totals"', "..%2f..%2fetc%2fpasswd", "$(id)", "{{ 7 }}", "silver.totals", "a" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_signed_out_it_refuses(airflow, path):
    for token in (None, "no.valid.token"):
        status, _, said = airflow.ask(path, token=token)
        assert status in (401, 403)
        assert b"totals" not in said
    status, headers, _ = airflow.ask(path, token=airflow.token())
    assert status == 200
    assert "default-src 'none'; script-src 'self'" in headers["Content-Security-Policy"]


def test_signed_out_nothing_is_explained(airflow):
    assert airflow.ask(f"{APP}/tables/totals/explain", body={"key": "ann"})[0] == 401
    assert airflow.ask(f"{APP}/tables/totals/explain?key=ann", token=airflow.token())[0] == 405  # a link starts nothing


def test_the_newest_records_of_a_topic_are_for_those_who_may_see_it(airflow):
    path = f"{APP}/topics/shop-totals-changelog/records"
    assert airflow.ask(path, body={})[0] == 401
    assert airflow.ask(path, token=airflow.token())[0] == 405  # a link starts nothing
    status, _, said = airflow.ask(path, token=airflow.token(), body={})
    assert status == 200
    newest = json.loads(said)
    assert 0 < len(newest) <= 20
    assert {"key", "value", "partition", "offset", "timestamp"} <= newest[0].keys()
    for name in ("__consumer_offsets", "totals", "%2D%2Dhelp", "a" * 5000):
        status, _, said = airflow.ask(f"{APP}/topics/{name}/records", token=airflow.token(), body={})
        assert (status, json.loads(said).keys()) == (404, {"error"})


def test_there_are_no_pages_that_document_the_api(airflow):
    for name in ("docs", "redoc", "openapi.json"):
        assert airflow.ask(f"/lakehouse/{name}", token=airflow.token())[0] == 404


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_not_found(airflow, name):
    quoted, token = urllib.parse.quote(name, safe="%"), airflow.token()
    for path in (f"/lakehouse/api/applications/{quoted}", f"{APP}/tables/{quoted}/rows", f"/lakehouse/static/{quoted}"):
        status, _, said = airflow.ask(path, token=token)
        assert (status, json.loads(said).keys()) in [(404, {"error"}), (404, {"detail"})]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=0", 422), ("limit=501", 422), ("limit=many", 422), ("at=tick:99999", 404), ("at=99", 404),
        ("at=whenever", 422), ("at=%00", 422), ("prefix=%27%20OR%201=1--", 200), ("prefix=" + "k" * 2000, 422),
    ],
)  # fmt: skip
def test_parameters_are_checked(airflow, query, status):
    actual, _, said = airflow.ask(f"{APP}/tables/totals/rows?{query}", token=airflow.token())
    assert actual == status
    assert json.loads(said).get("rows") == [] if status == 200 else json.loads(said)["error"]


def test_rows_are_those_that_the_command_reads(airflow, shop):
    for version, more in ((None, ()), (2, ("--version", "2"))):
        path = f"{APP}/tables/totals/rows?at={version or 'now'}"
        data = json.loads(airflow.ask(path, token=airflow.token())[2])
        names = [column["name"] for column in data["columns"]]
        assert [dict(zip(names, row, strict=True)) for row in data["rows"]] == shop.query(
            "SELECT * FROM totals ORDER BY customer", *more
        )


def test_the_rows_over_time_are_those_of_each_version(airflow, shop):
    data = json.loads(airflow.ask(f"{APP}/tables/current_orders/versions", token=airflow.token())[2])
    for item in data["versions"]:
        (counted,) = shop.query("SELECT count(*) AS rows FROM current_orders", "--version", str(item["version"]))
        assert item["rows"] == counted["rows"]
    assert len({item["rows"] for item in data["versions"] if not item["quiet"]}) == 6  # the creation and five batches


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({"key": "ann"}, 200, None),
        ({"key": "ann", "version": 2}, 200, None),
        ({"key": "nobody"}, 404, "no record in bronze reaches it"),
        ({"key": "--help"}, 404, "no record in bronze reaches it"),
        ({"key": ""}, 422, "key"),
        ({"key": "k" * 2000}, 422, "key"),
        ({"key": "ann", "version": -1}, 422, "version"),
        ({"key": "ann", "version": 999}, 422, "version"),
    ],
)
def test_a_row_is_explained_by_the_command(airflow, asked, status, said):
    actual, _, answer = airflow.ask(f"{APP}/tables/totals/explain", token=airflow.token(), body=asked)
    assert actual == status
    if said is not None:
        assert said in json.loads(answer)["error"]
        return
    (row,) = json.loads(answer)
    assert (row["agrees"], row["key"]) == (True, {"customer": "ann"})
    assert [step["did"] for step in row["steps"]][:2] == ["inserted", "updated"]
    assert row["found"] == row["steps"][-1]["row"]
