"""The limits of an answer, since others use the process too: its size, DuckDB's memory, and time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import lakehouse
import lakehouse as lh
from lakehouse.errors import ConfigError, TimedOut
from lakehouse.lake.read_bounds import BoundedRead, bound_reads
from lakehouse.lake.sql import open_duckdb
from lakehouse.page import limits
from lakehouse.page.applications import Application, TableInfo
from lakehouse.page.overview import read_overview
from lakehouse.page.past import compare_moments, rows_at_moment
from lakehouse.page.row_history import row_history
from lakehouse.semantics.record import Record

from ..cli.versioned import VersionedTable, position
from ..cli.written import at
from ..written_bronze import write_quarantine
from .conftest import manifest, named

MEGABYTE = "k" * 1_000_000
SLOW = "SELECT count(*) FROM range(10_000_000_000) a, range(1000) b"
PROJECT = Path(lakehouse.__file__).parents[1]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Application:
    """Two tables: `big` has keys and values of a megabyte, `often` one key in 12 versions, with three windows each."""
    root = tmp_path_factory.mktemp("limits")
    row = {"_event_time": at(0), "_position": position(1, 0)}
    big = VersionedTable(root / "lake", "big", {"k": pa.string(), "v": pa.string()}, ("k",), feed=True)
    for tick in (1, 2):
        big.commit(tick, *({"k": f"{n:02}{MEGABYTE}", "v": f"{tick}{MEGABYTE}", **row} for n in range(8)))
    columns = {"k": pa.string(), "window_start": pa.int64(), "window_end": pa.int64(), "v": pa.string()}
    often = VersionedTable(root / "lake", "often", columns, ("k", "window_start", "window_end"), feed=True)
    for tick in range(1, 13):
        often.commit(
            tick, *({"k": "a", "window_start": n, "window_end": n + 1, "v": f"{tick}", **row} for n in range(3))
        )
    tables = [
        {"name": "big", "key": ["k"], "windowed": False, "source_topics": ["clicks"]},
        {"name": "often", "key": ["k", "window_start", "window_end"], "windowed": True, "source_topics": ["clicks"]},
    ]
    return named(root, manifest(root / "lake", tables=tables))


def big(shop: Application) -> TableInfo:
    return shop.table("big")


def test_rows_with_keys_of_a_megabyte_are_a_small_answer(shop):
    actual = rows_at_moment(shop, big(shop), "now", None, 50)
    assert len(json.dumps(actual)) < 8 * 2 * 2_500
    assert [row[0][:2] for row in actual["rows"]] == [f"{n:02}" for n in range(8)]
    assert actual["rows"][0][1].startswith("2k")
    assert actual["rows"][0][1].endswith("… (1,000,001 characters)")
    assert actual["keys"] == [None] * 8, "too long to be asked for"
    assert not actual["more"]
    assert len(json.dumps(compare_moments(shop, big(shop), "1", "now", None, 50))) < 8 * 4 * 2_500


def test_an_answer_is_limited_in_characters_and_says_that_there_is_more(shop, monkeypatch):
    monkeypatch.setattr(limits, "ANSWER_MAX", 9_000)
    actual = rows_at_moment(shop, big(shop), "now", None, 50)
    assert (len(actual["rows"]), len(actual["keys"]), actual["more"]) == (2, 2, True)
    assert len(compare_moments(shop, big(shop), "1", "2", None, 50)["changes"]) == 1


def test_a_history_that_is_cut_goes_on_without_a_gap_or_a_repeat(shop, monkeypatch):
    whole = row_history(shop, shop.table("often"), "a", None, 500)["changes"]
    assert len(whole) == 12 * 3
    monkeypatch.setattr(limits, "ANSWER_MAX", 1_000)
    parts, before = [], None
    while True:
        actual = row_history(shop, shop.table("often"), "a", before, 500)
        assert 0 < len(actual["changes"]) < 12
        parts += actual["changes"]
        if (before := actual["older"]) is None:
            break
    assert parts == whole


def test_a_history_with_many_changes_is_read_in_fewer_versions_at_once(shop, monkeypatch):
    whole = row_history(shop, shop.table("often"), "a", None, 500)["changes"]
    monkeypatch.setattr("lakehouse.page.row_history.CHANGES_MAX", 10)
    assert row_history(shop, shop.table("often"), "a", None, 500)["changes"] == whole


@pytest.mark.parametrize("name", ["rows", "compared", "row_history", "overview"])
def test_every_read_ends_when_its_time_is_over(shop, monkeypatch, name):
    monkeypatch.setattr(limits, "READ_SECONDS", 0.0)
    ask = {
        "rows": lambda: rows_at_moment(shop, big(shop), "now", None, 5),
        "compared": lambda: compare_moments(shop, big(shop), "1", "now", None, 5),
        "row_history": lambda: row_history(shop, big(shop), "a", None, 5),
        "overview": lambda: read_overview(shop),
    }
    with pytest.raises(TimedOut, match="has no such limit"):
        ask[name]()


def test_each_duckdb_of_the_overview_stays_within_its_bounds(shop, tmp_path, monkeypatch):
    clicks = lh.stream("clicks", key="user string", schema="ms bigint")
    lake = tmp_path / "lake"
    shutil.copytree(shop.lake, lake)
    bad = Record("clicks", "id", 0, 9, 900, b"k", b"no json", 7, 900)
    write_quarantine(lake, lh.app(clicks.latest("last")).sources[0], [bad])
    opened: list[tuple[str, ...]] = []
    connect = duckdb.connect

    def connect_and_ask(*arguments, **options):
        connection = connect(*arguments, **options)
        names = ("threads", "memory_limit", "temp_directory")
        opened.append(
            connection.execute(f"SELECT {', '.join(f'current_setting({name!r})' for name in names)}").fetchall()[0]
        )
        return connection

    monkeypatch.setattr(duckdb, "connect", connect_and_ask)
    actual = read_overview(named(tmp_path, manifest(lake)))
    assert actual["streams"]["clicks"]["quarantined"] == 1
    assert opened
    assert set(opened) == {(limits.THREADS, "244.1 MiB", "")}


def test_a_query_that_runs_is_interrupted():
    with (
        pytest.raises(TimedOut, match=r"was not read within 0.2 s; elsewhere"),
        bound_reads(BoundedRead(0.2, 64, 1, 1, "elsewhere")),
    ):
        open_duckdb().execute(SLOW)


def test_more_memory_than_a_read_may_take_is_refused_and_nothing_is_spilled(shop, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(limits, "MEMORY_MB", 8)
    with pytest.raises(ConfigError, match=r"can't be read in 8 MB of memory.*`lakehouse past diff big A B`"):
        compare_moments(shop, big(shop), "1", "now", None, 5)
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_has_no_such_bounds():
    with bound_reads(BoundedRead(9, 64, 1, 1, "")):
        inside = open_duckdb().sql("SELECT current_setting('threads'), current_setting('temp_directory')").fetchall()
    assert inside == [(1, "")]
    assert open_duckdb().sql("SELECT current_setting('threads')").fetchall() == [(os.cpu_count(),)]


@pytest.mark.rotated
def test_the_server_answers_in_time_whatever_a_read_does():
    """In Airflow's own Python: what DuckDB can't interrupt, such as a slow disk, blocks only its own thread."""
    code = """
import asyncio, time
from lakehouse_page import server
server.ANSWER_SECONDS = 0.2
begun = time.monotonic()
try:
    asyncio.run(server._in_thread(lambda: time.sleep(3)))
except server.TimedOut as error:
    print(f"{time.monotonic() - begun < 2.5} {error}")
"""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)])}
    python = PROJECT / ".venv-airflow" / "bin" / "python"
    process = subprocess.run([python, "-P", "-c", code], env=environ, capture_output=True, text=True, check=False)
    assert "True there was no answer within 0.2 s" in process.stdout, process.stderr
