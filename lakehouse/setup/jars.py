"""Fetch the jars of ivy.xml into one folder per configuration: ``<target>/spark`` and ``<target>/kafka``.

Nothing but Python's standard library, Java and the Apache Ivy jar that pyspark ships is needed; so make asks this file
for Java before anything is installed. checksums.txt says what each jar must be, by SHA-256: a jar that is another one,
or one too many, is refused, when it is fetched and whenever this runs. A second run reads the jars (66 MB, tenths of a
second) and does nothing else.

    python lakehouse/setup/jars.py [--target FOLDER]
    python lakehouse/setup/jars.py --lock      write checksums.txt again, after ivy.xml has changed; look at the diff
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
CHECKSUMS = HERE / "checksums.txt"
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
    """Fill ``<target>/spark`` and ``<target>/kafka``. True: fetched. False: they were there already, and are right.

    A folder appears complete or not at all: the jars are gathered beside it and renamed. Raises ResolveError, also for
    jars that were changed since they were fetched.
    """
    target.mkdir(parents=True, exist_ok=True)
    expected = _expected()
    with (target / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once: the second one finds the work done
        stamp = target / "stamp.json"
        if wrong := _wrong(_checksums(target), expected):
            if _stamped(stamp) == key():  # by these very files: the jars are not what was fetched
                raise ResolveError(
                    f"{target} was changed since its jars were fetched: {wrong}. Expected the jars of "
                    f"{CHECKSUMS.name}, no other and no more. Find out who did it; then remove {target} and run "
                    "`lakehouse setup` again."
                )
        elif _stamped(stamp) == key():
            return False
        else:  # the jars of another checkout, or of an older form of this file
            _write(stamp)
            return False
        executable, ivy = java(), _ivy_jar()
        stamp.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=target) as folder:
            fresh = Path(folder)
            _retrieve(executable, ivy, fresh, target / "ivy-cache")
            if wrong := _wrong(_checksums(fresh), expected):
                raise ResolveError(
                    f"What was fetched is not what {CHECKSUMS.name} says: {wrong}. Nothing of it was kept but Ivy's "
                    f"cache. Remove {target} and run `lakehouse setup` again; if it stays so, the repository hands out "
                    "other files than it did: don't use them before you know why."
                )
            for kind in KINDS:
                (fresh / kind).chmod(0o755)
                shutil.rmtree(target / kind, ignore_errors=True)
                (fresh / kind).rename(target / kind)
        _write(stamp)
    return True


def lock(target: Path) -> None:
    """Write checksums.txt from what Ivy fetches now, into a folder of its own. Raises ResolveError."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".lock-", dir=target) as folder:
        _retrieve(java(), _ivy_jar(), Path(folder), Path(folder) / "ivy-cache")
        found = _checksums(Path(folder))
        # Ivy's cache: <kind>/<organisation>/<module>/<type>s/<file>
        owners = {
            f"{path.parts[-5]}/{path.name}": f"{path.parts[-4]}:{path.parts[-3]}"
            for path in (Path(folder) / "ivy-cache").rglob("*.jar")
        }
    head = "# SHA-256, place, organisation and module of every jar; make lock-jars writes it. Of ivy.xml:"
    lines = [f"{head} {_sha256(IVY_FILES[0])}"]
    CHECKSUMS.write_text(
        "\n".join([*lines, *(f"{found[name]}  {name}  {owners[name]}" for name in sorted(found))]) + "\n"
    )


def _expected() -> dict[str, str]:
    """The checksum of each jar by its place: spark/x.jar. Raises ResolveError if they are of another ivy.xml."""
    head, *lines = CHECKSUMS.read_text().splitlines()
    if not head.endswith(_sha256(IVY_FILES[0])):
        raise ResolveError(
            f"{CHECKSUMS.name} was written for another {IVY_FILES[0].name}; expected checksums of the jars that it "
            "names now. Run make lock-jars, and look at what it changed."
        )
    return {name: checksum for checksum, name, _ in (line.split() for line in lines)}


def _checksums(target: Path) -> dict[str, str]:
    """The checksum of each file in the folders of jars, by its place. What is no file has one that no jar has."""
    found: dict[str, str] = {}
    for kind in KINDS:
        for path in sorted((target / kind).glob("*")) if (target / kind).is_dir() else ():
            found[f"{kind}/{path.name}"] = (
                _sha256(path) if path.is_file() and not path.is_symlink() else "no plain file"
            )
    return found


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _wrong(found: dict[str, str], expected: dict[str, str]) -> str:
    """What differs, for an error; empty if nothing does."""
    other = sorted(name for name in found.keys() & expected.keys() if found[name] != expected[name])
    parts = (
        ("{} has the SHA-256 " + (found[other[0]] if other else "") + ", not the one expected", other),
        ("{} is not expected", sorted(found.keys() - expected.keys())),
        ("{} is missing", sorted(expected.keys() - found.keys())),
    )
    return "; ".join(
        text.format(names[0]) + (f" (and {len(names) - 1} more such)" if len(names) > 1 else "")
        for text, names in parts
        if names
    )


def key() -> str:
    """Return a digest of what the jars are made from: it names them."""
    digest = hashlib.sha256()
    for path in (*IVY_FILES, CHECKSUMS):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _stamped(stamp: Path) -> str | None:
    """The key that the jars were fetched by; None where that is not known."""
    try:
        return str(json.loads(stamp.read_text())["key"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(stamp: Path) -> None:
    written = stamp.with_name(".stamp.new")
    written.write_text(json.dumps({"key": key()}) + "\n")
    written.rename(stamp)


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    places = list(spec.submodule_search_locations or []) if spec else []
    found = [jar for place in places for jar in sorted((Path(place) / "jars").glob("ivy-*.jar"))]
    if not found:
        raise ResolveError(
            f"Found no Apache Ivy in the pyspark of {sys.executable}; expected pyspark with its jars. "
            "Install lakehouse with its dependencies into this Python first (pip, or make setup, does)."
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
        "-Dhttps.proxyHost=...), then run `lakehouse setup` again; what was fetched is kept.\n"
        f"Ivy's last lines:\n{last}"
    )


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns the exit code: 0 done, 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(description="Fetch the jars that lakehouse needs.")
    parser.add_argument("--target", type=Path, default=HERE.parents[1] / ".jars", help="default: .jars in the checkout")
    parser.add_argument("--check-java", action="store_true", help="only check that Java is new enough")
    parser.add_argument("--lock", action="store_true", help="rewrite checksums.txt from what is fetched now")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    try:
        if options.check_java:
            java()
        elif options.lock:
            lock(options.target.resolve())
            print(f"jars: wrote {CHECKSUMS}; look at what it changed")
        elif resolve(options.target.resolve()):
            print(f"jars: fetched in {time.monotonic() - started:.0f} s")
    except ResolveError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
