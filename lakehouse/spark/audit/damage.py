"""Damages a copy of a table on purpose, for drills: never call these functions with a live table's folder.

Each function takes the copy's folder and returns what it did; None if the table has nothing to damage in that way.
The log is read without Spark: Spark caches what it has opened once, and would not see the damage.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable as Log
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.plan.names.field import in_backticks
from lakehouse.plan.table import Table


def remove_largest_file(path: str) -> str | None:
    """Remove the largest data file."""
    if (file := largest_file(path)) is None:
        return None
    file.unlink()
    return f"removed {file.name}"


def flip_bit(path: str) -> str | None:
    """Flip one bit of the largest data file, inside a page of data."""
    if (file := largest_file(path)) is None:
        return None
    row_group = pq.ParquetFile(file).metadata.row_group(0)
    column_chunk = max(
        (row_group.column(n) for n in range(row_group.num_columns)), key=lambda chunk: chunk.total_compressed_size
    )
    start = column_chunk.dictionary_page_offset if column_chunk.has_dictionary_page else column_chunk.data_page_offset
    bit_position = start + column_chunk.total_compressed_size - 1  # the last byte of the chunk's last page
    with file.open("r+b") as data:
        data.seek(bit_position)
        byte = data.read(1)[0]
        data.seek(bit_position)
        data.write(bytes([byte ^ 1]))
    # Hadoop's local file system has its own checksum beside the file; other file systems have none.
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return f"flipped a bit of byte {bit_position} of {file.name}, in column {column_chunk.path_in_schema}"


def cut_last_entry(path: str) -> str | None:
    """Cut the log's last entry in the middle."""
    last_entry = log_entries(path)[-1]
    content = last_entry.read_bytes()
    last_entry.write_bytes(content[: len(content) // 2])
    return f"cut {last_entry.name} to half"


def remove_middle_entry(path: str) -> str | None:
    """Remove an entry from the middle of the log."""
    log_files = log_entries(path)
    if len(log_files) < 3:
        return None
    entry = log_files[-2]
    entry.unlink()
    return f"removed {entry.name}"


def merge_wrong_rows(spark: SparkSession, path: str, table: Table) -> str | None:
    """Merge wrong rows: some keys are deleted, others lose their values."""
    rows = spark.read.format("delta").load(path)
    all_keys = rows.select(*[in_backticks(name) for name in table.key]).distinct()
    damaged_keys = (
        all_keys.orderBy(*map(in_backticks, table.key))
        .limit(10)
        .withColumn("_odd", F.monotonically_increasing_id() % 2)
    )
    damaged_keys = damaged_keys.localCheckpoint()  # the MERGE changes the rows from which the keys come
    if damaged_keys.isEmpty():
        return None
    key_condition = " AND ".join(f"t.{in_backticks(name)} <=> s.{in_backticks(name)}" for name in table.key)
    value_columns = [name for name in rows.columns if name not in table.key and not name.startswith("_")]
    damaged_keys.createOrReplaceTempView("wrong")
    update_clause = f"WHEN MATCHED THEN UPDATE SET {in_backticks(value_columns[0])} = NULL" if value_columns else ""
    merge_clause = f"MERGE INTO delta.{in_backticks(path)} AS t USING wrong AS s ON {key_condition}"
    spark.sql(f"{merge_clause} WHEN MATCHED AND s._odd = 0 THEN DELETE {update_clause}")
    spark.catalog.dropTempView("wrong")
    return f"a MERGE of {damaged_keys.count()} keys: every second one is deleted, the others lose their first value"


def largest_file(path: str) -> Path | None:
    """Return the largest data file of a table's newest version."""
    files = [Path(uri.removeprefix("file://")) for uri in Log(path).file_uris()]
    return max(files, key=lambda file: (file.stat().st_size, file.name), default=None)


def log_entries(path: str) -> list[Path]:
    """Return the entries of a table's log, the oldest first."""
    return sorted(file for file in Path(path, "_delta_log").glob("*.json") if file.stem.isdigit())
