"""A job ends with the process that started it, however that one ends; and what a job's end means to its starter."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakehouse_jobs import Job, JobFailed, JobHeld, JobRefused, job_environment

DAGS = Path(__file__).resolve().parents[2] / "dags"
# A starter with a job whose child ignores SIGTERM; it prints their pids and its own.
STARTER = """
import os, sys
sys.path.append({dags!r})
from lakehouse_jobs import Job
Job([sys.executable, "-c", '''
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"], stdout=subprocess.PIPE)
child.stdout.readline()
open("pids.tmp", "w").write(f"{{os.getppid()}} {{os.getpid()}} {{child.pid}}")
os.rename("pids.tmp", "pids")
time.sleep(60)
'''], cwd={folder!r}, environ=dict(os.environ), name="job").run(print)
"""  # noqa: E501


def _wait(condition, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def test_sigkill_of_the_starter_ends_the_job_and_all_that_it_started(tmp_path, is_running):
    source = STARTER.format(dags=str(DAGS), folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", source]) as starter:
        _wait((tmp_path / "pids").exists)
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        assert all(map(is_running, pids))
        starter.kill()
    _wait(lambda: not any(map(is_running, pids)), 15.0)


@pytest.mark.rotated
def test_sigkill_of_the_starters_parent_ends_it_too(tmp_path, is_running):
    """Airflow's supervisor is the parent of a task's process; without its supervisor a task would go on alone."""
    source = STARTER.format(dags=str(DAGS), folder=str(tmp_path))
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {source!r}], stderr=subprocess.DEVNULL)"
    with subprocess.Popen([sys.executable, "-c", parent]) as supervisor:
        _wait((tmp_path / "pids").exists)
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        supervisor.kill()
    _wait(lambda: not any(map(is_running, pids)), 15.0)


@pytest.mark.parametrize("is_signalled", [False, True], ids=["only the end of stdin", "SIGTERM before"])
def test_a_deaf_command_ends_with_its_starter_whatever_signal_its_group_got_before(is_signalled):
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    argv = [sys.executable, "-I", "-S", str(DAGS / "lakehouse_leash.py"), sys.executable, "-c", deaf]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as leash:
        assert leash.stdin is not None
        assert leash.stdout is not None
        leash.stdout.readline()
        if is_signalled:
            os.killpg(leash.pid, signal.SIGTERM)
            time.sleep(0.5)
            assert leash.poll() is None
        leash.stdin.close()  # as the kernel does when the starter ends
        try:
            assert leash.wait(10.0) == -signal.SIGKILL
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(leash.pid, signal.SIGKILL)


def _command(tmp_path: Path, source: str) -> Job:
    environ = job_environment(Path(sys.executable))
    return Job([sys.executable, "-c", source], cwd=tmp_path, environ=environ, name="lakehouse x", is_command=True)


def test_a_commands_results_and_its_progress(tmp_path):
    lines, events = [], []
    job = _command(
        tmp_path,
        """
import sys
print('{"event": "progress", "records": 5}', file=sys.stderr)
print('{"name": "a"}'); print('{"name": "b"}'); print('no JSON'); print('[1]'); print('{"broken')
""",
    )
    assert job.run(lines.append, events.append) == {"name": "b"}
    assert job.results == [{"name": "a"}, {"name": "b"}]
    assert events == [{"event": "progress", "records": 5}]
    assert len(lines) == 6
    assert _command(tmp_path, "pass").run(lines.append) == {}, "a command may have nothing to say"


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [(2, JobRefused, "refused its input"), (3, JobHeld, "holds a table"), (1, JobFailed, "exit code 1")],
)
def test_exit_codes_have_a_meaning_each(tmp_path, code, error, said):
    job = _command(tmp_path, f"""print('{{"ok": false}}'); raise SystemExit({code})""")
    with pytest.raises(error, match=said):
        job.run(lambda _: None)
    assert job.results == [{"ok": False}], "why it failed may stand in its result"


def test_a_signal_that_ended_the_job_is_passed_on_by_the_leash(tmp_path):
    with pytest.raises(JobFailed, match="signal SIGABRT"):
        _command(tmp_path, f"import os; os.kill(os.getpid(), {int(signal.SIGABRT)})").run(lambda _: None)


def test_a_job_reads_nothing(tmp_path):
    assert _command(tmp_path, "import sys; assert sys.stdin.read() == ''").run(lambda _: None) == {}
