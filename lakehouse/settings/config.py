"""Settings: one file ``lakehouse.toml``, and variables ``LAKEHOUSE_<SECTION>_<KEY>`` that override it.

    [lake]
    path = "./lake"                               # a folder, or a Hadoop URI such as s3a://bucket/lake
    app = "app.py"                                # the application of all commands that name none
    options = { endpoint = "https://minio:9000" } # how an S3 store is reached: docs/object-store.md
    [kafka]
    bootstrap_servers = "one:9092,two:9092"       # default: an embedded broker
    options = { "security.protocol" = "SSL" }     # extra Kafka client properties
    port = 9092                                   # the embedded broker's; default: a free one
    folder = "./.kafka"                           # its data; default: .kafka beside the lake
    [registry]
    url = "https://registry:8081"                 # of schemas; default: an embedded one. The rest: docs/registry.md
    [spark]
    master = "local[*]"
    memory = "3g"
    internals = true                              # false: public interfaces of Spark and Delta alone
    python = "/opt/venv/bin/python"               # a cluster's: docs/cluster.md
    driver_host = "192.0.2.1"                     # the address by which executors reach this machine
    keep = "10 minutes"                           # for the next command: docs/engine.md
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

from lakehouse.errors import ConfigError, reason_of_error
from lakehouse.file_faults import describe_misread_path, resolve_path
from lakehouse.settings import checks
from lakehouse.settings.check_value import Check, WrongValue
from lakehouse.settings.checks import CHECKS
from lakehouse.settings.registry import check_together
from lakehouse.settings.sections import (
    Airflow,
    Kafka,
    LakeSection,
    Lineage,
    Log,
    Metrics,
    Options,
    RegistrySection,
    Run,
    Spark,
    Upkeep,
)  # fmt: skip
from lakehouse.settings.toml_line import find_line

__all__ = [
    "Airflow", "Kafka", "LakeSection", "Lineage", "Log", "Metrics", "Options", "RegistrySection", "Run", "Settings",
    "Spark", "Upkeep", "load",
]  # fmt: skip

FILE_NAME = "lakehouse.toml"
FILE_ENDINGS = (".py", ".sql")  # of a file that declares an application
AIRFLOW_HOME = ".lakehouse/airflow"  # beside the settings file: one Airflow serves a project with all its lakes
PREFIX = "LAKEHOUSE_"


@dataclass(frozen=True)
class Settings:
    """All settings. ``source`` is the file that they come from; None if there is none."""

    lake: LakeSection
    kafka: Kafka
    airflow: Airflow
    spark: Spark
    run: Run
    upkeep: Upkeep
    log: Log
    metrics: Metrics
    lineage: Lineage
    registry: RegistrySection
    source: Path | None = None


# Variables with our prefix that are not settings of a section: for the jars, Airflow's processes, interventions.
OTHER_VARIABLES = frozenset(
    {
        "LAKEHOUSE_CACHE", "LAKEHOUSE_JARS", "LAKEHOUSE_ROOT", "LAKEHOUSE_PYTHON", "LAKEHOUSE_APPLICATIONS",
        "LAKEHOUSE_SUPERVISED_BY", "LAKEHOUSE_CATCH_UP", "LAKEHOUSE_DECIDED_BY", "LAKEHOUSE_PASS_ON",
    }
)  # fmt: skip


def load(path: Path | None = None, environ: Mapping[str, str] | None = None, start: Path | None = None) -> Settings:
    """Read the settings.

    ``path``: the file; it must exist. Without it, ``lakehouse.toml`` in ``start`` (default: the current folder) is
    read if there is one. ``environ`` replaces the process's environment. Raises ConfigError.
    """
    base_folder = (start or Path.cwd()).resolve()
    settings_file = resolve_path(path) if path else base_folder / FILE_NAME
    if path and settings_file.is_dir():
        raise ConfigError(f"{path}: a folder; expected a settings file, such as {path / FILE_NAME}.")
    if path and not settings_file.is_file():
        raise ConfigError(
            f"{path}: no such file; expected a settings file. Create it, or leave the option out for the defaults."
        )
    if os.path.lexists(settings_file) and not settings_file.is_file():  # the defaults would be another, empty lake
        kind = "a folder" if settings_file.is_dir() else "no file" if settings_file.exists() else "a link to nothing"
        raise ConfigError(f"{settings_file}: found {kind}; expected a settings file. Mend it, or remove it.")
    section_values: dict[str, dict[str, Any]] = {section: {} for section in CHECKS}
    if settings_file.is_file():
        base_folder = settings_file.parent
        _read_file(settings_file, section_values)
    else:
        settings_file = None  # type: ignore[assignment]  # from here on: the file that was read, if any
    _read_variables(os.environ if environ is None else environ, section_values)
    _check_registry(section_values["registry"], settings_file)
    return _build_settings(section_values, base_folder, settings_file)


def _build_settings(values: dict[str, dict[str, Any]], folder: Path, source: Path | None) -> Settings:
    lake_path = values["lake"].get("path", "./lake")
    is_uri = "://" in lake_path
    if not is_uri:
        lake_path = str(resolve_path(lake_path, folder))
        if message := describe_misread_path(lake_path):  # in a folder above
            raise ConfigError(f"lake.path: {message}.")
    kafka_values, registry_values = values["kafka"], values["registry"]
    beside_lake = folder if is_uri else Path(lake_path).parent
    kafka_values.setdefault("folder", beside_lake / ".kafka")
    registry_values.setdefault("folder", beside_lake / ".registry")
    for section, key in (
        (kafka_values, "folder"),
        (registry_values, "folder"),
        (registry_values, "ca_file"),
        (registry_values, "certificate_file"),
        (registry_values, "key_file"),
    ):
        if key in section:
            section[key] = resolve_path(section[key], folder)
    airflow_values = values["airflow"]
    airflow_values["home"] = resolve_path(airflow_values.get("home", AIRFLOW_HOME), folder)
    for section, key in (
        (values["lake"], "options"),
        (kafka_values, "options"),
        (values["spark"], "options"),
        (airflow_values, "options"),
        (airflow_values, "users"),
    ):
        if key in section:
            section[key] = Options(section[key])
    spark, run, upkeep = Spark(**values["spark"]), Run(**values["run"]), Upkeep(**values["upkeep"])
    application = _absolute_application(values["lake"].get("app"), folder)
    lake_section = LakeSection(**(values["lake"] | {"path": lake_path, "app": application}))
    log, metrics, lineage = Log(**values["log"]), Metrics(**values["metrics"]), Lineage(**values["lineage"])
    return Settings(
        lake_section,
        Kafka(**kafka_values),
        Airflow(**airflow_values),
        spark,
        run,
        upkeep,
        log,
        metrics,
        lineage,
        RegistrySection(**registry_values),
        source,
    )


def _absolute_application(app: str | None, folder: Path) -> str | None:
    """Return an application with the absolute path of its file; a module is returned unchanged."""
    if app is None:
        return None
    location, name = split_application(app)
    if not location.endswith(FILE_ENDINGS):
        return app
    return f"{resolve_path(location, folder)}{':' if name else ''}{name}"


def split_application(app: str) -> tuple[str, str]:
    """Return the file or module of an application, and its name in there, empty if none is given.

    A folder of the file may have a colon in its name.
    """
    location, _, name = ("", "", "") if app.endswith(FILE_ENDINGS) else app.rpartition(":")
    return (location, name) if location else (app, "")


def _read_file(source: Path, values: dict[str, dict[str, Any]]) -> None:
    try:
        toml_text = source.read_text(encoding="utf-8-sig")
        tables = tomllib.loads(toml_text)
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"^(.*?) \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
        line_number = (match and match[2]) or max(1, len(toml_text.splitlines()))
        raise ConfigError(
            f"{source}:{line_number}: not valid TOML: {match[1] if match else error}. {checks.HINT_TOML}"
        ) from None
    except RecursionError:
        raise ConfigError(f"{source}: lists or tables in each other without an end; expected a few.") from None
    except (OSError, ValueError) as error:  # a number of 5,000 digits, too
        raise ConfigError(
            f"{source}: can't be read: {reason_of_error(error)}. Expected a UTF-8 text file in TOML."
        ) from None
    for section, table in tables.items():
        if section not in CHECKS or not isinstance(table, dict):
            place_in_file = f"{source}:{find_line(toml_text, '', section)}"
            if section in CHECKS:
                raise ConfigError(
                    f"{place_in_file}: found {section} = ...; {section} is a section: write [{section}] and its "
                    "settings below."
                )
            owner_section = next((name for name in CHECKS if section in CHECKS[name]), None)
            advice = (
                f"It belongs under [{owner_section}]." if owner_section else _suggest_names(section, CHECKS, "[{}]")
            )
            raise ConfigError(f"{place_in_file}: found {section}, which is not a section. {advice}")
        for key, value in table.items():
            place_in_file = f"{source}:{find_line(toml_text, section, key)}"
            if key not in CHECKS[section]:
                raise ConfigError(
                    f"{place_in_file}: found {key} under [{section}], which is not a setting. "
                    f"{_suggest_names(key, CHECKS[section])}"
                )
            try:
                values[section][key] = _check_value(CHECKS[section][key], value)
            except WrongValue as wrong_value:
                if wrong_value.key:
                    place_in_file = f"{source}:{find_line(toml_text, f'{section}.{key}', wrong_value.key)}"
                raise ConfigError(f"{place_in_file}: {section}.{key}: {wrong_value}") from None


def _read_variables(environ: Mapping[str, str], values: dict[str, dict[str, Any]]) -> None:
    settings_by_variable = {
        f"{PREFIX}{section}_{key}".upper(): (section, key) for section in CHECKS for key in CHECKS[section]
    }
    for variable_name, variable_text in environ.items():
        if variable_name not in settings_by_variable:
            _refuse_likely_setting(variable_name, settings_by_variable)
            continue
        section, key = settings_by_variable[variable_name]
        try:
            check = CHECKS[section][key]
            values[section][key] = _check_value(
                check, variable_text if check in checks.TAKE_RAW_TEXT else _parse_variable(variable_text)
            )
        except WrongValue as wrong_value:
            raise ConfigError(f"environment variable {variable_name}: {wrong_value}") from None


def _check_value(check: Check, value: object) -> Any:
    """Return a setting's value as it is used. Raises WrongValue."""
    try:
        checks.check_writable(value)
        return check(value)
    except RecursionError:
        raise WrongValue("found lists or tables in each other without an end; expected a few") from None


