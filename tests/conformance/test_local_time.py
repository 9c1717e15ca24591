"""Tables as Apache Hudi makes them by default: in the local time of its JVM, without buckets.

A JVM in another time zone than the machine's writes them in turn with us, once they were adopted.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import environment, table
from hoodie.model.settings import WriteSettings
from hoodie.model.time_zones import TimeZone
from support.peer import peer_ours, peer_turns
from support.peer.judge import Judge, Query, Settings
from support.peer.peer_cases import BASE, rows_of
from support.peer.peer_rows import assert_same_rows

ZONE = TimeZone("Asia/Kathmandu")
OPTIONS = {
    "hoodie.table.timeline.timezone": "LOCAL",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
}
# What Apache Hudi makes by default, and a table whose writers have a bucket index.
TABLES = {
    "cow": (
        replace(BASE, name="local", merge_on_read=False, buckets=None, metadata_table=True),
        ("--index", "simple"),
    ),
    "mor, buckets": (
        replace(BASE, name="local", metadata_table=True),
        ("--index", "bucket", "--buckets", "2"),
    ),
}


@pytest.fixture(scope="module")
def local_judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """Apache Hudi in a JVM of another time zone."""
    settings = Settings(name="local", jvm_options=(f"-Duser.timezone={ZONE.name}",))
    with Judge(tmp_path_factory.mktemp("local_judge"), settings) as started:
        yield started


@pytest.mark.parametrize("kind", TABLES)
def test_default_tables_are_written_in_turn(local_judge: Judge, tmp_path: Path, kind: str) -> None:
    made, index = TABLES[kind]
    made = replace(made, extra={**made.extra, **OPTIONS})
    path = tmp_path / "local"
    local_judge.write(path, rows_of(range(12), 0), made.write_options())
    adopt = ["adopt", path, *index, "--lock", "filesystem"]
    with pytest.raises(peer_ours.CommandFailedError, match="hoodie adopt --time-zone"):
        peer_ours.hoodie(*adopt)
    with pytest.raises(peer_ours.CommandFailedError, match="behind those of Pacific/Auckland"):
        peer_ours.hoodie(*adopt, "--time-zone", "Pacific/Auckland")
    assert peer_ours.hoodie(*adopt, "--time-zone", ZONE.name)["is_done"]
    concurrency = "nbcc" if made.merge_on_read else "occ"
    ours = peer_ours.Hoodie(table=made, concurrency=concurrency, orders_deletes=True)
    for step in peer_turns.changes(local_judge, path, made, ours):
        opened = table.open_table(str(path), environment.system())
        rows = opened.read().read_all()
        for query in (Query(), Query(use_metadata_table=True)):
            assert_same_rows(local_judge.read(path, query), rows, ["part", "id"])
        timeline = opened.timeline()
        newest = timeline.completed[-1]
        assert newest.completion_time == timeline.greatest_time, step
        file = path / ".hoodie" / "timeline" / f"{newest.requested_time}_{newest.completion_time}"
        (completed,) = file.parent.glob(f"{file.name}.*")
        shown_ms = ZONE.epoch_ms(str(newest.completion_time))
        assert abs(shown_ms - completed.stat().st_mtime * 1000) < 60_000, step
    found = table.open_table(str(path), environment.system()).check(WriteSettings())
    assert not [each for each in found if "time" in each.message]
