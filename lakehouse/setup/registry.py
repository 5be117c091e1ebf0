"""The schema registry's program: Ivy fetches one archive, which is unpacked beside it, once.

The folder's name has the archive's checksum: another version of lakehouse unpacks another one.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path

from lakehouse.errors import ConfigError, reason_of_error
from lakehouse.setup import jars

KIND = "registry"
DIGITS = 12


def registry_jar(jars_target: Path) -> Path:
    """Return where the jar is that starts the registry, whether it exists or not."""
    checksum, archive_name, _ = next(
        line.split() for line in jars.CHECKSUMS.read_text().splitlines() if f" {KIND}/" in line
    )
    program_name = Path(archive_name).name.removesuffix("-all.tar.gz")
    return jars_target / f"{KIND}-{checksum[:DIGITS]}" / f"{program_name}-runner.jar"


def fetch_registry(jars_target: Path) -> bool:
    """Fetch the archive and unpack it; return False if the program is there already.

    Raises ResolveError if the archive can't be fetched or is not the expected one, ConfigError if it can't be unpacked.
    """
    program_jar = registry_jar(jars_target)
    if program_jar.is_file():  # then nothing is written, so another account's jars can be used
        return False
    jars.resolve_jars(jars_target, (KIND,))
    archive = next((jars_target / KIND).glob("*.tar.gz"))
    with jars.locked_folder(jars_target), tempfile.TemporaryDirectory(prefix=jars.NEW, dir=jars_target) as folder_name:
        new_folder = Path(folder_name) / "unpacked"
        try:
            with tarfile.open(archive) as files:
                files.extractall(new_folder, filter="data")
            if not (new_folder / program_jar.name).is_file():
                raise ConfigError(f"Found no {program_jar.name} in {archive}; expected the registry's program.")
            if not program_jar.is_file():  # another process may have been quicker
                shutil.rmtree(program_jar.parent, ignore_errors=True)
                new_folder.rename(program_jar.parent)
        except (OSError, tarfile.TarError) as error:
            raise ConfigError(
                f"{archive} can't be unpacked into {jars_target}: {reason_of_error(error)}. Expected a folder that can "
                "be written, and 120 MB of space."
            ) from None
    return True
