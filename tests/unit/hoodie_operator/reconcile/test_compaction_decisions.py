"""What is decided about CompactionPolicies, and about the TableActions that they make."""

import dataclasses

import pytest

from hoodie.contract import engine_specs, job_results, job_specs
from hoodie.maintenance.compaction import memory
from hoodie.model import compaction_options
from hoodie_operator.api import kinds
from support.operators import operator_world as ow
from support.operators.flights_world import Flights
from support.operators.rule_examples import edited


@pytest.mark.parametrize(
    ("triggers", "is_due"),
    [
        ({"deltaCommits": 3}, True),
        ({"deltaCommits": 4}, False),
        ({"logBytes": 300}, True),
        ({"logBytes": "1Ki"}, False),
        ({"elapsed": "1m"}, True),
        ({"elapsed": "1h"}, False),
        ({"deltaCommits": 4, "elapsed": "1m"}, True),
        ({"match": "All", "deltaCommits": 4, "elapsed": "1m"}, False),
        ({"match": "All", "deltaCommits": 3, "elapsed": "1m"}, True),
    ],
)
def test_triggers_fire_on_what_was_logged_since_the_last_plan(
    triggers: dict[str, object], is_due: bool
) -> None:
    here = Flights()
    commits = [ow.commit(1), ow.compaction(2), *(ow.commit(n) for n in (3, 4, 5))]
    here.see_table(here.table_key, commits)
    here.now_ms += 100_000
    key = here.add_policy(triggers=triggers)
    here.settle()
    assert bool(here.compactions()) is is_due
    assert here.condition(key)[:2] == ("Ready", "Watching")


def test_commit_that_completed_after_the_plan_is_not_compacted_by_it() -> None:
    here = Flights()
    late = ow.commit(1, completion_time=ow.time(3))
    here.see_table(here.table_key, [ow.compaction(2), late])
    here.add_policy(triggers={"deltaCommits": 1})
    here.settle()
    assert here.compactions()


def test_policy_tells_how_far_its_triggers_are() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(1)])
    key = here.add_policy(triggers={"deltaCommits": 4, "logBytes": "1Ki"})
    here.settle()
    assert here.condition(key)[2] == "flights: 1 of 4 delta commits, 100 of 1024 log bytes"


def test_due_compaction_runs_beside_writers() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.add_writer("left")
    here.add_policy(runtime={"engine": "Spark", "parallelism": 2})
    here.settle()
    (action,) = here.compactions()
    assert action.name.startswith(f"flights-compaction-000002-{ow.time(2)}-g1-")
    (start,) = (start for start in here.started if start.action_id)
    assert start.work == job_specs.Compact(step=job_specs.CompactionStep.SCHEDULE_AND_EXECUTE)
    assert (start.action_id, start.engine.kind) == (action.name, engine_specs.EngineKind.SPARK)
    assert {each.id.name for each in here.started} == {"left", action.name}


@pytest.mark.parametrize("spec", [ow.TABLE, ow.SINGLE])
def test_compactor_gets_the_lock_of_the_tables_writers(spec: dict[str, object]) -> None:
    """T-O26: it cannot be told another, and without one nothing of the table starts (R2)."""
    here = Flights(spec)
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.add_policy()
    here.settle()
    here.end(here.uid(*here.compactions()), is_told=True)
    here.see_table(here.table_key, [ow.commit(1), ow.compaction(2)])
    here.add_writer("left")
    here.settle()
    compaction, write = here.started
    assert compaction.action_id
    assert write.writer_id
    assert compaction.table == write.table
    assert compaction.table.lock == here.status(here.table_key).lock

    unlocked = Flights(spec)
    unlocked.see_lock(unlocked.lock_key, is_ready=False)
    unlocked.see_table(unlocked.table_key, [ow.commit(n) for n in (1, 2)])
    unlocked.add_policy()
    unlocked.settle()
    assert unlocked.started == []


def test_one_compaction_of_a_table_is_at_work_at_a_time() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.add_policy()
    here.settle()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2, 3, 4)])
    here.settle()
    assert len(here.compactions()) == 1


