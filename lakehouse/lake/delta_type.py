"""Delta's types, as Spark writes them."""

from __future__ import annotations

import re
from typing import Any

from lakehouse.plan.names.field import in_backticks

PLAIN_NAME = re.compile(r"(?!(?:select|not)$)[A-Za-z_]\w*", re.IGNORECASE)  # the others can't be read back bare
SPARK_NAMES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}


def spark_type(delta_type: Any) -> str:
    """Return a type of deltalake's schema as Spark SQL writes it: "array<bigint>"."""
    match kind_name := getattr(delta_type, "type", None):
        case "array":
            return f"array<{spark_type(delta_type.element_type)}>"
        case "map":
            return f"map<{spark_type(delta_type.key_type)}, {spark_type(delta_type.value_type)}>"
        case "struct":
            fields = (f"{_field_name(field.name)}: {spark_type(field.type)}" for field in delta_type.fields)
            return f"struct<{', '.join(fields)}>"
    return SPARK_NAMES.get(str(kind_name), str(kind_name))


def _field_name(name: str) -> str:
    return name if PLAIN_NAME.fullmatch(name) else in_backticks(name)
