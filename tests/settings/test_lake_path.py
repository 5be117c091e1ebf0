"""The lake's path: as every reader and writer takes it, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakehouse as lh
from lakehouse.errors import ConfigError, PlanError
from lakehouse.run.lake import Lake
from lakehouse.settings.config import load
from lakehouse.setup.places import cache_folder


def lake_path(folder: Path, path: str) -> str:
    return load(environ={"LAKEHOUSE_LAKE_PATH": path}, start=folder).lake.path


@pytest.mark.parametrize(
    ("written", "used"),
    [
        ("s3a://bucket/lake/", "s3a://bucket/lake"),
        ("s3a://bucket/lake///", "s3a://bucket/lake"),
        ("s3a://bucket//a//lake", "s3a://bucket/a/lake"),
        ("s3a://bucket/", "s3a://bucket"),
        ("s3a://bucket", "s3a://bucket"),
        ("s3a://bucket/la ke/ä'&+~@(1)", "s3a://bucket/la ke/ä'&+~@(1)"),
        ("s3a://bucket/100%/5%z", "s3a://bucket/100%/5%z"),
        ("abfss://box@account.dfs.core.windows.net/lake/", "abfss://box@account.dfs.core.windows.net/lake"),
        ("hdfs:///lake/", "hdfs:///lake"),
        ("file:///tmp//lake/", "file:///tmp/lake"),
    ],
)
def test_a_uri_is_used_without_the_slashes_that_hadoop_leaves_out(tmp_path: Path, written: str, used: str) -> None:
    assert lake_path(tmp_path, written) == used
    (tmp_path / "lakehouse.toml").write_text(f'[lake]\npath = "{written}"\n')
    assert load(environ={}, start=tmp_path).lake.path == used


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("s3a:///lake", "found no bucket in 's3a:///lake'; expected one before the folder, such as s3a://bucket/lake"),
        ("s3a://", "found no bucket"),
        ("S3A://bucket/lake", "found S3A://...; expected s3a://"),
        ("s3n://bucket/lake", "found s3n://...; expected s3a://"),
        ("s3a://bucket/a/../lake", "found a folder . or .. in 's3a://bucket/a/../lake'; expected the path without"),
        ("s3a://bucket/a%20b", "found '%20' in 's3a://bucket/a%20b', with which delta-rs"),
        ("s3a://bucket/a?b", "found '?' in "),
        ("s3a://bucket/a#b", "found '#' in "),
        ("s3a://bucket/a\tb", "found '\\t' in "),
        ("a%41b", "found '%41' in "),
        ("a\\b", "found '\\\\' in "),
        ("a\x7fb", "found '\\x7f' in "),
    ],
)
def test_a_path_that_a_reader_would_misread_is_refused_with_its_line(tmp_path: Path, path: str, found: str) -> None:
    with pytest.raises(ConfigError) as refused:
        lake_path(tmp_path, path)
    assert str(refused.value).startswith(f"environment variable LAKEHOUSE_LAKE_PATH: {found}")
    text = path.replace("\\", "\\\\").replace("\t", "\\t").replace("\x7f", "\\u007F")
    (tmp_path / "lakehouse.toml").write_text(f'[lake]\npath = "{text}"\n')
    with pytest.raises(ConfigError) as refused:
        load(environ={}, start=tmp_path)
    assert str(refused.value).startswith(f"{tmp_path}/lakehouse.toml:2: lake.path: {found}")


def test_a_folder_above_the_lake_is_looked_at_too(tmp_path: Path) -> None:
    folder = tmp_path / "a%20b"
    folder.mkdir()
    with pytest.raises(ConfigError, match=r"lake.path: found '%20' in '.*/a%20b/lake', .* Rename the folder"):
        load(environ={}, start=folder)
    assert load(environ={"LAKEHOUSE_LAKE_PATH": str(tmp_path / "lake")}, start=folder).lake.path == f"{tmp_path}/lake"
    for name in ("a b", "a?b", "a#b", "100%", "ä"):
        (tmp_path / name).mkdir()
        assert load(environ={}, start=tmp_path / name).lake.path == f"{tmp_path}/{name}/lake"


def test_a_home_folder_of_nobody_is_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that this machine does not know, as in a container whose user has no entry."""
    for name in ("LAKEHOUSE_LAKE_PATH", "LAKEHOUSE_AIRFLOW_HOME"):
        with pytest.raises(ConfigError, match=rf"{name}: found '~nobody-here/x', but this machine knows no"):
            load(environ={name: "~nobody-here/x"}, start=tmp_path)
    with pytest.raises(ConfigError, match="no home folder of ~nobody-here; expected a path"):
        Lake("~nobody-here/lake")
    with pytest.raises(PlanError, match=r"stream 'customers': path: found '~nobody-here/.*csv'"):
        lh.snapshots("customers", "~nobody-here/{at}.csv", key="id bigint", schema="name string")
    monkeypatch.setenv("LAKEHOUSE_CACHE", "~nobody-here")
    with pytest.raises(ConfigError, match="no home folder of ~nobody-here"):
        cache_folder()


@pytest.mark.parametrize("kind", ["a folder", "a link to nothing", "no file"])
def test_a_settings_file_that_is_none_is_not_passed_over(tmp_path: Path, kind: str) -> None:
    """The defaults would be a new, empty lake."""
    file = tmp_path / "lakehouse.toml"
    if kind == "a folder":
        file.mkdir()
    else:
        file.symlink_to("/dev/null" if kind == "no file" else tmp_path / "unmounted" / "lakehouse.toml")
    with pytest.raises(ConfigError) as refused:
        load(environ={}, start=tmp_path)
    assert str(refused.value) == f"{file}: found {kind}; expected a settings file. Mend it, or remove it."


@pytest.mark.parametrize("path", ["", "  "])
def test_an_empty_path_is_not_the_current_folder(path: str) -> None:
    with pytest.raises(ConfigError, match=f"found '{path}' as the lake's path; expected a folder"):
        Lake(path)


@pytest.mark.parametrize("app", ["app.py", "app.py:app", "app.sql", "app.sql:app"])
def test_a_folder_of_the_application_may_have_a_colon(tmp_path: Path, app: str) -> None:
    folder = tmp_path / "2026-01-01T10:00"
    for written in (f"{folder.name}/{app}", f"{folder}/{app}"):
        assert load(environ={"LAKEHOUSE_LAKE_APP": written}, start=tmp_path).lake.app == f"{folder}/{app}"


def test_a_link_that_leads_back_to_itself_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    for name in ("LAKEHOUSE_LAKE_PATH", "LAKEHOUSE_KAFKA_FOLDER", "LAKEHOUSE_AIRFLOW_HOME"):
        with pytest.raises(ConfigError, match="found 'one/x', where a link leads back to itself"):
            load(environ={name: "one/x"}, start=tmp_path)
    with pytest.raises(ConfigError, match="a link leads back to itself"):
        load(tmp_path / "one", environ={})
    with pytest.raises(ConfigError, match="a link leads back to itself"):
        Lake(tmp_path / "one" / "lake")
