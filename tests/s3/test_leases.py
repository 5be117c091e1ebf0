"""Leases in an S3 store: one holder at a time, through kills, silences and many that want one at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.errors import LeaseHeld, StorageError
from lakehouse.lake import store
from lakehouse.lake.control import note, store_lease, store_session
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.control.writer_leases import kept_by_holder
from lakehouse.lake.layout import Layout
from tests.s3.server import KEY, SECRET, ObjectStore

pytestmark = pytest.mark.slow

HOLD = """
import json, sys, time
from lakehouse.lake import store
from lakehouse.lake.control.lease import Lease

uri, options, path = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
store.use_store(uri, options)
with Lease(path, "table 'visits'"):
    print("held", flush=True)
    sys.stdin.readline()
"""
# Each adds one to a number that lies unguarded in the store, but for the lease.
COUNT = """
import json, sys, time
from lakehouse.errors import LeaseHeld
from lakehouse.lake import store
from lakehouse.lake.control import note
from lakehouse.lake.control.lease import Lease

uri, options, path = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
store.use_store(uri, options)
left = int(sys.argv[4])
while left:
    try:
        with Lease(path, "the number"):
            number = (note.read(uri + "/control/number.json") or {"number": 0})["number"]
            time.sleep(0.005)
            note.write(uri + "/control/number.json", {"number": number + 1})
            left -= 1
    except LeaseHeld:
        time.sleep(0.01)
