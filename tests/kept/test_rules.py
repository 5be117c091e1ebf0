"""When an engine is kept, what it is known by, and who may read its files: without any engine."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import ConfigError, StorageError
from lakehouse.settings.config import Settings, load
from lakehouse.spark.jvm.kept import choice, client, engine, private_files
from lakehouse.spark.jvm.kept.client import scratch_folders
from lakehouse.spark.jvm.kept.identity import hash_of_start
from lakehouse.spark.jvm.kept.scratch import Scratch
from lakehouse.spark.jvm.session.launch import properties_file
from lakehouse.spark.jvm.session.session import java_options


@pytest.fixture
def command() -> Iterator[None]:
    choice.allow_keeping(allowed=True)
    yield
    choice.allow_keeping(allowed=False)


def spark_settings(**variables: str) -> Settings:
    return load(environ={f"LAKEHOUSE_SPARK_{name.upper()}": text for name, text in variables.items()})


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize(
    ("variables", "terminal", "container", "environ", "seconds"),
    [
        ({}, True, False, {}, 600),
        ({}, False, False, {}, None),
        ({}, True, True, {}, None),
        ({}, True, False, {"CI": "true"}, None),
        ({}, True, False, {"CI": ""}, 600),
        ({}, True, False, {"KUBERNETES_SERVICE_HOST": "192.0.2.1"}, None),
        ({"keep": "auto"}, True, False, {}, 600),
        ({}, False, False, {"LAKEHOUSE_SUPERVISED_BY": "/srv/airflow#scheduler"}, 600),
        ({}, False, True, {"LAKEHOUSE_SUPERVISED_BY": "/srv/airflow#scheduler"}, None),
        ({"keep": "1 minute"}, False, True, {"CI": "true"}, 60),
        ({"keep": "off"}, True, False, {}, None),
        ({"keep": "0"}, True, False, {}, None),
        ({"keep": "1 minute", "master": "spark://h:7077"}, True, False, {}, None),
        ({"keep": "1 minute", "internals": "false"}, True, False, {}, None),
    ],
)
def test_when_it_is_kept(
    variables: dict[str, str],
    terminal: bool,
    container: bool,
    environ: dict[str, str],
    seconds: float | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(choice, "CONTAINER_FILES", (str(tmp_path),) if container else ())
    assert choice.keep_seconds(spark_settings(**variables).spark, environ) == seconds


@pytest.mark.parametrize(
    ("keep", "environ", "seconds"),
    [("auto", {}, 600), ("auto", {"CI": "true"}, None), ("off", {}, None), ("1 minute", {"CI": "true"}, 60)],
)
def test_when_a_notebook_keeps_it(
    keep: str, environ: dict[str, str], seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "CONTAINER_FILES", ())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    choice.allow_keeping(allowed=True, in_notebook=True)
    try:
        assert choice.keep_seconds(spark_settings(keep=keep).spark, environ) == seconds
    finally:
        choice.allow_keeping(allowed=False)


def test_where_spark_writes() -> None:
    own = Scratch(Path("/own"), 0)
    assert scratch_folders({}, {}, own) == ["/own"]
    assert scratch_folders({"spark.local.dir": "/a,/b"}, {}, own) == ["/a", "/b"]
    assert scratch_folders({"spark.local.dir": "/a"}, {"SPARK_LOCAL_DIRS": "/c"}, own) == ["/c"]


def test_a_program_keeps_none() -> None:
    assert choice.keep_seconds(spark_settings(keep="1 minute").spark, {}) is None


@pytest.mark.parametrize("text", ["ten", "-1 minute", "0 minutes", "1", ""])
def test_a_wrong_duration(text: str) -> None:
    with pytest.raises(ConfigError, match="LAKEHOUSE_SPARK_KEEP: "):
        spark_settings(keep=text)


def test_what_an_engine_is_known_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tmp_path / "own.jar"
    jar.write_bytes(b"one")
    settings = {"spark.driver.extraClassPath": str(jar), "spark.driver.memory": "1g"}
    environ = {"PATH": os.environ["PATH"]}

    def key(changed: dict[str, Any] | None = None, seconds: float = 60, **variables: str) -> str:
        return hash_of_start(settings | (changed or {}), seconds, environ | variables)

    first = key()
    assert key() == first
    assert key(TERM="other", COLUMNS="7", SHLVL="3", LAKEHOUSE_DECIDED_BY="ada in Airflow", JPY_PARENT_PID="7") == first
    others = [
        key({"spark.driver.memory": "2g"}), key(seconds=61), key(AWS_ACCESS_KEY_ID="x"), key(TZ="UTC"),
        key(LAKEHOUSE_LAKE_PATH="/elsewhere"), key(HADOOP_CONF_DIR=str(tmp_path)),
    ]  # fmt: skip
    times = jar.stat()
    jar.write_bytes(b"two")
    os.utime(jar, ns=(times.st_atime_ns, times.st_mtime_ns))
    others.append(key())
    mask = os.umask(0o027)
    others.append(key())
    os.umask(mask)
    monkeypatch.chdir(tmp_path)
    others.append(key())
    assert len({first, *others}) == 1 + len(others)


@pytest.mark.parametrize(("memory", "first_heap"), [("3g", "-Xms128m"), ("64m", "-Xms32m"), (None, None)])
def test_java_starts_with_the_options_of_a_kept_one(memory: str | None, first_heap: str | None) -> None:
    options = shlex.split(java_options("-XX:+UseParallelGC", memory, is_kept=True))
    assert [option for option in options if option.startswith("-Xms")] == [first_heap] * (first_heap is not None)
    subprocess.run(["java", *options, "-XX:+UseParallelGC", "-version"], check=True, capture_output=True)


def test_its_files_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    files = private_files.files_here()
    assert files.folder == tmp_path / "lakehouse"
    files.state.write_text('{"port": 1}')
    files.state.chmod(0o644)
    assert private_files.read_private(files.state) is None
    files.state.chmod(0o600)
    assert private_files.read_private(files.state) == {"port": 1}
    files.client.symlink_to(files.state)
    assert private_files.read_private(files.client) is None
    for text in ("", "[]", "{", "\x00", '{"keeper": "x", "java": 1, "started": 1, "port": 1}'):
        files.state.write_text(text)
        assert engine.find_engine(files) is None
    assert private_files.files_here(for_notebook=True).scope != files.scope
    monkeypatch.chdir(tmp_path)
    assert private_files.files_here().scope != files.scope


def test_a_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`su` leaves the variable of the user before; a folder that root made there would keep that user out."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own, user = f"lakehouse-{os.getuid()}", os.getuid()
    (tmp_path / "run").mkdir()
    for named in ("/" + "x" * 5_000, "/a\0b", "run", "/etc/passwd", str(tmp_path / "nowhere")):
        with monkeypatch.context() as patched:
            patched.setattr(private_files.os, "environ", {"XDG_RUNTIME_DIR": named})
            assert private_files.private_folder() == tmp_path / own
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    assert private_files.private_folder() == tmp_path / "run" / "lakehouse"
    (tmp_path / "run" / "lakehouse").rmdir()
    (tmp_path / own).rmdir()
    monkeypatch.setattr(private_files.os, "getuid", lambda: user + 1)
    with pytest.raises(StorageError, match=f"lakehouse-{user + 1} is not a folder of this user alone"):
        private_files.private_folder()
    assert not (tmp_path / "run" / "lakehouse").exists()


@pytest.mark.parametrize("kind", ["open to others", "a link", "a file"])
def test_a_place_that_others_can_write_to_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = tmp_path / "lakehouse"
    if kind == "a link":
        (tmp_path / "other").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "other")
    elif kind == "a file":
        folder.write_text("")
    else:
        folder.mkdir()
        folder.chmod(0o755)
    with pytest.raises(StorageError, match="is not a folder of this user alone"):
        private_files.files_here()


def test_the_kernel_frees_the_lock_of_a_process_that_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    files = private_files.files_here()
    locking = f"f = open({str(files.lock)!r}, 'w'); fcntl.flock(f, fcntl.LOCK_EX)"
    code = f"import fcntl, time; {locking}; print(); time.sleep(99)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert private_files.try_lock(files.lock, lambda: False) is None
        holder.kill()
        holder.wait()
    taken = engine.claim_engine(files)
    assert taken is not None
    assert engine.usable_engine(taken, "key") is None
    assert engine.client_pid(files) == os.getpid()
    taken.release()
    assert engine.client_pid(files) is None


@pytest.mark.parametrize("place", ["lock", "client", "log"])
def test_a_place_that_cannot_be_written_to_costs_only_the_kept_engine(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(client, "hash_of_start", lambda *_: "key")
    files = private_files.files_here()
    open_file = os.open

    def refuse(path: Any, *arguments: Any, **named: Any) -> int:
        if path == getattr(files, place):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return open_file(path, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        assert client.connect_to_engine({}, 60, properties_file, "pyspark-shell") is None
    assert caplog.messages == [f"Spark is not kept: {getattr(files, place)}: Read-only file system"]
    claim = engine.claim_engine(files)
    assert claim is not None, "it was given up"
    claim.give_up()


def test_a_java_that_does_not_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(client, "hash_of_start", lambda *_: "key")
    monkeypatch.setattr(engine, "start_engine", lambda *_: None)
    assert client.connect_to_engine({}, 60, properties_file, "pyspark-shell") is None
    log = private_files.files_here().log
    assert caplog.messages == [f"Spark is not kept: its Java did not start; {log} has what it printed."]
