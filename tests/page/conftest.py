"""What the page reads: an application's manifest over a written lake."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.page.applications import Application, read_application

from ..cli.versioned import Story

Manifest = Callable[..., dict[str, Any]]


def manifest(root: Path, **more: Any) -> dict[str, Any]:
    """The manifest that `lakehouse airflow add` writes, for the lake of `Story`."""
    return {
        "version": 1, "name": "shop", "app": str(root.parent / "app.py"), "config": None, "lake": str(root),
        "topics": ["clicks"], "streams": ["clicks"],
        "tables": [{"name": "visits", "key": ["user"], "windowed": False, "source_topics": ["clicks"]}],
        "sinks": [],
        "lineage": {
            "nodes": [
                {"id": "topic:clicks", "kind": "topic", "name": "clicks"},
                {"id": "stream:clicks", "kind": "stream", "name": "clicks"},
                {"id": "table:visits", "kind": "table", "name": "visits"},
            ],
            "edges": [["topic:clicks", "stream:clicks"], ["stream:clicks", "table:visits"]],
        },
        "schedule": None, "backfill_schedule": None, "freshness_minutes": None,
        **more,
    }  # fmt: skip


def named(folder: Path, said: dict[str, Any]) -> Application:
    """Write a manifest to a file and read it."""
    (folder / f"{said['name']}.json").write_text(json.dumps(said))
    return read_application(folder, said["name"])


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """A lake that is only read."""
    return Story(tmp_path_factory.mktemp("page") / "lake", feed=True)


@pytest.fixture(scope="session")
def shop(story: Story) -> Application:
    return named(story.root.parent, manifest(story.root))


@pytest.fixture
def own_story(tmp_path: Path) -> Story:
    """A lake for one test, to write to."""
    return Story(tmp_path / "lake", feed=True)


@pytest.fixture
def own_shop(tmp_path: Path, own_story: Story) -> Application:
    return named(tmp_path, manifest(own_story.root))
