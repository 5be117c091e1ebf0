"""A user who may not read an application's DAGs is not told about the application."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from ..cli.versioned import Story
from ..page.conftest import manifest, named

pytestmark = pytest.mark.ui

ROOT = Path(__file__).parents[2]
API = "/lakehouse/api/applications"


def test_an_application_is_for_those_who_may_read_its_dags(tmp_path):
    story = Story(tmp_path / "lake", feed=True)
    folder = tmp_path / "applications"
    folder.mkdir()
    named(folder, manifest(story.root))
    named(folder, manifest(story.root, name="secret"))
    environ = {
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "AIRFLOW__CORE__AUTH_MANAGER": "some_dags.SomeDags",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "LAKEHOUSE_APPLICATIONS": str(folder),
        "PYTHONPATH": str(Path(__file__).parent),
        "PATH": os.environ["PATH"],
    }
    paths = [API, *(f"{API}/{name}{rest}" for name in ("shop", "secret") for rest in ("", "/tables/visits/rows"))]
    python = ROOT / ".venv-airflow" / "bin" / "python"
    for argv in ([python, "-m", "airflow", "db", "migrate"],
                 [python, Path(__file__).with_name("some_dags.py"), tmp_path / "out", *paths]):  # fmt: skip
        process = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
        assert process.returncode == 0, process.stdout + process.stderr
    actual = json.loads((tmp_path / "out").read_text())
    assert [actual[path]["status"] for path in paths] == [200, 200, 200, 404, 404]
    assert [item["name"] for item in json.loads(actual[API]["text"])["applications"]] == ["shop"]
    assert "there is no application 'secret' that you may see" in actual[f"{API}/secret"]["text"]
    assert "ann" in actual[f"{API}/shop/tables/visits/rows"]["text"]
