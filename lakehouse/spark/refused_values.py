"""Values that a function call must not produce: far too large ones, and maps with a null key.

`repeat(s, 2000000000)` takes all the memory of the process, which ends; at the next start the record is there again.
So does a pattern that repeats a group, `(a|b)*`: Java calls itself for each repetition, to the end of its stack.
A null among the keys of a map raises in the middle of it, and Spark's builder of maps then keeps what it has taken for
the map of the next record.

What a declaration itself makes longer, by texts that stand in it, is the declaration's: only records are bounded here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lakehouse.plan.refused.sizes import MADE_MAX

DAY_MICROS = 86_400_000_000
# A thread's stack; and how far Java can call itself in it: characters of a text times signs of a pattern. Measured with
# Java 17: at most 220 bytes for each of those, before the pattern is compiled to machine code.
STACK_MEGABYTES = 256
WALKED_MAX = 1_000_000
SIGNS = "()|*+?{^$\\"  # the characters of a pattern that stand for more than themselves
SHORT = 10  # characters of a text in a declaration: a value may become so many times as long by it

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
    # By their place: the names of an entry's fields may be anything.
    "map_from_entries": "exists(`0`, x -> cast(x AS struct<k: string, v: string>).k IS NULL)",
    "transform_keys": "exists(zip_with(map_keys(`0`), map_values(`0`), `1`), x -> x IS NULL)",
}
# What reads numbers as decimals, of which Java would write one with such an exponent out, digit by digit.
READERS = ("from_json", "from_csv", "from_xml")
LARGE_EXPONENT = "[0-9.][eE][+-]?0*[1-9][0-9]{4,}"
# The arguments that are patterns; the text is the first one. By Spark's functions, and the classes of its operators.
PATTERNS = dict.fromkeys(
    ("regexp", "regexp_count", "regexp_extract", "regexp_extract_all", "regexp_instr", "regexp_like", "regexp_replace",
     "rlike", "split", "RLike"), (1,)
) | {"str_to_map": (1, 2)}  # fmt: skip
LIKES = ("like", "ilike", "Like", "ILike")
# What Java walks through by calling itself; more than that is taken for it, such as an escaped parenthesis.
REPEATED = r"(?:\)|\\[RX])[*+{]"
# In a format: how wide something is to be, and how many digits it is to have; the second group.
WIDTHS = ("%([0-9]+[$])?[-#+ ,(<0]*([0-9]*)", "%([-#+ ,(<0-9$]*)[.]([0-9]+)")
LOOKS_AROUND = r"\(\?<?[=!]"


def refused(name: str, texts: Sequence[str | None], *, by_interval: bool) -> str | None:
    """Return the condition, over the arguments `0`, `1`, ..., under which a function's value is null; None if none.

    It is null itself only where the function's value is, too. For a name that is no function's there is none.
    texts: for each argument what stands in the declaration, as a text; None for what a record says.
    by_interval: the last argument is an interval: the step of a sequence of times.
    """
    sizes = [SIZES[name]] if name in SIZES and not (name == "format_number" and texts[1] is not None) else []
    if name == "sequence":
        sizes = [_steps(len(texts), by_interval=by_interval)]
    sizes += filter(None, [_grown(name, texts)])
    # What would walk too far stands first: the other conditions may use the same pattern.
    conditions = [f"{walked} > {WALKED_MAX}" for walked in _walked(name, texts)]
    conditions += [f"{size} > {MADE_MAX}" for size in sizes]
    if name == "map" and len(texts) > 2:
        conditions += [f"`{number}` IS NULL" for number in range(0, len(texts), 2)]
    conditions += [NULL_KEYS[name]] if name in NULL_KEYS else []
    if name in READERS and len(texts) > 1 and re.search("dec|numeric", texts[1] or "", re.IGNORECASE):
        conditions += [f"cast(`0` AS string) RLIKE '{LARGE_EXPONENT}'"]
    return " OR ".join(conditions) or None


def _steps(arguments: int, *, by_interval: bool) -> str:
    """The number of elements of a sequence: of numbers, or else of times."""
    step = f"abs({_NUMBER.format(2)})" if arguments > 2 and not by_interval else "1"
    numbers = f"abs({_NUMBER.format(1)} - {_NUMBER.format(0)}) / {step}"
    first, last = (f"unix_micros(cast(`{number}` AS timestamp))" for number in range(2))
    every = "unix_micros(timestamp_micros(0) + `2`)" if by_interval and arguments > 2 else f"{DAY_MICROS}"
    return f"coalesce({numbers}, abs({last} - {first}) / abs({every}))"


def _walked(name: str, texts: Sequence[str | None]) -> list[str]:
    """How far Java would call itself in matching, for each pattern by which it could be far."""
    if name in LIKES and texts[1] is None:
        return [_LENGTH.format(1)]  # it has no groups, so only its own length counts
    walked = []
    for place in PATTERNS.get(name, ()):
        if place >= len(texts):
            continue
        pattern, text = texts[place], f"({_LENGTH.format(0)} + 1)"
        if pattern is None:
            length, there = _LENGTH.format(place), f"cast(`{place}` AS string)"
            signs = f"({length} - length(translate({there}, '{_quoted(SIGNS)}', '')))"
            repeated = _quoted(REPEATED)
            walked.append(f"{length} + if({there} RLIKE '{repeated}', {signs} * {text}, 0)")
        elif re.search(REPEATED, pattern):
            walked.append(f"{sum(sign in SIGNS for sign in pattern)} * {text}")
    return walked


def _quoted(text: str) -> str:
    return text.replace("\\", r"\\")


def _grown(name: str, texts: Sequence[str | None]) -> str | None:
    """How many characters a call adds to a text by what a record says; None where it is a few times the text."""
    if name == "replace" and len(texts) > 2 and not _short(texts[2]):
        times = (
            f"({_LENGTH.format(0)} - length(replace(cast(`0` AS string), `1`, ''))) / greatest({_LENGTH.format(1)}, 1)"
        )
        return f"{times} * {_LENGTH.format(2)}"
    if name == "regexp_replace" and not (_short(texts[2]) and _takes_its_own(texts[1], texts[2] or "")):
        # A group stands for what it has matched, and by looking around that may be the whole text each time.
        groups = f"({_LENGTH.format(2)} - length(replace(cast(`2` AS string), '$', ''))) * {_LENGTH.format(0)}"
        return f"regexp_count(`0`, `1`) * ({_LENGTH.format(2)} + {groups})"
    if name == "array_join" and not all(map(_short, texts[1:])):
        return f"size(`0`) * ({' + '.join(_LENGTH.format(place) for place in range(1, len(texts)))})"
    if name == "concat_ws" and not _short(texts[0]) and len(texts) > 1:
        return f"{_LENGTH.format(0)} * ({_of_all(texts)})"
    if name in ("format_string", "printf") and texts[0] is None:
        numbers = " + ".join(
            f"aggregate(regexp_extract_all(cast(`0` AS string), '{pattern}', 2), 0D, "
            "(n, x) -> n + coalesce(cast(x AS double), 0))"
            for pattern in WIDTHS
        )
        places = f"({_LENGTH.format(0)} - length(replace(cast(`0` AS string), '%', '')))"
        return f"{numbers} + {places} * ({_of_all(texts)})"
    return None


def _of_all(texts: Sequence[str | None]) -> str:
    """The characters of all arguments but the first; a null has none."""
    return " + ".join(["0", *(f"coalesce({_LENGTH.format(place)}, 0)" for place in range(1, len(texts)))])


def _short(text: str | None) -> bool:
    return text is not None and len(text) <= SHORT


def _takes_its_own(pattern: str | None, replacement: str) -> bool:
    """Whether what stands for a match is made of that match alone."""
    return "$" not in replacement or (pattern is not None and re.search(LOOKS_AROUND, pattern) is None)
