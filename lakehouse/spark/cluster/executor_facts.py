"""Runs on an executor, which may lack lakehouse: what its Python has. Only the standard library may be imported."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import platform
import sys
from pathlib import Path

PACKAGES = ("pyarrow", "pandas", "numpy")
# The driver sends these to an executor that lacks any of them. `import lakehouse` needs no others beside the standard
# library, and they are pure Python.
SHIPPED = ("lakehouse", "sqlglot")


def describe_python() -> dict[str, str | None]:
    """Return an executor's Python: its version, file and host, the packages' versions, and lakehouse's digest.

    A package that is not there has None; so has lakehouse if something is not there that it imports.
    """
    facts: dict[str, str | None] = {
        "python": platform.python_version(),
        "file": sys.executable,
        "host": platform.node(),
    }
    for package in PACKAGES:
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            facts[package] = None
    package_specs = [importlib.util.find_spec(name) for name in SHIPPED]
    origin = package_specs[0].origin if package_specs[0] is not None and None not in package_specs else None
    facts["lakehouse"] = digest_files(Path(origin).parent) if origin and Path(origin).is_file() else None
    return facts


def digest_files(folder: Path) -> str:
    """Return a digest of the names and the content of a package's Python files."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(f"{file.relative_to(folder).as_posix()}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()
