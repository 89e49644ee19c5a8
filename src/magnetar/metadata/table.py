"""The sqlite file under the embedded store: rows, versions, sessions, and the effect of each operation inside a
transaction.

Everything here runs on the one thread of the lane. An operation checks and refuses before its first write, so a refusal
concerns only its caller. A failure of the file concerns all callers: nothing of that transaction happened, or for
`StorageFailed` its outcome is unknown.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from magnetar.base.errors import (
    BadVersion,
    Conflict,
    Corrupt,
    MagnetarError,
    Misuse,
    NotEmpty,
    NotFound,
    StorageFailed,
    StorageFull,
)
from magnetar.base.limits import METADATA_PAGE_BYTES_MAX, METADATA_PAGE_NODES_MAX
from magnetar.metadata.path_checks import shown, split
from magnetar.metadata.store import ABSENT, Change, Event, Node, Stat

MAGIC = 0x4D474E54  # "MGNT" in the file's header (PRAGMA application_id)
FORMAT = 1

_TABLES = """
CREATE TABLE node (
  parent TEXT NOT NULL, name TEXT NOT NULL,
  value BLOB,                -- NULL: never written, it only has children
  version INTEGER NOT NULL, created INTEGER NOT NULL, ctime INTEGER NOT NULL, mtime INTEGER NOT NULL,
  session INTEGER,           -- of an ephemeral
  PRIMARY KEY (parent, name)) WITHOUT ROWID;
