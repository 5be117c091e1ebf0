"""JSON whose fields are found in whatever case their names are, as ksqlDB finds them.

Spark's from_json knows one case. A record in which the columns' names stand in another one gets them rewritten, in its
text: in a JSON text only a name can be a quoted word before a colon. Where a name may belong to an object inside, or is
written with escapes, Python reads the record: `lakehouse.formats.json_value` has the rule. A property test holds both
equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F
from sqlglot import exp

from lakehouse.plan.schema import Column as PlanColumn
from lakehouse.plan.schema import parse_type

NESTED = r"\{[^{]*\{"
BEFORE, AFTER = r'(?<=[{,\s])"', r'"(?=\s*:)'
ESCAPED = "\\u"


def json_any_case(
    text: Column,
    columns: Iterable[PlanColumn],
    from_json: Callable[[Column], Column],
    in_python: Callable[[Column], Column],
) -> Column:
    """Return the struct of a text's fields, with `_corrupt` not null for a text that does not fit.

    from_json: reads a text under the columns' own names; in_python: reads one in any case, with `_unfit`.
    """
    columns = list(columns)
    names = "|".join(sorted({name for column in columns for name in _names(column)}))
    other = text.rlike(f"{BEFORE}(?!(?:{names}){AFTER})(?i:{names}){AFTER}")
    slow = F.coalesce((other & text.rlike(NESTED)) | text.contains(ESCAPED), F.lit(False))
    renamed = text
    for column in columns:
        renamed = F.regexp_replace(renamed, f"{BEFORE}(?i:{column.name}){AFTER}", f'"{column.name}"')
    quick = from_json(F.when(other, renamed).otherwise(text))
    careful = in_python(F.when(slow, text.cast("binary")))
    corrupt = F.when(slow, careful["_unfit"]).otherwise(
        F.when(quick.isNull(), F.lit("no object")).otherwise(quick["_corrupt"])
    )
    values = (F.when(slow, careful[c.name]).otherwise(quick[c.name]).alias(c.name) for c in columns)
    return F.struct(*values, corrupt.alias("_corrupt"))


def _names(column: PlanColumn) -> Iterable[str]:
    """The names of a column and of the struct fields in it."""
    yield column.name
    for field in parse_type(column.type).find_all(exp.ColumnDef):
        yield field.name
