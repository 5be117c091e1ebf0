"""One job of the lakehouse as a child process: start it, follow it, stop it, and leave nothing behind.

Standard library only: a scheduler's parser can import it at no cost, and the tests need no scheduler.

A job writes one JSON object a line to its stdout, {"event": "progress" | "done" | "error", ...}, and ends
with 0 (its last event is "done"), 2 (bad input, which a retry can't fix), 3 (another process holds a table's
lease) or anything else (it may work next time). A command of `lakehouse` does the same, but its results have no
"event", and its progress goes to stderr.
"""

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "APP_PATTERN",
    "CONFIG_PATTERN",
    "Job",
    "JobFailed",
    "JobHeld",
    "JobRefused",
    "job_argv",
    "job_environment",
    "project_locations",
]

# A part never begins with a dot or a dash: "..", hidden files and options can't be written.
_PART = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
# Python's $ also matches before a last newline, JavaScript's (the form in the UI) doesn't: this means the
# same to both.
_END = r"$(?!\n)"
APP_PATTERN = rf"^{_PART}(/{_PART})*(:[A-Za-z_][A-Za-z0-9_]*)?{_END}"
CONFIG_PATTERN = rf"^/?{_PART}(/{_PART})*\.toml{_END}"

# The variables of a JVM, a Spark session, a Hadoop file system and the clouds, a star for any ending; and those that
# the setting airflow.pass_on names. A job must not see the scheduler's own variables (its database, its encryption
# key, its connections). The same rule is in lakehouse/passed_on.py, which need not be installed here.
_PASSED_ON = (
    "AWS_*", "AZURE_*", "GOOGLE_*", "HADOOP_CONF_DIR", "HOME", "JAVA_HOME", "JDK_JAVA_OPTIONS", "KRB5*", "LANG",
    "LC_ALL", "PATH", "PYSPARK_PYTHON", "SPARK_CONF_DIR", "SPARK_HOME", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR",
    "YARN_CONF_DIR",
)  # fmt: skip
_PATTERNS_VARIABLE = "LAKEHOUSE_PASS_ON"
_NEVER_PASSED_ON = re.compile(r"AIRFLOW|_AIRFLOW|LAKEHOUSE_|PYTHON(PATH|HOME|STARTUP)|LD_")
# The jobs' settings, by section, and the mark by which `lakehouse airflow down` finds them; the rest is the DAGs' own.
# Not AIRFLOW, which has a database's password, nor METRICS: its port is that of a job that keeps running.
_SETTINGS = re.compile(r"LAKEHOUSE_(CACHE|JARS|SUPERVISED_BY|(LAKE|KAFKA|REGISTRY|SPARK|RUN|UPKEEP|LOG|LINEAGE)_\w+)")

_LEASH = Path(__file__).with_name("lakehouse_leash.py")
_EXIT_BAD_INPUT = 2
_EXIT_HELD = 3
_GRACE_S = 3.0
_POLL_S = 0.2
_CHUNK_BYTES = 64 * 1024
_PIECE_MAX_BYTES = 64 * 1024  # of a line in the log
_OBJECT_MAX_BYTES = 16 * 1024 * 1024


class JobRefused(Exception):
    """The same start would fail again: bad input, or a project that isn't at the configured place."""


class JobFailed(Exception):
    """The job ended badly, or was stopped; another try may succeed."""


class JobHeld(JobFailed):
    """Another process holds the lease of a table that the job would write; it is worth waiting for."""


def project_locations(environ: Mapping[str, str] = os.environ) -> tuple[Path, Path]:
    """Return the project's root and its Python: LAKEHOUSE_ROOT and LAKEHOUSE_PYTHON, by default this checkout's."""
    root = Path(environ.get("LAKEHOUSE_ROOT") or Path(__file__).resolve().parents[1])
    python = Path(environ.get("LAKEHOUSE_PYTHON") or root / ".venv" / "bin" / "python")
    if not python.is_file():
        raise JobRefused(
            f"no Python at {python}: run `make setup` in the checkout, "
            "or set LAKEHOUSE_PYTHON to the one that has the project's packages"
        )
    return root, python


def job_argv(
    root: Path, python: Path, job: str, app: str, config: str | None, options: Sequence[str] = ()
) -> list[str]:
    """Return the argument list of a job.

    Check the parameters again: values reach a run's conf in more ways than through the form. Raises JobRefused.
    """
    script = root / "spark_jobs" / f"{job}.py"
    if not script.is_file():
        raise JobRefused(f"no job at {script}: set LAKEHOUSE_ROOT to the project's folder")
    argv = [str(python), str(script), "--app", _check_parameter("app", app, APP_PATTERN, "examples/flights/app.py")]
    if config is not None:
        argv += ["--config", _check_parameter("config", config, CONFIG_PATTERN, "deploy/lakehouse.toml")]
    return [*argv, *options]


