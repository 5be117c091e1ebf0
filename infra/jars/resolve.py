"""Fetch the jars of ivy.xml into one folder per configuration: ``<target>/spark`` and ``<target>/kafka``.

Nothing but Python's standard library, Java and the Apache Ivy jar that pyspark ships is needed. A second run
with the
same ivy files does nothing. Run as ``python infra/jars/resolve.py [--target FOLDER]``.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
IVY_FILES = (HERE / "ivy.xml", HERE / "ivysettings.xml")
KINDS = ("spark", "kafka")
JAVA_OLDEST = 17
LINES_SHOWN = 15


class ResolveError(Exception):
    """The jars can't be fetched. The message says what was found, what was expected and what to do."""


def java() -> str:
    """The path of a Java 17 or newer: ``JAVA_HOME`` if it is set, else the PATH. Raises ResolveError."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    advice = f"Install a JDK or JRE {JAVA_OLDEST} or newer and put it on the PATH, or set JAVA_HOME to its folder."
    if path is None:
        where = f"JAVA_HOME={home}" if home else "the PATH"
        raise ResolveError(f"Found no java in {where}; expected Java {JAVA_OLDEST} or newer. {advice}")
    shown = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)
    said = (shown.stderr + shown.stdout).strip()
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    if match is None or int(match[1]) < JAVA_OLDEST:
        found = next((line for line in said.splitlines() if "version" in line), said or "no answer")
        raise ResolveError(f"Found {path}: {found}; expected Java {JAVA_OLDEST} or newer. {advice}")
    return path


def resolve(target: Path) -> bool:
    """Fill ``<target>/spark`` and ``<target>/kafka``. True: fetched. False: they were there already.

    A folder appears complete or not at all: the jars are gathered beside it and renamed. Raises ResolveError.
    """
    target.mkdir(parents=True, exist_ok=True)
    with (target / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once: the second one finds the work done
        if _is_current(target):
            return False
        executable, ivy = java(), _ivy_jar()
        stamp = target / "stamp.json"
        stamp.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=target) as folder:
            fresh = Path(folder)
            _retrieve(executable, ivy, fresh, target / "ivy-cache")
            for kind in KINDS:
                (fresh / kind).chmod(0o755)
                shutil.rmtree(target / kind, ignore_errors=True)
                (fresh / kind).rename(target / kind)
        jars = {kind: sorted(jar.name for jar in (target / kind).glob("*.jar")) for kind in KINDS}
        written = target / ".stamp.new"
        written.write_text(json.dumps({"key": _key(), "jars": jars}, indent=1) + "\n")
        written.rename(stamp)
    return True


def _key() -> str:
    digest = hashlib.sha256()
    for path in IVY_FILES:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_current(target: Path) -> bool:
    try:
        stamp = json.loads((target / "stamp.json").read_text())
    except (OSError, ValueError):
        return False
    return stamp["key"] == _key() and all(
        (target / kind / name).is_file() for kind, names in stamp["jars"].items() for name in names
    )


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    places = list(spec.submodule_search_locations or []) if spec else []
    found = [jar for place in places for jar in sorted((Path(place) / "jars").glob("ivy-*.jar"))]
    if not found:
        raise ResolveError(
            f"Found no Apache Ivy in the pyspark of {sys.executable}; expected pyspark with its jars. "
            "Install infra/python/requirements.lock into this Python first (make setup does)."
        )
    return found[-1]


def _retrieve(executable: str, ivy: Path, folder: Path, cache: Path) -> None:
    """Run Ivy for both configurations at once: most of the time goes into waiting for small files."""
    running: dict[str, subprocess.Popen[bytes]] = {}
    logs = {kind: folder / f"{kind}.log" for kind in KINDS}
    for kind in KINDS:
        with logs[kind].open("wb") as log:
            # A cache of its own for each: Ivy's is not made for two writers.
            running[kind] = subprocess.Popen(
                [
                    *(executable, f"-Dlakehouse.ivy.cache={cache / kind}", "-jar", str(ivy)),
                    *("-settings", str(IVY_FILES[1]), "-ivy", str(IVY_FILES[0]), "-confs", kind),
                    *("-retrieve", f"{folder}/[conf]/[artifact]-[revision](-[classifier]).[ext]"),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
    codes = {kind: process.wait() for kind, process in running.items()}
    for kind, code in codes.items():
        if code != 0 or not any((folder / kind).glob("*.jar")):
            raise ResolveError(_failure(kind, code, logs[kind].read_text(errors="replace")))


def _failure(kind: str, code: int, log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip() and set(line.strip()) - set(".:")]
    last = "\n".join(f"    {line}" for line in lines[-LINES_SHOWN:])
    return (
        f"Apache Ivy could not fetch the {kind} jars (exit code {code}). Expected: every dependency of "
        f"{IVY_FILES[0].name} "
        "found in the Maven repository.\n"
        "Check that this machine reaches the Maven repository (behind a proxy set JAVA_TOOL_OPTIONS="
        "-Dhttps.proxyHost=...), then run make setup again; what was fetched is kept.\n"
        f"Ivy's last lines:\n{last}"
    )


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns the exit code: 0 done, 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(description="Fetch the jars that lakehouse needs.")
    parser.add_argument(
        "--target", type=Path, default=HERE.parent.parent / ".jars", help="default: .jars in the project"
    )
    parser.add_argument("--check-java", action="store_true", help="only check that Java is new enough")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    try:
        if options.check_java:
            java()
        elif resolve(options.target.resolve()):
            print(f"jars: fetched in {time.monotonic() - started:.0f} s")
        else:
            print("jars: up to date")
    except ResolveError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
