"""The runner of jobs, with real child processes and without Airflow."""

import importlib.util
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from lakehouse import passed_on
from lakehouse.settings.checks import CHECKS

DAGS = Path(__file__).resolve().parents[2] / "dags"
PARAMS = json.loads(Path(__file__).with_name("params.json").read_text())


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lakehouse_jobs", DAGS / "lakehouse_jobs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


jobs = _load()

DONE = """print('{"event": "done", "rows": 3, "tick": 7}')"""


@pytest.fixture
def make_job(tmp_path: Path) -> Callable[..., object]:
    """A job from a few lines of Python."""

    def make(source: str, grace_s: float = 3.0) -> object:
        script = tmp_path / "job.py"
        script.write_text(source)
        environ = jobs.job_environment(Path(sys.executable))
        return jobs.Job([sys.executable, str(script)], cwd=tmp_path, environ=environ, grace_s=grace_s)

    return make


def _wait_for(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


# -- how a job ends --


def test_the_last_event_is_the_result_and_every_line_is_passed_on(make_job):
    lines = []
    source = f"""
import sys
print('{{"event": "progress", "rows": 1}}')
print('not JSON')
print('[1]')
{DONE}
print('a word after the end')
print('a warning', file=sys.stderr)
"""
    assert make_job(source).run(lines.append) == {"event": "done", "rows": 3, "tick": 7}
    assert [line for line in lines if line != "a warning"] == [
        '{"event": "progress", "rows": 1}',
        "not JSON",
        "[1]",
        '{"event": "done", "rows": 3, "tick": 7}',
        "a word after the end",
    ]
    assert "a warning" in lines


def test_an_event_on_stderr_is_not_a_result(make_job):
    with pytest.raises(jobs.JobFailed, match="without a 'done' event"):
        make_job("""import sys; print('{"event": "done"}', file=sys.stderr)""").run(lambda _: None)


def test_lines_arrive_while_the_job_runs(make_job, tmp_path):
    """The job waits for a file that is made when its first line has arrived."""
    source = f"""
import pathlib, time
print('{{"event": "progress"}}')
while not pathlib.Path("seen").exists():
    time.sleep(0.02)
{DONE}
"""
    assert make_job(source).run(lambda _: (tmp_path / "seen").touch())["event"] == "done"


def test_a_last_line_without_a_newline_counts(make_job):
    job = make_job("""import sys; sys.stdout.write('{"event": "done", "rows": 1}')""")
    assert job.run(lambda _: None) == {"event": "done", "rows": 1}


def test_a_flood_without_newlines_is_cut_and_passed_on(make_job):
    lines = []
    make_job(f"print('x' * 1_000_000)\n{DONE}").run(lines.append)
    assert sum(line.count("x") for line in lines) == 1_000_000
    assert max(map(len, lines)) < 200_000


def test_exit_code_2_is_refused_and_says_why(make_job):
    source = """print('{"event": "error", "message": "no such topic"}'); raise SystemExit(2)"""
    with pytest.raises(jobs.JobRefused, match=r"job\.py refused its input.*no such topic"):
        make_job(source).run(lambda _: None)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise SystemExit(1)", "exit code 1"),
        ("raise SystemExit(3)", "exit code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal SIGKILL"),
        ("""print('{"event": "progress"}')""", "exit code 0 but without a 'done' event"),
        (DONE + "\nraise SystemExit(1)", "exit code 1"),
    ],
)
def test_any_other_end_is_a_failure(make_job, source, said):
    with pytest.raises(jobs.JobFailed, match=said):
        make_job(source).run(lambda _: None)


# -- nothing is left behind --

