"""Tables made by Apache Hudi, opened with `hoodie read`."""

from collections.abc import Callable

import pyarrow.compute as pc
import pytest

from support.peer import peer_ours
from support.peer.judge import Judge, Query, QueryType
from support.peer.peer_cases import RECIPES, PeerCase
from support.peer.peer_rows import assert_same_rows

GetCase = Callable[[str], PeerCase]


@pytest.mark.parametrize("name", RECIPES)
def test_we_read_what_apache_hudi_reads(name: str, peer_case: GetCase) -> None:
    case = peer_case(name)
    for stage in case.stages:
        assert_same_rows(peer_ours.read(stage.path), stage.expected, case.key)


@pytest.mark.parametrize("name", ["event_time", "event_time_avro_v8", "replaced"])
def test_our_read_optimized_rows_are_those_of_apache_hudi(
    name: str, judge: Judge, peer_case: GetCase
) -> None:
    case = peer_case(name)
    stage = case.stages[-1]
    theirs = judge.read(stage.path, Query(type=QueryType.READ_OPTIMIZED))
    assert_same_rows(peer_ours.read(stage.path, "--read-optimized"), theirs, case.key)


def test_meta_columns_are_those_of_apache_hudi(judge: Judge, peer_case: GetCase) -> None:
    case = peer_case("event_time")
    for stage in case.stages:
        theirs = judge.read(stage.path, meta_columns=True)
        assert_same_rows(peer_ours.read(stage.path, "--meta"), theirs, case.key)


def test_columns_and_filter_are_pushed_below_the_merge(peer_case: GetCase) -> None:
    # A filter must see merged rows: a row whose older version matches is not in the answer.
    stage = peer_case("event_time").stage("logs_over_base")
    where = "ts < 2000 and quantity >= 40"
    ours = peer_ours.read(stage.path, "--columns", "quantity,id", "--where", where)
    kept = pc.and_(pc.less(stage.expected["ts"], 2000), pc.less(39, stage.expected["quantity"]))
    assert ours.column_names == ["quantity", "id"]
    assert_same_rows(ours, stage.expected.filter(kept).select(["quantity", "id"]), ["id"])


@pytest.mark.parametrize(
    ("name", "what"), [("version_6", "version 6"), ("custom_payload", "AWSDmsAvroPayload")]
)
def test_table_that_we_cannot_read_is_refused_by_name(
    name: str, what: str, peer_case: GetCase
) -> None:
    path = peer_case(name).stage("end").path
    with pytest.raises(peer_ours.CommandFailedError, match=what) as caught:
        peer_ours.read(path)
    assert caught.value.exit_code == 21


def test_table_without_bucket_count_is_not_written(peer_case: GetCase) -> None:
    # Apache Hudi does not store the count; writing with another would lose keys.
    case = peer_case("event_time")
    path = case.stage("compacted").path
    ours = peer_ours.Hoodie(table=case.table)
    with pytest.raises(peer_ours.CommandFailedError, match="bucket"):
        ours.write(path, case.stage("compacted").expected, "upsert")
    assert_same_rows(peer_ours.read(path), case.stage("compacted").expected, case.key)
