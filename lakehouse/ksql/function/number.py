"""Numbers."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from lakehouse.errors import SqlError
from lakehouse.ksql.function.basic import has_map, of_all
from lakehouse.ksql.function.moment_literal import moment_literal
from lakehouse.ksql.function.record import Function, function
from lakehouse.ksql.function.sql import Sql, copied, let
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind

_FAMILY = "Numbers"
_EXACT = 34  # digits


_ALL_WHOLE = 1 << 52  # no DOUBLE beyond has a fraction; Spark's functions give a BIGINT, which ends there


def _to_whole(name: str) -> Any:
    """CEIL and FLOOR give the type that they take."""

    def made(of: Sql) -> str:
        if of.kind.is_whole:
            return of.text
        if of.kind != k.DOUBLE or of.literal is not None:
            return f"cast({name}({of.text}) AS {of.kind.spark})"
        return let(
            of.text, "_number",
            lambda one: f"CASE WHEN abs({one}) < {_ALL_WHOLE} THEN cast({name}({one}) AS double) ELSE {one} END",
        )  # fmt: skip

    return made


def _absolute(of: Sql) -> str:
    """Spark rounds a DECIMAL of many digits where it takes its sign away."""
    if of.kind.name != "DECIMAL" or of.kind.digits[0] <= _EXACT:
        return f"abs({of.text})"
    return f"cast(regexp_replace(cast({of.text} AS string), '^-', '') AS {of.kind.spark})"


def _round(of: Sql, places: Sql | None = None) -> str:
    """A half is rounded up, also below zero."""
    if of.kind.is_whole:
        return f"cast({of.text} AS bigint)" if places is None else _placed("floor", of, places, "0.5")
    if places is None and of.kind == k.DOUBLE:
        return f"cast(floor({of.text} + cast('0.5' AS double)) AS bigint)"
    return _placed("floor", of, places, "0.5")


def _truncated(of: Sql, places: Sql | None = None) -> str:
    if of.kind.is_whole:
        return of.text
    if places is None and of.kind == k.DOUBLE:
        return f"CASE WHEN {of.text} < 0 THEN ceil({of.text}) ELSE floor({of.text}) END"
    down, up = (_placed(name, of, places, "0") for name in ("floor", "ceil"))
    return f"CASE WHEN {of.text} < 0 THEN {up} ELSE {down} END"


def _placed(name: str, of: Sql, places: Sql | None, half: str) -> str:
    """FLOOR or CEIL at a number of places, of the decimal number that is written; half: what is added at that place."""
    if places is not None and places.literal is None:
        raise SqlError("the number of places is written as a number")
    place = 0 if places is None else int(places.literal or 0)
    kind = _rounded([of, places]) if places is not None else _rounded([of])
    if of.kind.name == "DECIMAL" and place >= of.kind.digits[1]:
        return of.text
    exact = of.text if of.kind.name == "DECIMAL" else f"cast({of.text} AS decimal(38, 18))"
    more = Decimal(half).scaleb(-place)
    if more:
        digits = k.as_decimal(of.kind).digits if of.kind.name == "DECIMAL" else (38, 18)
        exact = f"cast({exact} + {more:f} AS {_sum(digits, place + 1).spark})"
    made = f"cast({name}({exact}, {place}) AS {kind.spark})"
    if of.kind != k.DOUBLE:
        return made
    # Beyond these there is nothing to round, or it does not fit a DECIMAL.
    return of.text if place > 17 else f"CASE WHEN abs({of.text}) < 1E15 THEN {made} ELSE {of.text} END"


def _sum(digits: tuple[int, int], scale: int) -> Kind:
    """The type that Spark gives a decimal and half of a place added: less scale where it has more than 38 digits."""
    precision, own = digits
    whole, scale = max(precision - own, 1 - scale) + 1, max(own, scale)
    return k.decimal(min(whole + scale, 38), scale if whole + scale <= 38 else max(38 - whole, min(scale, 6)))


def _rounded(arguments: Sequence[Any]) -> Kind:
    of: Kind = arguments[0].kind
    if len(arguments) > 1:
        return of
    return (
        k.decimal(of.digits[0] - of.digits[1], 0)
        if of.name == "DECIMAL" and of.digits[0] > of.digits[1]
        else (k.decimal(1, 0) if of.name == "DECIMAL" else k.BIGINT)
    )


def _truncated_kind(arguments: Sequence[Any]) -> Kind:
    of: Kind = arguments[0].kind
    return of if of.is_whole else _rounded(arguments)


def _log(of: str) -> str:
    """The natural logarithm, where Spark's is null for zero and below."""
    return (
        f"CASE WHEN {of} > 0 THEN ln({of}) WHEN {of} = 0 THEN cast('-Infinity' AS double) "
        f"WHEN {of} < 0 THEN cast('NaN' AS double) END"
    )


