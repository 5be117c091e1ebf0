"""What a person who waits sees: one line that is written anew on a terminal, elsewhere lines now and then."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakehouse.cli.terminal.waiting import PhaseLines, call_repeatedly, show_phases
from lakehouse.phases import phase

COMMAND = """
import time
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.waiting import show_phases
from lakehouse.phases import phase
with show_phases(quiet={quiet}):
    with phase("starting", "starting \\x1b[31m" + "Spark" * 40):
        time.sleep(0.6)
    show.say("the answer")
"""


class Watcher:
    """Lines said at chosen seconds."""

    def __init__(self, idle_text: str | None = None) -> None:
        self.said: list[str] = []
        self.began = time.monotonic()
        self.lines = PhaseLines(self.said.append, self.began, idle_text)

    def at(self, seconds: float) -> list[str]:
        self.said.clear()
        self.lines(self.began + seconds)
        return list(self.said)


def test_a_phase_is_said_within_two_seconds_and_again_after_ten() -> None:
    watcher = Watcher()
    with phase("Spark"):
        assert watcher.at(1) == []
        assert watcher.at(1.75) == ["Spark (2 s)"]
        assert watcher.at(9) == []
        assert watcher.at(12) == ["Spark (12 s)"]
    with phase("bronze"):
        assert watcher.at(12.5) == [], "a line has just been said"
        assert watcher.at(13.6) == ["bronze (14 s)"]
    with phase("bronze"):
        assert watcher.at(20) == [], "known by now, and a job has many"
        assert watcher.at(24) == ["bronze (24 s)"]


def test_a_job_that_waits_says_so_once() -> None:
    watcher = Watcher("up to date")
    with phase("tables"):
        assert watcher.at(2) == ["tables (2 s)"]
        assert watcher.at(8) == []
    assert watcher.at(9) == ["up to date"]
    assert watcher.at(20) == []


def test_nothing_is_said_of_what_takes_an_instant(capsys: pytest.CaptureFixture[str]) -> None:
    with show_phases(quiet=False), phase("Spark"):
        time.sleep(0.6)
    assert capsys.readouterr().err == ""


def test_a_look_that_is_under_way_ends_with_the_block() -> None:
    looks: list[float] = []
    with call_repeatedly(looks.append):
        time.sleep(0.6)
    count = len(looks)
    time.sleep(0.5)
    assert len(looks) == count >= 1


@pytest.mark.parametrize("quiet", [True, False])
def test_on_a_terminal_the_line_is_gone_when_the_answer_comes(tmp_path: Path, quiet: bool) -> None:
    leader, follower = pty.openpty()
    environ = {**os.environ, "COLUMNS": "60"}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND.format(quiet=quiet)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=follower, env=environ, check=True, timeout=60,
    )  # fmt: skip
    os.close(follower)
    err = b""
    try:
        while chunk := os.read(leader, 4096):
            err += chunk
    except OSError:  # the end of a terminal
        pass
    os.close(leader)
    assert done.stdout == b"the answer\n"
    pieces = err.decode().split("\r\x1b[2K")
    if quiet:
        assert pieces == [""]
    else:
        assert pieces[1].startswith("starting \\x1b[31mSpark"), "what a terminal obeys is escaped"
        assert len(pieces[1]) < 60, "one line"
        assert pieces[-1] == ""
