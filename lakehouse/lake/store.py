"""The files of lakes, on this machine or in an object store, read without a JVM.

A path is that of a local folder, or a Hadoop URI such as s3a://bucket/lake. How a store is reached is said once, by
`use_store`, for files beside a lake by `use_source_store`; what is not said comes from the environment, as for other
programs of that store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast
from urllib.parse import quote

from lakehouse.durable import write_durably
from lakehouse.errors import StorageError
from lakehouse.file_faults import describe_misread_path

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from obstore.store import S3Config, S3Store

# By the name in [lake] options: that of delta-rs, and of Arrow's S3 file system.
NAMES = {
    "endpoint": ("aws_endpoint", "endpoint_override"),
    "region": ("aws_region", "region"),
    "access_key": ("aws_access_key_id", "access_key"),
    "secret_key": ("aws_secret_access_key", "secret_key"),
    "session_token": ("aws_session_token", "session_token"),
}
DEFAULT_REGION = "us-east-1"  # what servers other than Amazon's expect
S3 = "s3a://"
SILENCE_SECONDS = 15  # a store that does not answer for so long is away

_options_by_root: dict[str, Mapping[str, str]] = {}
_single_writer_roots: set[str] = set()
# Apart from the lakes: a lake may lie at the root of a bucket, or anywhere in it, and keeps what was said of it.
_options_by_source_root: dict[str, Mapping[str, str]] = {}


def use_store(root: str, options: Mapping[str, str], *, single_writer: bool = False) -> None:
    """Say how the store of the lake at `root` is reached in this process.

    options: those of [lake] options. single_writer: nobody else writes to the lake, so that it needs no leases.
    """
    if is_remote(root):
        _options_by_root[root] = dict(options)
        (_single_writer_roots.add if single_writer else _single_writer_roots.discard)(root)


def use_source_store(root: str, options: Mapping[str, str]) -> None:
    """Say how files below `root` are reached that belong to no lake. A lake's own files are reached as it says."""
    if is_remote(root):
        _options_by_source_root[root] = dict(options)


def is_remote(path: str) -> bool:
    """Say whether a path is a URI: not in a folder of this machine."""
    return "://" in path


def open_delta(path: str, version: int | None = None) -> DeltaTable:
    """Open a Delta table.

    Raises the errors of `deltalake`, such as TableNotFoundError; StorageError for a path that it would misread.
    """
    from deltalake import DeltaTable

    if message := describe_misread_path(path):
        raise StorageError(f"{message}.")
    if not is_remote(path):
        return DeltaTable(path, version=version)
    # By itself it asks a silent store for three minutes; while it reads a change feed, no other thread runs.
    options = {**delta_options(_options_of(path)), "retry_timeout": f"{SILENCE_SECONDS}s"}
    return DeltaTable(path, version=version, storage_options=options)


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


class StoreObject(NamedTuple):
    """An object as it is now. written_at: by the store's clock."""

    content: bytes
    written_at: datetime


def has_objects(path: str) -> bool:
    """Say whether `get_object` and its like can be used: on S3."""
    return path.startswith(S3)


def has_leases(path: str) -> bool:
    """Say whether leases are kept in the store of a path: on S3, unless its lake has a single writer."""
    return has_objects(path) and _root_of(path, _options_by_root) not in _single_writer_roots


def get_object(path: str) -> StoreObject | None:
    """Return an object of an S3 store; None if there is none. Raises StorageError."""
    import obstore

    with _object_store_of(path) as (object_store, key):
        try:
            answer = obstore.get(object_store, key)
            content = bytes(answer.bytes())
        except FileNotFoundError:
            return None
        return StoreObject(content, answer.meta["last_modified"])


def put_object(path: str, content: bytes, *, new: bool = False) -> bool:
    """Write an object of an S3 store whole, and say whether it was written.

    new: only if there is none; the store decides between two that write at once. Raises StorageError.
    """
    import obstore
    from obstore.exceptions import AlreadyExistsError

    with _object_store_of(path) as (object_store, key):
        try:
            obstore.put(object_store, key, content, mode="create" if new else "overwrite")
        except (AlreadyExistsError, FileExistsError):
            return False
        return True


def object_names(path: str) -> list[str]:
    """Return the names of the objects in a folder of an S3 store, sorted. Raises StorageError."""
    import obstore

    with _object_store_of(path) as (object_store, key):
        listing = obstore.list_with_delimiter(object_store, f"{key}/")
        return sorted(entry["path"].rpartition("/")[2] for entry in listing["objects"])


def object_names_below(path: str) -> list[str]:
    """Return the objects in a folder of an S3 store and in its folders, as paths from there. Raises StorageError."""
    return [file.path.removeprefix(f"{path}/") for file in objects_below(path)]


class StoredFile(NamedTuple):
    """An object's path, its bytes, and when it was written, by the store's clock."""

    path: str
    bytes: int
    written_at: datetime


