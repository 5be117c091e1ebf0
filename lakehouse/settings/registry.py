"""The checks of [registry]: addresses, secrets, and settings that need or exclude each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lakehouse.settings.check_value import WrongValue, check_text

SUBJECT_STRATEGIES = ("topic", "record", "topic_record")
# A setting, and the one without which it means nothing.
NEEDED = (
    ("password", "user"),
    ("user", "password"),
    ("key_file", "certificate_file"),
    ("key_password", "certificate_file"),
    ("ca_file", "url"),
    ("certificate_file", "url"),
    ("user", "url"),
    ("token", "url"),
)


def check_urls(value: object) -> str:
    """Accept a registry's address, or several separated by commas. Messages never show it: it may hold a secret."""
    addresses = [address.strip().rstrip("/") for address in check_text(value).split(",")]
    if not all(re.fullmatch(r"https?://[^\s/@?#,]+(/[^\s@?#,]*)?", address) for address in addresses):
        raise WrongValue(
            "expected an address without user and password, several with commas between, such as "
            '"https://one:8081,https://two:8081"; user and password are settings of their own'
        )
    return ",".join(addresses)


def check_user(value: object) -> str:
    """Accept the name of a user. HTTP ends it with a colon."""
    if ":" in (user := check_text(value)) or not user.isprintable():
        raise WrongValue("found a colon, or a character that can't be printed; expected a user's name without")
    return user


def check_timeout(value: object) -> float:
    """Accept a number of seconds, more than 0 and at most an hour."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 3600:
        raise WrongValue(f"found {value!r}; expected a number of seconds, more than 0 and at most 3600, such as 10")
    return float(value)


def check_password(value: object) -> str:
    """Accept a password: any text in one line. Messages never show the value."""
    if not isinstance(value, str) or not value or re.search(r"[\r\n\0]", value):
        raise WrongValue('expected text in "quotes" that is not empty, in one line')
    return value


def check_together(values: Mapping[str, Any]) -> None:
    """Refuse settings that do not fit each other. Raises WrongValue, with the key of the one to change."""
    for key, needed_key in NEEDED:
        if key in values and needed_key not in values:
            raise WrongValue(f"found {key} without {needed_key}; expected both, or neither", key)
    if "token" in values and "user" in values:
        raise WrongValue("found a token and a user; expected one of them: a request has one login", "token")
