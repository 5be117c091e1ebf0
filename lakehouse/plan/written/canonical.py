"""A canonical form of SQL texts: the same for texts that provably differ only in their writing.

The text is split as by Spark's lexer, and not parsed: a parser merges functions (array_size and size), drops arguments
that it does not know (the format of to_char) and renames types. Equal are:

    white space, and comments             but not inside of quotes
    the case of a function's name         a word before a parenthesis
    the case of keywords and types        unless a word may be the name of a struct's field, or a map's key
    <> and !=, = and ==                   two spellings of the same operator
    "x" and 'x', `x` and x                where nothing inside is an escape, a keyword or a function

Every other difference counts, also one that would make no difference.
"""

from __future__ import annotations

import re
from functools import lru_cache

from lakehouse.plan.spark_functions.record import word_set

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
_KEYWORDS = word_set(
    """
    all and any array as asc between bigint binary boolean both byte case cast char collate date dec decimal desc
    distinct div double else end escape exists false float for from ilike in int integer interval is leading like long
    map not null numeric or placing real regexp rlike short smallint some string then time timestamp timestamp_ltz
    timestamp_ntz tinyint trailing true try_cast unknown varchar variant void when xor
    year years quarter quarters month months week weeks day days hour hours minute minutes second seconds millisecond
    milliseconds microsecond microseconds
    """
)
# Functions that turn words of the text into names of a struct's fields.
_NAMING = re.compile(r"struct|zip|json|xml|csv|variant", re.IGNORECASE)
# Words that are functions without a parenthesis, or that begin a literal.
_CALLS = re.compile(r"current_\w+|session_\w+|user|localtime\w*|now|x|r", re.IGNORECASE)
_SIGNS = {"!=": "<>", "==": "="}


@lru_cache(maxsize=4096)
def canonical_sql(sql_text: str) -> str:
    """Return the canonical form of SQL text: two texts have the same form only if they mean the same to Spark."""
    lexemes = _split_lexemes(sql_text)
    is_naming = _NAMING.search(sql_text) is not None
    canonical_lexemes: list[tuple[str, str]] = []
    neighbours = zip([("", ""), *lexemes], lexemes, [*lexemes[1:], ("", "")], strict=False)
    for (_, previous), (kind, lexeme), (_, following) in neighbours:
        # Behind a dot a word may be a key of a map, which Spark compares with its case.
        is_fixed = is_naming or previous == "."
        canonical_lexeme = _canonical_lexeme(kind, lexeme, following, is_fixed=is_fixed)
        is_unquoted = kind == "quoted" and canonical_lexeme != lexeme
        canonical_lexemes.append(("word" if is_unquoted else kind, canonical_lexeme))
    return _join_lexemes(canonical_lexemes)


def without_comments(sql_text: str) -> str:
    """Return SQL text that may be pasted into another: as written, or in its canonical form if it may have comments.

    A comment at its end would take in what follows.
    """
    return canonical_sql(sql_text) if "--" in sql_text or "/*" in sql_text else sql_text


def _split_lexemes(sql_text: str) -> list[tuple[str, str]]:
    lexemes, next_index = [], 0
    while next_index < len(sql_text):
        lexeme = _LEXEMES.match(sql_text, next_index)
        assert lexeme is not None  # every character matches at least as a sign
        assert lexeme.lastgroup is not None
        next_index = lexeme.end()
        if lexeme.lastgroup == "comment":
            next_index = _after_comment(sql_text, next_index)
        elif lexeme.lastgroup != "space":
            lexemes.append((lexeme.lastgroup, lexeme[0]))
    return lexemes


def _after_comment(sql_text: str, start_index: int) -> int:
    """Return the index after a comment; comments may be nested."""
    depth = 1
    for mark in re.compile(r"/\*|\*/").finditer(sql_text, start_index):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    return len(sql_text)


def _canonical_lexeme(kind: str, lexeme: str, following: str, *, is_fixed: bool) -> str:
    """Return a lexeme's canonical form. is_fixed: the case of a word that calls no function counts."""
    match kind:
        case "word":
            is_name = following != "(" and (is_fixed or lexeme.lower() not in _KEYWORDS)
            return lexeme if is_name else lexeme.lower()
        case "quoted":
            inner_text = lexeme[1:-1]
            is_plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", inner_text) and following != "("
            return (
                inner_text
                if is_plain and inner_text.lower() not in _KEYWORDS and not _CALLS.fullmatch(inner_text)
                else lexeme
            )
        case "string":
            return lexeme if re.search(r"['\\]", lexeme[1:-1]) or '"' in lexeme[1:-1] else f"'{lexeme[1:-1]}'"
        case "sign":
            return _SIGNS.get(lexeme, lexeme)
    return lexeme


def _join_lexemes(lexemes: list[tuple[str, str]]) -> str:
    """Join lexemes to a readable text that splits into the same lexemes."""
    sql_text, previous_lexeme, is_signed = "", ("", ""), False
    for kind, lexeme in lexemes:
        starts_operand = (
            not sql_text
            or previous_lexeme[1] in ("(", "[", ",")
            or (previous_lexeme[0] == "sign" and previous_lexeme[1] not in (")", "]"))
        )
        is_closing = lexeme in (")", "]", ",") and kind == "sign"
        is_call = lexeme in ("(", "[") and kind == "sign" and previous_lexeme[0] in ("word", "quoted")
        is_call = is_call and previous_lexeme[1].lower() not in (
            "in",
            "and",
            "or",
            "not",
            "when",
            "then",
            "else",
            "any",
            "all",
        )
        is_dotted = (lexeme == "." and previous_lexeme[0] in ("word", "quoted")) or (
            previous_lexeme[1] == "." and kind in ("word", "quoted")
        )
        is_together = (
            is_closing
            or is_call
            or is_dotted
            or previous_lexeme[1] in ("(", "[")
            or (is_signed and kind in ("word", "number"))
        )
        sql_text += lexeme if is_together or not sql_text else f" {lexeme}"
        is_signed = lexeme in ("-", "+") and kind == "sign" and starts_operand
        previous_lexeme = (kind, lexeme)
    return sql_text