# The job starts a child that can ignore SIGTERM, as a hanging JVM would, and prints both pids.
FAMILY = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", '''
import signal, time
{child}
print("ready", flush=True)
time.sleep(60)
'''], stdout=subprocess.PIPE)
child.stdout.readline()
open("pids.tmp", "w").write(f"{{os.getpid()}} {{child.pid}}")
os.rename("pids.tmp", "pids")
{then}
"""
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


def _pids(folder: Path) -> list[int]:
    _wait_for((folder / "pids").exists)
    return [int(pid) for pid in (folder / "pids").read_text().split()]


@pytest.mark.parametrize("child", ["", DEAF], ids=["child obeys", "child is deaf"])
@pytest.mark.parametrize("leader", ["", DEAF], ids=["job obeys", "job is deaf"])
def test_stop_ends_the_whole_group(make_job, tmp_path, leader, child, is_running):
    job = make_job(FAMILY.format(child=child, then=leader + "\ntime.sleep(60)"), grace_s=0.5)
    errors = []

    def run() -> None:
        try:
            job.run(lambda _: None)
        except jobs.JobFailed as failed:
            errors.append(str(failed))

    thread = threading.Thread(target=run)
    thread.start()
    pids = _pids(tmp_path)
    assert all(map(is_running, pids))
    job.stop()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert not any(map(is_running, pids))
    assert errors == ["job.py was stopped"]


def test_stop_from_a_signal_handler(make_job, tmp_path, is_running):
    """As in Airflow: SIGTERM's handler calls stop() while the same thread is inside run()."""
    job = make_job(FAMILY.format(child="", then="time.sleep(60)"))
    before = signal.signal(signal.SIGTERM, lambda *_: job.stop())
    started = time.monotonic()
    try:
        threading.Thread(target=lambda: (_pids(tmp_path), os.kill(os.getpid(), signal.SIGTERM))).start()
        with pytest.raises(jobs.JobFailed, match="was stopped"):
            job.run(lambda _: None)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not any(map(is_running, _pids(tmp_path)))
    assert time.monotonic() - started < 3.0, "an obedient job must not cost the whole grace"


def test_an_exception_in_the_middle_ends_the_group(make_job, tmp_path, is_running):
    """A task's timeout is raised by a signal handler, wherever run() happens to be."""

    class Timeout(BaseException):
        pass

    def raise_timeout(_line: str) -> None:
        raise Timeout

    job = make_job(FAMILY.format(child="", then="print('x', flush=True)\ntime.sleep(60)"))
    with pytest.raises(Timeout):
        job.run(raise_timeout)
    assert not any(map(is_running, _pids(tmp_path)))


def test_a_child_left_behind_by_a_job_that_ended_well_is_ended(make_job, tmp_path, is_running):
    """It also holds the job's stdout open, which must not keep the task waiting."""
    source = FAMILY.replace("stdout=subprocess.PIPE)", "stdout=None)").replace("child.stdout.readline()", "")
    started = time.monotonic()
    event = make_job(source.format(child="", then=DONE)).run(lambda _: None)
    assert event["event"] == "done"
    assert time.monotonic() - started < 5.0
    assert not any(map(is_running, _pids(tmp_path)))


def test_a_result_without_a_newline_counts_although_a_child_holds_the_pipe(make_job):
    source = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
sys.stdout.write('{"event": "done", "rows": 1}')
"""
    assert make_job(source).run(lambda _: None) == {"event": "done", "rows": 1}


def test_stop_before_and_after_a_run_harms_nobody(make_job):
    job = make_job(DONE)
    job.run(lambda _: None)
    job.stop()
    early = make_job("import time; time.sleep(60)")
    early.stop()
    with pytest.raises(jobs.JobFailed, match="was stopped"):
        early.run(lambda _: None)


# -- what is started --


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "spark_jobs").mkdir()
    (tmp_path / "spark_jobs" / "ingest.py").touch()
    return tmp_path


def test_the_argument_list(root):
    argv = jobs.job_argv(root, Path("/py"), "ingest", "apps/f.py", "conf/l.toml", ("--until", "caught-up"))
    script = str(root / "spark_jobs" / "ingest.py")
    assert argv == ["/py", script, "--app", "apps/f.py", "--config", "conf/l.toml", "--until", "caught-up"]
    assert jobs.job_argv(root, Path("/py"), "ingest", "f.py", None) == ["/py", script, "--app", "f.py"]


@pytest.mark.parametrize("app", PARAMS["plain_apps"])
def test_plain_apps_pass(root, app):
    assert app in jobs.job_argv(root, Path("/py"), "ingest", app, None)


@pytest.mark.parametrize("config", PARAMS["plain_configs"])
def test_plain_configs_pass(root, config):
    assert config in jobs.job_argv(root, Path("/py"), "ingest", "f.py", config)


@pytest.mark.parametrize("app", PARAMS["hostile_apps"])
def test_hostile_apps_are_refused(root, app):
    with pytest.raises(jobs.JobRefused, match="app is"):
        jobs.job_argv(root, Path("/py"), "ingest", app, None)


@pytest.mark.parametrize("config", PARAMS["hostile_configs"])
def test_hostile_configs_are_refused(root, config):
    with pytest.raises(jobs.JobRefused, match="config is"):
        jobs.job_argv(root, Path("/py"), "ingest", "f.py", config)


def test_a_missing_project_is_named(tmp_path):
    with pytest.raises(jobs.JobRefused, match="set LAKEHOUSE_ROOT"):
        jobs.job_argv(tmp_path, Path("/py"), "ingest", "f.py", None)
    with pytest.raises(jobs.JobRefused, match="set LAKEHOUSE_PYTHON"):
        jobs.project_locations({"LAKEHOUSE_ROOT": str(tmp_path)})


def test_locations_come_from_the_environment_or_from_this_checkout():
    python = Path(sys.executable)
    assert jobs.project_locations({"LAKEHOUSE_PYTHON": str(python)}) == (DAGS.parent, python)
    assert jobs.project_locations({"LAKEHOUSE_ROOT": "/r", "LAKEHOUSE_PYTHON": str(python)}) == (Path("/r"), python)


def test_a_jobs_cloud_and_what_the_settings_name_reach_it():
    given = {
        "AIRFLOW_CONN_CORP_DB": "secret", "AWS_ACCESS_KEY_ID": "a", "AZURE_CLIENT_ID": "b", "CORP_PROXY": "c",
        "CORPORATION": "d", "GOOGLE_APPLICATION_CREDENTIALS": "e", "KRB5CCNAME": "f", "LD_PRELOAD": "x",
        "LAKEHOUSE_PASS_ON": "MY_TOKEN,CORP_*,AIRFLOW_*,LD_PRELOAD", "MY_TOKEN": "g", "MY_TOKEN_2": "h",
        "PATH": "/bin", "PYSPARK_PYTHON": "i", "SPARK_HOME": "j",
    }  # fmt: skip
    seen = jobs.job_environment(Path("/venv/bin/python"), given)
    assert "".join(seen[name] for name in sorted(seen) if name not in ("PATH", "PYTHONUNBUFFERED")) == "abcefgij"


def test_the_rule_of_what_is_passed_on_is_the_same_without_lakehouse():
    assert jobs._PASSED_ON == passed_on.PASSED_ON
    assert jobs._PATTERNS_VARIABLE == passed_on.PATTERNS_VARIABLE
    assert jobs._NEVER_PASSED_ON.pattern == passed_on.NEVER_PASSED_ON.pattern


def test_each_section_of_the_settings_reaches_a_job_but_those_of_airflow_and_of_metrics():
    given = {f"LAKEHOUSE_{section.upper()}_{name.upper()}": "x" for section, names in CHECKS.items() for name in names}
    seen = jobs.job_environment(Path("/venv/bin/python"), given)
    missing = {name.split("_")[1].lower() for name in given.keys() - seen.keys()}
    assert missing == {"airflow", "metrics"}
    assert "LAKEHOUSE_REGISTRY_URL" in seen


def test_the_schedulers_secrets_stay_with_the_scheduler():
    given = {
        "AIRFLOW__CORE__FERNET_KEY": "secret",
        "AIRFLOW_CONN_DB": "secret",
        "HOME": "/h",
        "JAVA_HOME": "/j",
        "LAKEHOUSE_LAKE_PATH": "/lake",
        "LAKEHOUSE_ROOT": "/r",
        "PATH": "/airflow/bin:/bin",
        "PYTHONPATH": "/airflow/lib",
    }
    assert jobs.job_environment(Path("/venv/bin/python"), given) == {
        "HOME": "/h",
        "JAVA_HOME": "/j",
        "LAKEHOUSE_LAKE_PATH": "/lake",
        "PATH": "/venv/bin:/airflow/bin:/bin",
        "PYTHONUNBUFFERED": "1",
    }