def test_compaction_is_done_when_the_timeline_has_it() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.add_policy()
    here.settle()
    (action,) = here.compactions()
    here.end(here.uid(action), is_told=True)
    here.see_table(here.table_key, [*(ow.commit(n) for n in (1, 2)), ow.compaction(3, action.name)])
    here.settle()
    assert here.condition(action)[:2] == ("Succeeded", "Succeeded")
    assert here.compactions() == [action]


def test_killed_compaction_executes_the_plan_that_it_made() -> None:
    here = Flights()
    commits = [ow.commit(n) for n in (1, 2)]
    here.see_table(here.table_key, commits)
    here.add_policy()
    here.settle()
    (action,) = here.compactions()
    here.end(here.uid(action))
    plan = ow.planned(3, action_id=action.name, is_alive=True)
    here.see_table(here.table_key, commits, [plan])
    here.settle()
    here.now_ms += 10_000
    here.see_table(here.table_key, commits, [plan])
    here.settle()
    assert here.started[-1].id.attempt == 2
    assert here.started[-1].work == job_specs.Compact(
        step=job_specs.CompactionStep.EXECUTE, instant_time=ow.time(3)
    )
    assert here.compactions() == [action]


def test_compaction_with_nothing_to_do_says_so() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.add_policy()
    here.settle()
    (action,) = here.compactions()
    here.end(here.uid(action), is_told=True)
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.settle()
    assert here.condition(action)[:2] == ("Succeeded", "NothingToDo")
    assert here.compactions() == [action], "the same basis makes no second action"


def test_plan_that_nobody_executes_is_executed_before_a_new_one_is_made() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)], [ow.planned(3)])
    here.add_policy()
    here.settle()
    (start,) = here.started
    assert start.work == job_specs.Compact(
        step=job_specs.CompactionStep.EXECUTE, instant_time=ow.time(3)
    )


def test_size_of_a_plan_goes_with_its_run() -> None:
    here = Flights()
    size = memory.PlanSize(file_groups=3, log_bytes_max=1 << 30)
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)], [ow.planned(3, plan_size=size)])
    here.add_policy()
    here.settle()
    (start,) = here.started
    assert start.plan_size == size


def test_plan_that_somebody_executes_is_left_to_them() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)], [ow.planned(3, is_alive=True)])
    key = here.add_policy()
    here.settle()
    assert not here.started
    assert "another process executes instant" in here.condition(key)[2]


def test_failed_action_is_tried_again_when_asked_to() -> None:
    here = Flights()
    commits = [ow.commit(n) for n in (1, 2)]
    here.see_table(here.table_key, commits)
    here.add_policy()
    here.settle()
    (action,) = here.compactions()
    here.end(here.uid(action), "Configuration")
    here.see_table(here.table_key, commits)
    here.settle()
    here.by_key[action] = dataclasses.replace(here.by_key[action], retry_request="now")
    here.settle()
    assert here.condition(action)[0] == "Starting"
    assert [start.id.attempt for start in here.started] == [1, 2]


def test_failed_action_stalls_its_policy_until_the_table_moves_on() -> None:
    here = Flights()
    commits = [ow.commit(n) for n in (1, 2)]
    here.see_table(here.table_key, commits)
    key = here.add_policy()
    here.settle()
    (action,) = here.compactions()
    here.end(here.uid(action), "Configuration")
    here.see_table(here.table_key, commits)
    here.settle()
    assert here.condition(action)[:2] == ("Failed", "RunFailed")
    assert here.condition(key)[:2] == ("Stalled", "ActionFailed")
    assert len(here.started) == 1
    here.see_table(here.table_key, [*commits, ow.commit(3)])
    here.settle()
    assert len(here.compactions()) == 2


