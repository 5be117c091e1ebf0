"""Functions of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from lakehouse.errors import SqlError
from lakehouse.ksql.function.basic import common_argument_kind, has_map
from lakehouse.ksql.function.moment_literal import moment_literal
from lakehouse.ksql.function.record import Function, define_function
from lakehouse.ksql.function.sql import SIGNED_DIGITS, Sql, copy_sql, fitted, let_sql
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.semantics.decimal_digits import DECIMAL_DIGITS_MAX

_FAMILY = "Numbers"
_EXACT_PLACES = 18  # of a number that is rounded and is no DECIMAL


_ALL_WHOLE = 1 << 52  # no DOUBLE beyond has a fraction; Spark's functions give a BIGINT, which ends there


def _to_whole(name: str) -> Any:
    """Return CEIL or FLOOR, which give the type that they take."""

    def compile_call(number: Sql) -> str:
        if number.kind.is_whole:
            return number.text
        if number.kind != k.DOUBLE:
            return f"cast({name}({number.text}) AS {number.kind.spark})"
        return let_sql(
            number.text, "_number",
            lambda value: (
                f"CASE WHEN abs({value}) < {_ALL_WHOLE} THEN cast({name}({value}) AS double) ELSE {value} END"
            ),
        )  # fmt: skip

    return compile_call


def _absolute(number: Sql) -> str:
    """Return ABS; Spark's own rounds a DECIMAL of many digits."""
    if number.kind.name != "DECIMAL" or number.kind.digits[0] <= SIGNED_DIGITS:
        return f"abs({number.text})"
    return f"cast(regexp_replace(cast({number.text} AS string), '^-', '') AS {number.kind.spark})"


def _sign_of(number: Sql) -> str:
    """Return -1, 0 or 1; 0 for NaN, as Java casts it to an INT."""
    sign = f"cast(sign({number.text}) AS int)"
    return f"CASE WHEN {number.text} IS NOT NULL THEN coalesce({sign}, 0) END" if number.kind == k.DOUBLE else sign


def _round_number(number: Sql, places: Sql | None = None) -> str:
    """Return ROUND: a half is rounded up, also below zero."""
    if places is None and number.kind.is_whole:
        return f"cast({number.text} AS bigint)"
    if places is None and number.kind == k.DOUBLE:
        return let_sql(number.text, "_number", _nearest_whole)
    return _round_at_place(number, places, _nearest)


def _nearest_whole(value: str) -> str:
    """Return the whole number nearest to a DOUBLE; a sum with 0.5 may be rounded up itself."""
    is_upper = f"abs({value}) < {_ALL_WHOLE} AND {value} - floor({value}) >= cast('0.5' AS double)"
    return f"CASE WHEN {is_upper} THEN floor({value}) + 1 ELSE floor({value}) END"


def _truncate_number(number: Sql, places: Sql | None = None) -> str:
    if places is None and number.kind.is_whole:
        return number.text
    if places is None and number.kind == k.DOUBLE:
        return f"CASE WHEN {number.text} < 0 THEN ceil({number.text}) ELSE floor({number.text}) END"
    return _round_at_place(number, places, _truncated)


def _round_at_place(number: Sql, places: Sql | None, round_decimal: Callable[[Sql, int], str]) -> str:
    """Return a number as it is written, rounded at a place. round_decimal: called with a DECIMAL and the place."""
    if places is not None and places.literal is None:
        raise SqlError("the number of places is written as a number")
    place = 0 if places is None else int(places.literal or 0)
    result_kind = _rounded_kind([number]) if places is None else number.kind
    if number.kind.is_null:
        return f"cast(NULL AS {result_kind.spark})"
    if place >= (_EXACT_PLACES if number.kind == k.DOUBLE else k.as_decimal(number.kind).digits[1]):
        return number.text  # there is nothing to round
    if -place >= DECIMAL_DIGITS_MAX:
        raise SqlError(f"a number has at most {DECIMAL_DIGITS_MAX} digits to round", found=f"place {place}")
    if number.kind == k.DOUBLE:
        return let_sql(number.text, "_number", lambda value: _round_double(value, place, round_decimal))
    exact = fitted(number, k.as_decimal(number.kind))
    return let_sql(
        exact.text,
        "_number",
        lambda value: f"cast({_round_decimal(Sql(value, exact.kind), place, round_decimal)} AS {result_kind.spark})",
    )


