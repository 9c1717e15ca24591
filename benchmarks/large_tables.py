"""Tables with many files, and with a long history, made without writing them.

A table of many files has the timeline of one that was written: its instants say which files they
wrote, and the files are there, but nothing is in them. Planning and deleting look into none.

A table with a long history was written by us a few dozen times. What it had done before stands in
its archive, in files that `history_writing` makes as an archiver's merges would.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from hoodie import environment, table
from hoodie.format import clean_avro, file_names, instant_names, properties, timeline_avro
from hoodie.model import commits, files, instants, plans, schemas, table_config
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, history_tree, history_writing

GROUPS = 100
"""File groups of a partition."""

SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()), ("value", pa.int64())]
)
HISTORY_FILES = 10
HISTORY_STEP_MS = 1_000
_BEGIN_MS = instants.parse_time("20260101000000000")
_STEP_MS = 10_000
_TOKEN = "0-0-0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An instant of a table of many files.

    Attributes:
        action: What it did; a commit is of a compaction.
        partitions: It wrote a file into each file group of so many of the first partitions.
        retained: Of a clean: the number of the first step that it left alone.
    """

    action: instants.Action
    partitions: int = 0
    retained: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A table of many files.

    Attributes:
        partitions: How many it has, of `GROUPS` file groups each.
        steps: Its timeline, in order. The first step writes base files.
    """

    partitions: int
    steps: Sequence[Step] = field(default=())

    @property
    def file_count(self) -> int:
        """How many data files there are."""
        return sum(each.partitions for each in self.steps) * GROUPS


def deltas(count: int, partitions: int) -> list[Step]:
    """Return delta commits, one after the other."""
    return [Step(action=instants.Action.DELTA_COMMIT, partitions=partitions)] * count


def compaction(partitions: int) -> Step:
    """Return a compaction."""
    return Step(action=instants.Action.COMMIT, partitions=partitions)


def compacted_whole(partitions: int, files_after: int) -> Shape:
    """Return a table whose file groups have a base file, four log files and a newer base file.

    Args:
        partitions: Of the table.
        files_after: So many delta commits follow that wrote to every file group; another one to a
            single partition.
    """
    return Shape(
        partitions=partitions,
        steps=[
            *deltas(5, partitions),
            compaction(partitions),
            *deltas(files_after, partitions),
            *deltas(1, 1),
        ],
    )


def cleaned_before(partitions: int, touched: int) -> Shape:
    """Return a table that was cleaned, and of which some partitions were compacted since then."""
    begun = deltas(5, partitions)
    return Shape(
        partitions=partitions,
        steps=[
            *begun,
            *deltas(1, touched),
            Step(action=instants.Action.CLEAN, retained=len(begun)),
            compaction(touched),
            *deltas(2, touched),
        ],
    )


def config_of(partition_fields: tuple[str, ...] = ("part",)) -> table_config.TableConfig:
    """Return the configuration of the tables made here."""
    return table_config.TableConfig(
        name="large",
        record_key_fields=("id",),
        partition_fields=partition_fields,
        ordering_fields=("ts",),
        merge_mode=table_config.MergeMode.EVENT_TIME,
        bucket_count=GROUPS,
        has_foreign_writers=True,
    )


def create(uri: str, shape: Shape) -> None:
    """Make a table of many files; a request for each file."""
    env = environment.system(parallelism=1)
    config = config_of()
    table.create_table(uri, config, schemas.from_arrow(SCHEMA, config.name), env)
    put = _putting(uri, env.open_storage(uri))
    for partition in range(shape.partitions):
        metadata = {"commitTime": requested_time(0), "partitionDepth": "1"}
        path = f"{_partition(partition)}/{file_names.PARTITION_METADATA}"
        put(path, properties.encode(metadata, ["partition metadata"]))
    for number, step in enumerate(shape.steps):
        stats = list(_stats(shape, number))
        for stat in stats:
            put(stat.path, b"x")
        _put_instant(put, uri, number, step, stats)


def requested_time(number: int) -> instants.InstantTime:
    """Return when a step began."""
    return instants.format_time(_BEGIN_MS + number * _STEP_MS)


def _putting(uri: str, storage: Storage) -> "Put":
    """Return what puts a file into a table: on a local disk, without making it durable."""
    if "://" in uri:
        return storage.create
    root = Path(uri)
    folders: set[Path] = set()

    def put(path: str, content: bytes) -> object:
        target = root / path
        if target.parent not in folders:
            target.parent.mkdir(parents=True, exist_ok=True)
            folders.add(target.parent)
        return target.write_bytes(content)

    return put


Put = Callable[[str, bytes], object]
"""Puts a new file with this content at a path below the table's root."""


