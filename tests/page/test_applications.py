"""Manifests: which applications there are, and what is refused before anything is opened."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import lakehouse
from lakehouse.errors import ConfigError, NotFound
from lakehouse.page.applications import read_application, read_applications

from .conftest import manifest, named

PROJECT = Path(lakehouse.__file__).parents[1]


def test_a_manifest_is_read(tmp_path):
    shop = named(tmp_path, manifest(tmp_path / "lake"))
    assert (shop.name, shop.lake, shop.config) == ("shop", str(tmp_path / "lake"), None)
    assert (shop.table("visits").key, shop.table("visits").topics) == (("user",), ("clicks",))
    assert [node.kind for node in shop.nodes] == ["topic", "stream", "table"]
    with pytest.raises(NotFound, match="has no table 'nothing'; its tables are: visits"):
        shop.table("nothing")


@pytest.mark.parametrize(
    "name", ["", "../shop", "shop/../shop", "Shop", "shop.json", "shop\n", "shop'--", "a" * 42, "\x00", "%2e%2e"]
)
def test_a_name_that_is_no_name_is_never_a_path(tmp_path, name):
    named(tmp_path, manifest(tmp_path / "lake"))
    with pytest.raises(NotFound, match="expected a name such as shop"):
        read_application(tmp_path, name)


def test_an_unknown_application_says_how_to_add_it(tmp_path):
    with pytest.raises(NotFound, match="`lakehouse airflow add --name other` adds it"):
        read_application(tmp_path, "other")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"version": 2}, "found a manifest of version 2, expected 1"),
        ({"lake": 7}, "lake: found 7, expected a path"),
        ({"tables": [{"name": "../x", "key": [], "windowed": False, "source_topics": []}]}, r"table '\.\./x'"),
        ({"tables": [{"name": "visits"}]}, "no 'source_topics'"),
        ({"tables": 7}, "not iterable"),
        ({"streams": ["../../etc"]}, r"stream '\.\./\.\./etc'"),
        ({"lineage": {"nodes": [{"id": "x", "kind": "topic", "name": "../x"}], "edges": []}}, r"topic '\.\./x'"),
        ({"lineage": {"nodes": [{"id": "x", "kind": "view", "name": "x"}], "edges": []}}, "a node of kind 'view'"),
        ({"lineage": {"nodes": [], "edges": [["a", "b"]]}}, "an edge from 'a' to 'b'"),
    ],
)
def test_a_file_that_is_no_manifest_is_refused(tmp_path, more, said):
    with pytest.raises(ConfigError, match=said):
        named(tmp_path, manifest(tmp_path / "lake", **more))


@pytest.mark.parametrize(
    "text",
    [
        '{"version":' + "[" * 100_000, "[" * 100_000 + "]" * 100_000, "[]", "7", "null", '"' + "x" * 1000, "\x00",
        '{"version": 1e999}', '{"version": ' + "9" * 5000 + "}",
    ],
    ids=range(9),
)  # fmt: skip
def test_a_file_of_any_text_is_a_refused_manifest(tmp_path, text):
    (tmp_path / "shop.json").write_text(text)
    with pytest.raises(ConfigError, match="Write it again"):
        read_application(tmp_path, "shop")


def test_a_manifest_of_any_bytes_or_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "shop.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    with pytest.raises(ConfigError, match="Write it again"):
        read_application(tmp_path, "shop")
    assert len(read_applications(tmp_path)[1]) == 2


@pytest.mark.parametrize("more", [{"lake": "/a\0b"}, {"app": "/a\nb"}, {"config": "/\ud800"}, {"lineage": []}])
def test_a_path_that_no_file_can_have_is_refused(tmp_path, more):
    with pytest.raises(ConfigError, match="Write it again"):
        named(tmp_path, manifest(tmp_path / "lake", **more))


def test_one_bad_manifest_does_not_hide_the_others(tmp_path):
    named(tmp_path, manifest(tmp_path / "lake"))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "renamed.json").write_text(json.dumps(manifest(tmp_path / "lake")))
    actual, problems = read_applications(tmp_path)
    assert [item.name for item in actual] == ["shop"]
    assert list(problems) == ["broken", "renamed"]
    assert "broken.json" in problems["broken"]
    assert "it is the manifest of 'shop'; expected 'renamed'" in problems["renamed"]


@pytest.mark.rotated
def test_a_broken_manifest_is_told_only_to_those_who_may_see_the_application(tmp_path):
    """In Airflow's own Python: the texts name files, lakes and what else stands in the manifest."""
    named(tmp_path, manifest(tmp_path / "lake"))
    for name in ("seen", "secret"):
        (tmp_path / f"{name}.json").write_text(json.dumps(manifest(tmp_path / f"lake of {name}", version=9, name=name)))
    code = """
import asyncio
from lakehouse_page import access, server
access.may_read = lambda name, request, user: name in ("shop", "seen")
print(asyncio.run(server.all_applications(None, None)).body.decode())
"""
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)]),
        "LAKEHOUSE_APPLICATIONS": str(tmp_path),
    }
    python = PROJECT / ".venv-airflow" / "bin" / "python"
    process = subprocess.run([python, "-P", "-c", code], env=environ, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    answer = json.loads(process.stdout.splitlines()[-1])
    assert [item["name"] for item in answer["applications"]] == ["shop"]
    assert ["seen.json" in problem for problem in answer["problems"]] == [True]
    assert "secret" not in process.stdout
