"""Logs without the values of rows: what stays of a commit, and what goes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from lakehouse.lake.commit_metadata import CommitMetadata, CommitNumber, TableCommit, parse_metadata, write_metadata
from lakehouse.lake.erasure.scrubbed_log import scrub_log
from lakehouse.semantics.failures import ERASED, FunctionFailures, merge_failures

FAILURES = (
    FunctionFailures("expectation orders.known", 2, "orders/0/5", "customer <> 'x', found \"anna-berg\""),
    FunctionFailures("expectation totals.few of rows", 3, "anna-berg", "n < 9, found 11"),
    FunctionFailures("map price", 1, "orders/0/7", "ValueError: could not convert: anna-berg"),
)


def test_a_log_keeps_the_counts_of_failures_and_none_of_their_values(tmp_path: Path) -> None:
    """Every later commit repeats them, so an erasure found them in the log for ever."""
    number = CommitNumber("lakehouse.totals", 1, 7, "5f")
    metadata = CommitMetadata(TableCommit(from_tick=6, run="r", keys=1, failures=FAILURES), number)
    for text in (write_metadata(metadata), "another program's"):
        write_deltalake(
            tmp_path, pa.table({"a": ["anna-berg", "cia"]}), mode="overwrite",
            commit_properties=CommitProperties(custom_metadata={"userMetadata": text}),
        )  # fmt: skip
    write_deltalake(tmp_path, pa.table({"a": ["cia"]}), mode="overwrite")
    scrub_log(str(tmp_path))
    commits = [path.read_text() for path in sorted((tmp_path / "_delta_log").glob("*.json"))]
    assert "anna-berg" not in "".join(commits)
    infos = [json.loads(line).get("commitInfo", {}) for text in commits for line in text.splitlines()]
    texts = [info["userMetadata"] for info in infos if "userMetadata" in info]
    assert texts[1:] == ["another program's"]
    kept = parse_metadata(texts[0], "a commit")
    assert kept is not None
    assert kept.number == number
    assert isinstance(kept.content, TableCommit)
    assert kept.content.failures == (
        FunctionFailures("expectation orders.known", 2, "orders/0/5", "customer <> 'x'"),
        FunctionFailures("expectation totals.few of rows", 3, ERASED, "n < 9"),
        FunctionFailures("map price", 1, "orders/0/7", "ValueError"),
    )
    assert DeltaTable(tmp_path).to_pyarrow_table().to_pylist() == [{"a": "cia"}]
    again = (tmp_path / "_delta_log/00000000000000000000.json").read_text()
    scrub_log(str(tmp_path))
    assert (tmp_path / "_delta_log/00000000000000000000.json").read_text() == again
    # The next row that does not meet it is shown.
    later = FunctionFailures("expectation totals.few of rows", 1, "cia", "n < 9, found 10")
    assert merge_failures(kept.content.failures, (later,))[1] == FunctionFailures(later.function, 4, "cia", later.error)
