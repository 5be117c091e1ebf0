"""What DAG files may import: Airflow's public names and the light modules beside them; nothing of the project."""

import ast
import sys
from pathlib import Path

import pytest

DAGS = Path(__file__).resolve().parents[2] / "dags"
FILES = sorted(DAGS.rglob("*.py"))
BESIDE = {"lakehouse_dags", "lakehouse_jobs", "lakehouse_leash", "lakehouse_places"}
# Imported by the project's tests, and by whoever wants to know why a run would be refused.
WITHOUT_AIRFLOW = {
    "lakehouse_jobs.py", "lakehouse_leash.py", "lakehouse_places.py", "manifest.py", "requests.py", "commands.py",
    "late.py",
}  # fmt: skip


def _imports(path: Path) -> set[str]:
    result: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "bundles put the folder on the path; there is no package above it"
            result.add(str(node.module))
    return result


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DAGS)))
def test_dag_files_import_airflows_public_names_and_light_modules(path: Path) -> None:
    for name in _imports(path):
        root = name.split(".")[0]
        # croniter comes with Airflow, which reads schedules with it.
        is_public = name in ("airflow.sdk", "croniter") or name.startswith(
            ("airflow.sdk.exceptions", "airflow.providers.standard.")
        )
        if path.name in WITHOUT_AIRFLOW:
            is_public = False
        assert is_public or root in BESIDE or root in sys.stdlib_module_names, f"{path.name} imports {name}"


def test_airflow_does_not_take_helpers_for_dags() -> None:
    ignored = {line.rstrip("/") for line in (DAGS / ".airflowignore").read_text().splitlines() if "#" not in line}
    there = {path.name for path in DAGS.iterdir() if path.suffix == ".py" or path.name == "lakehouse_dags"}
    assert there - ignored == {"lakehouse_applications.py", "lakehouse_catch_up.py"}
