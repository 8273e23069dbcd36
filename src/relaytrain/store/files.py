"""The only module that opens files for writing, fsyncs, renames and removes.

A file appears under its name whole and durable, or not at all::

    create temp in the same folder -> write -> fsync -> rename over the name -> fsync the folder

Every step goes through a `FileOps` object that tests replace (`using(...)`) to count the steps, stop the process
before, after or in the middle of one, or make the n-th fail as a full disk does.
"""

from __future__ import annotations

import errno
import itertools
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from ..core.errors import NoSpace, RelayTrainError, UsageError

TEMP_PREFIX = ".tmp-"
"""How unfinished files begin; a process that was killed may leave one behind, never more than one a writer."""

NOT_THROUGH = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""How anything in a store is opened: a link is refused, and a pipe does not keep us waiting for its other end."""

Data = bytes | bytearray | memoryview
_REFUSED_BY_DISK = {errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO, errno.EFBIG}
_counter = itertools.count()


class FileOps:
    """The primitive steps, in the order in which `write_atomic` takes them; `commit` is the database's one."""

    def create(self, path: Path, mode: int) -> int:
        """Open a new file for writing; it must not exist."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)

    def append(self, path: Path, mode: int) -> int:
        """Open a file to add to its end, making it when it is missing; no link or pipe is followed."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | NOT_THROUGH, mode)

    def write(self, fd: int, data: memoryview) -> None:
        """Write all of `data`."""
        while data:
            data = data[os.write(fd, data) :]

    def sync(self, fd: int) -> None:
        """Make the file's bytes durable."""
        os.fsync(fd)

    def rename(self, source: Path, target: Path) -> None:
        """Put `source` in the place of `target` in one step."""
        os.replace(source, target)

    def sync_dir(self, path: Path) -> None:
        """Make the names in a folder durable."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError as error:
            if error.errno != errno.EINVAL:  # some network file systems cannot fsync a folder
                raise
        finally:
            os.close(fd)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        os.unlink(path)

    def make_dir(self, path: Path, mode: int) -> None:
        """Make one folder."""
        os.mkdir(path, mode)

    def commit(self, connection: sqlite3.Connection) -> None:
        """Commit the open transaction of the run store."""
        connection.execute("COMMIT")


_ops: ContextVar[FileOps] = ContextVar("relaytrain_file_ops")
_real = FileOps()


def ops() -> FileOps:
    """The steps in use."""
    return _ops.get(_real)


@contextmanager
def using(replacement: FileOps) -> Iterator[FileOps]:
    """Take other steps inside the block (for tests)."""
    token = _ops.set(replacement)
    try:
        yield replacement
    finally:
        _ops.reset(token)


def refused(error: OSError, what: str) -> RelayTrainError:
    """The error to raise when the operating system refused `what`, for example "write plan.json"."""
    reason = error.strerror or str(error)
    if error.errno in _REFUSED_BY_DISK:
        return NoSpace(f"cannot {what}: {reason}; free some space or choose another place, then try again")
    return UsageError(f"cannot {what}: {reason}; choose another place or correct its permissions")


def write_atomic(
    path: str | Path, data: Data | str | Iterable[Data], *, private: bool = False, durable: bool = True
) -> None:
    """Write a whole file: readers see the old content or the new, never a part.

    Args:
        path: the file; its folder must exist.
        data: bytes, or text to be written as UTF-8, or pieces, so that they need not be put together in memory.
        private: readable by the owner alone (mode 0600), as everything in the run store is.
        durable: on the disk before this returns; without it the file outlives this process, maybe not the machine.

    Raises:
        NoSpace: disk full, quota used up, read-only or failing.
        UsageError: no such folder, no permission.
    """
    path = Path(path)
    text = data.encode() if isinstance(data, str) else data
    pieces: Iterable[Data] = (text,) if isinstance(text, bytes | bytearray | memoryview) else text
    temp = path.with_name(f"{TEMP_PREFIX}{os.getpid()}-{next(_counter)}")
    step = ops()
    try:
        fd = step.create(temp, 0o600 if private else 0o666)
        try:
            try:
                for piece in pieces:
                    step.write(fd, memoryview(piece).cast("B"))
                if durable:
                    step.sync(fd)
            finally:
                os.close(fd)
            step.rename(temp, path)
        except BaseException:
            with suppress(OSError):
                step.remove(temp)
            raise
        if durable:
            step.sync_dir(path.parent)
    except OSError as error:
        raise refused(error, f"write {path}") from error


def append_lines(path: Path, data: bytes) -> None:
    """Add lines to the end of a private file, durably; what a crash or a full disk left of a line stays a line.

    Raises:
        NoSpace: disk full, quota used up, read-only or failing; a part of `data` may have arrived.
        UsageError: no permission, or something else than a file is there.
    """
    _append(path, data, 0o600, durable_lines=True)


def append_unsynced(path: str | Path, data: bytes) -> None:
    """Add bytes to the end of a file that others may be reading, as logs of other tools are; refused as lines are."""
    _append(Path(path), data, 0o666, durable_lines=False)


def _append(path: Path, data: bytes, mode: int, *, durable_lines: bool) -> None:
    step = ops()
    try:
        fd = step.append(path, mode)
        try:
            size = _regular(fd, path)
            torn = durable_lines and size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            step.write(fd, memoryview(b"\n" + data if torn else data))
            if durable_lines:
                step.sync(fd)
        finally:
            os.close(fd)
        if durable_lines and not size:
            step.sync_dir(path.parent)
    except OSError as error:
        raise refused(error, f"write {path}") from error


def open_regular(path: str | Path) -> int:
    """A descriptor for reading a file that is one: links, pipes, devices and folders are refused, none is waited for.

    Raises:
        OSError: it is missing, or cannot be opened, or is something else.
    """
    fd = os.open(path, os.O_RDONLY | NOT_THROUGH)
    try:
        _regular(fd, path)
    except OSError:
        os.close(fd)
        raise
    return fd


def read_regular(path: str | Path, limit_bytes: int) -> bytes:
    """The bytes of a file (see `open_regular`) of at most `limit_bytes`; OSError says why not."""
    with os.fdopen(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit_bytes:
            raise OSError(errno.EFBIG, f"{size:,} bytes, at most {limit_bytes:,} are read")
        return file.read(size)


def is_regular(path: str | Path) -> bool:
    """Whether a file, and no link to one, is there."""
    return stat.S_ISREG(_mode(path))


def is_odd(path: str | Path) -> bool:
    """Whether something is there that is no file; one look, for SQLite's own files come and go beside us."""
    try:
        return not stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def is_folder(path: str | Path) -> bool:
    """Whether a folder, and no link to one, is there."""
    return stat.S_ISDIR(_mode(path))


