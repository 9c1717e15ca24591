"""Answers of observers that are lies: refused at the edge, or harmless to decisions about them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie import errors
from hoodie.maintenance.compaction import memory
from hoodie.model import instants, json_values, table_config
from hoodie_operator.api import kinds
from hoodie_operator.observing import dialogue
from hoodie_operator.reconcile import facts
from support.operators import operator_world as ow
from support.operators.flights_world import Flights

TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(["20260101000000000", "0" * 14, "commit", "deltacommit", "compaction", "w1"]),
    st.integers(200, 2000).map(lambda length: "x" * length),
)
NUMBERS = st.one_of(st.integers(-3, 3), st.integers(), st.just(1 << 70))
MAYBE = st.none() | TEXTS
COMMITS = st.builds(
    facts.Commit,
    requested_time=TEXTS,
    completion_time=TEXTS,
    action=TEXTS,
    is_compaction=st.booleans(),
    writer_id=MAYBE,
    batch_id=MAYBE,
    files=st.lists(TEXTS, max_size=2).map(tuple),
    action_id=MAYBE,
    log_bytes=NUMBERS,
)
PENDING = st.builds(
    facts.Pending,
    requested_time=TEXTS,
    action=TEXTS,
    writer_id=MAYBE,
    attempt=st.none() | NUMBERS,
    target=MAYBE,
    is_alive=st.booleans(),
    indexes=st.lists(TEXTS, max_size=2).map(tuple),
    plan_size=st.none()
    | st.builds(memory.PlanSize, file_groups=NUMBERS, log_bytes_max=st.none() | NUMBERS),
)
NEGATIVE = memory.PlanSize(file_groups=-1, log_bytes_max=1)
HUGE = memory.PlanSize(file_groups=1, log_bytes_max=1 << 64)
LONG = facts.IndexBehind(name="x" * 300, instant=instants.InstantTime(ow.time(1)))
NEVER = facts.IndexBehind(name="x", instant=instants.InstantTime("never"))
SAVEPOINTS = st.builds(facts.Savepoint, requested_time=TEXTS, completion_time=TEXTS)
CONSUMERS = st.builds(
    facts.Consumer,
    name=TEXTS,
    consumed=TEXTS,
    is_holding=st.booleans(),
    unread=NUMBERS,
    unread_since=MAYBE,
)
PROBLEMS = st.none() | st.builds(
    facts.Problem, kind=TEXTS, message=TEXTS, is_transient=st.booleans()
)


def properties() -> st.SearchStrategy[dict[str, str] | None]:
    """Return those of a table, edited by somebody."""
    here = Flights()
    found = here.tables[here.uid(here.table_key)].config
    assert found is not None
    stored = {
        name: value
        for name, value in table_config.to_properties(found).items()
        if name != "hoodie.table.checksum"
    }
    edits = st.dictionaries(st.sampled_from(sorted(stored)), TEXTS, max_size=2)
    return st.none() | edits.map(lambda edited: stored | edited)


def tables() -> st.SearchStrategy[dialogue.Table]:
    """Return answers of the right form about one table."""
    return st.builds(
        dialogue.Table,
        problem=PROBLEMS,
        properties=properties(),
        commits=st.lists(COMMITS, max_size=2).map(tuple),
        pending=st.lists(PENDING, max_size=2).map(tuple),
        last_clean=MAYBE,
        archived=st.dictionaries(TEXTS, TEXTS, max_size=2),
        savepoints=st.lists(SAVEPOINTS, max_size=2).map(tuple),
        consumers=st.lists(CONSUMERS, max_size=2).map(tuple),
        ledger=st.dictionaries(TEXTS, st.lists(TEXTS, max_size=2).map(tuple), max_size=2),
        metadata=st.none() | st.builds(facts.MetadataTable, delta_commits=NUMBERS, problem=TEXTS),
    )


SOURCES = st.builds(
    dialogue.Source,
    problem=PROBLEMS,
    groups=st.lists(
        st.lists(st.builds(facts.SourceFile, path=TEXTS, token=TEXTS), min_size=1, max_size=2).map(
            tuple
        ),
        max_size=2,
    ).map(tuple),
    columns=st.none() | st.lists(TEXTS, max_size=3).map(tuple),
)


@given(told=tables(), source=SOURCES)
def test_whatever_an_observer_tells_is_refused_or_decided_about(
    told: dialogue.Table, source: dialogue.Source
) -> None:
    here = Flights()
    writer = here.add_writer("w")
    policy = here.add(
        kinds.COMPACTION_POLICY,
        "p",
        {"target": {"tableRef": {"name": here.table_key.name}}, "triggers": {"deltaCommits": 1}},
    )
    here.settle()
    try:
        fact = dialogue.heard_table(told, 1)
        seen = dialogue.heard_source(source, 1, 1)
    except errors.HoodieError:
        return
    here.tables[here.uid(here.table_key)] = fact
    here.sources[here.uid(writer)] = seen
    for key in (here.table_key, writer, policy, here.table_key):
        here.reconcile(key)


@pytest.mark.parametrize(
    "told",
    [
        dialogue.Table(commits=(ow.commit(1, action="x" * 300),)),
        dialogue.Table(commits=(ow.commit(1, log_bytes=1 << 64),)),
        dialogue.Table(metadata=facts.MetadataTable(delta_commits=-1)),
        dialogue.Table(metadata=facts.MetadataTable(behind=(LONG,))),
        dialogue.Table(metadata=facts.MetadataTable(behind=(NEVER,))),
        dialogue.Table(commits=(ow.commit(1, requested_time="never"),)),
        dialogue.Table(pending=(ow.planned(1, attempt=-1),)),
        dialogue.Table(pending=(ow.planned(1, plan_size=NEGATIVE),)),
        dialogue.Table(pending=(ow.planned(1, plan_size=HUGE),)),
        dialogue.Table(pending=(ow.planned(1, indexes=("x" * 300,)),)),
        dialogue.Table(pending=(ow.planned(1, indexes=("x",) * 300),)),
    ],
)
def test_answer_that_no_timeline_gives_is_refused(told: dialogue.Table) -> None:
    with pytest.raises(errors.FormatError):
        dialogue.heard_table(told, 1)


def test_problem_of_an_observer_has_a_kind_of_ours_and_a_short_message() -> None:
    problem = facts.Problem(kind="y" * 300, message="a\nb" + "x" * 5000, is_transient=True)
    told = dialogue.heard_table(dialogue.Table(problem=problem), 1).problem
    assert told is not None
    assert told.kind == errors.HoodieError.kind
    assert told.message.startswith("a bx")
    assert len(told.message) <= 1024


def _large(number: int) -> dialogue.TableAnswer:
    ledger = {"w": tuple(f"{number}-{each:020}" for each in range(60_000))}
    return dialogue.told_table(facts.TableFacts(observed_ms=1, ledger=ledger))


def test_tables_that_do_not_fit_into_one_answer_are_left_for_the_next() -> None:
    answers = [_large(number) for number in range(5)]
    told = dialogue.fitted(answers)
    assert [each.is_left for each in told.tables] == [False, False, True, True, True]
    content = json_values.encode(told)
    assert len(content) <= dialogue.BODY_BYTES_MAX
    assert dialogue.count_values(content) <= dialogue.VALUES_MAX


@pytest.mark.parametrize("count", [10, 100_000])
def test_timeline_or_source_that_does_not_fit_into_an_answer_is_a_problem(count: int) -> None:
    commits = tuple(ow.commit(number % 50) for number in range(count))
    files = tuple((facts.SourceFile(path=f"/d/{n}", token=f"{n}@0"),) for n in range(count))
    answers: list[Any] = [
        dialogue.told_table(facts.TableFacts(observed_ms=1, commits=commits)).table,
        dialogue.told_source(facts.SourceFacts(generation=1, observed_ms=1, groups=files)).source,
    ]
    for told in answers:
        if count == 10:
            assert told.problem is None
        else:
            assert "does not fit" in told.problem.message
            assert f"{count}" in told.problem.message
            assert not told.problem.is_transient
