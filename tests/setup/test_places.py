"""Where the jars and Airflow's environment lie: in a checkout, or in a cache that its user can choose."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.errors import ConfigError
from lakehouse.setup import jars, places


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package as pip would have put it, with a home of its own. Returns that home."""
    for name in ("LAKEHOUSE_CACHE", "LAKEHOUSE_JARS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(places, "PACKAGE", tmp_path / "site-packages" / "lakehouse")
    return tmp_path


def test_a_checkout_keeps_everything_in_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKEHOUSE_JARS", raising=False)
    root = Path(__file__).parents[2]
    assert places.checkout_folder() == places.project_folder() == root
    assert places.jars_target() == root / ".jars"
    assert places.airflow_environment() == root / ".venv-airflow"
    for folder in ("dags", "plugins", "spark_jobs"):
        assert (places.project_folder() / folder).is_dir()


def test_installed_it_uses_the_cache(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert places.checkout_folder() is None
    assert places.project_folder() == installed / "site-packages" / "lakehouse" / "project"
    assert places.cache_folder() == installed / ".cache" / "lakehouse"
    assert places.jars_target().parent == places.airflow_environment().parent == places.cache_folder()
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert places.cache_folder() == installed / ".cache" / "lakehouse", "as the specification says"
    monkeypatch.setenv("XDG_CACHE_HOME", str(installed / "xdg"))
    assert places.cache_folder() == installed / "xdg" / "lakehouse"
    monkeypatch.setenv("LAKEHOUSE_CACHE", str(installed / "mine"))
    assert places.cache_folder() == installed / "mine"
    monkeypatch.setenv("LAKEHOUSE_JARS", str(installed / "elsewhere"))
    assert places.jars_target() == installed / "elsewhere"


@pytest.mark.usefixtures("installed")
def test_versions_do_not_share_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    before = places.jars_target(), places.airflow_environment()
    monkeypatch.setattr(jars, "jars_digest", lambda: "f" * 64)
    monkeypatch.setattr(places, "PACKAGE", places.PACKAGE / "other")
    assert not {places.jars_target(), places.airflow_environment()} & set(before)


def test_missing_jars_say_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_JARS", str(tmp_path))
    with pytest.raises(ConfigError, match=r"^Found no kafka jars in .*/kafka; .* Run `lakehouse setup`\.$"):
        places.jars_folder("kafka")
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "one.jar").touch()
    assert places.jars_folder("kafka") == tmp_path / "kafka"
