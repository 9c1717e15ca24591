"""Tables whose buckets other engines change hold what a dictionary holds, whatever is done."""

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.model import commits, settings, table_config
from hoodie.write import sessions
from support.peer.replacements import Replacements
from support.tables.tables import CONFIG, SmallTable

RINGS = replace(CONFIG, index=table_config.IndexKind.CONSISTENT_HASHING, has_partial_updates=False)
COUNTS = replace(CONFIG, has_partial_updates=False)
COPIED = replace(COUNTS, table_type=table_config.TableType.COPY_ON_WRITE)
PARTITIONS = ("p", "q")
ROWS = st.lists(
    st.tuples(st.integers(0, 12).map(str), st.sampled_from(PARTITIONS)), min_size=1, max_size=12
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["upsert", "upsert", "insert", "delete", "change", "compact", "beaten", "clean"]
        ),
        ROWS,
        st.integers(0, 5),
    ),
    min_size=2,
    max_size=8,
)
MODES = st.sampled_from(
    [settings.ConcurrencyMode.SINGLE_WRITER, settings.ConcurrencyMode.OPTIMISTIC]
)
Batch = list[tuple[str, str]]


def changed(small: SmallTable, batch: Batch, number: int) -> bool:
    """Have another engine change the buckets of a partition; whether it was there to be changed."""
    here, (_, partition) = Replacements(small), batch[0]
    if not here.live_groups(partition):
        return False
    if small.table.config.index is table_config.IndexKind.CONSISTENT_HASHING:
        here.split(partition, number % 2)
    else:
        stored = small.table.hashing_config()
        here.rescale({**dict(stored.rules if stored else ()), partition: number + 1})
    return True


@given(config=st.sampled_from([RINGS, COUNTS, COPIED]), mode=MODES, steps=STEPS)
@example(
    config=RINGS,
    mode=settings.ConcurrencyMode.SINGLE_WRITER,
    steps=[
        ("upsert", [("1", "q")], 0),
        ("beaten", [("0", "q")], 1),  # The first row of its bucket.
        ("change", [("0", "q")], 1),
    ],
)
@hypothesis_settings(max_examples=20, deadline=None)
def test_table_holds_the_newest_row_of_each_key(
    config: table_config.TableConfig,
    mode: settings.ConcurrencyMode,
    steps: list[tuple[str, Batch, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        small = SmallTable(Path(folder) / "t", config)
        model: dict[tuple[str, str], int] = {}
        for number, (what, batch, share) in enumerate(steps):
            each_once = list(dict.fromkeys(batch))
            new = {(part, key): number for key, part in each_once}
            rows = [{"id": key, "part": part, "a": number, "b": "x"} for key, part in each_once]
            match what:
                case "upsert":
                    small.upsert(rows, concurrency=mode)
                    model |= new
                case "insert":
                    insert = commits.Operation.INSERT
                    small.upsert(rows, operation=insert, drops_duplicates=True, concurrency=mode)
                    model = new | model
                case "delete":
                    small.delete(
                        [{"id": key, "part": part} for key, part in batch], concurrency=mode
                    )
                    model = {key: value for key, value in model.items() if key not in new}
                case "change":
                    changed(small, batch, share)
                case "beaten":
                    if is_published(small, rows, batch, share, mode):
                        model |= new
                case "compact" if config.table_type is table_config.TableType.MERGE_ON_READ:
                    small.compact()
                case "clean":
                    Replacements(small).clean()
            assert_holds(small, model)
        assert small.problems() == []


def is_published(
    small: SmallTable,
    rows: list[dict[str, object]],
    batch: Batch,
    share: int,
    mode: settings.ConcurrencyMode,
) -> bool:
    """Change buckets while a write is under way; return whether it was published all the same."""
    session = small.table.begin_write(small.options(concurrency=mode), ["id", "part", "a", "b"])
    assert isinstance(session, sessions.WriteSession)
    written = small.run_task(session, rows)
    was_changed = changed(small, batch, share)
    try:
        session.commit(written)
    except errors.WriteConflictError:
        assert was_changed
        return False
    return True


def assert_holds(small: SmallTable, model: Mapping[tuple[str, str], int]) -> None:
    found = small.rows()
    assert Counter((row["part"], row["id"]) for row in found) == Counter(model.keys())
    assert {(row["part"], row["id"]): row["a"] for row in found} == dict(model)
