"""The steps of an index's build that are decided in a lock scope: begin and publish.

They are of a process that executes a plan: it has the heartbeat of the indexing action. Source:
`RunIndexActionExecutor.java`; protocol.md: Indexes built beside writers.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from hoodie import errors
from hoodie.filegroup import index_groups, metadata_table, metadata_writing, snapshots
from hoodie.format import file_names
from hoodie.metadata import (
    index_decisions,
    initial_filters,
    initial_statistics,
    partition_bases,
    partition_making,
)
from hoodie.model import (
    commits,
    expression_indexes,
    file_statistics,
    files,
    instants,
    key_changes,
    plans,
    schemas,
    secondary_indexes,
    table_config,
)
from hoodie.storage import scratch
from hoodie.storage.protocol import Storage
from hoodie.timeline import (
    active,
    contents,
    epochs,
    index_definitions,
    metadata_timelines,
    table_properties,
    transitions,
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


RecordGroups: TypeAlias = Mapping[str | None, int]
"""How many file groups a record index has of each partition, or of the whole table, by None."""

NO_RECORD_GROUPS: RecordGroups = MappingProxyType({})
"""Those of a build without a record index."""


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
        record_groups: How many file groups a record index has; as of `begin`.
        occupied: The ids of those in which an earlier index, or a builder, has left something.
        secondary: The secondary indexes, with how many file groups each has.
        expressions: How many file groups expression indexes have, by name.
    """

    opened: OpenAction
    plan: plans.Indexing
    time: instants.InstantTime
    timeline: active.ActiveTimeline
    config: table_config.TableConfig
    schema: schemas.TableSchema
    wanted: file_statistics.Wanted
    record_groups: RecordGroups = field(default_factory=dict)
    occupied: frozenset[str] = frozenset()
    secondary: Mapping[secondary_indexes.Definition, int] = field(default_factory=dict)
    expressions: Mapping[str, int] = field(default_factory=dict)


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
        except errors.FormatError as error:
            path = transitions.path(each.pending_in(instants.State.REQUESTED))
            raise errors.FormatError(
                f"the plan of {each} in {storage.uri} is damaged: {error}. Nothing can be built "
                f"by it: delete {path} and its inflight file once no engine executes it"
            ) from error
        found.append(index_decisions.Build(instant=each, plan=plan))
    return found


