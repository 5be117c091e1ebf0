"""Airflow's home: keys and passwords, written once and kept private, and the airflow.cfg that Airflow reads."""

from __future__ import annotations

import base64
import configparser
import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.airflow.environment import airflow_variables
from lakehouse.airflow.home import Home, airflow_url
from lakehouse.errors import AirflowError
from lakehouse.settings.config import Airflow, Options


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "airflow")
    made.make_folders()
    return made


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def cfg(home: Home, **settings: Any) -> configparser.ConfigParser:
    home.write_settings(Airflow(home.folder, **settings), 8080)
    read = configparser.ConfigParser()  # resolves references, as Airflow does
    read.read(home.folder / "airflow.cfg")
    return read


def test_the_home_is_private(home: Home) -> None:
    assert mode(home.folder) == 0o700
    home.folder.chmod(0o755)
    home.make_folders()
    assert mode(home.folder) == 0o700


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AirflowError, match=r"airflow\.home"):
        Home(tmp_path / "file" / "airflow").make_folders()


def test_keys_are_made_once(home: Home) -> None:
    keys = home.load_keys()
    assert home.load_keys() == keys
    assert mode(home.folder / "keys.json") == 0o600
    assert len(base64.urlsafe_b64decode(keys["fernet"])) == 32
    assert len(set(keys.values())) == 3
    assert min(len(keys[name]) for name in ("jwt", "session")) >= 64, "what SHA-512 asks for"


@pytest.mark.parametrize("text", ["", "[]", '{"fernet": "hush"}', '{"fernet": 1, "jwt": "hush", "session": "x"}'])
def test_a_broken_key_file_is_refused_and_not_shown(home: Home, text: str) -> None:
    (home.folder / "keys.json").write_text(text)
    with pytest.raises(AirflowError, match=r"keys\.json") as caught:
        home.load_keys()
    assert "hush" not in str(caught.value)
    assert (home.folder / "keys.json").read_text() == text, "keys may still be saved by hand"


def test_every_user_gets_an_own_password_and_keeps_it(home: Home) -> None:
    first = home.make_passwords(("admin",))
    second = home.make_passwords(("admin", "vera"))
    assert second["admin"] == first["admin"]
    assert second["vera"] != second["admin"]
    assert min(map(len, second.values())) >= 20
    assert mode(home.passwords) == 0o600
    assert json.loads(home.passwords.read_text()) == second, "as Airflow's SimpleAuthManager reads it"
    assert home.make_passwords(("vera",)) == {"vera": second["vera"]}
    assert home.password("admin") is None


def test_a_password_file_that_others_can_read_is_closed(home: Home) -> None:
    home.make_passwords(("admin",))
    home.passwords.chmod(0o644)
    home.make_passwords(("admin",))
    assert mode(home.passwords) == 0o600


def test_the_settings_of_airflow(home: Home) -> None:
    read = cfg(home, workers=3, users=Options({"admin": "admin", "vera": "viewer"}))
    assert mode(home.folder / "airflow.cfg") == 0o600
    assert read["api"]["host"] == "127.0.0.1"
    assert read["api"]["workers"] == "1"
    assert read["core"]["load_examples"] == "False"
    assert read["core"]["parallelism"] == "3"
    assert read["core"]["simple_auth_manager_users"] == "admin:admin,vera:viewer"
    assert read["core"]["simple_auth_manager_passwords_file"] == str(home.passwords)
    assert read["core"]["execution_api_server_url"] == "http://127.0.0.1:8080/execution/"
    assert read["core"]["fernet_key"] == home.load_keys()["fernet"]
    assert read["database"]["sql_alchemy_conn"] == f"sqlite:///{home.database}"
    assert (Path(read["core"]["dags_folder"]) / "lakehouse_jobs.py").is_file()


def test_a_database_with_odd_signs_in_its_password(home: Home) -> None:
    """A % would be read as a reference to a setting, and $HOME would be replaced."""
    read = cfg(home, database="postgresql+psycopg2://me:a%40b$HOME@host/$name")
    assert read["database"]["sql_alchemy_conn"] == "postgresql+psycopg2://me:a%40b%24HOME@host/$name"


def test_further_options_replace_defaults(home: Home) -> None:
    read = cfg(
        home, options=Options({"core.max_active_runs_per_dag": "4", "api.workers": "2", "smtp.smtp_host": "mail"})
    )
    assert read["core"]["max_active_runs_per_dag"] == "4"
    assert read["api"]["workers"] == "2"
    assert read["smtp"]["smtp_host"] == "mail"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:1"),
        ("0.0.0.0", "http://127.0.0.1:1"),
        ("::1", "http://[::1]:1"),
        ("::", "http://[::1]:1"),
    ],
)
def test_the_address_at_which_it_answers(host: str, url: str) -> None:
    assert airflow_url(host, 1) == url


def test_jobs_get_the_clouds_variables_and_those_that_the_settings_name(home: Home) -> None:
    given = {"AWS_PROFILE": "p", "CORP_PROXY": "q", "MY_TOKEN": "t", "OTHER": "o", "PATH": "/bin"}
    seen = airflow_variables(home, Path("/venv/bin/airflow"), given, pass_on=("MY_TOKEN", "CORP_*"))
    assert {name for name in given if name in seen} == {"AWS_PROFILE", "CORP_PROXY", "MY_TOKEN", "PATH"}
    assert seen["LAKEHOUSE_PASS_ON"] == "MY_TOKEN,CORP_*"


def test_processes_get_little_of_the_callers_environment(home: Home) -> None:
    given = {
        "AIRFLOW__CORE__FERNET_KEY": "other",
        "MY_SECRET": "hush",
        "HOME": "/h",
        "LAKEHOUSE_AIRFLOW_DATABASE": "hush",
        "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": "one:9092",
        "LAKEHOUSE_LAKE_APP": "/another/app.py",
        "LAKEHOUSE_LAKE_OPTIONS": '{"region": "eu-central-1"}',
        "LAKEHOUSE_LAKE_PATH": "/another/lake",
        "LAKEHOUSE_SUPERVISED_BY": "other",
        "PATH": "/bin",
        "PYTHONPATH": "/lib",
    }
    seen = airflow_variables(home, Path("/venv/bin/airflow"), given)
    assert "hush" not in seen.values()
    passed = {"HOME", "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "LAKEHOUSE_LAKE_OPTIONS", "PATH"}
    assert {name for name in given if name in seen} == passed, "an object store's keys are the same for every lake"
    assert seen["PATH"] == "/venv/bin:/bin"
    assert seen["AIRFLOW_HOME"] == str(home.folder)
    assert seen["LAKEHOUSE_APPLICATIONS"] == str(home.folder / "applications")
    assert (Path(seen["LAKEHOUSE_ROOT"]) / "spark_jobs").is_dir()
    assert Path(seen["LAKEHOUSE_PYTHON"]).is_file()