def _refuse_likely_setting(variable_name: str, known_names: Iterable[str]) -> None:
    """Raise ConfigError for a variable that is no setting and was likely meant as one; others are somebody else's."""
    in_capitals = variable_name.upper()
    if not in_capitals.startswith(PREFIX) or variable_name in OTHER_VARIABLES:
        return
    if in_capitals in {*known_names, *OTHER_VARIABLES}:
        raise ConfigError(
            f"found the environment variable {variable_name}, with small letters, which is not a setting; expected "
            f"{in_capitals}. Rename it."
        )
    in_section = variable_name.startswith(PREFIX) and any(
        in_capitals.startswith(f"{PREFIX}{section}_".upper()) for section in CHECKS
    )
    if in_section or difflib.get_close_matches(in_capitals, known_names, cutoff=0.85):
        raise ConfigError(
            f"found the environment variable {variable_name}, which is not a setting. "
            f"{_suggest_names(in_capitals, known_names)}"
        )


def _check_registry(values: Mapping[str, Any], source: Path | None) -> None:
    try:
        check_together(values)
    except WrongValue as wrong_value:
        key = str(wrong_value.key)
        toml_text = source.read_text(encoding="utf-8-sig") if source else ""
        in_file = key in tomllib.loads(toml_text).get("registry", {})
        place = f"{source}:{find_line(toml_text, 'registry', key)}" if in_file else f"{PREFIX}REGISTRY_{key.upper()}"
        raise ConfigError(f"{place}: registry.{key}: {wrong_value}.") from None


def _parse_variable(text: str) -> object:
    """Return a variable's text as a number or a JSON object if it is one, else the text unchanged."""
    try:
        parsed_value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return parsed_value if isinstance(parsed_value, dict | int | float) and not isinstance(parsed_value, bool) else text


def _suggest_names(name: str, known_names: Iterable[str], name_format: str = "{}") -> str:
    name_list = list(known_names)
    near_names = difflib.get_close_matches(name, name_list, n=1, cutoff=0.6)
    expected_text = ", ".join(name_format.format(known_name) for known_name in name_list)
    return (
        f"Did you mean {name_format.format(near_names[0])}? " if near_names else ""
    ) + f"Expected one of: {expected_text}."
