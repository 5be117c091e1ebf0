"""Spark SQL's functions of texts and bytes in Python, for the model; NeedsSpark where Java may differ."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from unicodedata import category

from lakehouse.errors import NeedsSpark
from lakehouse.model.function.java_regex import JavaPattern
from lakehouse.semantics.blanks import BETWEEN_CHARACTERS
from lakehouse.semantics.surrogates import SURROGATE, escape_surrogates, replace_surrogates

_HEX = re.compile("[0-9A-Fa-f]*")
_END_QUOTED = "\\E\\\\E\\Q"  # an \\E between \\Q and \\E
_CODECS = {"UTF-8": "utf-8", "ISO-8859-1": "latin-1", "UTF-16BE": "utf-16-be", "UTF-32": "utf-32-be"}


def _replace_pattern(text: str, pattern_text: str, replacement: str) -> str:
    if "\\" in replacement:
        raise NeedsSpark("the model does not replace by a text with a backslash; run this on Spark.")
    python_template = re.sub(r"\$(\d)", r"\\g<\1>", replacement)
    pattern = JavaPattern(pattern_text)
    if "$" in python_template or pattern.group_count > 9:  # Java reads $12 as the twelfth group, if there is one
        raise NeedsSpark(f"the model does not replace by {replacement!r}; run this on Spark.")
    parts, next_index = [], 0
    try:
        for match in pattern.matches(text):
            parts += [text[next_index : match.start()], match.expand(python_template)]
            next_index = match.end()
    except (re.error, IndexError) as error:
        raise NeedsSpark(
            f"{replacement!r} stands for a group that a pattern does not have; run this on Spark."
        ) from error
    return "".join([*parts, text[next_index:]])


def _extract_group(text: str, pattern_text: str, group_number: int = 1) -> str | None:
    """Return the text that a group has matched; null if the pattern matches but has no such group."""
    match = JavaPattern(pattern_text).first_match(text)
    if match is None:
        return ""
    return match[group_number] or "" if 0 <= group_number <= match.re.groups else None


def _extract_all_groups(text: str, pattern_text: str, group_number: int = 1) -> list[str] | None:
    groups = _all_groups(text, pattern_text, group_number)
    return None if groups is None else [group or "" for group in groups]


def _first_group(text: str, pattern_text: str, group_number: int) -> str | None:
    """Return what a group has in the first match, null if it took no part in it."""
    match = JavaPattern(pattern_text).first_match(text)
    return None if match is None or not 0 <= group_number <= match.re.groups else match[group_number]


def _all_groups(text: str, pattern_text: str, group_number: int) -> list[str | None] | None:
    """Return what a group has in each match, null where it took no part."""
    matches = list(JavaPattern(pattern_text).matches(text))
    if matches and not 0 <= group_number <= matches[0].re.groups:
        return None
    return [match[group_number] for match in matches]


def split_by_pattern(text: str, separator: str, limit: int = -1) -> list[str]:
    """Return the parts of a text between the matches of a pattern; \\Q...\\E is a plain text."""
    if separator in (BETWEEN_CHARACTERS, "") and limit < 0:
        return list(text) or [""]
    plain_parts = (
        separator[2:-2].split(_END_QUOTED) if separator.startswith("\\Q") and separator.endswith("\\E") else []
    )
    if (plain_separator := "\\E".join(plain_parts)) and not any("\\E" in part for part in plain_parts):
        return text.split(plain_separator, limit - 1 if limit > 0 else -1)
    pattern = JavaPattern(separator)
    match_spans = [match.span() for match in pattern.matches(text)]
    if limit > 0 or pattern.first_match("") or any(start == end for start, end in match_spans):
        raise NeedsSpark(f"the model does not split by {separator!r}; run this on Spark.")
    separator_spans = [(0, 0), *match_spans, (len(text), len(text))]
    return [text[end:start] for (_, end), (start, _) in pairwise(separator_spans)]


def _from_hex(text: str) -> bytes | None:
    if not _HEX.fullmatch(text):
        return None
    return bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}")


def _to_hex(value: Any) -> str:
    return value.hex().upper() if isinstance(value, bytes) else f"{value % (1 << 64):X}"


def _codec_of_encoding(encoding: str) -> str:
    if encoding.upper() not in _CODECS:
        raise NeedsSpark(f"the model does not know the encoding {encoding!r}; run this on Spark.")
    return _CODECS[encoding.upper()]


def _decode_bytes(encoded: Any, *encodings: Any) -> str | None:
    if len(encodings) != 1:
        raise NeedsSpark("the model's decode is of bytes in an encoding; run this on Spark.")
    (encoding,) = encodings
    if encoded is None or encoding is None:
        return None
    try:
        codec = _codec_of_encoding(encoding)
        if not codec.startswith("utf-32"):
            return str(encoded.decode(codec))
        # Java takes half of a surrogate pair for a character of UTF-32; two of them make one.
        units = encoded.decode(codec, "surrogatepass").encode("utf-16-be", "surrogatepass")
        return replace_surrogates(units.decode("utf-16-be", "surrogatepass"))
    except UnicodeDecodeError:
        return None
    except AttributeError as error:
        raise NeedsSpark(f"the model does not read {encoded!r} as {encoding}; run this on Spark.") from error


def _encode_text(text: str, encoding: str) -> bytes:
    try:
        return text.encode(_codec_of_encoding(encoding))
    except UnicodeEncodeError as error:
        raise NeedsSpark(f"the model does not encode {text!r}; run this on Spark.") from error


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text if "=" in text else text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise NeedsSpark(f"the model does not read {text!r} as base64; run this on Spark.") from error


def _convert_base(text: str, source_base: int, target_base: int) -> str | None:
    """Return a number in another base: unsigned, or signed for a negative base; null for a base beyond 2 to 36."""
    if not 2 <= source_base <= 36 or not 2 <= abs(target_base) <= 36:
        return None
    if not text or not all(sign in "0123456789abcdefghijklmnopqrstuvwxyz"[:source_base] for sign in text.lower()):
        raise NeedsSpark(f"the model does not convert {text!r}; run this on Spark.")
    number = min(int(text, source_base), (1 << 64) - 1)
    if target_base < 0 and number >= 1 << 63:
        number -= 1 << 64
    digits, remaining = "", abs(number)
    while remaining or not digits:
        remaining, digit = divmod(remaining, abs(target_base))
        digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[digit] + digits
    return f"-{digits}" if number < 0 else digits


def _mask_characters(
    text: str,
    upper_mask: str | None = "X",
    lower_mask: str | None = "x",
    digit_mask: str | None = "n",
    other_mask: str | None = None,
) -> str:
    masks = {"Lu": upper_mask, "Ll": lower_mask, "Nd": digit_mask}

    def mask_character(character: str) -> str:
        if character > "\uffff":  # Java sees two characters, and masks each as another character
            return character if other_mask is None else other_mask * 2
        mask = masks.get(category(character), other_mask)
        return character if mask is None else mask

    return "".join(map(mask_character, text))


def _capitalize_words(text: str) -> str:
    words = text.lower().split(" ")  # a sigma at the end of a word is another one
    if any(not word[:1].isascii() for word in text.split(" ")):
        raise NeedsSpark(f"the model does not write {text!r:.60} with a first letter as Java does; run this on Spark.")
    return " ".join(word[:1].upper() + word[1:] for word in words)


def _locate_part(part: str | None, text: str | None, start: int | None = 1) -> int | None:
    if start is None:
        return 0
    if part is None or text is None:
        return None
    if not part:
        return 1 if start > 0 else 0
    return text.find(part, start - 1) + 1 if start > 0 else 0


def _json_array_length(text: str) -> int | None:
    json_value = _parse_json(text)
    return len(json_value) if isinstance(json_value, list) else None


def _json_object_keys(text: str) -> list[str] | None:
    json_value = _parse_json(text)
    return [*map(replace_surrogates, json_value)] if isinstance(json_value, dict) else None


# A name after a dot or in quotes, or an index. ksqlDB's double quotes: `lakehouse.spark.expression.declared` makes them
# single.
_STEP = re.compile(r"""\.([^.\[]+)|\['([^'?]+)'\]|\["([^"'?]+)"\]|\[(\d+)\]""", re.ASCII)


