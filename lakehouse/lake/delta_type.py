"""Delta's types, as Spark writes them."""

from __future__ import annotations

from typing import Any

SHORT = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}


def spark_type(kind: Any) -> str:
    """Return a type of deltalake's schema as Spark SQL has it: "array<bigint>"."""
    match inner := getattr(kind, "type", None):
        case "array":
            return f"array<{spark_type(kind.element_type)}>"
        case "map":
            return f"map<{spark_type(kind.key_type)}, {spark_type(kind.value_type)}>"
        case "struct":
            return f"struct<{', '.join(f'{field.name}: {spark_type(field.type)}' for field in kind.fields)}>"
    return SHORT.get(str(inner), str(inner))


def same_type(one: str, other: str) -> bool:
    """Say whether two texts of Spark's are one type, whatever the blanks in them."""
    return "".join(one.lower().split()) == "".join(other.lower().split())