def objects_below(path: str) -> list[StoredFile]:
    """Return the objects in a folder of an S3 store and in its folders, by their paths. Raises StorageError."""
    import obstore

    with _object_store_of(path) as (object_store, key):
        entries = [entry for chunk in obstore.list(object_store, f"{key}/") for entry in chunk]
    files = [
        StoredFile(f"{path}/{entry['path'].removeprefix(f'{key}/')}", entry["size"], entry["last_modified"])
        for entry in entries
    ]
    return sorted(files)


def delete_object(path: str) -> None:
    """Remove an object of an S3 store, if it is there. Raises StorageError."""
    import obstore

    with _object_store_of(path) as (object_store, key):
        obstore.delete(object_store, key)


def files_below(path: str) -> list[str]:
    """Return the paths of the files in a folder, and in its folders; none if there is no such folder."""
    if not is_remote(path):
        return sorted(str(file) for file in Path(path).rglob("*") if file.is_file())
    from pyarrow.fs import FileSelector

    with file_system_of(path) as (file_system, inner_path):
        root = inner_path(path)
        infos = file_system.get_file_info(FileSelector(root, allow_not_found=True, recursive=True))
    return [path + info.path.removeprefix(root) for info in infos if info.type.name == "File"]


def read_file(path: str) -> bytes:
    """Return the content of a file. Raises FileNotFoundError if there is none, StorageError, OSError."""
    if not is_remote(path):
        return Path(path).read_bytes()
    with file_system_of(path) as (file_system, inner_path):
        content: bytes = file_system.open_input_stream(inner_path(path)).readall()
    return content


def write_file(path: str, text: str) -> None:
    """Write a file of text whole, in place of the one before. Raises StorageError, OSError."""
    if not is_remote(path):
        write_durably(Path(path), text)
        return
    with file_system_of(path) as (file_system, inner_path), file_system.open_output_stream(inner_path(path)) as stream:
        stream.write(text.encode())


def remove_file(path: str) -> None:
    """Remove a file, if it is there. Raises StorageError, OSError."""
    if not is_remote(path):
        Path(path).unlink(missing_ok=True)
        return
    with file_system_of(path) as (file_system, inner_path), suppress(FileNotFoundError):
        file_system.delete_file(inner_path(path))


def copy_file(path: str, target: Path) -> None:
    """Copy a file of a store to this machine. Raises FileNotFoundError if it is gone, StorageError, OSError."""
    from pyarrow.fs import LocalFileSystem, copy_files

    target.parent.mkdir(parents=True, exist_ok=True)
    with file_system_of(path) as (file_system, inner_path):
        copy_files(inner_path(path), str(target), file_system, LocalFileSystem())


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
    for line_bytes in BytesIO(read_file(path)):  # at \n alone: a JSON text may have U+2028
        yield line_bytes.decode()


def _names_of(path: str, kind: Literal["Directory", "File"]) -> list[str]:
    if not is_remote(path):
        is_kind = os.DirEntry.is_dir if kind == "Directory" else os.DirEntry.is_file
        return sorted(entry.name for entry in os.scandir(path) if is_kind(entry)) if Path(path).is_dir() else []
    from pyarrow.fs import FileSelector

    with file_system_of(path) as (file_system, inner_path):
        infos = file_system.get_file_info(FileSelector(inner_path(path), allow_not_found=True))
    return sorted(info.base_name for info in infos if info.type.name == kind)


def _options_of(path: str) -> Mapping[str, str]:
    """Return the options of the lake, else of the source, that a path belongs to; none if nobody has named it."""
    if lake_root := _root_of(path, _options_by_root):
        return _options_by_root[lake_root]
    return _options_by_source_root.get(_root_of(path, _options_by_source_root), {})


def _root_of(path: str, named_roots: Iterable[str]) -> str:
    """Return the longest of the roots that a path lies below; an empty text if there is none."""
    roots = [root for root in named_roots if path == root or path.startswith(f"{root}/")]
    return max(roots, key=len, default="")


@contextmanager
def _object_store_of(path: str) -> Iterator[tuple[S3Store, str]]:
    """Give the client of a path's bucket, and the path's key in it; an error of the store becomes a StorageError."""
    from obstore.exceptions import BaseError

    bucket, _, key = path.removeprefix(S3).partition("/")
    options = tuple(sorted(_options_of(path).items()))
    try:
        yield _object_store(bucket, options), key
    except (BaseError, OSError, ValueError) as error:
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise StorageError(
            f"{path} can't be reached: {first_line}. Expected a bucket that this user may read and write. Look at "
            "[lake] options: endpoint, region, path_style, access_key, secret_key."
        ) from error


@lru_cache(maxsize=8)
def _object_store(bucket: str, options: tuple[tuple[str, str], ...]) -> S3Store:
    from obstore.store import S3Store

    config = delta_options(dict(options))
    allow_http = config.pop("aws_allow_http", "false") == "true"
    return S3Store(
        bucket,
        config=cast("S3Config", {**config, "aws_conditional_put": "etag"}),
        client_options={"allow_http": allow_http, "timeout": timedelta(seconds=SILENCE_SECONDS)},
        retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=SILENCE_SECONDS)},
    )


@contextmanager
def file_system_of(path: str) -> Iterator[tuple[Any, Callable[[str], str]]]:
    """Yield Arrow's file system of a path's store, and the function that makes its paths, which have no scheme.

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
