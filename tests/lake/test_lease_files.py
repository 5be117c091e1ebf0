"""The files of leases on a disk: who may take a lease is what the umask says, as of the lake's other files."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakehouse.errors import StorageError
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.layout import Layout

GROUP = 54321


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize(("mask", "mode"), [(0o002, 0o664), (0o022, 0o644), (0o077, 0o600)])
def test_a_lease_has_the_mode_that_the_umask_leaves(
    tmp_path: Path, umask: Callable[[int], int], mask: int, mode: int
) -> None:
    umask(mask)
    path = Path(Layout(str(tmp_path / "lake")).lease("silver-visits"))
    with Lease(str(path), "table 'visits'"):
        assert path.stat().st_mode & 0o777 == mode


def take_as(account: int, path: str) -> int:
    """Take a lease, and give it back, as another account; return 0 if it could. It imports no more: it may not."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(GROUP)
            os.setuid(account)
            os.umask(0o002)
            with Lease(path, "table 'visits'"):
                os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two other accounts")
def test_the_accounts_of_a_group_take_a_lease_one_after_the_other() -> None:
    """In a folder of its own: pytest's are closed to other accounts."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        lake = Path(folder) / "lake"
        lake.mkdir()
        os.chown(lake, 0, GROUP)
        lake.chmod(0o2775)
        path = Layout(str(lake)).lease("silver-visits")
        assert [take_as(account, path) for account in (54322, 54323)] == [0, 0]


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks_is_no_other_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(handle: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StorageError, match=f"can't be locked: {os.strerror(number)}. Expected a file system with"):
        Lease(str(tmp_path / "lease"), "table 'visits'").acquire()


def test_a_lease_that_can_not_be_written_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "lease")

    def refuse(handle: int, text: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", refuse)
        with pytest.raises(OSError, match="No space left"):
            Lease(path, "table 'visits'").acquire()
    with Lease(path, "table 'visits'"):
        pass