CREATE INDEX node_session ON node (session) WHERE session IS NOT NULL;
CREATE TABLE sequence (prefix TEXT PRIMARY KEY, next INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counter VALUES ('version', 0), ('session', 0);
"""


class Operation(Protocol):
    """Runs on the lane's thread inside the transaction. It may refuse only before its first write."""

    def __call__(self, table: Table, /) -> Any: ...


class BatchResult(NamedTuple):
    answers: list[Any]  # a result or a MagnetarError each
    events: list[Event]


class Table:
    """The sqlite file: everything here runs on the lane's thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._events: list[Event] = []
        self._version = 0
        self._session = 0
        self._db: sqlite3.Connection

    def open(self, now: int) -> int:
        try:
            self._db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=0)
        except sqlite3.Error as error:
            raise _translated(error, self._path) from error
        try:
            return self._prepare()
        except sqlite3.Error as error:
            self._db.close()
            raise _translated(error, self._path) from error
        except MagnetarError:
            self._db.close()
            raise

    def _prepare(self) -> int:
        db = self._db
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        magic, version = (
            db.execute("PRAGMA application_id").fetchone()[0],
            db.execute("PRAGMA user_version").fetchone()[0],
        )
        fresh = not db.execute("SELECT 1 FROM sqlite_master").fetchone()
        if not fresh and magic != MAGIC:
            raise Corrupt("this is not a metadata file of Magnetar: choose another data directory", path=self._path)
        if not fresh and version > FORMAT:
            raise Corrupt(
                "the metadata file was written by a newer Magnetar: start that version, or restore a backup",
                path=self._path,
                format=version,
                format_known=FORMAT,
            )
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN IMMEDIATE")
        if fresh:
            for statement in filter(str.strip, _TABLES.split(";\n")):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {MAGIC}")
            db.execute(f"PRAGMA user_version = {FORMAT}")
        self._version = db.execute("SELECT value FROM counter WHERE name = 'version'").fetchone()[0]
        self.new_session(reap=True)
        self._keep_version()
        db.execute("COMMIT")
        self._events.clear()
        return self._session

    def run(self, works: list[Operation]) -> BatchResult:
        """Runs all operations in one transaction; a refusal concerns one operation, a failure of the file all of
        them."""
        answers: list[Any] = []
        before, session = self._version, self._session
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for work in works:
                try:
                    answers.append(work(self))
                except MagnetarError as refusal:
                    answers.append(refusal)
            if self._version != before:
                self._keep_version()
            self._db.execute("COMMIT")
        except BaseException as error:
            self._version, self._session = before, session
            self._events.clear()
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise _translated(error, self._path) from error
            raise
        events, self._events = self._events, []
        return BatchResult(answers, events)

    def close(self) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._reap(every=True)
            self._keep_version()
            self._db.execute("COMMIT")
        except sqlite3.Error:
            pass  # a file that cannot be written loses its ephemerals at the next opening instead
        self._events.clear()
        self._db.close()

    def abandon(self) -> None:
        self._db.close()

    # Reads

    def get(self, path: str) -> Node | None:
        row = self._row(path)
        if row is None or row.value is None:
            return None
        return Node(row.value, self._stat(path, row))

    def names(self, parent: str, after: str, limit: int) -> list[str]:
        rows = self._db.execute(
            "SELECT name FROM node WHERE parent = ? AND name > ? ORDER BY name LIMIT ?", (parent, after, limit)
        )
        return [name for (name,) in rows]

    def page(self, parent: str, after: str, limit: int) -> tuple[list[tuple[str, Node]], bool]:
        """(nodes, whether more may follow): ends at `limit` nodes, or earlier at METADATA_PAGE_BYTES_MAX."""
        rows: Iterator[Any] = self._db.execute(
            "SELECT name, value, version, created, ctime, mtime, session FROM node"
            " WHERE parent = ? AND name > ? AND value IS NOT NULL ORDER BY name",
            (parent, after),
        )
        nodes: list[tuple[str, Node]] = []
        size = 0
        for name, *rest in rows:
            row = Row(*rest)
            assert row.value is not None
            nodes.append((name, Node(row.value, self._stat(f"{parent}/{name}", row))))
            size += len(row.value)
            if len(nodes) == limit or size >= METADATA_PAGE_BYTES_MAX:
                return nodes, True
        return nodes, False

    # Writes: look first, refuse, then write

    def put(
        self, path: str, value: bytes, expected: int | None, now: int, *, ephemeral: bool, sequential: bool
    ) -> Stat:
        number = -1
        prefix = path
        if sequential:
            next_row = self._db.execute("SELECT next FROM sequence WHERE prefix = ?", (prefix,)).fetchone()
            number = next_row[0] if next_row else 0
            while self._row(f"{prefix}{number:010d}") is not None:
                number += 1
            path = f"{prefix}{number:010d}"
        row = self._row(path)
        exists = row is not None and row.value is not None
        if expected is not None and expected != (row.version if row is not None and exists else ABSENT):
            raise BadVersion(
                "the record does not have the expected version",
                path=path,
                expected=expected,
                found=row.version if row else ABSENT,
            )
        if row is not None and not exists and ephemeral:
            raise Misuse("a record with children cannot be ephemeral", path=path)
        parent, name = split(path)
        if row is None:
            self._make_parents(parent, now)
        self._version += 1
        if sequential:
            self._db.execute("INSERT OR REPLACE INTO sequence VALUES (?, ?)", (prefix, number + 1))
        if row is not None and exists:
            self._db.execute(
                "UPDATE node SET value = ?, version = ?, mtime = ? WHERE parent = ? AND name = ?",
                (value, self._version, now, parent, name),
            )
            self._events.append(Event(Change.MODIFIED, path))
            return self._stat(path, row._replace(version=self._version, mtime=now))
        new = Row(value, self._version, self._version, now, now, self._session if ephemeral else None)
        self._db.execute("INSERT OR REPLACE INTO node VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (parent, name, *new))
        self._events.append(Event(Change.CREATED, path))
        if row is None:
            self._events.append(Event(Change.CHILDREN_CHANGED, shown(parent)))
        return self._stat(path, new)

    def delete(self, path: str, expected: int | None) -> None:
        row = self._row(path)
        if row is None:
            raise NotFound("the record does not exist", path=path)
        if expected is not None and row.value is not None and expected != row.version:
            raise BadVersion(
                "the record does not have the expected version", path=path, expected=expected, found=row.version
            )
        if self.names_any(path):
            raise NotEmpty("the record has children", path=path)
        self._remove(*split(path))

    def delete_some(self, path: str) -> bool:
        """Deletes a page of the tree below `path`, deepest first so that a crash leaves no child without its parents;
        finally the node itself."""
        below = "SELECT parent, name FROM node WHERE parent > ? AND parent < ? ORDER BY parent DESC, name DESC LIMIT ?"
        rows = self._db.execute(below, (path + "/", path + "0", METADATA_PAGE_NODES_MAX)).fetchall()
        if not rows:
            direct = "SELECT parent, name FROM node WHERE parent = ? LIMIT ?"
            rows = self._db.execute(direct, (path, METADATA_PAGE_NODES_MAX)).fetchall()
        for parent, name in rows:
            if self._row(f"{parent}/{name}") is not None:  # pruned already when its last child went
                self._remove(parent, name)
        if rows:
            return True
        if path and self._row(path) is not None:
            self._remove(*split(path))
        return False

    def new_session(self, *, reap: bool) -> int:
        """`reap`: ends the ephemerals of every other session now."""
        self._session = self._db.execute("SELECT value FROM counter WHERE name = 'session'").fetchone()[0] + 1
        self._db.execute("UPDATE counter SET value = ? WHERE name = 'session'", (self._session,))
        if reap:
            self._reap(every=False)
        return self._session

    def names_any(self, parent: str) -> bool:
        return self._db.execute("SELECT 1 FROM node WHERE parent = ? LIMIT 1", (parent,)).fetchone() is not None

    def _keep_version(self) -> None:
        self._db.execute("UPDATE counter SET value = ? WHERE name = 'version'", (self._version,))

    def _reap(self, *, every: bool) -> None:
        rows = self._db.execute(
            "SELECT parent, name FROM node WHERE session IS NOT NULL AND (? OR session <> ?) ORDER BY parent, name",
            (every, self._session),
        ).fetchall()
        for parent, name in rows:
            self._remove(parent, name)

    def _row(self, path: str) -> Row | None:
        row = self._db.execute(
            "SELECT value, version, created, ctime, mtime, session FROM node WHERE parent = ? AND name = ?", split(path)
        ).fetchone()
        return None if row is None else Row(*row)

    def _stat(self, path: str, row: Row) -> Stat:
        return Stat(
            path,
            row.version,
            row.version == row.created,
            row.ctime,
            row.mtime,
            row.session is not None,
            row.session == self._session,
        )

    def _make_parents(self, path: str, now: int) -> None:
        if not path:
            return
        row = self._row(path)
        if row is not None:
            if row.session is not None:
                raise Misuse("an ephemeral record must not have children", path=path)
            return
        parent, name = split(path)
        self._make_parents(parent, now)
        self._db.execute("INSERT INTO node VALUES (?, ?, NULL, -1, -1, ?, ?, NULL)", (parent, name, now, now))
        self._events.append(Event(Change.CHILDREN_CHANGED, shown(parent)))

    def _remove(self, parent: str, name: str) -> None:
        """Deletes a row, and its parents that were never written and have no child left."""
        row = self._row(f"{parent}/{name}")
        self._db.execute("DELETE FROM node WHERE parent = ? AND name = ?", (parent, name))
        self._version += 1
        if row is not None and row.value is not None:
            self._events.append(Event(Change.DELETED, f"{parent}/{name}"))
        self._events.append(Event(Change.CHILDREN_CHANGED, shown(parent)))
        if parent and not self.names_any(parent):
            above = self._row(parent)
            if above is not None and above.value is None:
                self._remove(*split(parent))


class Row(NamedTuple):
    value: bytes | None
    version: int
    created: int
    ctime: int
    mtime: int
    session: int | None


def _translated(error: sqlite3.Error, path: str) -> MagnetarError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StorageFull("the disk is full and nothing was written: free space, then start again", path=path)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Conflict("another process holds the metadata file: stop it, or choose another data directory", path=path)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Corrupt(f"the metadata file is damaged ({error}): restore a backup", path=path)
    return StorageFailed(f"the metadata file cannot be used: {error}", path=path)
