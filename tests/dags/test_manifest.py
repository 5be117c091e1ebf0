"""Manifests as the DAGs read them: without Airflow, and without trust in their writer."""

import json
from pathlib import Path

import pytest

from lakehouse_dags.manifest import Refused, read_applications, read_manifest


def test_the_content_of_a_manifest(manifest):
    app = read_manifest(manifest(schedule="@hourly", freshness_minutes=30, pool="lakehouse_shop"))
    assert (app.name, app.tables, app.streams, app.topics) == (
        "shop", ("current_orders", "totals"), ("orders",), ("orders",),
    )  # fmt: skip
    assert (app.schedule, app.backfill_schedule, app.freshness_minutes, app.pool) == (
        "@hourly", None, 30, "lakehouse_shop",
    )  # fmt: skip
    assert app.as_facts() == {
        "name": "shop", "app": "/srv/shop/app.py", "config": "/srv/shop/lakehouse.toml", "lake": "/srv/shop/lake",
    }  # fmt: skip


def test_without_a_configuration_and_on_an_object_store(manifest):
    app = read_manifest(manifest(config=None, lake="s3a://bucket/lake"))
    assert (app.config, app.lake) == (None, "s3a://bucket/lake")


def test_all_of_a_folder_are_read_and_a_bad_one_does_not_affect_the_others(manifest):
    folder = manifest().parent
    manifest(name="bank")
    (folder / "broken.json").write_text("{")
    (folder / "other.json").write_text(json.dumps({"version": 2}))
    (folder / "notes.txt").write_text("not a manifest")
    actual, refused = read_applications({"LAKEHOUSE_APPLICATIONS": str(folder)})
    assert [app.name for app in actual] == ["bank", "shop"]
    assert sorted(refused) == ["broken.json", "other.json"]
    assert "can't be read as JSON" in refused["broken.json"]
    assert "found version 2, expected 1" in refused["other.json"]
    assert all("lakehouse airflow add" in why for why in refused.values())


def test_no_folder_is_no_application(tmp_path):
    assert read_applications({}) == ([], {})
    assert read_applications({"LAKEHOUSE_APPLICATIONS": str(tmp_path / "none")}) == ([], {})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("app", "app.py"), ("app", "--help"), ("app", "/a\n.py"), ("app", "/a\x00.py"), ("app", None), ("app", 1),
        ("config", "lakehouse.toml"), ("config", "/a\r.toml"), ("lake", "lake"), ("lake", "s3a://a b"), ("lake", None),
        ("topics", None), ("topics", ["a b"]), ("topics", ["a\n"]), ("topics", [1]), ("streams", ["a-b"]),
        ("streams", ["{{ x }}"]), ("tables", []), ("tables", ["totals"]), ("tables", [{"name": "../x"}]),
        ("tables", [{"name": "--help"}]), ("tables", [{}]), ("schedule", 5), ("schedule", ""), ("schedule", "a\nb"),
        ("backfill_schedule", []), ("freshness_minutes", 0), ("freshness_minutes", True), ("freshness_minutes", "5"),
        ("pool", "a b"), ("version", "1"),
    ],
)  # fmt: skip
def test_a_manifest_with_a_wrong_part_is_refused(manifest, field, value):
    with pytest.raises(Refused, match="expected"):
        read_manifest(manifest(**{field: value}))


@pytest.mark.parametrize("name", ["Shop", "1shop", "shop-1", "shop\n", "$(id)", "a" * 42, "..", ""])
def test_names_become_dag_ids_so_they_are_plain(tmp_path: Path, manifest, name):
    path = manifest()
    path.write_text(json.dumps({**json.loads(path.read_text()), "name": name}))
    with pytest.raises(Refused, match="name is"):
        read_manifest(path)


def test_a_file_has_the_applications_name(manifest):
    path = manifest()
    other = path.rename(path.with_name("store.json"))
    with pytest.raises(Refused, match=r"Rename the file to shop\.json"):
        read_manifest(other)
