"""A stream's name in several processes: they share its quarantine if they declare it alike, and are refused if not."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakehouse as lh
from lakehouse.errors import LeaseHeld
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.control.stream_declaration import declare_stream
from lakehouse.lake.control.writer_leases import sink_lease
from lakehouse.lake.layout import Layout
from lakehouse.run.start.leases import check_leases
from lakehouse.settings.config import load

SILVER = ("silver",)


def application(table: str, schema: str = "word string", topic: str | None = None) -> lh.App:
    stream = lh.stream("words", key="k string", schema=schema)
    published = (stream.to_topic(topic),) if topic else ()
    return lh.app(*published, *(() if topic else (stream.latest(table),)))


def declare(layout: Layout, app: lh.App) -> None:
    for source in app.sources:
        declare_stream(layout, app, source)


def check(layout: Layout, app: lh.App) -> None:
    check_leases(load(environ={"LAKEHOUSE_LAKE_PATH": layout.root}, start=Path(layout.root)), app, SILVER)


def test_equal_declarations_share_a_stream(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    declare(layout, application("one"))
    with Lease(layout.lease("silver-one"), "table 'one'"):
        check(layout, application("two"))
        declare(layout, application("two"))


def test_another_declaration_waits_for_the_processes_of_the_first(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    other = application("three", "word bigint")
    declare(layout, application("one"))
    declare(layout, application("two"))
    with Lease(layout.lease("silver-two"), "table 'two'"):
        for refuse in (check, declare):
            with pytest.raises(LeaseHeld, match=r"'words' is declared otherwise(.|\n)*table 'two'(.|\n)*another name"):
                refuse(layout, other)
        with pytest.raises(LeaseHeld, match="declared otherwise"):
            declare(layout, application("one", "word string, more string"))
    declare(layout, other)
    with Lease(layout.lease("silver-three"), "table 'three'"), pytest.raises(LeaseHeld, match="table 'three'"):
        check(layout, application("one"))


def test_a_table_may_change_its_own_stream(tmp_path: Path) -> None:
    """Only others count: whoever holds the table's lease itself is refused for that."""
    layout = Layout(str(tmp_path))
    declare(layout, application("one"))
    changed = application("one", "word string, more string")
    with Lease(layout.lease("silver-one"), "table 'one'"):
        declare(layout, changed)


def test_a_topic_has_one_publisher(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    declare(layout, application("", topic="words-out"))
    with sink_lease(layout, "words-out"):
        with pytest.raises(LeaseHeld, match="topic 'words-out' is being written by another process"):
            check(layout, application("", topic="words-out"))
        with pytest.raises(LeaseHeld, match=r"declared otherwise(.|\n)*topic 'words-out'"):
            check(layout, application("one", "word bigint"))
