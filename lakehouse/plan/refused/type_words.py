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
_CASTS = ("cast", "try_cast")


def find_other_type(sql_text: str, *, is_schema: bool) -> tuple[str, str] | None:
    """Return the first word of a text that is taken for another type than meant, and how to write it; None without.

    is_schema: the text is a schema, "name type, ..."; else an expression, which has types in its casts alone.
    """
    tokens = sqlglot.tokenize(sql_text, read="spark")
    for token, next_token in _type_words(tokens) if is_schema else _cast_words(tokens):
        word = token.text.lower()
        if word in _OTHER_WORDS:
            return word, _OTHER_WORDS[word]
        if word in _WITH_DIGITS and (next_token is None or next_token.token_type is not TokenType.L_PAREN):
            return word, "a decimal with its digits: 'decimal(10, 2)', or 'decimal(38, 0)' for whole numbers"
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
    open_casts: list[int] = []  # how many brackets are open inside of each cast
    type_start: int | None = None
    for index, token in enumerate(tokens):
        is_cast = index > 0 and tokens[index - 1].text.lower() in _CASTS
        if token.token_type is TokenType.L_PAREN:
            if is_cast:
                open_casts.append(0)
            elif open_casts:
                open_casts[-1] += 1
        elif token.token_type is TokenType.R_PAREN and open_casts:
            if open_casts[-1]:
                open_casts[-1] -= 1
            else:
                open_casts.pop()
                if type_start is not None:
                    yield from _type_words(tokens[type_start:index])
                    type_start = None
        elif token.token_type is TokenType.ALIAS and open_casts and not open_casts[-1]:
            type_start = index + 1
        elif token.token_type is TokenType.DCOLON:
            type_token, next_token = [*tokens[index + 1 : index + 3], None, None][:2]
            if type_token is not None:
                yield type_token, next_token
