"""Listings and file-system views: what a reader and a compaction planner see."""

from collections.abc import Iterable, Mapping

from hoodie.filegroup import listing, view
from hoodie.format import file_names
from hoodie.model import files, instants, plans
from hoodie.storage import memory
from hoodie.timeline import active

FILE_ID = "00000000-0000-0000-0000-000000000000-0"


def at(tick: int) -> instants.InstantTime:
    return instants.InstantTime(f"20260101{tick:09d}")


def timeline_of(
    commits: Mapping[int, int | None], compactions: Mapping[int, int | None] | None = None
) -> active.ActiveTimeline:
    """Return a timeline of delta commits and compactions, by requested and completion time."""
    found = []
    for requested, completed in commits.items():
        found.append(_instant(requested, completed, instants.Action.DELTA_COMMIT))
    for requested, completed in (compactions or {}).items():
        action = instants.Action.COMPACTION if completed is None else instants.Action.COMMIT
        found.append(_instant(requested, completed, action))
    return active.from_files(found)


def _instant(requested: int, completed: int | None, action: instants.Action) -> instants.Instant:
    state = instants.State.INFLIGHT if completed is None else instants.State.COMPLETED
    return instants.Instant(
        requested_time=at(requested),
        action=action,
        state=state,
        completion_time=None if completed is None else at(completed),
    )


def base_name(requested: int, file_id: str = FILE_ID) -> str:
    return file_names.base_file_name(file_id, "0-0-0", at(requested))


def log_name(requested: int, file_id: str = FILE_ID) -> str:
    return file_names.log_file_name(file_id, at(requested), 1, "0-0-0")


def storage_of(paths: Iterable[str]) -> memory.MemoryStorage:
    storage = memory.MemoryStorage()
    for path in paths:
        storage.create(path, b"x")
    return storage


def plan_of(*file_ids: str, partition_path: str = "p") -> plans.CompactionPlan:
    return plans.CompactionPlan(
        operations=tuple(
            plans.CompactionOperation(
                group=files.FileGroupId(partition_path, file_id),
                base_instant_time=at(1),
                base_file_name=None,
                log_file_names=(log_name(1, file_id),),
            )
            for file_id in file_ids
        )
    )


def shown(slices: Iterable[files.FileSlice]) -> list[tuple[str | None, list[str]]]:
    return [
        (each.base_file.name if each.base_file else None, [log.name for log in each.log_files])
        for each in slices
    ]


def view_of(
    names: Iterable[str],
    timeline: active.ActiveTimeline,
    pending: Mapping[instants.InstantTime, plans.CompactionPlan] | None = None,
    replaced: Mapping[files.FileGroupId, instants.InstantTime] | None = None,
) -> view.FileSystemView:
    storage = storage_of(["p/.hoodie_partition_metadata", *(f"p/{name}" for name in names)])
    return view.FileSystemView(
        timeline,
        listing.StorageListing(storage),
        timeline.is_committed,
        pending or {},
        replaced or {},
    )


def test_partitions_are_the_directories_with_metadata() -> None:
    storage = storage_of(
        [
            "a/b/.hoodie_partition_metadata",
            f"a/b/{base_name(1)}",
            f"no-partition/{base_name(1)}",
            "c/.hoodie_partition_metadata",
            # Apache Hudi's hoodie.partition.metafile.use.base.format.
            "d/.hoodie_partition_metadata.parquet",
            ".hoodie/metadata/files/.hoodie_partition_metadata",
            ".hoodie/hoodie.properties",
        ]
    )
    found = listing.StorageListing(storage)
    assert found.partitions() == ["a/b", "c", "d"]
    assert [each.name for each in found.files("a/b")] == [base_name(1)]
    assert found.files("c") == found.files("d") == []
    assert found.files("no-partition") == []


def test_table_without_partitions_is_its_root() -> None:
    storage = storage_of([".hoodie_partition_metadata", base_name(1), ".hoodie/timeline/x"])
    found = listing.StorageListing(storage, is_partitioned=False)
    assert found.partitions() == [""]
    assert [each.path for each in found.files("")] == [base_name(1)]


def test_partition_asked_for_alone_is_listed_alone() -> None:
    storage = storage_of([f"p/{log_name(1)}", f"p/q/{log_name(1)}", f"p/{log_name(1)}.crc"])
    assert [each.path for each in listing.StorageListing(storage).files("p")] == [
        f"p/{log_name(1)}"
    ]


