"""The one SQLite file of a store folder: its tables, how it is opened, and what its errors mean.

WAL mode, `synchronous=FULL`: a transaction that was committed survives `kill -9` and a power cut. What SQLite cannot
see, that a part of it is gone, the trails beside it tell (`store/trail.py`).
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from ..core.errors import NoSpace, RelayTrainError, ScenarioError, StoreDamaged, UsageError
from . import events, files, trail

FILE_NAME = "runs.sqlite"
FILES = (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm", f"{FILE_NAME}-journal")
FORMAT = trail.STORE_FORMAT
OLDEST_FORMAT = 1
"""Format 1 had no trails, left the times out of a row's CRC, and knew a writer by its process. It is read as it is; the
first run that is started or resumed makes it format 2, which an older RelayTrain then refuses."""
BUSY_TIMEOUT_S = 30.0

_TABLES = (
    "CREATE TABLE IF NOT EXISTS format (version INTEGER NOT NULL)",
    """CREATE TABLE IF NOT EXISTS event (
        run TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, epoch INTEGER,
        fence INTEGER NOT NULL, wall_s REAL NOT NULL, session_s REAL NOT NULL,
        body TEXT NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (run, seq)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS lease (
        run TEXT PRIMARY KEY, fence INTEGER NOT NULL, holder TEXT, stop INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID""",
)

_NO_SPACE = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def explain(error: sqlite3.Error, path: Path) -> RelayTrainError:
    """Our error for one of SQLite's."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the kind, the rest the detail
    if code in _NO_SPACE:
        return NoSpace(f"cannot write {path}: {error}; free some space or permit writing, then `relaytrain resume`")
    if code in _DAMAGED:
        return StoreDamaged(f"{path}: {error}; {way_out(path.parent)}")
    if code in _BUSY:
        return UsageError(f"{path}: another process held it for {BUSY_TIMEOUT_S:g} s; try again")
    if code == sqlite3.SQLITE_CANTOPEN:
        return UsageError(f"cannot open {path}: {error}; check the folder and its permissions")
    return StoreDamaged(f"{path}: {error}; expected the tables of a RelayTrain store; {way_out(path.parent)}")


def way_out(folder: Path) -> str:
    """What to do about a damaged store."""
    return f"`relaytrain store repair {folder}` lists what is left and puts it together again"


def exists(folder: Path) -> bool:
    """Whether `folder` holds a store, or what is left of one."""
    return os.path.lexists(folder / FILE_NAME) or bool(trail.acknowledged_runs(folder))


def connect(folder: Path, *, create: bool = False, write: bool = False) -> sqlite3.Connection:
    """Open a store; a newer format is refused, a creation that was interrupted is finished.

    Args:
        folder: the store's folder.
        create: make the folder (mode 0700) and the file when they are missing.
        write: bring an older format up to this one.
    """
    path = folder / FILE_NAME
    if not os.path.lexists(path):
        if trail.acknowledged_runs(folder):
            raise StoreDamaged(f"{path} is missing, but trails of its runs are there; {way_out(folder)}")
        if not create:
            raise UsageError(f"{folder}: no RelayTrain store here; give its folder with --store or RELAYTRAIN_STORE")
        files.make_dir(folder, private=True)
    check_files(folder)
    connection = _open(path, private=create or write)
    try:
        with _system_explained(path):
            version = _version(connection)
            if version is None:
                if trail.acknowledged_runs(folder):  # tables come before trails: they were there
                    why = "its tables are gone, but trails of its runs are there"
                    raise StoreDamaged(f"{path}: {why}; {way_out(folder)}")
                prepare(connection)
                files.ops().sync_dir(folder)
                version = _version(connection)
            check_format(version, path)
            if version != FORMAT and (create or write):
                with _whole(connection):
                    connection.execute("UPDATE format SET version = ?", (FORMAT,))
    except BaseException:
        connection.close()
        raise
    return connection


def raw(folder: Path) -> sqlite3.Connection:
    """Open whatever is left of a database, for reading: nothing is checked, made or brought up."""
    if not files.is_regular(folder / FILE_NAME):
        raise UsageError(f"{folder / FILE_NAME}: missing")
    connection = _open(folder / FILE_NAME, private=False)
    try:
        version = _version(connection)
        if isinstance(version, int) and version > FORMAT and not trail.says_this_format(folder):
            check_format(version, folder / FILE_NAME)
    except BaseException:
        connection.close()
        raise
    return connection


def build(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Make a database at `path`, where none may be, with these rows and the leases they imply, nobody holding them."""
    with closing(_open(path, private=True)) as connection, _system_explained(path):
        prepare(connection)
        with _whole(connection):
            for row in rows:
                events.insert_row(connection, row)
            connection.execute("INSERT INTO lease (run, fence) SELECT run, max(fence) FROM event GROUP BY run")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def check_files(folder: Path) -> None:
    """Refuse links, pipes and devices in the place of the database's files."""
    for name in FILES:
        if files.is_odd(folder / name):
            raise StoreDamaged(f"{folder / name}: not a regular file; it is not followed: put the file itself there")


def check_format(version: object, path: Path) -> None:
    """Refuse a format that this RelayTrain does not read, and say which way leads out."""
    readable = isinstance(version, int) and OLDEST_FORMAT <= version <= FORMAT
    if not isinstance(version, int) or (not readable and trail.says_this_format(path.parent)):
        raise StoreDamaged(f"{path}: store format {version!r}, expected {FORMAT}; {way_out(path.parent)}")
    if version > FORMAT:
        raise ScenarioError(
            f"{path}: store format {version}, this RelayTrain reads formats {OLDEST_FORMAT} to {FORMAT}; "
            "a newer RelayTrain wrote it: upgrade this one, or choose another store"
        )
    if version < OLDEST_FORMAT:
        raise ScenarioError(
            f"{path}: store format {version} is older than {OLDEST_FORMAT}, the oldest that this RelayTrain reads; "
            "resume a run in it with an earlier RelayTrain, which brings it up, or choose another store"
        )


@contextmanager
def sqlite_explained(folder: Path) -> Iterator[None]:
    """SQLite's errors inside the block become ours, and no others."""
    try:
        yield
    except sqlite3.Error as error:
        raise explain(error, folder / FILE_NAME) from error


@contextmanager
def opened(folder: Path) -> Iterator[sqlite3.Connection]:
    """A connection that is closed afterwards; SQLite's errors become ours."""
    connection = connect(folder)
    try:
        with sqlite_explained(folder):
            yield connection
    finally:
        connection.close()


@contextmanager
def reading(folder: Path) -> Iterator[sqlite3.Connection]:
    """The same, for reading alone."""
    with opened(folder) as connection:
        connection.execute("PRAGMA query_only = 1")
        yield connection


@contextmanager
def transaction(connection: sqlite3.Connection, folder: Path) -> Iterator[sqlite3.Connection]:
    """All or nothing: the block's writes are durable when it ends, and undone when it or the commit fails."""
    with _system_explained(folder / FILE_NAME), _whole(connection):
        yield connection


@contextmanager
def _system_explained(path: Path) -> Iterator[None]:
    """SQLite's errors inside the block become ours, and those of the operating system."""
    try:
        yield
    except sqlite3.Error as error:
        raise explain(error, path) from error
    except OSError as error:
        raise files.refused(error, f"write {path}") from error


@contextmanager
def _whole(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, as the errors come."""
    try:
        connection.execute("BEGIN IMMEDIATE")  # Ctrl-C may be heard right behind it, and its lock is not to stay
        yield
        files.ops().commit(connection)
    finally:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")


def _open(path: Path, *, private: bool) -> sqlite3.Connection:
    with _system_explained(path):
        if private:
            files.make_private(path)  # SQLite gives its log the same mode
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        connection.text_factory = _text
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA trusted_schema = 0")  # a store from a stranger may hold views and triggers
        except BaseException:
            connection.close()
            raise
        return connection


def _text(data: bytes) -> str:
    """Text as it stands, so that one damaged byte costs its row (the CRC differs) and not every query."""
    return data.decode(errors="surrogateescape")


def _version(connection: sqlite3.Connection) -> Any:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'format'").fetchone():
        return None
    row = connection.execute("SELECT max(version) FROM format").fetchone()
    return None if row is None else row[0]


def prepare(connection: sqlite3.Connection) -> None:
    """WAL mode and the tables. Two processes may do this at once: the second waits, then finds all of it there."""
    deadline_s = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:  # the change of mode does not wait for locks by itself
            if error.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() > deadline_s:
                raise
            time.sleep(0.005)
    with _whole(connection):
        for table in _TABLES:
            connection.execute(table)
        if _version(connection) is None:
            connection.execute("INSERT INTO format VALUES (?)", (FORMAT,))