def columns_of(
    storage: Storage,
    config: table_config.TableConfig,
    builds: Sequence[index_decisions.Build],
    wanted: Sequence[str],
) -> Mapping[str, str]:
    """Return the columns of indexes of columns that are wanted, and are ready, or planned.

    Of expression indexes what `index_definitions.expression_text` returns. A request if one is
    ready.

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
    expressions = index_definitions.of_expressions(storage, config, ready)
    return (
        planned
        | {each.partition: each.column for each in found}
        | {each.partition: index_definitions.expression_text(each) for each in expressions}
    )


def described(
    storage: Storage, config: table_config.TableConfig, builds: Sequence[index_decisions.Build]
) -> Mapping[str, str]:
    """Return of what indexes of columns are that are ready, or planned, as people write it.

    Args:
        storage: The table's.
        config: Its configuration.
        builds: Pending there.
    """
    of_columns = (file_statistics.COLUMN_STATS, file_statistics.PARTITION_STATS)
    chosen = [
        (config.metadata_partitions, config.statistics_columns),
        *((each.plan.names, each.columns) for each in builds),
    ]
    found = {
        name: ", ".join(columns)
        for names, columns in chosen
        if columns
        for name in of_columns
        if name in names
    }
    planned = (name for each in builds for name in each.plan.names)
    for name in {*config.metadata_partitions, *planned}:
        with contextlib.suppress(errors.FormatError, errors.UnsupportedError):
            text = columns_of(storage, config, builds, [name]).get(name)
            if text is None:
                continue
            if expression_indexes.is_one(name):
                text = str(index_definitions.expression_of(config, name, text))
            found[name] = text
    return found


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
        timeline = active.listed(client.storage)
        # Who was paused while the plan was given up may have made it inflight since.
        is_plan = timeline.has_file(found.instant.pending_in(instants.State.REQUESTED))
        if is_plan and time in timeline.pending_times:
            raise
        return None


def begin(
    client: Client,
    schema: schemas.TableSchema,
    opened: OpenAction,
    plan: plans.Indexing,
    scope: table_lock.LockScope,
    record_groups: RecordGroups = NO_RECORD_GROUPS,
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
            writers count those that a dead builder has left. Of an index of each partition these
            are a partition's; one that came into being meanwhile gets one.

    Raises:
        ConflictError: The plan was given up, or a partition is ready by now.
        UnsupportedError: There are too many partitions for a record index of each.
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
            f"the metadata table of {client.storage.uri} was made again, or dropped, or another "
            f"process has built its indexes, since {opened.inflight} was planned; build the index "
            "again"
        )
    inflight = {*config.metadata_partitions_inflight, *plan.names}
    changes: dict[str, str | None] = {
        table_config.METADATA_PARTITIONS_INFLIGHT_KEY: index_decisions.names_text(inflight)
    }
    since = with_columns(
        replace(config, metadata_partitions_inflight=tuple(sorted(inflight))), plan
    )
    columns = stored_schemas.columns_of(client.storage, config, scope.timeline, schema)
    expressions = expressions_of(plan, config, columns)
    wanted = wanted_statistics(client.storage, config, since, columns, plan)
    changes |= define_statistics(client.storage, config, since, wanted)
    secondary = secondary_of(client, plan, config, columns, record_groups.get(None, 0))
    occupied: frozenset[str] = frozenset()
    if key_changes.RECORD_INDEX in plan.names:
        if plan.is_partitioned:
            # Also a partition without rows: writers find file groups in each that there is.
            paths = partition_paths(client, scope.timeline)
            record_groups = {path: record_groups.get(path, 1) for path in paths}
        stored = list(metadata_table.data_files(beside(client), key_changes.RECORD_INDEX))
        occupied = frozenset(
            each.group.file_id for each in stored if not metadata_writing.begins_group(each)
        )
        record_groups = _with_left(
            client,
            record_groups,
            sorted({each.group.file_id for each in stored}),
            is_partitioned=plan.is_partitioned,
        )
        index_definitions.put_of_record_index(
            client.storage, is_ours, is_partitioned=plan.is_partitioned
        )
        changes[table_config.INDEX_DEFINITIONS_PATH_KEY] = index_definitions.PATH
    expression_groups = groups_of_expressions(client, expressions)
    named = {
        **{each.partition: count for each, count in secondary.items()},
        **expression_groups,
    }
    for each in secondary:
        changes[secondary_indexes.column_key(each.partition)] = each.column
    for definition in expressions:
        key = secondary_indexes.column_key(definition.partition)
        changes[key] = index_definitions.expression_text(definition)
    time = client.time_after(scope, true_time.Parity.EPOCH)
    # Of this time are those of one who was paused here, and has published nothing: as those below.
    left = [
        each.path
        for name in named
        for each in metadata_table.data_files(beside(client), name)
        if each.instant_time != time
    ]
    made = {name: groups(name, record_groups) for name in plan.names if name not in named}
    for name, count in named.items():
        made[name] = partition_making.groups(name, count)
    for name, found in made.items():
        partition_making.begin(
            beside(client),
            name,
            found,
            time,
            is_ours,
            threads=partition_making.threads_for(client, len(found)),
        )
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
        occupied=occupied,
        secondary=secondary,
        expressions=expression_groups,
    )


def expressions_of(
    plan: plans.Indexing, config: table_config.TableConfig, columns: schemas.TableSchema
) -> Sequence[expression_indexes.Definition]:
    """Return the expression indexes of a plan.

    Raises:
        FormatError: The plan does not define one.
        UnsupportedError: One is of what is not computed here.
        InvalidInputError: There is no such column.
    """
    found = []
    for each in plan.partitions:
        if not expression_indexes.is_one(each.name):
            continue
        text = each.extra.get(secondary_indexes.COLUMN_KEY)
        definition = (
            None if text is None else index_definitions.expression_of(config, each.name, text)
        )
        if definition is None:
            raise errors.FormatError(
                f"the plan to build {each.name} of {config.name} does not define it, expected "
                f"{secondary_indexes.COLUMN_KEY}: give it up by `hoodie index drop TABLE "
                f"{each.name}`"
            )
        refusal = expression_indexes.column_refusal(definition, columns.arrow, config.name)
        if refusal is not None:
            raise refusal
        found.append(definition)
    return found


def groups_of_expressions(
    client: Client, expressions: Iterable[expression_indexes.Definition]
) -> Mapping[str, int]:
    """Return how many file groups expression indexes get; what earlier ones left is counted.

    A listing each.
    """
    return {
        each.partition: max(
            [
                initial_statistics.EXPRESSION_FILE_GROUPS,
                *(
                    1 + _number(file_id)
                    for file_id in metadata_writing.group_ids(beside(client), each.partition)
                ),
            ]
        )
        for each in expressions
    }


def secondary_of(
    client: Client,
    plan: plans.Indexing,
    config: table_config.TableConfig,
    columns: schemas.TableSchema,
    count: int,
) -> Mapping[secondary_indexes.Definition, int]:
    """Return the secondary indexes of a plan, and how many file groups each is made with.

    Args:
        client: Of the table.
        plan: The plan.
        config: The table's configuration.
        columns: The table's.
        count: So many they get at least; what earlier ones have left is counted as well.

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
                f"{secondary_indexes.COLUMN_KEY}: give it up by `hoodie index drop TABLE "
                f"{each.name}`"
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
    """Write the definitions of indexes of columns that are ready, by which other engines read them.

    Not before an index is ready: Apache Hudi's readers use what is defined. The properties have its
    column until then. Two scopes, if one is not defined.

    Args:
        client: Of the table.
        names: Of indexes.
    """

    def undefined() -> list[secondary_indexes.Definition | expression_indexes.Definition]:
        config = table_properties.load(client.storage, client.clock)
        own = [
            name
            for name in names
            if name in config.metadata_partitions
            and secondary_indexes.column_key(name) in config.properties
        ]
        return [
            *index_definitions.of_secondary_indexes(client.storage, config, own),
            *index_definitions.of_expressions(client.storage, config, own),
        ]

    def decide(scope: table_lock.LockScope) -> None:
        scope.check()
        found = undefined()
        if found:
            index_definitions.put_of_columns(client.storage, undefined)
            keys = [secondary_indexes.column_key(each.partition) for each in found]
            configuration.put(client, scope, dict.fromkeys(keys))

    own = [*filter(secondary_indexes.is_one, names), *filter(expression_indexes.is_one, names)]
    if own and undefined():
        client.lock.decide(decide)


