"""The jars are pinned by what is in them: infra/jars/checksums.txt against the jars on disk and those fetched."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lakehouse

PROJECT = Path(lakehouse.__file__).parents[1]
JAR = "kafka/kafka-clients-4.2.0.jar"


@pytest.fixture
def resolver() -> ModuleType:
    spec = importlib.util.spec_from_file_location("resolve", PROJECT / "infra" / "jars" / "resolve.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def jars(tmp_path: Path, resolver: ModuleType) -> Path:
    """The project's jars, looked at once; each is a hard link, so a test replaces files and never writes into one."""
    for kind in resolver.KINDS:
        shutil.copytree(PROJECT / ".jars" / kind, tmp_path / kind, copy_function=os.link)
    assert not resolver.resolve(tmp_path)
    return tmp_path


def replace(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def test_the_projects_own_jars_are_those_of_the_checksums(jars: Path, resolver: ModuleType) -> None:
    assert not resolver.resolve(jars), "nothing is fetched"


def test_a_jar_that_was_replaced_is_not_up_to_date(jars: Path, resolver: ModuleType) -> None:
    before = (jars / JAR).stat()
    replace(jars / JAR, b"x" * before.st_size)
    os.utime(jars / JAR, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(resolver.ResolveError, match=rf"{re.escape(JAR)} has the SHA-256 [0-9a-f]{{64}}, not the one"):
        resolver.resolve(jars)


@pytest.mark.parametrize("name", ["kafka/aaa.jar", "spark/later.jar", "spark/.hidden"])
def test_an_extra_file_is_not_up_to_date(jars: Path, resolver: ModuleType, name: str) -> None:
    (jars / name).write_bytes(b"PK")
    with pytest.raises(resolver.ResolveError, match=f"{re.escape(name)} is not expected.*remove"):
        resolver.resolve(jars)


def test_a_missing_jar_and_a_link_in_its_place_are_not_up_to_date(jars: Path, resolver: ModuleType) -> None:
    (jars / JAR).rename(jars / "elsewhere.jar")
    with pytest.raises(resolver.ResolveError, match=f"{re.escape(JAR)} is missing"):
        resolver.resolve(jars)
    (jars / JAR).symlink_to(jars / "elsewhere.jar")
    with pytest.raises(resolver.ResolveError, match="no plain file"):
        resolver.resolve(jars)


def test_a_repository_must_deliver_the_same_jar_as_before(
    tmp_path: Path, resolver: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(executable: Any, ivy: Any, folder: Path, cache: Any) -> None:
        for kind in resolver.KINDS:
            shutil.copytree(PROJECT / ".jars" / kind, folder / kind)
        (folder / JAR).write_bytes(b"another release of the same version")

    monkeypatch.setattr(resolver, "_retrieve", other)
    with pytest.raises(resolver.ResolveError, match="What was fetched is not what"):
        resolver.resolve(tmp_path)
    assert not any((tmp_path / kind).exists() for kind in resolver.KINDS)
    assert not (tmp_path / "stamp.json").exists()


def test_checksums_of_another_ivy_file_are_refused(tmp_path: Path, resolver: ModuleType, monkeypatch: Any) -> None:
    changed = tmp_path / "ivy.xml"
    changed.write_text((PROJECT / "infra" / "jars" / "ivy.xml").read_text().replace("4.2.0", "4.2.1"))
    monkeypatch.setattr(resolver, "IVY_FILES", (changed, resolver.IVY_FILES[1]))
    with pytest.raises(resolver.ResolveError, match="Run make lock-jars"):
        resolver.resolve(tmp_path)
