"""Values as parts of keys: which of them are one key.

The two zeros of a float or a double are one key, 0.0, and all its NaN are one, as Spark groups and joins them; nothing
else is made equal: a text stays as it is, whatever else looks like it. So every table has one row for them, be it of
the latest values, of an aggregate, or of rows; ksqlDB, whose keys are bytes, has two.
"""

from __future__ import annotations

import math
from typing import Any

NAN = math.nan  # one object: Python's NaN equals nothing, but a tuple finds an object that is in it


def key_value(value: Any) -> Any:
    """Return a value as it stands in a key, where a struct is a dict and an array a list."""
    match value:
        case float():
            return 0.0 if value == 0 else NAN if math.isnan(value) else value
        case dict():
            return {name: key_value(item) for name, item in value.items()}
        case list() | tuple():
            return [key_value(item) for item in value]
    return value