def _partition(number: int) -> str:
    return f"p{number:04}"


def _group(partition: int, bucket: int) -> files.FileGroupId:
    file_id = f"{bucket:08}-{partition:04}-4000-8000-{bucket:012}-0"
    return files.FileGroupId(_partition(partition), file_id)


def _is_base(step: Step, number: int) -> bool:
    return number == 0 or step.action is instants.Action.COMMIT


def _stats(shape: Shape, number: int) -> Iterator[commits.WriteStat]:
    """Yield what a step wrote, a file each."""
    step, time = shape.steps[number], requested_time(number)
    started = itertools.accumulate(
        (place for place in range(number) if _is_base(shape.steps[place], place)), max
    )
    base_number = max(started, default=0)
    for partition, bucket in itertools.product(range(step.partitions), range(GROUPS)):
        group = _group(partition, bucket)
        is_base = _is_base(step, number)
        below = file_names.base_file_name(group.file_id, _TOKEN, requested_time(base_number))
        name = (
            file_names.base_file_name(group.file_id, _TOKEN, time)
            if is_base
            else file_names.log_file_name(group.file_id, time, files.LOG_VERSION_FIRST, _TOKEN)
        )
        yield commits.WriteStat(
            file_id=group.file_id,
            partition_path=group.partition_path,
            path=files.join(group.partition_path, name),
            prev_commit="null" if number == 0 else requested_time(base_number),
            records=10,
            inserts=10 if number == 0 else 0,
            updates=0 if number == 0 else 10,
            deletes=0,
            size_bytes=1,
            base_file=None if is_base else below,
            log_files=() if is_base else (name,),
            log_version=None if is_base else files.LOG_VERSION_FIRST,
            log_blocks=0 if is_base else 1,
        )


def _put_instant(
    put: Put, uri: str, number: int, step: Step, stats: Sequence[commits.WriteStat]
) -> None:
    """Put the files of a step's instant on the timeline."""
    time = requested_time(number)
    completed = _completed(number, step.action)
    plan, content = b"", b""
    if step.action is instants.Action.CLEAN:
        cleaned = plans.CleanPlan(
            policy="KEEP_LATEST_COMMITS",
            earliest_retained=instants.Instant(
                requested_time=requested_time(step.retained),
                action=instants.Action.DELTA_COMMIT,
                state=instants.State.REQUESTED,
            ),
            last_completed=requested_time(number - 1),
            file_names={},
        )
        plan = clean_avro.encode_plan(cleaned, uri)
        content = clean_avro.encode_metadata(cleaned, time, duration_ms=1)
    else:
        content = timeline_avro.encode_commit(_metadata(step, stats))
    if step.action is instants.Action.COMMIT:
        plan = timeline_avro.encode_compaction_plan(plans.CompactionPlan(operations=()))
    _put_states(put, completed, plan, content)


