"""Draws hostile texts: valid ones, cut, doubled, joined and changed, with what often breaks programs in them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

PIECES = (
    "", " ", "\n", "\t", "\0", "\x1b[2J", "\u202e", "\ufeff", "\ud800", "é", "e\u0301", "İ", "ß", "🦊", "\u2028",
    "'", '"', "`", "\\", "/", "//", "../", "../../etc/passwd", "/etc/passwd", "~", "$HOME", "$(id)", "`id`", "; id",
    "--", "/*", "*/", "#", "%s", "%n", "{}", "{0}", "{{ 1 }}", "${x}", "<script>", "&amp;", "' OR '1'='1", "\"; DROP",
    "(", ")", "[", "]", "{", "}", "<", ">", ",", ";", ":", "=", "==", ".", "..", "|", "&", "!", "?", "*", "+", "-",
    "0", "-0", "1", "-1", "7", "00", "1e999999999", "-1e-400", "9" * 30, "9223372036854775808", "0x10", "1_000", "NaN",
    "Infinity", "null", "NULL", "true", "None", "٣", "१", "①", "2026-01-31T12:00:00Z", "9999-12-31", "0000-00-00",
    "1 day", "week", "PT1H", "json", "string", "bigint", "decimal(38, 38)", "struct<", "array<int>", "map<string",
    "SELECT", "FROM", "WHERE", "AS", "CREATE", "lambda", "__import__", "eval", "self", "class", "A" * 300, "(" * 200,
)  # fmt: skip
LENGTH_MAX = 4_000


def draw_text(dice: Random, examples: Sequence[str]) -> str:
    """Return a text that is made of examples of valid ones, of pieces, or of any characters."""
    text = dice.choice(examples) if dice.random() < 0.9 else ""
    for _ in range(dice.choice((0, 1, 1, 1, 2, 3, 6))):
        text = _changed(dice, text, examples)
    return text[:LENGTH_MAX]


def draw_bytes(dice: Random, examples: Sequence[bytes]) -> bytes:
    """Return bytes that are made of examples of valid ones."""
    data = bytearray(dice.choice(examples)) if dice.random() < 0.9 else bytearray()
    for _ in range(dice.choice((0, 1, 1, 2, 4, 8))):
        place = dice.randrange(len(data) + 1)
        match dice.randrange(5):
            case 0:
                data[place:place] = dice.randbytes(dice.choice((1, 1, 2, 8, 64)))
            case 1:
                del data[place : place + dice.choice((1, 1, 2, 8, 64))]
            case 2 if place < len(data):
                data[place] ^= 1 << dice.randrange(8)
            case 3:
                data[place:place] = dice.choice(PIECES).encode("utf-8", "surrogatepass")
            case 4:
                data += dice.choice(examples)
    return bytes(data[:LENGTH_MAX])


def _changed(dice: Random, text: str, examples: Sequence[str]) -> str:
    begin = dice.randrange(len(text) + 1)
    end = min(len(text), begin + dice.choice((0, 1, 1, 2, 5, 20)))
    match dice.randrange(6):
        case 0:
            put = dice.choice(PIECES)
        case 1:
            put = ""
        case 2:
            put = text[begin:end] * dice.choice((2, 3, 50))
        case 3:
            put = "".join(chr(dice.choice((dice.randrange(128), dice.randrange(0x10FFFF)))) for _ in range(3))
        case 4:
            other = dice.choice(examples)
            put = other[dice.randrange(len(other) + 1) :]
        case _:
            put = text[begin:end].swapcase() or dice.choice(PIECES)
    return text[:begin] + put + text[end:]
