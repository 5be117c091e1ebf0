"""The log store for s3a: a Java class in a jar, compiled on this machine by the compiler that Spark ships.

So no binary stands in the project, and a Java runtime suffices. The jar's name has the digest of its source: another
version of lakehouse makes another jar.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

from lakehouse.errors import ConfigError
from lakehouse.setup.jars import NEW, find_java, locked_folder, without_variables

SOURCES = Path(__file__).with_name("java")
LOG_STORE = SOURCES / "ConditionalPutLogStore.java"
COMPILER = SOURCES / "Compile.java"
CLASS_NAME = "lakehouse.ConditionalPutLogStore"
DIGITS = 12
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first moment that a zip file knows: the same source gives the same bytes


def log_store_jar(jars_target: Path) -> Path:
    """Return where the jar of the log store is, whether it exists or not."""
    digest = hashlib.sha256(LOG_STORE.read_bytes()).hexdigest()[:DIGITS]
    return jars_target / "log-store" / f"conditional-put-log-store-{digest}.jar"


def build_log_store(jars_target: Path) -> bool:
    """Compile the log store; return False if its jar is there already. Raises ConfigError with the compiler's words."""
    jar = log_store_jar(jars_target)
    if jar.is_file():
        return False
    with locked_folder(jar.parent), tempfile.TemporaryDirectory(prefix=NEW, dir=jar.parent) as folder_name:
        folder = Path(folder_name)
        class_path = os.pathsep.join([f"{_pyspark_jars()}/*", f"{jars_target / 'spark'}/*"])
        compiling = subprocess.run(
            [
                *(find_java(), "-cp", class_path, "org.codehaus.janino.SimpleCompiler"),
                *(str(COMPILER), "Compile", str(LOG_STORE), str(folder)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        class_files = sorted(folder.rglob("*.class"))
        if compiling.returncode != 0 or not class_files:
            last_words = without_variables(compiling.stderr or compiling.stdout).strip()[-600:]
            raise ConfigError(
                f"{LOG_STORE.name} can't be compiled: {last_words}. "
                "Expected the jars of Spark and Delta of this version: run `lakehouse setup` first."
            )
        new_jar = folder / "new.jar"
        with zipfile.ZipFile(new_jar, "w") as archive:
            for file in class_files:
                archive.writestr(zipfile.ZipInfo(str(file.relative_to(folder)), EPOCH), file.read_bytes())
        new_jar.rename(jar)
    return True


def _pyspark_jars() -> Path:
    package = importlib.util.find_spec("pyspark")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "jars"
