"""The list of components equals the locks, and an audit never passes if it could not ask."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import lakehouse

PROJECT = Path(lakehouse.__file__).parents[1]
INFRA = PROJECT / "infra"
SETUP = PROJECT / "lakehouse" / "setup"
LISTED = json.loads((INFRA / "components.json").read_text())
PURLS = sorted({one["purl"] for one in LISTED["components"]})


def run(command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(INFRA / "components.py"), command]
    clean = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return subprocess.run(argv, env={**clean, **environ}, capture_output=True, text=True, check=False)


def test_the_list_equals_the_locks() -> None:
    code = "import sys; sys.path.insert(0, 'infra'); import components; sys.stdout.write(components.rendered())"
    process = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert process.stdout == (INFRA / "components.json").read_text(), "run make components"


def test_no_locked_component_is_missing_and_each_has_a_version_and_a_checksum() -> None:
    pinned = sum(
        len(re.findall(r"^[A-Za-z0-9._-]+==", lock.read_text(), re.MULTILINE))
        for lock in (
            INFRA / "python" / "requirements.lock",
            SETUP / "airflow.lock",
            INFRA / "docs" / "requirements.lock",
            INFRA / "ui" / "requirements.lock",
        )
    )
    jars = len((SETUP / "checksums.txt").read_text().splitlines()) - 1
    assert len(LISTED["components"]) == pinned + jars + 1
    for one in LISTED["components"]:
        assert re.fullmatch(r"pkg:(pypi/[a-z0-9.-]+|maven/[\w.-]+/[\w.-]+|npm/uplot)@v?\d[\w.+!-]*", one["purl"]), one
        assert one.get("hashes") or one["name"] == "uplot"


@pytest.fixture
def osv() -> Iterator[Callable[[Any], str]]:
    """A fake OSV: osv({"results": [...]}) sets its answer and returns its address."""
    said: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert [one["package"]["purl"] for one in asked["queries"]] == PURLS
            self.send_response(200)
            self.end_headers()
            self.wfile.write(said[-1])

        def log_message(self, *arguments: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def tell(answer: Any) -> str:
        said.append(answer if isinstance(answer, bytes) else json.dumps(answer).encode())
        return f"http://127.0.0.1:{server.server_port}"

    yield tell
    server.shutdown()


def test_an_audit_that_asked_about_all_passes_or_names_known_problems(osv: Callable[[Any], str]) -> None:
    outcome = run("audit", OSV_URL=osv({"results": [{} for _ in PURLS]}))
    assert (outcome.returncode, outcome.stdout) == (
        0,
        f"audit: {len(PURLS)} components, nothing is known against them\n",
    )
    one = {"vulns": [{"id": "GHSA-1"}, {"id": "CVE-2"}]}
    outcome = run("audit", OSV_URL=osv({"results": [one, *({} for _ in PURLS[1:])]}))
    assert outcome.returncode == 1
    assert f"{PURLS[0]}: GHSA-1, CVE-2" in outcome.stdout


@pytest.mark.parametrize(
    "answer", [b"", b"<html>sign in</html>", b"[]", b"null", {}, {"results": []}, {"results": [{}]}, {"results": None}]
)
def test_an_audit_that_could_not_ask_fails_and_says_so(osv: Callable[[Any], str], answer: Any) -> None:
    outcome = run("audit", OSV_URL=osv(answer))
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert "NOT CHECKED" in outcome.stderr


def test_an_audit_without_a_network_fails_and_says_so() -> None:
    outcome = run("audit", OSV_URL="http://127.0.0.1:9")
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert "NOT CHECKED: http://127.0.0.1:9 gave no answer" in outcome.stderr
