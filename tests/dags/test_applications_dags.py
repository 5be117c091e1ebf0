"""The DAGs of applications on a real Airflow: they parse, refuse bad params, and act on how commands end.

The commands here are a few lines each, each with a given end; test_applications_real.py runs the real ones.
"""

import json
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.dags.living import KINDS

STATUS = {
    "tick": 7, "topics": [{"name": "orders", "next": {"0": 3}, "lag": 0}],
    "tables": [{"name": name, "rows": 2, "version": 4, "tick": 7} for name in ("current_orders", "totals")],
}  # fmt: skip
BACKFILLED = '{"table": "totals", "added": 0, "removed": 0, "changed": 0}'
# The stand-in for the project's Python: its arguments are `-P -m lakehouse.cli.main [GROUP] COMMAND ...`.
PYTHON = """#!/bin/sh
printf '%s\\n' "$*" >> {calls}
printf '%s\\n' "$LAKEHOUSE_DECIDED_BY" >> {calls}.by
cd {folder}
case "$4" in look|past|repair|test|deploy) shift ;; esac
case "$4" in
status) printf '%s\\n' '{status}' ;;
{cases}
run) printf '{{"event": "done"}}\\n' ;;
backfill)
    printf '{{"event": "progress", "records": 1}}\\n' >&2
    case "$*" in *--discard*) printf '{{"discarded": true}}\\n' ;; *) printf '{counts}\\n' ;; esac ;;
discard) printf '{{"discarded": true}}\\n' ;;
esac
"""


@dataclass(frozen=True)
class Shop:
    """An application, and how Airflow finds it. Its name is unique: Airflow remembers events of its tables."""

    name: str
    environ: dict[str, str]


@pytest.fixture
def shop(tmp_path: Path, manifest: Callable[..., Path]) -> Callable[..., Shop]:
    """Make an application whose commands end as given: shop("run) exit 2 ;;")."""

    def make(cases: str = "") -> Shop:
        python = tmp_path / "python"
        calls = tmp_path / "calls"
        told = {"status": json.dumps(STATUS), "counts": BACKFILLED}
        python.write_text(PYTHON.format(calls=calls, folder=tmp_path, cases=cases, **told))
        python.chmod(0o755)
        name = f"shop_{uuid.uuid4().hex[:8]}"
        folder = manifest(name=name, app=str(tmp_path / "app.py"), config=None, lake=str(tmp_path / "lake")).parent
        return Shop(name, {"LAKEHOUSE_APPLICATIONS": str(folder), "LAKEHOUSE_PYTHON": str(python)})

    return make