def _logarithm(of: Sql, value: Sql | None = None) -> str:
    one = f"cast({of.text} AS double)"
    if value is None:
        return _log(one)
    other = f"cast({value.text} AS double)"
    made = f"CASE WHEN {one} <= 0 OR {one} = 1 THEN cast('NaN' AS double) ELSE ({_log(other)}) / ln({one}) END"
    return f"CASE WHEN {one} IS NOT NULL AND {other} IS NOT NULL THEN {made} END"


def _as_double(name: str) -> str:
    return f"{name}(cast({{0}} AS double))"


def _doubles(*cases: tuple[str, str, float]) -> tuple[Function, ...]:
    return tuple(
        function(name, _FAMILY, "number", _as_double(name.lower()), k.DOUBLE, (f"{name}({argument})", value))
        for name, argument, value in cases
    )


_MILES = "'mi', 'mile', 'miles'"
_KILOMETERS = "'', 'km', 'kilometer', 'kilometers', 'kilometre', 'kilometres'"


def _distance(a: Sql, b: Sql, c: Sql, d: Sql, unit: Sql | None = None) -> str:
    """The distance on a sphere; null outside of a latitude's or a longitude's range, and for another unit."""
    word = "" if unit is None else f"lower(trim(coalesce({unit.text}, '')))"
    radius = "6371"
    if unit is not None:
        radius = f"CASE WHEN {word} IN ({_MILES}) THEN 3959 WHEN {word} IN ({_KILOMETERS}) THEN 6371 END"
    ranges = [(one, 90) for one in (a, c)] + [(one, 180) for one in (b, d)]
    inside = " AND ".join(f"{one.text} BETWEEN {-most} AND {most}" for one, most in ranges if one.literal is None)
    lat1, lon1, lat2, lon2 = (f"radians(cast({of.text} AS double))" for of in (a, b, c, d))
    made = (
        f"2 * ({radius}) * asin(sqrt(power(sin(({lat2} - {lat1}) / 2), 2) + cos({lat1}) * cos({lat2}) * "
        f"power(sin(({lon2} - {lon1}) / 2), 2)))"
    )
    return f"CASE WHEN {inside} THEN {made} END" if inside else made


def _series(start: Sql, end: Sql, *step: Sql) -> str:
    kind = of_all([start, end])
    given = [of if of.kind in (kind, k.NULL) else Sql(f"cast({of.text} AS {kind.spark})", kind)
             for of in (start, end, *step)]  # fmt: skip
    return f"sequence({', '.join(of.text for of in given)})"


def _extreme(name: str) -> Any:
    """GREATEST or LEAST; of numbers of several types as numbers of the one that they have together."""

    def made(*given: Sql) -> str:
        kind = _of_extreme(given)
        values = [_as_moment(of, kind) for of in given]
        texts = [of.text if of.kind in (kind, k.NULL) else f"cast({of.text} AS {kind.spark})" for of in values]
        # Spark's take two values at least.
        return f"{name}({', '.join(texts)})" if len(texts) > 1 else copied(texts[0])

    return made


def _of_extreme(arguments: Sequence[Any]) -> Kind:
    """The type of all arguments: a text in quotes beside a moment is one, too."""
    if (unordered := next((of.kind for of in arguments if has_map(of.kind)), None)) is not None:
        raise SqlError(f"values of the type {unordered} have no order")
    moment = next((of.kind for of in arguments if of.kind.name in k.MOMENTS), None)
    return of_all([_as_moment(of, moment) for of in arguments] if moment is not None else arguments)


def _as_moment(of: Sql, kind: Kind) -> Sql:
    is_text = kind.name in k.MOMENTS and of.kind == k.STRING and of.literal is not None
    return moment_literal(str(of.literal), kind, 0) if is_text else of


