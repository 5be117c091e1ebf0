"""Guards of calls: bounds for their values. A value that is far too large, or a map with a null key, is null instead.

`repeat(s, 2000000000)` takes all memory and ends the process; at the next start the same record comes again. A pattern
that repeats a group, `(a|b)*`, does the same to the stack: Java recurses for each repetition. A null among the keys of
a map raises in the middle of it, and Spark's builder of maps then keeps the entries for the map of the next record.

Only values of records are bounded here: a declaration may lengthen values by its own literal texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lakehouse.plan.spark_functions.record import Arguments, Form, SparkFunction

MADE_MAX = 10_000_000  # characters of a text, or elements of an array, that a call may make of what a record says
DAY_MICROS = 86_400_000_000
# How far Java can recurse in a thread's stack of 256 MB (`STACK` of `lakehouse.spark.jvm.session.session`): characters
# of a text times signs of a pattern. Measured with Java 17: at most 220 bytes for each, before the pattern is compiled.
WALKED_MAX = 1_000_000
SIGNS = "()|*+?{^$\\"  # the characters of a pattern that do not just match themselves
SHORT = 10  # characters of a literal text: it may make a value this many times as long

_NUMBER = "cast(cast(`{}` AS string) AS double)"  # null for a time
_LENGTH = "cast(length(cast(`{}` AS string)) AS double)"
REPEATED_LENGTH = "cast(`1` AS double) * greatest(length(cast(`0` AS string)), 1)"
# Fields are taken by place: the fields of an entry may have any names.
NULL_KEY_OF_ENTRY = "exists(`0`, x -> cast(x AS struct<k: string, v: string>).k IS NULL)"
NULL_KEY_OF_LAMBDA = "exists(zip_with(map_keys(`0`), map_values(`0`), `1`), x -> x IS NULL)"
CALLS_OF_ENTRIES = "transform(map_entries(`0`), x -> named_struct('v0', x.key, 'v1', x.value))"
LARGE_EXPONENT = "[0-9.][eE][+-]?0*[1-9][0-9]{4,}"
# Repeated groups, for which Java recurses. The pattern also matches others, such as an escaped parenthesis.
REPEATED = r"(?:\)|\\[RX])[*+{]"
# In a format: the width of a value, and the number of its digits; the second group has the number.
WIDTHS = ("%([0-9]+[$])?[-#+ ,(<0]*([0-9]*)", "%([-#+ ,(<0-9$]*)[.]([0-9]+)")
LOOKS_AROUND = r"\(\?<?[=!]"


def null_condition(function: SparkFunction, arguments: Arguments) -> str | None:
    """Return the condition, over the arguments `0`, `1`, ..., under which a call's value must be null, if any.

    The condition is null only where the call's value is null, too.
    """
    texts = arguments.texts
    # Patterns that would recurse too far come first: the other conditions may use the same pattern.
    conditions = [f"{walk_length} > {WALKED_MAX}" for walk_length in _walk_lengths(function, texts)]
    if length := _fill_form(function.length, arguments):
        conditions.append(f"{length} > {MADE_MAX}")
    if null_key := _fill_form(function.null_key, arguments):
        conditions.append(null_key)
    if function.parses and len(texts) > 1 and re.search("dec|numeric", texts[1] or "", re.IGNORECASE):
        conditions.append(f"cast(`0` AS string) RLIKE '{LARGE_EXPONENT}'")
    return " OR ".join(conditions) or None


def _fill_form(form: Form, arguments: Arguments) -> str | None:
    return form(arguments) if callable(form) else form


def _walk_lengths(function: SparkFunction, texts: Sequence[str | None]) -> list[str]:
    """Return how deep Java would recurse in matching, for each pattern that may recurse too deep."""
    if function.like:  # LIKE has no groups, so only the length of its pattern counts
        return [_LENGTH.format(1)] if texts[1] is None else []
    walk_lengths = []
    for index in function.patterns:
        if index >= len(texts):
            continue
        pattern, text_length = texts[index], f"({_LENGTH.format(0)} + 1)"
        if pattern is None:
            length, pattern_text = _LENGTH.format(index), f"cast(`{index}` AS string)"
            sign_count = f"({length} - length(translate({pattern_text}, '{_escape_backslashes(SIGNS)}', '')))"
            repeat_pattern = _escape_backslashes(REPEATED)
            walk_lengths.append(
                f"{length} + if({pattern_text} RLIKE '{repeat_pattern}', {sign_count} * {text_length}, 0)"
            )
        elif re.search(REPEATED, pattern):
            walk_lengths.append(f"{sum(sign in SIGNS for sign in pattern)} * {text_length}")
    return walk_lengths


def _escape_backslashes(text: str) -> str:
    return text.replace("\\", r"\\")


def null_key_of_map(arguments: Arguments) -> str | None:
    """Return whether one of several keys is null; the only key of a map spoils no other map."""
    places = range(0, len(arguments.texts), 2)
    return " OR ".join(f"`{place}` IS NULL" for place in places) if len(places) > 1 else None


def length_of_sequence(arguments: Arguments) -> str:
    """Return the number of elements of a sequence: of numbers, or else of times."""
    has_step = len(arguments.texts) > 2
    step = f"abs({_NUMBER.format(2)})" if has_step and not arguments.by_interval else "1"
    numbers = f"abs({_NUMBER.format(1)} - {_NUMBER.format(0)}) / {step}"
    first_time, last_time = (f"unix_micros(cast(`{number}` AS timestamp))" for number in range(2))
    step_micros = "unix_micros(timestamp_micros(0) + `2`)" if arguments.by_interval and has_step else f"{DAY_MICROS}"
    return f"coalesce({numbers}, abs({last_time} - {first_time}) / abs({step_micros}))"


def digits_of_number(arguments: Arguments) -> str | None:
    """Return how many digits format_number writes behind the point, unless the declaration says it."""
    return "coalesce(cast(cast(`1` AS string) AS double), 0)" if arguments.texts[1] is None else None


# The functions below tell how many characters a call may add to a text, by the record; None if only a few times the
# text.
def added_by_replace(arguments: Arguments) -> str | None:
    """Return the length of all replacements."""
    texts = arguments.texts
    if len(texts) < 3 or _is_short(texts[2]):
        return None
    match_count = (
        f"({_LENGTH.format(0)} - length(replace(cast(`0` AS string), `1`, ''))) / greatest({_LENGTH.format(1)}, 1)"
    )
    return f"{match_count} * {_LENGTH.format(2)}"


def added_by_regexp_replace(arguments: Arguments) -> str | None:
    """Return the length of all replacements, which may have the match of a group."""
    _, pattern, replacement, *_ = arguments.texts
    if _is_short(replacement) and ("$" not in (replacement or "") or _is_inside_match(pattern)):
        return None
    groups = f"({_LENGTH.format(2)} - length(replace(cast(`2` AS string), '$', ''))) * {_LENGTH.format(0)}"
    return f"regexp_count(`0`, `1`) * ({_LENGTH.format(2)} + {groups})"


def length_of_groups(arguments: Arguments) -> str | None:
    """Return the length of what a group has in all matches: by looking around it may be all the text in each."""
    _, pattern, *group = arguments.texts
    if group == ["0"] or _is_inside_match(pattern):
        return None
    length = f"regexp_count(`0`, `1`) * {_LENGTH.format(0)}"
    return length if pattern else f"if(cast(`1` AS string) RLIKE '{_escape_backslashes(LOOKS_AROUND)}', {length}, 0)"


def added_by_array_join(arguments: Arguments) -> str | None:
    """Return the length of the texts between elements, and for nulls."""
    if all(map(_is_short, arguments.texts[1:])):
        return None
    return f"size(`0`) * ({' + '.join(_LENGTH.format(index) for index in range(1, len(arguments.texts)))})"


def added_by_concat_ws(arguments: Arguments) -> str | None:
    """Return the length of the separators."""
    if _is_short(arguments.texts[0]) or len(arguments.texts) < 2:
        return None
    return f"{_LENGTH.format(0)} * ({_total_length(arguments.texts)})"


def added_by_format(arguments: Arguments) -> str | None:
    """Return the length of what a format from the record may add."""
    if arguments.texts[0] is not None:
        return None
    width_sum = " + ".join(
        f"aggregate(regexp_extract_all(cast(`0` AS string), '{pattern}', 2), 0D, "
        "(n, x) -> n + coalesce(cast(x AS double), 0))"
        for pattern in WIDTHS
    )
    percent_count = f"({_LENGTH.format(0)} - length(replace(cast(`0` AS string), '%', '')))"
    return f"{width_sum} + {percent_count} * ({_total_length(arguments.texts)})"


def _total_length(texts: Sequence[str | None]) -> str:
    """Return the number of characters of all arguments but the first; a null has none."""
    return " + ".join(["0", *(f"coalesce({_LENGTH.format(index)}, 0)" for index in range(1, len(texts)))])


def _is_short(text: str | None) -> bool:
    return text is not None and len(text) <= SHORT


def _is_inside_match(pattern: str | None) -> bool:
    """Say whether a group has at most the characters of the whole match: by looking around it may have all the text."""
    return pattern is not None and re.search(LOOKS_AROUND, pattern) is None
