"""Stores of snapshots beside those of lakes: what is said of the one changes nothing for the other."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakehouse as lh
from lakehouse.lake import store
from lakehouse.plan.origin import Source
from lakehouse.run.snapshots.taking import use_store_of
from lakehouse.settings.config import Settings, load


@pytest.fixture(autouse=True)
def _no_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_options_by_root", {})
    monkeypatch.setattr(store, "_single_writer_roots", set())
    monkeypatch.setattr(store, "_options_by_source_root", {})


def settings_of(folder: Path, path: str, region: str) -> Settings:
    return load(
        environ={"LAKEHOUSE_LAKE_PATH": path, "LAKEHOUSE_LAKE_OPTIONS": f'{{"region": "{region}"}}'}, start=folder
    )


def use_source(path: str, settings: Settings) -> None:
    source = lh.snapshots("people", path, key="id bigint", schema="name string").source
    assert isinstance(source, Source)
    use_store_of(source, settings)


@pytest.mark.parametrize("root", ["s3a://bucket", "s3a://bucket/lake"])
@pytest.mark.parametrize("single_writer", [False, True])
def test_a_source_in_the_lakes_bucket_leaves_its_leases_as_they_are(
    tmp_path: Path, root: str, single_writer: bool
) -> None:
    lease = f"{root}/control/leases/silver-visits.lock"
    store.use_store(root, {}, single_writer=single_writer)
    for path in ("s3a://bucket/exports/{at}.csv", f"{root}/exports/{{at}}.csv"):
        use_source(path, settings_of(tmp_path, root, "eu-north-1"))
        assert store.has_leases(lease) is not single_writer


def test_a_source_is_reached_as_the_lake_that_names_it_and_a_lake_as_it_says(tmp_path: Path) -> None:
    for region in ("eu-north-1", "eu-central-1"):
        use_source("s3a://exports/{at}.csv", settings_of(tmp_path, "s3a://bucket/lake", region))
        assert store._options_of("s3a://exports/2026-01-01.csv") == {"region": region}
    store.use_store("s3a://exports/lake", {"region": "us-west-1"})
    use_source("s3a://exports/{at}.csv", settings_of(tmp_path, "s3a://bucket/lake", "eu-north-1"))
    assert store._options_of("s3a://exports/lake/control/note.json") == {"region": "us-west-1"}
    assert store._options_of("s3a://exports/lakes.csv") == {"region": "eu-north-1"}
    assert store._options_of("s3a://another/file.csv") == {}
