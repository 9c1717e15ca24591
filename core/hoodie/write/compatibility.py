"""Which writers may write one table at the same time.

All writers that are active at one time run in one concurrency mode. A single writer runs alone.
Optimistic ones may write whatever they like: those that overlap in a file group are found out when
they complete (`write.conflicts`). Under non-blocking concurrency control nobody waits and
nobody checks for conflicts; the merge at read and compaction decides. Its result does not depend on
when compaction ran in exactly these cases:

    (a) whole rows, and deletes, with distinct ordering values (event time ordering): a compaction
        keeps such deletes (`filegroup.kept_deletes`), so that they hold against what comes late;
    (b) column streams with disjoint columns, each stream serial, under commit time ordering with
        partial updates; none of them deletes, which would touch the columns of the others;
    (c) event time ordering with partial updates, where each stream writes a key once: nothing
        that can be seen here proves it, so it has to be acknowledged.

Any other combination is refused with its reason, or acknowledged. Key, partition and ordering
columns are in every stream and count in none. Source: RFC-66; measured on Apache Hudi 1.2.0.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from hoodie import errors
from hoodie.filegroup import block_decoding
from hoodie.model import (
    commits,
    instants,
    json_values,
    partition_columns,
    settings,
    table_config,
)
from hoodie.transaction import heartbeats


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """What one writer does to the table while it is active; written as the claim of its heartbeat.

    Attributes:
        writer_id: Its name; empty for a writer that does not tell, such as another engine's.
        instant: Its requested time, for messages; empty for a stream that is only about to begin.
        columns: The columns it writes; None when it does not name them, which counts as all. Empty
            for a commit without rows, beside which any other may run.
        is_order_dependent_delete: Whether it may delete rows without an ordering value.
        mode: Its concurrency mode; None when it does not tell, and is taken to run in ours.
    """

    writer_id: str
    instant: str = ""
    columns: tuple[str, ...] | None
    is_order_dependent_delete: bool = False
    mode: settings.ConcurrencyMode | None = None

    def __str__(self) -> str:
        name = f"writer {self.writer_id!r}" if self.writer_id else "a writer that gives no id"
        return f"{name} (instant {self.instant})" if self.instant else name


def check_table(
    config: table_config.TableConfig, mode: settings.ConcurrencyMode | None = None
) -> None:
    """Refuse a table that the concurrency mode, or any write of ours, is not for.

    Args:
        config: The table's configuration.
        mode: Of the write; None for a write of any mode.

    Raises:
        UnsupportedError: The table does not say how records are found.
        ConfigurationError: Non-blocking mode lacks something; all of it is named.
    """
    is_non_blocking = mode is settings.ConcurrencyMode.NON_BLOCKING
    missing = _lacking(config, is_non_blocking=is_non_blocking)
    if missing and is_non_blocking:
        others = ". Expected a single or an optimistic writer"
        raise errors.ConfigurationError(
            f"{settings.ConcurrencyMode.NON_BLOCKING.value} on table {config.name!r} needs "
            f"{' and '.join(missing)}{'' if _lacking(config, is_non_blocking=False) else others}"
        )
    if missing:
        raise errors.UnsupportedError(
            f"writing table {config.name!r} needs {' and '.join(missing)}"
        )


def _lacking(config: table_config.TableConfig, *, is_non_blocking: bool) -> list[str]:
    """Return what a table lacks to be written."""
    missing = []
    if is_non_blocking and config.is_copy_on_write:
        # Writers that join later need logs to join: a base file has one writer.
        missing.append(f"table type MERGE_ON_READ, it is {config.table_type.value}")
    missing += _lacking_index(config, is_non_blocking=is_non_blocking)
    if config.bootstrap_base_path is not None:
        # A file group may stand on a file outside the table.
        missing.append(
            "a table that was not bootstrapped, it has "
            f"{table_config.BOOTSTRAP_BASE_PATH_KEY}={config.bootstrap_base_path}"
        )
    of_paths = partition_columns.write_refusal(config)
    if of_paths is not None:
        missing.append(of_paths)
    return missing


def counts_refusal(
    table_uri: str, mode: settings.ConcurrencyMode
) -> errors.ConfigurationError | None:
    """Return why a table with bucket counts by partition is not for a mode; None if it is."""
    if mode is not settings.ConcurrencyMode.NON_BLOCKING:
        return None
    return errors.ConfigurationError(
        f"{table_uri} has bucket counts by partition (RFC-89), which change: {mode.value} needs "
        "one count for all partitions. Expected a single or an optimistic writer"
    )


def _lacking_index(config: table_config.TableConfig, *, is_non_blocking: bool) -> Iterator[str]:
    """Yield what the table's index lacks."""
    if config.index_kind is None:
        yield _missing_index(config, is_non_blocking=is_non_blocking)
        return
    kind = config.index_kind.value
    if config.looks_keys_up and config.bucket_count is not None:
        yield f"one index, it has {kind} and {table_config.BUCKET_COUNT_KEY}"
    elif config.has_global_index and not config.record_key_fields:
        yield f"a record key, by which the index {kind} finds records"
    elif config.has_global_index and config.updates_partitions and config.has_partial_updates:
        # A row that moves would have to be put together from both partitions.
        yield (
            "records that stay in their partition, since it has partial updates: adopt it with "
            "--keep-partitions, if its Spark writers do the same, or without a global index"
        )
    elif config.index is table_config.IndexKind.CONSISTENT_HASHING and config.bucket_count is None:
        yield f"{table_config.BUCKET_COUNT_KEY}, with which its partitions begin"
    elif kind != table_config.IndexKind.BUCKET.value and is_non_blocking:
        # Each of two writers that insert a key would choose a file group of its own; and a
        # clustering that splits a bucket retires file groups that writers log to meanwhile.
        yield f"a simple bucket index, it has index {kind}"


