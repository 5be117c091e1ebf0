"""A table that another process has created since this one looked is a table, and its log is left alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as RustTable
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from lakehouse.errors import StorageError
from lakehouse.spark.transaction import is_delta_table, new_table


def test_a_table_that_was_being_created_is_found_when_it_is_there(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "table"
    (path / "_delta_log").mkdir(parents=True)  # as Delta leaves it before the first commit
    assert not is_delta_table(spark, str(path))
    write_deltalake(str(path), pa.table({"id": ["a"]}))  # what this process's Java does not know of
    assert is_delta_table(spark, str(path))
    new_table(spark, str(path), "id string").execute()
    assert (RustTable(str(path)).version(), spark.read.format("delta").load(str(path)).count()) == (0, 1)


def test_a_table_whose_first_commits_are_only_in_a_checkpoint_is_one(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "table"
    (path / "_delta_log").mkdir(parents=True)
    assert not is_delta_table(spark, str(path))
    write_deltalake(str(path), pa.table({"id": ["a"]}))
    RustTable(str(path)).create_checkpoint()
    (path / "_delta_log/00000000000000000000.json").unlink()
    assert is_delta_table(spark, str(path))


def test_a_log_without_a_commit_is_begun_anew(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "table"
    (path / "_delta_log/_staged_commits").mkdir(parents=True)
    new_table(spark, str(path), "id string").execute()
    assert is_delta_table(spark, str(path))
    lost = tmp_path / "lost"
    (lost / "_delta_log").mkdir(parents=True)
    (lost / "part-0.parquet").write_bytes(b"rows")
    with pytest.raises(StorageError, match="the table's log is lost"):
        new_table(spark, str(lost), "id string")
