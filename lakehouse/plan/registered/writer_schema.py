"""The schema by which somebody has written keys or values, as a registry has it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from lakehouse.plan.avro.avro_schema import REGISTRY_KIND, AvroType, parse_avro
from lakehouse.plan.protobuf.proto_columns import row_type
from lakehouse.plan.protobuf.proto_schema import PROTOBUF_KIND, ProtoSchema
from lakehouse.plan.protobuf.protoc import compile_proto
from lakehouse.plan.refused.unfit_schema import UnfitSchema


@dataclass(frozen=True)
class WriterSchema:
    """A schema as its registry has it. kind: as registries call it, "AVRO", "PROTOBUF" or "JSON". text: its own.

    references: the texts of the schemas that it needs, in order. names: those by which it refers to them, where the
    texts don't have them: Protobuf's files.
    """

    kind: str
    text: str
    references: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @cached_property
    def avro_type(self) -> AvroType:
        """The parsed schema. Raises UnfitSchema."""
        if self.kind != REGISTRY_KIND:
            raise UnfitSchema(f"expected a schema of Avro, found one of {self.kind}")
        return parse_avro(self.text, self.references)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the schema of Protobuf as parsed: another process may have no compiler."""
        if self.kind == PROTOBUF_KIND:
            _ = self._proto_outcome
        return vars(self)

    @property
    def proto_schema(self) -> ProtoSchema:
        """The parsed schema. Raises UnfitSchema."""
        if isinstance(self._proto_outcome, str):
            raise UnfitSchema(self._proto_outcome)
        return self._proto_outcome

    @cached_property
    def _proto_outcome(self) -> ProtoSchema | str:
        """The parsed schema or the reason why there is none: the compiler is not asked for each record."""
        if self.kind != PROTOBUF_KIND:
            return f"expected a schema of Protobuf, found one of {self.kind}"
        return _compiled(self.text, self.references, self.names)

    @property
    def record_name(self) -> str:
        """The full name of its record, or of its first message; empty if there is none. Raises UnfitSchema."""
        if self.kind == PROTOBUF_KIND:
            return self.proto_schema.tops[0] if self.proto_schema.tops else ""
        return self.avro_type.name if self.avro_type.kind == "record" else ""

    @property
    def row_type(self) -> AvroType:
        """The type whose columns a declaration takes, as Avro writes types. Raises UnfitSchema."""
        return row_type(self.proto_schema) if self.kind == PROTOBUF_KIND else self.avro_type


@lru_cache(maxsize=256)  # a registry's client gives an equal schema for each record
def _compiled(text: str, references: tuple[str, ...], names: tuple[str, ...]) -> ProtoSchema | str:
    try:
        return compile_proto(text, dict(zip(names, references, strict=False)))
    except UnfitSchema as error:
        return str(error)
