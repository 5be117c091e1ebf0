"""Settings: one file ``lakehouse.toml``, and variables ``LAKEHOUSE_<SECTION>_<KEY>`` that override it.

    [lake]
    path = "./lake"                               # a folder, or a Hadoop URI such as s3a://bucket/lake
    app = "app.py"                                # the application of all commands that name none
    [kafka]
    bootstrap_servers = "one:9092,two:9092"       # default: an embedded broker
    options = { "security.protocol" = "SSL" }     # extra Kafka client properties
    port = 9092                                   # the embedded broker's; default: a free one
    folder = "./.kafka"                           # its data; default: .kafka beside the lake
    [spark]
    master = "local[*]"
    memory = "3g"
    options = { "spark.sql.shuffle.partitions" = "4" }
    [run]
    trigger_seconds = 0.0                         # between two ticks; 0 = as soon as there are records
    max_records_per_tick = 5000000
    max_bytes_per_tick = 1073741824
    on_data_loss = "fail"                         # or "record": note the gap and go on
    [upkeep]
    keep_versions = "7 days"                      # the rest: docs/upkeep.md
    [log]
    format = "text"                               # lines, also on a terminal; or "json"
    [metrics]
    port = 9108                                   # for Prometheus; default: none
    [lineage]
    url = "http://localhost:5000/api/v1/lineage"  # a catalog that knows OpenLineage; default: none
    [airflow]
    port = 8080                                   # the rest: docs/configuration.md

Every setting is optional. Paths are relative to the file's folder.
A wrong setting is refused with its file and line.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehouse.errors import ConfigError, reason
from lakehouse.settings import checks
from lakehouse.settings.checks import CHECKS
from lakehouse.settings.sections import Airflow, Kafka, LakeSection, Lineage, Log, Metrics, Options, Run, Spark, Upkeep
from lakehouse.settings.toml_line import line_of

__all__ = [
    "Airflow", "Kafka", "LakeSection", "Lineage", "Log", "Metrics", "Options", "Run", "Settings", "Spark", "Upkeep",
    "load",
]  # fmt: skip

FILE_NAME = "lakehouse.toml"
AIRFLOW_HOME = ".lakehouse/airflow"  # beside the settings file: one Airflow serves a project, whatever its lakes
PREFIX = "LAKEHOUSE_"


@dataclass(frozen=True)
class Settings:
    """All settings. ``source`` is the file they came from, None if there is none."""

    lake: LakeSection
    kafka: Kafka
    airflow: Airflow
    spark: Spark
    run: Run
    upkeep: Upkeep
    log: Log
    metrics: Metrics
    lineage: Lineage
    source: Path | None = None


# Variables with our prefix that are not settings of a section: for the jars, Airflow's processes, interventions.
OTHER_VARIABLES = frozenset(
    {
        "LAKEHOUSE_CACHE", "LAKEHOUSE_JARS", "LAKEHOUSE_ROOT", "LAKEHOUSE_PYTHON", "LAKEHOUSE_APPLICATIONS",
        "LAKEHOUSE_SUPERVISED_BY", "LAKEHOUSE_CATCH_UP", "LAKEHOUSE_DECIDED_BY",
    }
)  # fmt: skip


def load(path: Path | None = None, environ: Mapping[str, str] | None = None, start: Path | None = None) -> Settings:
    """Read the settings.

    ``path``: the file; it must exist. Without it, ``lakehouse.toml`` in ``start`` (default: the current folder) is
    read if there is one. ``environ`` replaces the process's environment. Raises ConfigError.
    """
    folder = (start or Path.cwd()).resolve()
    source = path.resolve() if path else folder / FILE_NAME
    if path and not source.is_file():
        raise ConfigError(
            f"{path}: no such file; expected a settings file. Create it, or leave the option out for the defaults."
        )
    values: dict[str, dict[str, Any]] = {section: {} for section in CHECKS}
    if source.is_file():
        folder = source.parent
        _read_file(source, values)
    else:
        source = None  # type: ignore[assignment]  # from here on: the file that was read, if any
    _read_variables(os.environ if environ is None else environ, values)
    return _build(values, folder, source)


def _build(values: dict[str, dict[str, Any]], folder: Path, source: Path | None) -> Settings:
    lake = values["lake"].get("path", "./lake")
    is_uri = "://" in lake
    if not is_uri:
        lake = str((folder / Path(lake).expanduser()).resolve())
    kafka = values["kafka"]
    beside = folder if is_uri else Path(lake).parent
    kafka["folder"] = (
        (folder / Path(kafka["folder"]).expanduser()).resolve() if "folder" in kafka else beside / ".kafka"
    )
    airflow = values["airflow"]
    airflow["home"] = (folder / Path(airflow.get("home", AIRFLOW_HOME)).expanduser()).resolve()
    for section, key in ((kafka, "options"), (values["spark"], "options"), (airflow, "options"), (airflow, "users")):
        if key in section:
            section[key] = Options(section[key])
    spark, run, upkeep = Spark(**values["spark"]), Run(**values["run"]), Upkeep(**values["upkeep"])
    place = LakeSection(lake, _application(values["lake"].get("app"), folder))
    log, metrics, lineage = Log(**values["log"]), Metrics(**values["metrics"]), Lineage(**values["lineage"])
    return Settings(place, Kafka(**kafka), Airflow(**airflow), spark, run, upkeep, log, metrics, lineage, source)


def _application(app: str | None, folder: Path) -> str | None:
    """Return an application with the absolute path of its file; a module is returned unchanged."""
    if app is None or not app.partition(":")[0].endswith((".py", ".sql")):
        return app
    file, colon, name = app.rpartition(":") if not app.endswith((".py", ".sql")) else (app, "", "")
    return f"{(folder / Path(file).expanduser()).resolve()}{colon}{name}"


def _read_file(source: Path, values: dict[str, dict[str, Any]]) -> None:
    try:
        text = source.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"^(.*?) \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
        line = (match and match[2]) or max(1, len(text.splitlines()))
        raise ConfigError(
            f"{source}:{line}: not valid TOML: {match[1] if match else error}. {checks.HINT_TOML}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source}: can't be read: {reason(error)}. Expected a UTF-8 text file in TOML.") from None
    for section, table in tables.items():
        if section not in CHECKS or not isinstance(table, dict):
            where = f"{source}:{line_of(text, '', section)}"
            if section in CHECKS:
                raise ConfigError(
                    f"{where}: found {section} = ...; {section} is a section: write [{section}] and its settings below."
                )
            owner = next((name for name in CHECKS if section in CHECKS[name]), None)
            advice = f"It belongs under [{owner}]." if owner else _suggest(section, CHECKS, "[{}]")
            raise ConfigError(f"{where}: found {section}, which is not a section. {advice}")
        for key, value in table.items():
            where = f"{source}:{line_of(text, section, key)}"
            if key not in CHECKS[section]:
                raise ConfigError(
                    f"{where}: found {key} under [{section}], which is not a setting. {_suggest(key, CHECKS[section])}"
                )
            try:
                values[section][key] = CHECKS[section][key](value)
            except checks.Wrong as wrong:
                if wrong.key:
                    where = f"{source}:{line_of(text, f'{section}.{key}', wrong.key)}"
                raise ConfigError(f"{where}: {section}.{key}: {wrong}") from None


def _read_variables(environ: Mapping[str, str], values: dict[str, dict[str, Any]]) -> None:
    names = {f"{PREFIX}{section}_{key}".upper(): (section, key) for section in CHECKS for key in CHECKS[section]}
    for name, text in environ.items():
        if not name.startswith(PREFIX) or name in OTHER_VARIABLES:
            continue
        if name not in names:
            in_section = any(name.startswith(f"{PREFIX}{section}_".upper()) for section in CHECKS)
            if in_section or difflib.get_close_matches(name, names, cutoff=0.85):
                raise ConfigError(
                    f"found the environment variable {name}, which is not a setting. {_suggest(name, names)}"
                )
            continue
        section, key = names[name]
        try:
            values[section][key] = CHECKS[section][key](_typed(text))
        except checks.Wrong as wrong:
            raise ConfigError(f"environment variable {name}: {wrong}") from None


def _typed(text: str) -> object:
    """A variable's text as a number or a JSON object if it is one, else the text unchanged."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict | int | float) and not isinstance(value, bool) else text


def _suggest(name: str, known: Iterable[str], form: str = "{}") -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    expected = ", ".join(form.format(one) for one in names)
    return (f"Did you mean {form.format(near[0])}? " if near else "") + f"Expected one of: {expected}."
