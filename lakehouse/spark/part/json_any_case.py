"""Reads JSON whose field names may be in any case, as ksqlDB does.

Spark's from_json knows one case. If a record has the columns' names in another case, they are rewritten in its text: in
a JSON text only a name can be a quoted word before a colon. Python reads the record, by the rule in
`lakehouse.formats.values.json_value`, where a name may belong to a nested object, has escapes, or has characters that
mean something in JSON; and where a number is in quotes, or a whole number has a point. A property test compares both
ways.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F
from sqlglot import exp

from lakehouse.formats.values.text_value import INTEGER_BITS
from lakehouse.plan.expression.schema import Column as PlanColumn
from lakehouse.plan.expression.schema import base_type, parse_type

NESTED = r"\{[^{]*\{"
BEFORE, AFTER = r'(?<=[{,\s])"', r'"(?=\s*:)'
ESCAPED = "\\u"
MAYBE_ESCAPED = re.compile(
    r'["\\/\x00-\x1f]|[^\x00-\x7e]'
)  # characters that JSON writes with a backslash, or may write so
SIGNS = re.compile(r"[,:\[\]{}]")  # a name of these characters may also be the text between two other names' quotes


def json_any_case(
    text: Column,
    columns: Iterable[PlanColumn],
    from_json: Callable[[Column], Column],
    in_python: Callable[[Column], Column],
    is_own_form: Column,
) -> Column:
    """Return the struct of a text's fields, with `_corrupt` not null for a text that does not fit.

    from_json: reads a text that has the columns' own names. in_python: reads any text, and gives `_unfit`. is_own_form:
    whether Python must read a text, whatever its names.
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
    """Return the struct of a text's fields: from Python where `is_slow`, else from from_json; each text is read once.

    named_text: the text with the columns' own names.
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
    """Return whether a text may have fields whose names no pattern finds; None if no text can.

    Such names are written with escapes, or have characters that mean something in JSON.
    """
    field_names = {name for column in columns for name in _field_names(column.in_topic)}
    if has_signs(columns):
        return F.lit(True)
    return text.contains("\\") if any(map(MAYBE_ESCAPED.search, field_names)) else None


def has_signs(columns: Iterable[PlanColumn]) -> bool:
    """Say whether a field's name may also be the text between two other names' quotes."""
    return any(not name or SIGNS.search(name) for column in columns for name in _field_names(column.in_topic))


def name_pattern(name: str) -> str:
    """Return a Java pattern that matches a name."""
    return re.sub(r"[^A-Za-z0-9_]", lambda sign: f"\\x{{{ord(sign[0]):x}}}", name)


def _replacement_literal(name: str) -> str:
    """Return a name as the replacement text of a Java pattern."""
    return name.replace("\\", "\\\\").replace("$", "\\$")


def _field_names(column: PlanColumn) -> Iterable[str]:
    """Yield the names of a column and of the struct fields in it."""
    yield column.name
    for field in parse_type(column.type).find_all(exp.ColumnDef):
        yield field.name


def _loose_number_pattern(columns: Iterable[PlanColumn]) -> str:
    """Return a pattern of texts with a number in a form that Spark may not read; empty if there are no numbers."""
    names_by_form: dict[str, set[str]] = {}
    for column in columns:
        _find_numbers(column.name, parse_type(column.type), "", names_by_form)
    return "|".join(
        f'{BEFORE}(?i:{"|".join(sorted(map(name_pattern, names)))})"\\s*:\\s*{loose_form}'
        for loose_form, names in sorted(names_by_form.items())
    )


def _find_numbers(name: str, kind: exp.DataType, prefix: str, names_by_form: dict[str, set[str]]) -> None:
    """Add a number's name under the pattern of its loose forms. prefix: the pattern for the start of a list or map."""
    base_kind = base_type(kind.sql("spark").lower())
    if base_kind in INTEGER_BITS:
        names_by_form.setdefault(f'{prefix}(?:"|-?\\d+[.eE])', set()).add(name)
    elif base_kind in ("float", "double"):
        names_by_form.setdefault(f'{prefix}"', set()).add(name)
    elif base_kind == "struct":
        for field in kind.expressions:
            _find_numbers(field.name, field.args["kind"], "", names_by_form)
    elif base_kind in ("array", "map"):
        # For a list in a list, the pattern takes all that follows: Python then looks closer.
        up_to_item = r".*?" if prefix else r"[^\]}]*?"
        _find_numbers(name, kind.expressions[-1], rf"[\[{{]{up_to_item}(?<=[\[,:\s])", names_by_form)
