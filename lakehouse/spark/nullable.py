"""Types of which every part may be null: Spark derives from an expression which parts are never null.

Such a type does not last: Delta refuses a table with it inside of arrays and maps, another expression may give nulls,
and to Arrow it is another type.
"""

from __future__ import annotations

import json
import re

from pyspark.sql.types import StructType

_NEVER_NULL = re.compile(r'"(nullable|containsNull|valueContainsNull)":false')


def make_nullable(kind: StructType) -> StructType:
    """Return a type with all its fields, elements and values nullable, inside of each other too."""
    return StructType.fromJson(json.loads(_NEVER_NULL.sub(r'"\1":true', kind.json())))
