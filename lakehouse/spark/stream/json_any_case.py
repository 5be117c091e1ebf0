"""JSON whose fields are found in whatever case their names are, as ksqlDB finds them.

Spark's from_json knows one case. A record in which the columns' names stand in another one gets them rewritten, in its
text: in a JSON text only a name can be a quoted word before a colon. Where a name may belong to an object inside, or is
written with escapes, or has signs that mean something in JSON, Python reads the record: `lakehouse.formats.json_value`
has the rule. So it does where a number stands in quotes, or a whole number has a point. A property test holds both
equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F
from sqlglot import exp

from lakehouse.formats.text_value import INTEGER_BITS
from lakehouse.plan.schema import Column as PlanColumn
from lakehouse.plan.schema import base_type, parse_type

NESTED = r"\{[^{]*\{"
BEFORE, AFTER = r'(?<=[{,\s])"', r'"(?=\s*:)'
ESCAPED = "\\u"
MAYBE_ESCAPED = re.compile(r'["\\/\x00-\x1f]|[^\x00-\x7e]')  # characters that are written with a backslash, or may be
SIGNS = re.compile(r"[,:\[\]{}]")  # a name of them may stand between two others' quotes


def json_any_case(
    text: Column,
    columns: Iterable[PlanColumn],
    from_json: Callable[[Column], Column],
    in_python: Callable[[Column], Column],
    own: Column,
) -> Column:
    """Return the struct of a text's fields, with `_corrupt` not null for a text that does not fit.

    from_json: reads a text under the columns' own names; in_python: reads one in any case, with `_unfit`. own: whether
    a text is for Python in any case.
    """
    columns = list(columns)
    fields = [column.in_topic for column in columns]
    names = "|".join(sorted({pattern(name) for field in fields for name in _names(field)}))
    other = text.rlike(f"{BEFORE}(?!(?:{names}){AFTER})(?i:{names}){AFTER}")
    renamed = text
    for field in fields:
        renamed = F.regexp_replace(renamed, f"{BEFORE}(?i:{pattern(field.name)}){AFTER}", f'"{_literal(field.name)}"')
    unclear = own | (other & text.rlike(NESTED)) | text.contains(ESCAPED)
    if loose := _loose_numbers(fields):
        unclear |= text.rlike(loose)
    slow = F.coalesce(unclear, F.lit(False))
    return quick_or_careful(F.when(other, renamed).otherwise(text), text, columns, from_json, in_python, slow)


def quick_or_careful(
    named: Column,
    text: Column,
    columns: Iterable[PlanColumn],
    from_json: Callable[[Column], Column],
    in_python: Callable[[Column], Column],
    slow: Column,
) -> Column:
    """Return the struct of a text's fields: of from_json or, where it is `slow`, of Python, which alone sees it then.

    named: the text with the columns' own names.
    """
    quick = from_json(F.when(~slow, named))
    careful = in_python(F.when(slow, text.cast("binary")))
    corrupt = F.when(slow, careful["_unfit"]).otherwise(
        F.when(quick.isNull(), F.lit("no object")).otherwise(quick["_corrupt"])
    )
    values = (F.when(slow, careful[c.name]).otherwise(quick[c.name]).alias(c.name) for c in columns)
    return F.struct(*values, corrupt.alias("_corrupt"))


def odd_names(text: Column, columns: Iterable[PlanColumn]) -> Column | None:
    """Say which texts may have fields whose names no pattern finds; None where there are none.

    They are written with escapes, or have signs that mean something in JSON.
    """
    known = {name for column in columns for name in _names(column.in_topic)}
    if has_signs(columns):
        return F.lit(True)
    return text.contains("\\") if any(map(MAYBE_ESCAPED.search, known)) else None


def has_signs(columns: Iterable[PlanColumn]) -> bool:
    """Say whether a field's name may stand between two others' quotes."""
    return any(not name or SIGNS.search(name) for column in columns for name in _names(column.in_topic))


def pattern(name: str) -> str:
    """Return a pattern of Java's for a name."""
    return re.sub(r"[^A-Za-z0-9_]", lambda sign: f"\\x{{{ord(sign[0]):x}}}", name)


def _literal(name: str) -> str:
    """A name as what stands for a match."""
    return name.replace("\\", "\\\\").replace("$", "\\$")


def _names(column: PlanColumn) -> Iterable[str]:
    """The names of a column and of the struct fields in it."""
    yield column.name
    for field in parse_type(column.type).find_all(exp.ColumnDef):
        yield field.name


def _loose_numbers(columns: Iterable[PlanColumn]) -> str:
    """A pattern for texts in which a number may be written as Spark does not read it; empty if there are no numbers."""
    found: dict[str, set[str]] = {}
    for column in columns:
        _find_numbers(column.name, parse_type(column.type), "", found)
    return "|".join(
        f'{BEFORE}(?i:{"|".join(sorted(map(pattern, names)))})"\\s*:\\s*{written}'
        for written, names in sorted(found.items())
    )


def _find_numbers(name: str, kind: exp.DataType, within: str, found: dict[str, set[str]]) -> None:
    """Add a number's name under the pattern of what would be written loosely. within: the begin of a list or a map."""
    base = base_type(kind.sql("spark").lower())
    if base in INTEGER_BITS:
        found.setdefault(f'{within}(?:"|-?\\d+[.eE])', set()).add(name)
    elif base in ("float", "double"):
        found.setdefault(f'{within}"', set()).add(name)
    elif base == "struct":
        for field in kind.expressions:
            _find_numbers(field.name, field.args["kind"], "", found)
    elif base in ("array", "map"):
        until = r".*?" if within else r"[^\]}]*?"  # of a list in a list, all that follows: Python then looks closer
        _find_numbers(name, kind.expressions[-1], rf"[\[{{]{until}(?<=[\[,:\s])", found)