def test_one_failed_table_of_many_is_told_first_and_stalls_no_policy() -> None:
    """What fails at one table must not turn the health of the fleet's policy."""
    here = Flights()
    names = [f"t{number:03d}" for number in range(4)]
    keys = [
        here.add(
            kinds.HUDI_TABLE,
            name,
            edited(ow.TABLE, storage__path=name, adoption="AdoptOnly"),
            labels={"tier": "gold"},
        )
        for name in names
    ]
    for key in keys:
        here.see_table(key)
    here.settle()
    for key in keys:
        here.end(here.uid(key), is_told=True)
        here.see_table(key)
    here.see_table(keys[-1], [ow.commit(n) for n in (1, 2)])
    here.settle()
    policy = here.add_policy(target={"tableSelector": {"matchLabels": {"tier": "gold"}}})
    here.settle()
    (action,) = here.compactions()
    here.end(here.uid(action), "Configuration")
    here.see_table(keys[-1], [ow.commit(n) for n in (1, 2)])
    here.settle()
    state, reason, message = here.condition(policy)
    assert (state, reason) == ("Ready", "Watching")
    assert message.startswith("1 of 5 tables failed: t003: TableAction ")
    first = here.status(policy).tables[0]
    assert (first.table, first.reason) == ("t003", "ActionFailed")


def test_failed_action_is_followed_by_another_when_the_policy_is_edited() -> None:
    here = Flights()
    commits = [ow.commit(n) for n in (1, 2)]
    here.see_table(here.table_key, commits)
    key = here.add_policy()
    here.settle()
    here.end(here.uid(here.compactions()[0]), "Configuration")
    here.see_table(here.table_key, commits)
    here.settle()
    here.edit(key, timeLimit="1h")
    here.settle()
    assert len(here.compactions()) == 2


def test_action_on_an_instant_that_is_gone_fails() -> None:
    here = Flights()
    key = here.add(
        kinds.TABLE_ACTION,
        "again",
        {
            "tableRef": {"name": "flights"},
            "type": "Compaction",
            "compaction": {"instant": ow.time(9)},
        },
    )
    here.settle()
    assert here.condition(key)[:2] == ("Failed", "InstantNotFound")


def test_copy_on_write_table_is_not_compacted() -> None:
    here = Flights(edited(ow.TABLE, tableType="CopyOnWrite", concurrency={}))
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    policy = here.add_policy()
    spec = {"tableRef": {"name": "flights"}, "type": "Compaction"}
    action = here.add(kinds.TABLE_ACTION, "mine", spec)
    here.settle()
    assert here.condition(action)[:2] == ("Failed", "InvalidSpec")
    assert "has no log files to compact" in here.condition(action)[2]
    assert not here.compactions()
    assert here.condition(policy)[0] == "Ready"


def test_action_that_takes_too_long_is_stopped() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.add_policy(timeLimit="1m")
    here.settle()
    (action,) = here.compactions()
    here.progress(here.uid(action))
    here.now_ms += 61_000
    here.settle()
    assert here.stopped[0].reason == "NoProgress"


def test_policy_that_names_the_table_goes_before_one_that_selects_it() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    selecting = here.add_policy("gold", target={"tableSelector": {"matchLabels": {"tier": "gold"}}})
    naming = here.add_policy("often", triggers={"deltaCommits": 5})
    here.settle()
    assert here.condition(selecting)[:2] == ("Stalled", "PolicyConflict")
    assert here.condition(naming)[:2] == ("Ready", "Watching")
    assert not here.compactions()


def test_policy_selects_tables_by_labels() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.add_policy("gold", target={"tableSelector": {"matchLabels": {"tier": "gold"}}})
    none = here.add_policy("lead", target={"tableSelector": {"matchLabels": {"tier": "lead"}}})
    here.settle()
    assert len(here.compactions()) == 1
    assert here.condition(none)[:2] == ("Ready", "Watching")


@pytest.mark.parametrize("owner", ["External", "Disabled"])
def test_service_of_another_owner_is_not_run(owner: str) -> None:
    here = Flights(edited(ow.TABLE, services={"compaction": owner}))
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    key = here.add_policy()
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "Disabled")
    assert not here.started


def test_compaction_keeps_deletes_for_as_many_whole_hours_as_the_table_says() -> None:
    here = Flights(edited(ow.TABLE, services={"deletesKept": "1d2h"}))
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.add_policy()
    here.settle()
    assert here.started[-1].table.settings.deletes_kept_hours == 26


