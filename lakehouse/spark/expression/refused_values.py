"""Values that a function call must not produce: far too large ones, and maps with a null key.

`repeat(s, 2000000000)` takes all memory and ends the process; at the next start the same record comes again. A pattern
that repeats a group, `(a|b)*`, does the same to the stack: Java recurses for each repetition. A null among the keys of
a map raises in the middle of it, and Spark's builder of maps then keeps the entries for the map of the next record.

Only values of records are bounded here: a declaration may lengthen values by its own literal texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lakehouse.plan.refused.sizes import MADE_MAX

DAY_MICROS = 86_400_000_000
# How far Java can recurse in a thread's stack of 256 MB (`STACK` of `lakehouse.spark.jvm.session`): characters of a
# text times signs of a pattern. Measured with Java 17: at most 220 bytes for each, before the pattern is compiled.
WALKED_MAX = 1_000_000
SIGNS = "()|*+?{^$\\"  # the characters of a pattern that do not just match themselves
SHORT = 10  # characters of a literal text: it may make a value this many times as long

_NUMBER = "cast(cast(`{}` AS string) AS double)"  # null for a time
_LENGTH = "cast(length(cast(`{}` AS string)) AS double)"
_TIMES = "cast(`1` AS double) * greatest(length(cast(`0` AS string)), 1)"
SIZES = {
    "array_insert": "abs(cast(`1` AS double))", "array_repeat": _TIMES, "lpad": "cast(`1` AS double)",
    "repeat": _TIMES, "rpad": "cast(`1` AS double)", "space": "cast(`0` AS double)",
    "format_number": "coalesce(cast(cast(`1` AS string) AS double), 0)",
}  # fmt: skip
NULL_KEYS = {
    "map_from_arrays": "exists(`0`, x -> x IS NULL)",
    # Fields are taken by place: the fields of an entry may have any names.
    "map_from_entries": "exists(`0`, x -> cast(x AS struct<k: string, v: string>).k IS NULL)",
    "transform_keys": "exists(zip_with(map_keys(`0`), map_values(`0`), `1`), x -> x IS NULL)",
}
# Functions that read numbers as decimals; with such an exponent Java would write a decimal digit by digit.
READERS = ("from_json", "from_csv", "from_xml")
LARGE_EXPONENT = "[0-9.][eE][+-]?0*[1-9][0-9]{4,}"
# The arguments that are patterns; the text is the first one. By Spark's functions, and the classes of its operators.
PATTERNS = dict.fromkeys(
    ("regexp", "regexp_count", "regexp_extract", "regexp_extract_all", "regexp_instr", "regexp_like", "regexp_replace",
     "rlike", "split", "RLike"), (1,)
) | {"str_to_map": (1, 2)}  # fmt: skip
LIKES = ("like", "ilike", "Like", "ILike")
# Repeated groups, for which Java recurses. The pattern also matches others, such as an escaped parenthesis.
REPEATED = r"(?:\)|\\[RX])[*+{]"
# In a format: the width of a value, and the number of its digits; the second group has the number.
WIDTHS = ("%([0-9]+[$])?[-#+ ,(<0]*([0-9]*)", "%([-#+ ,(<0-9$]*)[.]([0-9]+)")
LOOKS_AROUND = r"\(\?<?[=!]"


def refused_condition(name: str, texts: Sequence[str | None], *, by_interval: bool) -> str | None:
    """Return the condition, over the arguments `0`, `1`, ..., under which a function's value must be null, if any.

    The condition is null only where the function's value is null, too. A name that is no function has no condition.
    texts: for each argument, the text of the literal; None for an argument that depends on the record.
    by_interval: whether the last argument is an interval: the step of a sequence of times.
    """
    size_terms = [SIZES[name]] if name in SIZES and not (name == "format_number" and texts[1] is not None) else []
    if name == "sequence":
        size_terms = [_sequence_length(len(texts), by_interval=by_interval)]
    size_terms += filter(None, [_added_length(name, texts)])
    # Patterns that would recurse too far come first: the other conditions may use the same pattern.
    conditions = [f"{walk_length} > {WALKED_MAX}" for walk_length in _walk_lengths(name, texts)]
    conditions += [f"{size} > {MADE_MAX}" for size in size_terms]
    if name == "map" and len(texts) > 2:
        conditions += [f"`{number}` IS NULL" for number in range(0, len(texts), 2)]
    conditions += [NULL_KEYS[name]] if name in NULL_KEYS else []
    if name in READERS and len(texts) > 1 and re.search("dec|numeric", texts[1] or "", re.IGNORECASE):
        conditions += [f"cast(`0` AS string) RLIKE '{LARGE_EXPONENT}'"]
    return " OR ".join(conditions) or None


def _sequence_length(arguments: int, *, by_interval: bool) -> str:
    """Return the number of elements of a sequence: of numbers, or else of times."""
    step = f"abs({_NUMBER.format(2)})" if arguments > 2 and not by_interval else "1"
    numbers = f"abs({_NUMBER.format(1)} - {_NUMBER.format(0)}) / {step}"
    first_time, last_time = (f"unix_micros(cast(`{number}` AS timestamp))" for number in range(2))
    step_micros = "unix_micros(timestamp_micros(0) + `2`)" if by_interval and arguments > 2 else f"{DAY_MICROS}"
    return f"coalesce({numbers}, abs({last_time} - {first_time}) / abs({step_micros}))"


def _walk_lengths(name: str, texts: Sequence[str | None]) -> list[str]:
    """Return how deep Java would recurse in matching, for each pattern that may recurse too deep."""
    if name in LIKES and texts[1] is None:
        return [_LENGTH.format(1)]  # LIKE has no groups, so only the length of its pattern counts
    walk_lengths = []
    for index in PATTERNS.get(name, ()):
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


def _added_length(name: str, texts: Sequence[str | None]) -> str | None:
    """Return how many characters a call may add to a text, by the record; None if only a few times the text."""
    if name == "replace" and len(texts) > 2 and not _is_short(texts[2]):
        match_count = (
            f"({_LENGTH.format(0)} - length(replace(cast(`0` AS string), `1`, ''))) / greatest({_LENGTH.format(1)}, 1)"
        )
        return f"{match_count} * {_LENGTH.format(2)}"
    if name == "regexp_replace" and not (_is_short(texts[2]) and _uses_own_match(texts[1], texts[2] or "")):
        # A replacement may use a group's match, which by looking around may be the whole text each time.
        groups = f"({_LENGTH.format(2)} - length(replace(cast(`2` AS string), '$', ''))) * {_LENGTH.format(0)}"
        return f"regexp_count(`0`, `1`) * ({_LENGTH.format(2)} + {groups})"
    if name == "array_join" and not all(map(_is_short, texts[1:])):
        return f"size(`0`) * ({' + '.join(_LENGTH.format(index) for index in range(1, len(texts)))})"
    if name == "concat_ws" and not _is_short(texts[0]) and len(texts) > 1:
        return f"{_LENGTH.format(0)} * ({_total_length(texts)})"
    if name in ("format_string", "printf") and texts[0] is None:
        width_sum = " + ".join(
            f"aggregate(regexp_extract_all(cast(`0` AS string), '{pattern}', 2), 0D, "
            "(n, x) -> n + coalesce(cast(x AS double), 0))"
            for pattern in WIDTHS
        )
        percent_count = f"({_LENGTH.format(0)} - length(replace(cast(`0` AS string), '%', '')))"
        return f"{width_sum} + {percent_count} * ({_total_length(texts)})"
    return None


def _total_length(texts: Sequence[str | None]) -> str:
    """Return the number of characters of all arguments but the first; a null has none."""
    return " + ".join(["0", *(f"coalesce({_LENGTH.format(index)}, 0)" for index in range(1, len(texts)))])


def _is_short(text: str | None) -> bool:
    return text is not None and len(text) <= SHORT


def _uses_own_match(pattern: str | None, replacement: str) -> bool:
    """Say whether a replacement uses at most the characters of its own match."""
    return "$" not in replacement or (pattern is not None and re.search(LOOKS_AROUND, pattern) is None)
