"""The storage-based lock: bytes, whose leases it respects, lost answers, its audit log."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hoodie import errors, identity
from hoodie.background.threads import ThreadBackground
from hoodie.clock import SystemClock
from hoodie.storage.local import LocalStorage
from hoodie.transaction.locks import addresses, opening, storage_lock_file
from hoodie.transaction.locks.leases import LeasedLock
from hoodie.transaction.locks.protocol import LockOwner, LockProvider
from hoodie.transaction.locks.storage_lock_file import Lease

# Made by the Apache Hudi 1.2.0 bundle (StorageLockFile.toByteArray).
HUDI_BYTES = (
    '{"expired":false,"validUntil":1764000000123,'
    '"owner":"wr\u00efter \\"a\\" \\\\ (pid 1 on h) 3f"}'
).encode()
HUDI_LEASE = Lease(
    is_expired=False, valid_until_ms=1764000000123, owner='wr\u00efter "a" \\ (pid 1 on h) 3f'
)
FAR_MS = 2**42


class OffsetClock(SystemClock):
    """The machine's clock, some time off."""

    def __init__(self) -> None:
        self.offset_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.offset_ms


Open = Callable[[str], LockProvider]


@pytest.fixture
def clock() -> OffsetClock:
    return OffsetClock()


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(str(tmp_path))


@pytest.fixture
def open_lock(storage: LocalStorage, clock: OffsetClock) -> Iterator[Open]:
    opened = []

    def open_another(name: str) -> LockProvider:
        random = identity.SystemRandom()
        lock = opening.open_lock(
            addresses.StorageAddress(validity_s=300, renew_interval_s=100),
            storage,
            LockOwner(id=random.uuid(), name=name, process=identity.current_process()),
            waiting_clock=clock,
            random=random,
            background=ThreadBackground(),
        )
        opened.append(lock)
        return lock

    yield open_another
    for lock in opened:
        lock.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".hoodie" / ".locks" / "table_lock.json"


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_lease_has_the_bytes_of_apache_hudi() -> None:
    assert storage_lock_file.encode(HUDI_LEASE) == HUDI_BYTES
    assert storage_lock_file.decode(HUDI_BYTES, "file") == HUDI_LEASE


def test_unknown_fields_are_read_over() -> None:
    content = b'{"validUntil": 5, "x": [], "expired": true, "owner": ""}'
    lease = storage_lock_file.decode(content, "file")
    assert lease == Lease(is_expired=True, valid_until_ms=5, owner="")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1]",
        b"{}",
        b'{"expired":false,"validUntil":1}',
        b'{"expired":null,"validUntil":1,"owner":"a"}',
        b'{"expired":false,"validUntil":"1","owner":"a"}',
        b'{"expired":false,"validUntil":1,"owner":null}',
    ],
)
def test_file_that_holds_no_lease_is_a_format_error(
    open_lock: Open, path: Path, content: bytes
) -> None:
    _write(path, content)
    with pytest.raises(errors.FormatError, match=r"table_lock\.json is not a lock file"):
        open_lock("we").acquire(0)
    assert path.read_bytes() == content


def test_file_says_who_and_until_when_and_then_that_it_is_free(
    open_lock: Open, path: Path, clock: OffsetClock
) -> None:
    """T-L14."""
    lock = open_lock("writer schedules")
    before_ms = clock.now_ms()
    lock.acquire(0)
    taken = json.loads(path.read_bytes())
    assert list(taken) == ["expired", "validUntil", "owner"]
    assert taken["expired"] is False
    assert before_ms + 300_000 <= taken["validUntil"] <= clock.now_ms() + 300_000
    assert re.fullmatch(r"writer schedules \(pid \d+ on \S+\) [0-9a-f-]{36}", taken["owner"])
    assert lock.fencing_token == taken["validUntil"]
    lock.release()
    assert json.loads(path.read_bytes()) == {**taken, "expired": True}


def test_lease_of_apache_hudi_is_respected_until_half_a_second_after_its_end(
    open_lock: Open, path: Path, clock: OffsetClock
) -> None:
    """T-L14."""
    end_ms = clock.now_ms() + 60_000
    lease = Lease(is_expired=False, valid_until_ms=end_ms, owner="5f9c-of-hudi")
    _write(path, storage_lock_file.encode(lease))
    clock.offset_ms = 60_000
    lock = open_lock("we")
    with pytest.raises(errors.LockTimeoutError, match=r"held by 5f9c-of-hudi, whose lease has"):
        lock.acquire(0)
    clock.offset_ms = 60_600
    lock.acquire(0)
    assert lock.fencing_token > end_ms


def test_lease_that_apache_hudi_gave_back_is_taken_at_once(open_lock: Open, path: Path) -> None:
    """T-L14."""
    lease = Lease(is_expired=True, valid_until_ms=FAR_MS, owner="5f9c-of-hudi")
    _write(path, storage_lock_file.encode(lease))
    lock = open_lock("we")
    lock.acquire(0)
    assert lock.fencing_token == FAR_MS + 1


def test_token_grows_over_a_clock_that_goes_back(open_lock: Open, clock: OffsetClock) -> None:
    tokens = []
    for offset_ms in (1_000_000, 0, -1_000_000):
        clock.offset_ms = offset_ms
        lock = open_lock("we")
        lock.acquire(0)
        tokens.append(lock.fencing_token)
        lock.release()
    assert tokens == [tokens[0], tokens[0] + 1, tokens[0] + 2]


