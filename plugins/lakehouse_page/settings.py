"""The places of folders and programs: from the environment, read at each request."""

import os
from pathlib import Path

from lakehouse.errors import ConfigError

STATIC = Path(__file__).with_name("static")
ROOT = Path(__file__).resolve().parents[2]


def applications_folder() -> Path:
    """The folder of the applications' manifests: LAKEHOUSE_APPLICATIONS. ConfigError if there is none."""
    said = os.environ.get("LAKEHOUSE_APPLICATIONS")
    if not said or not Path(said).is_dir():
        raise ConfigError(
            f"LAKEHOUSE_APPLICATIONS: found {said or 'nothing'}; expected the folder of the applications' manifests. "
            "`lakehouse airflow up` sets it; on an Airflow of your own, set it for the api-server, too."
        )
    return Path(said)


def python() -> Path:
    """The Python that has the project's packages: LAKEHOUSE_PYTHON, by default that of this checkout."""
    root = Path(os.environ.get("LAKEHOUSE_ROOT") or ROOT)
    return Path(os.environ.get("LAKEHOUSE_PYTHON") or root / ".venv" / "bin" / "python")
