"""The jars are pinned by what is in them: lakehouse/setup/checksums.txt against the jars on disk and those fetched."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import lakehouse
from lakehouse.setup import jars

PROJECT = Path(lakehouse.__file__).parents[1]
JAR = "kafka/kafka-clients-4.2.0.jar"


@pytest.fixture
def fetched(tmp_path: Path) -> Path:
    """The project's jars, looked at once; each is a hard link, so a test replaces files and never writes into one."""
    for kind in jars.NEEDED_KINDS:
        shutil.copytree(PROJECT / ".jars" / kind, tmp_path / kind, copy_function=os.link)
    assert not jars.resolve_jars(tmp_path)
    return tmp_path


def replace(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def test_the_projects_own_jars_are_those_of_the_checksums(fetched: Path) -> None:
    assert not jars.resolve_jars(fetched), "nothing is fetched"


def test_pip_takes_sparks_and_deltas_python_in_the_versions_of_the_jars() -> None:
    pins = re.findall(r'"(delta-spark|pyspark)==([\d.]+)"', (PROJECT / "pyproject.toml").read_text())
    revisions = dict(re.findall(r'name="((?:delta|spark-sql)[^"]+)" rev="([^"]+)"', jars.IVY_FILES[0].read_text()))
    assert dict(pins) == {
        "pyspark": revisions["spark-sql-kafka-0-10_2.13"], "delta-spark": revisions["delta-spark_4.2_2.13"],
    }  # fmt: skip


def test_a_jar_that_was_replaced_is_not_up_to_date(fetched: Path) -> None:
    before = (fetched / JAR).stat()
    replace(fetched / JAR, b"x" * before.st_size)
    os.utime(fetched / JAR, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(jars.ResolveError, match=rf"{re.escape(JAR)} has the SHA-256 [0-9a-f]{{64}}, not the one"):
        jars.resolve_jars(fetched)


@pytest.mark.parametrize("name", ["kafka/aaa.jar", "spark/later.jar", "spark/.hidden"])
def test_an_extra_file_is_not_up_to_date(fetched: Path, name: str) -> None:
    (fetched / name).write_bytes(b"PK")
    with pytest.raises(jars.ResolveError, match=f"{re.escape(name)} is not expected.*remove"):
        jars.resolve_jars(fetched)


def test_a_missing_jar_and_a_link_in_its_place_are_not_up_to_date(fetched: Path) -> None:
    (fetched / JAR).rename(fetched / "elsewhere.jar")
    with pytest.raises(jars.ResolveError, match=f"{re.escape(JAR)} is missing"):
        jars.resolve_jars(fetched)
    (fetched / JAR).symlink_to(fetched / "elsewhere.jar")
    with pytest.raises(jars.ResolveError, match="no plain file"):
        jars.resolve_jars(fetched)


def test_a_repository_must_deliver_the_same_jar_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(executable: Any, ivy: Any, folder: Path, cache: Any, kinds: Any) -> None:
        for kind in jars.NEEDED_KINDS:
            shutil.copytree(PROJECT / ".jars" / kind, folder / kind)
        (folder / JAR).write_bytes(b"another release of the same version")

    monkeypatch.setattr(jars, "_retrieve_jars", other)
    with pytest.raises(jars.ResolveError, match="What was fetched is not what"):
        jars.resolve_jars(tmp_path)
    assert not any((tmp_path / kind).exists() for kind in jars.NEEDED_KINDS)
    assert not (tmp_path / "stamp.json").exists()


def test_checksums_of_another_ivy_file_are_refused(tmp_path: Path, monkeypatch: Any) -> None:
    changed = tmp_path / "ivy.xml"
    changed.write_text(jars.IVY_FILES[0].read_text().replace("4.2.0", "4.2.1"))
    monkeypatch.setattr(jars, "IVY_FILES", (changed, jars.IVY_FILES[1]))
    with pytest.raises(jars.ResolveError, match="Run make lock-jars"):
        jars.resolve_jars(tmp_path)


def test_what_a_killed_setup_left_is_removed(fetched: Path) -> None:
    (fetched / ".new-killed" / "kafka").mkdir(parents=True)
    (fetched / ".new-classes.jsa").write_bytes(b"a file that another process writes now")
    assert not jars.resolve_jars(fetched)
    assert not (fetched / ".new-killed").exists()
    assert (fetched / ".new-classes.jsa").exists()
