"""Examines this machine, and what the settings name, for what a run needs: nothing is started or changed.

Each check gives findings: what was found, and what to do where it is not as it should be. A check that can't be made is
a finding, too.
"""

from __future__ import annotations

import importlib.metadata
import json
import locale
import os
import platform
import re
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from lakehouse.errors import LakehouseError, reason_of_error
from lakehouse.kafka.embedded.broker import find_broker
from lakehouse.kafka.topics import Cluster
from lakehouse.lake import reader, store
from lakehouse.lake.control.writer_leases import kept_by_holder
from lakehouse.lake.layout import Layout
from lakehouse.process import is_port_free
from lakehouse.registry.embedded import find_registry
from lakehouse.registry.opening import open_registry
from lakehouse.settings.config import Settings
from lakehouse.settings.sections import MASK, SECRET
from lakehouse.setup import jars, places
from lakehouse.setup.java_process import file_name_encoding

State = Literal["ok", "note", "problem"]
PATIENCE_SECONDS = 5.0
FOUND_MAX = 1_000
DISK_LEAST = 2 << 30
OPEN_FILES_LEAST = 4_096
CLOCK_SECONDS = 5.0
MEMORY_UNITS = {"k": 10, "m": 20, "g": 30, "t": 40}
_PIN = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?\s*([^;]*)")


@dataclass(frozen=True, slots=True)
class Examined:
    """A finding about a subject. advice: what to do; empty where all is well."""

    subject: str
    state: State
    found: str
    advice: str = ""


def examine(settings: Settings) -> Iterator[Examined]:
    """Yield the findings, subject by subject: the machine first, then what the settings name."""
    checks: tuple[tuple[str, Callable[[Settings], Iterator[Examined]]], ...] = (
        ("settings", _examine_settings),
        ("python", _examine_python),
        ("packages", _examine_packages),
        ("java", _examine_java),
        ("jars", _examine_jars),
        ("memory", _examine_memory),
        ("disk", _examine_disk),
        ("open files", _examine_open_files),
        ("locale", _examine_locale),
        ("ports", _examine_ports),
        ("kafka", _examine_kafka),
        ("registry", _examine_registry),
        ("lake", _examine_lake),
        ("clock", _examine_clock),
        ("kept spark", _examine_kept_spark),
    )
    secrets = _secret_values(settings)
    for subject, check in checks:
        try:
            for examined in check(settings):
                yield _without_secrets(examined, secrets)
        except Exception as error:  # whatever is wrong with one thing, the others are examined
            fault = reason_of_error(error) if isinstance(error, LakehouseError | OSError) else repr(error)
            yield _without_secrets(Examined(subject, "problem", fault[:FOUND_MAX]), secrets)


def _examine_settings(settings: Settings) -> Iterator[Examined]:
    source = str(settings.source) if settings.source else "no lakehouse.toml in this folder: defaults"
    variables = sorted(name for name in os.environ if name.startswith("LAKEHOUSE_"))
    yield Examined("settings", "ok", source + (f"; variables: {', '.join(variables)}" if variables else ""))


def _examine_python(settings: Settings) -> Iterator[Examined]:
    yield Examined("python", "ok", f"{platform.python_version()}, {sys.executable}; {platform.platform()}")


def _examine_packages(settings: Settings) -> Iterator[Examined]:
    """Compare the installed packages with those that this version was made for."""
    versions = {}
    for requirement in importlib.metadata.requires("lakehouse") or []:
        if "extra ==" in requirement or (match := _PIN.match(requirement)) is None:
            continue
        name, bounds = match[1], match[2].strip()
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Examined("packages", "problem", f"{name} is not installed", f"pip install '{name}{bounds}'")
            continue
        if not _fits_bounds(versions[name], bounds):
            yield Examined(
                "packages", "problem", f"{name} {versions[name]}; this version of lakehouse is for {bounds}",
                f"pip install '{name}{bounds}'",
            )  # fmt: skip
    own_version = importlib.metadata.version("lakehouse")
    names = ("pyspark", "delta-spark", "deltalake", "confluent-kafka", "duckdb", "pyarrow")
    texts = [f"{name} {versions[name]}" for name in names if name in versions]
    yield Examined("packages", "ok", f"lakehouse {own_version}; {', '.join(texts)}")


def _fits_bounds(version: str, bounds: str) -> bool:
    compare: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
        "==": lambda found, bound: found == bound,
        ">=": lambda found, bound: found >= bound,
        "<": lambda found, bound: found < bound,
    }
    for bound in filter(None, (part.strip() for part in bounds.strip("()").split(","))):
        sign = next((sign for sign in ("==", ">=", "<") if bound.startswith(sign)), "")
        if sign and not compare[sign](_version_numbers(version), _version_numbers(bound.removeprefix(sign))):
            return False
    return True


