"""The shape of the plugin and of the page: light where every process loads it, no other sites, no markup."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "plugins"
STATIC = PLUGINS / "lakehouse_page" / "static"
OWN = sorted(path for path in STATIC.iterdir() if path.suffix in (".js", ".html", ".css"))


def test_what_every_process_of_airflow_loads_imports_nothing_of_the_project_at_once():
    tree = ast.parse((PLUGINS / "streams_and_tables.py").read_text())
    modules = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in modules} == {"airflow", "functools", "logging", "urllib"}
    assert "lakehouse_page/" in (PLUGINS / ".airflowignore").read_text().splitlines()


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_data_is_never_markup_and_nothing_comes_from_elsewhere(path):
    text = path.read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
    assert not re.search(r"https?://|[\"'`]//\w", text)
    if path.suffix == ".html":
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text)


@pytest.mark.parametrize("path", [*PLUGINS.rglob("*.py"), *OWN], ids=lambda path: path.name)
def test_files_have_one_subject(path):
    assert len(path.read_text().splitlines()) <= 300


def test_the_vendored_library_has_its_licence_and_is_the_one_in_the_docs():
    version = re.search(r"\(v([\d.]+)\)", (STATIC / "vendor" / "uPlot.esm.js").read_text()[:600])
    assert version is not None
    assert f"uPlot](https://github.com/leeoniya/uPlot) {version[1]}, MIT" in (ROOT / "docs" / "page.md").read_text()
    assert "The MIT License" in (STATIC / "vendor" / "uPlot.LICENSE").read_text()


def test_airflow_reads_lakes_with_the_same_versions_as_the_project():
    asked = (ROOT / "infra" / "airflow" / "requirements.in").read_text()
    lock = (ROOT / "infra" / "python" / "requirements.lock").read_text()
    pinned = dict(re.findall(r"^(deltalake|duckdb|pyarrow|sqlglot)==(\S+)", asked, re.MULTILINE))
    assert set(pinned) == {"deltalake", "duckdb", "pyarrow", "sqlglot"}
    assert pinned == {name: re.search(rf"^{name}==(\S+)", lock, re.MULTILINE)[1] for name in pinned}


@pytest.mark.parametrize(
    ("lag", "said"),
    [
        (None, "asking Kafka …"),
        ({"error": "no Python"}, "Kafka can't be asked"),
        ({"topics": {"a": None}, "running": False}, "Kafka does not answer"),
        ({"topics": {"a": 0, "b": 1}, "running": True}, "1 record waiting in Kafka"),
        ({"topics": {"a": 0, "b": None}, "running": True}, "0 records waiting in Kafka; not known how many of b"),
        ({"topics": {"a": None, "b": None}, "running": True}, "not known how many of a, b"),
    ],
)
def test_the_page_names_the_topics_of_which_nobody_knows_what_waits(lag, said):
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node.js, to run the page's script outside of a browser")
    script = f"""
        import {{ waiting }} from {json.dumps((STATIC / "format.js").as_uri())};
        console.log(waiting({json.dumps(lag)})[0]);
    """
    process = subprocess.run(
        [node, "--input-type=module", "-e", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert process.stdout.strip() == said
