"""A table with renamed columns is refused: its files have the old names."""

import json

import pytest

from hoodie import errors
from hoodie.model import instants
from hoodie.storage import memory
from hoodie.timeline import schema_history

OLDER = ".hoodie/.schema/20260101000000001_20260101000000002.schemacommit"
LATEST = json.dumps({"version_id": 1})
NEWER = ".hoodie/.schema/20260101000000003_20260101000000004.schemacommit"


def version(*fields: tuple[int, str, object]) -> dict[str, object]:
    return {
        "version_id": 1,
        "type": "record",
        "fields": [{"id": id_, "name": name, "type": kind} for id_, name, kind in fields],
    }


def check(*versions: dict[str, object]) -> None:
    storage = memory.MemoryStorage()
    storage.create(OLDER, b"not looked at")
    storage.create(NEWER, json.dumps({"schemas": versions}).encode())
    storage.create(f"{NEWER[:34]}.schemacommit.inflight", b"")
    schema_history.check_names(storage, LATEST)


def test_change_that_failed_after_its_file_counts_for_nothing() -> None:
    renamed, before = version((1, "b", "int")), version((1, "a", "int"))
    check(renamed | {"version_id": 2}, before)
    with pytest.raises(errors.UnsupportedError, match="column 'a' was renamed to 'b'"):
        check(renamed, before | {"version_id": 0})


def test_added_widened_and_dropped_columns_are_fine() -> None:
    place = version((3, "lat", "double"))
    check(
        version((1, "a", "long"), (2, "place", place), (5, "more", "string")),
        version((0, "gone", "int"), (1, "a", "int"), (2, "place", place)),
    )
    schema_history.check_names(memory.MemoryStorage(), LATEST)


@pytest.mark.parametrize(
    ("now", "before", "message"),
    [
        ((1, "b", "int"), (1, "a", "int"), "column 'a' was renamed to 'b'"),
        ((2, "a", "int"), (1, "a", "int"), "column 'a' was dropped and added again"),
        (
            (1, "a", version((2, "y", "int"))),
            (1, "a", version((2, "x", "int"))),
            "column 'a.x' was renamed to 'a.y'",
        ),
        (
            (1, "a", {"type": "array", "element_id": 2, "element": version((3, "y", "int"))}),
            (1, "a", {"type": "array", "element_id": 2, "element": version((3, "x", "int"))}),
            r"column 'a\.element\.x' was renamed",
        ),
    ],
)
def test_renamed_columns_are_refused_by_name(
    now: tuple[int, str, object], before: tuple[int, str, object], message: str
) -> None:
    with pytest.raises(errors.UnsupportedError, match=message):
        check(version(now), version(before))


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"schemas": [{"fields": [{}]}]}'])
def test_damaged_history_is_told(content: bytes) -> None:
    storage = memory.MemoryStorage()
    storage.create(OLDER, content)
    with pytest.raises(errors.FormatError, match=OLDER):
        schema_history.check_names(storage, LATEST)


FIRST, SECOND, THIRD, FOURTH = (
    instants.InstantTime(f"2026010100000000{number}") for number in (1, 3, 5, 7)
)
KEPT = {THIRD: "20260101000000006", FOURTH: "20260101000000008"}
HEIR = f".hoodie/.schema/{THIRD}_{KEPT[THIRD]}.schemacommit"


@pytest.mark.parametrize(
    ("archived", "kept", "expected"),
    [
        ([FIRST, SECOND], KEPT, {OLDER, NEWER, HEIR}),
        ([FIRST], {SECOND: "20260101000000004"} | KEPT, {OLDER, NEWER}),
        ([FIRST, SECOND], {}, {OLDER, NEWER}),
        ([instants.InstantTime("20251231000000000")], KEPT, {OLDER, NEWER}),
    ],
    ids=["of one that goes", "of one that stays", "nothing stays", "of nobody"],
)
def test_newest_history_is_of_a_commit_on_the_timeline(
    archived: list[instants.InstantTime],
    kept: dict[instants.InstantTime, str],
    expected: set[str],
) -> None:
    storage = memory.MemoryStorage()
    storage.create(OLDER, b"older")
    storage.create(NEWER, b"newer")
    for _ in range(2):
        schema_history.carry(storage, archived, kept, lambda: None)
    found = {each.path for each in storage.list(".hoodie/.schema")}
    assert found == expected
    for path in found - {OLDER, NEWER}:
        assert storage.read(path) == b"newer"