def _is_passed_on(name: str, patterns: Sequence[str]) -> bool:
    if _NEVER_PASSED_ON.match(name):
        return False
    return any(name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern for pattern in patterns)


def job_environment(python: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the part of an environment that a job may see, with the project's Python first on the PATH."""
    patterns = [*_PASSED_ON, *filter(None, environ.get(_PATTERNS_VARIABLE, "").split(","))]
    passed = {
        name: value for name, value in environ.items() if _is_passed_on(name, patterns) or _SETTINGS.fullmatch(name)
    }
    # Airflow wants its own bin folder on the PATH; Spark starts its workers with the first python3 there.
    path = os.pathsep.join([str(python.parent), passed.get("PATH", os.defpath)])
    # A progress line must not wait in a buffer.
    return {**passed, "PATH": path, "PYTHONUNBUFFERED": "1"}


def _check_parameter(name: str, value: object, pattern: str, example: str) -> str:
    if not isinstance(value, str) or not re.match(pattern, value):
        raise JobRefused(f"{name} is {value!r}, expected a plain path such as {example!r}")
    return value


class Job:
    """One run of a job in its own process group, on a leash (lakehouse_leash.py): it ends with this process.

    name: for messages. is_command: it is a command of `lakehouse`, so exit code 0 is success whatever its output.
    """

    def __init__(
        self, argv: Sequence[str], *, cwd: Path, environ: Mapping[str, str], grace_s: float = _GRACE_S,
        name: str | None = None, is_command: bool = False,
    ) -> None:  # fmt: skip
        self._argv = list(argv)
        self._name = name or Path(self._argv[1]).name
        self._is_command = is_command
        self._cwd = cwd
        self._environ = dict(environ)
        self._grace_s = grace_s
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._group_ended = False
        self._last_event: dict[str, Any] | None = None
        self._parent = os.getppid()
        self._cut = False

    def run(
        self,
        on_line: Callable[[str], None],
        on_event: Callable[[dict[str, Any]], None] = lambda event: None,
        on_result: Callable[[dict[str, Any]], None] = lambda result: None,
    ) -> dict[str, Any]:
        """Run to the end; return the last event, or a command's last JSON object.

        Lines of stdout and stderr go to `on_line` as they come, very long lines in pieces; events of both go to
        `on_event`, and all JSON objects of stdout to `on_result`. Raises JobRefused, also for an object that is too
        long; JobFailed, JobHeld.

        However this ends, by the job, by a failure here or by an exception from a signal handler, the whole
        process group has ended afterwards.
        """
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_LEASH), *self._argv],
                cwd=self._cwd,
                env=self._environ,
                stdin=subprocess.PIPE,  # held open, never written: its end is the end of this process
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            if self._stopped:  # stop() came while the process was being started, and saw none
                self._end_group()
            self._follow(self._process, on_line, on_event, on_result)
        finally:
            self._end_group()
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()
        return self._check_outcome(self._process.returncode)

    def stop(self) -> None:
        """End the job: SIGTERM to its group, then SIGKILL. Safe in a signal handler, and twice."""
        self._stopped = True
        self._end_group()

    def _follow(
        self,
        process: subprocess.Popen[bytes],
        on_line: Callable[[str], None],
        on_event: Callable[[dict[str, Any]], None],
        on_result: Callable[[dict[str, Any]], None],
    ) -> None:
        """Pass lines on until both pipes end, or the job has ended and the pipes that it left open are silent."""
        assert process.stdout is not None
        assert process.stderr is not None

        def on_stdout_object(json_object: dict[str, Any]) -> None:
            self._handle_object(json_object, on_event, on_result)

        def on_stderr_object(json_object: dict[str, Any]) -> None:
            if "event" in json_object:
                on_event(json_object)

        output = _Lines(on_line, on_stdout_object)
        lines_of = {
            process.stdout.fileno(): output,
            process.stderr.fileno(): _Lines(on_line, on_stderr_object),
        }
        with selectors.DefaultSelector() as selector, process.stdout, process.stderr:
            for fd in lines_of:
                selector.register(fd, selectors.EVENT_READ)
            while selector.get_map():
                if os.getppid() != self._parent:
                    raise JobFailed(f"{self._name}: the process that started this task is gone, so it is stopped")
                ended = process.poll() is not None  # checked before the pipes: its last output is still read
                ready = selector.select(timeout=_POLL_S)
                if ended and not ready:
                    break
                for key, _ in ready:
                    if chunk := os.read(key.fd, _CHUNK_BYTES):
                        lines_of[key.fd].add(chunk)
                    else:
                        selector.unregister(key.fd)
        for lines in lines_of.values():
            lines.end()
        self._cut = output.has_cut
        # Not wait(): it would hold the lock that poll() needs when stop() comes in a signal handler.
        while process.poll() is None:
            time.sleep(_POLL_S)

    def _handle_object(
        self,
        json_object: dict[str, Any],
        on_event: Callable[[dict[str, Any]], None],
        on_result: Callable[[dict[str, Any]], None],
    ) -> None:
        """Pass a JSON object of stdout on, and remember the last event, or a command's last object."""
        if "event" in json_object:
            on_event(json_object)
        if "event" in json_object or self._is_command:
            self._last_event = json_object
        on_result(json_object)

    def _end_group(self) -> None:
        if self._process is None or self._group_ended:
            return
        # The job leads its group, so the group's id is the job's; it stays taken while any member lives.
        group = self._process.pid
        for signum, wait_s in ((signal.SIGTERM, self._grace_s), (signal.SIGKILL, 1.0)):
            deadline = time.monotonic() + wait_s
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signum)
            while _group_lives(group) and time.monotonic() < deadline:
                self._process.poll()  # reaps the leader: without a /proc to look into, zombies count as alive
                time.sleep(0.02)
            if not _group_lives(group):
                break
        self._process.poll()
        self._group_ended = True

    def _check_outcome(self, code: int) -> dict[str, Any]:
        event = self._last_event
        name = self._name
        event_text = f"; its last event: {json.dumps(event)[:1000]}" if event else ""
        if self._stopped:
            raise JobFailed(f"{name} was stopped{event_text}")
        if code == _EXIT_BAD_INPUT:
            raise JobRefused(f"{name} refused its input (exit code 2){event_text}")
        if code == _EXIT_HELD:
            raise JobHeld(f"{name}: another process holds a table (exit code 3){event_text}")
        if code != 0:
            raise JobFailed(f"{name} ended with {_describe_exit(code)}{event_text}")
        if self._cut:
            raise JobRefused(
                f"{name} ended with exit code 0, but a line of JSON in its output is longer than "
                f"{_OBJECT_MAX_BYTES // 1024**2} MB, so its result is not known. What it did stays done{event_text}"
            )
        if self._is_command:
            return event or {}
        if event is None or event["event"] != "done":
            raise JobFailed(f"{name} ended with exit code 0 but without a 'done' event{event_text}")
        return event


