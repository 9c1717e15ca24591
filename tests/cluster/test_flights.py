"""The example in a cluster, as the README has it: chart, kubectl, Spark and ZooKeeper in pods."""

import json
from pathlib import Path

import pytest

from hoodie import environment, table
from hoodie.transaction.locks import storage_lock_file
from hoodie_operator.api import group
from hoodie_operator.manifests import naming
from support.kube import programs
from support.operators import days_table, flights_example, installed_operator, object_store
from support.servers import aws_server

EXAMPLE = flights_example.MANIFESTS / "volume"
END_S = 420.0
BOTH = frozenset(
    (name, role) for name in flights_example.COMMITS for role in (naming.DRIVER, naming.EXECUTOR)
)


def _opened(lake: installed_operator.Lake) -> table.Table:
    return table.open_table(str(lake.folder / "flights"), environment.system(parallelism=1))


def _await_all(lake: installed_operator.Lake) -> None:
    """Return once all is written and was compacted, by both Writers at once."""
    at_once: set[frozenset[tuple[str, str]]] = set()

    def is_done() -> bool:
        at_once.add(flights_example.running(lake))
        return flights_example.are_done(lake)

    try:
        programs.wait_until(is_done, "all is written, and was compacted", END_S)
    finally:
        lake.show()
    lake.await_ready()
    assert any(each >= BOTH for each in at_once), at_once


def _check(opened: table.Table, flights: flights_example.Flights) -> None:
    flights_example.check(opened, flights)
    commits = flights_example.commits(opened)
    assert flights_example.overlap(commits["schedules"], commits["actuals"])


def test_flights_are_written_by_two_spark_writers_at_once(
    real_lake: installed_operator.Lake, flights: flights_example.Flights
) -> None:
    real_lake.kubectl("apply", "-k", str(EXAMPLE))
    installed_operator.copy_in(real_lake, flights.folder)
    _await_all(real_lake)
    _check(_opened(real_lake), flights)

    real_lake.helm.run(
        *("upgrade", "--namespace", real_lake.release_namespace),
        values={**real_lake.values, "replicas": 1},
    )
    real_lake.roll_out()
    real_lake.await_ready()
    real_lake.helm.run("uninstall", "--namespace", real_lake.release_namespace)
    # Nothing of what is declared waits for an operator that is not there.
    real_lake.kubectl("delete", "-k", str(EXAMPLE), "--timeout=120s")
    assert real_lake.declared() == []
    programs.wait_until(lambda: real_lake.list("jobs") == [], "their runs are gone")
    assert flights.are_in(_opened(real_lake))


def test_flights_are_written_to_an_object_store(
    real_lake: installed_operator.Lake,
    flights: flights_example.Flights,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with object_store.serving(real_lake, tmp_path) as store:
        for name, value in aws_server.settings(store.url).items():
            monkeypatch.setenv(name, value)
        real_lake.kubectl("apply", "-k", str(store.overlay))
        installed_operator.copy_in(real_lake, flights.folder)
        _await_all(real_lake)
        opened = table.open_table(object_store.TABLE, environment.system(parallelism=1))
        _check(opened, flights)
        keys = aws_server.keys(store.url, object_store.BUCKET)
        assert f"flights/{storage_lock_file.PATH}" in keys
    # Nothing lies in the volume but the input.
    assert not (real_lake.folder / "flights").exists()
    told = real_lake.told()
    assert "AWS_ENDPOINT_URL" in told[f"pods of {real_lake.namespace}"]
    for name, text in told.items():
        for each in store.secrets:
            assert each not in text, name


def test_run_survives_its_leader_and_its_driver_and_the_table_is_kept_small(
    real_lake: installed_operator.Lake,
) -> None:
    days_table.declare(real_lake)
    programs.wait_until(lambda: days_table.committed(real_lake) >= 1, "a batch is committed", END_S)
    (driver,) = days_table.drivers(real_lake)
    leader, attempts = real_lake.leader(), days_table.attempts(real_lake)
    assert list(attempts) == ["1"]
    real_lake.cluster.kubectl("--namespace", real_lake.release_namespace, "delete", "pod", leader)
    programs.wait_until(lambda: real_lake.leader() not in ("", leader), "another one leads")
    before = days_table.committed(real_lake)
    programs.wait_until(lambda: days_table.committed(real_lake) > before, "the run goes on", END_S)
    assert (days_table.drivers(real_lake), days_table.attempts(real_lake)) == ([driver], attempts)

    days_table.plan_compactions(real_lake)
    programs.wait_until(
        lambda: days_table.is_taken_up(real_lake), "the run has other settings", END_S
    )
    assert (days_table.drivers(real_lake), days_table.attempts(real_lake)) == ([driver], attempts)

    real_lake.kubectl("delete", "pod", driver, "--grace-period=1")
    programs.wait_until(
        lambda: days_table.committed(real_lake) == days_table.DAYS,
        "the next attempt resumes",
        END_S,
    )
    real_lake.await_ready()
    runs = days_table.status(real_lake)["runs"]
    assert (runs["attempts"], runs["history"][-1]["outcome"]) == (2, "Succeeded")
    days_table.check(real_lake)
    days_table.keep_small(real_lake)


def test_executors_that_no_node_takes_are_told_until_less_is_asked_for(
    real_lake: installed_operator.Lake,
) -> None:
    days_table.declare(real_lake, days_table.TOO_LARGE_EXECUTORS)

    def is_told() -> bool:
        conditions = days_table.status(real_lake).get("conditions") or ()
        ready = next((each for each in conditions if each["type"] == "Ready"), {})
        return ready.get("reason") == "Unschedulable" and "executor days-" in ready["message"]

    programs.wait_until(is_told, "the executor's obstacle is told", END_S)
    fitting = {"spec": {"runtime": {"engine": "Local", "executors": None}}}
    real_lake.kubectl("patch", "writer", "days", "--type=merge", "-p", json.dumps(fitting))
    programs.wait_until(
        lambda: days_table.committed(real_lake) > 0, "it begins anew, and writes", END_S
    )
    (first, *_) = days_table.status(real_lake)["runs"]["history"]
    assert first["outcome"] == "Stopped"


def test_driver_out_of_memory_is_told_and_gets_more(real_lake: installed_operator.Lake) -> None:
    days_table.declare(real_lake, days_table.TOO_LITTLE)
    programs.wait_until(
        lambda: "2" in days_table.attempts(real_lake), "another attempt is made", END_S
    )
    runs = days_table.status(real_lake)["runs"]
    assert runs["history"][0]["errorKind"] == "OutOfMemory"
    assert runs["memoryPercent"] > 100
    limits = {
        each["metadata"]["labels"][f"{group.GROUP}/attempt"]: each["spec"]["template"]["spec"][
            "containers"
        ][0]["resources"]["limits"]["memory"]
        for each in real_lake.list("jobs", f"{group.GROUP}/owner-kind=Writer")
    }
    assert (limits["1"], limits["2"]) == ("40Mi", "60Mi")
