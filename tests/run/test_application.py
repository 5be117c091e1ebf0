"""An application's file imports the modules beside it, whichever folder a command runs in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.run.start.application import find_app, folder_of_app, load_app

PLANES = """
import lakehouse as lh

planes = lh.stream({topic!r}, key="plane string", schema="model string").latest("planes")
"""
APP = """
import lakehouse as lh
from beside_planes import planes

flights = lh.stream("flights", key="flight string", schema="plane string")
app = lh.app(flights.join(planes, on="plane", how="left").latest("enriched"), upstream=[planes])
"""


def write(folder: Path, topic: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "beside_planes.py").write_text(PLANES.format(topic=topic))
    (folder / "app.py").write_text(APP)
    return str(folder / "app.py")


def topic_of(target: str) -> str:
    (planes,) = load_app(target).upstream
    return planes.stream.topics[0]


def test_each_file_has_the_modules_of_its_own_folder(tmp_path: Path) -> None:
    one, other = write(tmp_path / "one", "first"), write(tmp_path / "other", "second")
    path_before = list(sys.path)
    assert [topic_of(target) for target in (one, other, one)] == ["first", "second", "first"]
    assert [entry for entry in sys.path if entry not in path_before] == [str(tmp_path / "one")]


def test_an_edited_module_is_read_again(tmp_path: Path) -> None:
    target = write(tmp_path / "edited", "before")
    assert topic_of(target) == "before"
    write(tmp_path / "edited", "afterwards")
    assert topic_of(target) == "afterwards"


def test_a_file_does_not_replace_an_installed_module(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemError")
    (tmp_path / "app.py").write_text("import json\nimport lakehouse as lh\nassert json.dumps(1) == '1'\n")
    with pytest.raises(LakehouseError, match="declares no application"):
        find_app(str(tmp_path / "app.py"))


def test_a_folder_may_have_a_colon_in_its_name(tmp_path: Path) -> None:
    target = write(tmp_path / "2026-01-01T10:00", "orders")
    for written in (target, f"{target}:app"):
        assert find_app(written).location == target
        assert folder_of_app(written) == Path(target).parent
