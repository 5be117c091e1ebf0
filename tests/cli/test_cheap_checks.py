"""What is wrong before a run is said before Spark, or a broker, starts: topics, leases, folders, declarations."""

from __future__ import annotations

import errno
import os
import socket
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from deltalake.exceptions import DeltaError

from lakehouse.cli.start.job import run_part
from lakehouse.errors import ConfigError, NotFound
from lakehouse.kafka.topics import Cluster
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.layout import Layout
from lakehouse.run.lake import Lake
from lakehouse.run.start import topics
from lakehouse.run.start.application import load_app
from lakehouse.run.start.opened import Opened

APP = """
import lakehouse as lh

orders = lh.stream("orders", key="id string", schema="customer string")
totals = orders.group_by("customer").agg(n=lh.count()).table("totals")
app = lh.app(totals, orders.to_function("teller", print))
"""
RUN = ("run", "app.py", "--until", "caught-up")


@pytest.fixture(autouse=True)
def app(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An application; a configured Kafka that has the topic clicks alone; and no Spark."""
    (folder / "app.py").write_text(APP)
    (folder / "lakehouse.toml").write_text('[kafka]\nbootstrap_servers = "nowhere:9092"\n')
    monkeypatch.setattr(Cluster, "names", lambda self: ["clicks", "order"])
    monkeypatch.setattr(topics, "check_listening", lambda servers: None)

    def started(self: Opened) -> None:
        raise AssertionError("Spark starts")

    monkeypatch.setattr(Opened, "spark", property(started))


def test_a_topic_that_there_is_not(lakehouse):
    actual = lakehouse(*RUN)
    assert actual.code == 2
    assert "Kafka at nowhere:9092 has no topic orders. Did you mean 'order'? It has: clicks, order." in actual.err


def test_a_job_of_a_scheduler_starts_the_embedded_kafka_before_spark(folder, monkeypatch, capsys):
    """One that does not run yet: whether it has the topic is known before Spark starts, too."""
    (folder / "lakehouse.toml").unlink()
    broker = nullcontext(SimpleNamespace(bootstrap_servers="its:1"))
    monkeypatch.setattr("lakehouse.run.start.kafka.Broker", lambda *of: broker)
    for part in ("ingest", "silver"):
        with pytest.raises(AssertionError, match="Spark starts") if part == "silver" else nullcontext():
            assert run_part(part, ["--app", "app.py"], "") == 2
    said = capsys.readouterr().out
    assert "Kafka at its:1 has no topic orders. Did you mean 'order'?" in said


LISTENING = topics.check_listening


def test_a_kafka_that_nobody_runs(lakehouse, folder, monkeypatch):
    """Kafka's own client would try again for 15 seconds."""
    monkeypatch.setattr(topics, "check_listening", LISTENING)
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    servers = f"127.0.0.1:{free},nowhere.invalid:9092"
    (folder / "lakehouse.toml").write_text(f'[kafka]\nbootstrap_servers = "{servers}"\n')
    began = time.monotonic()
    actual = lakehouse(*RUN)
    assert (actual.code, f"Nobody listens at {servers} (127.0.0.1:{free}: Connection refused; " in actual.err) == (
        1,
        True,
    )
    assert time.monotonic() - began < 5


def test_one_address_that_listens_is_enough():
    with socket.create_server(("127.0.0.1", 0)) as server:
        LISTENING(f"nowhere.invalid:9092,127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("lease", ["ingest", "silver-totals", "function-teller"])
def test_a_lease_that_is_held(lakehouse, folder, lease):
    with Lease(Layout(str(folder / "lake")).lease(lease), "it"):
        actual = lakehouse(*RUN)
    assert (actual.code, "is being written by another process" in actual.err) == (3, True)


def make_table(path: Path) -> None:
    (path / "_delta_log").mkdir(parents=True)
    (path / "_delta_log" / f"{0:020}.json").touch()


@pytest.mark.parametrize("command", ["backfill", "revert"])
def test_a_backfill_beside_a_backfill(lakehouse, folder, command):
    make_table(folder / "lake/silver/totals")
    with Lease(Layout(str(folder / "lake")).lease("backfill-totals"), "it"):
        actual = lakehouse("repair", command, "app.py", "totals", *(["--tick", "1"] if command == "revert" else []))
    assert (actual.code, "by a backfill or a revert, is being written" in actual.err) == (3, True)


@pytest.mark.parametrize(
    ("lake", "said"), [("/proc/nothing/lake", "No such file or directory"), ("app.py", "it is a file")]
)
def test_a_folder_that_can_not_be_written(lakehouse, lake, said):
    actual = lakehouse(*RUN, "--lake", lake)
    assert actual.code == 2
    assert f"can't be written by user {Path('/').owner()}: {said}. Change its owner" in actual.err


def test_the_folder_of_the_embedded_kafka_can_not_be_written(lakehouse, folder):
    (folder / "lakehouse.toml").write_text('[kafka]\nfolder = "/proc/nothing"\n')
    actual = lakehouse(*RUN)
    assert (actual.code, "the embedded Kafka's folder /proc/nothing can't be written" in actual.err) == (2, True)


@pytest.mark.parametrize(
    "line",
    [
        ("repair", "backfill", "app.py", "totals"),
        ("repair", "revert", "app.py", "totals", "--tick", "1"),
        ("repair", "correct", "app.py", "totals"),
        ("test", "audit", "totals", "--app", "app.py"),
        ("past", "rebuild", "app.py", "totals", "--prove"),
        ("past", "changes", "totals", "--per-event", "--app", "app.py"),
    ],
    ids=lambda line: line[1],
)
def test_a_table_that_the_lake_does_not_have(lakehouse, folder, line):
    make_table(folder / "lake/silver/total")
    actual = lakehouse(*line)
    assert actual.code == 2
    assert "table 'totals' does not exist" in actual.err
    assert "Did you mean 'total'? It has: total." in actual.err


READS = (
    ("status",), ("look", "tables"), ("query", "SELECT 1"), ("past", "log", "totals"), ("past", "changes", "totals"),
    ("look", "late", "totals"), ("test", "check", "app.py"), ("repair", "backfill", "app.py", "totals"),
)  # fmt: skip


@pytest.mark.parametrize("line", READS, ids=" ".join)
def test_a_folder_without_a_lake_is_named(lakehouse, folder, line):
    (folder / "papers").mkdir()
    (folder / "papers" / "letter.txt").write_text("")
    for lake, said in (
        ("papers", "is no lake: it has neither bronze nor silver"),
        ("app.py", "is no lake: it is a file"),
        ("missing", "is no lake: there is no such folder"),
    ):
        actual = lakehouse(*line, "--lake", lake)
        assert (actual.code, actual.out) == (1, "")
        assert f"{folder / lake} {said}" in actual.err


def test_the_lake_of_the_settings_may_be_one_that_is_to_be_made(lakehouse):
    actual = lakehouse("status")
    assert (actual.code, "no tick yet" in actual.out) == (0, True)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, "/data/lake: Permission denied: this user may not read or write it; change its owner"),
        (errno.EROFS, "/data/lake: Read-only file system: its file system can only be read"),
        (errno.ENOSPC, "/data/lake: No space left on device: the disk is full"),
    ],
)
def test_what_is_wrong_with_a_folder_is_a_message(lakehouse, monkeypatch, number, said):
    def refused(*of: object) -> None:
        raise OSError(number, os.strerror(number), "/data/lake")

    monkeypatch.setattr("lakehouse.cli.start.facts.lake_facts", refused)
    actual = lakehouse("status")
    assert (actual.code, actual.out) == (1, "")
    assert actual.err.startswith(f"error: {said}")
    with pytest.raises(OSError, match="/data/lake"):
        lakehouse("status", "--debug")


