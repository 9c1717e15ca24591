"""Tables whose writers look keys up hold what a dictionary holds, whatever is done to them."""

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hoodie.model import commits, table_config
from hoodie.model import settings as write_settings
from support.tables.tables import CONFIG, SmallTable

KEYS = st.integers(0, 15).map(str)
PARTITIONS = st.sampled_from(["p", "p", "q"])
ROWS = st.lists(st.tuples(KEYS, PARTITIONS), min_size=1, max_size=12)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "upsert", "delete", "insert", "compact"]),
        ROWS,
        st.sampled_from([0, 1 << 20]),  # Whether small files are filled up.
        st.sampled_from([400, 1 << 20]),  # Bytes of a base file, about.
    ),
    min_size=2,
    max_size=6,
)
KINDS = st.sampled_from(
    [
        (kind, index)
        for kind in table_config.TableType
        for index in (table_config.IndexKind.SIMPLE, table_config.IndexKind.BLOOM)
    ]
)


@given(kind=KINDS, steps=STEPS)
@example(
    kind=(table_config.TableType.MERGE_ON_READ, table_config.IndexKind.SIMPLE),
    steps=[(what, [("0", "p")], 0, 400) for what in ("upsert", "delete", "insert")],
)
@settings(max_examples=25, deadline=None)
def test_table_holds_each_key_once_and_as_it_was_written_last(
    kind: tuple[table_config.TableType, table_config.IndexKind],
    steps: list[tuple[str, list[tuple[str, str]], int, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table_type, index = kind
        config = replace(CONFIG, table_type=table_type, bucket_count=None, index=index)
        small = SmallTable(Path(folder) / "t", config)
        model: dict[tuple[str, str], int] = {}
        for number, (what, keys, small_file_bytes, base_file_bytes) in enumerate(steps):
            options = {
                "concurrency": write_settings.ConcurrencyMode.SINGLE_WRITER,
                "small_file_bytes": small_file_bytes,
                "base_file_bytes_max": base_file_bytes,
            }
            rows = [{"id": key, "part": part, "a": number, "b": "x"} for key, part in keys]
            match what:
                case "upsert":
                    small.upsert(rows, **options)
                    model |= dict.fromkeys(keys, number)
                case "insert":
                    insert = commits.Operation.INSERT
                    small.upsert(rows, operation=insert, drops_duplicates=True, **options)
                    model = dict.fromkeys(keys, number) | model
                case "delete":
                    small.delete([{"id": key, "part": part} for key, part in keys], **options)
                    for key in keys:
                        model.pop(key, None)
                case _ if not config.is_copy_on_write:
                    small.compact()
        found = small.rows()
        assert Counter((row["id"], row["part"]) for row in found) == Counter(model.keys())
        assert {(row["id"], row["part"]): row["a"] for row in found} == model
        optimized = small.rows(is_read_optimized=True)
        assert len({(row["id"], row["part"]) for row in optimized}) == len(optimized)
