"""The check that the generic catch-up runs only applications below LAKEHOUSE_CATCH_UP. Standard library only."""

import os
from collections.abc import Mapping
from pathlib import Path

from lakehouse_jobs import JobRefused

FOLDERS = "LAKEHOUSE_CATCH_UP"


def check_places(root: Path, app: str, config: str | None, environ: Mapping[str, str] = os.environ) -> None:
    """Raise JobRefused unless the application, and its configuration, lie in a folder of LAKEHOUSE_CATCH_UP.

    A run's conf names a Python file that is executed, and settings that say where a lake is. The DAG's user chooses
    among the files put there for it, links followed, not among all files that this account can read.
    """
    folders = [(root / part).resolve() for part in environ.get(FOLDERS, "").split(os.pathsep) if part]
    advice = f"Set {FOLDERS} to the folders that it may take them from, for Airflow's scheduler and workers"
    if not folders:
        raise JobRefused(f"no folder is named for this DAG. {advice}, or use the application's own DAG.")
    file = app.partition(":")[0]
    for name, path_text in (("app", file), ("config", config)):
        if path_text is None:
            continue
        place = (root / path_text).resolve()
        if name == "app" and place.suffix != ".py":
            raise JobRefused(f"app is {app!r}, expected a file that ends with .py")
        if not any(place.is_relative_to(folder) for folder in folders):
            raise JobRefused(
                f"{name} is {path_text!r}, which lies in none of {', '.join(map(str, folders))}. {advice}."
            )
