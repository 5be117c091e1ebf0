"""Sees each file that gets its name in a folder, at once: Linux's inotify, for all folders below it, new ones too."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
from collections.abc import Callable
from pathlib import Path

MOVED_TO, CREATED, IS_FOLDER, ONLY_FOLDERS = 0x80, 0x100, 0x40000000, 0x01000000
HEADER = struct.Struct("iIII")


class Renames:
    """A context that calls `on_rename` with the path of each file that was renamed into its place.

    paths: those of all of them, in order. It is called from a thread of its own, some microseconds later.
    """

    def __init__(self, root: Path, on_rename: Callable[[int, str], None]) -> None:
        """on_rename: takes the number, from 1 on, and the path below the root."""
        self.paths: list[str] = []
        self._root, self._on_rename = root, on_rename
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._folders: dict[int, str] = {}
        self._is_over = False

    def __enter__(self) -> Renames:
        self._handle = self._libc.inotify_init1(os.O_CLOEXEC)
        if self._handle < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._watch(str(self._root), "")
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over = True
        self._thread.join()
        os.close(self._handle)

    def _watch(self, path: str, name: str) -> None:
        """Watch a folder and those in it. A file that came before its folder was watched is taken for renamed."""
        number = self._libc.inotify_add_watch(self._handle, os.fsencode(path), MOVED_TO | CREATED | ONLY_FOLDERS)
        if number < 0:
            return  # it is gone again
        is_new = number not in self._folders
        self._folders[number] = name
        for entry in os.scandir(path) if is_new else ():
            if entry.is_dir(follow_symlinks=False):
                self._watch(entry.path, f"{name}{entry.name}/")

    def _read(self) -> None:
        while not self._is_over:
            if not select.select([self._handle], [], [], 0.1)[0]:
                continue
            data, place = os.read(self._handle, 1 << 20), 0
            while place < len(data):
                number, mask, _, length = HEADER.unpack_from(data, place)
                name = data[place + HEADER.size : place + HEADER.size + length].rstrip(b"\0").decode()
                place += HEADER.size + length
                path = f"{self._folders.get(number, '')}{name}"
                if mask & IS_FOLDER:
                    self._watch(str(self._root / path), f"{path}/")
                elif mask & MOVED_TO:
                    self.paths.append(path)
                    self._on_rename(len(self.paths), path)
