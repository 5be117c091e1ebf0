"""Fetch the jars of ivy.xml into one folder per configuration: ``<target>/spark``, ``<target>/kafka``, ...

Every run needs the sets of the jars of Spark and Kafka; those for s3a://, and the archive with the schema registry, are
fetched only when asked for.

It needs only Python's standard library, Java and the Apache Ivy jar that pyspark ships; so make asks this file for Java
before anything is installed. checksums.txt has the SHA-256 of each jar: another jar, or one too many, is refused, when
it is fetched and whenever this runs. A second run reads the jars (66 MB, tenths of a second) and does nothing else.

    python lakehouse/setup/jars.py [--target FOLDER] [--set s3]
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SETUP_FOLDER = Path(__file__).resolve().parent
IVY_FILES = (SETUP_FOLDER / "ivy.xml", SETUP_FOLDER / "ivysettings.xml")
CHECKSUMS = SETUP_FOLDER / "checksums.txt"
NEEDED_KINDS = ("spark", "kafka")
EXTRA_KINDS = ("s3", "s3proxy", "registry")
JAVA_OLDEST = 17
SAY_SECONDS = 4.0
LINES_SHOWN = 15
NEW = ".new-"  # the beginning of the names of folders that are not complete yet


class ResolveError(Exception):
    """The jars can't be fetched. The message gives the found state, the expected one, and advice."""


def find_java() -> str:
    """Return the path of a Java 17 or newer: from ``JAVA_HOME`` if it is set, else the PATH. Raises ResolveError."""
    java_home = os.environ.get("JAVA_HOME")
    java_path = shutil.which(str(Path(java_home) / "bin" / "java")) if java_home else shutil.which("java")
    advice = f"Install a JDK or JRE {JAVA_OLDEST} or newer and put it on the PATH, or set JAVA_HOME to its folder."
    if java_path is None:
        searched_places = f"JAVA_HOME={java_home}" if java_home else "the PATH"
        raise ResolveError(f"Found no java in {searched_places}; expected Java {JAVA_OLDEST} or newer. {advice}")
    found_version = version_line(java_path)
    version_match = re.search(r'version "(?:1\.)?(\d+)', found_version)
    if version_match is None or int(version_match[1]) < JAVA_OLDEST:
        raise ResolveError(f"Found {java_path}: {found_version}; expected Java {JAVA_OLDEST} or newer. {advice}")
    return java_path


def version_line(java_path: str) -> str:
    """Return the line in which a Java says its version; all that it says if there is none."""
    process = subprocess.run([java_path, "-version"], capture_output=True, text=True, check=False)
    output = without_variables(process.stderr + process.stdout).strip()
    lines = output.splitlines()
    return next((line for word in ('version "', "version") for line in lines if word in line), output or "no answer")


def without_variables(output: str) -> str:
    """Return what a Java printed without the lines in which it repeats variables with options: they may hold passwords.

    They are JDK_JAVA_OPTIONS, JAVA_TOOL_OPTIONS and _JAVA_OPTIONS.
    """
    return "\n".join(line for line in output.splitlines() if not line.startswith(("Picked up ", "NOTE: Picked up ")))


