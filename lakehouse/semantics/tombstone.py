"""Nulls and tombstones: the meaning of a null key and a null value for a stream and for a table.

| record arrives           | stream                                        | table                              |
|--------------------------|-----------------------------------------------|------------------------------------|
| key bob, value {...}     | insert                                        | insert or update                   |
| key bob, all fields null | insert                                        | insert or update: it is a row      |
| key bob, value null      | insert; aggregates and filters leave it out   | delete: a tombstone                |
| key null                 | insert                                        | ignored, and counted               |

Only a null *value* is a tombstone. A value whose fields are all null is a row (docs/rules.md, rules 2, 3 and 4;
Kafka Streams `KTableSource`, ksqlDB `CREATE TABLE`).
"""

from __future__ import annotations

from enum import Enum

Row = dict[str, object]

# The order of a delete that is newer than everything before it, if nothing came before it: see `order_of_newest`.
LEAST_ORDER = -(2**63)


class Effect(Enum):
    """The effect of a record on a table that reads its topic as a table."""

    UPSERT = "upsert"
    DELETE = "delete"
    IGNORE = "ignore"


def is_tombstone(value: Row | None) -> bool:
    """Say whether a value means "deleted"; a row of nulls does not."""
    return value is None


def effect_on_table(null_key: bool, value: Row | None) -> Effect:
    """Return the effect of a record with this key and value on the table."""
    if null_key:
        return Effect.IGNORE
    return Effect.DELETE if is_tombstone(value) else Effect.UPSERT


def order_of_newest(largest_order: int | None) -> int:
    """Return the order of a null value that is newer than all records before it. largest_order: the largest of its key.

    It is that same order, at a later position: so the row goes, and a later record with the same or a larger order
    brings it back, as such a record also replaces a row.
    """
    return LEAST_ORDER if largest_order is None else largest_order


def takes_part_in_aggregates(group_values: tuple[object, ...], value: Row | None) -> bool:
    """Say whether a stream's record counts in an aggregate; group_values: the values of its GROUP BY columns.

    A null in any GROUP BY column leaves the record out (rule 1); a struct whose fields are all null is not a null.
    A null value takes no part (rule 2).
    """
    return value is not None and all(column is not None for column in group_values)
