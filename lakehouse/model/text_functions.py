"""Spark SQL's functions of texts and bytes in Python, for the model; NeedsSpark where Java's way may be another."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any
from unicodedata import category

from lakehouse.errors import NeedsSpark

# Patterns that Java and Python read alike: no classes of Java's own, no names, nothing possessive.
_JAVA_ONLY = re.compile(
    r"\\[pPQEGRXhHvVzZkK]|\(\?<[a-zA-Z]|\(\?[a-zA-Z]|[*+?}]\+|&&|\[[^\]]*\[|\{(?![0-9]+(,[0-9]*)?\})"
)
BETWEEN_CHARACTERS = "(?s)(?<=.)(?=.)"
_HEX = re.compile("[0-9A-Fa-f]*")
_END_QUOTED = "\\E\\\\E\\Q"  # an \\E between \\Q and \\E
_CODECS = {"UTF-8": "utf-8", "ISO-8859-1": "latin-1", "UTF-16BE": "utf-16-be", "UTF-32": "utf-32-be"}


@lru_cache(maxsize=1024)
def pattern(text: str) -> re.Pattern[str]:
    """Return a regular expression of Java's; NeedsSpark for one that Python may read otherwise."""
    try:
        if not _JAVA_ONLY.search(text):
            return re.compile(text, re.ASCII)
    except re.error:
        pass
    raise NeedsSpark(f"the model does not read the pattern {text!r} as Java does; run this on Spark.")


def _replaced(text: str, find: str, by: str) -> str:
    if "\\" in by:
        raise NeedsSpark("the model does not replace by a text with a backslash; run this on Spark.")
    template = re.sub(r"\$(\d)", r"\\g<\1>", by)
    if "$" in template:
        raise NeedsSpark(f"the model does not replace by {by!r}; run this on Spark.")
    _check_nothing(text, find)
    try:
        return pattern(find).sub(template, text)
    except (re.error, IndexError) as error:
        raise NeedsSpark(f"{by!r} stands for a group that a pattern does not have; run this on Spark.") from error


def _check_nothing(text: str, find: str) -> None:
    """Raise NeedsSpark where Java finds a pattern of nothing inside of a character, between its two halves."""
    if max(text, default="") > "\uffff" and pattern(find).search(""):
        raise NeedsSpark("Java finds a pattern of nothing inside of a character, too; run this on Spark.")


def _extracted(text: str, find: str, number: int = 1) -> str | None:
    """What a group has matched; null for one that the pattern does not have, where there is a match."""
    found = pattern(find).search(text)
    if found is None:
        return ""
    return found[number] or "" if 0 <= number <= found.re.groups else None


def _every(text: str, find: str, number: int = 1) -> list[str] | None:
    _check_nothing(text, find)
    matches = list(pattern(find).finditer(text))
    if matches and not 0 <= number <= matches[0].re.groups:
        return None
    return [found[number] or "" for found in matches]


def split(text: str, by: str, limit: int = -1) -> list[str]:
    """Return the parts of a text between what a pattern matches; \\Q...\\E is a plain text."""
    if by in (BETWEEN_CHARACTERS, "") and limit < 0:
        return list(text) or [""]
    parts = by[2:-2].split(_END_QUOTED) if by.startswith("\\Q") and by.endswith("\\E") else []
    if (plain := "\\E".join(parts)) and not any("\\E" in part for part in parts):
        return text.split(plain, limit - 1 if limit > 0 else -1)
    if limit > 0 or pattern(by).fullmatch(""):
        raise NeedsSpark(f"the model does not split by {by!r}; run this on Spark.")
    between = [(0, 0), *(found.span() for found in pattern(by).finditer(text)), (len(text), len(text))]
    return [text[end:start] for (_, end), (start, _) in pairwise(between)]


def _unhex(text: str) -> bytes | None:
    if not _HEX.fullmatch(text):
        return None
    return bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}")


def _hex(value: Any) -> str:
    return value.hex().upper() if isinstance(value, bytes) else f"{value % (1 << 64):X}"


def _codec(name: str) -> str:
    if name.upper() not in _CODECS:
        raise NeedsSpark(f"the model does not know the encoding {name!r}; run this on Spark.")
    return _CODECS[name.upper()]


def _decode(data: Any, *rest: Any) -> str | None:
    if len(rest) != 1:
        raise NeedsSpark("the model's decode is of bytes in an encoding; run this on Spark.")
    (codec,) = rest
    if data is None or codec is None:
        return None
    try:
        return str(data.decode(_codec(codec)))
    except UnicodeDecodeError:
        return None
    except AttributeError as error:
        raise NeedsSpark(f"the model does not read {data!r} as {codec}; run this on Spark.") from error


def _encode(text: str, codec: str) -> bytes:
    try:
        return text.encode(_codec(codec))
    except UnicodeEncodeError as error:
        raise NeedsSpark(f"the model does not encode {text!r}; run this on Spark.") from error


