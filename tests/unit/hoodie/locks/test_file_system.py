"""The file lock: whose files it respects, which it takes over, and how it notices a loss."""

import dataclasses
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hoodie import errors, identity
from hoodie.background.threads import ThreadBackground
from hoodie.clock import SystemClock
from hoodie.storage.local import LocalStorage
from hoodie.storage.memory import MemoryStorage
from hoodie.transaction.locks import addresses, file_system, opening
from hoodie.transaction.locks.file_system import Claim, FileSystemLock
from hoodie.transaction.locks.protocol import LockOwner
from support.contracts import lock_process
from support.contracts.lock_contract import in_thread

HUDI_LOCK_TEXT = (
    b'{"lockCreateTime":"2026-11-21 07:41:21.658","lockThreadName":"main","lockStacksInfo":["a"]}'
)


class OffsetClock(SystemClock):
    """The machine's clock, some time off."""

    def __init__(self, offset_ms: int) -> None:
        self.offset_ms = offset_ms

    def now_ms(self) -> int:
        return super().now_ms() + self.offset_ms


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / ".hoodie").mkdir()
    return tmp_path


@pytest.fixture
def path(table: Path) -> Path:
    return table / ".hoodie" / "lock"


def _lock(
    table: Path,
    name: str = "we",
    *,
    expiry_s: float | None = None,
    offset_ms: int = 0,
    state_of: Callable[[identity.ProcessIdentity], identity.ProcessState] = identity.state_of,
) -> FileSystemLock:
    random = identity.SystemRandom()
    return FileSystemLock(
        LocalStorage(str(table)),
        LockOwner(id=random.uuid(), name=name, process=identity.current_process()),
        expiry_s=expiry_s,
        polls=addresses.FileSystemAddress().polling,
        waiting_clock=OffsetClock(offset_ms),
        random=random,
        state_of=state_of,
    )


def _claim(**changes: object) -> bytes:
    process = dataclasses.replace(identity.current_process(), **changes)  # type: ignore[arg-type]
    owner = LockOwner(id="other", name="other", process=process)
    return file_system.encode(Claim(owner=owner, token=7, taken_ms=0))


def _make_older(path: Path, seconds: float) -> None:
    then_ns = path.stat().st_mtime_ns - int(seconds * 1e9)
    os.utime(path, ns=(then_ns, then_ns))


def test_file_stands_where_apache_hudi_looks_and_says_who(table: Path, path: Path) -> None:
    """T-L12."""
    lock = _lock(table, "writer schedules")
    lock.acquire(0)
    content = json.loads(path.read_bytes())
    process = identity.current_process()
    assert content == {
        "owner": content["owner"],
        "name": "writer schedules",
        "host": process.host,
        "boot_id": process.boot_id,
        "pid_namespace": process.pid_namespace,
        "pid": os.getpid(),
        "start_ticks": process.start_ticks,
        "token": lock.fencing_token,
        "taken_ms": content["taken_ms"],
    }
    lock.release()
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", HUDI_LOCK_TEXT, b"\xff\xfe", b"[1]", b"{}"])
def test_file_of_apache_hudi_is_respected_without_expiry(
    table: Path, path: Path, content: bytes
) -> None:
    """T-L09."""
    path.write_bytes(content)
    _make_older(path, 1e6)
    with pytest.raises(errors.LockTimeoutError, match="a writer that left no name"):
        _lock(table).acquire(0)
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"", HUDI_LOCK_TEXT, _claim(), _claim(host="elsewhere")])
def test_file_is_taken_over_after_the_configured_expiry_only(
    table: Path, path: Path, content: bytes
) -> None:
    """T-L10."""
    path.write_bytes(content)
    _make_older(path, 50)
    with pytest.raises(errors.LockTimeoutError):
        _lock(table, expiry_s=60).acquire(0)
    _make_older(path, 20)
    lock = _lock(table, expiry_s=60)
    lock.acquire(0)
    assert lock.is_held()
    assert lock.fencing_token > 7
    lock.release()


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": 4_000_000},
        {"start_ticks": 1},
    ],
    ids=["no such process", "pid given to another"],
)
def test_holder_proved_dead_is_replaced_at_once(
    table: Path, path: Path, changes: dict[str, object]
) -> None:
    path.write_bytes(_claim(**changes))
    lock = _lock(table)
    lock.acquire(0)
    assert lock.is_held()
    assert lock.fencing_token > 7


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"host": "elsewhere", "pid": 4_000_000},
        {"pid_namespace": "a container's", "pid": 4_000_000},
        {"boot_id": "another boot", "pid": 4_000_000},
    ],
    ids=["alive", "on another host", "in a container", "of another boot, or on a namesake"],
)
def test_holder_of_whom_nothing_is_known_is_respected(
    table: Path, path: Path, changes: dict[str, object]
) -> None:
    path.write_bytes(_claim(**changes))
    with pytest.raises(errors.LockTimeoutError, match="held by other"):
        _lock(table).acquire(0)