def _read_json_path(text: str, json_path: str) -> str | None:
    """Return get_json_object for a path of names and indexes."""
    path_steps = list(_STEP.finditer(json_path, 1))
    if (
        not json_path.startswith("$")
        or "".join(path_step[0] for path_step in path_steps) != json_path[1:]
        or "*" in json_path
    ):
        raise NeedsSpark(f"the model does not read the path {json_path!r}; run this on Spark.")
    json_value = _parse_json(text.replace(_MARK, _MARK * 2), _mark_number)
    for path_step in path_steps:
        if path_step[4] is None:
            json_value = (
                json_value.get(path_step[1] or path_step[2] or path_step[3]) if isinstance(json_value, dict) else None
            )
        else:
            index = int(path_step[4])
            json_value = json_value[index] if isinstance(json_value, list) and index < len(json_value) else None
    if json_value is None and not path_steps:
        raise NeedsSpark("the model does not tell a null from no JSON; run this on Spark.")
    if json_value is None or (isinstance(json_value, str) and SURROGATE.search(json_value)):
        return None  # Spark can't write half of a surrogate pair as a text; inside of JSON it's an escape
    result_text = (
        json_value if isinstance(json_value, str) else json.dumps(json_value, separators=(",", ":"), ensure_ascii=False)
    )
    if not isinstance(json_value, str):
        if "\\u" in result_text:
            raise NeedsSpark("the model does not write this JSON as Spark does; run this on Spark.")
        result_text = escape_surrogates(result_text)
    for mark_pattern, replacement in _UNMARKED:
        result_text = re.sub(mark_pattern, replacement, result_text)
    return result_text


