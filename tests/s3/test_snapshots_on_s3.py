"""Snapshots in an S3 store: found by their names, read as on a disk, and refused with the file and the row."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import parquet

import lakehouse as lh
from lakehouse.errors import ConfigError, NotFound, StorageError
from lakehouse.plan.origin import Source
from lakehouse.run.snapshots.files import VersionGone
from lakehouse.run.snapshots.rows import file_sizes, read_rows
from lakehouse.run.snapshots.taking import FileTimes, use_store_of
from lakehouse.settings.config import load
from tests.s3.server import KEY, SECRET, ObjectStore

pytestmark = pytest.mark.slow


def read_all(objects: ObjectStore, path: str, secret: str = SECRET, **options: Any) -> list[list[tuple[int, Any]]]:
    """The rows of each snapshot, in the order of time."""
    source = lh.snapshots("people", path, key="id bigint", schema="name string", **options).source
    assert isinstance(source, Source)
    store_options = {"endpoint": objects.endpoint, "path_style": "true", "access_key": KEY, "secret_key": secret}
    environ = {"LAKEHOUSE_LAKE_PATH": objects.new_lake(), "LAKEHOUSE_LAKE_OPTIONS": json.dumps(store_options)}
    use_store_of(source, load(environ=environ))
    return [
        [(int.from_bytes(row.key), json.loads(row.value)["name"]) for row in read_rows(source, snapshot)]
        for snapshot in FileTimes().snapshots_of(source)
    ]


def test_files_of_each_kind(object_store):
    uri = object_store.new_lake()
    folder = object_store.files(uri)
    folder.mkdir(parents=True)
    (folder / "c-2026-01-02.csv.gz").write_bytes(gzip.compress(b"id,name\n1,Ann\n"))
    (folder / "c-2026-01-01.csv.gz").write_bytes(gzip.compress(b"name,id\nBob,2\n"))
    (folder / "c-2026-01-01.jsonl").write_text('{"id": 3, "name": "Cid"}\n')
    parquet.write_table(pa.table({"id": [4], "name": ["Dan"]}), folder / "c-2026-01-01.parquet")
    for name in ("gone", "Eve"):
        write_deltalake(folder / "delta", pa.table({"id": [5], "name": [name]}), mode="overwrite")
    web_uri = uri.replace("s3a://", "s3://")
    assert read_all(object_store, f"{web_uri}/c-{{at}}.csv.gz") == [[(2, "Bob")], [(1, "Ann")]]
    assert read_all(object_store, f"{uri}/c-{{at}}.jsonl") == [[(3, "Cid")]]
    assert read_all(object_store, f"{uri}/c-{{at}}.parquet") == [[(4, "Dan")]]
    assert read_all(object_store, f"{uri}/delta", kind="delta") == [[(5, "gone")], [(5, "Eve")]]
    files = [f"{uri}/c-2026-01-01.jsonl", f"{uri}/none.jsonl"]
    assert file_sizes(files) == {(files[0], 25), (files[1], None)}
    DeltaTable(folder / "delta").vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(VersionGone, match="version 0 can't be read any more: VACUUM removed a file"):
        read_all(object_store, f"{uri}/delta", kind="delta")


def test_what_is_wrong_is_said(object_store):
    uri = object_store.new_lake()
    folder = object_store.files(uri)
    folder.mkdir(parents=True)
    (folder / "c-2026-01-01.csv").write_text("id,name\n1,Ann\nx,Bob\n")
    with pytest.raises(ConfigError, match=r"c-2026-01-01.csv, row 2: field id: expected bigint, found .x."):
        read_all(object_store, f"{uri}/c-{{at}}.csv")
    with pytest.raises(NotFound, match="no Delta table"):
        read_all(object_store, f"{uri}/none", kind="delta")
    with pytest.raises(StorageError, match="can't be read") as caught:
        read_all(object_store, f"{uri}/c-{{at}}.csv", secret="wrong-canary")
    assert "wrong-canary" not in str(caught.value)
    assert read_all(object_store, f"{uri}/none/c-{{at}}.csv") == []
