"""Places on this machine: the checkout or the installed package, the jars, Airflow's environment.

    in a checkout      <checkout>/.jars, <checkout>/.venv-airflow
    installed by pip   <cache>/jars-<digest>, <cache>/airflow-<digest>

The cache is ``$LAKEHOUSE_CACHE``, else ``lakehouse`` in ``$XDG_CACHE_HOME`` or ``~/.cache``. A digest of their sources
names its folders, so two versions of lakehouse do not disturb each other. ``$LAKEHOUSE_JARS`` names the folder of the
jars itself.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Literal

from lakehouse.errors import ConfigError
from lakehouse.file_faults import expand_home
from lakehouse.setup import jars
from lakehouse.setup.log_store import log_store_jar

PACKAGE = Path(__file__).resolve().parents[1]
AIRFLOW_LOCK = Path(__file__).with_name("airflow.lock")
DIGITS = 12


def checkout_folder() -> Path | None:
    """Return the checkout that this package is used from; None if it was installed."""
    return PACKAGE.parent if (PACKAGE.parent / "pyproject.toml").is_file() else None


def project_folder() -> Path:
    """Return the folder with ``dags/``, ``plugins/``, ``spark_jobs/`` and the demo's ``examples/year_of_flights/``.

    It is the checkout, or the wheel's copy of these.
    """
    return checkout_folder() or PACKAGE / "project"


def cache_folder() -> Path:
    """Return the folder for files that can be fetched again."""
    if named_folder := os.environ.get("LAKEHOUSE_CACHE"):
        return expand_home(named_folder).absolute()
    cache_home = os.environ.get("XDG_CACHE_HOME", "")
    # The specification: a relative path there does not count.
    return (Path(cache_home) if Path(cache_home).is_absolute() else expand_home("~/.cache")) / "lakehouse"


def jars_target() -> Path:
    """Return the folder that the set-up fills with jars."""
    if named_folder := os.environ.get("LAKEHOUSE_JARS"):
        return Path(named_folder).absolute()
    checkout_root = checkout_folder()
    return checkout_root / ".jars" if checkout_root else cache_folder() / f"jars-{jars.jars_digest()[:DIGITS]}"


def jars_folder(kind: Literal["spark", "kafka", "s3", "s3proxy"]) -> Path:
    """Return the folder of one set of jars. Raises ConfigError, which says what to run, if there is none."""
    folder = jars_target() / kind
    if any(folder.glob("*.jar")):
        return folder
    command = "lakehouse setup --s3" if kind == "s3" else "lakehouse setup"
    raise ConfigError(f"Found no {kind} jars in {folder}; they are fetched once. Run `{command}`.")


def s3_jars() -> list[Path]:
    """Return the jars for lakes on s3a://. Raises ConfigError, which says what to run, if they are not there."""
    log_store = log_store_jar(jars_target())
    if not log_store.is_file():
        raise ConfigError(f"Found no {log_store}; it is compiled once. Run `lakehouse setup --s3`.")
    return [*sorted(jars_folder("s3").glob("*.jar")), log_store]


def airflow_environment() -> Path:
    """Return the folder of Airflow's Python environment, whether it exists or not."""
    if checkout_root := checkout_folder():
        return checkout_root / ".venv-airflow"
    digest_source = f"{PACKAGE} {sys.version_info[:2]} ".encode() + AIRFLOW_LOCK.read_bytes()
    return cache_folder() / f"airflow-{hashlib.sha256(digest_source).hexdigest()[:DIGITS]}"