def with_columns(
    config: table_config.TableConfig, plan: plans.Indexing
) -> table_config.TableConfig:
    """Return a configuration with the columns of which a plan builds the statistics."""
    columns = index_decisions.columns_of(plan)
    if file_statistics.COLUMN_STATS not in plan.names or columns is None:
        return config
    stored = {**config.properties, table_config.STATISTICS_COLUMNS_KEY: ",".join(columns)}
    return replace(config, properties=stored)


def wanted_statistics(
    storage: Storage,
    config: table_config.TableConfig,
    since: table_config.TableConfig,
    columns: schemas.TableSchema,
    plan: plans.Indexing,
) -> file_statistics.Wanted:
    """Return which statistics are built; a request if the table has some of columns by now.

    Args:
        storage: The data table's.
        config: The table's configuration.
        since: With the indexes.
        columns: Its columns.
        plan: What is built.

    Raises:
        HoodieError: As `index_definitions.wanted_statistics`, and `expressions_of`.
    """
    # Definitions that are there may be of what was dropped.
    definition = None
    if file_statistics.has_columns(config):
        definition = index_definitions.of_statistics(storage)
    expressions = expressions_of(plan, config, columns)
    found = file_statistics.wanted(since, columns.arrow, definition, expressions)
    has_columns = not initial_statistics.FILE_GROUPS.keys().isdisjoint(plan.names)
    return found if has_columns else replace(found, kinds={})


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
    if not file_statistics.has_columns(since) or file_statistics.has_columns(config):
        return {}
    index_definitions.put_of_statistics(storage, config, wanted, is_only=False)
    changes = {table_config.INDEX_DEFINITIONS_PATH_KEY: index_definitions.PATH}
    if since.statistics_columns is not None:
        changes[table_config.STATISTICS_COLUMNS_KEY] = ",".join(since.statistics_columns)
    return changes


def partition_paths(client: Client, timeline: active.ActiveTimeline) -> Sequence[str]:
    """Return the partitions of the data table by its metadata table; a few requests.

    Raises:
        ConflictError: A plan on the timeline was taken back since it was read.
    """
    config = table_properties.load(client.storage, client.clock)
    snapshot = snapshots.take(client.storage, config, timeline, has_committed_only=True)
    return snapshot.view.partitions()


