"""Opening a store: one SQLite file, a reading and a writing engine, and the checks that keep foreign files safe.

Readers open deferred transactions with `query_only` and never take the write lock; writers begin immediately, so
that two of them queue instead of failing half way. The pools are emptied in a forked child.
"""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, insert, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from apl.errors import ConfigError, ForeignStoreError, ReadOnlyStoreError, SchemaVersionError, StoreError
from apl.state import schema

BUSY_TIMEOUT_S = 30.0
_GENERATION = select(schema.meta.c.value).where(schema.meta.c.key == "generation")
_URL_PREFIXES = ("sqlite+pysqlite:///", "sqlite:///")


class Store:
    """An open store. Use `Store.open`; every method is safe from many threads.

    Attributes:
        path: The file.
        read_only: True when nothing can be written.
    """

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.path = path
        self.read_only = read_only
        reader_uri = _uri(path, _access_mode(path))
        self._reader = _engine(reader_uri, begin="BEGIN", query_only=True)
        self._writer = None if read_only else _engine(reader_uri, begin="BEGIN IMMEDIATE", query_only=False)
        _dispose_after_fork(self)

    @classmethod
    def open(cls, location: str | os.PathLike[str], *, read_only: bool = False) -> Store:
        """Open or create the store at a path or `sqlite:///` URL.

        Args:
            location: Path or URL of the file.
            read_only: Open for reading even where writing would be possible.

        Raises:
            ConfigError: The location is no file.
            ForeignStoreError: The file is not an apl store.
            SchemaVersionError: The store was written by an older or newer apl.
            StoreError: The file cannot be opened or created.
        """
        path = _path_of(location)
        is_new = not path.exists() or path.stat().st_size == 0
        if is_new and read_only:
            raise StoreError(f"{path} does not exist or is empty, so there is nothing to read", location=str(path))
        if not path.parent.is_dir():
            raise StoreError(f"{path.parent} is not a folder; create it first", location=str(path))
        is_new = is_new or not _is_apl_store(path)
        writable = is_new or _access_mode(path) == "mode=rw"
        store = cls(path, read_only=read_only or not writable)
        try:
            if is_new:
                store._create()
            store._check()
        except BaseException:
            store.close()
            raise
        return store

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection on one consistent state; never waits for a writer and takes no write lock."""
        with _plain_errors(self.path), self._reader.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection whose work happens whole or not at all.

        Raises:
            ReadOnlyStoreError: The store was opened for reading.
        """
        if self._writer is None:
            raise ReadOnlyStoreError(
                f"{self.path} is open for reading only; open it where the file can be written to change it",
                location=str(self.path),
            )
        with _plain_errors(self.path), self._writer.connect() as connection, connection.begin():
            yield connection

    def close(self) -> None:
        """Close every connection of this process."""
        for engine in self._engines():
            engine.dispose()

    def _engines(self) -> list[Engine]:
        return [engine for engine in (self._reader, self._writer) if engine is not None]

    def _forget_connections(self) -> None:
        for engine in self._engines():
            engine.dispose(close=False)

    def _create(self) -> None:
        """Create the tables of a new store; a store that another process created meanwhile is left as it is."""
        with self.writing() as connection:
            if connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar():
                return
            schema.metadata.create_all(connection)
            first = {"format": schema.STORE_FORMAT, "schema_version": str(schema.SCHEMA_VERSION), "generation": "0"}
            connection.execute(insert(schema.meta), [{"key": key, "value": value} for key, value in first.items()])

    def _check(self) -> None:
        with self.reading() as connection:
            values = read_meta(connection)
        found = int(values.get("schema_version", "0"))
        if found != schema.SCHEMA_VERSION:
            newer = found > schema.SCHEMA_VERSION
            mend = "upgrade apl-rag to open it" if newer else "index the documents again into a new file"
            raise SchemaVersionError(
                f"{self.path} has schema version {found}, this apl reads {schema.SCHEMA_VERSION}: {mend}",
                location=str(self.path),
                found=found,
                expected=schema.SCHEMA_VERSION,
            )


def read_meta(connection: Connection) -> Mapping[str, str]:
    """All rows of `meta`."""
    return {row.key: row.value for row in connection.execute(select(schema.meta.c.key, schema.meta.c.value))}


def read_generation(connection: Connection) -> int:
    """How often the store has changed in a way that can alter a payload."""
    return int(connection.execute(_GENERATION).scalar_one())


