"""Which writers may overlap: design section 5, cases (a), (b), (c)."""

import itertools
from dataclasses import replace

import pytest

from hoodie import errors, identity
from hoodie.model import commits, instants, settings, table_config
from hoodie.transaction import heartbeats
from hoodie.write import compatibility

COLUMN_STREAMS = table_config.TableConfig(
    name="t", record_key_fields=("id",), has_partial_updates=True, bucket_count=4
)
WHOLE_ROWS = table_config.TableConfig(name="t", record_key_fields=("id",), bucket_count=4)
EVENT_TIME = table_config.TableConfig(
    name="t",
    record_key_fields=("id",),
    ordering_fields=("ts",),
    merge_mode=table_config.MergeMode.EVENT_TIME,
    bucket_count=4,
)


SINGLE_WRITER = settings.ConcurrencyMode.SINGLE_WRITER
OPTIMISTIC = settings.ConcurrencyMode.OPTIMISTIC
NON_BLOCKING = settings.ConcurrencyMode.NON_BLOCKING


def stream(
    writer_id: str,
    *columns: str,
    is_order_dependent_delete: bool = False,
    mode: settings.ConcurrencyMode | None = NON_BLOCKING,
) -> compatibility.Stream:
    return compatibility.Stream(
        writer_id=writer_id,
        columns=columns or None,
        is_order_dependent_delete=is_order_dependent_delete,
        mode=mode if writer_id else None,
    )


def test_whole_rows_by_event_time_may_overlap() -> None:
    compatibility.check(EVENT_TIME, stream("a", "x", "y"), [stream("b", "x", "y"), stream("")])


def test_disjoint_column_streams_may_overlap() -> None:
    compatibility.check(COLUMN_STREAMS, stream("a", "id", "x"), [stream("b", "id", "y")])


def test_shared_columns_are_refused_by_name() -> None:
    with pytest.raises(errors.ConfigurationError, match=r"writer 'b'.*both write columns x"):
        compatibility.check(COLUMN_STREAMS, stream("a", "id", "x"), [stream("b", "id", "x", "y")])


def test_a_stream_that_tells_no_columns_counts_as_all() -> None:
    with pytest.raises(errors.ConfigurationError, match="both write columns x"):
        compatibility.check(COLUMN_STREAMS, stream("a", "id", "x"), [stream("")])


@pytest.mark.parametrize("config", [COLUMN_STREAMS, WHOLE_ROWS, EVENT_TIME])
def test_commit_without_rows_may_overlap_with_any_write(config: table_config.TableConfig) -> None:
    """As one that follows an index: it does not make a writer fail that begins meanwhile."""
    instant = instants.Instant(
        requested_time=instants.InstantTime("20260101000000000"),
        action=instants.Action.DELTA_COMMIT,
        state=instants.State.REQUESTED,
    )
    owner = heartbeats.Owner(
        name="a builder",
        write_id="1",
        process=identity.current_process(),
        claim=heartbeats.NO_ROWS,
    )
    seen = heartbeats.HeartbeatStatus(
        liveness=heartbeats.Liveness.BEATING, owner=owner, silence_ms=0
    )
    other = compatibility.stream_of(instant, seen)
    compatibility.check(config, stream("a", "id", "x"), [other])
    deleting = stream("a", "id", is_order_dependent_delete=True)
    compatibility.check(config, deleting, [other])


def test_whole_rows_by_commit_time_are_refused() -> None:
    """T-N01."""
    with pytest.raises(errors.ConfigurationError, match="whole rows, sharing columns x"):
        compatibility.check(WHOLE_ROWS, stream("a", "id", "x"), [stream("b", "id", "x")])


def test_partial_updates_by_event_time_have_to_be_acknowledged() -> None:
    both = table_config.TableConfig(
        name="t",
        record_key_fields=("id",),
        ordering_fields=("ts",),
        merge_mode=table_config.MergeMode.EVENT_TIME,
        has_partial_updates=True,
    )
    with pytest.raises(errors.ConfigurationError, match="each stream writes a key once"):
        compatibility.check(both, stream("a", "x"), [stream("b", "y")])


@pytest.mark.parametrize("config", [EVENT_TIME, COLUMN_STREAMS])
def test_delete_without_ordering_beside_another_writer_is_refused(
    config: table_config.TableConfig,
) -> None:
    deleting = stream("a", "id", is_order_dependent_delete=True)
    with pytest.raises(errors.ConfigurationError, match="delete"):
        compatibility.check(config, deleting, [stream("b", "x")])
    with pytest.raises(errors.ConfigurationError, match="delete"):
        compatibility.check(config, stream("b", "x"), [deleting])