def _lose_answer(monkeypatch: pytest.MonkeyPatch, call: str, error: errors.HoodieError) -> None:
    """Let the next call of a storage succeed, and say that it did not."""
    real = getattr(LocalStorage, call)

    def lost(*arguments: object, **options: object) -> None:
        monkeypatch.setattr(LocalStorage, call, real)
        real(*arguments, **options)
        raise error

    monkeypatch.setattr(LocalStorage, call, lost)


@pytest.mark.parametrize(
    "error", [errors.StorageError("no answer"), errors.AlreadyExistsError("an echo")]
)
def test_lock_whose_answer_was_lost_is_had(
    open_lock: Open, monkeypatch: pytest.MonkeyPatch, error: errors.HoodieError
) -> None:
    """T-L17."""
    lock = open_lock("we")
    _lose_answer(monkeypatch, "create", error)
    lock.acquire(0)
    assert lock.is_held()


@pytest.mark.parametrize("error", [errors.StorageError("none"), errors.ConflictError("an echo")])
def test_renewal_and_release_whose_answers_were_lost_are_done(
    open_lock: Open, path: Path, monkeypatch: pytest.MonkeyPatch, error: errors.HoodieError
) -> None:
    """T-L17."""
    lock = open_lock("we")
    lock.acquire(0)
    assert isinstance(lock, LeasedLock)
    token = lock.fencing_token
    _lose_answer(monkeypatch, "replace", error)
    assert lock._renew()
    assert json.loads(path.read_bytes())["validUntil"] > token
    assert lock.is_held()
    assert lock.fencing_token == token
    _lose_answer(monkeypatch, "replace", error)
    lock.release()
    assert json.loads(path.read_bytes())["expired"] is True


def test_renewal_that_was_not_known_of_does_not_keep_the_lock(
    open_lock: Open, storage: LocalStorage, path: Path
) -> None:
    lock = open_lock("we")
    lock.acquire(0)
    # As a renewal whose answer came neither then nor when it was asked for.
    lease = storage_lock_file.decode(path.read_bytes(), "file")
    later = Lease(is_expired=False, valid_until_ms=lease.valid_until_ms + 9, owner=lease.owner)
    version = storage.stat(storage_lock_file.PATH).version
    storage.replace(storage_lock_file.PATH, storage_lock_file.encode(later), if_match=version)
    assert lock.is_held()
    lock.release()
    assert json.loads(path.read_bytes())["expired"] is True


def test_lease_that_ended_is_renewed_if_nobody_took_it(open_lock: Open, clock: OffsetClock) -> None:
    lock = open_lock("we")
    lock.acquire(0)
    assert isinstance(lock, LeasedLock)
    clock.offset_ms = 1_000_000
    assert lock._renew()
    with pytest.raises(errors.LockTimeoutError, match="held by we"):
        open_lock("other").acquire(0)


def test_renewal_ends_when_the_lock_was_taken_over(
    open_lock: Open, clock: OffsetClock, caplog: pytest.LogCaptureFixture
) -> None:
    """T-L16."""
    lock, heir = open_lock("we"), open_lock("heir")
    lock.acquire(0)
    assert isinstance(lock, LeasedLock)
    clock.offset_ms = 1_000_000
    heir.acquire(0)
    assert not lock.is_held()
    assert not lock._renew()
    assert "we (pid" in caplog.text
    assert "was not renewed in time" in caplog.text
    lock.release()
    assert heir.is_held()


def test_holding_is_audited_where_the_table_says_so(
    open_lock: Open, path: Path, tmp_path: Path
) -> None:
    _write(path.with_name("audit_enabled.json"), b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED" : true}')
    lock = open_lock("we")
    lock.acquire(0)
    assert isinstance(lock, LeasedLock)
    owner = json.loads(path.read_bytes())["owner"]
    assert lock._renew()
    lock.release()
    (file,) = (tmp_path / ".hoodie" / ".locks" / "audit").iterdir()
    lines = file.read_text().splitlines()
    records = [json.loads(line) for line in lines]
    start_ms = records[0]["timestamp"]
    assert file.name == f"{start_ms}_{owner.rpartition(' ')[2]}.jsonl"
    assert [record["state"] for record in records] == ["START", "RENEW", "END"]
    assert {record["ownerId"] for record in records} == {owner}
    assert {record["transactionStartTime"] for record in records} == {start_ms}
    # The bytes of Apache Hudi's StorageLockProviderAuditService.
    assert lines[0] == (
        f'{{"transactionStartTime":{start_ms},"lockHeld":true,"state":"START",'
        f'"lockExpiration":{start_ms + 300_000},"ownerId":"{owner}","timestamp":{start_ms}}}'
    )


@pytest.mark.parametrize(
    "content", [None, b"", b"[]", b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":false}']
)
def test_holding_is_not_audited_otherwise(
    open_lock: Open, path: Path, tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        _write(path.with_name("audit_enabled.json"), content)
    lock = open_lock("we")
    lock.acquire(0)
    lock.release()
    assert not (tmp_path / ".hoodie" / ".locks" / "audit").exists()


def test_lock_goes_without_an_audit_that_cannot_be_written(
    open_lock: Open, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _write(path.with_name("audit_enabled.json"), b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":true}')
    (path.parent / "audit").write_text("no folder")
    lock = open_lock("we")
    lock.acquire(0)
    assert lock.is_held()
    lock.release()
    assert "has no START" in caplog.text
