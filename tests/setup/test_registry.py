"""The schema registry's program: fetched as one archive, unpacked once, and only what the checksum knows."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path

import pytest

from lakehouse.cli.main import main
from lakehouse.errors import ConfigError
from lakehouse.setup import jars
from lakehouse.setup.places import jars_target
from lakehouse.setup.registry import KIND, fetch_registry, registry_jar


@pytest.fixture
def fetched(tmp_path: Path) -> Path:
    """A folder of jars with the registry's archive, which is not unpacked; it is a hard link."""
    fetch_registry(jars_target())
    shutil.copytree(jars_target() / KIND, tmp_path / KIND, copy_function=os.link)
    return tmp_path


@pytest.mark.rotated
def test_it_is_unpacked_once_and_what_is_there_is_left_alone(fetched: Path) -> None:
    assert fetch_registry(fetched)
    program = registry_jar(fetched)
    assert program.is_file()
    assert len(list((program.parent / "lib").glob("*.jar"))) > 300
    assert not list(fetched.glob(".new-*"))
    shutil.rmtree(fetched / KIND)
    assert not fetch_registry(fetched), "the archive is not needed any more"


def test_lakehouse_setup_fetches_it_when_asked(
    fetched: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in jars.NEEDED_KINDS:
        shutil.copytree(jars_target() / kind, fetched / kind, copy_function=os.link)
    monkeypatch.setenv("LAKEHOUSE_JARS", str(fetched))
    assert main(["setup", "--no-classes"]) == 0
    assert not registry_jar(fetched).is_file()
    assert main(["setup", "--no-classes", "--registry"]) == 0
    assert registry_jar(fetched).is_file()
    assert "jars: fetched" in capsys.readouterr().out


def test_another_archive_is_refused(fetched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = next((fetched / KIND).iterdir())
    archive.unlink()
    with tarfile.open(archive, "w:gz") as files:
        files.add(__file__, registry_jar(fetched).name)
    monkeypatch.setattr(jars, "_stamped_digest", lambda stamp: jars.jars_digest())  # as if it had been fetched
    with pytest.raises(jars.ResolveError, match=r"has the SHA-256 [0-9a-f]{64}, not the one expected"):
        fetch_registry(fetched)
    assert not registry_jar(fetched).exists()


def test_an_archive_that_can_not_be_unpacked_leaves_nothing(fetched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = next((fetched / KIND).iterdir())
    archive.unlink()
    archive.write_bytes(b"no archive")
    monkeypatch.setattr(jars, "resolve_jars", lambda target, kinds: False)
    with pytest.raises(ConfigError, match="can't be unpacked"):
        fetch_registry(fetched)
    assert not registry_jar(fetched).parent.exists()
    assert not list(fetched.glob(".new-*"))
