"""What is read of a lake whose log was cleaned, and of one whose store refuses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.cli.terminal.failure import exit_code
from lakehouse.errors import NotFound, StorageError
from lakehouse.lake import reader, store
from lakehouse.lake.commit_log import open_log
from lakehouse.page.overview import read_overview
from lakehouse.page.row_history import row_history
from lakehouse.page.versions import list_versions

from ..cli.versioned import Story
from ..page.conftest import manifest, named


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path / "lake", feed=True)


def clean_log(path: str) -> None:
    """Leave of a table's log what Delta leaves after its retention: here a checkpoint, and commits without a tick."""
    for number in range(2):
        DeltaTable(path).alter.set_table_properties({"a.b": str(number)}, raise_if_not_exists=False)
    DeltaTable(path).create_checkpoint()
    for commit in sorted(Path(path, "_delta_log").glob("*.json"))[:-2]:
        commit.unlink()


def test_bronze_whose_log_was_cleaned_is_as_far_as_its_rows(story: Story) -> None:
    story.bronze.tick(9, ("clicks", "eve", 0, 800, "e0"))
    story.bronze.tick(10, ("clicks", "fay", 0, 900, "f0"), topic_id="id-2")
    before = reader.read_bronze_coverage(story.layout)
    clean_log(story.layout.records)
    after = reader.read_bronze_coverage(story.layout)
    assert after.tick == before.tick == 10
    assert {name: (state.id, state.next, state.last) for name, state in after.topics.items()} == {
        "clicks": ("id-2", {0: 1}, {0: 10}),
        "views": ("id-1", {0: 3}, {0: 8}),
    }
    assert before.topics["views"].next == after.topics["views"].next
    application = named(story.root.parent, manifest(story.root))
    visits = read_overview(application)["tables"]["visits"]
    assert (visits["behind_ticks"], visits["behind_records"]) == (3, 2)


def test_neither_half_a_tick_nor_an_erased_record_moves_bronze(story: Story) -> None:
    half = DeltaTable(story.layout.records).to_pyarrow_table().slice(0, 1)
    topic, tick = half.schema.get_field_index("topic"), half.schema.get_field_index("tick")
    half = half.set_column(topic, "topic", [["own"]]).set_column(tick, "tick", [[9]])
    write_deltalake(story.layout.own_records("own"), half, partition_by="topic")
    erased = DeltaTable(story.layout.records).to_pyarrow_table(filters=[("tick", "=", 7)])
    write_deltalake(story.layout.erased_records, erased.select(["topic", "topic_id", "partition", "offset", "tick"]))
    DeltaTable(story.layout.records).delete("tick = 7")
    clean_log(story.layout.records)
    after = reader.read_bronze_coverage(story.layout)
    assert (after.tick, sorted(after.topics)) == (8, ["clicks", "views"])
    assert (after.topics["clicks"].next[1], after.topics["clicks"].last[1]) == (3, 7)


def test_the_page_reads_commits_by_the_log_alone(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """`DeltaTable.history` stops every thread of the api-server while a store answers, or does not."""
    monkeypatch.delattr(DeltaTable, "history")
    application = named(story.root.parent, manifest(story.root))
    visits = application.table("visits")
    assert read_overview(application)["tables"]["visits"]["last_commit_ms"] == story.times[-1]
    assert [version["time_ms"] for version in list_versions(application, visits)["versions"]] == story.times
    assert row_history(application, visits, "ann", None, 50)["changes"][0]["tick"] == 3


def test_a_commit_that_says_nothing_of_itself(story: Story) -> None:
    newest = Path(story.visits.path, "_delta_log", f"{5:020}.json")
    lines = newest.read_text().splitlines(keepends=True)
    newest.write_text("".join(line for line in lines if not line.startswith('{"commitInfo"')))
    assert open_log(story.visits.path, 5).info_at(5) == {}
    first = next(reader.walk_commits(story.visits.path, "visits"))
    assert (first["version"], first["operation"]) == (5, "")
    assert reader.read_table_facts(story.layout, "silver", "visits").last_commit_ms == 0


@contextmanager
def failing_store(status: int) -> Iterator[str]:
    """Run a store that knows of each file, and answers with an error when one is read; give the path of a table."""

    class Failure(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1")
            self.send_header("Last-Modified", "Mon, 30 Nov 2026 00:00:00 GMT")
            self.end_headers()

        def do_GET(self) -> None:
            text = b"<Error><Code>ExpiredToken</Code></Error>"
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Failure) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        options = {"endpoint": endpoint, "path_style": "true", "access_key": "k", "secret_key": "s"}
        store.use_store("s3a://failing/lake", options)
        yield "s3a://failing/lake/silver/visits"
        server.shutdown()


@pytest.mark.parametrize("version", [None, 3])
def test_a_store_that_refuses_is_no_bad_input(version: int | None) -> None:
    message = r"403 Forbidden.*Expected a store that this user may read"
    with failing_store(403) as path, pytest.raises(StorageError, match=message) as raised:
        reader.open_table(path, "table 'visits'", version)
    assert exit_code(raised.value) == 1
    assert str(raised.value).startswith("table 'visits' (s3a://failing/lake/silver/visits) can't be read. ")
    assert str(raised.value).isprintable()


def test_a_store_that_is_silent_is_asked_again_for_seconds_and_not_for_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself delta-rs gives up after 181 s: one request's time of 30 s is the least that it takes."""
    opened: list[dict[str, str]] = []
    monkeypatch.setattr("deltalake.DeltaTable", lambda path, version, storage_options: opened.append(storage_options))
    store.open_delta("s3a://silent/lake/silver/visits")
    assert opened == [{"retry_timeout": "15s"}]


def test_a_missing_table_or_version_is_bad_input_and_a_damaged_log_is_not(story: Story) -> None:
    with pytest.raises(NotFound, match=r"t does not exist\. `lakehouse look tables`"):
        reader.open_table(story.layout.silver("t"), "t")
    with pytest.raises(NotFound, match=r"t, version 99 does not exist, or no longer\. `lakehouse past log`"):
        reader.open_table(story.visits.path, "t", 99)
    Path(story.visits.path, "_delta_log", f"{6:020}.json").write_text("no json")
    with pytest.raises(StorageError, match=r"t \(.*visits\) can't be read\. .*Json error.*from a copy") as raised:
        reader.open_table(story.visits.path, "t", 6)
    assert str(raised.value).isprintable()
