"""Leftovers below control/ in an S3 store: removed when they are old and not in use, as on a disk."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lakehouse.lake import store
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.layout import Layout
from lakehouse.spark.silver.leftovers import plan_control, upkeep_control
from lakehouse.spark.silver.upkeep import UpkeepPolicy
from tests.s3.server import KEY, SECRET, ObjectStore

pytestmark = pytest.mark.slow
DAY = 86_400_000


def test_leftovers_are_removed_when_they_are_old_and_unused(object_store: ObjectStore) -> None:
    uri = object_store.new_lake()
    options = {"endpoint": object_store.endpoint, "path_style": "true", "access_key": KEY, "secret_key": SECRET}
    store.use_store(uri, options)
    layout, control = Layout(uri), object_store.files(uri) / "control"
    names = [
        "requests/a.refused", "checkpoints/silver-gone/commits/0", "checkpoints/silver-gone/offsets/0",
        "restoring/0/part-0", "restoring/1/part-0", "checkpoints/silver-live/commits/0", "checkpoints/ingest/commits/0",
        "requests/c.json", "drills/20261122T100000.json",
    ]  # fmt: skip
    for name in names:
        store.put_object(f"{uri}/control/{name}", b"{}")
    policy = UpkeepPolicy(32, 7 * DAY, DAY, None)
    soon, later = (datetime.fromtimestamp(time.time() + 86400 * days, UTC) for days in (6, 8))

    def left() -> set[str]:
        return {name for name in store.object_names_below(f"{uri}/control") if not name.startswith(("lea", "sess"))}

    with Lease(layout.lease("checkpoint-silver-live"), "checkpoint"), Lease(layout.lease("restoring-1"), "restore"):
        assert upkeep_control(layout, policy, soon) == []
        assert upkeep_control(layout, replace(policy, vacuum=False), later) == []
        (planned,) = plan_control(layout, policy, later)
        assert (planned.files_before, planned.files_after) == (4, 4)
        assert left() == set(names)
        (done,) = upkeep_control(layout, policy, later)
    assert (done.files_before, done.files_after, done.bytes_before) == (4, 0, 8)
    assert left() == set(names[4:])
    assert control.is_dir()