def _mode(path: str | Path) -> int:
    """What kind of thing is there, links not followed; 0 where nothing is."""
    try:
        return os.lstat(path).st_mode
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise
        return 0


def _regular(fd: int, path: str | Path) -> int:
    """The size of an open file; anything but a file is refused."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return status.st_size


def make_private(path: Path) -> None:
    """Make a file if it is missing, and readable by its owner alone; another owner's is left as it is."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOT_THROUGH, 0o600))
    with suppress(OSError):
        if is_regular(path) and os.lstat(path).st_mode & 0o077:
            os.chmod(path, 0o600)


def make_dir(path: str | Path, *, private: bool = False) -> Path:
    """Make a folder and the missing ones above it, durably; an existing one is left as it is."""
    path = Path(path)
    missing = list(itertools.takewhile(lambda p: not p.is_dir(), (path, *path.parents)))
    for folder in reversed(missing):
        try:
            ops().make_dir(folder, 0o700 if private else 0o777)
            ops().sync_dir(folder.parent)
        except FileExistsError:
            if not folder.is_dir():
                raise UsageError(f"cannot make folder {folder}: a file of that name exists") from None
        except OSError as error:
            raise refused(error, f"make folder {folder}") from error
    return path


def remove(path: str | Path) -> bool:
    """Remove a file; False when there was none."""
    try:
        ops().remove(Path(path))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise refused(error, f"remove {path}") from error
    return True


def move_into(paths: Iterable[Path], folder: Path) -> None:
    """Put files that are there aside, in `folder`, under their own names."""
    make_dir(folder, private=True)
    try:
        for path in paths:
            if is_regular(path):
                ops().rename(path, folder / path.name)
                ops().sync_dir(path.parent)
    except OSError as error:
        raise refused(error, f"move files into {folder}") from error


def put_in_place(source: Path, target: Path) -> None:
    """Make a file that something else wrote durable, and give it its name."""
    try:
        fd = open_regular(source)
        try:
            ops().sync(fd)
        finally:
            os.close(fd)
        ops().rename(source, target)
        ops().sync_dir(target.parent)
    except OSError as error:
        raise refused(error, f"write {target}") from error


def remove_dir(path: str | Path) -> None:
    """Remove an empty folder, if it is there and empty."""
    with suppress(OSError):
        os.rmdir(path)
