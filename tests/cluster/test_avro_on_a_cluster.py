"""Topics in Avro and JSON Schema on a real Spark cluster: executors read by the schemas, and need no registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.kafka.embedded.broker import Broker
from lakehouse.registry.embedded import EmbeddedRegistry
from tests.cluster.conftest import NEEDED, Cluster, make_python
from tests.registered_project import RegisteredProject

pytestmark = pytest.mark.slow


def test_a_cluster_reads_by_the_schemas_that_the_lake_keeps(
    cluster: Cluster, tmp_path: Path, broker: Broker, registry: EmbeddedRegistry
) -> None:
    (tmp_path / "python").mkdir()
    python = make_python(tmp_path / "python", *NEEDED, "jsonschema-rs")
    (tmp_path / "project").mkdir()
    settings = (
        f'[lake]\npath = "./lake"\napp = "app.py"\n[spark]\nmemory = "1g"\nmaster = "{cluster.master}"\n'
        f'python = "{python}"\nexecutor_wait_seconds = 300\n'
        'options = { "spark.executor.memory" = "700m", "spark.executor.cores" = "1" }'
    )
    RegisteredProject(tmp_path / "project", broker, registry, settings).check_whole_way()
