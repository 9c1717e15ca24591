"""Tables of version 6 that Apache Hudi upgraded while a compaction was pending.

Log files had the time of the base file that they belong to, or of the compaction that was planned;
since version 8 it is that of the write.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import environment, table
from hoodie.model.results import Severity
from hoodie.model.settings import WriteSettings
from support.peer import chains, peer_ours
from support.peer.judge import Judge
from support.peer.peer_cases import DEFAULTS, SCHEMA, rows_of
from support.peer.peer_options import PeerTable, filesystem_lock
from support.peer.peer_rows import assert_same_rows

TABLES: Mapping[str, PeerTable] = {
    "simple": replace(DEFAULTS, name="simple_sixth", table_version=6),
    "buckets": replace(DEFAULTS, name="bucket_sixth", table_version=6, buckets=2),
}
KEY = ["part", "id"]
SOME = range(4)


@pytest.mark.parametrize("kind", TABLES)
def test_rows_that_a_pending_compaction_hides_are_named(
    kind: str, judge: Judge, tmp_path: Path
) -> None:
    made, path = TABLES[kind], tmp_path / "upgraded"
    options = made.write_options()

    chain = chains.Chain(path, has_images=False)

    def compare(ts: int) -> None:
        assert_same_rows(judge.read(path), rows_of(SOME, ts), KEY)
        assert_same_rows(peer_ours.read(path), rows_of(SOME, ts), KEY)
        if ts >= 4:
            # What it has pulled while rows are hidden lacks them (limits.md).
            chain.pull()
            assert_same_rows(chain.rows(SCHEMA), rows_of(SOME, ts), KEY)

    judge.write(path, rows_of(SOME, 1), options)
    judge.write(path, rows_of(SOME, 2), options)
    first = judge.schedule_compaction(path, options)
    assert first is not None
    judge.execute_compaction(path, first, options)
    judge.write(path, rows_of(SOME, 3), options)
    planned = judge.schedule_compaction(path, options)
    assert planned is not None
    judge.write(path, rows_of(SOME, 4), options)
    judge.execute(f"CREATE TABLE IF NOT EXISTS {made.name} USING hudi LOCATION '{path}'")
    judge.sql(f"CALL upgrade_table(table => '{made.name}', to_version => 'EIGHT')")
    compare(3)

    adoption = ("--index", "bucket", "--buckets", "2") if made.buckets else ("--index", "simple")
    said = f"rows are hidden until compaction {planned} is complete"
    with pytest.raises(peer_ours.CommandFailedError, match=said):
        peer_ours.hoodie("adopt", path, *adoption)
    found = table.open_table(str(path), environment.system()).check(WriteSettings())
    assert {said in each.message for each in found if each.severity is Severity.ERROR} == {True}

    options = replace(made, table_version=8).occ_options(filesystem_lock())
    judge.execute_compaction(path, planned, options)
    compare(4)
    peer_ours.hoodie("check", path)
    peer_ours.hoodie("adopt", path, *adoption)
    ours = peer_ours.Hoodie(table=made, concurrency="occ")
    plan = ours.schedule_compaction(path)
    assert plan is not None, "the log files of the first plan are on top of its base files"
    ours.execute_compaction(path, plan)
    compare(4)
    ours.write(path, rows_of(SOME, 5), "upsert")
    compare(5)
    judge.write(path, rows_of(SOME, 6), options)
    compare(6)
