"""The folder of what one Java writes for a while: Spark's shuffles and blocks, copies of native libraries.

    <folder for temporary files>/lakehouse-java-<letters>/    0700
        .lock    locked for as long as Java, or the process that started it, lives; the kernel frees it

A Java that ends by itself removes its folder. One that is killed can't, so each start of Java removes the folders of
this user whose lock is free.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PREFIX = "lakehouse-java-"
LOCK = ".lock"
LOCAL_DIRS, LOCAL_DIR = "SPARK_LOCAL_DIRS", "spark.local.dir"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
TEMPORARY = "java.io.tmpdir"
YOUNG_SECONDS = 60.0  # a folder may be there an instant before it is locked


@dataclass(frozen=True)
class Scratch:
    """A folder for one Java. lock: the handle of its lock, for Java's process to inherit."""

    folder: Path
    lock: int

    def settings(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return Spark's settings with the folder for temporary files; a user's own stays."""
        options = settings.get(JAVA_OPTIONS, "")
        if f"-D{TEMPORARY}=" in options:
            return dict(settings)
        return {**settings, JAVA_OPTIONS: f'"-D{TEMPORARY}={self.folder}" {options}'.rstrip()}

    def environ(self, settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables by which this Java alone, and no executor of another machine, keeps blocks there."""
        if environ.get(LOCAL_DIRS) or settings.get(LOCAL_DIR):
            return {}
        return {LOCAL_DIRS: str(self.folder)}


def open_scratch() -> Scratch:
    """Return a new folder, after removing those of Javas that were killed. Raises OSError if none can be made."""
    sweep_scratch()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return Scratch(folder, lock)


def sweep_scratch() -> None:
    """Remove the folders whose Java is gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # somebody else's, or another start removes it now
            facts = folder.lstat()
            if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid():
                if (folder / LOCK).exists():
                    _remove_if_unused(folder)
                elif time.time() - facts.st_mtime >= YOUNG_SECONDS:
                    folder.rmdir()  # its process was killed before it made the lock; others are not empty


def _remove_if_unused(folder: Path) -> None:
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        if time.time() - os.fstat(lock).st_mtime < YOUNG_SECONDS:
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
