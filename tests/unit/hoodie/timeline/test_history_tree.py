"""The tree of the archived timeline: names, manifests, merges, and what may be deleted."""

import pytest

from hoodie import errors
from hoodie.model.instants import InstantTime
from hoodie.timeline import history_tree, history_writing
from hoodie.timeline.history_tree import TreeFile


def time(number: int) -> InstantTime:
    return InstantTime(f"20260101000000{number:03d}")


def file(first: int, last: int, level: int = 0, size: int = 10) -> TreeFile:
    return history_tree.file_of(time(first), time(last), level, size)


def run(count: int, level: int = 0, size: int = 10) -> list[TreeFile]:
    return [file(10 * n, 10 * n + 5, level, size) for n in range(count)]


def test_name_is_read_as_it_is_written() -> None:
    found = file(1, 2, 3)
    assert history_tree.parse_file(found.name, 10) == found


def test_name_of_old_writers_keeps_its_digits() -> None:
    """Apache Hudi compares the times as they are."""
    found = history_tree.file_of("20260101000000", "20260101000001", 0)
    assert found.name == "20260101000000_20260101000001_0.parquet"
    assert (found.first, found.last) == ("20260101000000999", "20260101000001999")


@pytest.mark.parametrize(
    "name",
    [
        "../1_2_0.parquet",
        "20260101000000001_20260101000000002_10.parquet",
        "2026_2027_0.parquet",
        "20260101000000001_20260101000000002_0.parquet.tmp",
        "",
    ],
)
def test_other_names_are_no_files(name: str) -> None:
    assert history_tree.parse_file(name) is None


def test_manifest_with_the_greatest_number_stops_the_archiver() -> None:
    """An epoch could not publish the next one, and nothing would read the table again."""
    tree = history_writing.Tree(
        number=1, files=(), manifests=(1, history_tree.NUMBER_MAX), found=()
    )
    with pytest.raises(errors.FormatError, match="is not of an archive"):
        _ = tree.number_next


def test_manifest_is_read_as_it_is_written() -> None:
    files = (file(1, 2), file(3, 4, 1))
    content = history_tree.encode_manifest(files)
    assert history_tree.decode_manifest(content, "m") == files


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"files": [{"fileName": "../../x", "fileLen": 1}]}',
        b'{"files": [{"fileName": 1, "fileLen": 1}]}',
        b'{"files": [{"fileName": "20260101000000001_20260101000000002_0.parquet"}]}',
        b'{"files": 1}',
    ],
)
def test_damaged_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(errors.FormatError, match="m is not a manifest"):
        history_tree.decode_manifest(content, "m")


@pytest.mark.parametrize(
    ("path", "number"),
    [
        (history_tree.manifest_path(7), 7),
        ("manifest_7", None),
        (f"{history_tree.DIRECTORY}/manifest_7.tmp", None),
        (f"{history_tree.DIRECTORY}/x/manifest_7", None),
        (f"{history_tree.DIRECTORY}/manifest_{'9' * 19}", None),
    ],
)
def test_path_of_a_manifest_is_known_from_others(path: str, number: int | None) -> None:
    assert history_tree.manifest_number_of_path(path) == number


def test_level_is_merged_once_it_is_full() -> None:
    assert history_tree.to_merge(run(9)) == ()
    assert history_tree.to_merge(run(10)) == tuple(run(10))
    assert history_tree.to_merge(run(12)) == tuple(run(10))


def test_lowest_full_level_is_merged_first() -> None:
    found = history_tree.to_merge([*run(10, level=1), *run(10)])
    assert {each.level for each in found} == {0}
    assert {each.level for each in history_tree.to_merge([*run(10, level=1), *run(9)])} == {1}


def test_merges_stay_within_their_bytes() -> None:
    files = run(10)
    assert history_tree.to_merge(files, bytes_max=35) == tuple(files[:3])
    assert history_tree.to_merge(files, bytes_max=19) == ()


def test_file_that_is_too_large_parts_its_neighbours() -> None:
    files = run(10)
    files[1] = file(10, 15, 0, 1000)
    assert history_tree.to_merge(files, bytes_max=100) == tuple(files[2:])


def test_highest_level_is_not_merged() -> None:
    assert history_tree.to_merge(run(20, level=history_tree.LEVEL_MAX)) == ()


def test_garbage_is_what_no_kept_manifest_lists() -> None:
    newest, kept = [file(0, 45, 1)], [file(0, 5), file(10, 15)]
    found = [*newest, *run(5)]
    garbage = history_tree.garbage(found, newest, kept, time(900))
    assert garbage == (file(20, 25), file(30, 35), file(40, 45))


def test_file_that_a_paused_process_may_publish_is_no_garbage() -> None:
    """It begins with instants that are not archived, or its sources are listed still."""
    staged = file(40, 50)
    assert history_tree.garbage([staged], [], [], time(50)) == ()
    assert history_tree.garbage([staged], [], [], time(51)) == (staged,)
    merged = file(0, 45, 1)
    assert history_tree.garbage([merged], run(5), [], time(900)) == ()
    assert history_tree.garbage([merged], [file(0, 95, 2)], [], time(900)) == (merged,)


@pytest.mark.parametrize(
    ("content", "number"),
    [(b"7", 7), (b"7\n", 7), (b"", None), (b"-1", None), (b"9" * 5000, None), (b"\xff7", None)],
)
def test_version_is_a_number_or_says_nothing(content: bytes, number: int | None) -> None:
    assert history_tree.version_of(content) == number
