"""A table's declaration as one JSON value: everything that decides its content, to be stored and compared.

Two declarations with the same fingerprint give the same table from the same bronze. The fingerprint is stored with the
table; `lakehouse.plan.evolution.change` decides what a difference means. Each node of the plan gives its own part. Left
out is everything that does not affect the content:

    the writing of SQL        white space, comments, the case of functions, `!=` for `<>`: see
                              `lakehouse.plan.written.canonical`. All else counts: only proven equality is equality
    unread columns            columns made by a select or a map that no later step reads; columns that a select
                              only passes on; the order of columns of select, agg and a JSON schema
    the names of functions    a digest of their source represents them, see `lakehouse.plan.expression.function`
    the table's own name      a fingerprint describes the content of a table of any name
    own_table                 the place of a topic's rows concerns bronze alone, see
    `lakehouse.run.start.declared_changes`

`"beside"` has the options that do not decide the values of rows, only when and where they leave.
"""

from __future__ import annotations

import json

from lakehouse.plan.expression.expression import Json, columns_read_by, expression_type
from lakehouse.plan.operator import Aggregate, RowHistory
from lakehouse.plan.table import Table

VERSION = 1


def table_fingerprint(table: Table) -> Json:
    """Return a table's fingerprint as a JSON value."""
    content: Json = {"order_by": None, "window": None, "having": None, "emit": "changes"}
    beside: Json = {"suppress": False, "retention": None, "idle": None}
    for operator in table.operators:
        content_part, beside_part = operator.fingerprint()
        content |= content_part
        beside |= beside_part
    types_by_name = {column.name: column.type for column in table.stream.columns}
    fold = table.fold.row_fold if isinstance(table.fold, RowHistory) else table.fold
    read_columns = columns_read_by(fold.expressions)
    if isinstance(fold, Aggregate):
        key_types = {item.name: expression_type(item.expression, table.stream.columns) for item in fold.grouping}
        stream_part = table.stream.fingerprint(read_columns, keyed=False)
    else:
        key_types = {name: types_by_name[name] or None for name in table.group}
        content["columns"] = sorted(name for name in types_by_name if name not in table.group)
        stream_part = table.stream.fingerprint(read_columns | {name.lower() for name in types_by_name}, keyed=True)
    return {
        "version": VERSION,
        "key": list(map(list, key_types.items())),
        **content,
        "stream": stream_part,
        "beside": beside,
    }


def fingerprint_text(value: Json) -> str:
    """Return a fingerprint as a line of JSON, the same line for equal fingerprints."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
