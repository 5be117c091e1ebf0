"""The hash of all that is fixed when an engine starts: a command takes up an engine only if it would start the same."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyspark

from lakehouse.setup.places import PACKAGE

# These differ between two terminals, two notebooks, or two commands of one terminal, and nothing in Java or in a worker
# depends on them. Every other variable counts: a login, a time zone, a path.
IRRELEVANT = re.compile(
    r"_|SHLVL|PWD|OLDPWD|COLUMNS|LINES|TERM|COLORTERM|WINDOWID|DISPLAY|TMUX.*|STY|WINDOW|VTE_VERSION|GPG_TTY|"
    r"TERM_(PROGRAM|SESSION).*|SSH_(TTY|CLIENT|CONNECTION)|XDG_SESSION_ID|PYTEST_CURRENT_TEST|JPY_.*|LAKEHOUSE_DECIDED_BY"
)
JAR_SETTINGS = ("spark.driver.extraClassPath", "spark.jars")
CONFIGURATION_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR")


def hash_of_start(settings: Mapping[str, str], keep_seconds: float, environ: Mapping[str, str]) -> str:
    """Return the hash of a start with these settings of Spark, in this process's folder and environment."""
    spark_home = Path(environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    folder_facts = Path.cwd().stat()
    facts = {
        "versions": [importlib.metadata.version(name) for name in ("lakehouse", "pyspark", "delta-spark", "py4j")],
        "python": [sys.version, sys.executable, sys.prefix],
        "java": _file_facts(_java_programs(environ)),
        "lakehouse": _file_facts(_package_files()),
        "settings": dict(settings),
        "keep": keep_seconds,
        "jars": dict(_jar_digests(settings)),
        "spark": [str(spark_home), _file_facts((spark_home / "jars").glob("*.jar"))],
        "configuration": _file_facts(_configuration_files(spark_home, environ)),
        "environ": {name: value for name, value in environ.items() if not IRRELEVANT.fullmatch(name)},
        "folder": [str(Path.cwd()), folder_facts.st_dev, folder_facts.st_ino],  # Java reads relative paths there
        "account": [os.getuid(), os.getgid(), sorted(os.getgroups()), _file_mode_mask()],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def _file_mode_mask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _file_facts(paths: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Return paths with the size and time of their files: they change with a file's content."""
    facts = [(str(path), path.stat()) for path in paths if path.is_file()]
    return sorted((name, fact.st_size, fact.st_mtime_ns) for name, fact in facts)


def _java_programs(environ: Mapping[str, str]) -> Iterator[Path]:
    folders = [f"{home}/bin"] if (home := environ.get("JAVA_HOME")) else environ.get("PATH", "").split(os.pathsep)
    for folder in folders:
        yield Path(folder, "java").resolve()


def _package_files() -> Iterator[Path]:
    for folder, _, names in os.walk(PACKAGE):
        for name in names:
            if not name.endswith(".pyc"):
                yield Path(folder, name)


def _configuration_files(spark_home: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    folders = [spark_home / "conf", *(Path(environ[name]) for name in CONFIGURATION_FOLDERS if environ.get(name))]
    for folder in folders:
        yield from folder.glob("*")


def _jar_digests(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Give each named jar with the hash of its content: a jar that somebody builds has one name and many contents."""
    for name in JAR_SETTINGS:
        for text in re.split(r"[:,]", settings.get(name, "")):
            if text and Path(text).is_file():
                with Path(text).open("rb") as jar:
                    yield text, hashlib.file_digest(jar, "blake2b").hexdigest()
