"""SQL texts that mean the same: one form for what is proven to differ in its writing alone.

The text is taken apart as Spark's lexer does it, and nothing is parsed: a parser merges functions (array_size and
size), drops arguments that it does not know (the format of to_char) and gives types other names. What is equal here:

    white space, and comments             but not inside of quotes
    the case of a function's name         a word before a parenthesis
    the case of keywords and types        unless a word may become the name of a struct's field
    <> and !=, = and ==                   two writings of one operator
    "x" and 'x', `x` and x                where nothing inside is an escape, a keyword or a function

Every other difference counts, also one that would make no difference.
"""

from __future__ import annotations

import re
from functools import lru_cache

from lakehouse.plan.refused.spark_functions import names

_LEXEMES = re.compile(
    r"""
      (?P<space>[ \t\r\n\f\v]+|--(?:\\\n|[^\r\n])*)
    | (?P<comment>/\*)
    | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
    | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\w*)
    | (?P<word>\w+)
    | (?P<sign><=>|<>|<=|>=|!=|==|->|=>|\|\||>>>|>>|<<|::|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_KEYWORDS = names(
    """
    all and any array as asc between bigint binary boolean both byte case cast char collate date dec decimal desc
    distinct div double else end escape exists false float for from ilike in int integer interval is leading like long
    map not null numeric or placing real regexp rlike short smallint some string then time timestamp timestamp_ltz
    timestamp_ntz tinyint trailing true try_cast unknown varchar variant void when xor
    year years quarter quarters month months week weeks day days hour hours minute minutes second seconds millisecond
    milliseconds microsecond microseconds
    """
)
# The words of a text become names: those of a struct's fields.
_NAMING = re.compile(r"struct|zip|json|xml|csv|variant", re.IGNORECASE)
# Words that are a function without a parenthesis, or begin a literal.
_CALLS = re.compile(r"current_\w+|session_\w+|user|localtime\w*|now|x|r", re.IGNORECASE)
_SIGNS = {"!=": "<>", "==": "="}


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """Return SQL text in one form: two texts have the same only if they mean the same to Spark."""
    lexemes = _lexemes(text)
    naming = _NAMING.search(text) is not None
    made: list[tuple[str, str]] = []
    for (kind, lexeme), (_, following) in zip(lexemes, [*lexemes[1:], ("", "")], strict=False):
        made.append((kind, _one_form(kind, lexeme, following, naming=naming)))
    return _joined(made)


def _lexemes(text: str) -> list[tuple[str, str]]:
    found, place = [], 0
    while place < len(text):
        lexeme = _LEXEMES.match(text, place)
        assert lexeme is not None  # any character is a sign
        assert lexeme.lastgroup is not None
        place = lexeme.end()
        if lexeme.lastgroup == "comment":
            place = _after_comment(text, place)
        elif lexeme.lastgroup != "space":
            found.append((lexeme.lastgroup, lexeme[0]))
    return found


def _after_comment(text: str, place: int) -> int:
    """The end of a comment; one may stand in another."""
    depth = 1
    for mark in re.compile(r"/\*|\*/").finditer(text, place):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    return len(text)


def _one_form(kind: str, lexeme: str, following: str, *, naming: bool) -> str:
    match kind:
        case "word":
            is_fixed = following != "(" and (naming or lexeme.lower() not in _KEYWORDS)
            return lexeme if is_fixed else lexeme.lower()
        case "quoted":
            inner = lexeme[1:-1]
            is_plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", inner) and following != "("
            return inner if is_plain and inner.lower() not in _KEYWORDS and not _CALLS.fullmatch(inner) else lexeme
        case "string":
            return lexeme if re.search(r"['\\]", lexeme[1:-1]) or '"' in lexeme[1:-1] else f"'{lexeme[1:-1]}'"
        case "sign":
            return _SIGNS.get(lexeme, lexeme)
    return lexeme


def _joined(lexemes: list[tuple[str, str]]) -> str:
    """The lexemes as a text that people can read, and that is taken apart into the same."""
    text, before, sign = "", ("", ""), False
    for kind, lexeme in lexemes:
        starts = not text or before[1] in ("(", "[", ",") or (before[0] == "sign" and before[1] not in (")", "]"))
        closes = lexeme in (")", "]", ",") and kind == "sign"
        calls = lexeme in ("(", "[") and kind == "sign" and before[0] in ("word", "quoted")
        calls = calls and before[1].lower() not in ("in", "and", "or", "not", "when", "then", "else", "any", "all")
        dotted = (lexeme == "." and before[0] in ("word", "quoted")) or (
            before[1] == "." and kind in ("word", "quoted")
        )
        together = closes or calls or dotted or before[1] in ("(", "[") or (sign and kind in ("word", "number"))
        text += lexeme if together or not text else f" {lexeme}"
        sign = lexeme in ("-", "+") and kind == "sign" and starts
        before = (kind, lexeme)
    return text
