"""Looks up the schemas of what is read in the registry of the settings, opened when the first one is asked for."""

from __future__ import annotations

from lakehouse.errors import RegistryUnavailable
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.registry.client import Registry
from lakehouse.registry.opening import open_registry
from lakehouse.registry.schemas import RegisteredSchema
from lakehouse.settings.config import Settings


class SchemaLookUp:
    """A function of a schema's id, see `LookUp` in `lakehouse.spark.open_lake`.

    Calling it raises RegistryUnavailable, and ConfigError for a refused login or a missing extra.
    """

    def __init__(self, settings: Settings) -> None:
        self._section = settings.registry
        self._registry: Registry | None = None

    def __call__(self, id: int) -> WriterSchema | None:
        try:
            if self._registry is None:
                self._registry = open_registry(self._section)
            registered = self._registry.schema_by_id(id)
        except RegistryUnavailable:
            self._registry = None  # the embedded one may come back at another port
            raise
        return None if registered is None else writer_schema(registered)


def writer_schema(registered: RegisteredSchema) -> WriterSchema:
    """Return a schema of the registry as those who read and write by it have it."""
    references = registered.dependencies()
    texts, names = (tuple(getattr(reference, part) for reference in references) for part in ("text", "name"))
    return WriterSchema(registered.kind, registered.text, texts, names)