@pytest.fixture
def run(airflow, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Run a DAG of an application: run(shop(), "catch_up", {}, pause_s=0.1)."""

    def ask(of: Shop, kind: str, conf: dict[str, Any], **order: Any) -> dict[str, Any]:
        order = {"dag_id": f"{of.name}__{kind}", "conf": conf, "events_of": f"{of.name}.totals", **order}
        return airflow.ask(tmp_path, "run_of", order, **of.environ)

    return ask


def _calls(folder: Path) -> list[str]:
    lines = (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []
    return [line.removeprefix("-P -m lakehouse.cli.main ") for line in lines]


def _states(found: dict[str, Any]) -> dict[str, str]:
    return {task: of["state"] for task, of in found["tasks"].items()}


@pytest.mark.rotated
def test_a_schedule_that_airflow_cant_use_costs_the_other_applications_nothing(airflow, tmp_path, manifest):
    folder = manifest(schedule="@quarterly", backfill_schedule="0 0 29 2 *").parent
    manifest(name="hour", schedule="60 * * * *")
    manifest(name="never", backfill_schedule="0 0 31 2 *")
    actual = airflow.ask(tmp_path, "inspect_all", LAKEHOUSE_APPLICATIONS=str(folder))
    assert actual["import_errors"] == {}
    assert {name.partition("__")[0] for name in actual["dags"] if "__" in name} == {"shop"}
    said = actual["dags"]["lakehouse_refused_manifests"]["doc"]
    assert "hour.json: schedule is '60 * * * *', which Airflow can't use: [60 * * * *] is not acceptable" in said
    assert "never.json: backfill_schedule is '0 0 31 2 *', which Airflow can't use: failed to find next date" in said


def test_each_application_has_its_dags_and_a_bad_manifest_is_named(airflow, tmp_path, manifest):
    folder = manifest(schedule="@hourly", freshness_minutes=30, pool="lakehouse_shop").parent
    manifest(name="bank", backfill_schedule="0 * * * *", streams=["orders", "prices"])
    (folder / "broken.json").write_text("{")
    actual = airflow.ask(tmp_path, "inspect_all", LAKEHOUSE_APPLICATIONS=str(folder))
    assert actual["import_errors"] == {}
    made = {f"{name}__{kind}" for name in ("bank", "shop") for kind in KINDS}
    assert set(actual["dags"]) == made | {"lakehouse_catch_up", "lakehouse_refused_manifests"}
    assert "broken.json: broken.json: can't be read" in actual["dags"]["lakehouse_refused_manifests"]["doc"]
    dags = {name: actual["dags"][name] for name in made}
    assert {dag["max_active_runs"] for dag in dags.values()} == {1}
    assert {dag["catchup"] for dag in dags.values()} == {False}
    assert dags["shop__catch_up"]["deadlines"] == 1
    assert dags["bank__catch_up"]["deadlines"] == 0
    assert dags["shop__backfill_interval"]["paused_at_first"]
    assert not dags["bank__backfill_interval"]["paused_at_first"]
    # First seen at 04:08 on a Sunday: an application that was just added has no tables to drill yet.
    assert dags["shop__recovery_drill"]["first_run"] == "2026-11-29T03:00:00+00:00"
    assert dags["shop__table_maintenance"]["first_run"] == "2026-11-23T04:00:00+00:00"
    assert dags["shop__backfill_range"]["first_run"] is None
    assert dags["shop__backfill_range"]["teardowns"] == ["discard"]
    assert dags["shop__backfill_range"]["setups"] == ["plan"]
    outlets = {"shop.current_orders", "shop.totals"}
    assert set(dags["shop__catch_up"]["outlets"]) == set(dags["shop__backfill_range"]["outlets"]) == outlets
    assert dags["shop__backfill_interval"]["outlets"] == [], "a backfill of many intervals floods nobody"
    assert dags["shop__backfill_range"]["pools"]["backfill"] == "lakehouse_shop"
    assert dags["shop__backfill_range"]["pools"]["approve"] == "default_pool"
    assert {name: dag["empty_texts"] for name, dag in dags.items() if dag["empty_texts"]} == {}, "the UI's form says no"
    assert actual["heavy_modules"] == []
    assert actual["file_s"] < 1.5, "the processor parses this file again and again"


def test_bad_params_are_refused_when_a_run_is_made(airflow, tmp_path, shop):
    one = shop()
    good = [
        {"table": "totals"}, {"table": "totals", "from": "2013-07-04", "to": "2013-07-05T00:00Z"},
        {"table": "totals", "offsets": "orders/0=1..9,orders/1=3..3"}, {"table": "totals", "reason": None},
        {"table": "totals", "dry_run": False, "reason": "'; rm -rf / # {{ x }} ä 😀"},
    ]  # fmt: skip
    bad = [
        {}, {"table": "orders"}, {"table": "totals; id"}, {"table": None}, {"table": "totals", "dry_run": "no"},
        {"table": "totals", "from": "yesterday"}, {"table": "totals", "from": "2013-07-04; id"},
        {"table": "totals", "from": "2013-07-04\n"}, {"table": "totals", "from": "{{ ds }}"},
        {"table": "totals", "offsets": "orders/0=1"}, {"table": "totals", "offsets": "$(id)/0=1..2"},
        {"table": "totals", "chunk_hours": 0}, {"table": "totals", "chunk_hours": "24"},
        {"table": "totals", "reason": "a\nb"}, {"table": "totals", "reason": "x" * 301},
    ]  # fmt: skip
    refused = airflow.ask(
        tmp_path, "judge_of", {"dag_id": f"{one.name}__backfill_range", "confs": good + bad}, **one.environ
    )["refused"]
    assert refused == [False] * len(good) + [True] * len(bad)


@pytest.mark.airflow
@pytest.mark.parametrize(
    ("kind", "conf", "said"),
    [
        ("backfill_range", {"table": "totals", "tabel": "totals"}, r"does not have: \['tabel'\]"),
        ("backfill_range", {"table": "totals", "dry_run": False}, "reason is empty"),
        ("catch_up", {"app": "/etc/passwd"}, "does not have"),
        ("backfill_interval", {"from": "2013-07-04"}, "found one of from and to"),
        ("backfill_interval", {}, "no data interval: expected the params from and to"),
    ],
)
def test_unknown_or_contradictory_params_fail_the_first_task(run, tmp_path, shop, kind, conf, said):
    actual = run(shop(), kind, conf, by_hand=True)
    assert actual["state"] == "failed"
    assert actual["tasks"]["check_request"]["tries"] == 1
    assert re.search(said, actual["log"])
    assert _calls(tmp_path) == []


@pytest.mark.rotated
def test_a_dry_run_plans_cleans_up_and_changes_nothing(run, tmp_path, shop):
    actual = run(shop(), "backfill_range", {"table": "totals", "from": "2013-07-04", "to": "2013-07-05"})
    states = _states(actual)
    assert actual["state"] == "success", actual["log"]
    assert [states[task] for task in ("check_request", "plan", "unless_dry_run", "discard")] == ["success"] * 4
    assert [states[task] for task in ("approve", "reconcile", "facts")] == ["skipped"] * 3
    assert [re.findall("--(plan|discard|why)", call) for call in _calls(tmp_path)] == [["plan"], ["discard"]]
    assert actual["tasks"]["plan"]["xcom"] == {**json.loads(BACKFILLED), "event": "done"}
    # Airflow's user reaches the command, which writes it into the log of interventions.
    assert {*(tmp_path / "calls.by").read_text().splitlines()} == {"dag_test in Airflow"}


@pytest.mark.airflow
def test_an_approved_backfill_runs_its_chunks_and_reports_once(run, tmp_path, shop):
    conf = {"table": "totals", "from": "2013-07-04", "to": "2013-07-06", "dry_run": False, "reason": "{{ 7*7 }} a bug"}
    one = shop()
    actual = run(one, "backfill_range", conf, mark_success="approve")
    states = _states(actual)
    assert actual["state"] == "success", actual["log"]
    assert (states["backfill/0"], states["backfill/1"], states["reconcile"]) == ("success",) * 3
    assert (states["tables.totals"], states["tables.current_orders"]) == ("success", "skipped")
    assert actual["tasks"]["backfill/1"]["label"] == "2013-07-05T00:00:00Z to 2013-07-06T00:00:00Z"
    done = [call for call in _calls(tmp_path) if "--why" in call]
    assert {*re.findall(r"--from=(\S+)", str(done))} == {"2013-07-04T00:00:00Z", "2013-07-05T00:00:00Z"}
    assert len(done) == 2
    assert all("--why={{ 7*7 }} a bug --lake" in call for call in done), "braces are no template"
    told = {
        "rows": 2, "version": 4, "tick": 7, "unmet": {}, "offsets": {"orders": {"0": 3}}, "reason": "{{ 7*7 }} a bug",
    }  # fmt: skip
    assert actual["events"] == [told]
    assert actual["tasks"]["plan"]["link"] == f"/lakehouse/?app={one.name}&table=totals"
    assert actual["tasks"]["plan"]["progress"]["records"] == 1, "what a command tells meanwhile is the task's state"
    again = run(one, "backfill_range", conf, mark_success="approve")
    assert _states(again)["tables.totals"] == "skipped", "nothing changed since, so nothing is told"
    assert again["events"] == [told]


STAGED = """stage) told='"digest": "0123456789abcdef", "records": 9, "stages": ["1. swap"]'
    printf '{%%s, "tables": {"totals": %s}}\\n' "$told" ;;