def _missing_index(config: table_config.TableConfig, *, is_non_blocking: bool) -> str:
    declared = config.properties.get(table_config.INDEX_KEY)
    if declared is not None:
        kinds = ", ".join(kind.value for kind in table_config.IndexKind)
        return f"one of the indexes {kinds}, it has {table_config.INDEX_KEY}={declared}"
    if is_non_blocking:
        return (
            "a simple bucket index, whose number of buckets Apache Hudi does not store with a "
            "table: state it by `hoodie adopt URI --index bucket --buckets N` "
            "(docs/spark-writers.md)"
        )
    return (
        "its index to be stated, which Apache Hudi does not store with a table: by `hoodie adopt "
        "URI --index simple`, or bloom, global-simple or global-bloom, or bucket or "
        "consistent-hashing with --buckets N (docs/spark-writers.md)"
    )


def claim(mine: Stream) -> str:
    """Return the text of a stream for its heartbeat."""
    return json_values.encode(mine).decode()


def stream_of(instant: instants.Instant, seen: heartbeats.HeartbeatStatus) -> Stream:
    """Return the stream of a pending write; one that claims nothing may do anything."""
    unknown = Stream(writer_id="", instant=instant.requested_time, columns=None)
    if seen.owner is None or not seen.owner.claim:
        return unknown
    if seen.owner.claim == heartbeats.NO_ROWS:
        return replace(unknown, columns=())
    try:
        claimed = json_values.decode(Stream, seen.owner.claim.encode(), str(instant))
    except errors.InvalidInputError:
        return unknown
    return replace(claimed, instant=instant.requested_time)


