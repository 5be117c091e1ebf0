"""Delta's types, as Spark writes them."""

from __future__ import annotations

from typing import Any

SPARK_NAMES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}


def spark_type(delta_type: Any) -> str:
    """Return a type of deltalake's schema as Spark SQL writes it: "array<bigint>"."""
    match kind_name := getattr(delta_type, "type", None):
        case "array":
            return f"array<{spark_type(delta_type.element_type)}>"
        case "map":
            return f"map<{spark_type(delta_type.key_type)}, {spark_type(delta_type.value_type)}>"
        case "struct":
            return f"struct<{', '.join(f'{field.name}: {spark_type(field.type)}' for field in delta_type.fields)}>"
    return SPARK_NAMES.get(str(kind_name), str(kind_name))


def is_same_type(type_text: str, other_text: str) -> bool:
    """Say whether two of Spark's texts are the same type, whatever their blanks."""
    return "".join(type_text.lower().split()) == "".join(other_text.lower().split())
