"""What every storage promises, as tests: a subclass gives `storage` and is collected."""

import contextlib
import functools
import gc
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie import errors
from hoodie.storage.protocol import Storage

BAD_PATHS = [
    "",
    "/absolute",
    "trailing/",
    "..",
    "a/../b",
    "a/..",
    "./a",
    "a//b",
    "nul\0",
    "lone\ud800",
]
ODD_NAMES = ["a b", "p%3Aq", "k=v", "#hash", "ü", "q?r", "s+t", "[x]", ".hidden", "~", "a.b..c"]
ODD_NAMES += [" spaces ", "a%2Fb", "50%", 'q"uote', "back\\slash"]
CONTROL_NAMES = ["tab\tbed", "line\nfeed", "return\rs", "\x1b[31m", "del\x7f"]


class StorageContract(ABC):
    """The tests; each gets a fresh, empty storage."""

    has_control_characters = True
    """Whether names may have control characters: the client of object stores refuses them."""

    @pytest.fixture
    @abstractmethod
    def storage(self) -> Storage:
        """The storage under test."""

    def test_created_file_is_listed_and_read(self, storage: Storage) -> None:
        info = storage.create("a/b/file", b"content")
        assert storage.read("a/b/file") == b"content"
        assert storage.list("a/b") == [storage.stat("a/b/file")]
        assert (info.path, info.name, info.size_bytes) == ("a/b/file", "file", 7)
        assert storage.stat("a/b/file").version == info.version
        assert info.modified_ms in (0, storage.stat("a/b/file").modified_ms)

    def test_fetched_version_is_the_one_to_replace_by(self, storage: Storage) -> None:
        storage.create("file", b"0")
        content, version = storage.fetch("file")
        assert (content, version) == (b"0", storage.stat("file").version)
        storage.replace("file", b"1", if_match=version)
        assert storage.fetch("file")[0] == b"1"
        with pytest.raises(errors.ConflictError, match="file"):
            storage.replace("file", b"2", if_match=version)
        with pytest.raises(errors.NotFoundError, match="other"):
            storage.fetch("other")

    def test_create_of_taken_name_is_refused_and_changes_nothing(self, storage: Storage) -> None:
        storage.create("file", b"first")
        with pytest.raises(errors.AlreadyExistsError, match="file"):
            storage.create("file", b"second")
        assert storage.read("file") == b"first"
        assert [info.path for info in storage.list("")] == ["file"]

    def test_one_of_racing_creates_wins(self, storage: Storage) -> None:
        won: list[bytes] = []

        def create(content: bytes) -> None:
            try:
                storage.create("race", content)
            except errors.AlreadyExistsError:
                return
            won.append(content)

        _together([functools.partial(create, b"%d" % n * 1000) for n in range(8)])
        assert len(won) == 1
        assert storage.read("race") == won[0]

    def test_one_of_racing_replaces_wins(self, storage: Storage) -> None:
        won: list[bytes] = []
        version = storage.create("race", b"before").version

        def replace(content: bytes) -> None:
            try:
                storage.replace("race", content, if_match=version)
            except errors.ConflictError:
                return
            won.append(content)

        _together([functools.partial(replace, b"%d" % n * 1000) for n in range(8)])
        assert len(won) == 1
        assert storage.read("race") == won[0]

    def test_replace_of_seen_version_changes_content_and_version(self, storage: Storage) -> None:
        versions = [storage.create("file", b"0").version]
        for n in range(1, 20):
            info = storage.replace("file", b"%d" % n, if_match=versions[-1])
            assert storage.stat("file").version == info.version
            versions.append(info.version)
        assert len(set(versions)) == len(versions)
        assert storage.read("file") == b"19"

    def test_replace_of_other_version_is_refused(self, storage: Storage) -> None:
        old = storage.create("file", b"old").version
        storage.replace("file", b"new", if_match=old)
        with pytest.raises(errors.ConflictError, match="file"):
            storage.replace("file", b"lost", if_match=old)
        assert storage.read("file") == b"new"

    def test_replace_of_missing_file_is_refused_and_creates_nothing(self, storage: Storage) -> None:
        version = storage.create("file", b"x").version
        storage.delete("file")
        with pytest.raises(errors.ConflictError, match="file"):
            storage.replace("file", b"y", if_match=version)
        assert storage.list("") == []

    def test_missing_file_is_not_found(self, storage: Storage) -> None:
        storage.create("directory/file", b"x")
        for path in ("none", "directory/none", "directory/file/none", "directory"):
            with pytest.raises(errors.NotFoundError, match=path):
                storage.stat(path)
            with pytest.raises(errors.NotFoundError, match=path):
                storage.read(path)
            with pytest.raises(errors.NotFoundError, match=path):
                storage.read(path, offset=1, length=0)
            with pytest.raises(errors.NotFoundError, match=path):
                storage.open_input(path)
            with pytest.raises(errors.NotFoundError, match=path):
                storage.read_buffers(["directory/file", path])

    @pytest.mark.parametrize(
        ("offset", "length", "expected"),
        [
            (0, None, b"0123456789"),
            (0, 4, b"0123"),
            (3, 4, b"3456"),
            (3, None, b"3456789"),
            (8, 100, b"89"),
            (10, None, b""),
            (10, 5, b""),
            (99, 5, b""),
            (5, 0, b""),
        ],
    )
    def test_range_ends_where_file_does(
        self, storage: Storage, offset: int, length: int | None, expected: bytes
    ) -> None:
        storage.create("file", b"0123456789")
        assert storage.read("file", offset=offset, length=length) == expected

    def test_negative_range_is_refused(self, storage: Storage) -> None:
        storage.create("file", b"x")
        with pytest.raises(errors.InvalidInputError, match="file"):
            storage.read("file", offset=-1)
        with pytest.raises(errors.InvalidInputError, match="file"):
            storage.read("file", length=-1)

    @pytest.mark.parametrize("is_mapped", [True, False])
    def test_open_file_is_read_from_any_place(self, storage: Storage, is_mapped: bool) -> None:
        storage.create("file", b"0123456789")
        with storage.open_input("file", is_mapped=is_mapped) as file:
            assert file.size() == 10
            file.seek(7)
            assert file.read_buffer(9).to_pybytes() == b"789"
            file.seek(2)
            assert file.read(3) == b"234"

    @pytest.mark.parametrize("is_mapped", [True, False])
    def test_empty_file_is_read(self, storage: Storage, is_mapped: bool) -> None:
        storage.create("file", b"")
        assert storage.read("file") == b""
        with storage.open_input("file", is_mapped=is_mapped) as file:
            assert file.size() == 0
            assert file.read() == b""

    def test_whole_files_are_read_in_the_order_of_their_paths(self, storage: Storage) -> None:
        contents = {f"d{number % 3}/file-{number}": b"x" * number for number in range(40)}
        for path, content in contents.items():
            storage.create(path, content)
        found = storage.read_buffers(list(reversed(contents)))
        assert [each.to_pybytes() for each in found] == list(reversed(contents.values()))
        assert storage.read_buffers([]) == []

    def test_listing_is_sorted_and_one_level_or_all(self, storage: Storage) -> None:
        for path in ("b", "a/z", "a/b/c", "ab/c", ".hidden/x"):
            storage.create(path, b"")
        assert [info.path for info in storage.list("")] == ["b"]
        assert [info.path for info in storage.list("a")] == ["a/z"]
        assert [info.path for info in storage.list("a", is_recursive=True)] == ["a/b/c", "a/z"]
        assert [info.path for info in storage.list("", is_recursive=True)] == [
            ".hidden/x",
            "a/b/c",
            "a/z",
            "ab/c",
            "b",
        ]
        assert [sorted(storage.names(directory)) for directory in ("", "a", ".hidden")] == [
            [".hidden/", "a/", "ab/", "b"],
            ["b/", "z"],
            ["x"],
        ]

    def test_names_by_directory_are_those_of_the_listing(self, storage: Storage) -> None:
        for path in ("b", "a/z", "a/b/c", "ab/c", ".hidden/x", "a/y"):
            storage.create(path, b"")
        assert storage.names_by_directory("") == {"": ["b"]}
        assert storage.names_by_directory("a") == {"a": ["y", "z"]}
        assert storage.names_by_directory("", is_recursive=True) == {
            "": ["b"],
            ".hidden": ["x"],
            "a": ["y", "z"],
            "a/b": ["c"],
            "ab": ["c"],
        }

    def test_listing_of_missing_directory_is_empty(self, storage: Storage) -> None:
        assert storage.list("") == []
        assert storage.list("none", is_recursive=True) == []
        assert storage.names("none") == []
        assert storage.names_by_directory("none") == {}

    def test_files_are_read_in_the_order_asked_for(self, storage: Storage) -> None:
        contents = {"d/b": b"1", "d/a": b"", "e/c": bytes(1 << 20), "f": b"2", "d/c": b"3"}
        for path, content in contents.items():
            storage.create(path, content)
        asked: list[str] = []

        def paths() -> Iterator[str]:
            for path in contents:
                asked.append(path)
                yield path

        for count, content in enumerate(storage.read_all(paths()), start=1):
            assert asked == list(contents)[:count]
            assert content == contents[asked[-1]]
        assert asked == list(contents)
        assert list(storage.read_all([])) == []

    @pytest.mark.parametrize("path", ["d/none", "none/a", "d"])
    def test_reading_ends_with_the_first_file_that_is_missing(
        self, storage: Storage, path: str
    ) -> None:
        storage.create("d/a", b"x")
        found = storage.read_all(["d/a", path, "d/a"])
        assert next(found) == b"x"
        with pytest.raises(errors.NotFoundError, match=path):
            next(found)

    def test_arrow_reads_parquet_from_opened_file(self, storage: Storage) -> None:
        table = pa.table({"a": pa.array(range(1000)), "b": pa.array([str(n) for n in range(1000)])})
        with storage.open_write("data/file.parquet") as sink:
            pq.write_table(table, sink, row_group_size=100)
        with storage.open_input("data/file.parquet") as source:
            assert pq.read_table(source, columns=["b"]).equals(table.select(["b"]))

    def test_streamed_file_is_complete_after_close(self, storage: Storage) -> None:
        parts = [bytes([n]) * 300_000 for n in range(20)]
        with storage.open_write("data/stream") as sink:
            for number, part in enumerate(parts):
                assert sink.tell() == number * len(part)
                assert sink.write(part) == len(part)
        assert storage.read("data/stream") == b"".join(parts)
        assert storage.stat("data/stream").size_bytes == 6_000_000

    def test_streamed_file_that_was_left_by_an_error_holds_nothing(self, storage: Storage) -> None:
        with contextlib.suppress(_BrokenError), storage.open_write("data/stream") as sink:
            sink.write(b"half of it")
            raise _BrokenError
        sink = storage.open_write("data/discarded")
        sink.write(b"half of it")
        sink.discard()
        sink.close()
        sink = storage.open_write("data/forgotten")
        sink.write(b"half of it")
        del sink
        gc.collect()
        assert not [info for info in storage.list("data") if info.size_bytes]

    def test_touch_creates_empty_file_and_keeps_content(self, storage: Storage) -> None:
        first = storage.touch("beats/one")
        assert first.size_bytes == 0
        assert storage.stat("beats/one") == first
        second = storage.touch("beats/one")
        assert second.modified_ms >= first.modified_ms
        storage.create("full", b"content")
        assert storage.touch("full").size_bytes == 7
        assert storage.read("full") == b"content"

    def test_deleted_file_is_gone_and_name_free(self, storage: Storage) -> None:
        storage.create("d/file", b"x")
        assert storage.delete("d/file") is True
        assert storage.delete("d/file") is False
        assert storage.delete("d") is False
        assert storage.list("", is_recursive=True) == []
        storage.create("d/file", b"y")

    def test_delete_all_passes_missing_files_by(self, storage: Storage) -> None:
        for name in "abc":
            storage.create(f"d/{name}", b"")
        storage.delete_all(["d/a", "d/none", "d/c"])
        assert [info.name for info in storage.list("d")] == ["b"]

    def test_file_is_deleted_before_the_next_is_asked_for(self, storage: Storage) -> None:
        for name in "abc":
            storage.create(f"d/{name}", b"")

        def paths() -> Iterator[str]:
            for count, name in enumerate("cab"):
                assert len(storage.list("d")) == 3 - count
                yield f"d/{name}"

        storage.delete_ordered(paths())
        assert storage.list("d") == []

    def test_delete_unordered_passes_missing_files_by(self, storage: Storage) -> None:
        for name in "abc":
            storage.create(f"d/{name}", b"")
        storage.delete_unordered(["d/none", "d/a", "d/none-either", "d/c"])
        storage.delete_unordered([])
        assert [info.name for info in storage.list("d")] == ["b"]

    def test_delete_directory_takes_all_in_it_and_no_neighbour(self, storage: Storage) -> None:
        for path in ("d/a", "d/e/b", "dd/c"):
            storage.create(path, b"")
        storage.delete_directory("d")
        storage.delete_directory("none")
        assert [info.path for info in storage.list("", is_recursive=True)] == ["dd/c"]

    @pytest.mark.parametrize("path", BAD_PATHS, ids=repr)
    def test_path_that_is_none_is_refused(self, storage: Storage, path: str) -> None:
        calls: list[Callable[[], object]] = [
            lambda: storage.stat(path),
            lambda: storage.read(path),
            lambda: list(storage.read_all([path])),
            lambda: storage.open_input(path),
            lambda: storage.read_buffers([path]),
            lambda: storage.create(path, b""),
            lambda: storage.replace(path, b"", if_match=""),
            lambda: storage.open_write(path),
            lambda: storage.touch(path),
            lambda: storage.delete(path),
            lambda: storage.delete_all([path]),
            lambda: storage.delete_ordered([path]),
            lambda: storage.delete_unordered([path]),
        ]
        if path:
            calls += [
                lambda: storage.list(path),
                lambda: storage.names(path),
                lambda: storage.names_by_directory(path),
                lambda: storage.delete_directory(path),
            ]
        for call in calls:
            with pytest.raises(errors.InvalidInputError):
                call()

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_name_keeps_as_it_is(self, storage: Storage, name: str) -> None:
        storage.create(f"{name}/{name}", b"x")
        assert [info.path for info in storage.list(name)] == [f"{name}/{name}"]
        assert storage.read(f"{name}/{name}") == b"x"

    @pytest.mark.parametrize("name", CONTROL_NAMES)
    def test_control_characters_are_kept_or_refused(self, storage: Storage, name: str) -> None:
        if self.has_control_characters:
            self.test_odd_name_keeps_as_it_is(storage, name)
            return
        with pytest.raises(errors.InvalidInputError, match="cannot create"):
            storage.create(f"{name}/{name}", b"x")


class _BrokenError(Exception):
    """What a test raises while it writes."""


def _together(calls: list[Callable[[], object]]) -> None:
    barrier = threading.Barrier(len(calls))
    failures: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        barrier.wait()
        try:
            call()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
