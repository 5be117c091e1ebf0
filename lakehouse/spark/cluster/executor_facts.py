"""Runs on an executor, which may lack lakehouse: what its Python has. Only the standard library may be imported."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import platform
import sys
from pathlib import Path

PACKAGES = ("pyarrow", "pandas", "numpy")


def describe_python() -> dict[str, str | None]:
    """Return an executor's Python: its version, file and host, the packages' versions, and lakehouse's digest.

    A package that is not there has None.
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
    package_spec = importlib.util.find_spec("lakehouse")
    origin = None if package_spec is None else package_spec.origin
    facts["lakehouse"] = digest_files(Path(origin).parent) if origin and Path(origin).is_file() else None
    return facts


def digest_files(folder: Path) -> str:
    """Return a digest of the names and the content of a package's Python files."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(f"{file.relative_to(folder).as_posix()}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()