def _version_numbers(version: str) -> tuple[int, ...]:
    numbers = [int(text) for text in re.findall(r"\d+", version.split("+")[0])[:3]]
    return (*numbers, *[0] * (3 - len(numbers)))


def _examine_java(settings: Settings) -> Iterator[Examined]:
    try:
        java_path = jars.find_java()
    except jars.ResolveError as error:
        yield Examined("java", "problem", str(error))
        return
    yield Examined("java", "ok", f"{java_path}: {jars.version_line(java_path)}")


def _examine_jars(settings: Settings) -> Iterator[Examined]:
    from lakehouse.spark.jvm.session.session import class_archive

    places.jars_folder("spark")
    places.jars_folder("kafka")
    if settings.lake.path.startswith("s3a://"):
        places.s3_jars()
    archive = class_archive()
    if archive.is_file() and archive.stat().st_size:
        yield Examined("jars", "ok", f"{places.jars_target()}, with Spark's classes ready")
    else:
        yield Examined(
            "jars", "note", f"{places.jars_target()}, without Spark's classes: each start takes some seconds more",
            "lakehouse setup",
        )  # fmt: skip


def _examine_memory(settings: Settings) -> Iterator[Examined]:
    memory = psutil.virtual_memory()
    wanted_bytes = _parse_memory(settings.spark.memory)
    found = f"{memory.available >> 20:,} MB free of {memory.total >> 20:,}; spark.memory = {settings.spark.memory}"
    if settings.spark.master.startswith("local") and wanted_bytes > memory.available:
        yield Examined(
            "memory", "note", found, "end other programs, or give Spark less: LAKEHOUSE_SPARK_MEMORY=2g",
        )  # fmt: skip
    else:
        yield Examined("memory", "ok", found)


def _parse_memory(text: str) -> int:
    unit = text[-1:].lower()
    digits = text[:-1] if unit in MEMORY_UNITS else text
    return int(digits) << MEMORY_UNITS.get(unit, 0) if digits.isdecimal() else 0


def _examine_disk(settings: Settings) -> Iterator[Examined]:
    folders = {"temporary files": Path(tempfile.gettempdir())}
    if not store.is_remote(settings.lake.path):
        folders["the lake"] = Path(settings.lake.path)
    if settings.kafka.embedded:
        folders["the embedded Kafka"] = settings.kafka.folder
    for label, folder in folders.items():
        nearest_folder = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free_bytes = shutil.disk_usage(nearest_folder).free
        found = f"{label}: {folder}, {free_bytes >> 20:,} MB free"
        if not os.access(nearest_folder, os.W_OK | os.X_OK):
            yield Examined(
                "disk", "problem", f"{found}; this user may not write there", f"change the owner of {nearest_folder}"
            )
        elif free_bytes < DISK_LEAST:
            yield Examined("disk", "note", found, "free some, or name another folder")
        else:
            yield Examined("disk", "ok", found)


def _examine_open_files(settings: Settings) -> Iterator[Examined]:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit != resource.RLIM_INFINITY and limit < OPEN_FILES_LEAST:
        yield Examined("open files", "note", f"at most {limit:,} a process", f"ulimit -n {OPEN_FILES_LEAST}")
    else:
        limit_text = "no limit" if limit == resource.RLIM_INFINITY else f"at most {limit:,} a process"
        yield Examined("open files", "ok", limit_text)


def _examine_locale(settings: Settings) -> Iterator[Examined]:
    encoding, zone = sys.getfilesystemencoding(), time.strftime("%Z %z")
    found = f"file names in {encoding}, text in {locale.getpreferredencoding(do_setlocale=False)}, zone {zone}"
    with suppress(jars.ResolveError):
        java_encoding = file_name_encoding(jars.find_java())
        if java_encoding and java_encoding != "UTF-8":
            found += f"; Java has file names in {java_encoding}"
            yield Examined("locale", "problem", found, "export LC_ALL=C.UTF-8, or a locale that `locale -a` lists")
            return
    if encoding.lower().replace("-", "") != "utf8":
        yield Examined("locale", "problem", found, "export PYTHONUTF8=1, or LANG=C.UTF-8")
    else:
        yield Examined("locale", "ok", found)


def _examine_ports(settings: Settings) -> Iterator[Examined]:
    """Say whether the ports that the settings name are free, or taken by what they are for."""
    broker = find_broker(settings.kafka.folder) if settings.kafka.embedded else None
    registry = find_registry(settings.registry.folder) if settings.registry.embedded else None
    ports = {
        "kafka.port": (settings.kafka.port if settings.kafka.embedded else None, broker is not None),
        "registry.port": (settings.registry.port if settings.registry.embedded else None, registry is not None),
        "metrics.port": (settings.metrics.port, bool(kept_by_holder(Layout(settings.lake.path)))),
        "airflow.port": (settings.airflow.port, True),  # Airflow's own command knows whose it is
    }
    for name, (port, may_be_own) in ports.items():
        if port is None:
            continue
        is_free = is_port_free(port)
        if is_free or may_be_own:
            yield Examined("ports", "ok", f"{name} {port}: {'free' if is_free else 'in use'}")
        else:
            yield Examined("ports", "problem", f"{name} {port}: another program listens there", f"set another {name}")