def test_many_who_find_one_dead_holder_do_not_hold_at_once(table: Path, path: Path) -> None:
    for _ in range(20):
        path.write_bytes(_claim(pid=4_000_000))
        barrier = threading.Barrier(6)
        inside: list[int] = []
        most: list[int] = []

        def contend(
            lock: FileSystemLock,
            barrier: threading.Barrier = barrier,
            inside: list[int] = inside,
            most: list[int] = most,
        ) -> None:
            barrier.wait()
            lock.acquire(30)
            inside.append(1)
            most.append(len(inside))
            assert lock.is_held()
            inside.pop()
            lock.release()

        threads = [threading.Thread(target=contend, args=(_lock(table),)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert most == [1] * 6


def _delete(path: Path) -> None:
    path.unlink()  # As a Hudi writer does when it closes its provider, whosever the lock is.


def _truncate(path: Path) -> None:
    path.write_bytes(b"")  # As one does that created the file without excluding us.


def _take_over(path: Path) -> None:
    path.unlink()
    path.write_bytes(_claim())


@pytest.mark.parametrize("lose", [_delete, _truncate, _take_over])
def test_loss_is_noticed_and_giving_back_touches_nothing(
    table: Path, path: Path, lose: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """T-L10."""
    lock = _lock(table)
    lock.acquire(0)
    lose(path)
    left = path.read_bytes() if path.exists() else None
    assert not lock.is_held()
    lock.release()
    assert "had lost the lock file" in caplog.text
    assert (path.read_bytes() if path.exists() else None) == left


def test_held_ends_before_others_may_think_it_expired(table: Path) -> None:
    lock = _lock(table, expiry_s=1000)
    lock.acquire(0)
    assert lock.is_held()
    hold = lock._hold
    assert hold is not None
    lock._hold = dataclasses.replace(hold, since_s=hold.since_s - 995)
    assert not lock.is_held()
    lock.release()


def test_token_grows_over_a_clock_that_goes_back_and_a_lost_memory(table: Path, path: Path) -> None:
    tokens = []
    for offset_ms in (1_000_000, 0, -1_000_000):
        lock = _lock(table, offset_ms=offset_ms)
        lock.acquire(0)
        tokens.append(lock.fencing_token)
        lock.release()
    assert tokens == [tokens[0], tokens[0] + 1, tokens[0] + 2]
    path.with_name("lock.last").unlink()
    lock = _lock(table, offset_ms=2_000_000)
    lock.acquire(0)
    assert lock.fencing_token > tokens[-1]


def test_token_stays_above_one_that_came_between(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Between our look at the last token and our taking the lock, another has it and gives it back.
    lock, other = _lock(table), _lock(table, "other", offset_ms=5_000)
    real = LocalStorage.create_volatile
    tokens = []

    def create(self: LocalStorage, path: str, content: bytes) -> object:
        monkeypatch.setattr(LocalStorage, "create_volatile", real)
        other.acquire(0)
        tokens.append(other.fencing_token)
        other.release()
        return real(self, path, content)

    monkeypatch.setattr(LocalStorage, "create_volatile", create)
    lock.acquire(0)
    assert lock.fencing_token > tokens[0]
    assert lock.is_held()
    lock.release()


def test_failure_while_taking_leaves_no_lock_behind(
    table: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = _lock(table)

    def create(self: LocalStorage, path: str, content: bytes) -> object:
        LocalStorage.create(self, path, content)
        raise errors.StorageError("the answer was lost")

    monkeypatch.setattr(LocalStorage, "create_volatile", create)
    with pytest.raises(errors.StorageError, match="the answer was lost"):
        lock.acquire(0)
    assert not path.exists()


def test_file_that_could_not_be_created_is_not_said_to_be_left_behind(
    table: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a file system that is full, or only readable."""

    def create(self: LocalStorage, path: str, content: bytes) -> object:
        raise errors.StorageError("Read-only file system")

    monkeypatch.setattr(LocalStorage, "create_volatile", create)
    with pytest.raises(errors.StorageError, match="Read-only"):
        _lock(table).acquire(0)
    assert not caplog.records


def test_stale_checksum_of_hadoop_goes_with_the_lock_it_belonged_to(
    table: Path, path: Path
) -> None:
    path.with_name(".lock.crc").write_bytes(b"crc\0")
    lock = _lock(table)
    lock.acquire(0)
    assert not path.with_name(".lock.crc").exists()
    lock.release()


def test_paused_holder_that_expired_learns_of_its_loss(table: Path, path: Path) -> None:
    with lock_process.Process("filesystem?expiry-s=1000", str(table), "hold", "slow") as process:
        process.holding()
        assert process.ask("held") == "True"
        process.pause()
        _make_older(path, 1001)
        heir = _lock(table, "heir", expiry_s=1000)
        heir.acquire(0)
        process.resume()
        assert process.ask("held") == "False"
        assert process.ask("release") == "released"
        assert heir.is_held()


def test_directory_of_its_own_holds_the_lock(table: Path, tmp_path: Path) -> None:
    """T-L12."""
    address = f"filesystem?directory={tmp_path}/elsewhere"
    one = lock_process.open_lock(address, str(table), "one")
    one.acquire(0)
    assert (tmp_path / "elsewhere" / "lock").exists()
    with pytest.raises(errors.LockTimeoutError):
        in_thread(lambda: lock_process.open_lock(address, str(table), "two").acquire(0))
    one.close()


def test_storage_without_atomic_moves_has_no_lock_file() -> None:
    """T-L11."""
    with pytest.raises(errors.UnsupportedError, match="memory://table cannot hold a lock file"):
        opening.open_lock(
            addresses.FileSystemAddress(),
            MemoryStorage(),
            LockOwner(id="1", name="a", process=identity.current_process()),
            waiting_clock=SystemClock(),
            random=identity.SystemRandom(),
            background=ThreadBackground(),
        )
