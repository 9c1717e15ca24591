"""Bringing a mirror up to date: one Iceberg snapshot for each state of the table.

Invariants:
    M1  a snapshot of the mirror names exactly the base files of a state of the table
    M2  a file that a kept snapshot names is not cleaned: the mirror's consumer is never later than
        the oldest kept state, before a commit as after it
    M3  a state is mirrored once: nothing is committed where the newest snapshot has its files
    M4  a commit replaces the version of the metadata that it was made for, or fails

Where a run dies, the next one goes on: what it had not committed is nowhere named, and removed once
it is a day old; what comes after a commit (hint, consumer, removal) is done by every run.

A mirror follows the table wherever that goes, back as well: after a restore or a rollback its
newest snapshot is of the table as it is then, and those are dropped of which files are gone.
"""

import contextlib
import functools
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyiceberg import table as iceberg_table
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update.snapshot import ExpireSnapshots
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from hoodie import environment, errors
from hoodie.engine.protocol import Engine
from hoodie.filegroup import past
from hoodie.format import file_names
from hoodie.maintenance import consumers
from hoodie.model import files, instants, key_generators, moments, partition_columns
from hoodie.services.mirrors import entries, names, places, states, values
from hoodie.storage import protocol
from hoodie.timeline import chain, contents
from hoodie.transaction import manager

logger = logging.getLogger(__name__)

