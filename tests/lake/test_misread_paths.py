"""A path is read as it is written, or not at all: delta-rs decodes some as those of other folders."""

from __future__ import annotations

import string
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.errors import StorageError
from lakehouse.file_faults import describe_misread_path
from lakehouse.lake import reader, store
from lakehouse.lake.layout import Layout

PARTS = [*sorted({*string.punctuation} - {"/"}), " ", "ä", "\t", "\n", "\x7f", "%20", "%2520", "%zz", "100%"]


@pytest.mark.parametrize("part", PARTS)
def test_a_table_is_read_from_its_own_folder_or_refused(tmp_path: Path, part: str) -> None:
    root = tmp_path / f"a{part}b"
    (tmp_path / "written").mkdir()
    write_deltalake(tmp_path / "written" / "silver" / "visits", pa.table({"id": [1, 2, 3]}))
    (tmp_path / "written").rename(root)
    is_misread = describe_misread_path(str(root)) is not None
    assert is_misread == (part in ("\\", "\t", "\n", "\x7f", "%20", "%2520"))
    for other in ("a b", "a%20b", "a/b", "ab"):  # what it might be taken for
        if str(tmp_path / other) != str(root):
            write_deltalake(tmp_path / other / "silver" / "visits", pa.table({"id": [*range(7)]}))
    if is_misread:
        with pytest.raises(StorageError, match=r"delta-rs.* would look in another folder; expected a path without"):
            reader.read_table_facts(Layout(str(root)), "silver", "visits")
    else:
        assert reader.read_table_facts(Layout(str(root)), "silver", "visits").rows == 3
        assert store.open_delta(f"{root}/silver/visits").to_pyarrow_table().num_rows == 3


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%20b", "a\\b", "a\tb"])
def test_of_a_store_more_is_misread(name: str) -> None:
    """Before the store is asked."""
    with pytest.raises(StorageError, match="would look in another folder"):
        store.open_delta(f"s3a://bucket/{name}/silver/visits")
