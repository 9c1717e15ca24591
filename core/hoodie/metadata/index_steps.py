"""The steps of an index's build that are decided in a lock scope: begin and publish.

They are of a process that executes a plan: it has the heartbeat of the indexing action. Source:
`RunIndexActionExecutor.java`; protocol.md: Indexes built beside writers.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hoodie import errors
from hoodie.filegroup import index_groups, metadata_table, metadata_writing
from hoodie.metadata import (
    index_decisions,
    initial_filters,
    initial_statistics,
    partition_making,
)
from hoodie.model import (
    commits,
    file_statistics,
    files,
    instants,
    key_changes,
    plans,
    schemas,
    secondary_indexes,
    table_config,
)
from hoodie.storage.protocol import Storage
from hoodie.timeline import (
    active,
    contents,
    epochs,
    index_definitions,
    metadata_timelines,
    table_properties,
    true_time,
)
from hoodie.transaction import (
    admission,
    configuration,
    lifecycle,
    markers,
    metadata_commits,
    publication,
    stored_schemas,
    table_lock,
)
from hoodie.transaction.client import Client, OpenAction

logger = logging.getLogger(__name__)

ACTION = instants.Action.INDEXING

_COMPACTIONS = (instants.Action.COMPACTION, instants.Action.LOG_COMPACTION)


class CompactedError(errors.ConflictError):
    """A pending compaction of the metadata table has files that are to be deleted."""


FILE_GROUPS: Mapping[str, int] = {
    **initial_statistics.FILE_GROUPS,
    file_statistics.BLOOM_FILTERS: initial_filters.FILE_GROUPS,
}
"""How many file groups each partition of a metadata table is made with, as Apache Hudi does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A build that has begun.

    Attributes:
        opened: The action, which this process executes.
        plan: Its plan.
        time: Of its base files.
        timeline: The table's: what has completed there is in the base files.
        config: The table's configuration since.
        schema: Its columns.
        wanted: Which statistics.
        record_groups: How many file groups a record index has.
        secondary: The secondary indexes, with how many file groups each has.
    """

    opened: OpenAction
    plan: plans.Indexing
    time: instants.InstantTime
    timeline: active.ActiveTimeline
    config: table_config.TableConfig
    schema: schemas.TableSchema
    wanted: file_statistics.Wanted
    record_groups: int = 0
    secondary: Mapping[secondary_indexes.Definition, int] = field(default_factory=dict)


def pending(storage: Storage, timeline: active.ActiveTimeline) -> list[index_decisions.Build]:
    """Return the pending indexing actions; a read for each.

    Raises:
        FormatError: A plan is damaged.
        UnsupportedError: One is of a version that is not known.
    """
    found = []
    for each in timeline.pending_of(ACTION):
        try:
            plan = contents.read_indexing_plan(storage, each)
        except errors.NotFoundError:
            plan = plans.Indexing(partitions=())
        found.append(index_decisions.Build(instant=each, plan=plan))
    return found


def columns_of(
    storage: Storage,
    config: table_config.TableConfig,
    builds: Sequence[index_decisions.Build],
    wanted: Sequence[str],
) -> Mapping[str, str]:
    """Return the columns of secondary indexes that are wanted, and are ready, or planned.

    A request if one is ready.

    Raises:
        HoodieError: As `index_definitions.of_secondary_indexes`: it can be dropped.
    """
    planned = {
        each.name: column
        for build in builds
        for each in build.plan.partitions
        if (column := each.extra.get(secondary_indexes.COLUMN_KEY)) is not None
    }
    ready = [name for name in config.metadata_partitions if name in wanted]
    found = index_definitions.of_secondary_indexes(storage, config, ready)
    return planned | {each.partition: each.column for each in found}


def taken_over(
    client: Client, expected: table_config.TableConfig, found: index_decisions.Build
) -> OpenAction | None:
    """Return a pending action whose execution is ours now; None where it is not pending any more.

    Raises:
        ConflictError: Somebody alive executes it.
    """
    time = found.instant.requested_time
    try:
        return lifecycle.take_over(client, ACTION, time, expected)
    except (errors.ConflictError, errors.NotFoundError):
        if time in active.listed(client.storage).pending_times:
            raise
        return None


def begin(
    client: Client,
    schema: schemas.TableSchema,
    opened: OpenAction,
    plan: plans.Indexing,
    scope: table_lock.LockScope,
    *,
    record_groups: int = 0,
) -> Begun:
    """Have every change that completes from now on logged in the partitions of a plan.

    The epoch that does so takes the build's time, so that all later ones are greater (CH4), and
    fails where another change was made on which nothing here was decided.

    Args:
        client: Of the process that executes the plan.
        schema: The table's columns, if no commit has them.
        opened: The action.
        plan: Its plan.
        scope: In which it is decided.
        record_groups: How many file groups an index of keys gets, or as many as there are files of:
            writers count those that a dead builder has left.

    Raises:
        ConflictError: The plan was given up, or a partition is ready by now.
    """
    config = admission.admit_table(client, scope, opened.prepared_for)
    is_ours = admission.holding(scope, opened.heartbeat)
    # Who was paused while the plan was taken over has made it inflight after it was given up.
    is_there = all(map(scope.timeline.has_file, (opened.requested, opened.inflight)))
    if not is_there or not opened.heartbeat.is_own():
        raise errors.ConflictError(
            f"{opened.inflight} of {client.storage.uri} was given up, or taken over by another"
        )
    there = set(plan.names).intersection(config.metadata_partitions)
    if there or not config.metadata_partitions:
        raise errors.ConflictError(
            f"the metadata table of {client.storage.uri} was made again, or dropped, since "
            f"{opened.inflight} was planned; build the index again"
        )
    inflight = {*config.metadata_partitions_inflight, *plan.names}
    changes: dict[str, str | None] = {
        table_config.METADATA_PARTITIONS_INFLIGHT_KEY: index_decisions.names_text(inflight)
    }
    since = replace(config, metadata_partitions_inflight=tuple(sorted(inflight)))
    columns = stored_schemas.columns_of(client.storage, config, scope.timeline, schema)
    _refuse_grown(plan, config, columns)
    wanted = wanted_statistics(client.storage, config, since, columns)
    changes |= define_statistics(client.storage, config, since, wanted)
    secondary = _secondary(client, plan, config, columns, record_groups)
    if key_changes.RECORD_INDEX in plan.names:
        index_definitions.put_of_record_index(client.storage)
        changes[table_config.INDEX_DEFINITIONS_PATH_KEY] = index_definitions.PATH
        record_groups = _with_left(client, record_groups)
    names_of_pairs = [each.partition for each in secondary]
    for each in secondary:
        changes[secondary_indexes.column_key(each.partition)] = each.column
    time = client.time_after(scope, true_time.Parity.EPOCH)
    # Of this time are those of one who was paused here, and has published nothing: as those below.
    left = [
        each.path
        for name in names_of_pairs
        for each in metadata_table.data_files(beside(client), name)
        if each.instant_time != time
    ]
    for name in plan.names:
        if name not in names_of_pairs:
            found = groups(name, record_groups)
            partition_making.begin(beside(client), name, found, time, is_ours)
    for each, count in secondary.items():
        found = partition_making.groups(each.partition, count)
        partition_making.begin(beside(client), each.partition, found, time, is_ours)
    change = epochs.Change(
        id=client.random.uuid(), time=time, author=str(client.author), properties=changes
    )
    publication.make(client, scope, change, is_ours)
    # Nothing of another column may be there when the name is published, nor was any of it used.
    if left:
        client.storage.delete_unordered([f"{metadata_timelines.DIRECTORY}/{path}" for path in left])
    logger.info("%s: %s begins at %s", client.storage.uri, opened.inflight, time)
    return Begun(
        opened=opened,
        plan=plan,
        time=time,
        timeline=scope.timeline,
        config=since,
        schema=columns,
        wanted=wanted,
        record_groups=record_groups,
        secondary=secondary,
    )


def _secondary(
    client: Client,
    plan: plans.Indexing,
    config: table_config.TableConfig,
    columns: schemas.TableSchema,
    count: int,
) -> Mapping[secondary_indexes.Definition, int]:
    """Return the secondary indexes of a plan, and how many file groups each is made with.

    Raises:
        FormatError: The plan does not name a column.
        UnsupportedError: The column is not of a type that is indexed, or the record index is one of
            each partition.
        InvalidInputError: There is no such column.
        ConflictError: The record index was dropped meanwhile.
    """
    found: dict[secondary_indexes.Definition, int] = {}
    for each in plan.partitions:
        if not secondary_indexes.is_one(each.name):
            continue
        column = each.extra.get(secondary_indexes.COLUMN_KEY)
        if column is None:
            raise errors.FormatError(
                f"the plan to build {each.name} of {client.storage.uri} names no column, expected "
                f"{secondary_indexes.COLUMN_KEY}: give it up by `hoodie index drop {each.name}`"
            )
        definition = index_definitions.by_column(config, each.name, column)
        refusal = secondary_indexes.column_refusal(definition, columns.arrow, config.name)
        if refusal is not None:
            raise refusal
        left = metadata_writing.group_ids(beside(client), each.name)
        found[definition] = max([count, *(1 + _number(file_id) for file_id in left)])
    if found and key_changes.RECORD_INDEX in config.metadata_partitions:
        if index_definitions.is_partitioned(client.storage):
            raise errors.UnsupportedError(
                f"the record index of {client.storage.uri} is one of each partition, and a "
                "secondary index needs one that has each key once in the table"
            )
    elif found and key_changes.RECORD_INDEX not in plan.names:
        raise errors.ConflictError(
            f"{key_changes.RECORD_INDEX} of {client.storage.uri} was dropped meanwhile: build it "
            "first"
        )
    return found


def _number(file_id: str) -> int:
    """Return the number of a file group whose partition numbers all of them."""
    return int(file_id.removesuffix("-0").rpartition("-")[2])


def define(client: Client, names: Sequence[str]) -> None:
    """Write the definitions of secondary indexes that are ready, by which other engines read them.

    Not before an index is ready: Apache Hudi's readers use what is defined. The properties have its
    column until then. Two scopes, if one is not defined.

    Args:
        client: Of the table.
        names: Of indexes.
    """

    def undefined() -> list[secondary_indexes.Definition]:
        config = table_properties.load(client.storage, client.clock)
        return [
            index_definitions.by_column(config, name, column)
            for name in names
            if name in config.metadata_partitions
            and (column := config.properties.get(secondary_indexes.column_key(name))) is not None
        ]

    def decide(scope: table_lock.LockScope) -> None:
        scope.check()
        found = undefined()
        if found:
            index_definitions.put_of_secondary_indexes(client.storage, undefined)
            keys = [secondary_indexes.column_key(each.partition) for each in found]
            configuration.put(client, scope, dict.fromkeys(keys))

    if any(map(secondary_indexes.is_one, names)) and undefined():
        client.lock.decide(decide)


def wanted_statistics(
    storage: Storage,
    config: table_config.TableConfig,
    since: table_config.TableConfig,
    columns: schemas.TableSchema,
) -> file_statistics.Wanted:
    """Return which statistics files have once indexes are built; a request if there are any by now.

    Args:
        storage: The data table's.
        config: The table's configuration.
        since: With the indexes.
        columns: Its columns.

    Raises:
        HoodieError: As `index_definitions.wanted_statistics`.
    """
    if file_statistics.is_needed(config):
        return index_definitions.wanted_statistics(storage, config, columns.arrow)
    # Definitions that are there may be of what was dropped.
    return file_statistics.wanted(since, columns.arrow, None)


def define_statistics(
    storage: Storage,
    config: table_config.TableConfig,
    since: table_config.TableConfig,
    wanted: file_statistics.Wanted,
) -> Mapping[str, str]:
    """Write the definition of statistics that a table did not have; return what properties change.

    Args:
        storage: The data table's.
        config: The table's configuration.
        since: With the indexes that are built.
        wanted: Which statistics files have then.
    """
    if not file_statistics.is_needed(since) or file_statistics.is_needed(config):
        return {}
    index_definitions.put_of_statistics(storage, config, wanted, is_only=False)
    return {table_config.INDEX_DEFINITIONS_PATH_KEY: index_definitions.PATH}


def _with_left(client: Client, record_groups: int) -> int:
    """Return how many file groups a record index gets beside files that somebody has left.

    Raises:
        ConflictError: They are of an index of each partition.
    """
    ids = metadata_writing.group_ids(beside(client), key_changes.RECORD_INDEX)
    if not ids:
        return record_groups
    found = index_groups.of(client.storage, ids)
    if found.is_partitioned:
        raise errors.ConflictError(
            f"{client.storage.uri} has files of a record index of each partition that was dropped, "
            f"such as {ids[0]}: `hoodie index drop {key_changes.RECORD_INDEX}` removes them"
        )
    return max(record_groups, 1 + max(found.by_key_space[None]))


def _refuse_grown(
    plan: plans.Indexing, config: table_config.TableConfig, columns: schemas.TableSchema
) -> None:
    """Refuse to build statistics of partitions in a table whose columns have grown.

    A write looks for an older record of another type, which is not there yet (M-J).

    Raises:
        UnsupportedError: They have, or it is not known.
    """
    created = config.create_schema
    if file_statistics.PARTITION_STATS not in plan.names:
        return
    if created is None or schemas.from_avro(created).arrow != columns.arrow:
        raise errors.UnsupportedError(
            f"the columns of {config.name} are not those that it was created with, and this "
            f"version does not build {file_statistics.PARTITION_STATS} of such a table beside "
            "writers: make the metadata table again by `hoodie metadata init --rebuild`"
        )


def publish(
    client: Client,
    begun: Begun,
    stats: Sequence[commits.WriteStat],
    scope: table_lock.LockScope,
    is_ours: markers.Check,
) -> publication.Accompaniment:
    """Return what makes the partitions ready, in the scope that completes the action.

    Raises:
        ConflictError: They are not being built any more.
        FormatError: The metadata table lacks a change.
    """
    config = table_properties.load(client.storage, client.clock)
    names, inflight = set(begun.plan.names), set(config.metadata_partitions_inflight)
    if not names <= inflight:
        raise errors.ConflictError(
            f"the metadata table of {client.storage.uri} was made again, or dropped, while "
            f"{', '.join(sorted(names - inflight))} was built; build the index again"
        )
    stored = stored_schemas.as_of(client.storage, config, scope.timeline)
    if stored is not None:
        _refuse_grown(begun.plan, config, stored.columns)
    metadata_commits.refuse_behind(client, scope)
    is_ours()
    return publication.Accompaniment(
        beside=partition_making.whole_instant(client, scope, begun.time, stats),
        properties={
            table_config.METADATA_PARTITIONS_KEY: index_decisions.names_text(
                {*config.metadata_partitions, *names}
            ),
            table_config.METADATA_PARTITIONS_INFLIGHT_KEY: index_decisions.names_text(
                inflight - names
            ),
        },
    )


def clear(
    client: Client,
    scope: table_lock.LockScope,
    names: Sequence[str],
    check: Callable[[], None],
) -> None:
    """Delete what is left in the folders of partitions that the properties do not name.

    Where other engines write it is done under the lock: Apache Hudi makes names again.

    Raises:
        CompactedError: A compaction of the metadata table is pending that has some of it, and would
            fail without.
    """
    storage = beside(client)
    metadata_commits.take_off_left(client, scope, names, check)
    left = left_in(client, names)
    if not left:
        return
    for pending in () if scope.beside is None else scope.beside.pending_of(*_COMPACTIONS):
        try:
            plan = contents.read_compaction_plan(storage, pending)
        except errors.NotFoundError:
            continue  # Its executor died, and it was withdrawn.
        if any(each.group.partition_path in names for each in plan.operations):
            raise CompactedError(
                f"{pending} of {storage.uri} is pending, and has what is left of "
                f"{', '.join(names)}: the next write of its engine completes it"
            )
    check()
    storage.delete_unordered(left)


def left_in(client: Client, names: Sequence[str]) -> list[str]:
    """Return the paths of data files of partitions, in the metadata table; a listing each."""
    return [each.path for name in names for each in metadata_table.data_files(beside(client), name)]


def beside(client: Client) -> Storage:
    """Return the storage of the metadata table."""
    return metadata_timelines.opened(client.storage)


def groups(name: str, record_groups: int = 0) -> Sequence[files.FileGroupId]:
    """Return the file groups that a partition is made with; so many those of a record index."""
    count = record_groups if name == key_changes.RECORD_INDEX else FILE_GROUPS[name]
    return partition_making.groups(name, count)
