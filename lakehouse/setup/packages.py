"""Runs pip, and says how far it is while it installs from a lock: pip itself is silent, or writes a line for each file.

It needs only Python's standard library: make runs it before anything is installed.

    python lakehouse/setup/packages.py NAME LOCK -- PIP_COMMAND...

A line every few seconds on stderr, beginning with NAME; pip's own output only if it fails. The exit code is pip's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

SAY_SECONDS = 4.0
LINES_SHOWN = 40
PINNED = re.compile(r"(?m)^[A-Za-z0-9][\w.-]*==")
COLLECTED = re.compile(r"(?m)^Collecting ")
INSTALLING = re.compile(r"(?m)^Installing collected packages")


def run_pip(command: Sequence[str], lock: Path, say: Callable[[str], None]) -> int:
    """Run a command of pip that installs a lock's packages; return its exit code.

    say: gets how many packages pip has so far, and after a failure the last lines of pip.
    """
    package_count = len(PINNED.findall(lock.read_text(encoding="utf-8")))
    started = said_at = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        while process.poll() is None:
            time.sleep(0.1)
            if time.monotonic() - said_at >= SAY_SECONDS:
                said_at = time.monotonic()
                say(f"{describe_pip(_read_all(output.fileno()), package_count)}, {said_at - started:.0f} s")
        if process.returncode != 0:
            for line in _read_all(output.fileno()).splitlines()[-LINES_SHOWN:]:
                say(line)
    return process.returncode


def describe_pip(output: str, package_count: int) -> str:
    """Return how far pip is, by its output."""
    if INSTALLING.search(output):
        return f"installing {package_count} packages"
    return f"fetching package {len(COLLECTED.findall(output))} of {package_count}"


def _read_all(handle: int) -> str:
    # pip writes at the position of this handle, so it must not be moved.
    return os.pread(handle, os.fstat(handle).st_size, 0).decode(errors="replace")


def main(arguments: Sequence[str]) -> int:
    """Run the command line; return pip's exit code."""
    name, lock, _, *command = arguments
    return run_pip(command, Path(lock), lambda text: print(f"{name}: {text}", file=sys.stderr, flush=True))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