def _round_double(value: str, place: int, round_decimal: Callable[[Sql, int], str]) -> str:
    """Return a DOUBLE, rounded as a DECIMAL with all its digits at this place; those beyond have nothing to round."""
    fraction, usual, long = (1, k.decimal_of(37, 36)), (_ALL_WHOLE, k.decimal_of(34, 18)), ("1E37", k.decimal_of(37, 0))
    branches = (
        f"WHEN abs({value}) < {limit} "
        f"THEN cast({_round_decimal(Sql(f'cast({value} AS {kind.spark})', kind), place, round_decimal)} AS double)"
        for limit, kind in ((fraction, usual) if place >= 0 else (usual, long))
    )
    return f"CASE {' '.join(branches)} ELSE {value} END"


def _round_decimal(value: Sql, place: int, round_decimal: Callable[[Sql, int], str]) -> str:
    precision, scale = value.kind.digits
    if -place > precision - scale:
        return f"CASE WHEN {value.text} IS NOT NULL THEN 0 END"
    return round_decimal(value, place)


def _nearest(value: Sql, place: int) -> str:
    """Return ROUND of a DECIMAL by what is beyond the place: a sum with half a place needs digits that no type has."""
    one_place = Decimal(1).scaleb(-place)
    rest = f"cast({value.text} % {one_place:f} AS {value.kind.spark})"
    upper_rest = f"CASE WHEN {value.text} < 0 THEN -{one_place / 2:f} ELSE {one_place / 2:f} END"
    return f"CASE WHEN {rest} >= {upper_rest} THEN ceil({value.text}, {place}) ELSE floor({value.text}, {place}) END"


def _truncated(value: Sql, place: int) -> str:
    return f"CASE WHEN {value.text} < 0 THEN ceil({value.text}, {place}) ELSE floor({value.text}, {place}) END"


def _rounded_kind(arguments: Sequence[Any]) -> Kind:
    kind: Kind = arguments[0].kind
    if len(arguments) > 1:
        return kind
    return (
        k.decimal_of(kind.digits[0] - kind.digits[1], 0)
        if kind.name == "DECIMAL" and kind.digits[0] > kind.digits[1]
        else (k.decimal_of(1, 0) if kind.name == "DECIMAL" else k.BIGINT)
    )


def _truncated_kind(arguments: Sequence[Any]) -> Kind:
    kind: Kind = arguments[0].kind
    return kind if kind.is_whole else _rounded_kind(arguments)


def _natural_log(number_text: str) -> str:
    """Return the natural logarithm; Spark's own is null for zero and below."""
    return (
        f"CASE WHEN {number_text} > 0 THEN ln({number_text}) WHEN {number_text} = 0 THEN cast('-Infinity' AS double) "
        f"WHEN {number_text} < 0 THEN cast('NaN' AS double) END"
    )


def _log_to_base(base_or_number: Sql, value: Sql | None = None) -> str:
    base = f"cast({base_or_number.text} AS double)"
    if value is None:
        return _natural_log(base)
    number_text = f"cast({value.text} AS double)"
    quotient = (
        f"CASE WHEN {base} <= 0 OR {base} = 1 THEN cast('NaN' AS double) "
        f"ELSE ({_natural_log(number_text)}) / ln({base}) END"
    )
    return f"CASE WHEN {base} IS NOT NULL AND {number_text} IS NOT NULL THEN {quotient} END"


def _as_double(name: str) -> str:
    return f"{name}(cast({{0}} AS double))"