"""


class Lake:
    def __init__(self, objects: ObjectStore) -> None:
        self.uri = objects.new_lake()
        self.files = objects.files(self.uri)
        self.options = {
            "endpoint": objects.endpoint, "path_style": "true", "access_key": KEY, "secret_key": SECRET,
        }  # fmt: skip
        self.path = Layout(self.uri).lease("silver-visits")
        store.use_store(self.uri, self.options)

    def start(self, code: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, self.uri, json.dumps(self.options), self.path, *arguments]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start_holder(self) -> subprocess.Popen[str]:
        holder = self.start(HOLD)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        return holder

    def sessions(self) -> list[Path]:
        return list((self.files / "control/sessions").glob("*"))


@pytest.fixture
def lake(object_store: ObjectStore) -> Iterator[Lake]:
    lake = Lake(object_store)
    yield lake
    assert not lake.sessions(), "a session outlived its leases"


def test_a_second_process_is_refused_until_the_first_gives_the_lease_back(lake: Lake) -> None:
    holder = lake.start_holder()
    with pytest.raises(LeaseHeld, match=rf"table 'visits' is being written .* process {holder.pid} on "):
        Lease(lake.path, "table 'visits'").acquire()
    with pytest.raises(LeaseHeld, match=f"process {holder.pid} on "):
        Lease(lake.path, "table 'visits'").check()
    Lease(Layout(lake.uri).lease("silver-nobody"), "table 'nobody'").check()
    with Lease(Layout(lake.uri).lease("silver-others"), "table 'others'"):
        assert len(lake.sessions()) == 2
    holder.communicate("\n")
    with Lease(lake.path, "table 'visits'"), pytest.raises(LeaseHeld, match=f"process {os.getpid()} on "):
        Lease(lake.path, "table 'visits'").acquire()
    Lease(lake.path, "table 'visits'").check()
    (last,) = (lake.files / "control/leases/silver-visits.lock").iterdir()
    assert last.read_text() == "{}"


def test_status_names_the_processes_that_hold_leases(lake: Lake) -> None:
    layout = Layout(lake.uri)
    assert kept_by_holder(layout) == {}
    holder = lake.start_holder()
    (session_path,) = lake.sessions()
    (kept,) = kept_by_holder(layout).items()
    assert f"process {holder.pid} on " in kept[0]
    assert "silent" not in kept[0]
    assert kept[1] == ["table visits"]
    with Lease(layout.lease("ingest"), "bronze"), Lease(layout.lease("stream-visits"), "the quarantine"):
        own = next(name for name in kept_by_holder(layout) if f"process {os.getpid()} on " in name)
        assert kept_by_holder(layout) == {kept[0]: kept[1], own: ["bronze"]}

    session = json.loads(session_path.read_text())
    holder.kill()
    holder.wait()
    assert kept_by_holder(layout) == {}  # it ran on this machine
    uri = f"{lake.uri}/control/sessions/{session_path.name}"
    store.put_object(uri, json.dumps({**session, "machine": "another"}).encode())
    assert list(kept_by_holder(layout).values()) == [["table visits"]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_session, "EXPIRY_SECONDS", -1.0)
        (silent,) = kept_by_holder(layout)
    assert ", silent since 20" in silent
    store.delete_object(uri)
    assert kept_by_holder(layout) == {}


def test_a_killed_process_of_this_machine_loses_its_lease_at_once(lake: Lake) -> None:
    holder = lake.start_holder()
    holder.kill()
    holder.wait()
    started = time.monotonic()
    with Lease(lake.path, "table 'visits'"):
        assert time.monotonic() - started < store_session.RENEWAL_SECONDS


def test_a_living_process_keeps_its_lease_while_the_clock_is_set(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    linux = pytest.importorskip("psutil._pslinux")
    holder = lake.start_holder()
    boot_time = linux.boot_time
    monkeypatch.setattr(linux, "boot_time", lambda: boot_time() + 2)
    with pytest.raises(LeaseHeld, match=f"process {holder.pid} on "):
        Lease(lake.path, "table 'visits'").acquire()
    assert list(kept_by_holder(Layout(lake.uri)).values()) == [["table visits"]]
    holder.communicate("\n")


def test_a_process_elsewhere_loses_its_lease_when_its_session_expires(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = lake.start_holder()
    (session_path,) = lake.sessions()
    session = json.loads(session_path.read_text())
    monkeypatch.setattr(store_session, "EXPIRY_SECONDS", 2.0)  # shorter than the holder's renewals
    uri = f"{lake.uri}/control/sessions/{session_path.name}"
    store.put_object(uri, json.dumps({**session, "machine": "another"}).encode())
    holder.send_signal(signal.SIGSTOP)
    with pytest.raises(LeaseHeld):
        Lease(lake.path, "table 'visits'").acquire()
    deadline = time.monotonic() + 60
    while True:
        try:
            lease = Lease(lake.path, "table 'visits'").acquire()
            break
        except LeaseHeld:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    # The one that was silent wakes up, and ends: it must not free the lease of another.
    holder.send_signal(signal.SIGCONT)
    holder.communicate("\n")
    assert holder.returncode == 0
    with pytest.raises(LeaseHeld, match=f"process {os.getpid()} on "):
        Lease(lake.path, "table 'visits'").acquire()
    lease.release()


def test_many_that_want_one_lease_have_it_one_after_the_other(lake: Lake) -> None:
    processes, times = 4, 12
    running = [lake.start(COUNT, str(times)) for _ in range(processes)]
    assert [process.wait(120) for process in running] == [0] * processes
    assert note.read(f"{lake.uri}/control/number.json") == {"number": processes * times}


def test_threads_of_one_process_share_a_session_that_ends_with_the_last_lease(lake: Lake) -> None:
    failures: list[str] = []

    def use(name: str) -> None:
        for _ in range(5):
            with Lease(Layout(lake.uri).lease(name), name):
                if not lake.sessions():
                    failures.append(name)

    threads = [threading.Thread(target=use, args=(f"silver-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("failing", ["give back", "take"])
def test_a_store_that_is_away_for_a_moment_leaves_no_lease_that_its_own_process_can_not_take(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    put_object = store.put_object

    def away(path: str, *arguments: object, **options: object) -> bool:
        if path.startswith(lake.path):
            raise StorageError("away for a moment")
        return True

    def put_and_away(path: str, *arguments: object, **options: object) -> bool:
        put_object(path, *arguments, **options)  # type: ignore[arg-type]
        return away(path)

    with Lease(Layout(lake.uri).lease("silver-other"), "another table, which keeps the session"):
        lease = Lease(lake.path, "table 'visits'")
        if failing == "give back":
            lease.acquire()
            monkeypatch.setattr(store, "put_object", away)
            lease.release()
        else:
            monkeypatch.setattr(store, "put_object", put_and_away)
            with pytest.raises(StorageError, match="away"):
                lease.acquire()
        monkeypatch.setattr(store, "put_object", put_object)
        for _ in range(2):
            with lease, pytest.raises(LeaseHeld):
                Lease(lake.path, "table 'visits'").acquire()


def test_a_lease_of_unreadable_content_is_free_and_a_store_that_is_away_is_said(lake: Lake) -> None:
    store.put_object(f"{lake.path}/{7:020}.json", b"\xff{")
    store.put_object(f"{lake.path}/readme.txt", b"not a number")
    with Lease(lake.path, "table 'visits'"):
        pass
    store.use_store("s3a://elsewhere/lake", {**lake.options, "endpoint": "http://127.0.0.1:9"})
    with pytest.raises(StorageError, match=r"can.t be reached: .*Look at .lake. options"):
        Lease("s3a://elsewhere/lake/control/leases/ingest.lock", "bronze").acquire()
    store.use_store(lake.uri, {**lake.options, "secret_key": "another"})
    with pytest.raises(StorageError, match="can't be reached") as failure:
        Lease(lake.path, "table 'visits'").acquire()
    assert "another" not in str(failure.value)
    assert SECRET not in str(failure.value)
    store.use_store(lake.uri, lake.options, single_writer=True)
    with Lease(lake.path, "table 'visits'"), Lease(lake.path, "table 'visits'"):
        assert not lake.sessions()
    store.use_store(lake.uri, lake.options)


def test_notes_are_there_or_not_and_name_no_secret(lake: Lake) -> None:
    path = f"{lake.uri}/control/upkeep/silver.json"
    assert note.are_kept(path)
    assert note.read(path) is None
    note.remove(path)
    note.write(path, {"tick": 7})
    assert note.read(path) == {"tick": 7}
    store.put_object(path, b"[1]")
    assert note.read(path) is None
    note.rename(path, f"{path}.refused")
    assert store.get_object(f"{path}.refused").content == b"[1]"  # type: ignore[union-attr]
    note.rename(path, f"{path}.refused")
    assert note.read(path) is None
    assert not note.are_kept("abfss://box@account/lake/control/x.json")
    note.write("abfss://box@account/lake/control/x.json", {"tick": 7})
    assert note.read("abfss://box@account/lake/control/x.json") is None


def test_an_old_number_that_was_removed_since_gives_nobody_a_lease(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its look and its claim others have and give back the lease, so that the number is free again."""
    with Lease(lake.path, "table 'visits'"):
        pass
    look = store_lease.StoreLease._numbers
    looks = 0

    def look_and_be_overtaken(lease: store_lease.StoreLease) -> list[int]:
        nonlocal looks
        looks += 1
        numbers = look(lease)
        if looks == 1:
            for _ in range(2):
                with Lease(lake.path, "another"):
                    pass
            overtaking.acquire()
        return numbers

    overtaking = Lease(lake.path, "another")
    monkeypatch.setattr(store_lease.StoreLease, "_numbers", look_and_be_overtaken)
    with pytest.raises(LeaseHeld):
        Lease(lake.path, "table 'visits'").acquire()
    assert looks > 2
    overtaking.release()