def _examine_kafka(settings: Settings) -> Iterator[Examined]:
    servers = settings.kafka.bootstrap_servers
    if servers is None:
        broker = find_broker(settings.kafka.folder)
        if broker is None:
            yield Examined("kafka", "note", "embedded, not running", "a run starts it, or `lakehouse kafka up`")
            return
        servers = broker.bootstrap_servers
    cluster = Cluster(servers, settings.kafka.options, PATIENCE_SECONDS)
    names = cluster.names()
    protocol = settings.kafka.options.get("security.protocol", "PLAINTEXT")
    yield Examined("kafka", "ok", f"{servers} answers by {protocol}; this user sees {len(names):,} topics")
    wanted_names = [name for name in settings.kafka.topics if name not in names]
    if wanted_names:
        yield Examined(
            "kafka", "problem", f"no topic {', '.join(wanted_names)}, which kafka.topics names, or this user may not "
            "describe it", "create it, or `lakehouse kafka acls` for the rights",
        )  # fmt: skip


def _examine_registry(settings: Settings) -> Iterator[Examined]:
    if settings.registry.embedded and find_registry(settings.registry.folder) is None:
        yield Examined("registry", "ok", "none is configured, and none runs; only Avro, Protobuf and JSON_SR need one")
        return
    open_registry(settings.registry).latest("lakehouse-doctor-asks")  # any answer will do
    yield Examined("registry", "ok", f"{settings.registry.url or 'the embedded one'} answers")


def _examine_lake(settings: Settings) -> Iterator[Examined]:
    store.use_store(settings.lake.path, settings.lake.options, single_writer=settings.lake.single_writer)
    layout = Layout(settings.lake.path)
    tick = reader.read_bronze_coverage(layout).tick
    tables = reader.table_names(layout, "silver")
    processes = "; ".join(
        f"{holder} keeps {', '.join(subjects)}" for holder, subjects in kept_by_holder(layout).items()
    )
    found = f"{layout.root}: tick {tick:,}, {len(tables)} tables" if tick else f"{layout.root}: no tick yet"
    yield Examined("lake", "ok", f"{found}; {processes}" if processes else found)


def _examine_clock(settings: Settings) -> Iterator[Examined]:
    """Compare this machine's clock with the newest commit of the lake: none can be made in the future."""
    layout = Layout(settings.lake.path)
    times = [
        facts.last_commit_ms
        for name in reader.table_names(layout, "silver")
        if (facts := reader.read_table_facts(layout, "silver", name)).last_commit_ms is not None
    ]
    now_text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ahead_seconds = max(times, default=0) / 1000 - time.time()
    if ahead_seconds > CLOCK_SECONDS:
        yield Examined(
            "clock", "problem", f"{now_text}, and the lake's newest commit is {ahead_seconds:,.0f} s later",
            "set the clock (NTP); reads by commit time go wrong until it has passed that moment",
        )  # fmt: skip
    else:
        yield Examined("clock", "ok", now_text)


def _examine_kept_spark(settings: Settings) -> Iterator[Examined]:
    from lakehouse.spark.jvm.kept.choice import keep_seconds
    from lakehouse.spark.jvm.kept.engine import kept_engines

    seconds = keep_seconds(settings.spark)
    engines = kept_engines()
    kept_text = f"kept for {seconds:,.0f} s" if seconds else "not kept between commands"
    running = f"; {len(engines)} running: `lakehouse spark status`" if engines else ""
    yield Examined("kept spark", "ok", kept_text + running)


def _secret_values(settings: Settings) -> list[str]:
    """Return the values that no report may show."""
    options = (settings.lake.options, settings.kafka.options, settings.spark.options, settings.airflow.options)
    values = [value for mapping in options for name, value in mapping.items() if SECRET.search(name)]
    values += [*settings.registry.secrets, settings.lineage.api_key or "", settings.airflow.database or ""]
    return sorted({value for value in values if value}, key=len, reverse=True)


def _without_secrets(examined: Examined, secrets: list[str]) -> Examined:
    found, advice = examined.found, examined.advice
    for secret in secrets:
        found, advice = found.replace(secret, MASK), advice.replace(secret, MASK)
    return Examined(examined.subject, examined.state, found, advice)


def as_report(findings: list[Examined]) -> str:
    """Return findings as Markdown, to paste into an issue."""
    rows = [
        f"| {item.subject} | {item.state} | {_markdown_cell(item.found)} | {_markdown_cell(item.advice)} |"
        for item in findings
    ]
    return "\n".join(["| subject | | found | to do |", "|---|---|---|---|", *rows])


def _markdown_cell(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1].replace("|", "\\|").replace('\\"', '"')
