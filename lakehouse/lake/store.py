"""The files of lakes, on this machine or in an object store, read without a JVM.

A path is that of a local folder, or a Hadoop URI such as s3a://bucket/lake. How a store is reached is said once, by
`use_store`; what is not said comes from the environment, as for other programs of that store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from lakehouse.errors import StorageError

if TYPE_CHECKING:
    from deltalake import DeltaTable

# By the name in [lake] options: that of delta-rs, and of Arrow's S3 file system.
NAMES = {
    "endpoint": ("aws_endpoint", "endpoint_override"),
    "region": ("aws_region", "region"),
    "access_key": ("aws_access_key_id", "access_key"),
    "secret_key": ("aws_secret_access_key", "secret_key"),
    "session_token": ("aws_session_token", "session_token"),
}
DEFAULT_REGION = "us-east-1"  # what servers other than Amazon's expect

_options_by_root: dict[str, Mapping[str, str]] = {}


def use_store(root: str, options: Mapping[str, str]) -> None:
    """Say how the store of the lake at `root` is reached in this process. options: those of [lake] options."""
    if is_remote(root):
        _options_by_root[root] = dict(options)


def is_remote(path: str) -> bool:
    """Say whether a path is a URI: not in a folder of this machine."""
    return "://" in path


def open_delta(path: str, version: int | None = None) -> DeltaTable:
    """Open a Delta table. Raises the errors of `deltalake`, such as TableNotFoundError."""
    from deltalake import DeltaTable

    if not is_remote(path):
        return DeltaTable(path, version=version)
    return DeltaTable(path, version=version, storage_options=delta_options(_options_of(path)))


def delta_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a store as delta-rs takes them."""
    delta_values = {NAMES[name][0]: value for name, value in options.items() if name in NAMES}
    if "endpoint" in options:
        delta_values.setdefault("aws_region", DEFAULT_REGION)
        delta_values["aws_allow_http"] = str(options["endpoint"].startswith("http://")).lower()
    if "path_style" in options:
        delta_values["aws_virtual_hosted_style_request"] = "false" if options["path_style"] == "true" else "true"
    return delta_values


def is_table(path: str | Path) -> bool:
    """Say whether a folder holds a Delta table: a log with a commit in it.

    Delta creates the log's folder before the first commit: a writer that is killed in between leaves it empty.
    """
    log_folder = f"{path}/_delta_log"
    if is_remote(str(path)):  # a long log is not listed: it begins with version 0, or with a checkpoint
        return any(file_exists(f"{log_folder}/{name}") for name in ("00000000000000000000.json", "_last_checkpoint"))
    return Path(log_folder).is_dir() and any(
        log_entry.name[:20].isdigit() and log_entry.name.endswith(".json") for log_entry in os.scandir(log_folder)
    )


def file_exists(path: str) -> bool:
    """Say whether there is such a file or folder."""
    return all_exist([path])


def all_exist(paths: Iterable[str]) -> bool:
    """Say whether all of these files exist; they lie in one store."""
    path_list = list(paths)
    if not path_list or not is_remote(path_list[0]):
        return all(map(os.path.exists, path_list))
    with file_system_of(path_list[0]) as (file_system, inner_path):
        infos = file_system.get_file_info([inner_path(path) for path in path_list])
    return all(info.type.name != "NotFound" for info in infos)


def folder_names(path: str) -> list[str]:
    """Return the names of the folders in a folder, sorted; none if there is no such folder."""
    return _names_of(path, "Directory")


def file_names(path: str) -> list[str]:
    """Return the names of the files in a folder, sorted; none if there is no such folder."""
    return _names_of(path, "File")


def read_lines(path: str) -> Iterator[str]:
    """Yield the lines of a file, reading no further than needed. Raises FileNotFoundError if there is none."""
    if not is_remote(path):
        with Path(path).open("rb") as lines:
            for line in lines:
                yield line.decode()
        return
    with file_system_of(path) as (file_system, inner_path):
        content = file_system.open_input_stream(inner_path(path)).readall()
    yield from content.decode().splitlines(keepends=True)


def _names_of(path: str, kind: Literal["Directory", "File"]) -> list[str]:
    if not is_remote(path):
        is_kind = os.DirEntry.is_dir if kind == "Directory" else os.DirEntry.is_file
        return sorted(entry.name for entry in os.scandir(path) if is_kind(entry)) if Path(path).is_dir() else []
    from pyarrow.fs import FileSelector

    with file_system_of(path) as (file_system, inner_path):
        infos = file_system.get_file_info(FileSelector(inner_path(path), allow_not_found=True))
    return sorted(info.base_name for info in infos if info.type.name == kind)


def _options_of(path: str) -> Mapping[str, str]:
    """Return the options of the lake that a path belongs to; none if nobody has said how it is reached."""
    roots = [root for root in _options_by_root if path == root or path.startswith(f"{root}/")]
    return _options_by_root[max(roots, key=len)] if roots else {}


@contextmanager
def file_system_of(path: str) -> Iterator[tuple[Any, Callable[[str], str]]]:
    """Give Arrow's file system of a path's store, and what makes a path one of its own: without the scheme.

    An error of the store in the block becomes a StorageError that names the path and the settings.
    """
    from pyarrow.fs import FileSystem

    scheme = path.partition("://")[0]
    try:
        if scheme == "s3a":
            file_system, prefix = _s3_file_system(_options_of(path)), f"{scheme}://"
        else:
            file_system, inner_path = FileSystem.from_uri(quote(path, safe="/:@?=&"))
            prefix = path.removesuffix(inner_path)
        yield file_system, lambda any_path: any_path.removeprefix(prefix)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise StorageError(
            f"{path} can't be read: {error}. Expected a store that this user may read. Look at [lake] options: "
            "endpoint, region, path_style, access_key, secret_key."
        ) from error


def _s3_file_system(options: Mapping[str, str]) -> Any:
    from pyarrow.fs import S3FileSystem

    arguments: dict[str, Any] = {NAMES[name][1]: value for name, value in options.items() if name in NAMES}
    if "endpoint_override" in arguments:
        scheme, _, host = arguments["endpoint_override"].rstrip("/").partition("://")
        arguments |= {"scheme": scheme, "endpoint_override": host}
        arguments.setdefault("region", DEFAULT_REGION)
    if "path_style" in options:
        arguments["force_virtual_addressing"] = options["path_style"] != "true"
    return S3FileSystem(**arguments)