_TRIES = 5
_DAY_MS = 86_400_000
_MARKS = frozenset("#?")
_MAPPING_KEY = "schema.name-mapping.default"
_PROPERTIES = {
    # Data files are the Hudi table's: no engine may delete one as this table's garbage.
    "gc.enabled": "false",
    # A commit that another overtook begins anew, with what the table is then.
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What a run changes of a mirror.

    Attributes:
        state: The table.
        before: The files that the newest snapshot names, by location.
        added: Files to add.
        removed: Files to remove.
        dropped: Snapshots to drop.
        kept: Completion times of those that stay, and of the state.
        held: Of those whose files are there before the commit, and of the state.
        has_snapshot: Whether there is a snapshot to make.
    """

    state: states.State
    before: Mapping[str, DataFile]
    added: tuple[files.BaseFile, ...]
    removed: tuple[DataFile, ...]
    dropped: tuple[Snapshot, ...]
    kept: tuple[instants.InstantTime, ...]
    held: tuple[instants.InstantTime, ...]
    has_snapshot: bool


def mirror(
    target: manager.Target,
    options: values.Options,
    env: environment.Environment,
    *,
    is_dry_run: bool = False,
) -> values.Mirrored:
    """Bring a mirror up to date, or make it.

    A listing of the table, the manifests of the newest snapshot, and a footer for each base file
    that is new in it. No data file is read or written.

    Args:
        target: The table.
        options: How.
        env: Time and ids.
        is_dry_run: Only return what would be done.

    Raises:
        ConfigurationError: Another program has put an Iceberg table there, or has committed to the
            mirror; or the catalog cannot be opened.
        UnsupportedError: Iceberg has not the type of a column, or cannot read files as the table's
            columns are now; or a partition is where the mirror has to be.
        NotFoundError: The table has no completed instant.
        ConflictError: Other processes brought the mirror up to date during each of some tries.
        OutcomeUnknownError: A catalog did not say whether it took the commit; mirror it again.
        StorageError: A catalog failed.
    """
    place = places.open_place(target.storage, options.catalog)
    is_held = True
    for _ in range(_TRIES):
        table = place.load()
        state = states.look(target)
        target = replace(target, schema=state.schema)
        _check(target, place, table, state)
        is_held = is_held and consumers.record_of(target.storage, place.consumer) is not None
        change = _change(target.storage, table, state, options, is_held=is_held)
        if is_dry_run:
            return _result(table, change, is_new=False)
        try:
            _hold(target, place.consumer, change.held, options, env)
        except errors.InvalidInputError as error:
            logger.info("%s: %s: another process mirrors it", target.storage.uri, error)
            continue  # It is further than this one.
        except errors.ConflictError as error:
            logger.info("%s: %s: older snapshots are dropped", target.storage.uri, error)
            is_held = False
            continue
        try:
            table = _committed(target, place, table, change, env.engine)
        except CommitFailedException as error:
            logger.info("%s: %s: another process mirrors it", target.storage.uri, error)
            continue
        except CommitStateUnknownException as error:
            raise errors.OutcomeUnknownError(
                f"the catalog did not say whether the mirror of {target.storage.uri} was brought "
                f"up to date ({error}); the next run finds out"
            ) from error
        place.point(table)
        with contextlib.suppress(errors.ConflictError, errors.InvalidInputError):
            # Another process does it, or the next run: until then more is kept.
            _hold(target, place.consumer, change.kept, options, env)
        _remove_unnamed(target.storage, place, table)
        return _result(table, change, is_new=change.has_snapshot)
    raise errors.ConflictError(
        f"other processes brought the mirror of {target.storage.uri} up to date during each of "
        f"{_TRIES} tries: expected one process that mirrors a table"
    )


def _check(
    target: manager.Target,
    place: places.Place,
    table: iceberg_table.Table | None,
    state: states.State,
) -> None:
    """Refuse what cannot be mirrored, and what is no mirror of ours.

    Raises:
        UnsupportedError: A partition is where the mirror has to be, or cannot be named.
        ConfigurationError: What is there is not ours.
        ConflictError: It is further than the table.
    """
    uri = target.storage.uri
    inside = [each for each in state.partitions if each.split("/")[0] == names.FOLDER]
    if inside:
        raise errors.UnsupportedError(
            f"{uri} has the partition {inside[0]!r}, in the folder {names.FOLDER} where engines "
            "look for the metadata of an Iceberg table: a table with such a partition cannot be "
            "mirrored"
        )
    marked = [each for each in state.partitions if _MARKS & {*each}]
    if marked:
        raise errors.UnsupportedError(
            f"{uri} has the partition {marked[0]!r}: engines take what follows a # or ? in the "
            "location of an Iceberg table's file for no part of its name, so that a table with "
            "such a partition cannot be mirrored; URL-encoded partition paths have none"
        )
    if table is None:
        return
    newest = table.current_snapshot()
    is_ours = table.properties.get(states.MIRROR_KEY) == states.MIRROR_VERSION
    if not is_ours or (newest is not None and _time_of(newest) is None):
        what = (
            "an Iceberg table that is not a mirror" if not is_ours else "a snapshot of another one"
        )
        raise errors.ConfigurationError(
            f"{uri} has {what} in {place.folder} ({table.metadata_location}): another program "
            f"commits to it; have it stop, and move the folder {names.FOLDER} away to have the "
            "table mirrored"
        )
    mirrored = table.properties.get(states.COMPLETION_KEY, "")
    if mirrored > state.completion_time:
        raise errors.ConflictError(
            f"the mirror of {uri} has followed it up to {mirrored}, and its newest instant "
            f"completed at {state.completion_time}: the mirror is of another table that was there, "
            f"or the table is an older copy; delete the folder {names.FOLDER} to mirror it again"
        )


def _time_of(snapshot: Snapshot) -> instants.InstantTime | None:
    found = None if snapshot.summary is None else snapshot.summary.get(states.COMPLETION_KEY)
    return None if found is None else instants.InstantTime(found)


def _change(
    storage: protocol.Storage,
    table: iceberg_table.Table | None,
    state: states.State,
    options: values.Options,
    *,
    is_held: bool,
) -> _Change:
    """Return what a run changes.

    Args:
        storage: The table's.
        table: The mirror; None where there is none yet.
        state: The table.
        options: How it is mirrored.
        is_held: Whether a consumer has kept the files of older snapshots since they were made.
    """
    newest = None if table is None else table.current_snapshot()
    before = {} if newest is None or table is None else _named(table, newest)
    wanted = {places.location_of(storage, each.path): each for each in state.files}
    added = tuple(each for location, each in wanted.items() if location not in before)
    removed = tuple(each for location, each in before.items() if location not in wanted)
    has_snapshot = bool(newest is None or added or removed)
    older = _by_time([] if table is None else table.snapshots())
    # The newest snapshot is the state's where its files are: none of them is replaced.
    current = [] if newest is None or has_snapshot else [newest]
    readable = _readable(storage, state, older, removed) if is_held else []
    rest = [each for each in readable if each not in current]
    count = options.kept - 1
    left = rest[-count:] if count else []
    dropped = tuple(each for each in older if each not in [*left, *current])
    return _Change(
        state=state,
        before=before,
        added=added,
        removed=removed,
        dropped=dropped,
        kept=(*_times(left), state.completion_time),
        held=(*_times(rest), state.completion_time),
        has_snapshot=has_snapshot,
    )


def _named(table: iceberg_table.Table, snapshot: Snapshot) -> dict[str, DataFile]:
    """Return the data files of a snapshot by location; a read for each manifest."""
    return {
        entry.data_file.file_path: entry.data_file
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    }


def _by_time(found: Iterable[Snapshot]) -> list[Snapshot]:
    return sorted(found, key=lambda each: (_time_of(each) or "", each.sequence_number or 0))


def _times(found: Iterable[Snapshot]) -> list[instants.InstantTime]:
    return [time for each in found if (time := _time_of(each)) is not None]


def _readable(
    storage: protocol.Storage,
    state: states.State,
    older: Sequence[Snapshot],
    removed: Collection[DataFile],
) -> list[Snapshot]:
    """Return the snapshots of which no file is gone, as far as the table says.

    Cleans and restores leave gaps. The rollback of a write that had completed leaves none: of those
    since the last run each that took a file of the mirror back counts from its target on.
    """
    timed = [each for each in older if _time_of(each) is not None]
    if not timed:
        return []
    times = _times(timed)
    gaps = past.gaps(storage, state.snapshot, moments.Moment(time=times[0]))
    taken_back = _taken_back(storage, state, times[-1], removed)
    return [
        each
        for each, time in zip(timed, times, strict=True)
        if not any(gap.has(time) for gap in gaps) and (taken_back is None or time < taken_back)
    ]


def _taken_back(
    storage: protocol.Storage,
    state: states.State,
    mirrored: instants.InstantTime,
    removed: Collection[DataFile],
) -> instants.InstantTime | None:
    """Return the first write that was taken back since the mirror had its files; None for none."""
    if not removed:
        return None
    rollbacks = contents.read_rollback_targets(storage, state.snapshot.timeline, mirrored)
    targets = {each for each in rollbacks.values() if each is not None}
    parsed = (
        file_names.parse(places.path_of(storage, each.file_path), each.file_size_in_bytes)
        for each in removed
    )
    writes = {each.instant_time for each in parsed if each is not None}
    return min(targets) if targets & writes else None


def _hold(
    target: manager.Target,
    name: str,
    times: Collection[instants.InstantTime],
    options: values.Options,
    env: environment.Environment,
) -> None:
    """Have cleaning keep the files of some states: those replaced at the oldest of them, or later.

    What is certain of the newest times counts where clocks show some twice.
    """
    storage, config = target.storage, target.config
    known = consumers.record_of(storage, name)
    timeline = chain.load(storage, config)
    wanted = min(*times, consumers.reach_of(timeline, config, env.clock.now_ms()).certain)
    is_behind = known is not None and wanted <= known.consumed
    progress = consumers.Progress(to=None if is_behind else wanted, limit_ms=options.limit_ms)
    consumers.advance(storage, lambda: chain.load(storage, config), name, progress, env, config)


def _committed(
    target: manager.Target,
    place: places.Place,
    table: iceberg_table.Table | None,
    change: _Change,
    engine: Engine,
) -> iceberg_table.Table:
    """Commit a change, if there is one, and return the mirror.

    Raises:
        CommitFailedException: Another process committed first.
    """
    schema = entries.schema_of(target.schema.arrow, target.config.name)
    footers = engine.map(functools.partial(entries.read_footer, target.storage), change.added)
    if table is None:
        table = place.create(schema, _spec(target, schema), _PROPERTIES | _mapping(schema))
    properties = _stated(change.state)
    is_grown = not entries.is_same(table.schema(), schema)
    is_new = any(table.properties.get(key) != value for key, value in properties.items())
    if not (change.has_snapshot or change.dropped or is_grown or is_new):
        return table
    with table.transaction() as transaction:
        if is_grown:
            _grow(target, transaction, schema)
        mapping = transaction.table_metadata.name_mapping() or NameMapping([])
        named = entries.naming_all(mapping, footers, target.config.name)
        if named is not None:
            transaction.set_properties({_MAPPING_KEY: named.model_dump_json()})
        if change.has_snapshot:
            _add_snapshot(target, transaction, change, footers)
        transaction.set_properties(properties)
        if change.dropped:
            _drop(transaction, change.dropped)
    return table


def _spec(target: manager.Target, schema: Schema) -> PartitionSpec:
    """Return how a new mirror is partitioned: by columns whose values are in paths as they are.

    Columns that files lack have their values from there alone, whatever texts these are.
    """
    config = target.config
    kinds = key_generators.path_kinds(config) or ()
    simple = [
        name
        for name, kind in zip(config.partition_fields, kinds, strict=False)
        if kind is key_generators.PathKind.SIMPLE
    ]
    known = {*simple, *partition_columns.left_out(config)}
    names = entries.identity_columns(config, target.schema.arrow, known)
    return PartitionSpec(
        *(
            PartitionField(
                source_id=schema.find_field(name).field_id,
                field_id=1000 + index,
                transform=IdentityTransform(),
                name=name,
            )
            for index, name in enumerate(names)
        )
    )


def _mapping(schema: Schema) -> dict[str, str]:
    return {
        _MAPPING_KEY: schema.name_mapping.model_dump_json(),
        states.MIRROR_KEY: states.MIRROR_VERSION,
    }


def _stated(state: states.State) -> dict[str, str]:
    return {
        states.COMPLETION_KEY: state.completion_time,
        states.INSTANT_KEY: state.instant or "",
        states.UNMIRRORED_GROUPS_KEY: str(state.unmirrored.groups),
        states.UNMIRRORED_BYTES_KEY: str(state.unmirrored.log_bytes),
    }


def _grow(target: manager.Target, transaction: Any, schema: Schema) -> None:  # noqa: ANN401
    """Have a mirror the table's columns.

    Raises:
        UnsupportedError: Iceberg does not change a column so.
    """
    wanted = {each.name for each in schema.fields}
    try:
        with transaction.update_schema() as update:
            update.union_by_name(schema)
            for each in transaction.table_metadata.schema().fields:
                if each.name not in wanted:
                    update.delete_column(each.name)
    except entries.INCOMPATIBLE as error:
        raise errors.UnsupportedError(
            f"the columns of {target.storage.uri} changed in a way that an Iceberg table cannot "
            f"({error}); delete its folder {names.FOLDER} to have it mirrored again"
        ) from error


def _add_snapshot(
    target: manager.Target,
    transaction: Any,  # noqa: ANN401
    change: _Change,
    footers: Sequence[entries.Footer],
) -> None:
    placed = _placed(target, transaction, footers)
    metadata = transaction.table_metadata
    made = [
        entries.data_file(target.storage, footer, metadata, record) for footer, record in placed
    ]
    summary = _stated(change.state)
    update = transaction.update_snapshot(snapshot_properties=summary)
    # An append merges manifests of small appends; what removes files writes theirs anew anyway.
    with update.overwrite() if change.removed else update.merge_append() as snapshot:
        for each in made:
            snapshot.append_data_file(each)
        for each in change.removed:
            snapshot.delete_data_file(each)


def _placed(
    target: manager.Target,
    transaction: Any,  # noqa: ANN401
    footers: Sequence[entries.Footer],
) -> list[tuple[entries.Footer, Record]]:
    """Return files with the values of their partitions.

    A column of which one file has several values is none that files are partitioned by: the
    mirror's partitioning goes on without it.
    """
    while True:
        metadata = transaction.table_metadata
        spec, schema = metadata.spec(), metadata.schema()
        found, several = [], set[str]()
        for footer in footers:
            record, names = entries.partition(footer, spec, schema, _of_path(target, footer))
            several |= {*names}
            found.append((footer, record))
        if not several:
            return found
        with transaction.update_spec() as update:
            for name in sorted(several):
                update.remove_field(name)


def _of_path(target: manager.Target, footer: entries.Footer) -> Mapping[str, pa.Scalar]:
    config = target.config
    taken = partition_columns.of_paths(config, target.schema.arrow)
    return partition_columns.values(footer.file.group.partition_path, config, taken)


def _drop(transaction: Any, dropped: Collection[Snapshot]) -> None:  # noqa: ANN401
    ids = [each.snapshot_id for each in dropped]
    ExpireSnapshots(transaction).by_ids(ids).commit()


def _remove_unnamed(
    storage: protocol.Storage, place: places.Place, table: iceberg_table.Table
) -> None:
    """Delete files of the mirror's own that no kept snapshot names, once they are a day old.

    A run that has not committed yet may still name a younger one. Ages are by the storage's clock.
    """
    infos = [each for each in storage.list(place.folder) if each.path != place.hint]
    newest_ms = max((each.modified_ms for each in infos), default=0)
    old = [each.path for each in infos if each.modified_before_ms < newest_ms - _DAY_MS]
    if not old:
        return
    named = {table.metadata_location, *(log.metadata_file for log in table.metadata.metadata_log)}
    for snapshot in table.snapshots():
        named.add(snapshot.manifest_list)
        named |= {each.manifest_path for each in snapshot.manifests(table.io)}
    storage.delete_unordered(path for path in old if places.location_of(storage, path) not in named)


def _result(table: iceberg_table.Table | None, change: _Change, *, is_new: bool) -> values.Mirrored:
    newest = None if table is None else table.current_snapshot()
    state = change.state
    return values.Mirrored(
        location="" if table is None else table.metadata_location,
        snapshot_id=None if newest is None else newest.snapshot_id,
        is_new=is_new,
        instant=state.instant,
        completion_time=state.completion_time,
        files=len(state.files),
        added=len(change.added),
        removed=len(change.removed),
        kept=len(change.kept),
        dropped=len(change.dropped),
        unmirrored=state.unmirrored,
    )