def check(
    config: table_config.TableConfig,
    mine: Stream,
    others: Iterable[Stream],
    *,
    is_acknowledged: bool = False,
) -> None:
    """Refuse to begin beside active writers when the result would depend on compaction.

    Args:
        config: The table's configuration.
        mine: The stream about to begin.
        others: The streams of all writers that are active now.
        is_acknowledged: Whether the user accepts a result that depends on compaction.

    Raises:
        ConflictError: The other ends by itself and then this stream may begin: a writer that must
            be alone, or one with the same id.
        ConfigurationError: The two may never run together; the shared columns are named.
    """
    for other in others:
        if mine.writer_id and mine.writer_id == other.writer_id:
            raise errors.ConflictError(
                f"{other} is active already, expected one run of a writer at a time"
            )
        modes = {mine.mode, other.mode} - {None}
        if settings.ConcurrencyMode.SINGLE_WRITER in modes:
            is_mine = mine.mode is settings.ConcurrencyMode.SINGLE_WRITER
            raise errors.ConflictError(
                f"{other} is active, and {'this write' if is_mine else 'it'} runs as "
                f"{settings.ConcurrencyMode.SINGLE_WRITER.value}, expected no other writer; "
                "writers that run at the same time all take one mode for several, such as "
                "--concurrency occ (concurrency='occ' in Python)"
            )
        if len(modes) > 1:
            assert mine.mode is not None
            assert other.mode is not None
            raise errors.ConfigurationError(
                f"{other} is active and runs as {other.mode.value}, this write as "
                f"{mine.mode.value}: expected one mode for all writers of a table"
            )
        if settings.ConcurrencyMode.OPTIMISTIC in modes or other.columns == ():
            continue
        reason = order_dependence(config, mine, other)
        if reason is not None and not is_acknowledged:
            raise errors.ConfigurationError(
                f"beside {other} the table's content would depend on when compaction runs: {reason}"
            )


def order_dependence(config: table_config.TableConfig, mine: Stream, other: Stream) -> str | None:
    """Return why the result of two concurrent streams depends on compaction, if it does."""
    if config.merge_mode is table_config.MergeMode.EVENT_TIME:
        if mine.is_order_dependent_delete or other.is_order_dependent_delete:
            return "a delete without an ordering value undoes whatever is merged before it"
        if config.has_partial_updates:
            return (
                "partial updates by event time are merged pairwise, which is right only where each "
                "stream writes a key once"
            )
        return None
    if mine.is_order_dependent_delete or other.is_order_dependent_delete:
        written = {*(mine.columns or ()), *(other.columns or ())}
        marks = sorted(block_decoding.deleting_columns(config) & written)
        how = f", by column {' or '.join(marks)}," if marks else ""
        return f"a delete{how} touches every column of its row, those of other writers too"
    if not config.has_partial_updates:
        return (
            f"both write whole rows, sharing columns {_names(_shared(config, mine, other))}, and "
            "the table has neither an ordering field nor partial updates"
        )
    shared = _shared(config, mine, other)
    return None if shared is not None and not shared else f"both write columns {_names(shared)}"


def is_order_dependent_delete(
    config: table_config.TableConfig, operation: commits.Operation, columns: Iterable[str]
) -> bool:
    """Return whether a write may delete rows whatever their ordering value.

    Args:
        config: The table's configuration.
        operation: What the write does.
        columns: Its input's.
    """
    given = set(columns)
    if config.merge_mode is table_config.MergeMode.EVENT_TIME:
        # A row that says it is deleted has an ordering value, as every row.
        has_values = bool(config.ordering_fields) and given.issuperset(config.ordering_fields)
        return operation is commits.Operation.DELETE and not has_values
    return operation is commits.Operation.DELETE or bool(
        block_decoding.deleting_columns(config) & given
    )


def _shared(config: table_config.TableConfig, mine: Stream, other: Stream) -> set[str] | None:
    """Return the columns both write; None when neither tells its own."""
    told = [set(each.columns) for each in (mine, other) if each.columns is not None]
    if not told:
        return None
    fixed = {*config.record_key_fields, *config.partition_fields, *config.ordering_fields}
    return set.intersection(*told) - fixed


def _names(columns: set[str] | None) -> str:
    return "of the whole table" if columns is None else ", ".join(sorted(columns))
