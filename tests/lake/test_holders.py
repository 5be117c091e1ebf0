"""Which process holds leases in a store: it lives or has ended, whatever its machine's clock does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from lakehouse import process
from lakehouse.lake.control import store_session
from lakehouse.lake.control.store_session import Holder

SAY_HOLDER = """
import json, sys
from dataclasses import asdict
from lakehouse.lake.control.store_session import Holder
print(json.dumps(asdict(Holder.of_this_process())), flush=True)
sys.stdin.readline()
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no process is known to have ended")


@pytest.fixture
def other() -> Iterator[tuple[subprocess.Popen[bytes], Holder]]:
    with subprocess.Popen([sys.executable, "-c", SAY_HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        holder = store_session._parse_holder(running.stdout.readline())
        assert holder is not None
        yield running, holder
        running.kill()


@pytest.mark.parametrize("step_seconds", [-3600, -2, 0.5, 2, 3600])
def test_a_clock_that_is_set_ends_no_process(
    other: tuple[subprocess.Popen[bytes], Holder], monkeypatch: pytest.MonkeyPatch, step_seconds: float
) -> None:
    """The time of day at which the machine started, from which psutil counts, goes with the clock."""
    import psutil._pslinux as linux

    own = Holder.of_this_process()
    boot_time = linux.boot_time
    monkeypatch.setattr(linux, "boot_time", lambda: boot_time() + step_seconds)
    assert not own.has_ended()
    assert not other[1].has_ended()


def test_a_process_that_ended_is_known_to_have(other: tuple[subprocess.Popen[bytes], Holder]) -> None:
    running, holder = other
    running.kill()
    running.wait()
    assert holder.has_ended()


def test_another_process_of_the_same_number_is_another(other: tuple[subprocess.Popen[bytes], Holder]) -> None:
    holder = other[1]
    assert holder.start_ticks is not None
    assert replace(holder, start_ticks=holder.start_ticks - 1).has_ended(), "a hundredth of a second before"
    assert not replace(holder, start_ticks=holder.start_ticks - 1, machine="another").has_ended()
    assert not replace(holder, start_ticks=holder.start_ticks - 1, machine="").has_ended()


def test_a_process_that_is_hidden_has_not_ended(
    other: tuple[subprocess.Popen[bytes], Holder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another account's is where /proc is mounted with hidepid."""
    running, holder = other
    monkeypatch.setattr(process, "start_ticks", lambda _: None)
    assert not holder.has_ended()
    running.kill()
    running.wait()
    assert holder.has_ended()


def test_a_process_of_another_account_is_there() -> None:
    assert process.is_pid_used(1)
    assert process.is_pid_used(os.getpid())


def test_a_programs_name_may_have_parentheses_and_spaces() -> None:
    name = "a) b ("
    command = f"open('/proc/self/comm', 'w').write({name!r}); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()
        own, found = process.start_ticks(os.getpid()), process.start_ticks(running.pid)
        running.kill()
    assert own is not None
    assert found is not None
    assert found >= own