_PLACES = "the number of places is written as a number"
FUNCTIONS: tuple[Function, ...] = (
    function(
        "ABS", _FAMILY, "number", _absolute, 0, ("ABS(-3)", 3), ("ABS(2.5)", 2.5),
        ("CAST(ABS(-12345678901234567890.123456789012345678) AS VARCHAR)", "12345678901234567890.123456789012345678"),
        ("ABS(CAST(NULL AS INT))", None),
    ),
    function(
        "CEIL", _FAMILY, "number", _to_whole("ceil"), 0, ("CEIL(1.5e0)", 2.0), ("CEIL(-1.5e0)", -1.0), ("CEIL(3)", 3),
        ("CEIL(ABS(-1e19))", 1e19),
    ),
    function("FLOOR", _FAMILY, "number", _to_whole("floor"), 0, ("FLOOR(1.5e0)", 1.0), ("FLOOR(-1.5e0)", -2.0)),
    function(
        "ROUND", _FAMILY, "number int?", _round, _rounded, ("ROUND(2.5e0)", 3), ("ROUND(-2.5e0)", -2),
        ("ROUND(13.1251e0, 2)", 13.13), ("ROUND(-1.25e0, 1)", -1.2), ("ROUND(1250e0, -2)", 1300.0), ("ROUND(7)", 7),
        ("ROUND(-2.55, 1)", -2.50), ("ROUND(CAST(NULL AS DOUBLE))", None), differs=_PLACES,
    ),
    function(
        "TRUNC", _FAMILY, "number int?", _truncated, _truncated_kind, ("TRUNC(2.9e0)", 2), ("TRUNC(-2.9e0)", -2),
        ("TRUNC(ABS(1e19))", 9223372036854775807),
        ("TRUNC(1.15e0, 2)", 1.15), ("TRUNC(-1.29e0, 1)", -1.2), differs=_PLACES,
    ),
    function(
        "SIGN", _FAMILY, "number", "cast(sign({0}) AS int)", k.INTEGER, ("SIGN(-7)", -1), ("SIGN(0)", 0),
        ("SIGN(2.5)", 1),
    ),
    *_doubles(
        ("SQRT", "9", 3.0), ("EXP", "0", 1.0), ("CBRT", "27", 3.0), ("SIN", "0", 0.0), ("COS", "0", 1.0),
        ("TAN", "0", 0.0), ("ASIN", "0", 0.0), ("ACOS", "1", 0.0), ("ATAN", "0", 0.0), ("SINH", "0", 0.0),
        ("COSH", "0", 1.0), ("TANH", "0", 0.0), ("DEGREES", "0", 0.0), ("RADIANS", "180", 3.141592653589793),
        ("COT", "1.5e0", 0.07091484430265245),
    ),
    function(
        "LN", _FAMILY, "number", _logarithm, k.DOUBLE, ("LN(1)", 0.0), ("LN(0)", "-Infinity"), ("LN(-1)", "NaN"),
        ("LN(CAST(NULL AS INT))", None),
    ),
    function(
        "LOG", _FAMILY, "number number?", _logarithm, k.DOUBLE, ("LOG(1)", 0.0), ("LOG(2, 8)", 3.0),
        ("LOG(1, 2)", "NaN"), ("LOG(2, 0)", "-Infinity"), ("LOG(CAST(NULL AS INT), 2)", None),
    ),
    function(
        "ATAN2", _FAMILY, "number number", "atan2(cast({0} AS double), cast({1} AS double))", k.DOUBLE,
        ("ATAN2(0, 1)", 0.0),
    ),
    function(
        "POWER", _FAMILY, "number number", "power(cast({0} AS double), cast({1} AS double))", k.DOUBLE,
        ("POWER(2, 10)", 1024.0),
    ),
    function("PI", _FAMILY, "", "pi()", k.DOUBLE, ("PI()", 3.141592653589793), nulls="takes nothing"),
    function(
        "GREATEST", _FAMILY, "any any*", _extreme("greatest"), _of_extreme, ("GREATEST(3, 7, 5)", 7),
        ("GREATEST('a', 'b')", "b"),
        ("GREATEST(1, CAST(NULL AS INT))", 1), ("GREATEST(4)", 4),
        ("GREATEST(CAST(NULL AS INT), NULL)", None), nulls="nulls are skipped; null if all are null",
    ),
    function(
        "LEAST", _FAMILY, "any any*", _extreme("least"), _of_extreme, ("LEAST(3, 7, 5)", 3), ("LEAST('a', 'b')", "a"),
        ("LEAST(1, CAST(NULL AS INT))", 1), ("LEAST(4)", 4),
        ("LEAST(CAST(NULL AS DOUBLE), NULL)", None), nulls="nulls are skipped; null if all are null",
    ),
    function(
        "GENERATE_SERIES", _FAMILY, "whole whole int?", _series, lambda given: k.array(of_all(given[:2])),
        ("GENERATE_SERIES(1, 4)", [1, 2, 3, 4]), ("GENERATE_SERIES(5, 1, -2)", [5, 3, 1]),
        ("GENERATE_SERIES(1, 5, -1)", None), ("GENERATE_SERIES(1, CAST(3 AS BIGINT))", [1, 2, 3]),
    ),
    function(
        "GEO_DISTANCE", _FAMILY, "number number number number text?", _distance, k.DOUBLE,
        ("GEO_DISTANCE(0, 0, 0, 90)", 10007.543398010286), ("GEO_DISTANCE(ABS(91), 0, 0, 90)", None),
        ("GEO_DISTANCE(0, 0, 0, 90, 'mile')", 6218.782658613869), ("GEO_DISTANCE(0, 0, 0, 90, 'feet')", None),
    ),
)  # fmt: skip
