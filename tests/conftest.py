"""Fixtures for every test: one embedded broker for the whole run, started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakehouse.kafka.broker import Broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as started:
        yield started
