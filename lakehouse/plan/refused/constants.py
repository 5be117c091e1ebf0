"""Refuse constants with which a call is null, or fails, for every record: trunc(a, 'lunch'), encode(x, 'latin'), n / 0.

Spark says nothing of them, as the same argument could come from a column. Only what no value of the other arguments can
mend is refused; and a step of 0, with which sequence() has a value only between two equal ends. Formats of moments,
patterns and whatever else only Java can judge: `lakehouse.spark.table.checked`.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from itertools import chain

from sqlglot import exp

from lakehouse.errors import ExpressionError

Constant = str | Decimal


@dataclass(frozen=True, slots=True)
class ConstantRule:
    """Which constants an argument may be. place: the argument's, from 0. least: only in calls with so many arguments.

    most: only in calls with at most so many.
    """

    place: int
    is_usable: Callable[[Constant], bool]
    expected: str
    least: int = 0
    most: int = 99


def _one_of(words: str, *, any_case: bool = True) -> tuple[Callable[[Constant], bool], str]:
    allowed = frozenset(words.split())

    def is_usable(value: Constant) -> bool:
        return not isinstance(value, str) or (value.upper() if any_case else value) in allowed

    return is_usable, "one of " + ", ".join(words.split())


def _number(is_usable: Callable[[Decimal], bool], expected: str) -> tuple[Callable[[Constant], bool], str]:
    return lambda value: isinstance(value, str) or is_usable(value), expected


def _between(low: int, high: int) -> tuple[Callable[[Constant], bool], str]:
    return _number(lambda value: low <= value <= high, f"a number from {low} to {high}")


_DATE_UNITS = "YEAR YYYY YY QUARTER MONTH MON MM WEEK"
_CHARSETS = _one_of("UTF-8 US-ASCII ISO-8859-1 UTF-16 UTF-16BE UTF-16LE UTF-32")
_NOT_ZERO = _number(lambda value: value != 0, "another number than 0")
_NOT_NEGATIVE = _number(lambda value: value >= 0, "0 or more")
_DAYS = "SU SUN SUNDAY MO MON MONDAY TU TUE TUESDAY WE WED WEDNESDAY TH THU THURSDAY FR FRI FRIDAY SA SAT SATURDAY"
_URL_PARTS = "HOST PATH QUERY REF PROTOCOL FILE AUTHORITY USERINFO"
# As Spark's JsonPathParser has it, and names in double quotes, which are ksqlDB's.
_JSON_PATH = re.compile(r"""\s*\$(\s*(\.\s*\*|\.\s*[^.\[]+|\[\s*(\d+|\*|'[^'?]+'|"[^"]*")\s*\]))*\s*""", re.DOTALL)
# What Java takes for a reference in a replacement; a name in {} is not judged, nor a $ or a backslash with one before.
_REFERENCE = re.compile(r"\\.|\$\{|(?P<bad>\\$|\$(?P<group>\d)?)", re.DOTALL)
_PATH = (
    lambda value: not isinstance(value, str) or _JSON_PATH.fullmatch(value) is not None,
    "a path such as '$.customer.name' or '$.items[0]'",
)
_MONTH_TO_MINUTE = (
    ConstantRule(1, *_between(1, 12)), ConstantRule(2, *_between(1, 31)), ConstantRule(3, *_between(0, 23), least=6),
    ConstantRule(4, *_between(0, 59), least=6), ConstantRule(5, *_between(0, 60), least=6),
)  # fmt: skip
_UNIT = ConstantRule(
    0, *_one_of("YEAR QUARTER MONTH WEEK DAY DAYOFYEAR HOUR MINUTE SECOND MILLISECOND MICROSECOND"), least=3
)
_AES = (
    ConstantRule(
        1,
        lambda value: not isinstance(value, str) or len(value.encode("utf-8", "replace")) in (16, 24, 32),
        "16, 24 or 32 bytes",
    ),
    ConstantRule(2, *_one_of("GCM CBC ECB")),
)
_BYTES = (ConstantRule(1, *_one_of("HEX UTF-8 UTF8 BASE64")),)
_BITS = ConstantRule(1, *_between(0, 63))
_DIVISOR = ConstantRule(1, *_NOT_ZERO)
_GROUP = ConstantRule(2, *_number(lambda value: value >= 0, "the number of a group, 0 for the whole match"))

_RULES: dict[str, tuple[ConstantRule, ...]] = {
    "aes_decrypt": _AES,
    "array_insert": (ConstantRule(1, *_NOT_ZERO),),
    "bit_get": (_BITS,),
    "conv": (
        ConstantRule(1, *_between(2, 36)),
        ConstantRule(2, *_number(lambda value: 2 <= abs(value) <= 36, "a number from 2 to 36, or from -2 to -36")),
    ),
    "date_trunc": (ConstantRule(0, *_one_of(f"{_DATE_UNITS} DAY DD HOUR MINUTE SECOND MILLISECOND MICROSECOND")),),
    "decode": (ConstantRule(1, *_CHARSETS, most=2),),  # with more arguments it is a CASE
    "encode": (ConstantRule(1, *_CHARSETS),),
    "format_number": (ConstantRule(1, *_NOT_NEGATIVE),),
    "get_json_object": (ConstantRule(1, *_PATH),),
    "getbit": (_BITS,),
    "log": (ConstantRule(0, *_number(lambda value: value > 0, "a base above 0"), least=2),),
    "make_date": (ConstantRule(1, *_between(1, 12)), ConstantRule(2, *_between(1, 31))),
    "next_day": (ConstantRule(1, *_one_of(_DAYS)),),
    "parse_url": (ConstantRule(1, *_one_of(_URL_PARTS, any_case=False)),),
    "regexp_extract": (_GROUP,),
    "regexp_extract_all": (_GROUP,),
    "sequence": (ConstantRule(2, *_NOT_ZERO),),
    "sha2": (ConstantRule(1, *_number(lambda value: value in (0, 224, 256, 384, 512), "224, 256, 384 or 512 bits")),),
    "slice": (ConstantRule(1, *_NOT_ZERO), ConstantRule(2, *_NOT_NEGATIVE)),
    "split_part": (ConstantRule(2, *_NOT_ZERO),),
    "to_binary": _BYTES,
    "trunc": (ConstantRule(1, *_one_of(_DATE_UNITS)),),
    "try_aes_decrypt": _AES,
    "try_divide": (_DIVISOR,),
    "try_parse_url": (ConstantRule(1, *_one_of(_URL_PARTS, any_case=False)),),
    "try_to_binary": _BYTES,
    "width_bucket": (ConstantRule(3, *_number(lambda value: value > 0, "1 bucket or more")),),
    **dict.fromkeys(("timestampadd", "timestampdiff", "dateadd", "date_add", "datediff", "date_diff"), (_UNIT,)),
    **{
        f"{prefix}{name}": tuple(
            ConstantRule(rule.place, rule.is_usable, rule.expected, least=6) for rule in _MONTH_TO_MINUTE
        )
        for prefix in ("", "try_")
        for name in ("make_timestamp", "make_timestamp_ltz", "make_timestamp_ntz")
    },
}
# Functions that make a moment of a year, a month, a day and more.
_OF_DAYS = {"make_date"} | {
    f"{prefix}make_timestamp{suffix}" for prefix in ("", "try_") for suffix in ("", "_ltz", "_ntz")
}
# Functions that cast their only argument.
_CASTS = {name: name for name in ("bigint", "boolean", "date", "double", "float", "int", "smallint", "tinyint")} | {
    "timestamp": "timestamp", "to_date": "date", "to_timestamp": "timestamp", "try_to_date": "date",
    "try_to_timestamp": "timestamp",
}  # fmt: skip
# A text that Spark casts: white space around it and the suffixes of Java's numbers are taken.
_NUMBER = re.compile(
    r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?[df]?|0x[0-9a-f.]+p[+-]?\d+[df]?|nan|inf|infinity)", re.IGNORECASE
)
_DAY = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_BOOLEAN = ("t", "true", "y", "yes", "1", "f", "false", "n", "no", "0")
_WORDS = ("epoch", "now", "today", "tomorrow", "yesterday")
_TYPE = exp.DataType.Type


def check_constants(written: exp.Expression, subject: str, sql_text: str) -> None:
    """Raise ExpressionError for a call, in a tree as it is written, that is null or fails whatever the record has."""
    for node in written.find_all(exp.Anonymous, exp.Cast, exp.Like, exp.ILike, exp.Div):
        if isinstance(node, exp.Anonymous):
            faults = _faults_of_call(node)
        elif isinstance(node, exp.Cast):
            faults = _faults_of_cast(node.this, node.args["to"])
        elif isinstance(node, exp.Div):
            faults = _faults_of_division(node)
        else:
            faults = _faults_of_like(node)
        for fault_text, expected_text in faults:
            raise ExpressionError(f"{subject}: {sql_text!r} can't work: found {fault_text}, expected {expected_text}.")


def _faults_of_division(division: exp.Div) -> Iterator[tuple[str, str]]:
    """Yield a divisor of 0, unless something else is taken then: SQL's division of doubles is Infinity.

    Of whole numbers, which SQL divides by DIV, and of remainders nothing is said: they are null, as in ksqlDB.
    """
    call = division.find_ancestor(exp.Anonymous)
    if call is None or str(call.this).lower() not in ("coalesce", "ifnull", "nvl"):
        yield from _faults_of_argument(division.expression, _DIVISOR)


def _faults_of_call(call: exp.Anonymous) -> Iterator[tuple[str, str]]:
    name, arguments = str(call.this).lower(), call.expressions
    for rule in _RULES.get(name, ()):
        if max(rule.place + 1, rule.least) <= len(arguments) <= rule.most:
            yield from _faults_of_argument(arguments[rule.place], rule)
    if name in _OF_DAYS and len(arguments) >= 3:
        yield from _faults_of_day(*arguments[:3])
    if name in ("regexp_extract", "regexp_extract_all", "regexp_replace"):
        yield from _faults_of_groups(name, arguments)
    if len(arguments) == 1 and (target_type := _CASTS.get(name)):
        yield from _faults_of_cast(arguments[0], exp.DataType.build(target_type, dialect="spark"))


def _faults_of_argument(argument: exp.Expr, rule: ConstantRule) -> Iterator[tuple[str, str]]:
    value = _constant(argument)
    if value is not None and not rule.is_usable(value):
        yield argument.sql("spark"), rule.expected


def _faults_of_day(year: exp.Expr, month: exp.Expr, day: exp.Expr) -> Iterator[tuple[str, str]]:
    """Yield a day that its month does not have, in that year or in a leap year."""
    parts = [_constant(part) for part in (year, month, day)]
    year_number, month_number, day_number = (int(part) if isinstance(part, Decimal) else None for part in parts)
    if month_number is None or day_number is None or not 1 <= month_number <= 12:
        return
    last_day = monthrange(2000 if year_number is None else 2000 + year_number % 400, month_number)[1]
    if last_day < day_number <= 31:
        yield f"day {day_number} of month {month_number}", f"a day up to {last_day}"


def _faults_of_groups(name: str, arguments: list[exp.Expr]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a group that a pattern lacks: the call fails wherever the pattern matches."""
    count = _group_count(_constant(arguments[1])) if len(arguments) > 1 else None
    if count is None:
        return
    third = _constant(arguments[2]) if len(arguments) > 2 else Decimal(1)  # Spark's default
    if name != "regexp_replace":
        if isinstance(third, Decimal) and third > count:
            yield f"group {third} of a pattern with {count or 'none'}", "a group in (), or 0 for the whole match"
    elif isinstance(third, str):
        for reference in _REFERENCE.finditer(third):
            if reference["bad"] is not None and (reference["group"] is None or int(reference["group"]) > count):
                yield (
                    f"{reference[0]!r} in the replacement for a pattern with {count or 'no'} groups",
                    "$ and the number of a group in (), or a backslash before a $ or a backslash that is meant",
                )


def _group_count(pattern: Constant | None) -> int | None:
    """Return how many groups a pattern of Java has, where Python reads it alike; else None."""
    if not isinstance(pattern, str) or any(part in pattern for part in ("[[", "[]", "[^]", "&&", "#", "(?<", "\\Q")):
        return None
    try:
        return re.compile(pattern).groups
    except (re.error, RecursionError, OverflowError):
        return None


def _constant(node: exp.Expr) -> Constant | None:
    """Return the value of a literal; of an interval of one unit, its number; of a unit, its name; else None."""
    if isinstance(node, exp.Interval):
        node = node.this
        if isinstance(node, exp.Literal) and node.is_string:
            return _decimal(node.name)
    if isinstance(node, exp.Neg) and isinstance(number := _constant(node.this), Decimal):
        return -number
    if isinstance(node, exp.Var):
        return node.name  # a unit
    if not isinstance(node, exp.Literal):
        return None
    return node.name if node.is_string else _decimal(node.name)


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        return None


def _faults_of_cast(value: exp.Expr, target: exp.DataType) -> Iterator[tuple[str, str]]:
    if isinstance(value, exp.Literal) and value.is_string and not is_readable(value.name, target):
        yield value.sql("spark"), f"a text that can be read as {target.sql('spark').lower()}"


def is_readable(text: str, target: exp.DataType) -> bool:
    """Say whether Spark may read a text as a value of a type; false only where it never does."""
    text = text.strip("".join(map(chr, chain(range(33), [127]))))
    if target.this in exp.DataType.NUMERIC_TYPES:
        return _NUMBER.fullmatch(text) is not None
    if target.this == _TYPE.BOOLEAN:
        return text.lower() in _BOOLEAN
    if target.this in (_TYPE.DATE, _TYPE.TIMESTAMP, _TYPE.TIMESTAMPLTZ, _TYPE.TIMESTAMPNTZ, _TYPE.TIMESTAMPTZ):
        return _is_readable_day(text)
    return True


def _is_readable_day(text: str) -> bool:
    """Say whether a text may begin with a day that exists; a time alone is judged elsewhere."""
    if text.split(" ")[0].lower() in _WORDS or re.match(r"T?[+-]?\d{1,2}:", text):
        return True
    match = _DAY.fullmatch(text)
    if match is None:
        return False
    year, month, day = (int(part or 1) for part in match.groups())
    try:
        date(2000 + year % 400, month, day)  # the calendar repeats after 400 years
    except ValueError:
        return False
    return True


def _faults_of_like(like: exp.Condition) -> Iterator[tuple[str, str]]:
    escape = like.parent
    character = "\\"
    if isinstance(escape, exp.Escape):
        if not isinstance(escape.expression, exp.Literal) or len(escape.expression.name) != 1:
            return
        character = escape.expression.name
    pattern = like.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        return
    unescaped = re.sub(f"{re.escape(character)}[_%{re.escape(character)}]", "", pattern.name, flags=re.DOTALL)
    if character in unescaped:
        yield pattern.sql("spark"), f"_, % or {character} behind each {character}, which takes away its meaning"
