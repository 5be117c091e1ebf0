"""Checks that refuse tables of an earlier release, whose positions have another form, when they are opened."""

from __future__ import annotations

from collections.abc import Iterable

from lakehouse.errors import StorageError

ORDINALS_REASON = "until then a position had one number for the records made from one, which ran out of 20 bits a step"


def check_ordinals(columns: Iterable[str], label: str, remedy: str) -> None:
    """Raise StorageError for places whose columns lack the ordinals. remedy: what people can do about it."""
    if "ordinals" not in columns:
        raise StorageError(
            f"{label}: expected a column ordinals; an earlier release of lakehouse wrote them ({ORDINALS_REASON}). "
            f"{remedy}"
        )


def check_row_positions(columns: Iterable[str], table: str) -> None:
    """Raise StorageError for rows of an earlier release. columns: the fields of their `_position`."""
    remedy = (
        f"Stop its job, remove the folder silver/{table} of the lake and run the application: the table is built from "
        "bronze."
    )
    check_ordinals(columns, f"rows of table {table!r}", remedy)


def check_late_positions(columns: Iterable[str], table: str) -> None:
    """Raise StorageError for late records of an earlier release."""
    remedy = (
        f"Stop its job, remove the folder silver/{table} of the lake and run the application: the table and its late "
        "records are built from bronze."
    )
    columns = list(columns)
    check_ordinals(columns, f"late records of table {table!r}", remedy)
    if "join_name" not in columns:
        raise StorageError(
            f"late records of table {table!r}: expected a column join_name, since those that come too late for a join "
            f"are kept, too; an earlier release of lakehouse wrote them. {remedy}"
        )
