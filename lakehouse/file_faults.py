"""Messages about files, folders and disks, in place of the traces of Python, Java and delta-rs."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from lakehouse.errors import ConfigError

# Errors of a folder, a file or the disk, and not of this program.
ADVICE = {
    errno.EACCES: "this user may not read or write it; change its owner or its mode, or name another",
    errno.EPERM: "this user may not do that with it; change its owner, or name another",
    errno.EROFS: "its file system can only be read; name another folder",
    errno.ENOSPC: "the disk is full; make room, or name another folder",
    errno.EDQUOT: "this user's quota is used up; make room, or name another folder",
    errno.ENOTDIR: "a part of its path is a file; expected a folder",
    errno.EISDIR: "it is a folder; expected a file",
    errno.ENAMETOOLONG: "its name is too long; choose a shorter one",
    errno.EMFILE: "this process has as many files open as it may; raise the limit, such as by ulimit -n 65536",
    errno.ENFILE: "this machine has as many files open as it may; end other programs, or raise fs.file-max",
}
# delta-rs: "Unable to open file /lake/x", and below it "(os error 13)".
_DELTA_RS = re.compile(r"file (/[^\n]+)\n[^\n]*\(os error (\d+)\)")
_TEXTS = {
    "No space left on device": errno.ENOSPC,
    "Disk quota exceeded": errno.EDQUOT,
    "Read-only file system": errno.EROFS,
    "Too many open files in system": errno.ENFILE,
    "Too many open files": errno.EMFILE,
    "Permission denied": errno.EACCES,
}
# Java: "IOException: No space left on device", "FileNotFoundException: /lake/x (Permission denied)",
# "FileSystemException: /lake/x: Read-only file system".
_JAVA = re.compile(
    r"(?:IOException|FileNotFoundException|FileSystemException): (?:(/[^\n()]*?)(?: \(|: ))?"
    rf"({'|'.join(map(re.escape, _TEXTS))})"
)
_JAVA_DENIED = re.compile(r"AccessDeniedException: (/[^\n]+)")
LITTLE_BYTES = 1 << 20
# delta-rs makes a URL of a path, and takes %20 for a space, \ for a slash, and control characters for nothing; in a URI
# what follows ? or # is not the path's. Spark, Arrow and obstore take a path as it is written.
_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f]")
_MISREAD_IN_URI = re.compile(rf"{_MISREAD.pattern}|[?#]")


def written_folders(lake_root: str) -> list[Path]:
    """Return the folders of this machine in which a run of a lake writes."""
    lake_folders = [] if "://" in lake_root else [Path(lake_root)]
    return [*lake_folders, Path(tempfile.gettempdir())]


def describe_file_fault(error: BaseException, folders: Iterable[Path] = ()) -> str | None:
    """Return a message for an error that a file, a folder or a disk caused; None for another error.

    folders: where files are written, of which a full one is named if the error names none.
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if (fault := _fault_of(cause)) is not None:
            path, number = fault
            if not path and number == errno.ENOSPC:
                path = ", ".join(str(folder) for folder in folders if _is_full(folder))
            message = f"{os.strerror(number)}: {ADVICE[number]}."
            return f"{path}: {message}" if path else message
        cause = cause.__cause__ or cause.__context__
    return None


def describe_misread_path(path: str) -> str | None:
    """Return a message, without its full stop, for a path that delta-rs reads as another; None otherwise."""
    match = (_MISREAD_IN_URI if "://" in path else _MISREAD).search(path)
    if match is None:
        return None
    return (
        f"found {match[0]!r} in {path!r}, with which delta-rs, which reads Delta tables without Spark, would look in "
        "another folder; expected a path without \\, control characters, % before two digits of a hexadecimal number, "
        "and for a store without ? and #. Rename the folder, or choose another"
    )


def expand_home(path: str | Path) -> Path:
    """Return a path with the folder that a leading ~ or ~user stands for. Raises ConfigError for one of nobody."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigError(
            f"found {str(path)!r}, but this machine knows no home folder of {Path(path).parts[0]}; expected a path "
            "that begins with a folder, such as /data/lake"
        ) from None


def resolve_path(path: str | Path, folder: Path = Path()) -> Path:
    """Return a path below a folder, absolute and without links. Raises ConfigError if its links lead nowhere."""
    try:
        return (folder / expand_home(path)).resolve()
    except RuntimeError:
        raise ConfigError(
            f"found {str(path)!r}, where a link leads back to itself; expected a path whose links end somewhere. "
            "`ls -l` shows them."
        ) from None


def _fault_of(error: BaseException) -> tuple[str, int] | None:
    """Return the path, empty if unknown, and the number of an error; None if it is about something else."""
    if isinstance(error, OSError) and error.errno in ADVICE:
        return os.fsdecode(error.filename) if error.filename is not None else "", error.errno
    text = str(error)
    if (match := _DELTA_RS.search(text)) and int(match[2]) in ADVICE:
        return match[1], int(match[2])
    if denied := _JAVA_DENIED.search(text):
        return denied[1].strip(), errno.EACCES
    faults = [(match[1] or "", _TEXTS[match[2]]) for match in _JAVA.finditer(text)]
    return next((fault for fault in reversed(faults) if fault[0]), faults[-1] if faults else None)


def _is_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < LITTLE_BYTES
    except OSError:
        return False
