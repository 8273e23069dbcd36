"""The one SQLite file of a store folder: its tables, how it is opened, and what its errors mean.

WAL mode, `synchronous=FULL`: a transaction that was committed survives `kill -9` and a power cut. There is no other
journal.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..core.errors import NoSpace, RelayTrainError, ScenarioError, StoreDamaged, UsageError
from . import files

FILE_NAME = "runs.sqlite"
FORMAT = 1
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
        return StoreDamaged(f"{path}: {error}; run `relaytrain store check {path.parent}`, or restore it from a copy")
    if code in _BUSY:
        return UsageError(f"{path}: another process held it for {BUSY_TIMEOUT_S:g} s; try again")
    if code == sqlite3.SQLITE_CANTOPEN:
        return UsageError(f"cannot open {path}: {error}; check the folder and its permissions")
    return StoreDamaged(f"{path}: {error}; expected the tables of a RelayTrain store")


def exists(folder: Path) -> bool:
    """Whether `folder` holds a store."""
    return (folder / FILE_NAME).is_file()


def connect(folder: Path, *, create: bool = False) -> sqlite3.Connection:
    """Open a store; a newer format is refused, a creation that was interrupted is finished.

    Args:
        folder: the store's folder.
        create: make the folder (mode 0700) and the file when they are missing.
    """
    path = folder / FILE_NAME
    if not path.is_file():
        if not create:
            raise UsageError(f"{folder}: no RelayTrain store here; give its folder with --store or RELAYTRAIN_STORE")
        files.make_dir(folder, private=True)
    connection = _open(path)
    try:
        version = _version(connection)
        if version is None:
            _prepare(connection)
            files.ops().sync_dir(folder)
            version = _version(connection)
        if version != FORMAT:
            raise ScenarioError(
                f"{path}: store format {version}, this RelayTrain reads format {FORMAT}; "
                "a newer RelayTrain wrote it: upgrade this one, or choose another store"
            )
    except sqlite3.Error as error:
        connection.close()
        raise explain(error, path) from error
    except OSError as error:
        connection.close()
        raise files.refused(error, f"write {path}") from error
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def reading(folder: Path) -> Iterator[sqlite3.Connection]:
    """A connection for reading that is closed afterwards; SQLite's errors become ours."""
    connection = connect(folder)
    try:
        connection.execute("PRAGMA query_only = 1")
        yield connection
    except sqlite3.Error as error:
        raise explain(error, folder / FILE_NAME) from error
    finally:
        connection.close()


@contextmanager
def transaction(connection: sqlite3.Connection, folder: Path) -> Iterator[sqlite3.Connection]:
    """All or nothing: the block's writes are durable when it ends, and undone when it or the commit fails."""
    path = folder / FILE_NAME
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        files.ops().commit(connection)
    except sqlite3.Error as error:
        _undo(connection)
        raise explain(error, path) from error
    except OSError as error:
        _undo(connection)
        raise files.refused(error, f"write {path}") from error
    except BaseException:
        _undo(connection)
        raise


def _undo(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


def _open(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise explain(error, path) from error
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA trusted_schema = 0")  # a store from a stranger may hold views and triggers
    except sqlite3.Error as error:
        connection.close()
        raise explain(error, path) from error
    return connection


def _version(connection: sqlite3.Connection) -> int | None:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'format'").fetchone():
        return None
    row = connection.execute("SELECT max(version) FROM format").fetchone()
    return None if row is None or row[0] is None else int(row[0])


def _prepare(connection: sqlite3.Connection) -> None:
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
    connection.execute("BEGIN IMMEDIATE")
    try:
        for table in _TABLES:
            connection.execute(table)
        if _version(connection) is None:
            connection.execute("INSERT INTO format VALUES (?)", (FORMAT,))
        files.ops().commit(connection)
    finally:
        _undo(connection)