def test_listing_does_not_change_once_it_is_made() -> None:
    storage = storage_of(["p/.hoodie_partition_metadata"])
    found = listing.StorageListing(storage)
    assert found.files("p") == []
    storage.create(f"p/{base_name(1)}", b"x")
    assert found.files("p") == []
    assert len(listing.StorageListing(storage).files("p")) == 1


def test_snapshot_is_the_newest_slice_without_uncommitted_files() -> None:
    table = view_of(
        [log_name(1), base_name(5), log_name(6), log_name(7), base_name(9)],
        timeline_of({1: 2, 6: 8, 7: None}, {5: 6, 9: None}),
    )
    assert shown(table.latest_slices("p")) == [(base_name(5), [log_name(6)])]


def test_slice_over_a_pending_compaction_is_merged_with_the_one_below() -> None:
    # fetchMergedFileSlice; log 2 began before the plan of 5 and completed after it.
    table = view_of(
        [base_name(1), log_name(2), log_name(3), log_name(6), base_name(5)],
        timeline_of({2: 7, 3: 4, 6: 8}, {1: 1, 5: None}),
        {at(5): plan_of(FILE_ID)},
    )
    assert shown(table.latest_slices("p")) == [
        (base_name(1), [log_name(2), log_name(3), log_name(6)])
    ]
    assert [each.base_instant_time for each in table.slices("p")[0]] == [at(5), at(1)]


def test_log_file_that_is_named_by_its_base_file_is_a_change_of_an_upgraded_table() -> None:
    made = view_of([base_name(1), log_name(1)], timeline_of({1: 2}))
    (kept,) = made.latest_slices("p")
    (changed,) = made.of_upgraded_table().latest_slices("p")
    assert (kept.is_changed, changed.is_changed) == (False, True)
    assert kept.log_files == changed.log_files


def test_pending_compaction_of_another_group_is_no_barrier() -> None:
    table = view_of(
        [log_name(1), log_name(6)],
        timeline_of({1: 2, 6: 7}, {5: None}),
        {at(5): plan_of("other-0")},
    )
    assert shown(table.latest_slices("p")) == [(None, [log_name(1), log_name(6)])]


def test_group_that_holds_only_uncommitted_files_is_not_shown() -> None:
    table = view_of([log_name(1), log_name(1, "other-0")], timeline_of({0: 0, 1: None}))
    assert table.latest_slices("p") == []
    assert table.slices("p") == []


def test_replaced_groups_are_not_shown() -> None:
    table = view_of(
        [base_name(1), base_name(1, "other-0")],
        timeline_of({1: 2}),
        replaced={files.FileGroupId("p", FILE_ID): at(2)},
    )
    assert shown(table.latest_slices("p")) == [(base_name(1, "other-0"), [])]
    assert table.slices_for_compaction(at(9)) == []


def test_compaction_takes_logs_that_completed_before_its_instant() -> None:
    # S16, strictly: what completes at the instant falls into the new slice (T-N07).
    table = view_of(
        [base_name(1), log_name(2), log_name(3), log_name(4)],
        timeline_of({1: 1, 2: 9, 3: 10, 4: 11}),
    )
    assert shown(table.slices_for_compaction(at(10))) == [(base_name(1), [log_name(2)])]


def test_compaction_leaves_out_groups_in_another_plan_and_those_without_logs() -> None:
    table = view_of(
        [
            base_name(1),
            log_name(6),
            base_name(1, "without-0"),
            base_name(1, "with-0"),
            log_name(2, "with-0"),
        ],
        timeline_of({1: 1, 2: 3, 6: 7}, {5: None}),
        {at(5): plan_of(FILE_ID)},
    )
    assert shown(table.slices_for_compaction(at(20))) == [
        (base_name(1, "with-0"), [log_name(2, "with-0")])
    ]


def test_file_older_than_the_timeline_counts_as_committed() -> None:
    # format.md: Visibility: archived, or an orphan that Apache Hudi shows, too.
    table = view_of([log_name(1), log_name(6)], timeline_of({5: 6, 6: 7}))
    assert shown(table.latest_slices("p")) == [(None, [log_name(1), log_name(6)])]
