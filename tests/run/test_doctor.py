"""`lakehouse doctor`: what is well, what is not and what to do; and no secret in any of it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.run.start import doctor
from lakehouse.run.start.doctor import Examined, as_report, examine
from lakehouse.settings.config import load

from ..cli.versioned import Story

CANARY = "canary-of-a-secret"


def examined(folder: Path, **environ: str) -> dict[str, list[Examined]]:
    """What is found, by subject."""
    found: dict[str, list[Examined]] = {}
    variables = {f"LAKEHOUSE_{name}": value for name, value in environ.items()}
    for item in examine(load(environ={"LAKEHOUSE_LAKE_PATH": str(folder / "lake"), **variables}, start=folder)):
        found.setdefault(item.subject, []).append(item)
    return found


def only(items: list[Examined]) -> Examined:
    (item,) = items
    return item


def test_a_fit_machine_has_no_problem(tmp_path: Path) -> None:
    Story(tmp_path / "lake")
    found = examined(tmp_path)
    assert not [item for items in found.values() for item in items if item.state == "problem"]
    assert only(found["lake"]).found == f"{tmp_path}/lake: tick 8, 1 tables"
    assert only(found["kafka"]).advice == "a run starts it, or `lakehouse kafka up`"
    assert "pyspark 4" in only(found["packages"]).found
    assert "version" in only(found["java"]).found


def test_a_kafka_or_a_registry_that_does_not_answer_is_a_problem_and_shows_no_secret(tmp_path: Path) -> None:
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u"}
    found = examined(
        tmp_path,
        KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:9", KAFKA_OPTIONS=json.dumps({**options, "sasl.password": CANARY}),
        REGISTRY_URL=f"http://127.0.0.1:9/{CANARY}", REGISTRY_USER="u", REGISTRY_PASSWORD=CANARY,
        AIRFLOW_DATABASE=f"postgresql://u:{CANARY}@db/airflow", LINEAGE_API_KEY=CANARY,
    )  # fmt: skip
    assert only(found["kafka"]).state == only(found["registry"]).state == "problem"
    assert "did not answer" in only(found["kafka"]).found
    assert CANARY not in as_report([item for items in found.values() for item in items])


def test_a_port_that_another_program_has_is_a_problem(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        found = examined(tmp_path, KAFKA_PORT=port, METRICS_PORT=port)
    assert [(item.state, item.found) for item in found["ports"]] == [
        ("problem", f"kafka.port {port}: another program listens there"),
        ("problem", f"metrics.port {port}: another program listens there"),
    ]


def test_a_clock_behind_the_newest_commit_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(tmp_path / "lake")
    monkeypatch.setattr(doctor.time, "time", lambda: story.visits.time / 1000 - 3600)
    clock = only(examined(tmp_path)["clock"])
    assert clock.state == "problem"
    assert "commit is 3,600 s later" in clock.found


def test_a_damaged_lake_is_a_problem_and_the_other_checks_are_made(tmp_path: Path) -> None:
    Story(tmp_path / "lake")
    for commit in (tmp_path / "lake/bronze/records/_delta_log").glob("*.json"):
        commit.write_text("{")
    found = examined(tmp_path)
    assert only(found["lake"]).state == "problem"
    assert "kept spark" in found


def test_java_says_its_version_and_not_the_options_that_it_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"):
        monkeypatch.setenv(name, f"-Dlakehouse.version={CANARY}")
    found = examined(tmp_path)
    assert ' version "' in only(found["java"]).found
    assert CANARY not in as_report([item for items in found.values() for item in items])
    arguments = tmp_path / "java.args"
    arguments.write_text(f"-Dlakehouse.password={CANARY}")
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"@{arguments}")  # as docs/configuration.md says
    process = subprocess.run(["java", "-XshowSettings:properties", "-version"], capture_output=True, text=True)
    assert f"lakehouse.password = {CANARY}" in process.stderr
    assert f"Picked up JDK_JAVA_OPTIONS: @{arguments}\n" in process.stderr


def test_the_locale_of_java_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert only(examined(tmp_path)["locale"]).state == "ok"
    monkeypatch.setenv("LC_ALL", "C")  # which Python has read before
    item = only(examined(tmp_path)["locale"])
    assert item.state == "problem"
    assert "Java has file names in ANSI_X3.4-1968" in item.found
    code = "from lakehouse.setup import java_process; print(java_process.file_name_encoding('java'))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout == "UTF-8\n", "lakehouse's own Javas take another locale"


@pytest.mark.parametrize(
    ("version", "bounds", "fits"),
    [
        ("4.2.0", "==4.2.0", True), ("4.2.1", "==4.2.0", False), ("4.2", "==4.2.0", True), ("2.2.3", ">=2.2,<3", True),
        ("3.0.0", ">=2.2,<3", False), ("1.9", ">=1.10", False), ("3.0.50+local", ">=3.0.50", True), ("1", "", True),
    ],
)  # fmt: skip
def test_versions_are_compared_as_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, bounds: str, fits: bool
) -> None:
    metadata: dict[str, Callable[[str], Any]] = {
        "requires": lambda name: [f"pyspark{bounds}", "pytest>=99; extra == 'dev'"],
        "version": lambda name: version,
    }
    fake = SimpleNamespace(**metadata, PackageNotFoundError=doctor.importlib.metadata.PackageNotFoundError)
    monkeypatch.setattr(doctor, "importlib", SimpleNamespace(metadata=fake))
    assert [item.state for item in examined(tmp_path)["packages"]] == (["ok"] if fits else ["problem", "ok"])


def test_the_report_is_one_table_whatever_was_found() -> None:
    report = as_report([Examined("lake", "problem", 'a | b\nc "d"', "do | it")])
    assert report.splitlines()[2] == '| lake | problem | a \\| b\\nc "d" | do \\| it |'
