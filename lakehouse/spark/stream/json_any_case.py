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
    is_own_form: Column,
) -> Column:
    """Return the struct of a text's fields, with `_corrupt` not null for a text that does not fit.

    from_json: reads a text under the columns' own names; in_python: reads one in any case, with `_unfit`. own: whether
    a text is for Python in any case.
    """
    columns = list(columns)
    fields = [column.in_topic for column in columns]
    names_pattern = "|".join(sorted({name_pattern(name) for field in fields for name in _field_names(field)}))
    has_other_case = text.rlike(f"{BEFORE}(?!(?:{names_pattern}){AFTER})(?i:{names_pattern}){AFTER}")
    renamed_text = text
    for field in fields:
        renamed_text = F.regexp_replace(
            renamed_text, f"{BEFORE}(?i:{name_pattern(field.name)}){AFTER}", f'"{_replacement_literal(field.name)}"'
        )
    is_unclear = is_own_form | (has_other_case & text.rlike(NESTED)) | text.contains(ESCAPED)
    if loose_pattern := _loose_number_pattern(fields):
        is_unclear |= text.rlike(loose_pattern)
    is_slow = F.coalesce(is_unclear, F.lit(False))
    return quick_or_careful(
        F.when(has_other_case, renamed_text).otherwise(text), text, columns, from_json, in_python, is_slow
    )


def quick_or_careful(
    named_text: Column,
    text: Column,
    columns: Iterable[PlanColumn],
    from_json: Callable[[Column], Column],
    in_python: Callable[[Column], Column],
    is_slow: Column,
) -> Column:
    """Return the struct of a text's fields: of from_json or, where it is `slow`, of Python, which alone sees it then.

    named: the text with the columns' own names.
    """
    quick_struct = from_json(F.when(~is_slow, named_text))
    careful_struct = in_python(F.when(is_slow, text.cast("binary")))
    corrupt_text = F.when(is_slow, careful_struct["_unfit"]).otherwise(
        F.when(quick_struct.isNull(), F.lit("no object")).otherwise(quick_struct["_corrupt"])
    )
    values = (
        F.when(is_slow, careful_struct[column.name]).otherwise(quick_struct[column.name]).alias(column.name)
        for column in columns
    )
    return F.struct(*values, corrupt_text.alias("_corrupt"))


def has_odd_names(text: Column, columns: Iterable[PlanColumn]) -> Column | None:
    """Say which texts may have fields whose names no pattern finds; None where there are none.

    They are written with escapes, or have signs that mean something in JSON.
    """
    field_names = {name for column in columns for name in _field_names(column.in_topic)}
    if has_signs(columns):
        return F.lit(True)
    return text.contains("\\") if any(map(MAYBE_ESCAPED.search, field_names)) else None


def has_signs(columns: Iterable[PlanColumn]) -> bool:
    """Say whether a field's name may stand between two others' quotes."""
    return any(not name or SIGNS.search(name) for column in columns for name in _field_names(column.in_topic))


def name_pattern(name: str) -> str:
    """Return a pattern of Java's for a name."""
    return re.sub(r"[^A-Za-z0-9_]", lambda sign: f"\\x{{{ord(sign[0]):x}}}", name)


def _replacement_literal(name: str) -> str:
    """A name as what stands for a match."""
    return name.replace("\\", "\\\\").replace("$", "\\$")


def _field_names(column: PlanColumn) -> Iterable[str]:
    """The names of a column and of the struct fields in it."""
    yield column.name
    for field in parse_type(column.type).find_all(exp.ColumnDef):
        yield field.name


def _loose_number_pattern(columns: Iterable[PlanColumn]) -> str:
    """A pattern for texts in which a number may be written as Spark does not read it; empty if there are no numbers."""
    names_by_form: dict[str, set[str]] = {}
    for column in columns:
        _find_numbers(column.name, parse_type(column.type), "", names_by_form)
    return "|".join(
        f'{BEFORE}(?i:{"|".join(sorted(map(name_pattern, names)))})"\\s*:\\s*{loose_form}'
        for loose_form, names in sorted(names_by_form.items())
    )


def _find_numbers(name: str, kind: exp.DataType, prefix: str, names_by_form: dict[str, set[str]]) -> None:
    """Add a number's name under the pattern of what would be written loosely. within: the begin of a list or a map."""
    base_kind = base_type(kind.sql("spark").lower())
    if base_kind in INTEGER_BITS:
        names_by_form.setdefault(f'{prefix}(?:"|-?\\d+[.eE])', set()).add(name)
    elif base_kind in ("float", "double"):
        names_by_form.setdefault(f'{prefix}"', set()).add(name)
    elif base_kind == "struct":
        for field in kind.expressions:
            _find_numbers(field.name, field.args["kind"], "", names_by_form)
    elif base_kind in ("array", "map"):
        up_to_item = (
            r".*?" if prefix else r"[^\]}]*?"
        )  # of a list in a list, all that follows: Python then looks closer
        _find_numbers(name, kind.expressions[-1], rf"[\[{{]{up_to_item}(?<=[\[,:\s])", names_by_form)