def _double_functions(*cases: tuple[str, str, float]) -> tuple[Function, ...]:
    return tuple(
        define_function(name, _FAMILY, "number", _as_double(name.lower()), k.DOUBLE, (f"{name}({argument})", value))
        for name, argument, value in cases
    )


_MILES = "'mi', 'mile', 'miles'"
_KILOMETERS = "'', 'km', 'kilometer', 'kilometers', 'kilometre', 'kilometres'"


def _geo_distance(
    from_latitude: Sql, from_longitude: Sql, to_latitude: Sql, to_longitude: Sql, unit: Sql | None = None
) -> str:
    """Return the distance on a sphere; null for an impossible latitude or longitude, and for an unknown unit."""
    word = "" if unit is None else f"lower(trim(coalesce({unit.text}, '')))"
    radius = "6371"
    if unit is not None:
        radius = f"CASE WHEN {word} IN ({_MILES}) THEN 3959 WHEN {word} IN ({_KILOMETERS}) THEN 6371 END"
    ranges = [(coordinate, "latitude", 90) for coordinate in (from_latitude, to_latitude)] + [
        (coordinate, "longitude", 180) for coordinate in (from_longitude, to_longitude)
    ]
    for coordinate, title, limit in ranges:
        if coordinate.literal is not None and abs(float(coordinate.literal)) > limit:
            raise SqlError(f"GEO_DISTANCE: a {title} is a number from -{limit} to {limit}", found=coordinate.literal)
    inside = " AND ".join(
        f"{coordinate.text} BETWEEN {-limit} AND {limit}"
        for coordinate, _, limit in ranges
        if coordinate.literal is None
    )
    lat1, lon1, lat2, lon2 = (
        f"radians(cast({degrees.text} AS double))"
        for degrees in (from_latitude, from_longitude, to_latitude, to_longitude)
    )
    distance = (
        f"2 * ({radius}) * asin(sqrt(power(sin(({lat2} - {lat1}) / 2), 2) + cos({lat1}) * cos({lat2}) * "
        f"power(sin(({lon2} - {lon1}) / 2), 2)))"
    )
    return f"CASE WHEN {inside} THEN {distance} END" if inside else distance


def _series(start: Sql, end: Sql, *step: Sql) -> str:
    kind = common_argument_kind([start, end])
    bounds = [bound if bound.kind in (kind, k.NULL) else Sql(f"cast({bound.text} AS {kind.spark})", kind)
             for bound in (start, end, *step)]  # fmt: skip
    return f"sequence({', '.join(bound.text for bound in bounds)})"


def _extreme_of(name: str) -> Any:
    """Return GREATEST or LEAST; numbers of several types are cast to their common type."""

    def compile_call(*arguments: Sql) -> str:
        extreme_kind = _extreme_kind(arguments)
        values = [_moment_beside(argument, extreme_kind) for argument in arguments]
        value_texts = [
            argument.text
            if argument.kind in (extreme_kind, k.NULL)
            else f"cast({argument.text} AS {extreme_kind.spark})"
            for argument in values
        ]
        # Spark's functions take at least two values.
        return f"{name}({', '.join(value_texts)})" if len(value_texts) > 1 else copy_sql(value_texts[0])

    return compile_call


def _extreme_kind(arguments: Sequence[Any]) -> Kind:
    """Return the common type of all arguments; a text literal beside a moment counts as a moment."""
    if (unordered := next((argument.kind for argument in arguments if has_map(argument.kind)), None)) is not None:
        raise SqlError(f"values of the type {unordered} have no order")
    moment_kind = next((argument.kind for argument in arguments if argument.kind.name in k.MOMENTS), None)
    return common_argument_kind(
        [_moment_beside(argument, moment_kind) for argument in arguments] if moment_kind is not None else arguments
    )


def _moment_beside(value: Sql, kind: Kind) -> Sql:
    is_text = kind.name in k.MOMENTS and value.kind == k.STRING and value.literal is not None
    return moment_literal(str(value.literal), kind, 0) if is_text else value


