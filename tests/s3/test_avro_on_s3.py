"""A topic in Avro, and one in JSON Schema, into a lake on s3a://: its schemas are kept there, and are enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.kafka.embedded.broker import Broker
from lakehouse.registry.embedded import EmbeddedRegistry
from tests.registered_project import RegisteredProject
from tests.s3.server import ObjectStore

pytestmark = pytest.mark.slow


def test_a_lake_on_s3_keeps_the_schemas(
    tmp_path: Path, broker: Broker, object_store: ObjectStore, registry: EmbeddedRegistry
) -> None:
    uri = object_store.new_lake()
    lake = f'[lake]\npath = "{uri}"\napp = "app.py"\noptions = {object_store.options()}\n[spark]\nmemory = "1g"\n'
    project = RegisteredProject(tmp_path, broker, registry, lake)
    project.check_whole_way()
    schemas = list((object_store.files(uri) / "schemas").rglob("*"))
    assert schemas, "the lake has the schemas"
