"""Values that a function call must not produce: far too large ones, and maps with a null key.

`repeat(s, 2000000000)` uses up the memory of the process, which dies; at the next start the record is there again.
A null key raises while a map is being built, and Spark's map builder then leaks the entries it already has into the
next record's map.
"""

from __future__ import annotations

MADE_MAX = 10_000_000  # characters of a text, elements of an array
DAY_MICROS = 86_400_000_000

_NUMBER = "cast(cast(`{}` AS string) AS double)"  # null for a time
_TIMES = "cast(`1` AS double) * greatest(length(cast(`0` AS string)), 1)"
SIZES = {
    "array_insert": "abs(cast(`1` AS double))", "array_repeat": _TIMES, "lpad": "cast(`1` AS double)",
    "repeat": _TIMES, "rpad": "cast(`1` AS double)", "space": "cast(`0` AS double)",
}  # fmt: skip
NULL_KEYS = {
    "map_from_arrays": "exists(`0`, x -> x IS NULL)",
    # By their place: the names of an entry's fields may be anything.
    "map_from_entries": "exists(`0`, x -> cast(x AS struct<k: string, v: string>).k IS NULL)",
    "transform_keys": "exists(zip_with(map_keys(`0`), map_values(`0`), `1`), x -> x IS NULL)",
}


def refused(name: str, arguments: int, *, by_interval: bool) -> str | None:
    """Return the condition, over the arguments `0`, `1`, ..., under which a function's value is null; None if none.

    The condition itself is null only if the function's value is, too. For a name that is not a function there is none.
    by_interval: the last argument is an interval: the step of a sequence of times.
    """
    if name == "sequence":
        return f"{_steps(arguments, by_interval=by_interval)} > {MADE_MAX}"
    if name == "map" and arguments > 2:
        return " OR ".join(f"`{number}` IS NULL" for number in range(0, arguments, 2))
    return f"{SIZES[name]} > {MADE_MAX}" if name in SIZES else NULL_KEYS.get(name)


def _steps(arguments: int, *, by_interval: bool) -> str:
    """The number of elements of a sequence: of numbers, or else of times."""
    step = f"abs({_NUMBER.format(2)})" if arguments > 2 and not by_interval else "1"
    numbers = f"abs({_NUMBER.format(1)} - {_NUMBER.format(0)}) / {step}"
    first, last = (f"unix_micros(cast(`{number}` AS timestamp))" for number in range(2))
    every = "unix_micros(timestamp_micros(0) + `2`)" if by_interval and arguments > 2 else f"{DAY_MICROS}"
    return f"coalesce({numbers}, abs({last} - {first}) / abs({every}))"
