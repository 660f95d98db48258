"""Opening, creating, refusing, reading and writing store files."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import select

from apl.errors import ConfigError, ForeignStoreError, ReadOnlyStoreError, SchemaVersionError, StoreError
from apl.state import engine, schema
from apl.state.engine import Store, bump_generation, read_meta, write_meta


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kb.db"


def create(path: Path) -> None:
    Store.open(path).close()


def content(folder: Path) -> dict[str, str]:
    """Every file of a folder with the hash of its bytes."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def run_sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def generation(store: Store) -> int:
    with store.reading() as connection:
        return int(read_meta(connection)["generation"])


def pretend_unwritable(monkeypatch: pytest.MonkeyPatch, *unwritable: Path) -> None:
    """Tests may run as root, whom no permission stops."""

    def access(asked: str | Path, mode: int) -> bool:
        return Path(asked) not in unwritable or mode != os.W_OK

    monkeypatch.setattr("apl.state.engine.os.access", access)


@contextmanager
def python(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Another process, ended when the block is left."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


# --- opening and creating ---------------------------------------------------------------------------------------------


def test_new_file_holds_the_schema(path: Path) -> None:
    """Opening a path that does not exist creates every table, the format, the version and generation 0."""
    with closing(Store.open(path)) as store:
        assert not store.read_only
        assert store.path == path
        with store.reading() as connection:
            values = read_meta(connection)
    assert values == {"format": "apl-codebook", "schema_version": str(schema.SCHEMA_VERSION), "generation": "0"}
    with closing(sqlite3.connect(path)) as raw:
        tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert tables - {"sqlite_sequence"} == set(schema.metadata.tables)


def test_empty_file_is_a_new_store(path: Path) -> None:
    """A file without a byte, as `mktemp` makes it, becomes a store."""
    path.touch()
    with closing(Store.open(path)) as store:
        assert generation(store) == 0


@pytest.mark.parametrize("prefix", ["", "sqlite:///", "sqlite+pysqlite:///"])
def test_path_and_url_name_the_same_file(path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store is found again by its absolute path, its relative path and its URL."""
    create(path)
    monkeypatch.chdir(path.parent)
    for location in (f"{prefix}{path}", f"{prefix}kb.db"):
        with closing(Store.open(location)) as store:
            assert store.path == path
    assert list(content(path.parent)) == ["kb.db"]


@pytest.mark.parametrize("name", ["a b.db", "what?.db", "50%25.db", "#1.db", "知识.db", "no-suffix"])
def test_any_file_name_is_taken_literally(tmp_path: Path, name: str) -> None:
    """Characters that mean something in a URI are part of the name."""
    create(tmp_path / name)
    assert list(content(tmp_path)) == [name]


@pytest.mark.parametrize(
    "location",
    [
        "",
        ":memory:",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "postgresql+psycopg://host/db",
        "s3://bucket/kb.db",
    ],
)
def test_what_is_no_file_is_a_config_error(tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory databases and other URL schemes are refused with the way to write a path, and nothing is created."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"give a path such as 'kb\.db'"):
        Store.open(location)
    assert content(tmp_path) == {}


@pytest.mark.parametrize("location", [None, 3, b"kb.db", ["kb.db"]])
def test_location_of_another_type_is_a_config_error(location: object) -> None:
    """The message names the type that was given."""
    with pytest.raises(ConfigError, match=type(location).__name__):
        Store.open(location)  # type: ignore[arg-type]


def test_folder_is_a_config_error(tmp_path: Path) -> None:
    """A folder is answered with the path of a file in it."""
    with pytest.raises(ConfigError, match=r"is a folder; give the path of a file in it, such as .*kb\.db"):
        Store.open(tmp_path)
    assert content(tmp_path) == {}


def test_missing_parent_is_a_store_error(tmp_path: Path) -> None:
    """No folder is created on the way to the file."""
    path = tmp_path / "absent" / "kb.db"
    with pytest.raises(StoreError, match="is not a folder; create it first") as caught:
        Store.open(path)
    assert caught.value.location == str(path)
    assert content(tmp_path) == {}


def test_two_processes_create_the_same_file_at_once(tmp_path: Path) -> None:
    """Both end with the same working store, whoever came first."""
    code = """
        import sys, time
        from apl.state.engine import Store, bump_generation
        print("ready", flush=True)
        start = float(sys.stdin.readline())
        for number in range(5):
            time.sleep(max(0, start + number * .2 - time.time()))
            store = Store.open(f"{sys.argv[1]}/{number}.db")
            with store.writing() as connection:
                bump_generation(connection)
            store.close()
        print("done", flush=True)
    """
    with python(code, tmp_path) as one, python(code, tmp_path) as other:
        assert [process.stdout.readline() for process in (one, other) if process.stdout] == ["ready\n", "ready\n"]
        outputs = []
        start = f"{time.time() + 0.2}\n"
        for process in (one, other):
            assert process.stdin is not None
            process.stdin.write(start)
            process.stdin.flush()
        outputs = [process.communicate(timeout=40)[0] for process in (one, other)]
    assert outputs == ["done\n", "done\n"]
    for number in range(5):
        with closing(Store.open(tmp_path / f"{number}.db")) as store:
            assert generation(store) == 2


def test_new_file_is_waited_for(path: Path) -> None:
    """While someone else holds the lock of a file that is no store yet, opening waits instead of failing."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.3, other.execute, ["ROLLBACK"])
        release.start()
        with closing(Store.open(path)) as store:
            assert generation(store) == 0
        release.join()


# --- refusing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("data", [b"x", b"Northstar acquired DeltaPay.\n" * 200, b'{"key": "value"}'])
def test_file_that_is_no_database_is_left_as_it_is(path: Path, data: bytes, read_only: bool) -> None:
    """A text file is foreign; its bytes stay, and no file appears beside it."""
    path.write_bytes(data)
    before = content(path.parent)
    with pytest.raises(ForeignStoreError, match="is not an apl store") as caught:
        Store.open(path, read_only=read_only)
    assert caught.value.location == str(path)
    assert content(path.parent) == before


def test_damaged_database_is_a_store_error(path: Path) -> None:
    """A file that only begins like a database is named, and left as it is."""
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    before = content(path.parent)
    with pytest.raises(StoreError, match=r"kb\.db could not be used"):
        Store.open(path)
    assert content(path.parent) == before


FOREIGN_SCHEMAS = {
    "no meta": ["CREATE TABLE notes (id INTEGER, body TEXT)", "INSERT INTO notes VALUES (1, 'DeltaPay')"],
    "meta of other columns": ["CREATE TABLE meta (id INTEGER, body TEXT)", "INSERT INTO meta VALUES (1, 'DeltaPay')"],
    "meta of another format": ["CREATE TABLE meta (key TEXT, value TEXT)", "INSERT INTO meta VALUES ('format', 'x')"],
    "meta without a format": ["CREATE TABLE meta (key, value)", "INSERT INTO meta VALUES ('schema_version', 1)"],
    "only a view": ["CREATE VIEW meta AS SELECT 'format' AS key, 'apl-codebook' AS value"],
}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize("statements", FOREIGN_SCHEMAS.values(), ids=FOREIGN_SCHEMAS)
def test_database_of_another_program_is_left_as_it_is(
    path: Path, statements: list[str], journal: str, read_only: bool
) -> None:
    """Another program's SQLite file is foreign; its bytes stay, and no -wal or -shm of ours stays beside it."""
    run_sql(path, f"PRAGMA journal_mode = {journal}", *statements)
    before = content(path.parent)
    with pytest.raises(ForeignStoreError, match="database of another program"):
        Store.open(path, read_only=read_only)
    assert content(path.parent) == before


def test_foreign_database_with_a_wal_is_left_as_it_is(path: Path) -> None:
    """What a killed program left in its -wal is neither moved into its file nor removed."""
    code = """
        import os, sqlite3, sys
        connection = sqlite3.connect(sys.argv[1])
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("CREATE TABLE notes (body)")
        connection.execute("INSERT INTO notes VALUES ('DeltaPay')")
        connection.commit()
        os._exit(0)
    """
    with python(code, path) as process:
        process.wait(timeout=20)
    before = content(path.parent)
    assert "kb.db-wal" in before
    with pytest.raises(ForeignStoreError):
        Store.open(path)
    after = content(path.parent)
    assert {name: after.get(name) for name in ("kb.db", "kb.db-wal")} == {
        name: before[name] for name in ("kb.db", "kb.db-wal")
    }


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(("version", "advice"), [(99, "upgrade apl-rag"), (0, "index the documents again")])
def test_other_schema_version_is_refused_with_advice(path: Path, version: int, advice: str, read_only: bool) -> None:
    """A newer file asks for an upgrade, an older one for a new index; the error carries both versions."""
    create(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'schema_version'", (version,))
    before = content(path.parent)["kb.db"]
    with pytest.raises(SchemaVersionError, match=advice) as caught:
        Store.open(path, read_only=read_only)
    assert (caught.value.found, caught.value.expected) == (version, schema.SCHEMA_VERSION)
    assert caught.value.location == str(path)
    assert content(path.parent)["kb.db"] == before


# --- read-only --------------------------------------------------------------------------------------------------------


def test_read_only_store_reads_and_refuses_every_write(path: Path) -> None:
    """`read_only=True` reads an existing store; a write raises before anything happens."""
    create(path)
    with closing(Store.open(path, read_only=True)) as store:
        assert store.read_only
        assert generation(store) == 0
        with pytest.raises(ReadOnlyStoreError, match="open for reading only") as caught, store.writing():
            pytest.fail("the block must not be entered")
    assert caught.value.location == str(path)


def test_read_only_store_leaves_nothing_in_the_folder(path: Path) -> None:
    """After reading, the folder holds what it held before."""
    create(path)
    before = content(path.parent)
    with closing(Store.open(path, read_only=True)) as store:
        generation(store)
    assert content(path.parent) == before


@pytest.mark.parametrize("touched", [False, True])
def test_read_only_never_creates_a_store(path: Path, touched: bool) -> None:
    """A missing or empty file nothing to read."""
    if touched:
        path.touch()
    before = content(path.parent)
    with pytest.raises(StoreError, match="nothing to read"):
        Store.open(path, read_only=True)
    assert content(path.parent) == before


def test_unwritable_file_in_unwritable_folder_is_read_in_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is opened immutable: nothing is created beside it, not even for a moment."""
    create(path)
    pretend_unwritable(monkeypatch, path, path.parent)
    with closing(Store.open(path)) as store:
        assert store.read_only
        assert generation(store) == 0
        assert list(content(path.parent)) == ["kb.db"]


def test_unwritable_folder_with_a_wal_is_not_read_as_immutable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies in the -wal is committed and has to be seen; `immutable=1` would overlook it."""
    with closing(Store.open(path)) as writer:
        with writer.writing() as connection:
            bump_generation(connection)
        pretend_unwritable(monkeypatch, path, path.parent)
        with closing(Store.open(path)) as store:
            assert store.read_only
            assert generation(store) == 1


def test_unwritable_file_in_writable_folder_sees_later_commits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file another user writes is not immutable: the reader follows."""
    create(path)
    with monkeypatch.context() as patched:
        pretend_unwritable(patched, path)
        store = Store.open(path)
    with closing(store), closing(Store.open(path)) as writer:
        assert store.read_only
        assert generation(store) == 0
        with writer.writing() as connection:
            bump_generation(connection)
        assert generation(store) == 1


def test_writable_file_in_unwritable_folder_is_read_only(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite writes beside the file too, so a folder that cannot be written makes the store read-only, not unusable."""
    create(path)
    pretend_unwritable(monkeypatch, path.parent)
    with closing(Store.open(path)) as store:
        assert store.read_only
        assert generation(store) == 0


# --- readers and writers ----------------------------------------------------------------------------------------------


def test_readers_do_not_wait_for_a_writing_process(path: Path) -> None:
    """While another process holds the write lock, a store opens and reads the old state at once."""
    create(path)
    code = """
        import sqlite3, sys
        connection = sqlite3.connect(sys.argv[1], isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE meta SET value = '7' WHERE key = 'generation'")
        print("locked", flush=True)
        sys.stdin.readline()
        connection.execute("COMMIT")
        print("committed", flush=True)
    """
    with python(code, path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        started = time.monotonic()
        with closing(Store.open(path)) as store:
            assert generation(store) == 0
            assert time.monotonic() - started < engine.BUSY_TIMEOUT_S / 6
            assert process.communicate("go\n", timeout=20)[0] == "committed\n"
            assert generation(store) == 7


def test_a_reading_block_sees_one_state(path: Path) -> None:
    """What is committed while a reader reads is seen by the next reader."""
    with closing(Store.open(path)) as store:
        with store.reading() as connection:
            assert read_meta(connection)["generation"] == "0"
            with store.writing() as writer:
                bump_generation(writer)
            assert read_meta(connection)["generation"] == "0"
        assert generation(store) == 1


def test_readers_cannot_write(path: Path) -> None:
    """A reading connection refuses an INSERT, on a writable store too."""
    with closing(Store.open(path)) as store:
        with pytest.raises(StoreError, match="readonly"), store.reading() as connection:
            write_meta(connection, {"tokenizer": "words"})
        with store.reading() as connection:
            assert "tokenizer" not in read_meta(connection)


def test_failing_block_leaves_nothing(path: Path) -> None:
    """An exception takes back everything its block wrote and comes out as it is."""
    with closing(Store.open(path)) as store:

        def fail() -> None:
            with store.writing() as connection:
                bump_generation(connection)
                write_meta(connection, {"tokenizer": "words"})
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        with store.reading() as connection:
            values = read_meta(connection)
    assert values["generation"] == "0"
    assert "tokenizer" not in values


def test_database_errors_are_store_errors_and_leave_nothing(path: Path) -> None:
    """A violated constraint is a `StoreError` that names the file; what came before it is taken back."""
    with closing(Store.open(path)) as store:

        def fail() -> None:
            with store.writing() as connection:
                connection.execute(schema.documents.insert(), [{"key": "d1"}])
                connection.execute(schema.documents.insert(), [{"key": "d1"}])

        with pytest.raises(StoreError, match=r"kb\.db could not be used: UNIQUE") as caught:
            fail()
        assert caught.value.location == str(path)
        with store.reading() as connection:
            assert connection.execute(select(schema.documents)).all() == []


def test_dangling_references_are_refused(path: Path) -> None:
    """Foreign keys are enforced for writers."""
    with (
        closing(Store.open(path)) as store,
        pytest.raises(StoreError, match="FOREIGN KEY"),
        store.writing() as connection,
    ):
        connection.execute(schema.edges.insert(), [{"head_id": 1, "relation_id": 1, "tail_id": 1}])


def test_writers_of_many_threads_queue(path: Path) -> None:
    """Read-then-write transactions of four threads all succeed and none is lost."""
    with closing(Store.open(path)) as store:

        def work() -> None:
            for _ in range(10):
                with store.writing() as connection:
                    bump_generation(connection)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
        assert generation(store) == 40


def test_waiting_too_long_for_a_writer_is_a_store_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the lock is never given back, the writer says so after the busy time-out."""
    monkeypatch.setattr("apl.state.engine.BUSY_TIMEOUT_S", 0.1)
    with closing(Store.open(path)) as one, closing(Store.open(path)) as other:
        with one.writing(), pytest.raises(StoreError, match="locked"), other.writing():
            pytest.fail("the block must not be entered")
        with other.writing() as connection:
            bump_generation(connection)
        assert generation(one) == 1


def test_closing_leaves_one_file(path: Path) -> None:
    """The last connection moves the -wal into the file."""
    with closing(Store.open(path)) as store:
        with store.writing() as connection:
            bump_generation(connection)
        assert generation(store) == 1
    assert list(content(path.parent)) == ["kb.db"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_forked_child_uses_connections_of_its_own(path: Path) -> None:
    """A child reads and writes through the store it inherited, without touching its parent's connections."""
    with closing(Store.open(path)) as store:
        with store.writing() as connection:
            bump_generation(connection)
        with store.reading() as connection:
            inherited = connection.connection.dbapi_connection
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with store.reading() as connection:
                    fresh = connection.connection.dbapi_connection is not inherited
                with store.writing() as connection:
                    bump_generation(connection)
                status = 0 if fresh and generation(store) == 2 else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with store.reading() as connection:
            assert connection.connection.dbapi_connection is inherited
        with store.writing() as connection:
            bump_generation(connection)
        assert generation(store) == 3
