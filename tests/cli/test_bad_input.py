"""What does not fit is refused: one clear line, the class's exit code, nothing written."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hoodie import environment
from hoodie import table as library
from hoodie.model import commits, settings
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import addresses
from hoodie.write import sessions
from support.tables.command_line import SCHEMA, TRIPS, Answer, Run, put

HEADER = TRIPS.partition("\n")[0]


def refused(answer: Answer, code: int, message: str) -> None:
    assert answer.code == code, answer
    assert answer.out == ""
    error, *hints = answer.err.splitlines()
    assert re.search(message, error), error
    assert error.startswith("error: ")
    assert all(hint.startswith("hint: ") for hint in hints), hints


def files_of(table: Path) -> dict[str, int]:
    return {
        str(path.relative_to(table)): path.stat().st_mtime_ns
        for path in sorted(table.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def create(hoodie: Run, tmp_path: Path, schema: Path) -> Run:
    """Creates a table of trips, with more options or others."""

    def run(*options: str | Path) -> Answer:
        keys = () if "--record-key" in options else ("--record-key", "id")
        return hoodie("create", tmp_path / "new", "--schema", schema, *keys, *options)

    return run


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--record-key", "no"], 20, "--record-key 'no': the schema has no such column; its"),
        (["--record-key", "id,id"], 20, "--record-key 'id,id': 'id' is given twice"),
        (["--record-key", "id,"], 20, "--record-key 'id,': a name is empty"),
        (["--record-key", "fare"], 20, "'fare' is double"),
        (["--partition-by", "no"], 20, "--partition-by 'no': the schema has no such column"),
        (["--partition-by", "at"], 20, "'at'.* timestamp"),
        (["--ordering", "no"], 20, "--ordering 'no': the schema has no such column"),
        (["--ordering", "updated_at", "--merge", "commit-time"], 24, "--ordering updated_at with"),
        (["--merge", "event-time"], 24, "--merge event-time without --ordering"),
        (["--buckets", "0"], 2, "--buckets"),
        (["--buckets", "100001"], 20, "100001 buckets are too many, expected 100000 at most"),
        (["--table-version", "6"], 2, "'6' is not one of"),
    ],
)
def test_table_that_could_not_be_used_is_not_created(
    create: Run, tmp_path: Path, options: list[str], code: int, message: str
) -> None:
    refused(create(*options), code, message)
    assert not (tmp_path / "new").exists()


def test_table_is_created_once(create: Run, tmp_path: Path) -> None:
    assert create().code == 0
    before = files_of(tmp_path / "new")
    refused(create("--buckets", "2"), 23, "there already is a table in file:///.*/new")
    assert files_of(tmp_path / "new") == before


def test_schema_file_that_is_none_is_named(hoodie: Run, tmp_path: Path) -> None:
    bad = put(tmp_path / "bad.avsc", '{"type": "record"')
    for path, code, message in (
        (bad, 20, f"schema {bad}: .* is not JSON"),
        (tmp_path / "none.avsc", 22, "none.avsc: there is no such file"),
        (tmp_path / "t.json", 22, "t.json: there is no such file"),
        (tmp_path / "t.txt", 20, "t.txt: unknown file name extension"),
    ):
        answer = hoodie("create", tmp_path / "new", "--schema", path, "--record-key", "id")
        refused(answer, code, message)


@pytest.mark.parametrize(
    "bad",
    [
        ("t.csv", f"{HEADER}\n,Rome,1,1,1,,\n", [], 20, "t.csv: column 'id' is null in row 1"),
        ("t.csv", f"{HEADER}\na,Rome,x,1,1,,\n", [], 20, "'fare' has the value 'x' in row 1"),
        ("t.csv", f"{HEADER}\na,Rome\n", [], 20, "t.csv: .*[Ee]xpected 7 columns"),
        ("t.csv", f"{HEADER},more\na,Rome,1,1,1,,,1\n", [], 20, "the table has no column 'more'"),
        ("t.csv", "city\nRome\n", ["--operation", "delete"], 20, "column 'id' .* is missing"),
        ("t.csv", f'{HEADER}\n"a,b:c",Rome,1,1,1,,\n', [], 20, "'id' .* a comma and a colon"),
        ("t.csv", "", [], 20, "t.csv: "),
        ("t.json", '{"id": "a", "fare": "x"}\n', [], 20, "t.json: column 'fare' has the value 'x'"),
        ("t.json", '{"id": "a", "no": 1}\n', [], 20, "the table has no column 'no'"),
        ("t.parquet", "id\na\n", [], 20, "t.parquet: "),
        ("t.csv.gz", "id\na\n", [], 20, "t.csv.gz: zlib inflate failed"),
        ("t.txt", "id\na\n", [], 20, "input .*t.txt: unknown file name extension"),
    ],
)
def test_input_that_does_not_fit_is_named(
    hoodie: Run, table: Path, bad: tuple[str, str, list[str], int, str]
) -> None:
    name, content, options, code, message = bad
    before = files_of(table)
    path = put(table.parent / name, content)
    refused(hoodie("write", table, "--input", path, *options), code, message)
    assert files_of(table) == before


def test_missing_input_and_missing_table_are_named(hoodie: Run, table: Path, trips: Path) -> None:
    refused(hoodie("write", table, "--input", table.parent / "no.csv"), 22, "no.csv: there is no")
    for command in ("read", "describe", "timeline", "slices", "heartbeats", "check", "compact"):
        refused(hoodie(command, table.parent / "no"), 22, "there is no table in file:///.*/no")
    refused(hoodie("write", table.parent / "no", "--input", trips), 22, "there is no table in")
    refused(hoodie("rollback", table.parent / "no", "--all"), 22, "there is no table in")
    assert not (table.parent / "no").exists()


def test_null_ordering_value_is_refused(hoodie: Run, tmp_path: Path, schema: Path) -> None:
    table = tmp_path / "ordered"
    hoodie("create", table, "--schema", schema, "--record-key", "id", "--ordering", "updated_at")
    rows = put(tmp_path / "t.csv", f"{HEADER}\na,Rome,1,1,,,\n")
    refused(hoodie("write", table, "--input", rows), 20, "ordering field 'updated_at' is null")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--set", "hoodie.bucket.index.num.buckets=16"], 24, "bucket count differs: .*=16, .* 2$"),
        (["--set", "hoodie.table.type=COPY_ON_WRITE"], 24, "table type differs"),
        (["--set", "hoodie.index.type=BLOOM"], 24, "index type differs: .* the table has BUCKET"),
        (["--set", "hoodie.wrong=1"], 24, "--set hoodie.wrong: unknown setting"),
        (["--set", "hoodie.logfile.max.size=big"], 24, "hoodie.logfile.max.size is 'big', expec"),
        (["--concurrency", "nbcc", "--lock", "in-process"], 24, "--lock in-process with"),
        (["--lock", "nowhere"], 20, "'nowhere' is not a lock: expected in-process, filesystem,"),
        (["--batch-id", "b"], 20, "--batch-id needs --writer-id as well"),
        (["--writer-id", ""], 20, "writer id '' has 0 characters"),
        (["--delimiter", "ab"], 20, "--delimiter 'ab': expected one character"),
        (["--operation", "merge"], 2, "'merge' is not one of"),
        (["--concurrency", "both"], 2, "'both' is not one of"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    hoodie: Run, table: Path, trips: Path, options: list[str], code: int, message: str
) -> None:
    before = files_of(table)
    refused(hoodie("write", table, "--input", trips, *options), code, message)
    assert files_of(table) == before


@pytest.mark.parametrize("mode", ["occ", "nbcc"])
@pytest.mark.parametrize(
    "lock",
    [
        ["--lock", "in-process"],
        ["--set", "hoodie.write.lock.provider=InProcessLockProvider"],
        ["--set", "hoodie.write.lock.provider=NoopLockProvider"],
    ],
)
def test_several_writers_without_a_lock_between_them_are_refused(
    hoodie: Run, table: Path, trips: Path, mode: str, lock: list[str]
) -> None:
    """T-O19; where no lock is named it is a lock file beside the table."""
    answer = hoodie("write", table, "--input", trips, "--concurrency", mode, *lock)
    assert answer.code in (21, 24)
    assert "expected filesystem, zookeeper://" in answer.err or "supported are" in answer.err
    assert json.loads(hoodie("timeline", table, "--json").out)["instants"] == []
    assert hoodie("write", table, "--input", trips, "--concurrency", "occ").code == 0


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--operation", "bootstrap"], 2, "'bootstrap' is not one of"),
        (["--set", "hoodie.bootstrap.base.path=/old"], 24, "base.path: unknown setting"),
    ],
)
def test_bootstrap_is_refused_beside_others_and_alone(
    hoodie: Run, table: Path, trips: Path, options: list[str], code: int, message: str
) -> None:
    """T-O18, S56: there is none of ours."""
    for mode in ("single-writer", "occ", "nbcc"):
        given = ("--input", trips, "--concurrency", mode, *options)
        refused(hoodie("write", table, *given), code, message)


@pytest.mark.parametrize("arguments", [["compact"], ["rollback", "--all"]])
def test_table_service_without_the_writers_lock_is_refused(
    hoodie: Run, table: Path, trips: Path, arguments: list[str]
) -> None:
    """T-O26, S81: it is a process beside the writers, however many these are."""
    assert hoodie("write", table, "--input", trips).code == 0
    before = files_of(table)
    name, *rest = arguments
    refused(
        hoodie(name, table, *rest, "--lock", "in-process"),
        24,
        ("--lock in-process: the lock excludes no other process"),
    )
    assert files_of(table) == before


def test_lock_server_that_is_down_is_named(hoodie: Run, table: Path, trips: Path) -> None:
    lock = "zookeeper://127.0.0.1:1/hudi/trips?connection-timeout-s=0.5"
    answer = hoodie(
        *("write", table, "--input", trips, "--lock", lock),
        *("--set", "hoodie.write.lock.wait_time_ms=600"),
    )
    refused(answer, 11, "127.0.0.1:1")
    assert json.loads(hoodie("timeline", table, "--json").out)["instants"] == []


def set_property(table: Path, key: str, value: str) -> None:
    path = table / ".hoodie" / "hoodie.properties"
    lines = [
        f"{key}={value}" if line.startswith(f"{key}=") else line
        for line in path.read_text().splitlines()
    ]
    path.write_text("\n".join([*lines, ""]))


@pytest.mark.parametrize(
    ("key", "value", "code", "message"),
    [
        ("hoodie.table.version", "6", 21, "expected 8 or 9: upgrade it by CALL upgrade_table"),
        ("hoodie.table.version", "10", 21, "table version 10 is not read, expected 8 or 9$"),
        ("hoodie.populate.meta.fields", "false", 21, "expected rows with record keys of their own"),
        ("hoodie.table.version", "99", 21, "table version 99 is not read"),
        ("hoodie.timeline.layout.version", "1", 21, "timeline layout 1 is not read"),
        ("hoodie.record.merge.mode", "CUSTOM", 21, "custom merging by .* is not supported"),
        ("hoodie.table.checksum", "1", 31, "hoodie.table.checksum is 1"),
    ],
)
def test_table_of_another_kind_is_refused_by_name(
    hoodie: Run, table: Path, key: str, value: str, code: int, message: str
) -> None:
    """T-N01 (table version 6)."""
    set_property(table, key, value)
    refused(hoodie("read", table), code, message)


def test_corrupt_log_block_is_skipped_and_found(hoodie: Run, table: Path, trips: Path) -> None:
    for _ in range(2):
        assert hoodie("write", table, "--input", trips).code == 0
    log = max(table.glob(".0000000*log*"))
    log.write_bytes(log.read_bytes()[:-9])
    assert hoodie("read", table, "--json").code == 0
    answer = hoodie("check", table)
    assert answer.code == 1
    assert log.name in answer.out
    assert answer.out.startswith("error: ")
    assert hoodie("check", table, "--json").document["findings"]


@pytest.fixture
def open_write(table: Path) -> Iterator[sessions.WriteSession]:
    """A write of writer w that is under way."""
    env = environment.system()
    opened = library.open_table(str(table), env)
    transaction = manager.TransactionOptions(
        settings=settings.WriteSettings(concurrency=settings.ConcurrencyMode.NON_BLOCKING),
        lock=addresses.FileSystemAddress(),
        author=authors.Author(writer_id="w"),
    )
    options = sessions.WriteOptions(operation=commits.Operation.UPSERT, transaction=transaction)
    session = opened.begin_write(options, opened.schema.arrow.names)
    assert isinstance(session, sessions.WriteSession)
    yield session
    session.abort(has_tasks_left=False)


def test_two_writers_with_one_id_are_refused(
    hoodie: Run, table: Path, trips: Path, open_write: sessions.WriteSession
) -> None:
    nbcc = ("--concurrency", "nbcc", "--writer-id")
    same = hoodie("write", table, "--input", trips, *nbcc, "w")
    refused(same, 10, f"w.*{open_write.requested_time}")
    overlapping = hoodie("write", table, "--input", trips, *nbcc, "other")
    refused(overlapping, 24, "'w'.*sharing columns at, city, day, fare, seats, updated_at")
    refused(
        hoodie("write", table, "--input", trips),
        10,
        "expected no other writer; .*--concurrency occ",
    )


def test_pending_instant_is_a_note_while_its_heartbeat_is_fresh(
    hoodie: Run, table: Path, open_write: sessions.WriteSession
) -> None:
    fresh = hoodie("check", table)
    assert (fresh.code, fresh.err) == (0, "no findings, 1 note\n")
    assert fresh.out.startswith(f"note: {open_write.requested_time} deltacommit inflight: ")
    (beat,) = (table / ".hoodie" / ".heartbeat").glob(f"{open_write.requested_time}*")
    os.utime(beat, (0, 0))
    silent = hoodie("check", table)
    assert silent.code == 1
    assert silent.err.startswith(f"1 finding\nhint: `hoodie rollback {table} --all` rolls back")
    assert silent.out.startswith(f"error: {open_write.requested_time} deltacommit inflight: ")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--columns", "id,no"], 22, "there is no column 'no'; the columns are .*id, city"),
        (["--where", "no = 1"], 22, "there is no column 'no'"),
        (["--where", "fare ="], 20, "filter 'fare =', character 7: found the end, expected a num"),
        (["--where", "fare = 'x'"], 20, "column 'fare' is of type double: it cannot be compared"),
        (["--where", "city = 1.50"], 20, "column 'city' is of type string: .* with 1.50$"),
        (["--output", "rows.txt"], 20, "output rows.txt: expected a file named"),
        (["--output", "no/rows.csv"], 20, "output no/rows.csv: there is no such folder"),
        (["--limit", "-1"], 2, "--limit"),
    ],
)
def test_reading_what_is_not_there_is_refused(
    hoodie: Run, table: Path, options: list[str], code: int, message: str
) -> None:
    refused(hoodie("read", table, *options), code, message)


def test_limit_of_any_size_is_one(hoodie: Run, table: Path, trips: Path) -> None:
    assert hoodie("write", table, "--input", trips).code == 0
    everything = hoodie("read", table)
    assert everything.out.count("\n") > 1
    assert hoodie("read", table, "--limit", str(10**30)).out == everything.out


def test_rows_are_not_put_into_the_table_itself(hoodie: Run, table: Path) -> None:
    before = files_of(table)
    answer = hoodie("read", table, "--output", table / "rows.parquet")
    refused(answer, 20, "rows.parquet lies in the table's own folder")
    assert files_of(table) == before


def test_compaction_that_is_not_planned_is_refused(hoodie: Run, table: Path) -> None:
    for instant, code, message in (
        ("20130101000000000", 22, "there is no instant 20130101000000000"),
        ("yesterday", 20, "'yesterday' is not an instant time"),
    ):
        refused(hoodie("compact", table, "--execute", instant), code, message)
    both = hoodie("compact", table, "--schedule", "--execute", "20130101000000000")
    refused(both, 2, "expected at most one of --schedule and --execute")


@pytest.mark.parametrize(
    "uri", ["s3://id:secret@bucket/table", "s3://id:se/cret@bucket/table", "gs://x:secret@b"]
)
def test_credentials_in_a_uri_are_refused_and_not_shown(hoodie: Run, uri: str) -> None:
    answer = hoodie("timeline", uri, "--json")
    assert answer.code == 20
    assert "secret" not in answer.out + answer.err
    assert "se/cret" not in answer.out + answer.err


@pytest.mark.parametrize("uri", ["ftp://host/table", "http://host/table"])
def test_scheme_without_storage_is_named(hoodie: Run, uri: str) -> None:
    refused(hoodie("read", uri), 21, "unsupported scheme")


def test_errors_are_a_document_too(hoodie: Run, tmp_path: Path) -> None:
    for argv, code, kind in (
        (("read", tmp_path / "no"), 22, "NotFound"),
        (("read",), 2, "Usage"),
        (("nonsense",), 2, "Usage"),
    ):
        answer = hoodie(*argv, "--json")
        assert answer.code == code
        assert answer.document["error"]["kind"] == kind
        assert answer.err.startswith(f"error: {answer.document['error']['message']}")


def test_schema_of_the_tests_is_valid(hoodie: Run, tmp_path: Path) -> None:
    path = put(tmp_path / "ok.avsc", json.dumps(SCHEMA))
    assert hoodie("create", tmp_path / "t", "--schema", path, "--record-key", "id").code == 0
