"""The section [airflow] of the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.errors import ConfigError
from lakehouse.settings.config import load


def write(folder: Path, text: str) -> Path:
    path = folder / "lakehouse.toml"
    path.write_text(text)
    return path


def test_defaults(tmp_path: Path) -> None:
    actual = load(environ={}, start=tmp_path).airflow
    assert actual.home == tmp_path / ".lakehouse" / "airflow"
    assert (actual.host, actual.port, actual.database, actual.workers) == ("127.0.0.1", None, None, 2)
    assert dict(actual.users) == {"admin": "admin"}


def test_the_home_is_beside_the_file_whatever_the_lake(tmp_path: Path) -> None:
    settings = load(write(tmp_path, '[lake]\npath = "/elsewhere/lake"\n'), environ={})
    assert settings.airflow.home == tmp_path / ".lakehouse" / "airflow"
    settings = load(write(tmp_path, '[airflow]\nhome = "deploy/airflow"\n'), environ={})
    assert settings.airflow.home == tmp_path / "deploy" / "airflow"


def test_every_setting(tmp_path: Path) -> None:
    text = """
[airflow]
host = "::1"
port = 9000
database = "postgresql+psycopg2://me:hush@db:5432/airflow"
workers = 8
users = { admin = "admin", vera = "viewer" }
options = { "core.max_active_runs_per_dag" = 4 }
"""
    actual = load(write(tmp_path, text), environ={"LAKEHOUSE_AIRFLOW_WORKERS": "3"}).airflow
    assert (actual.host, actual.port, actual.workers) == ("::1", 9000, 3)
    assert actual.database == "postgresql+psycopg2://me:hush@db:5432/airflow"
    assert dict(actual.users) == {"admin": "admin", "vera": "viewer"}
    assert dict(actual.options) == {"core.max_active_runs_per_dag": "4"}


def test_the_databases_password_is_never_shown(tmp_path: Path) -> None:
    settings = load(environ={"LAKEHOUSE_AIRFLOW_DATABASE": "postgresql://me:hush@db/airflow"}, start=tmp_path)
    assert settings.airflow.database == "postgresql+psycopg2://me:hush@db/airflow"
    for shown in (repr(settings), str(settings), repr(settings.airflow)):
        assert "hush" not in shown
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, '[airflow]\ndatabase = "mysql://me:hush@db/airflow"\n'), environ={})
    assert "hush" not in str(caught.value)
    assert "postgresql+psycopg2://" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("port = 0", "from 1 to 65535"),
        ("workers = 0", "from 1 to 64"),
        ("workers = true", "from 1 to 64"),
        ('host = "a b"', "an address of this machine"),
        ('host = "x;y"', "an address of this machine"),
        ('database = "sqlite:///relative.db"', "expected"),
        ('database = "postgresql://a b/c"', "expected"),
        ("users = {}", "found no admin"),
        ('users = { vera = "viewer" }', "found no admin"),
        ('users = { admin = "root" }', "expected one of: admin, op, user, viewer"),
        ('users = { "a:b" = "admin" }', "expected letters"),
        ('users = { "a,b" = "admin" }', "expected letters"),
        ('options = { "core" = "x" }', "section and name"),
        ('options = { "core.x\\ny" = "x" }', "section and name"),
        ('options = { "core.xy" = "a\\nb" }', "more than one line"),
        ('options = { "api.host" = "0.0.0.0" }', "use airflow.host"),
        ('options = { "core.fernet_key" = "hush" }', "leave it out"),
        ('options = { "database.sql_alchemy_conn" = "hush" }', "use airflow.database"),
        ("option = {}", "Did you mean options?"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, f"[airflow]\n{text}\n"), environ={})
    assert "lakehouse.toml:2: " in str(caught.value)
    assert said in str(caught.value)
    assert "hush" not in str(caught.value)