def _unbase64(text: str) -> bytes:
    try:
        return base64.b64decode(text if "=" in text else text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise NeedsSpark(f"the model does not read {text!r} as base64; run this on Spark.") from error


def _conv(text: str, base: int, to: int) -> str:
    """A number in another base: unsigned, or signed for a negative one."""
    if not text or not all(sign in "0123456789abcdefghijklmnopqrstuvwxyz"[:base] for sign in text.lower()):
        raise NeedsSpark(f"the model does not convert {text!r}; run this on Spark.")
    value = min(int(text, base), (1 << 64) - 1)
    if to < 0 and value >= 1 << 63:
        value -= 1 << 64
    digits, rest = "", abs(value)
    while rest or not digits:
        rest, digit = divmod(rest, abs(to))
        digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[digit] + digits
    return f"-{digits}" if value < 0 else digits


def _mask(text: str, upper: str | None = "X", lower: str | None = "x", digit: str | None = "n",
          other: str | None = None) -> str:  # fmt: skip
    masks = {"Lu": upper, "Ll": lower, "Nd": digit}

    def masked(character: str) -> str:
        if character > "\uffff":  # two to Java, each of them something else
            return character if other is None else other * 2
        mask = masks.get(category(character), other)
        return character if mask is None else mask

    return "".join(map(masked, text))


def _initcap(text: str) -> str:
    if any(not word[:1].isascii() for word in text.split(" ")):
        raise NeedsSpark(f"the model does not write {text!r:.60} with a first letter as Java does; run this on Spark.")
    return " ".join(word[:1].upper() + word[1:].lower() for word in text.split(" "))


def _locate(part: str | None, text: str | None, start: int | None = 1) -> int | None:
    if start is None:
        return 0
    if part is None or text is None:
        return None
    if not part:
        return 1 if start > 0 else 0
    return text.find(part, start - 1) + 1 if start > 0 else 0


def _length(text: str) -> int | None:
    parsed = _json(text)
    return len(parsed) if isinstance(parsed, list) else None


def _keys(text: str) -> list[str] | None:
    parsed = _json(text)
    return list(parsed) if isinstance(parsed, dict) else None


# A name after a dot or in quotes, a place. Double quotes are ksqlDB's: `lakehouse.spark.expressions` makes single ones.
_STEP = re.compile(r"""\.([^.\[]+)|\['([^'?]+)'\]|\["([^"'?]+)"\]|\[(\d+)\]""", re.ASCII)


def _at_path(text: str, path: str) -> str | None:
    """get_json_object of a path of names and places."""
    steps = list(_STEP.finditer(path, 1))
    if not path.startswith("$") or "".join(step[0] for step in steps) != path[1:] or "*" in path:
        raise NeedsSpark(f"the model does not read the path {path!r}; run this on Spark.")
    value = _json(text.replace(_MARK, _MARK * 2), _marked)
    for step in steps:
        if step[4] is None:
            value = value.get(step[1] or step[2] or step[3]) if isinstance(value, dict) else None
        else:
            place = int(step[4])
            value = value[place] if isinstance(value, list) and place < len(value) else None
    if value is None and not steps:
        raise NeedsSpark("the model does not tell a null from no JSON; run this on Spark.")
    if value is None:
        return None
    shown = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if not isinstance(value, str) and ("\\u" in shown or max(shown) > "\uffff"):
        raise NeedsSpark("the model does not write this JSON as Spark does; run this on Spark.")
    for pattern, new in _UNMARKED:
        shown = re.sub(pattern, new, shown)
    return shown


_MARK = "\x7f"
_UNMARKED = ((f"^{_MARK}(?=[0-9-])", ""), (f'"{_MARK}([0-9-][^"]*)"', r"\1"), (_MARK * 2, _MARK))


def _marked(number: str) -> str:
    """A number of a JSON text, which is written again as it was."""
    return _MARK + number


def _json(text: str, number: Callable[[str], Any] | None = None) -> Any:
    """What a text that is JSON holds, None for one that is not; NeedsSpark where Spark's reader may go on.

    number: what a number's text becomes; a number if left out.
    """
    whole = number or _whole
    try:
        return json.loads(
            text, object_pairs_hook=_object, parse_int=whole, parse_float=number, parse_constant=_no_number
        )
    except ValueError as error:
        if text.lstrip()[:1] in ("{", "[", '"', "'") or any(map(str.isdigit, text)):
            # It stops after the first value, and takes single quotes and more.
            raise NeedsSpark(f"the model does not read {text!r:.60} as JSON; run this on Spark.") from error
        return None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise NeedsSpark("the model does not read an object that has a name twice; run this on Spark.")
    return dict(pairs)


def _whole(digits: str) -> int:
    if digits == "-0":
        raise NeedsSpark("the model does not write -0 as Spark does; run this on Spark.")
    return int(digits)


def _no_number(word: str) -> Any:
    raise NeedsSpark(f"the model does not read {word} as JSON; run this on Spark.")


STRICT: dict[str, Callable[..., Any]] = {
    "split": split,
    "btrim": lambda text, characters=" ": text.strip(characters),
    "left": lambda text, many: text[: max(many, 0)],
    "right": lambda text, many: text[-many:] if many > 0 else "",
    "initcap": _initcap,
    "position": lambda part, text: text.find(part) + 1,
    "rlike": lambda text, find: pattern(find).search(text) is not None,
    "regexp_replace": _replaced,
    "regexp_extract": _extracted,
    "regexp_extract_all": _every,
    "hex": _hex,
    "unhex": _unhex,
    "base64": lambda data: base64.b64encode(data).decode("ascii"),
    "unbase64": _unbase64,
    "encode": _encode,
    "conv": _conv,
    "md5": lambda value: hashlib.md5(value.encode() if isinstance(value, str) else value).hexdigest(),
    "get_json_object": _at_path,
    "json_array_length": _length,
    "json_object_keys": _keys,
}
WITH_NULLS: dict[str, Callable[..., Any]] = {
    "locate": _locate,
    "decode": _decode,
    "mask": lambda text, *masks: None if text is None else _mask(text, *masks),
    "elt": lambda place, *texts: texts[place - 1] if place is not None and 0 < place <= len(texts) else None,
}
