"""The local storage: durability, the neighbours that Hadoop leaves, links, processes that race."""

import contextlib
import errno
import itertools
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.format import file_names
from hoodie.model.instants import Action, Instant, InstantTime, State
from hoodie.storage import local_files, paths
from hoodie.storage.local import LocalStorage
from hoodie.timeline import active, transitions

RACER = """
import json, sys
from hoodie import errors
from hoodie.storage.local import LocalStorage

storage, rounds = LocalStorage(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
won = []
while True:
    version = storage.stat("turn").version
    n = int(storage.read("turn"))
    if n >= rounds:
        break
    try:
        storage.replace("turn", b"%d" % (n + 1), if_match=version)
    except errors.ConflictError:
        continue
    won.append(n)
print(json.dumps(won))
"""


CREATOR = """
import sys
from hoodie.storage.local import LocalStorage

storage = LocalStorage(sys.argv[1])
for n in range(10_000):
    storage.create(f"d/{sys.argv[2]}.{n}", bytes(1 << 20))
    print(n, flush=True)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def storage(root: Path) -> LocalStorage:
    return LocalStorage(str(root))


def test_processes_racing_to_replace_one_version_never_both_win(
    storage: LocalStorage, root: Path
) -> None:
    rounds = 100
    storage.create("turn", b"0")
    with contextlib.ExitStack() as stack:
        racers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", RACER, str(root), str(rounds)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(3)
        ]
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        won = [json.loads(output) for output in _let_go(racers)]
    assert sorted(itertools.chain.from_iterable(won)) == list(range(rounds))
    assert storage.read("turn") == b"%d" % rounds


def _let_go(racers: list[subprocess.Popen[str]]) -> list[str]:
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    return [racer.communicate(timeout=60)[0] for racer in racers]


def test_killed_creator_leaves_whole_files_or_none(storage: LocalStorage, root: Path) -> None:
    for run in range(5):
        command = [sys.executable, "-c", CREATOR, str(root), str(run)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as creator:
            assert creator.stdout is not None
            for _ in range(3 + run):
                creator.stdout.readline()
            creator.kill()
    sizes = {info.size_bytes for info in storage.list("d") if info.name.count(".") == 1}
    assert sizes == {1 << 20}


def test_replace_never_gives_a_version_twice(storage: LocalStorage) -> None:
    # The file system reuses inodes and keeps coarse times: content of one length is the hard case.
    info = storage.create("file", b"0000")
    versions = {info.version}
    for n in range(1, 200):
        info = storage.replace("file", b"%04d" % n, if_match=info.version)
        assert info.version not in versions
        versions.add(info.version)


def test_touch_changes_version(storage: LocalStorage) -> None:
    versions = {storage.touch("beat").version for _ in range(100)}
    assert len(versions) == 100


def test_touch_goes_back_with_the_clock(storage: LocalStorage, root: Path) -> None:
    """H1: a file that was touched while the clock was ahead tells the time all the same."""
    storage.touch("probe")
    ahead_s = time.time() + 3600
    os.utime(root / "probe", (ahead_s, ahead_s))
    assert storage.touch("probe").modified_ms < ahead_s * 1000 - 3_000_000


def test_times_of_a_file_system_that_keeps_whole_seconds_are_known_to_be_inexact(
    storage: LocalStorage, root: Path
) -> None:
    storage.touch("fine")
    storage.touch("coarse")
    os.utime(root / "coarse", (1_800_000_000, 1_800_000_000))
    assert storage.stat("coarse").modified_before_ms == 1_800_000_001_000
    os.utime(root / "fine", ns=(0, 1_800_000_000_004_000_000))
    assert storage.stat("fine").modified_before_ms == 1_800_000_000_014


def test_temporary_file_is_named_as_hudi_names_it(
    storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def link(temporary: Path, target: Path) -> None:
        seen.append(temporary.name)
        os.link(temporary, target)

    monkeypatch.setattr(local_files, "link_new", link)
    storage.create("d/20260101000000000.deltacommit.requested", b"x")
    (name,) = seen
    stem, _, unique = name.rpartition(".")
    assert stem == "20260101000000000.deltacommit.requested"
    assert len(unique) == 36
    assert _names(root / "d") == ["20260101000000000.deltacommit.requested"]


def test_link_whose_answer_was_lost_counts_as_made(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.hardlink_to

    def repeated(self: Path, target: Path) -> None:
        real(self, target)
        raise FileExistsError(errno.EEXIST, "seen again by the repeated call")

    monkeypatch.setattr(Path, "hardlink_to", repeated)
    assert storage.create("file", b"x").size_bytes == 1
    assert storage.read("file") == b"x"


def _names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def _create(storage: LocalStorage) -> None:
    storage.create("d/file", b"x")


def _open_write(storage: LocalStorage) -> None:
    storage.open_write("d/file").close()


def _replace(storage: LocalStorage) -> None:
    storage.create("d/file", b"x")
    _leave_checksum(storage)
    storage.replace("d/file", b"y", if_match=storage.stat("d/file").version)


def _touch(storage: LocalStorage) -> None:
    storage.touch("d/file")


def _delete(storage: LocalStorage) -> None:
    storage.create("d/file", b"x")
    _leave_checksum(storage)
    storage.delete("d/file")


def _delete_unordered(storage: LocalStorage) -> None:
    storage.create("d/file", b"x")
    _leave_checksum(storage)
    storage.delete_unordered(["d/file"])


def _leave_checksum(storage: LocalStorage) -> None:
    with storage.open_write("d/.file.crc") as file:
        file.write(b"crc\0")


@pytest.mark.parametrize(
    "change", [_create, _open_write, _replace, _touch, _delete, _delete_unordered]
)
def test_change_removes_stale_checksum(
    storage: LocalStorage, change: Callable[[LocalStorage], None]
) -> None:
    # Hadoop's local file system refuses a file whose `.crc` neighbour does not fit.
    _leave_checksum(storage)
    change(storage)
    assert "d/.file.crc" not in [info.path for info in storage.list("d")]


@pytest.mark.parametrize("count", [3, 1_000])
@pytest.mark.parametrize("is_ordered", [False, True])
def test_deletion_of_many_files_takes_what_goes_with_them(
    storage: LocalStorage, root: Path, *, count: int, is_ordered: bool
) -> None:
    (root / "d").mkdir(parents=True)
    names = [f"{number:04}" for number in range(count)]
    beside = [f".{names[-1]}.crc", paths.unfinished(names[-1]), paths.unfinished("none")]
    for name in (*names, *beside, "other", ".other.crc"):
        (root / "d" / name).touch()
    delete = storage.delete_ordered if is_ordered else storage.delete_unordered
    delete([f"d/{name}" for name in (*names, "none")])
    assert sorted(_names(root / "d")) == [".other.crc", "other"]


@pytest.mark.parametrize("is_ordered", [False, True])
def test_failed_deletion_of_many_files_names_one(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, *, is_ordered: bool
) -> None:
    storage.create("d/file", b"x")

    def fail(path: str, *, dir_fd: int | None = None) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "unlink", fail)
    delete = storage.delete_ordered if is_ordered else storage.delete_unordered
    with pytest.raises(errors.StorageError, match=r"file.*Permission denied"):
        delete(["d/file"])


def test_link_goes_instead_of_what_it_leads_to(storage: LocalStorage, root: Path) -> None:
    storage.create("d/file", b"x")
    for delete in (
        lambda: storage.delete("link"),
        lambda: storage.delete_all(["link"]),
        lambda: storage.delete_ordered(["link"]),
        lambda: storage.delete_unordered(["link"]),
    ):
        (root / "link").symlink_to(root / "d" / "file")
        assert list(storage.read_all(["link"])) == [b"x"]
        delete()
        assert _names(root) == ["d"]
    assert storage.read("d/file") == b"x"


def test_link_out_of_the_table_is_refused(
    storage: LocalStorage, root: Path, tmp_path: Path
) -> None:
    env = tmp_path / "outside"
    env.mkdir()
    (env / "secret").write_text("x")
    storage.create("inside/file", b"x")
    (root / "directory").symlink_to(env)
    (root / "file").symlink_to(env / "secret")
    for call in (
        lambda: storage.read("directory/secret"),
        lambda: storage.read("file"),
        lambda: storage.create("directory/new", b""),
        lambda: storage.delete("directory/secret"),
        lambda: storage.delete("file"),
        lambda: storage.names_by_directory("directory"),
        lambda: storage.names_by_directory(""),
        lambda: storage.delete_ordered(["directory/secret"]),
        lambda: storage.delete_unordered(["directory/secret"]),
        lambda: list(storage.read_all(["directory/secret"])),
        lambda: list(storage.read_all(["file"])),
        lambda: storage.delete_directory("directory"),
        lambda: storage.list("directory"),
        lambda: storage.list(""),
        lambda: storage.touch("file"),
        lambda: storage.open_write("file"),
    ):
        with pytest.raises(errors.InvalidInputError, match="symbolic link to"):
            call()
    assert _names(env) == ["secret"]


def test_link_within_the_table_is_followed_but_listed_once(
    storage: LocalStorage, root: Path
) -> None:
    storage.create("real/file", b"x")
    (root / "link").symlink_to(root / "real")
    (root / "real" / "loop").symlink_to(root)
    assert storage.read("link/file") == b"x"
    assert [info.path for info in storage.list("", is_recursive=True)] == ["real/file"]
    assert storage.names_by_directory("", is_recursive=True) == {"real": ["file"]}


def test_dangling_link_is_no_file(storage: LocalStorage, root: Path) -> None:
    storage.create("d/file", b"x")
    (root / "d" / "dangling").symlink_to(root / "none")
    assert [info.name for info in storage.list("d")] == ["file"]
    assert storage.names_by_directory("d") == {"d": ["file"]}
    with pytest.raises(errors.NotFoundError):
        storage.stat("d/dangling")
    with pytest.raises(errors.AlreadyExistsError):
        storage.create("d/dangling", b"")


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, errors.StorageError),
        (errno.EIO, errors.StorageError),
        (errno.EACCES, errors.StorageError),
        (errno.EDQUOT, errors.StorageError),
    ],
)
def test_failed_write_names_the_file_and_leaves_nothing(
    storage: LocalStorage,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    expected: type[errors.HoodieError],
) -> None:
    storage.create("d/other", b"x")

    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(expected, match=f"table/d/file.*{os.strerror(number)}"):
        storage.create("d/file", b"x")
    with pytest.raises(expected, match="table/d/stream"), storage.open_write("d/stream") as file:
        file.write(b"x")
    monkeypatch.undo()
    assert "d/file" not in [info.path for info in storage.list("d")]
    assert not list((root / "d").glob("file.*"))


def test_created_file_whose_name_may_not_survive_a_crash_is_no_success(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read back from memory, which says nothing of the disk."""
    sync = os.fsync

    def fail_for_directories(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").resolve().is_dir():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    requested = Instant(
        requested_time=InstantTime("20260101000000000"),
        action=Action.DELTA_COMMIT,
        state=State.REQUESTED,
    )
    for path in ("d/other", f"{active.DIRECTORY}/other"):
        storage.create(path, b"x")
    monkeypatch.setattr(os, "fsync", fail_for_directories)
    with pytest.raises(errors.OutcomeUnknownError, match=r"d/file.*Input/output error"):
        storage.create("d/file", b"x")
    with pytest.raises(errors.OutcomeUnknownError):
        transitions.start(storage, requested, b"profile", lambda: True)