_PLACES = "the number of places is written as a number"
FUNCTIONS: tuple[Function, ...] = (
    define_function(
        "ABS", _FAMILY, "number", _absolute, 0, ("ABS(-3)", 3), ("ABS(2.5)", 2.5),
        ("CAST(ABS(-12345678901234567890.123456789012345678) AS VARCHAR)", "12345678901234567890.123456789012345678"),
        ("ABS(CAST(NULL AS INT))", None),
    ),
    define_function(
        "CEIL", _FAMILY, "number", _to_whole("ceil"), 0, ("CEIL(1.5e0)", 2.0), ("CEIL(-1.5e0)", -1.0), ("CEIL(3)", 3),
        ("CEIL(ABS(-1e19))", 1e19), ("CEIL(1e300)", 1e300),
    ),
    define_function(
        "FLOOR", _FAMILY, "number", _to_whole("floor"), 0, ("FLOOR(1.5e0)", 1.0), ("FLOOR(-1.5e0)", -2.0),
        ("FLOOR(-1e19)", -1e19),
    ),
    define_function(
        "ROUND", _FAMILY, "number int?", _round_number, _rounded_kind, ("ROUND(2.5e0)", 3), ("ROUND(-2.5e0)", -2),
        ("ROUND(13.1251e0, 2)", 13.13), ("ROUND(-1.25e0, 1)", -1.2), ("ROUND(1250e0, -2)", 1300.0), ("ROUND(7)", 7),
        ("ROUND(-2.55, 1)", -2.50), ("ROUND(CAST(NULL AS DOUBLE))", None), ("ROUND(1250, -2)", 1300),
        ("ROUND(2.5e0, 9223372036854775807)", 2.5), ("ROUND(1250, 2147483648)", 1250),
        ("ROUND(ABS(4503599627370497e0))", 4503599627370497), ("ROUND(ABS(-0.49999999999999994e0))", 0),
        ("ROUND(-ABS(0.5e0))", 0), ("ROUND(LN(-1))", 0), ("ROUND(ABS(1e19))", 9223372036854775807),
        ("ROUND(1000000000000123e0, -3)", 1e15), ("ROUND(1000000000000000.75e0, 0)", 1000000000000001.0),
        ("ROUND(12345678901234567890e0, -18)", 1.2e19), ("ROUND(1249.9999e0, -2)", 1200.0), ("ROUND(5e0, -37)", 0.0),
        ("ROUND(0.004999999999999999e0, 2)", 0.0), ("ROUND(0.00049999999999999995e0, 3)", 0.0),
        ("CAST(ROUND(CAST('0.004999999999999999' AS DECIMAL(38, 18)), 2) AS VARCHAR)", "0.000000000000000000"),
        ("CAST(ROUND(CAST('-99999999999999999999.004999999999999999' AS DECIMAL(38, 18)), 2) AS VARCHAR)",
         "-99999999999999999999.000000000000000000"),
        ("ROUND(CAST(NULL AS INT), -37)", None), ("ROUND(12, -37)", 0), differs=_PLACES,
    ),
    define_function(
        "TRUNC", _FAMILY, "number int?", _truncate_number, _truncated_kind, ("TRUNC(2.9e0)", 2), ("TRUNC(-2.9e0)", -2),
        ("TRUNC(ABS(1e19))", 9223372036854775807),
        ("TRUNC(1.15e0, 2)", 1.15), ("TRUNC(-1.29e0, 1)", -1.2), ("TRUNC(1290, -2)", 1200), ("TRUNC(-1290, -2)", -1200),
        ("TRUNC(1290, 2)", 1290), ("TRUNC(1000000000000987e0, -3)", 1e15), ("TRUNC(0.0009999999999999999e0, 3)", 0.0),
        ("TRUNC(-999.5e0, -3)", 0.0), differs=_PLACES,
    ),
    define_function(
        "SIGN", _FAMILY, "number", _sign_of, k.INTEGER, ("SIGN(-7)", -1), ("SIGN(0)", 0), ("SIGN(2.5)", 1),
        ("SIGN(LN(-1))", 0), ("SIGN(CAST(NULL AS DOUBLE))", None),
    ),
    *_double_functions(
        ("SQRT", "9", 3.0), ("EXP", "0", 1.0), ("CBRT", "27", 3.0), ("SIN", "0", 0.0), ("COS", "0", 1.0),
        ("TAN", "0", 0.0), ("ASIN", "0", 0.0), ("ACOS", "1", 0.0), ("ATAN", "0", 0.0), ("SINH", "0", 0.0),
        ("COSH", "0", 1.0), ("TANH", "0", 0.0), ("DEGREES", "0", 0.0), ("RADIANS", "180", 3.141592653589793),
        ("COT", "1.5e0", 0.07091484430265245),
    ),
    define_function(
        "LN", _FAMILY, "number", _log_to_base, k.DOUBLE, ("LN(1)", 0.0), ("LN(0)", "-Infinity"), ("LN(-1)", "NaN"),
        ("LN(CAST(NULL AS INT))", None),
    ),
    define_function(
        "LOG", _FAMILY, "number number?", _log_to_base, k.DOUBLE, ("LOG(1)", 0.0), ("LOG(2, 8)", 3.0),
        ("LOG(1, 2)", "NaN"), ("LOG(2, 0)", "-Infinity"), ("LOG(CAST(NULL AS INT), 2)", None),
    ),
    define_function(
        "ATAN2", _FAMILY, "number number", "atan2(cast({0} AS double), cast({1} AS double))", k.DOUBLE,
        ("ATAN2(0, 1)", 0.0),
    ),
    define_function(
        "POWER", _FAMILY, "number number", "power(cast({0} AS double), cast({1} AS double))", k.DOUBLE,
        ("POWER(2, 10)", 1024.0),
    ),
    define_function("PI", _FAMILY, "", "pi()", k.DOUBLE, ("PI()", 3.141592653589793), nulls="takes nothing"),
    define_function(
        "GREATEST", _FAMILY, "any any*", _extreme_of("greatest"), _extreme_kind, ("GREATEST(3, 7, 5)", 7),
        ("GREATEST('a', 'b')", "b"),
        ("GREATEST(1, CAST(NULL AS INT))", 1), ("GREATEST(4)", 4),
        ("GREATEST(CAST(NULL AS INT), NULL)", None), nulls="nulls are skipped; null if all are null",
    ),
    define_function(
        "LEAST", _FAMILY, "any any*", _extreme_of("least"), _extreme_kind,
        ("LEAST(3, 7, 5)", 3), ("LEAST('a', 'b')", "a"), ("LEAST(1, CAST(NULL AS INT))", 1), ("LEAST(4)", 4),
        ("LEAST(CAST(NULL AS DOUBLE), NULL)", None), nulls="nulls are skipped; null if all are null",
    ),
    define_function(
        "GENERATE_SERIES", _FAMILY, "whole whole int?", _series,
        lambda arguments: k.array_of(common_argument_kind(arguments[:2])),
        ("GENERATE_SERIES(1, 4)", [1, 2, 3, 4]), ("GENERATE_SERIES(5, 1, -2)", [5, 3, 1]),
        ("GENERATE_SERIES(1, 5, -1)", None), ("GENERATE_SERIES(1, CAST(3 AS BIGINT))", [1, 2, 3]),
    ),
    define_function(
        "GEO_DISTANCE", _FAMILY, "number number number number text?", _geo_distance, k.DOUBLE,
        ("GEO_DISTANCE(0, 0, 0, 90)", 10007.543398010286), ("GEO_DISTANCE(ABS(91), 0, 0, 90)", None),
        ("GEO_DISTANCE(0, 0, 0, 90, 'mile')", 6218.782658613869), ("GEO_DISTANCE(0, 0, 0, 90, 'feet')", None),
    ),
)  # fmt: skip
