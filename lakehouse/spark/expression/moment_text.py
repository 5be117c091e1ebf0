"""Texts as timestamps and dates: the fast form of `parse_timestamp` and `parse_date` in `formats.values.text_value`."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.semantics.blanks import JAVA_BLANKS
from lakehouse.semantics.time import iso_text

# No moment for the rule, though Spark reads one: a time without a date would be one of the current day.
NO_DATE = r"^(-?[0-9]{13}|[^0-9A-Za-z]*(T[0-9]|[0-9]{1,2}:))"
# Nor is one in a zone by a short name that Java reads as one of several zones: BST is Bangladesh's time, CST Chicago's.
_SHORT_NAMES = "|".join(iso_text.JAVA_SHORT_ZONES)
NO_MOMENT = rf"{NO_DATE}|[0-9.][\x00-\x20]*(?:SystemV/|(?:{_SHORT_NAMES})[\x00-\x20\x7f]*$)"


def parse_moment(text: Column, kind: str) -> Column:
    """Return a text as a timestamp or a date; null if it is none."""
    return F.coalesce(text.try_cast(kind), F.when(text.rlike(f"^{iso_text.OTHER}"), plain_moment(text)).try_cast(kind))


def plain_moment(text: Column) -> Column:
    """Return a moment's text in the form that Spark reads, as `lakehouse.semantics.time.iso_text.normal_form`."""
    blankless_text = F.btrim(text, F.lit(JAVA_BLANKS))
    return reduce(lambda replaced_text, form: F.regexp_replace(replaced_text, *form), iso_text.FORMS, blankless_text)