def test_delete_with_an_ordering_value_is_decided_by_it() -> None:
    delete = commits.Operation.DELETE
    assert not compatibility.is_order_dependent_delete(EVENT_TIME, delete, ["id", "ts"])
    assert compatibility.is_order_dependent_delete(EVENT_TIME, delete, ["id"])
    assert compatibility.is_order_dependent_delete(COLUMN_STREAMS, delete, ["id"])


@pytest.mark.parametrize("column", ["_hoodie_is_deleted", "_hoodie_operation", "op"])
def test_rows_that_say_they_are_deleted_are_deletes(column: str) -> None:
    upsert = commits.Operation.UPSERT
    streams = replace(COLUMN_STREAMS, delete_marker=("op", "D"))
    assert compatibility.is_order_dependent_delete(streams, upsert, ["id", "a", column])
    assert not compatibility.is_order_dependent_delete(streams, upsert, ["id", "a"])
    # By event time such a row has an ordering value, as every row.
    events = replace(EVENT_TIME, delete_marker=("op", "D"))
    assert not compatibility.is_order_dependent_delete(events, upsert, ["id", "ts", column])
    marking = stream("a", "id", column, is_order_dependent_delete=True)
    for mine, other in itertools.permutations((marking, stream("b", "x"))):
        with pytest.raises(errors.ConfigurationError, match=f"a delete, by column {column}, "):
            compatibility.check(streams, mine, [other])
        compatibility.check(streams, mine, [other], is_acknowledged=True)


def test_second_run_of_one_writer_is_refused() -> None:
    with pytest.raises(errors.ConflictError, match="one run of a writer at a time"):
        compatibility.check(EVENT_TIME, stream("a", "x"), [stream("a", "x")])


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        (SINGLE_WRITER, NON_BLOCKING),
        (OPTIMISTIC, SINGLE_WRITER),
        (SINGLE_WRITER, SINGLE_WRITER),
        (SINGLE_WRITER, None),
    ],
)
def test_single_writer_is_alone(
    mine: settings.ConcurrencyMode, other: settings.ConcurrencyMode | None
) -> None:
    with pytest.raises(errors.ConflictError, match="SINGLE_WRITER"):
        compatibility.check(EVENT_TIME, stream("a", "x", mode=mine), [stream("b", "x", mode=other)])


@pytest.mark.parametrize("other", [OPTIMISTIC, None])
def test_optimistic_writers_may_share_columns(other: settings.ConcurrencyMode | None) -> None:
    mine = stream("a", "x", mode=OPTIMISTIC, is_order_dependent_delete=True)
    compatibility.check(WHOLE_ROWS, mine, [stream("b", "x", mode=other)])


@pytest.mark.parametrize(
    ("mine", "other"), [(OPTIMISTIC, NON_BLOCKING), (NON_BLOCKING, OPTIMISTIC)]
)
def test_writers_of_two_modes_are_refused(
    mine: settings.ConcurrencyMode, other: settings.ConcurrencyMode
) -> None:
    with pytest.raises(errors.ConfigurationError, match="expected one mode for all writers"):
        compatibility.check(
            COLUMN_STREAMS, stream("a", "x", mode=mine), [stream("b", "y", mode=other)]
        )


def test_non_blocking_mode_names_all_that_is_missing() -> None:
    """T-N01."""
    bare = table_config.TableConfig(
        name="t",
        record_key_fields=("id",),
        table_type=table_config.TableType.COPY_ON_WRITE,
    )
    with pytest.raises(errors.ConfigurationError, match=r"MERGE_ON_READ.* and a simple bucket"):
        compatibility.check_table(bare, settings.ConcurrencyMode.NON_BLOCKING)
    with pytest.raises(errors.UnsupportedError):
        compatibility.check_table(bare, settings.ConcurrencyMode.SINGLE_WRITER)
    compatibility.check_table(WHOLE_ROWS, settings.ConcurrencyMode.NON_BLOCKING)


def test_base_files_take_one_writer_at_a_time() -> None:
    """T-N01, and what there is on a copy-on-write table."""
    cow = replace(WHOLE_ROWS, table_type=table_config.TableType.COPY_ON_WRITE)
    with pytest.raises(errors.ConfigurationError, match="MERGE_ON_READ, it is COPY_ON_WRITE"):
        compatibility.check_table(cow, settings.ConcurrencyMode.NON_BLOCKING)
    for mode in (SINGLE_WRITER, OPTIMISTIC):
        compatibility.check_table(cow, mode)
