"""Fields of JSON texts at paths of names, read by one from_json."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.plan.names.field import in_backticks
from lakehouse.spark.part.json_part import OPTIONS

Path = tuple[str, ...]


class FieldTree:
    """The fields of a record, read by from_json. They are found by their places, whatever their names."""

    def __init__(self, column_name: str, types_by_path: dict[Path, str]) -> None:
        self._column = F.col(column_name)
        self._nodes: dict[str, Any] = {}
        for path, type in types_by_path.items():
            nodes = self._nodes
            for name in path[:-1]:
                nodes = nodes.setdefault(name, {})
            nodes[path[-1]] = type

    def read(self, text: Column) -> Column:
        """Return the struct of a text's fields, from which the others take values."""
        corrupt_name = "_corrupt" + "_" * max(map(len, self._nodes))
        json_type = f"struct<{_ddl(self._nodes)}, `{corrupt_name}`: string>"
        json_struct = F.from_json(text, json_type, {**OPTIONS, "columnNameOfCorruptRecord": corrupt_name})
        return json_struct.cast(f"struct<{_ddl(_numbered(self._nodes))}, corrupt: string>")

    @property
    def is_corrupt(self) -> Column:
        """Whether a text is no record with fields of these types."""
        return self._column.isNull() | self._column["corrupt"].isNotNull()

    def value(self, path: Path) -> Column:
        """Return the value of a field, or the struct of those below it."""
        column, nodes = self._column, self._nodes
        for name in path:
            column, nodes = column[f"f{list(nodes).index(name)}"], nodes[name]
        return column


def _numbered(nodes: dict[str, Any]) -> dict[str, Any]:
    return {f"f{n}": _numbered(node) if isinstance(node, dict) else node for n, node in enumerate(nodes.values())}


def _ddl(nodes: dict[str, Any]) -> str:
    """Return fields as SQL text."""
    types = ((name, f"struct<{_ddl(node)}>" if isinstance(node, dict) else node) for name, node in nodes.items())
    return ", ".join(f"{in_backticks(name)}: {type}" for name, type in types)