@pytest.mark.parametrize("kind", [OSError, DeltaError, NotFound])
def test_a_file_that_delta_rs_can_not_read_is_a_message(lakehouse, monkeypatch, kind):
    def refused(*of: object) -> None:
        raise kind(
            "Kernel error -> Generic error\n  \x1b[31m↳\x1b[0m Unable to open file /data/my lake/0.json\n"
            "   \x1b[31m↳\x1b[0m Permission denied (os error 13)\n"
        )

    monkeypatch.setattr("lakehouse.cli.start.facts.lake_facts", refused)
    actual = lakehouse("status")
    assert actual.code in (1, 2)
    assert actual.err.startswith("error: /data/my lake/0.json: Permission denied: this user may not read or write it;")
    assert len(actual.err.splitlines()) == 1


def test_an_error_of_the_program_itself_is_no_message(lakehouse, monkeypatch):
    def broken(*of: object) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr("lakehouse.cli.start.facts.lake_facts", broken)
    with pytest.raises(OSError, match="Bad file descriptor"):
        lakehouse("status")


def test_a_moment_that_is_none_is_refused_before_spark(folder):
    app = load_app("app.py")
    (table,) = app.tables
    lake = Lake("lake")
    repairs = {
        "revert": lambda moment: lake.revert(app, table, moment),
        "plan_revert": lambda moment: lake.plan_revert(table, moment),
        "checkout": lambda moment: lake.checkout(table, "then", moment),
        "rebuild": lambda moment: lake.rebuild(table, "again", "bronze", moment),
        "prove": lambda moment: lake.prove(table, moment),
    }
    for name, repair in repairs.items():
        with pytest.raises(ConfigError, match="'June' is not a moment; expected one of"):
            repair("June")
        if "revert" in name:
            with pytest.raises(ConfigError, match="'now': expected a moment of the past"):
                repair("now")
