"""Functions of URLs."""

from __future__ import annotations

from lakehouse.ksql.function.record import Function, define_function
from lakehouse.ksql.syntax import kind as k

_FAMILY = "Texts and bytes"


def _decoded_part(part: str) -> str:
    """Return a part with its escapes decoded; a + stays a +."""
    return f"try_url_decode(replace(try_parse_url({{0}}, '{part}'), '+', '%2B'))"


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
        "URL_EXTRACT_PARAMETER", _FAMILY, "text text", "try_url_decode(try_parse_url({0}, 'QUERY', {1}))", k.STRING,
        ("URL_EXTRACT_PARAMETER('http://a.org/x?q=a%20b', 'q')", "a b"),
        ("URL_EXTRACT_PARAMETER('http://a.org/', 'q')", None),
    ),
    define_function(
        "URL_EXTRACT_PORT", _FAMILY, "text",
        "cast(nullif(regexp_extract({0}, '^[^/]*//[^/?#]*:([0-9]+)([/?#]|$)', 1), '') AS int)", k.INTEGER,
        ("URL_EXTRACT_PORT('https://a.org:8080/x')", 8080), ("URL_EXTRACT_PORT('https://a.org/x')", None),
    ),
)  # fmt: skip