@pytest.mark.parametrize("takes_effect", [True, False])
def test_link_without_an_answer_may_take_effect_yet(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, takes_effect: bool
) -> None:
    """As a soft mount of NFS answers when its server does not."""
    link = Path.hardlink_to

    def give_up(target: Path, temporary: Path) -> None:
        if takes_effect:
            link(target, temporary)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "hardlink_to", give_up)
    with pytest.raises(errors.UnansweredError, match="d/file"):
        storage.create("d/file", b"x")
    assert [info.name for info in storage.list("d")] == ["file"] * takes_effect


def test_full_disk_while_streaming_is_a_storage_error(storage: LocalStorage, root: Path) -> None:
    file = storage.open_write("d/stream")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(errors.StorageError, match="d/stream: File too large"):
            file.write(b"x" * (4 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with pytest.raises(errors.StorageError, match="d/stream"):
        file.write(b"x")
    file.close()
    assert _names(root / "d") == []


def test_streamed_file_appears_whole_and_under_its_name(storage: LocalStorage, root: Path) -> None:
    name = ".a_20260101000000000.log.1_0-0-0"
    with storage.open_write(f"d/{name}") as file:
        file.write(b"x" * (4 << 20))
        (unfinished,) = _names(root / "d")
        assert file_names.parse(f"d/{unfinished}", 0) is None
        # What Apache Hudi lists as a data file: by extension, or because ".log" is in the name.
        assert ".log" not in unfinished
        assert unfinished.rpartition(".")[2] == "unfinished"
        assert paths.finished(f"d/{unfinished}") == f"d/{name}"
    assert _names(root / "d") == [name]


def test_streamed_file_never_replaces_another(storage: LocalStorage, root: Path) -> None:
    file = storage.open_write("d/file")
    file.write(b"late")
    storage.create("d/file", b"first")
    with pytest.raises(errors.AlreadyExistsError):
        file.close()
    assert storage.read("d/file") == b"first"
    assert _names(root / "d") == ["file"]


def test_deletion_takes_what_was_never_finished_and_its_writer_then_fails(
    storage: LocalStorage, root: Path
) -> None:
    file = storage.open_write("d/file")
    file.write(b"late")
    assert not storage.delete("d/file")
    with pytest.raises(errors.StorageError, match="deleted by others"):
        file.close()
    assert _names(root / "d") == []


@pytest.mark.parametrize("others", [0, 100], ids=["few", "among many"])
def test_files_that_are_deleted_together_go_with_what_was_never_finished(
    others: int, storage: LocalStorage, root: Path
) -> None:
    """In a directory of very many files nothing but the names in question is looked at."""
    for name in ("a", "b", *(f"other{number}" for number in range(others))):
        storage.create_volatile(f"d/{name}", b"")
    unfinished = [storage.open_write(f"d/{name}") for name in ("b", "c")]
    (root / "d" / ".a.crc").touch()
    (root / "d" / "dangling").symlink_to(root / "none")
    storage.delete_unordered(["d/a", "d/b", "d/c", "d/dangling"])
    assert len(_names(root / "d")) == others
    for each in unfinished:
        each.discard()


def test_directory_in_the_place_of_a_file_is_not_deleted(storage: LocalStorage) -> None:
    storage.create("d/file", b"x")
    storage.delete_unordered(["d", "d/file/none"])
    assert storage.read("d/file") == b"x"


def test_streamed_file_is_synced_before_it_has_its_name_and_its_directory_after(
    storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash of the machine leaves the whole file, or none of that name."""
    seen: list[tuple[str, list[str]]] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        kind = "directory" if Path(f"/proc/self/fd/{descriptor}").resolve().is_dir() else "file"
        seen.append((kind, _names(root / "d")))
        fsync(descriptor)

    storage.create("d/other", b"")
    monkeypatch.setattr(os, "fsync", record)
    with storage.open_write("d/file") as file:
        file.write(b"x")
    assert seen == [("file", [paths.unfinished("file"), "other"]), ("directory", ["file", "other"])]


@pytest.mark.parametrize(
    "use",
    [
        lambda storage, path: storage.create(path, b""),
        lambda storage, path: storage.list(path),
        lambda storage, path: storage.names(path),
        lambda storage, path: storage.names_by_directory(path),
        lambda storage, path: storage.stat(path),
        lambda storage, path: storage.read(path),
        lambda storage, path: storage.delete(path),
        lambda storage, path: storage.delete_unordered([path]),
        lambda storage, path: storage.open_write(path).__enter__(),
    ],
    ids=[
        "create",
        "list",
        "names",
        "names_by_directory",
        "stat",
        "read",
        "delete",
        "delete_unordered",
        "open_write",
    ],
)
@pytest.mark.parametrize("path", ["x" * 300, f"{'x' * 300}/y"])
def test_name_that_is_too_long_is_invalid_input(
    path: str, use: Callable[[LocalStorage, str], object], storage: LocalStorage
) -> None:
    storage.create("file", b"")
    with pytest.raises(errors.InvalidInputError, match="too long"):
        use(storage, path)


def test_file_in_the_place_of_a_directory_is_already_there(storage: LocalStorage) -> None:
    storage.create("a", b"x")
    with pytest.raises(errors.AlreadyExistsError, match="a/b"):
        storage.create("a/b", b"")
    storage.create("directory/file", b"")
    with pytest.raises(errors.AlreadyExistsError, match="directory"):
        storage.touch("directory")


def test_moved_file_replaces_and_only_the_seen_version_moves(storage: LocalStorage) -> None:
    old = storage.create_volatile("lock", b"old").version
    storage.create("lock.last", b"before")
    storage.replace("lock", b"new", if_match=old)
    with pytest.raises(errors.ConflictError, match="lock"):
        storage.move("lock", "lock.last", if_match=old)
    storage.move("lock", "lock.last", if_match=storage.stat("lock").version)
    assert storage.read("lock.last") == b"new"
    with pytest.raises(errors.ConflictError, match="gone"):
        storage.move("lock", "lock.last", if_match=old)


def test_root_itself_can_be_deleted(storage: LocalStorage, root: Path) -> None:
    storage.create("a/b", b"x")
    storage.delete_directory("")
    assert not root.exists()
    storage.create("a/b", b"y")
    assert storage.read("a/b") == b"y"


@pytest.mark.parametrize("call", ["create", "replace"])
def test_file_swept_before_it_has_its_name_is_a_failure_that_may_pass(
    storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """By others, who took this process for dead while it was stopped there."""
    version = storage.create("old", b"1").version
    calls: dict[str, Callable[[], object]] = {
        "create": lambda: storage.create("new", b"2"),
        "replace": lambda: storage.replace("old", b"2", if_match=version),
    }
    remove_checksum = local_files.remove_checksum

    def swept(path: Path) -> None:
        remove_checksum(path)
        for temporary in root.glob("*.*"):
            temporary.unlink()

    monkeypatch.setattr(local_files, "remove_checksum", swept)
    with pytest.raises(errors.StorageError, match="was deleted by others"):
        calls[call]()
    assert _names(root) == ["old"]
    assert storage.read("old") == b"1"


def test_equal_directories_have_equal_uris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tmp_path / "a b%c"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    monkeypatch.chdir(tmp_path)
    spellings = [
        str(real),
        f"{real}/",
        f"{tmp_path}//x/../a b%c",
        "a b%c",
        "./a b%c",
        "link",
        f"file://{tmp_path}/a%20b%25c",
        f"file:{tmp_path}/a b%25c/",
        f"file://localhost{tmp_path}/link",
    ]
    uris = {LocalStorage(spelling).uri for spelling in spellings}
    assert uris == {f"file://{tmp_path.resolve()}/a b%25c"}
    assert LocalStorage(uris.pop()).uri == f"file://{tmp_path.resolve()}/a b%25c"


@pytest.mark.parametrize("root", ["/", "file:///", "//", "/a/.."])
def test_file_systems_root_is_no_table(root: str) -> None:
    with pytest.raises(errors.InvalidInputError):
        LocalStorage(root)


def test_file_that_goes_while_it_is_deleted_is_no_error(
    storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who removes files that are never replaced does not hold them."""
    hold = local_files.hold

    def hold_and_lose(name: str, flags: int, directory: int) -> object:
        found = hold(name, flags, directory)
        (root / "directory" / "file").unlink()
        return found

    storage.create("directory/file", b"x")
    monkeypatch.setattr(local_files, "hold", hold_and_lose)
    assert not storage.delete("directory/file")
    monkeypatch.undo()
    assert storage.list("directory") == []
