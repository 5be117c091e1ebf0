"""The S3 server of the tests of lakes on s3a://."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.s3.server import ObjectStore, running_store


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with running_store(tmp_path_factory.mktemp("s3")) as started:
        yield started