promote) printf '{"tick": 8, "before": 7, "tables": {"totals": %s}}\\n' ;;
discard) printf '{"discarded": true}\\n' ;;"""
COUNTS = '{"added": 1, "removed": 0, "changed": 2}'


@pytest.mark.airflow
@pytest.mark.parametrize(
    ("cases", "conf", "commands"),
    [
        (STAGED % (COUNTS, COUNTS), {"dry_run": False, "reason": "--app=x"}, ["stage", "promote", "discard"]),
        (STAGED % (COUNTS, COUNTS), {}, ["stage", "discard"]),
        (STAGED.replace('"totals": %s', "") % (), {"dry_run": False, "reason": "none"}, ["stage", "discard"]),
    ],
    ids=["approved", "dry-run", "nothing-to-deploy"],
)
def test_a_deployment_is_staged_approved_and_promoted(run, tmp_path, shop, cases, conf, commands):
    actual = run(shop(cases), "deploy", conf, mark_success="approve")
    assert actual["state"] == "success", actual["log"]
    calls = [call for call in _calls(tmp_path) if call.startswith("deploy ")]
    assert [call.split()[1] for call in calls] == commands
    states = _states(actual)
    assert (states["promote"] == "success") == ("promote" in commands) == (states["facts"] == "success")
    if "promote" in commands:
        assert "--expect=0123456789abcdef --why=--app=x --lake" in calls[1]
        counted = ["totals: 1 row added, 0 removed, 2 changed"]
        assert actual["tasks"]["stage"]["xcom"] == {
            "digest": "0123456789abcdef", "records": 9, "stages": ["1. swap"], "tables": counted, "event": "done",
        }  # fmt: skip
        assert actual["tasks"]["promote"]["xcom"] == {"tick": 8, "before": 7, "tables": counted, "event": "done"}


ERASED = """erase) printf '{"records": {"orders": 3}, "tables": ["totals"], "tick": 8, "found": []}\\n' ;;"""


@pytest.mark.airflow
def test_an_erasure_is_planned_approved_and_done(run, tmp_path, shop):
    conf = {"stream": "orders", "key": "4711", "named_by": "orders.customer", "dry_run": False, "reason": "ticket 12"}
    actual = run(shop(ERASED), "erase", conf, mark_success="approve")
    assert actual["state"] == "success", actual["log"]
    calls = [call for call in _calls(tmp_path) if call.startswith("repair erase ")]
    assert ["--plan" in call for call in calls] == [True, False]
    assert all("--key=orders=4711 --named-by=orders.customer" in call for call in calls)
    told = {"records": ["orders: 3 records"], "tables": ["totals"], "tick": 8, "event": "done"}
    assert actual["tasks"]["plan"]["xcom"] == actual["tasks"]["erase"]["xcom"] == told
    assert _states(actual)["tables.totals"] == "success"


@pytest.mark.airflow
@pytest.mark.parametrize(
    ("case", "state", "tries", "said"),
    [
        ("run) exit 2 ;;", "failed", 1, "refused its input"),
        ("run) exit 1 ;;", "failed", 3, "exit code 1"),
        ("run) test -e tried && echo '{done}' || {{ touch tried; exit 1; }} ;;", "success", 2, "exit code 1"),
    ],
)
def test_exit_codes_decide_between_giving_up_and_trying_again(run, shop, case, state, tries, said):
    actual = run(shop(case.format(done='{"event": "done"}')), "catch_up", {})
    assert (actual["tasks"]["ingest"]["state"], actual["tasks"]["ingest"]["tries"]) == (state, tries), actual["log"]
    assert said in actual["log"]


@pytest.mark.airflow
def test_a_run_whose_results_were_lost_fails(run, tmp_path, shop):
    conf = {"table": "totals", "from": "2013-07-04", "to": "2013-07-05"}
    actual = run(shop("backfill) ;;"), "backfill_interval", conf)
    assert (actual["tasks"]["backfill/0"]["state"], actual["tasks"]["backfill/0"]["tries"]) == ("failed", 1)
    assert "found no result, expected one with added, removed, changed" in actual["log"]


@pytest.mark.airflow
def test_a_task_waits_for_a_table_in_use_without_spending_a_try(run, tmp_path, shop):
    held = f"backfill) test $(wc -l < calls) -gt 2 && echo '{BACKFILLED}' || exit 3 ;;"
    conf = {"table": "totals", "from": "2013-07-04", "to": "2013-07-05"}
    actual = run(shop(held), "backfill_interval", conf, pause_s=0.1)
    assert actual["tasks"]["backfill/0"]["state"] == "success", actual["log"]
    assert actual["tasks"]["backfill/0"]["tries"] == 1
    assert len(_calls(tmp_path)) == 3


@pytest.mark.airflow
def test_tables_of_a_running_job_are_left_to_it_and_its_changes_are_reported(run, shop):
    actual = run(shop("run) exit 3 ;;"), "catch_up", {}, pause_s=0.1, wait_s=0.1)
    states = _states(actual)
    assert actual["state"] == "success", actual["log"]
    assert (states["ingest"], states["silver"], states["check"]) == ("skipped", "skipped", "success")
    assert [event["tick"] for event in actual["events"]] == [7]


@pytest.mark.rotated
@pytest.mark.parametrize(
    ("kind", "conf", "changed", "task"),
    [
        pytest.param(
            "table_maintenance", {"table": "totals"}, {"check_request": {"tables": ["--fix"]}}, "upkeep",
            marks=pytest.mark.airflow,
        ),
        pytest.param(
            "table_maintenance", {"table": "totals", "dry_run": True}, {"check_request": {"dry_run": False}}, "upkeep",
            marks=pytest.mark.airflow,
        ),
        ("recovery_drill", {"table": "totals"}, {"each_table": {"table": "--app=/tmp/evil.py"}}, "drill/0"),
        ("recovery_drill", {"table": "all"}, {"each_table": [1]}, "drill/0"),
        pytest.param("recovery_drill", {"table": "all"}, {"each_table": []}, "all_done", marks=pytest.mark.airflow),
    ],
)  # fmt: skip
def test_a_result_that_was_changed_in_airflow_starts_no_command(run, tmp_path, shop, kind, conf, changed, task):
    """A user of role "user" may edit a task's result, and so put an option, or another decision, into a command."""
    actual = run(shop(), kind, conf, changed=changed)
    assert (actual["tasks"][task]["state"], actual["tasks"][task]["tries"]) == ("failed", 1), actual["log"]
    assert _calls(tmp_path) == []


@pytest.mark.airflow
def test_work_that_was_left_out_of_a_list_in_airflow_fails_the_run(run, tmp_path, shop):
    conf = {"table": "all", "from": "2013-07-04", "to": "2013-07-05"}
    whole = run(shop(), "backfill_interval", conf)
    assert (whole["state"], whole["tasks"]["all_done"]["xcom"]) == ("success", {"done": 2}), whole["log"]
    actual = run(shop(), "backfill_interval", conf, changed={"each_table": [0]})
    assert _states(actual) | {"check_request": "success", "each_table": "success"} == {
        "check_request": "success", "each_table": "success", "backfill/0": "success", "all_done": "failed",
    }  # fmt: skip
    assert "found 1 tasks backfill that succeeded, expected 2" in actual["log"]


@pytest.mark.airflow
def test_a_dry_run_stays_a_dry_run_when_its_request_was_changed(run, tmp_path, shop):
    conf = {"table": "totals", "from": "2013-07-04", "to": "2013-07-05"}
    changed = {"check_request": {"dry_run": False, "reason": "mine"}}
    actual = run(shop(), "backfill_range", conf, changed=changed, mark_success="plan|approve")
    assert actual["state"] == "failed"
    assert _calls(tmp_path) == []