def _with_left(
    client: Client, record_groups: RecordGroups, ids: Sequence[str], *, is_partitioned: bool
) -> RecordGroups:
    """Return how many file groups a record index gets beside files that somebody has left.

    Raises:
        ConflictError: They are of an index of the other kind.
        UnsupportedError: They are too many.
    """
    found = dict(record_groups)
    if ids:
        left = index_groups.of(client.storage, ids)
        if left.is_partitioned is not is_partitioned or len(left.key_spaces) < len(ids):
            kind = index_decisions.kind_text(is_partitioned=not is_partitioned)
            raise errors.ConflictError(
                f"{client.storage.uri} has files of a record index {kind} that was dropped, such "
                f"as {ids[0]}: `hoodie index drop TABLE {key_changes.RECORD_INDEX}` removes them"
            )
        for key_space, numbers in left.by_key_space.items():
            found[key_space] = max(found.get(key_space, 0), 1 + max(numbers))
    if sum(found.values()) > scratch.PARTS_MAX:
        raise errors.UnsupportedError(
            f"a record index of each partition of {client.storage.uri} has {sum(found.values())} "
            f"file groups, expected {scratch.PARTS_MAX} at most: build one of the whole table"
        )
    return found


def _may_have_grown(
    client: Client,
    begun: Begun,
    config: table_config.TableConfig,
    scope: table_lock.LockScope,
) -> bool:
    """Return whether statistics of partitions are built, and some may be of different types (M-J).

    They are not if the table has the columns that it was created with.
    """
    if file_statistics.PARTITION_STATS not in begun.plan.names:
        return False
    created = config.create_schema
    stored = stored_schemas.as_of(client.storage, config, scope.timeline)
    now = begun.schema if stored is None else stored.columns
    return created is None or schemas.from_avro(created).arrow != now.arrow


def _rebased(
    client: Client,
    begun: Begun,
    stats: Sequence[commits.WriteStat],
    scope: table_lock.LockScope,
) -> Mapping[str, bytes]:
    """Write the base file of `partition_stats` with what was logged since the build began.

    Returns:
        The instant that makes it count, of a time above all that was logged.
    """
    storage = beside(client)
    logged = partition_bases.logged_since(client, scope, begun.time)
    bases = partition_bases.contents_of(storage, stats)
    base = partition_bases.with_logged(bases, logged, client.clock.now_ms())
    if base is None:
        return {}
    time = client.time_before_another(scope)
    (group,) = groups(file_statistics.PARTITION_STATS)
    # Whoever was overtaken writes again, at another time.
    token = file_names.write_token(0, begun.opened.stage, 0)
    written = metadata_writing.write_prepared(storage, group, time, token, base)
    return partition_making.whole_instant(client, scope, time, [written])


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
        UnsupportedError: Statistics of one column have no order together.
    """
    config = table_properties.load(client.storage, client.clock)
    names, inflight = set(begun.plan.names), set(config.metadata_partitions_inflight)
    if not names <= inflight:
        raise errors.ConflictError(
            f"the metadata table of {client.storage.uri} was made again, or dropped, while "
            f"{', '.join(sorted(names - inflight))} was built; build the index again"
        )
    metadata_commits.refuse_behind(client, scope)
    is_ours()
    beside = dict(partition_making.whole_instant(client, scope, begun.time, stats))
    if _may_have_grown(client, begun, config, scope):
        beside |= _rebased(client, begun, stats, scope)
    return publication.Accompaniment(
        beside=beside,
        properties={
            table_config.METADATA_PARTITIONS_KEY: index_decisions.names_text(
                {*config.metadata_partitions, *names}
            ),
            table_config.METADATA_PARTITIONS_INFLIGHT_KEY: index_decisions.names_text(
                inflight - names
            ),
        },
    )


def record_groups_of(client: Client, *, is_partitioned: bool) -> RecordGroups:
    """Return how many file groups a record index of a kind has; a listing.

    Those that are missing below another are counted. None of an index of the other kind.
    """
    ids = metadata_writing.group_ids(beside(client), key_changes.RECORD_INDEX)
    if not ids:
        return NO_RECORD_GROUPS
    found = index_groups.of(client.storage, ids)
    if found.is_partitioned is not is_partitioned:
        return NO_RECORD_GROUPS
    return {key_space: 1 + max(numbers) for key_space, numbers in found.by_key_space.items()}


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


def groups(
    name: str, record_groups: RecordGroups = NO_RECORD_GROUPS
) -> Sequence[files.FileGroupId]:
    """Return the file groups that a partition is made with.

    Args:
        name: The partition's.
        record_groups: So many has a record index, of each key space in this order.
    """
    if name != key_changes.RECORD_INDEX:
        return partition_making.groups(name, FILE_GROUPS[name])
    return [
        files.FileGroupId(partition_path=name, file_id=index_groups.file_id(key_space, number))
        for key_space, count in record_groups.items()
        for number in range(count)
    ]
