"""Functions of URLs."""

from __future__ import annotations

from lakehouse.ksql.function.record import Function, define_function
from lakehouse.ksql.function.sql import Sql
from lakehouse.ksql.syntax import kind as k

_FAMILY = "Texts and bytes"


def _decoded_part(part: str) -> str:
    """Return a part with its escapes decoded."""
    return _decoded_text(f"try_parse_url({{0}}, '{part}')")


def _decoded_text(text: str) -> str:
    """Return a text with its escapes decoded; a + stays a +."""
    return f"try_url_decode(replace({text}, '+', '%2B'))"


def _parameter_of(url: Sql, name: Sql) -> str:
    """Return the value of the first parameter with this name; an empty text for one that has no =."""
    pairs = f"transform(split(try_parse_url({url.text}, 'QUERY'), '&', -1), _part -> split(_part, '\\\\Q=\\\\E', 2))"
    named_pairs = f"filter({pairs}, _pair -> {_decoded_text('get(_pair, 0)')} = {name.text})"
    value_text = _decoded_text("coalesce(get(_pair, 1), '')")
    return f"get(transform({named_pairs}, _pair -> {value_text}), 0)"


FUNCTIONS: tuple[Function, ...] = (
    define_function(
        "URL_ENCODE_PARAM", _FAMILY, "text", "url_encode({0})", k.STRING,
        ("URL_ENCODE_PARAM('a b&c')", "a+b%26c"),
    ),
    define_function(
        "URL_DECODE_PARAM", _FAMILY, "text", "try_url_decode({0})", k.STRING, ("URL_DECODE_PARAM('a+b%26c')", "a b&c"),
    ),
    *(
        define_function(
            f"URL_EXTRACT_{name}", _FAMILY, "text", f"try_parse_url({{0}}, '{name}')", k.STRING, (case, value),
        )
        for name, case, value in (
            ("HOST", "URL_EXTRACT_HOST('https://a.org:8080/x/y?q=1#f')", "a.org"),
            ("PROTOCOL", "URL_EXTRACT_PROTOCOL('https://a.org:8080/x/y?q=1#f')", "https"),
        )
    ),
    *(
        define_function(f"URL_EXTRACT_{name}", _FAMILY, "text", _decoded_part(part), k.STRING, *cases)
        for name, part, *cases in (
            ("PATH", "PATH", ("URL_EXTRACT_PATH('https://a.org:8080/x%20y?q=1#f')", "/x y"),
             ("URL_EXTRACT_PATH('https://a.org')", "")),
            ("QUERY", "QUERY", ("URL_EXTRACT_QUERY('https://a.org:8080/x/y?q=1+%261#f')", "q=1+&1"),
             ("URL_EXTRACT_QUERY('https://a.org/x')", None)),
            ("FRAGMENT", "REF", ("URL_EXTRACT_FRAGMENT('https://a.org:8080/x/y?q=1#f%20g')", "f g")),
        )
    ),
    define_function(
        "URL_EXTRACT_PARAMETER", _FAMILY, "text text", _parameter_of, k.STRING,
        ("URL_EXTRACT_PARAMETER('http://a.org/x?q=a%20b', 'q')", "a b"),
        ("URL_EXTRACT_PARAMETER('http://a.org/', 'q')", None),
        ("URL_EXTRACT_PARAMETER('http://a.org/?q=a+b', 'q')", "a+b"),
        ("URL_EXTRACT_PARAMETER('http://a.org/?flag&b=1', 'flag')", ""),
        ("URL_EXTRACT_PARAMETER('http://a.org/?a%20b=c%20d&e=f=g', 'a b')", "c d"),
        ("URL_EXTRACT_PARAMETER('http://a.org/?a%20b=c%20d&e=f=g', 'e')", "f=g"),
        ("URL_EXTRACT_PARAMETER('http://a.org/?utmXsource=1&utm.source=2', 'utm.source')", "2"),
        ("URL_EXTRACT_PARAMETER('http://a.org/?ids[]=1&ids[]=2', 'ids[]')", "1"),
        ("URL_EXTRACT_PARAMETER('http://a.org/?q=a%26b%3Dc', 'q')", "a&b=c"),
        ("URL_EXTRACT_PARAMETER('http://a.org/?q=1', CAST(NULL AS VARCHAR))", None),
        differs="an escaped & or = ends no name and no value",
    ),
    define_function(
        "URL_EXTRACT_PORT", _FAMILY, "text",
        "CASE WHEN try_parse_url({0}, 'HOST') IS NOT NULL THEN "
        "cast(nullif(regexp_extract({0}, '^[^/]*//[^/?#]*:([0-9]+)([/?#]|$)', 1), '') AS int) END", k.INTEGER,
        ("URL_EXTRACT_PORT('https://a.org:8080/x')", 8080), ("URL_EXTRACT_PORT('https://a.org/x')", None),
        ("URL_EXTRACT_PORT('see http://h:80/')", None), ("URL_EXTRACT_PORT('http://a_b:8080/x')", None),
    ),
)  # fmt: skip