class _Lines:
    """The lines of a pipe: each goes to `on_line`, in pieces if very long; JSON objects also go whole to `on_object`.

    has_cut: whether an object was so long that it was not kept.
    """

    def __init__(self, on_line: Callable[[str], None], on_object: Callable[[dict[str, Any]], None]) -> None:
        self._on_line = on_line
        self._on_object = on_object
        self._rest = b""  # the part of the unfinished line that was not passed on
        self._pieces = bytearray()  # the pieces of it that were passed on, if it may be an object
        self._is_long = False  # whether a piece of it was passed on
        self.has_cut = False

    def add(self, chunk: bytes) -> None:
        """Take in bytes of the pipe."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._end_line(line)
        if len(self._rest) > _PIECE_MAX_BYTES:
            self._pass_piece_on(self._rest)
            self._rest = b""

    def end(self) -> None:
        """Take the bytes after the last line break as a line, too."""
        self._end_line(self._rest)
        self._rest = b""

    def _pass_piece_on(self, piece: bytes) -> None:
        self._on_line(_decode_line(piece))
        if self._pieces or (not self._is_long and piece.startswith(b"{")):
            self._pieces += piece
        if len(self._pieces) > _OBJECT_MAX_BYTES:
            self._pieces.clear()
            self.has_cut = True
        self._is_long = True

    def _end_line(self, line: bytes) -> None:
        if line:
            self._on_line(_decode_line(line))
        whole = b"" if self._is_long and not self._pieces else bytes(self._pieces) + line
        if (json_object := _json_object(_decode_line(whole))) is not None:
            self._on_object(json_object)
        self._pieces.clear()
        self._is_long = False


def _decode_line(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")


def _group_lives(group: int) -> bool:
    """Say whether a process of the group runs. A zombie does not, and in a container it may stay a zombie for good."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    processes = list(Path("/proc").glob("[0-9]*/stat"))
    return not processes or any(_runs_in(group, stat) for stat in processes)


def _runs_in(group: int, stat: Path) -> bool:
    try:
        # pid (name) state parent group ...: the name may hold spaces and parentheses
        state, _, group_text = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
    except OSError:  # it ended meanwhile
        return False
    return group_text == str(group) and state not in "ZX"


def _json_object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _describe_exit(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
