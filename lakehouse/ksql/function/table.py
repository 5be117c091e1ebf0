"""The functions by their names."""

from __future__ import annotations

from lakehouse.ksql.function import (
    basic,
    characters,
    collection,
    in_bytes,
    json_text,
    lambda_body,
    moment,
    number,
    text,
    url,
)
from lakehouse.ksql.function.record import Function

_FAMILIES = (
    basic.FUNCTIONS, text.FUNCTIONS, characters.FUNCTIONS, in_bytes.FUNCTIONS, json_text.FUNCTIONS, url.FUNCTIONS,
    number.FUNCTIONS, collection.FUNCTIONS, lambda_body.FUNCTIONS, moment.FUNCTIONS,
)  # fmt: skip
FUNCTIONS: dict[str, Function] = {record.name: record for family in _FAMILIES for record in family}
# These give several rows of one; what they are here.
TABLE_FUNCTIONS = {
    "EXPLODE": "a row for each element of an array; none for an empty or null one",
    "CUBE_EXPLODE": "a row for each choice of an array's elements, those left out being null; the first row has none",
}
_CLOCK = "it reads a clock, and a replay would give another table: use ROWTIME, the time of the record"
_DICE = "it gives another value each time, and a replay would give another table"
# ksqlDB's functions that are not here, and why.
NOT_HERE: dict[str, str] = {
    "GROUPING": "there are no grouping sets",
    "RANDOM": _DICE,
    **dict.fromkeys(("NOW", "CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "SYSDATE", "GETDATE"), _CLOCK),
    "IF": "use CASE WHEN ... THEN ... ELSE ... END, or IFNULL",
    "NVL": "use IFNULL, or COALESCE",
    "DISTINCT": "COUNT_DISTINCT counts different values, and GROUP BY gives a row for each",
    "TRUNCATE": "use TRUNC",
}
