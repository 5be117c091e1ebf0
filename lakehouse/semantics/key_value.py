"""Values as parts of keys: which values are the same key.

The two zeros of a float or a double are one key, 0.0, and all NaN are one key, as in Spark's groups and joins; no other
values are made equal. So every kind of table has one row for them; ksqlDB, whose keys are bytes, has two.
"""

from __future__ import annotations

import math
from typing import Any

NAN = math.nan  # one object: NaN equals nothing, but tuples with the same object are equal


def key_value(value: Any) -> Any:
    """Return a value's form in a key; structs are dicts and arrays lists."""
    match value:
        case float():
            return 0.0 if value == 0 else NAN if math.isnan(value) else value
        case dict():
            return {name: key_value(item) for name, item in value.items()}
        case list() | tuple():
            return [key_value(item) for item in value]
    return value
