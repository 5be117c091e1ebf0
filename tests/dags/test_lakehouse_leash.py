"""A job ends with the process that started it, however that one ends; and what a job's end means to its starter."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakehouse_dags import commands
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
    lines, events, results = [], [], []
    job = _command(
        tmp_path,
        """
import sys
print('{"event": "progress", "records": 5}', file=sys.stderr)
print('{"name": "a"}'); print('{"name": "b"}'); print('no JSON'); print('[1]'); print('{"broken')
""",
    )
    assert job.run(lines.append, events.append, results.append) == {"name": "b"}
    assert results == [{"name": "a"}, {"name": "b"}]
    assert events == [{"event": "progress", "records": 5}]
    assert len(lines) == 6
    assert _command(tmp_path, "pass").run(lines.append) == {}, "a command may have nothing to say"


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [(2, JobRefused, "refused its input"), (3, JobHeld, "holds a table"), (1, JobFailed, "exit code 1")],
)
def test_exit_codes_have_a_meaning_each(tmp_path, code, error, said):
    job = _command(tmp_path, f"""print('{{"ok": false}}'); raise SystemExit({code})""")
    results = []
    with pytest.raises(error, match=said):
        job.run(lambda _: None, on_result=results.append)
    assert results == [{"ok": False}], "why it failed may stand in its result"


@pytest.mark.parametrize("size", [60_000, 70_000, 140_000, 3_000_000])
@pytest.mark.parametrize("end", ["\n", ""])
def test_a_long_result_arrives_whole_and_its_line_in_pieces(tmp_path, size, end):
    lines, results = [], []
    written = f"import json, sys; sys.stdout.write(json.dumps({{'added': 7, 'stages': ['ä' * {size // 6}]}}) + {end!r})"
    last = _command(tmp_path, written).run(lines.append, on_result=results.append)
    assert results == [last] == [{"added": 7, "stages": ["ä" * (size // 6)]}]
    assert json.loads("".join(lines)) == last
    assert max(map(len, lines)) < 200_000


def test_a_result_that_is_too_long_to_be_kept_is_a_failure(tmp_path):
    """The run would say that it succeeded, and nobody would know what it did."""
    written = """
import sys
for part in ('{"added": "', *['x' * 2**20] * 17, '"}', chr(10)):
    sys.stdout.write(part)
"""
    results = []
    with pytest.raises(JobRefused, match="a line of JSON in its output is longer than 16 MB"):
        _command(tmp_path, written).run(lambda _: None, on_result=results.append)
    assert results == []
    flood = "import sys; [sys.stdout.write('x' * 2**20) for _ in range(17)]; print(); print('{}')"
    assert _command(tmp_path, flood).run(lambda _: None) == {}, "other lines are as long as they like"


def test_the_results_of_many_lines_are_all_counted(tmp_path):
    written = """
import json
for n in range(25_000):
    print(json.dumps({"topic": "t", "partition": 0, "offset": n, "fits": n % 5 > 0, "reason": "x", "replayed_at": n}))
"""
    summary = commands.summary_of("replay")
    _command(tmp_path, written).run(lambda _: None, on_result=summary.add)
    assert commands.task_result(summary) == {
        "fit": 20_000, "fixed_before": 0, "still_bad": 5_000, "tick": 24_999,
        "examples": [f"t/0/{n}: x" for n in (0, 5, 10, 15, 20)],
        "digest": None, "event": "done",
    }  # fmt: skip


def test_a_signal_that_ended_the_job_is_passed_on_by_the_leash(tmp_path):
    with pytest.raises(JobFailed, match="signal SIGABRT"):
        _command(tmp_path, f"import os; os.kill(os.getpid(), {int(signal.SIGABRT)})").run(lambda _: None)


def test_a_job_reads_nothing(tmp_path):
    assert _command(tmp_path, "import sys; assert sys.stdin.read() == ''").run(lambda _: None) == {}