_MARK = "\x7f"
_UNMARKED = ((f"^{_MARK}(?=[0-9-])", ""), (f'"{_MARK}([0-9-][^"]*)"', r"\1"), (_MARK * 2, _MARK))


def _mark_number(number: str) -> str:
    """Return a marker that keeps a JSON number's text as it is written."""
    return _MARK + number


def _parse_json(text: str, parse_number: Callable[[str], Any] | None = None) -> Any:
    """Return the value of a JSON text, None if it is not JSON; NeedsSpark where Spark's reader may still read it.

    parse_number: called with a number's text; gives the value. Left out, numbers stay plain numbers.
    """
    parse_whole = parse_number or _parse_whole_number
    try:
        return json.loads(
            text,
            object_pairs_hook=_build_object,
            parse_int=parse_whole,
            parse_float=parse_number,
            parse_constant=_refuse_json_constant,
        )
    except ValueError as error:
        if text.lstrip()[:1] in ("{", "[", '"', "'") or any(map(str.isdigit, text)):
            # Spark's reader stops after the first value, and also takes single quotes and more.
            raise NeedsSpark(f"the model does not read {text!r:.60} as JSON; run this on Spark.") from error
        return None


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise NeedsSpark("the model does not read an object that has a name twice; run this on Spark.")
    return dict(pairs)


def _parse_whole_number(digits: str) -> int:
    if digits == "-0":
        raise NeedsSpark("the model does not write -0 as Spark does; run this on Spark.")
    return int(digits)


def _refuse_json_constant(word: str) -> Any:
    raise NeedsSpark(f"the model does not read {word} as JSON; run this on Spark.")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "split": split_by_pattern,
    "btrim": lambda text, characters=" ": text.strip(characters),
    "left": lambda text, count: text[: max(count, 0)],
    "right": lambda text, count: text[-count:] if count > 0 else "",
    "initcap": _capitalize_words,
    "rlike": lambda text, pattern_text: JavaPattern(pattern_text).first_match(text) is not None,
    "regexp_replace": _replace_pattern,
    "regexp_extract": _extract_group,
    "regexp_extract_all": _extract_all_groups,
    "ksql_regexp_group": _first_group,
    "ksql_regexp_groups": _all_groups,
    "hex": _to_hex,
    "unhex": _from_hex,
    "base64": lambda data: base64.b64encode(data).decode("ascii"),
    "unbase64": _decode_base64,
    "encode": _encode_text,
    "conv": _convert_base,
    "md5": lambda value: hashlib.md5(value.encode() if isinstance(value, str) else value).hexdigest(),
    "get_json_object": _read_json_path,
    "json_array_length": _json_array_length,
    "json_object_keys": _json_object_keys,
    "locate": _locate_part,
    "decode": _decode_bytes,
    "mask": lambda text, *masks: None if text is None else _mask_characters(text, *masks),
    "elt": lambda place, *texts: texts[place - 1] if place is not None and 0 < place <= len(texts) else None,
}
