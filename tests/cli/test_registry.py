"""`lakehouse registry up` and `down`: the embedded registry from a command line, and a configured one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakehouse.registry.embedded import EmbeddedRegistry, find_registry
from tests.cli.conftest import Command


@pytest.mark.rotated
def test_up_twice_and_down_twice(lakehouse: Command, folder: Path) -> None:
    try:
        first = lakehouse("registry", "up")
        running = find_registry(folder / ".registry")
        assert running is not None
        assert first.code == 0
        assert f"Schema registry at {running.url} ({running.folder}) was started." in " ".join(first.out.split())
        again = json.loads(lakehouse("registry", "up", "--json").out)
        assert again == {"url": running.url, "folder": str(running.folder), "changed": False}
    finally:
        ended = lakehouse("registry", "down", "--json")
    assert json.loads(ended.out) == {"url": running.url, "folder": str(running.folder), "changed": True}
    assert find_registry(folder / ".registry") is None
    assert "does not run; there is nothing to stop" in " ".join(lakehouse("registry", "down").out.split())


@pytest.mark.rotated
def test_a_configured_registry_is_asked_and_left_alone(
    lakehouse: Command, registry: EmbeddedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEHOUSE_REGISTRY_URL", registry.url)
    assert "is configured, and answers" in " ".join(lakehouse("registry", "up").out.split())
    assert json.loads(lakehouse("registry", "down", "--json").out) == {
        "url": registry.url, "folder": None, "changed": False,
    }  # fmt: skip
    assert find_registry(registry.folder) is not None
    monkeypatch.setenv("LAKEHOUSE_REGISTRY_URL", "http://127.0.0.1:9")
    outcome = lakehouse("registry", "up")
    assert outcome.code == 1
    assert "gives no answer that can be used" in outcome.err
