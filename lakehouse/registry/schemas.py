"""Schemas as a registry gives them: text, kind, and the schemas that they refer to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RegisteredReference:
    """A schema that another one refers to by ``name``: a type of Avro, an import of Protobuf, a URL of JSON Schema.

    ``references``: those of this schema itself, resolved, in the order in which it gives them.
    """

    name: str
    subject: str
    version: int
    text: str
    references: tuple[RegisteredReference, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema under its ``id``. ``kind``: "AVRO", "PROTOBUF" or "JSON".

    ``text`` is what was registered. For Protobuf that is the source text, or a FileDescriptorProto in base64: Python's
    serializers register that.
    """

    id: int
    kind: str
    text: str
    references: tuple[RegisteredReference, ...] = ()

    def dependencies(self) -> tuple[RegisteredReference, ...]:
        """Return all schemas that this one needs, each once, and each behind those that it needs itself."""
        ordered: dict[tuple[str, str, int], RegisteredReference] = {}

        def visit(references: tuple[RegisteredReference, ...]) -> None:
            for reference in references:
                key = (reference.name, reference.subject, reference.version)
                if key not in ordered:
                    visit(reference.references)
                    ordered[key] = reference

        visit(self.references)
        return tuple(ordered.values())
