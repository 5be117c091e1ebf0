"""A client of the shared registry, and names of subjects that no other test has."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakehouse.registry.client import Registry
from lakehouse.registry.embedded import EmbeddedRegistry
from lakehouse.registry.opening import open_registry
from lakehouse.settings.config import load
from lakehouse.settings.sections import RegistrySection


@pytest.fixture
def section(tmp_path: Path) -> Callable[..., RegistrySection]:
    """Settings of [registry]: section(url="http://...", user="me")."""

    def make(**values: object) -> RegistrySection:
        environ = {f"LAKEHOUSE_REGISTRY_{key.upper()}": str(value) for key, value in values.items()}
        return load(environ=environ, start=tmp_path).registry

    return make


@pytest.fixture
def client(registry: EmbeddedRegistry, section: Callable[..., RegistrySection]) -> Iterator[Registry]:
    opened = open_registry(section(folder=registry.folder))
    yield opened
    opened.close()


@pytest.fixture
def subject() -> str:
    return f"a/topic ä {uuid.uuid4().hex[:8]}-value"
