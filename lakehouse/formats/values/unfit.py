"""The error for bytes that do not fit their schema."""

from __future__ import annotations

from lakehouse.semantics.number_text import LENGTH_MAX, count_digits
from lakehouse.semantics.surrogates import replace_surrogates

# The part of a reason that differs from record to record; without it, all records with the same fault share a reason.
FOUND_PART = r"(?s)(, found |; found | at character ).*"


class Unfit(ValueError):
    """The bytes do not fit the schema. The message is the reason in the quarantine: a text that UTF-8 can encode."""

    def __init__(self, reason: str) -> None:
        super().__init__(replace_surrogates(reason))


def clip_text(text: str, length_max: int = 80) -> str:
    """Return `text`, cut to a length that fits into a reason; a record may have megabytes."""
    return text if len(text) <= length_max else f"{text[:length_max]}... ({len(text)} characters)"


def unfit_value(type_name: str, value_text: str) -> Unfit:
    """Return the error for a value that does not fit its type; `value_text` shows the value to people."""
    return Unfit(f"expected {type_name}, found {clip_text(value_text)}")


def check_number_length(number_text: str) -> None:
    """Raise Unfit if the text of a number is too long: a record may have megabytes of digits."""
    if len(number_text) > LENGTH_MAX and count_digits(number_text) > LENGTH_MAX:
        raise Unfit(f"a number of {count_digits(number_text)} digits; {LENGTH_MAX} are allowed")


def decode_utf8(data: bytes) -> str:
    """Return bytes as text; raise Unfit if they are not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unfit(f"expected UTF-8, found byte 0x{data[error.start]:02x} at {error.start}") from error
