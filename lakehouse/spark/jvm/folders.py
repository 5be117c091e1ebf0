"""Folders of the lake: of this machine, or of any file system that Hadoop knows (by pyarrow without internals).

A path with a scheme ("s3a://bucket/lake") is Hadoop's; a path without one is this machine's.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyarrow import fs
from pyspark.sql import SparkSession

from lakehouse.lake.store import file_system_of, is_remote
from lakehouse.spark.jvm.capability import Capability, choose_way
from lakehouse.spark.jvm.java import active_jvm, java_session

CHECKSUM_FILE = re.compile(r"\..*\.crc")  # Hadoop's own, beside each file of a local disk


def folder_exists(spark: SparkSession, path: str) -> bool:
    """Say whether there is such a folder, or file."""
    if not is_remote(path):
        return Path(path).exists()
    return choose_way(
        Capability.FILES,
        lambda: bool(_hadoop_system(spark, path).exists(_hadoop_path(path))),
        lambda: bool(_arrow_info(path).type != fs.FileType.NotFound),
    )


def files_exist(spark: SparkSession, uris: Iterable[str]) -> bool:
    """Say whether all of these files exist. uris: as Spark gives them, with escapes."""
    return all(folder_exists(spark, _path_of_uri(uri)) for uri in uris)


def create_folder(spark: SparkSession, path: str) -> None:
    """Create an empty folder; do nothing if it exists."""
    if not is_remote(path):
        Path(path).mkdir(parents=True, exist_ok=True)
        return
    choose_way(
        Capability.FILES,
        lambda: _hadoop_system(spark, path).mkdirs(_hadoop_path(path)),
        lambda: _arrow_system(path)[0].create_dir(_arrow_system(path)[1], recursive=True),
    )


def folder_names(spark: SparkSession, path: str) -> list[str]:
    """Return the names of the folders in a folder, in order; none if there is no such folder."""
    return [name for name, is_folder in _list_entries(spark, path) if is_folder]


def list_content(spark: SparkSession, path: str) -> list[str]:
    """Return the names of a folder's files and folders, in order; none if there is no such folder."""
    return [name for name, _ in _list_entries(spark, path)]


def remove_folder(spark: SparkSession, path: str) -> None:
    """Remove a folder and its content, or a file; do nothing if there is none."""
    if not is_remote(path):
        folder = Path(path)
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)
        else:
            folder.unlink(missing_ok=True)
        return
    choose_way(
        Capability.FILES,
        lambda: _hadoop_system(spark, path).delete(_hadoop_path(path), True),
        lambda: _remove_by_arrow(path),
    )


def folder_bytes(spark: SparkSession, path: str) -> int:
    """Return the bytes of all files below a folder."""
    if not is_remote(path):
        return sum(file.stat().st_size for file in Path(path).rglob("*") if _is_own_file(file))
    return choose_way(
        Capability.FILES,
        lambda: int(_hadoop_system(spark, path).getContentSummary(_hadoop_path(path)).getLength()),
        lambda: sum(info.size or 0 for info in _arrow_infos(path, recursive=True)),
    )


def read_lines(spark: SparkSession, path: str) -> Iterator[str]:
    """Yield the lines of a file, reading no further than needed. Raises FileNotFoundError if there is none."""
    if not is_remote(path):
        with Path(path).open(encoding="utf-8") as lines:
            for line in lines:
                yield line.rstrip("\n")
        return
    if not folder_exists(spark, path):
        raise FileNotFoundError(path)
    reader = choose_way(Capability.FILES, lambda: _HadoopLines(spark, path), lambda: None)
    if reader is not None:
        yield from reader.lines()
        return
    file_system, file = _arrow_system(path)
    with file_system.open_input_stream(file) as stream:
        for line_bytes in BytesIO(stream.read()):  # at \n alone: a JSON text may have U+2028
            yield line_bytes.decode().rstrip("\n")


def _is_own_file(file: Path) -> bool:
    return not CHECKSUM_FILE.fullmatch(file.name) and file.is_file()


def _path_of_uri(uri: str) -> str:
    """Return the path of a file that Spark names: without a scheme if it is one of this machine."""
    parts = urlsplit(uri)
    path = unquote(parts.path)
    return path if parts.scheme in ("", "file") else f"{parts.scheme}://{parts.netloc}{path}"


def _list_entries(spark: SparkSession, path: str) -> list[tuple[str, bool]]:
    """Return the names in a folder, in order, and whether each is a folder."""
    if not is_remote(path):
        folder = Path(path)
        entries = folder.iterdir() if folder.is_dir() else ()
        return sorted((entry.name, entry.is_dir()) for entry in entries if not CHECKSUM_FILE.fullmatch(entry.name))
    return sorted(choose_way(Capability.FILES, lambda: _list_by_hadoop(spark, path), lambda: _list_by_arrow(path)))


def _list_by_hadoop(spark: SparkSession, path: str) -> list[tuple[str, bool]]:
    folder, file_system = _hadoop_path(path), _hadoop_system(spark, path)
    statuses = file_system.listStatus(folder) if file_system.exists(folder) else ()
    return [(str(status.getPath().getName()), bool(status.isDirectory())) for status in statuses]


def _list_by_arrow(path: str) -> list[tuple[str, bool]]:
    return [(info.base_name, info.type == fs.FileType.Directory) for info in _arrow_infos(path, recursive=False)]


def _hadoop_path(path: str) -> Any:
    return active_jvm().org.apache.hadoop.fs.Path(path)


def _hadoop_system(spark: SparkSession, path: str) -> Any:
    return _hadoop_path(path).getFileSystem(java_session(spark).sessionState().newHadoopConf())


class _HadoopLines:
    """The lines of a file that Hadoop reads."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm = active_jvm()
        stream = _hadoop_system(spark, path).open(_hadoop_path(path))
        self._reader = jvm.java.io.BufferedReader(jvm.java.io.InputStreamReader(stream, "UTF-8"))

    def lines(self) -> Iterator[str]:
        try:
            while (line := self._reader.readLine()) is not None:
                yield line
        finally:
            self._reader.close()


def _arrow_system(path: str) -> tuple[fs.FileSystem, str]:
    """Return pyarrow's file system of a path, and the path in it."""
    with file_system_of(path) as (file_system, inner_path_of):
        return file_system, inner_path_of(path)


def _arrow_info(path: str) -> fs.FileInfo:
    file_system, inner_path = _arrow_system(path)
    return file_system.get_file_info(inner_path)


def _arrow_infos(path: str, *, recursive: bool) -> list[fs.FileInfo]:
    file_system, inner_path = _arrow_system(path)
    selector = fs.FileSelector(inner_path, allow_not_found=True, recursive=recursive)
    return [info for info in file_system.get_file_info(selector) if not CHECKSUM_FILE.fullmatch(info.base_name)]


def _remove_by_arrow(path: str) -> None:
    file_system, inner_path = _arrow_system(path)
    kind = _arrow_info(path).type
    if kind == fs.FileType.Directory:
        file_system.delete_dir(inner_path)
    elif kind != fs.FileType.NotFound:
        file_system.delete_file(inner_path)
