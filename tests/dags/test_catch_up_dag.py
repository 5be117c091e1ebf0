"""The DAG on a real Airflow: it parses, refuses bad parameters, and acts on how its jobs end.

The jobs here are a few lines each, each with a given end; test_catch_up_end_to_end.py runs the real ones.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.airflow

TASKS = ("ingest", "silver", "checks")
PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())
WELL = """
import json, os, sys
print(json.dumps({"event": "progress", "rows": 1}))
print(json.dumps({"event": "done", "rows": 2, "argv": sys.argv[1:], "env": sorted(os.environ)}))
"""


@pytest.fixture
def project(tmp_path: Path) -> dict[str, str]:
    """A project whose jobs do nothing and succeed; gives the environment that points the DAG at it."""
    (tmp_path / "spark_jobs").mkdir()
    for job in TASKS:
        (tmp_path / "spark_jobs" / f"{job}.py").write_text(WELL)
    return {"LAKEHOUSE_CATCH_UP": ".", "LAKEHOUSE_ROOT": str(tmp_path), "LAKEHOUSE_PYTHON": sys.executable}


def _states(found: dict) -> list[str]:
    return [found["tasks"][task]["state"] for task in TASKS]


def test_the_dag_is_complete_and_light(airflow, tmp_path):
    actual = airflow.ask(tmp_path, "inspect")
    assert actual["import_errors"] == {}
    assert actual["dag_ids"] == ["lakehouse_catch_up"]
    assert actual["downstream"] == {"ingest": ["silver"], "silver": ["checks"], "checks": []}
    assert (actual["max_active_runs"], actual["catchup"], actual["schedule"]) == (1, False, None)
    assert actual["tags"] == ["lakehouse"]
    assert "Catch up" in actual["doc"]
    assert actual["heavy_modules"] == []
    assert actual["file_s"] < 0.2, "the scheduler parses this file again and again"


def test_hostile_params_are_refused_and_plain_ones_accepted(airflow, tmp_path):
    good = [{"app": app} for app in PARAMS["plain_apps"]]
    good += [{"app": "app.py", "config": config} for config in [*PARAMS["plain_configs"], None]]
    bad = [{}, *({"app": app} for app in [*PARAMS["hostile_apps"], "a" * 201])]
    bad += [{"app": "app.py", "config": config} for config in PARAMS["hostile_configs"]]
    refused = airflow.ask(tmp_path, "judge", good + bad)["refused"]
    assert [conf for conf, no in zip(good, refused, strict=False) if no] == []
    assert [conf for conf, no in zip(bad, refused[len(good) :], strict=True) if not no] == []


def test_a_run_returns_each_jobs_last_event(airflow, tmp_path, project):
    conf = {"app": "apps/mine.py", "config": "conf/lakehouse.toml"}
    actual = airflow.ask(tmp_path, "run", {"conf": conf}, AIRFLOW_CONN_LAKE="secret", **project)
    assert (actual["state"], _states(actual)) == ("success", ["success"] * 3), actual["log"]
    events = {task: actual["tasks"][task]["xcom"] for task in TASKS}
    assert all((event["event"], event["rows"]) == ("done", 2) for event in events.values())
    arguments = ["--app", "apps/mine.py", "--config", "conf/lakehouse.toml"]
    assert events["ingest"]["argv"] == [*arguments, "--until", "caught-up"]
    assert events["silver"]["argv"] == events["checks"]["argv"] == arguments
    assert not any(name.startswith("AIRFLOW") for name in events["ingest"]["env"])
    assert '{"event": "progress", "rows": 1}' in actual["log"], "the job's lines are in the task's log"


def test_bad_input_fails_at_once(airflow, tmp_path, project):
    (tmp_path / "spark_jobs" / "silver.py").write_text(
        """print('{"event": "error", "message": "no such table"}'); raise SystemExit(2)"""
    )
    actual = airflow.ask(tmp_path, "run", {"conf": {"app": "app.py"}}, **project)
    assert (actual["state"], _states(actual)) == ("failed", ["success", "failed", "upstream_failed"])
    assert actual["tasks"]["silver"]["tries"] == 1
    assert "no such table" in actual["log"]


def test_another_failure_is_tried_again(airflow, tmp_path, project):
    (tmp_path / "spark_jobs" / "ingest.py").write_text(
        f"""
import pathlib
tried = pathlib.Path("tried")
if not tried.exists():
    tried.touch()
    raise SystemExit(1)
{WELL}"""
    )
    actual = airflow.ask(tmp_path, "run", {"conf": {"app": "app.py"}}, **project)
    assert (actual["state"], _states(actual)) == ("success", ["success"] * 3), actual["log"]
    assert actual["tasks"]["ingest"]["tries"] == 2


# A job and its child, which would both run for a minute. Each try adds its pids.
HANGING = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
with open("pids", "a") as pids:
    pids.write(f"{os.getpid()}\\n{child.pid}\\n")
time.sleep(60)
"""


def _pids(folder: Path) -> list[int]:
    return [int(pid) for pid in (folder / "pids").read_text().split()]


def test_a_timeout_ends_the_jobs_processes(airflow, tmp_path, project, is_running):
    (tmp_path / "spark_jobs" / "ingest.py").write_text(HANGING)
    actual = airflow.ask(tmp_path, "run", {"conf": {"app": "app.py"}, "timeout_s": 1}, **project)
    assert (actual["state"], _states(actual)) == ("failed", ["failed", "upstream_failed", "upstream_failed"])
    assert len(_pids(tmp_path)) == 2 * 3, "three tries, two processes each"
    assert not any(map(is_running, _pids(tmp_path)))


def test_a_kill_ends_the_jobs_processes(airflow, tmp_path, project, is_running):
    """SIGTERM is how Airflow ends a task that was marked failed, or whose worker shuts down."""
    (tmp_path / "spark_jobs" / "ingest.py").write_text(
        f"""
import pathlib
if pathlib.Path("pids").exists():
    raise SystemExit(2)
{HANGING}"""
    )
    out = tmp_path / "run.json"
    with airflow.start(out, "run", {"conf": {"app": "app.py"}}, **project) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "pids").exists() or len(_pids(tmp_path)) < 2:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        pids = _pids(tmp_path)
        assert all(map(is_running, pids))
        os.kill(process.pid, signal.SIGTERM)
        log, _ = process.communicate()
    assert "ingest.py was stopped" in log
    assert not any(map(is_running, pids))
    assert _states(json.loads(out.read_text()))[0] == "failed"
