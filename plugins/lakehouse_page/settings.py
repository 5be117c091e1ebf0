"""The places of folders and programs: from the environment, read at each request."""

import os
from pathlib import Path

from lakehouse.errors import ConfigError

STATIC = Path(__file__).with_name("static")
ROOT = Path(__file__).resolve().parents[2]


def applications_folder() -> Path:
    """Return the folder of the applications' manifests: LAKEHOUSE_APPLICATIONS. Raises ConfigError if there is none."""
    folder_text = os.environ.get("LAKEHOUSE_APPLICATIONS")
    if not folder_text or not Path(folder_text).is_dir():
        raise ConfigError(
            f"LAKEHOUSE_APPLICATIONS: found {folder_text or 'nothing'}; expected the folder of the applications' "
            "manifests. `lakehouse airflow up` sets it; on an Airflow of your own, set it for the api-server, too."
        )
    return Path(folder_text)


def project_python() -> Path:
    """Return the Python that has the project's packages: LAKEHOUSE_PYTHON, by default that of this checkout."""
    root = Path(os.environ.get("LAKEHOUSE_ROOT") or ROOT)
    return Path(os.environ.get("LAKEHOUSE_PYTHON") or root / ".venv" / "bin" / "python")