@contextmanager
def locked_folder(target: Path) -> Iterator[None]:
    """Hold the lock of a folder, made if it is not there, and remove what processes that were killed left in it.

    Of two runs at once, the second finds the work done.
    """
    target.mkdir(parents=True, exist_ok=True)
    with (target / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left_folder in target.glob(f"{NEW}*/"):
            shutil.rmtree(left_folder, ignore_errors=True)
        yield


def resolve_jars(target: Path, kinds: Sequence[str] = NEEDED_KINDS) -> bool:
    """Fill ``<target>/<kind>`` for each kind; return False if the right jars were there already.

    A folder appears complete or not at all: the jars are gathered beside it and renamed. Raises ResolveError, also for
    jars that were changed since they were fetched.
    """
    expected_checksums = _expected_checksums(kinds)
    with locked_folder(target):
        stamp_file = target / ("stamp.json" if kinds == NEEDED_KINDS else f"stamp-{'-'.join(kinds)}.json")
        if differences := _describe_differences(_checksums_in(target, kinds), expected_checksums):
            if _stamped_digest(stamp_file) == jars_digest():  # somebody has changed the jars since
                raise ResolveError(
                    f"{target} was changed since its jars were fetched: {differences}. Expected the jars of "
                    f"{CHECKSUMS.name}, no other and no more. Find out who did it; then remove {target} and run "
                    "`lakehouse setup` again."
                )
        elif _stamped_digest(stamp_file) == jars_digest():
            return False
        else:  # the jars of another checkout, or of an older version of this file
            _write_stamp(stamp_file)
            return False
        java_path, ivy_jar = find_java(), _find_ivy_jar()
        stamp_file.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(prefix=NEW, dir=target) as folder_name:
            new_folder = Path(folder_name)
            _retrieve_jars(java_path, ivy_jar, new_folder, target / "ivy-cache", kinds)
            if differences := _describe_differences(_checksums_in(new_folder, kinds), expected_checksums):
                raise ResolveError(
                    f"What was fetched is not what {CHECKSUMS.name} says: {differences}. Nothing of it was kept but "
                    f"Ivy's cache. Remove {target} and run `lakehouse setup` again; if it stays so, the repository "
                    "hands out other files than it did: don't use them before you know why."
                )
            for kind in kinds:
                (new_folder / kind).chmod(0o755)
                shutil.rmtree(target / kind, ignore_errors=True)
                (new_folder / kind).rename(target / kind)
        _write_stamp(stamp_file)
    return True


def lock_jars(target: Path) -> None:
    """Write checksums.txt from what Ivy fetches now, into a folder of its own. Raises ResolveError."""
    with locked_folder(target), tempfile.TemporaryDirectory(prefix=NEW, dir=target) as folder_name:
        kinds = (*NEEDED_KINDS, *EXTRA_KINDS)
        _retrieve_jars(find_java(), _find_ivy_jar(), Path(folder_name), Path(folder_name) / "ivy-cache", kinds)
        checksums = _checksums_in(Path(folder_name), kinds)
        # Ivy's cache: <kind>/<organisation>/<module>/<type>s/<file>
        modules_by_jar = {
            f"{path.parts[-5]}/{path.name}": f"{path.parts[-4]}:{path.parts[-3]}"
            for path in (Path(folder_name) / "ivy-cache").glob("*/*/*/*s/*")
        }
    head_line = "# SHA-256, place, organisation and module of every jar; make lock-jars writes it. Of ivy.xml:"
    lines = [f"{head_line} {_file_sha256(IVY_FILES[0])}"]
    CHECKSUMS.write_text(
        "\n".join([*lines, *(f"{checksums[name]}  {name}  {modules_by_jar[name]}" for name in sorted(checksums))])
        + "\n"
    )


def _expected_checksums(kinds: Sequence[str]) -> dict[str, str]:
    """Return the checksum of each jar by its place: spark/x.jar. Raises ResolveError if they are of another ivy.xml."""
    head_line, *lines = CHECKSUMS.read_text().splitlines()
    if not head_line.endswith(_file_sha256(IVY_FILES[0])):
        raise ResolveError(
            f"{CHECKSUMS.name} was written for another {IVY_FILES[0].name}; expected checksums of the jars that it "
            "names now. Run make lock-jars, and look at what it changed."
        )
    places = (line.split()[:2] for line in lines)
    return {name: checksum for checksum, name in places if name.partition("/")[0] in kinds}


def _checksums_in(target: Path, kinds: Sequence[str]) -> dict[str, str]:
    """Return the checksum of each file in the folders of jars, by its place. No jar has the checksum of a non-file."""
    checksums: dict[str, str] = {}
    for kind in kinds:
        for path in sorted((target / kind).glob("*")) if (target / kind).is_dir() else ():
            checksums[f"{kind}/{path.name}"] = (
                _file_sha256(path) if path.is_file() and not path.is_symlink() else "no plain file"
            )
    return checksums


def _file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _describe_differences(checksums: dict[str, str], expected_checksums: dict[str, str]) -> str:
    """Return the differences, for an error; empty if there are none."""
    changed_jars = sorted(
        name for name in checksums.keys() & expected_checksums.keys() if checksums[name] != expected_checksums[name]
    )
    difference_parts = (
        (
            "{} has the SHA-256 " + (checksums[changed_jars[0]] if changed_jars else "") + ", not the one expected",
            changed_jars,
        ),
        ("{} is not expected", sorted(checksums.keys() - expected_checksums.keys())),
        ("{} is missing", sorted(expected_checksums.keys() - checksums.keys())),
    )
    return "; ".join(
        part_text.format(jar_names[0]) + (f" (and {len(jar_names) - 1} more such)" if len(jar_names) > 1 else "")
        for part_text, jar_names in difference_parts
        if jar_names
    )


def jars_digest() -> str:
    """Return the digest of the files that determine the jars: it names their folder."""
    digest = hashlib.sha256()
    for path in (*IVY_FILES, CHECKSUMS):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _stamped_digest(stamp: Path) -> str | None:
    """Return the digest under which the jars were fetched; None if unknown."""
    try:
        return str(json.loads(stamp.read_text())["key"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_stamp(stamp: Path) -> None:
    new_stamp = stamp.with_name(".stamp.new")
    new_stamp.write_text(json.dumps({"key": jars_digest()}) + "\n")
    new_stamp.rename(stamp)


def _find_ivy_jar() -> Path:
    pyspark_spec = importlib.util.find_spec("pyspark")
    package_folders = list(pyspark_spec.submodule_search_locations or []) if pyspark_spec else []
    ivy_jars = [
        jar for package_folder in package_folders for jar in sorted((Path(package_folder) / "jars").glob("ivy-*.jar"))
    ]
    if not ivy_jars:
        raise ResolveError(
            f"Found no Apache Ivy in the pyspark of {sys.executable}; expected pyspark with its jars. "
            "Install lakehouse with its dependencies into this Python first (pip, or make setup, does)."
        )
    return ivy_jars[-1]


def _retrieve_jars(java_path: str, ivy_jar: Path, folder: Path, ivy_cache: Path, kinds: Sequence[str]) -> None:
    """Run Ivy for all configurations at once, because it spends most of the time waiting for small files."""
    processes: dict[str, subprocess.Popen[bytes]] = {}
    log_files = {kind: folder / f"{kind}.log" for kind in kinds}
    for kind in kinds:
        with log_files[kind].open("wb") as log_file:
            # A cache of its own for each: Ivy's is not made for two writers.
            processes[kind] = subprocess.Popen(
                [
                    *(java_path, f"-Dlakehouse.ivy.cache={ivy_cache / kind}", "-jar", str(ivy_jar)),
                    *("-settings", str(IVY_FILES[1]), "-ivy", str(IVY_FILES[0]), "-confs", kind),
                    *("-retrieve", f"{folder}/[conf]/[artifact]-[revision](-[classifier]).[ext]"),
                ],
                stdout=log_file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
    started = said_at = time.monotonic()
    while any(process.poll() is None for process in processes.values()):
        time.sleep(0.1)
        if time.monotonic() - said_at >= SAY_SECONDS:
            said_at = time.monotonic()
            file_count = sum(1 for _ in ivy_cache.glob("**/*.jar"))
            print(f"jars: {file_count} fetched so far, {said_at - started:.0f} s", file=sys.stderr, flush=True)
    exit_codes = {kind: process.returncode for kind, process in processes.items()}
    for kind, exit_code in exit_codes.items():
        if exit_code != 0 or not any((folder / kind).glob("*")):
            raise ResolveError(_describe_failure(kind, exit_code, log_files[kind].read_text(errors="replace")))


def _describe_failure(kind: str, exit_code: int, log_text: str) -> str:
    log_lines = [
        line.strip()
        for line in without_variables(log_text).splitlines()
        if line.strip() and set(line.strip()) - set(".:")
    ]
    last_lines = "\n".join(f"    {line}" for line in log_lines[-LINES_SHOWN:])
    return (
        f"Apache Ivy could not fetch the {kind} jars (exit code {exit_code}). Expected: every dependency of "
        f"{IVY_FILES[0].name} "
        "found in the Maven repository.\n"
        "Check that this machine reaches the Maven repository (behind a proxy set JAVA_TOOL_OPTIONS="
        "-Dhttps.proxyHost=...), then run `lakehouse setup` again; what was fetched is kept.\n"
        f"Ivy's last lines:\n{last_lines}"
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code: 0 done, 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(description="Fetch the jars that lakehouse needs.")
    parser.add_argument(
        "--target", type=Path, default=SETUP_FOLDER.parents[1] / ".jars", help="default: .jars in the checkout"
    )
    parser.add_argument("--check-java", action="store_true", help="only check that Java is new enough")
    parser.add_argument("--set", choices=EXTRA_KINDS, help="also fetch this set of jars")
    parser.add_argument("--lock", action="store_true", help="rewrite checksums.txt from what is fetched now")
    options = parser.parse_args(arguments)
    start_time = time.monotonic()
    try:
        if options.check_java:
            find_java()
        elif options.lock:
            lock_jars(options.target.resolve())
            print(f"jars: wrote {CHECKSUMS}; look at what it changed")
        else:
            is_fetched = resolve_jars(options.target.resolve())
            if options.set:
                is_fetched |= resolve_jars(options.target.resolve(), (options.set,))
            if is_fetched:
                print(f"jars: fetched in {time.monotonic() - start_time:.0f} s")
    except ResolveError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
