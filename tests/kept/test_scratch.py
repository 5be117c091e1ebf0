"""The folders of what Java writes for a while: removed by Java itself, or by the next start if it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.spark.jvm.kept import scratch
from lakehouse.spark.jvm.kept.scratch import JAVA_OPTIONS, LOCK, Scratch, open_scratch, sweep_scratch
from lakehouse.spark.jvm.session.launch import properties_file

OPEN_AND_WAIT = """
from lakehouse.spark.jvm.kept.scratch import open_scratch
print(open_scratch().folder, flush=True)
input()
"""
# A session with the settings of the command line, in which a shuffle has written blocks.
SPARK = """
import sys
from lakehouse.settings.config import load
from lakehouse.spark.jvm.session.session import open_session
spark = open_session(load(environ={"LAKEHOUSE_LAKE_PATH": sys.argv[1], "LAKEHOUSE_SPARK_KEEP": "off"}))
spark.range(1000).repartition(3).cache().count()
print("ready", flush=True)
sys.stdin.read(1)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary files"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def make_old(folder: Path) -> None:
    before = time.time() - scratch.YOUNG_SECONDS - 1
    os.utime(folder / LOCK, (before, before))


@pytest.fixture
def other_process() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    process = subprocess.Popen(
        [sys.executable, "-c", OPEN_AND_WAIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    yield process, folder
    process.kill()
    process.wait()


def test_the_settings_of_a_start_go_with_its_folder(temporary: Path) -> None:
    """They may hold secrets: a process that is killed while its Java starts must not leave them for good."""
    own = open_scratch()
    with properties_file({"spark.app.name": "x"}, own.folder) as file:
        assert [*temporary.iterdir()] == [own.folder]
        assert own.folder in file.parents
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [path.name for path in own.folder.iterdir()] == [LOCK]
    os.close(own.lock)


def test_a_folder_goes_once_the_process_that_has_it_was_killed(
    other_process: tuple[subprocess.Popen[str], Path], temporary: Path
) -> None:
    process, folder = other_process
    (folder / "blockmgr-1").mkdir()
    (folder / "blockmgr-1" / "block").write_bytes(b"x")
    make_old(folder)
    sweep_scratch()
    assert folder.is_dir(), "its process lives"
    process.kill()
    process.wait()
    os.utime(folder / LOCK)
    sweep_scratch()
    assert folder.is_dir(), "it may not be locked yet"
    make_old(folder)
    own = open_scratch()
    assert list(temporary.iterdir()) == [own.folder]
    assert own.folder.stat().st_mode & 0o777 == 0o700
    os.close(own.lock)


def test_a_folder_without_a_lock_goes_once_it_is_old_and_empty(temporary: Path) -> None:
    before = time.time() - scratch.YOUNG_SECONDS - 1
    for name in ("young", "old", "full"):
        (temporary / f"lakehouse-java-{name}").mkdir()
    (temporary / "lakehouse-java-full" / "block").touch()
    for name in ("old", "full"):
        os.utime(temporary / f"lakehouse-java-{name}", (before, before))
    sweep_scratch()
    assert {path.name for path in temporary.iterdir()} == {"lakehouse-java-young", "lakehouse-java-full"}


def test_only_folders_of_javas_are_removed(temporary: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / LOCK).touch()
    make_old(outside)
    (temporary / "lakehouse-java-link").symlink_to(outside)
    (temporary / "lakehouse-java-file").touch()
    (temporary / "lakehouse-java-unlocked").mkdir()
    locked_by_link = temporary / "lakehouse-java-locked"
    locked_by_link.mkdir()
    (locked_by_link / LOCK).symlink_to(outside / LOCK)
    (temporary / "spark-of-another").mkdir()
    sweep_scratch()
    assert len(list(temporary.iterdir())) == 5
    assert outside.is_dir()


def test_what_a_user_has_chosen_stays() -> None:
    own = Scratch(Path("/a b"), 0)
    assert own.settings({}) == {JAVA_OPTIONS: '"-Djava.io.tmpdir=/a b"'}
    assert own.settings({JAVA_OPTIONS: "-Xss1m", "x": "y"}) == {
        JAVA_OPTIONS: '"-Djava.io.tmpdir=/a b" -Xss1m', "x": "y",
    }  # fmt: skip
    chosen = {JAVA_OPTIONS: "-Djava.io.tmpdir=/mine"}
    assert own.settings(chosen) == chosen
    assert own.environ({}, {}) == {"SPARK_LOCAL_DIRS": "/a b"}
    assert own.environ({"spark.local.dir": "/mine"}, {}) == own.environ({}, {"SPARK_LOCAL_DIRS": "/mine"}) == {}


@pytest.mark.rotated
def test_spark_leaves_nothing_behind_and_the_next_start_removes_what_a_killed_one_left(
    temporary: Path, tmp_path: Path
) -> None:
    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", SPARK, str(tmp_path / "lake")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        return process

    killed = start()
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    (left,) = temporary.iterdir()
    assert any(path.name.startswith("blockmgr-") for path in left.iterdir())
    make_old(left)
    ended = start()
    (own,) = temporary.iterdir()
    assert own != left
    assert (own / LOCK).exists()
    assert {path.name.split("-")[0] for path in own.iterdir()} >= {"artifacts", "blockmgr", "spark"}
    ended.communicate("\n", timeout=60)
    deadline = time.monotonic() + 30
    while any(temporary.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.1)  # Java ends after Python
    assert list(temporary.iterdir()) == []