def _completed(number: int, action: instants.Action) -> instants.Instant:
    begun = requested_time(number)
    return instants.Instant(
        requested_time=begun,
        action=action,
        state=instants.State.COMPLETED,
        completion_time=instants.format_time(instants.parse_time(begun) + _STEP_MS // 2),
    )


def _stat_of_log(number: int) -> commits.WriteStat:
    """Return what a delta commit wrote to a file group of the first partition."""
    group = _group(0, number % GROUPS)
    time = requested_time(number)
    name = file_names.log_file_name(group.file_id, time, files.LOG_VERSION_FIRST, _TOKEN)
    return commits.WriteStat(
        file_id=group.file_id,
        partition_path=group.partition_path,
        path=files.join(group.partition_path, name),
        prev_commit=requested_time(0),
        records=10,
        inserts=0,
        updates=10,
        deletes=0,
        size_bytes=1,
        base_file=file_names.base_file_name(group.file_id, _TOKEN, requested_time(0)),
        log_files=(name,),
        log_version=files.LOG_VERSION_FIRST,
        log_blocks=1,
    )


def _metadata(step: Step, stats: Iterable[commits.WriteStat]) -> commits.CommitMetadata:
    is_compacted = step.action is instants.Action.COMMIT
    operation = commits.Operation.COMPACT if is_compacted else commits.Operation.UPSERT
    return commits.CommitMetadata(
        operation=operation.value,
        stats=tuple(stats),
        extra={commits.SCHEMA_KEY: schemas.from_arrow(SCHEMA, "large").avro},
        is_compacted=is_compacted,
    )


def _put_states(put: Put, completed: instants.Instant, plan: bytes, content: bytes) -> None:
    """Put the three files of a completed instant on the timeline."""
    pending = completed
    if completed.action is instants.Action.COMMIT:
        pending = replace(completed, action=instants.Action.COMPACTION)
    contents = {
        pending.pending_in(instants.State.REQUESTED): plan,
        pending.pending_in(instants.State.INFLIGHT): b"",
        completed: content,
    }
    for instant, of_state in contents.items():
        put(f"{active.DIRECTORY}/{instant_names.file_name(instant)}", of_state)


def create_long(uri: str, count: int) -> None:
    """Make a table of so many delta commits on its timeline, of which no file is left."""
    env = environment.system(parallelism=1)
    config = config_of()
    table.create_table(uri, config, schemas.from_arrow(SCHEMA, config.name), env)
    put = _putting(uri, env.open_storage(uri))
    step = Step(action=instants.Action.DELTA_COMMIT)
    for number in range(count):
        completed = _completed(number, step.action)
        content = timeline_avro.encode_commit(_metadata(step, [_stat_of_log(number)]))
        _put_states(put, completed, b"", content)


def put_history(storage: Storage, count: int, last_ms: int) -> None:
    """Put instants into the archive, among those that it has, as archivers would have by then.

    Args:
        storage: Of a table that was archived.
        count: How many, in `HISTORY_FILES` files; what the archive had is merged with the last.
        last_ms: When the newest of them was requested.
    """
    tree = history_writing.read_tree(storage)
    begin_ms = last_ms - count * HISTORY_STEP_MS
    step = count // HISTORY_FILES
    *made, last = [
        history_writing.stage(
            storage,
            _history_rows(begin_ms, range(first, first + step)),
            _unchecked,
            level=len(str(step)) - 1,
            may_replace=True,
        )
        for first in range(0, count, step)
    ]
    merged = history_writing.merge(storage, (last, *tree.files), _unchecked, may_replace=True)
    number = tree.number_next
    path = history_tree.manifest_path(number)
    content = history_tree.encode_manifest([*made, merged])
    history_writing.put_manifest(storage, path, content, _unchecked)
    history_writing.raise_version(storage, number, _unchecked)


def _unchecked() -> None:
    """Let a table be changed that nobody else has."""


def _history_rows(begin_ms: int, numbers: range) -> pa.Table:
    """Return the rows of archived delta commits, whose metadata differ by their times alone."""
    step = Step(action=instants.Action.DELTA_COMMIT)
    stat = _stat_of_log(0)
    content = timeline_avro.encode_commit(_metadata(step, [stat]))
    begun_ms = [begin_ms + number * HISTORY_STEP_MS for number in numbers]
    times = [instants.format_time(each) for each in begun_ms]
    completed = [instants.format_time(each + HISTORY_STEP_MS // 2) for each in begun_ms]
    mark = requested_time(0).encode()
    return pa.table(
        {
            "instantTime": times,
            "completionTime": completed,
            "action": [step.action.value] * len(times),
            "metadata": [content.replace(mark, time.encode()) for time in times],
            "plan": [None] * len(times),
            "version": [1] * len(times),
        },
        schema=history_writing.SCHEMA,
    )
