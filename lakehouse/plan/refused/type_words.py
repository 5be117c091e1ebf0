"""Words that databases have for types, and that mean another type, or several, where a schema or a cast is read.

The parser of SQL knows the types of all dialects: a PostgreSQL int8 would become a tinyint, a time of the day a
timestamp, and an Oracle NUMBER a decimal without digits after the point.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import sqlglot
from sqlglot.tokenizer_core import Token, TokenType

# The word -> how it is declared here.
_OTHER_WORDS = {
    "time": "'string', or 'bigint' for Debezium's io.debezium.time.MicroTime",
    "bit": "'boolean', or 'binary' for several bits",
    "int1": "'tinyint'",
    "int8": "'bigint' for PostgreSQL's, which has eight bytes, or 'tinyint' for eight bits",
}
_WITH_DIGITS = ("number", "numeric", "dec", "fixed")
_WITHOUT_DIGITS = "a decimal with its digits: 'decimal(10, 2)', or 'decimal(38, 0)' for whole numbers"
_CASTS = ("cast", "try_cast")


def fault_of_types(sql_text: str, *, is_schema: bool) -> str | None:
    """Return what is wrong with the first word of a text that is taken for another type than meant; None without.

    is_schema: the text is a schema, "name type, ..."; else an expression, which has types in its casts alone.
    """
    tokens = sqlglot.tokenize(sql_text, read="spark")
    for token, next_token in _type_words(tokens) if is_schema else _cast_words(tokens):
        word = token.text.lower()
        has_digits = next_token is not None and next_token.token_type is TokenType.L_PAREN
        advised_type = _WITHOUT_DIGITS if word in _WITH_DIGITS and not has_digits else _OTHER_WORDS.get(word)
        if advised_type is not None:
            return f"found the type {word!r}, expected {advised_type}."
    return None


def _type_words(tokens: list[Token]) -> Iterator[tuple[Token, Token | None]]:
    """Yield each word of a schema that is no name, with the token behind it: a name has a type or a colon behind it."""
    for token, next_token in pairwise([*tokens, None]):
        if token is None or token.token_type in (TokenType.IDENTIFIER, TokenType.STRING):
            continue
        behind = "" if next_token is None else next_token.text.lower()
        if behind in ("", ",", "(", ")", "<", "comment") or behind.startswith(">"):
            yield token, next_token


def _cast_words(tokens: list[Token]) -> Iterator[tuple[Token, Token | None]]:
    """Yield the words of the types to which an expression casts, each with the token behind it."""
    brackets: list[bool] = []  # for each that is open, whether it is a cast's
    type_start: int | None = None
    for index, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            brackets.append(index > 0 and tokens[index - 1].text.lower() in _CASTS)
        elif token.token_type is TokenType.R_PAREN and brackets:
            if brackets.pop() and type_start is not None:
                yield from _type_words(tokens[type_start:index])
                type_start = None
        elif token.token_type is TokenType.ALIAS and brackets and brackets[-1]:
            type_start = index + 1
        elif token.token_type is TokenType.DCOLON:
            yield tokens[index + 1], next(iter(tokens[index + 2 :]), None)
