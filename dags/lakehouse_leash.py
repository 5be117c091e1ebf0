"""Runs a command that ends when its starter does, however the starter ends, even by SIGKILL, which can't be caught.

    python lakehouse_leash.py COMMAND ARGUMENT...

The starter makes this process the leader of a group of its own and holds the other end of its stdin. When that closes,
the group gets SIGTERM and, 3 s later, SIGKILL. The command's exit code is passed on, even if a signal ended it.
Standard library only, and nothing of this folder: it is started by its path, isolated (-I).
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

GRACE_S = 3.0
POLL_S = 0.2


def main(argv: list[str]) -> int:
    """Run the command to its end, or until stdin ends; return its exit code."""
    # A signal to the group has reached the command, too. Go on, and watch stdin: the command may ignore it.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    command = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    killed_at = None
    while command.poll() is None:
        if killed_at is not None and time.monotonic() > killed_at:
            os.killpg(os.getpgrp(), signal.SIGKILL)  # this process as well
        if killed_at is not None:
            time.sleep(POLL_S)
        elif select.select([sys.stdin], [], [], POLL_S)[0] and not os.read(sys.stdin.fileno(), 4096):
            killed_at = time.monotonic() + GRACE_S
            with contextlib.suppress(ProcessLookupError):
                os.killpg(os.getpgrp(), signal.SIGTERM)
    if killed_at is not None:
        os.killpg(os.getpgrp(), signal.SIGKILL)  # processes that the command left behind
    return command.returncode


if __name__ == "__main__":
    code = main(sys.argv[1:])
    if code < 0:
        if code != -signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
