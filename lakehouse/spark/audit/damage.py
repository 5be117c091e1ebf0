"""Damage to a copy of a table, done on purpose, for drills: never called with a live table's folder.

Each function takes the copy's folder and returns what it did; None if the table has nothing to damage in that way.
The log is read without Spark: Spark remembers what it has opened once, and would not see the damage.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable as Log
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.plan.table import Table
from lakehouse.spark.transaction import quoted


def lost_file(path: str) -> str | None:
    """Remove the largest data file."""
    if (file := largest(path)) is None:
        return None
    file.unlink()
    return f"removed {file.name}"


def flipped_bit(path: str) -> str | None:
    """Flip one bit of the largest data file, inside a page of data."""
    if (file := largest(path)) is None:
        return None
    group = pq.ParquetFile(file).metadata.row_group(0)
    column = max((group.column(n) for n in range(group.num_columns)), key=lambda one: one.total_compressed_size)
    begin = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
    place = begin + column.total_compressed_size - 1  # the last byte of the chunk's last page
    with file.open("r+b") as data:
        data.seek(place)
        byte = data.read(1)[0]
        data.seek(place)
        data.write(bytes([byte ^ 1]))
    # Hadoop's local file system keeps its own checksum beside the file; other file systems don't.
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return f"flipped a bit of byte {place} of {file.name}, in column {column.path_in_schema}"


def broken_entry(path: str) -> str | None:
    """Cut the log's last entry in the middle."""
    entry = entries(path)[-1]
    text = entry.read_bytes()
    entry.write_bytes(text[: len(text) // 2])
    return f"cut {entry.name} to half"


def missing_entry(path: str) -> str | None:
    """Remove an entry from the middle of the log."""
    found = entries(path)
    if len(found) < 3:
        return None
    entry = found[-2]
    entry.unlink()
    return f"removed {entry.name}"


def wrong_merge(spark: SparkSession, path: str, table: Table) -> str | None:
    """Merge wrong rows: some keys are deleted, others lose their values."""
    rows = spark.read.format("delta").load(path)
    keys = rows.select(*[quoted(name) for name in table.key]).distinct()
    chosen = keys.orderBy(*map(quoted, table.key)).limit(10).withColumn("_odd", F.monotonically_increasing_id() % 2)
    chosen = chosen.localCheckpoint()  # the MERGE changes the rows it was chosen from
    if chosen.isEmpty():
        return None
    same = " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in table.key)
    values = [name for name in rows.columns if name not in table.key and not name.startswith("_")]
    chosen.createOrReplaceTempView("wrong")
    update = f"WHEN MATCHED THEN UPDATE SET {quoted(values[0])} = NULL" if values else ""
    merge = f"MERGE INTO delta.{quoted(path)} AS t USING wrong AS s ON {same}"
    spark.sql(f"{merge} WHEN MATCHED AND s._odd = 0 THEN DELETE {update}")
    spark.catalog.dropTempView("wrong")
    return f"a MERGE of {chosen.count()} keys: every second one is deleted, the others lose their first value"


def largest(path: str) -> Path | None:
    """Return the largest data file of a table's newest version."""
    files = [Path(uri.removeprefix("file://")) for uri in Log(path).file_uris()]
    return max(files, key=lambda file: (file.stat().st_size, file.name), default=None)


def entries(path: str) -> list[Path]:
    """Return the entries of a table's log, the oldest first."""
    return sorted(file for file in Path(path, "_delta_log").glob("*.json") if file.stem.isdigit())