def write_meta(connection: Connection, values: Mapping[str, str]) -> None:
    """Set rows of `meta`."""
    known = read_meta(connection)
    for key, value in values.items():
        if key in known:
            connection.execute(update(schema.meta).where(schema.meta.c.key == key).values(value=value))
        else:
            connection.execute(insert(schema.meta).values(key=key, value=value))


def bump_generation(connection: Connection) -> None:
    """Say that payloads may differ from now on: caches of an older generation are stale."""
    write_meta(connection, {"generation": str(read_generation(connection) + 1)})


def _path_of(location: str | os.PathLike[str]) -> Path:
    if not isinstance(location, str | os.PathLike):
        raise ConfigError(f"a store is opened by its path or sqlite:/// URL, not by {type(location).__name__}")
    name = os.fspath(location)
    for prefix in _URL_PREFIXES:
        if name.startswith(prefix):
            name = name[len(prefix) :]
    if "://" in name or not name or name == ":memory:":
        raise ConfigError(
            f"{location!r} is not a file: give a path such as 'kb.db' or a URL such as 'sqlite:///kb.db'; "
            "for a throw-away store use a temporary folder"
        )
    path = Path(name).absolute()
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; give the path of a file in it, such as {path / 'kb.db'}")
    return path


def _access_mode(path: Path) -> str:
    """How the file can be opened: SQLite writes beside it, so writing needs file and folder.

    `immutable` is for a file that nobody can be writing: in a folder that cannot be written, without a `-wal`.
    """
    folder_writable = os.access(path.parent, os.W_OK)
    if not path.exists():
        return "mode=rwc"
    if folder_writable and os.access(path, os.W_OK):
        return "mode=rw"
    return "mode=ro" if folder_writable or _has_wal(path) else "mode=ro&immutable=1"


def _has_wal(path: Path) -> bool:
    return Path(f"{path}-wal").exists()


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(str(path))}?{mode}"


def _is_apl_store(path: Path) -> bool:
    """True for an apl store, False for an empty database; looks without touching anything.

    Raises:
        ForeignStoreError: The file is something else.
        StoreError: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            header = file.read(16)
        if header != b"SQLite format 3\0":
            raise ForeignStoreError(
                f"{path} is not an apl store and was left as it is; give apl a file of its own", location=str(path)
            )
        mode = "mode=ro" if _has_wal(path) else "mode=ro&immutable=1"
        with closing(sqlite3.connect(_uri(path, mode), uri=True, timeout=BUSY_TIMEOUT_S)) as connection:
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return False
            query = (
                "SELECT 1 FROM meta WHERE key = 'format' AND value = ? "
                "AND EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta')"
            )
            found = connection.execute(query, (schema.STORE_FORMAT,)).fetchone()
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error}", location=str(path)) from error
    except sqlite3.OperationalError as error:
        if "no such" not in str(error):
            raise StoreError(f"{path} could not be used: {error}", location=str(path)) from error
        found = None
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path} could not be used: {error}", location=str(path)) from error
    if not found:
        raise ForeignStoreError(
            f"{path} is a database of another program and was left as it is; give apl a file of its own",
            location=str(path),
        )
    return True


def _engine(uri: str, *, begin: str, query_only: bool) -> Engine:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, check_same_thread=False)
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT_S * 1000)}")
        if query_only:
            connection.execute("PRAGMA query_only = ON")
        else:
            connection.execute("PRAGMA foreign_keys = ON")
            _use_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
        return connection

    engine = create_engine("sqlite+pysqlite://", creator=connect, poolclass=QueuePool, pool_size=8, max_overflow=64)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch a new file to WAL; where another process does the same this instant, wait for it."""
    give_up = time.monotonic() + BUSY_TIMEOUT_S
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.01)


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    """Say in one sentence what the database driver says in a page."""
    try:
        yield
    except DBAPIError as error:
        raise StoreError(f"{path} could not be used: {error.orig}", location=str(path)) from error
    except sqlite3.Error as error:
        raise StoreError(f"{path} could not be used: {error}", location=str(path)) from error


def _dispose_after_fork(store: Store) -> None:
    reference: Callable[[], Any] = weakref.ref(store)

    def forget() -> None:
        alive = reference()
        if alive is not None:
            alive._forget_connections()

    os.register_at_fork(after_in_child=forget)