def test_finished_actions_beyond_the_history_are_removed() -> None:
    here = Flights()
    here.add_policy(history={"successful": 1})
    commits = [ow.commit(n) for n in (1, 2)]
    for number in (3, 6):
        here.now_ms += 2000
        here.see_table(here.table_key, commits)
        here.settle()
        newest = here.compactions()[-1]
        here.end(here.uid(newest), is_told=True)
        commits += [ow.compaction(number, newest.name)]
        here.see_table(here.table_key, commits)
        here.settle()
        commits += [ow.commit(number + 1), ow.commit(number + 2)]
    assert [key.name for key in here.compactions()] == [newest.name]


PLAN = {
    "strategies": ["PartitionRegex", "LogRatio"],
    "partitionRegex": "^2026",
    "minLogPercent": 25,
    "maxFileGroups": 2,
    "maxBytes": "1Gi",
    "maxPending": 3,
}


def test_plan_of_a_policy_reaches_the_run() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.add_policy(plan=PLAN)
    here.settle()
    (start,) = here.started
    assert isinstance(start.work, job_specs.Compact)
    assert start.work.options == {
        "hoodie.compaction.strategy": "partition-regex,log-ratio",
        "hoodie.compaction.partition.path.regex": "^2026",
        "hoodie.operator.compaction.log.ratio.min": "0.25",
        "hoodie.operator.compaction.file.groups.max": "2",
        "hoodie.operator.compaction.bytes.max": str(1 << 30),
        "hoodie.operator.compaction.pending.max": "3",
    }
    assert compaction_options.from_properties(start.work.options).file_groups_max == 2


def compact_bounded(here: Flights, left_out: int, second: int) -> None:
    """End the run of the newest compaction, which is on the timeline and left groups out."""
    action = here.compactions()[-1]
    result = job_results.JobResult(attempt=1, file_groups=2, left_out=left_out)
    here.end(here.uid(action), result=result)
    commits = [ow.commit(1), ow.commit(2), ow.compaction(3, here.compactions()[0].name)]
    if second > 3:
        commits.append(ow.compaction(second, action.name))
    here.see_table(here.table_key, commits)
    here.settle()


def test_what_a_bounded_plan_left_out_is_compacted_by_the_next_run() -> None:
    """It waits for no further delta commits; two plans are two runs."""
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    key = here.add_policy(plan={"maxFileGroups": 2})
    here.settle()
    compact_bounded(here, 2, 3)
    first, rest = here.compactions()
    assert rest.name.startswith(f"flights-compaction-000002-{ow.time(3)}-rest-g1-")
    assert len(here.started) == 2
    assert here.started[0].work == here.started[1].work
    compact_bounded(here, 0, 4)
    assert here.compactions() == [first, rest]
    assert here.condition(key)[2] == "flights: no delta commits since the last compaction"


def test_rest_that_could_not_be_compacted_leaves_the_triggers_alone() -> None:
    """Nothing was planned: not again before there are delta commits, but then at once."""
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.add_policy(plan={"maxFileGroups": 2})
    here.settle()
    compact_bounded(here, 2, 3)
    rest = here.compactions()[-1]
    nothing = job_results.JobResult(attempt=1, reason="nothing to compact: no file group")
    here.end(here.uid(rest), result=nothing)
    commits = [ow.commit(1), ow.commit(2), ow.compaction(3, here.compactions()[0].name)]
    here.see_table(here.table_key, commits)
    here.settle()
    assert here.condition(rest)[:2] == ("Succeeded", "NothingToDo")
    assert len(here.compactions()) == 2
    here.see_table(here.table_key, [*commits, ow.commit(5), ow.commit(6)])
    here.settle()
    assert len(here.compactions()) == 3


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        (
            "Operator",
            {
                "hoodie.compact.schedule.inline": "true",
                "hoodie.compact.inline.max.delta.commits": "3",
                "hoodie.operator.compaction.file.groups.max": "2",
            },
        ),
        ("External", {}),
        ("Disabled", {}),
    ],
)
def test_writer_plans_compactions_of_tables_whose_compaction_the_operator_owns(
    owner: str, expected: dict[str, str]
) -> None:
    here = Flights(edited(ow.TABLE, services__compaction=owner))
    here.see_table(here.table_key)
    here.add_writer("left", compaction={"deltaCommits": 3, "plan": {"maxFileGroups": 2}})
    here.settle()
    (start,) = here.started
    assert isinstance(start.work, job_specs.WriteBatches)
    assert start.work.settings.compaction == expected
