"""`hoodie lock`: who has a table's lock is told, and a dead holder's lock is broken."""

import os
from pathlib import Path

import pytest

from support.contracts import lock_process
from support.servers.zookeeper_server import lock_path, zookeeper
from support.tables.command_line import Run

__all__ = ["lock_path", "zookeeper"]

KINDS = ["filesystem", "storage", "zookeeper"]


@pytest.fixture(params=KINDS)
def address(request: pytest.FixtureRequest) -> str:
    """A lock whose holder may be slow without losing it."""
    return _address(request, 30)


@pytest.fixture(params=KINDS)
def short_address(request: pytest.FixtureRequest) -> str:
    """A lock whose holder's death is soon known."""
    return _address(request, 2)


def _address(request: pytest.FixtureRequest, lease_s: int) -> str:
    kind: str = request.param
    match kind:
        case "storage":
            return f"storage?validity-s={lease_s}&renew-interval-s=0.2"
        case "zookeeper":
            servers, path = (request.getfixturevalue(name) for name in ("zookeeper", "lock_path"))
            return f"zookeeper://{servers}{path}?session-timeout-s={lease_s}"
    return kind


def test_live_holder_is_explained_and_not_broken_by_mistake(
    hoodie: Run, table: Path, address: str
) -> None:
    at = (table, "--lock", address)
    free = hoodie("lock", "explain", *at)
    assert (free.code, free.out.splitlines()[0][-8:]) == (0, " is free")
    assert hoodie("lock", "break", *at).out == free.out
    with lock_process.Process(address, str(table), "hold", "writer a") as process:
        process.holding()
        explained = hoodie("lock", "explain", *at)
        assert explained.code == 0
        assert "owner      writer a\n" in explained.out
        assert f"process    {process.pid} on {os.uname().nodename}\n" in explained.out
        holder = hoodie("lock", "explain", *at, "--json").document["holder"]
        assert (holder["owner"], holder["pid"]) == ("writer a", process.pid)
        assert holder["liveness"] in ("alive", "may be alive")
        for insisted in ([], ["--holder", "another"]):
            refused = hoodie("lock", "break", *at, *insisted)
            assert refused.code == 10
            assert f"writer a (pid {process.pid} on " in refused.err
            assert "`hoodie lock explain` shows" in refused.err
        assert process.ask("held") == "True"
        broken = _insist(hoodie, table, address, holder["id"])
        assert broken.startswith("took the ")
        assert process.ask("held") == "False"
    assert hoodie("lock", "explain", *at).out == free.out


def test_how_long_writers_try_is_told_wherever_it_comes_from(hoodie: Run, table: Path) -> None:
    """T-L28: a wrapper that gives every client `wait_time_ms=1` is found out."""
    wait, retries, pause = (
        f"hoodie.write.lock.{name}"
        for name in ("wait_time_ms", "client.num_retries", "client.wait_time_ms_between_retry")
    )
    given = ("--set", f"{wait}=1", "--set", "hoodie.write.lock.client.wait_time_ms=7")
    shown = hoodie("lock", "explain", table, *given)
    document = hoodie("lock", "explain", table, "--json").document
    purpose = document["purpose"]
    assert purpose.startswith("keeps other engines and hoodie apart; ")
    assert shown.out.splitlines()[1:] == [
        f"purpose    {purpose}",
        f"in effect  {wait}=1",
        f"in effect  {retries}=0",
        f"in effect  {pause}=7",
    ]
    assert document["settings"] == {wait: "60000", retries: "0", pause: "5000"}


def _insist(hoodie: Run, table: Path, address: str, holder_id: str) -> str:
    """Break a lock; again where its holder renewed it between look and deed."""
    for _ in range(20):
        broken = hoodie("lock", "break", table, "--lock", address, "--holder", holder_id)
        if broken.code == 0:
            return broken.out
        assert "gave a sign of life just now" in broken.err
    raise AssertionError("its holder is faster each time")


def test_dead_holders_lock_is_broken_without_insisting(
    hoodie: Run, table: Path, short_address: str
) -> None:
    at = (table, "--lock", short_address, "--watch", "20")
    with lock_process.Process(short_address, str(table), "hold", "victim") as process:
        process.holding()
        process.kill()
        explained = hoodie("lock", "explain", *at)
        assert (explained.code, "alive" in explained.out) == (0, False)
        broken = hoodie("lock", "break", *at)
        assert (broken.code, broken.err.count("error")) == (0, 0)
    assert hoodie("lock", "explain", *at).out.splitlines()[0].endswith(" is free")


def test_lock_of_a_stopped_holder_is_left_alone_until_its_lease_ends(
    hoodie: Run, table: Path
) -> None:
    at = (table, "--lock", "storage?validity-s=5&renew-interval-s=0.5")
    with lock_process.Process(at[2], str(table), "hold", "paused") as process:
        process.holding()
        process.pause()
        assert hoodie("lock", "break", *at).code == 10
        assert hoodie("lock", "break", *at, "--watch", "20").code == 0
        process.resume()
        assert process.ask("held") == "False"


def test_file_of_apache_hudi_is_broken_only_by_its_id(hoodie: Run, table: Path) -> None:
    file = table / ".hoodie" / "lock"
    file.write_text('{"lockCreateTime":"2026-11-21 07:41:21.658","lockThreadName":"main"}')
    explained = hoodie("lock", "explain", table)
    assert "lockThreadName" in explained.out
    assert "may be alive: a writer of another kind left the file" in explained.out
    assert hoodie("lock", "break", table).code == 10
    holder = hoodie("lock", "explain", table, "--json").document["holder"]
    file.write_text("another one, meanwhile")
    assert hoodie("lock", "break", table, "--holder", holder["id"]).code == 10
    assert file.exists()
    holder = hoodie("lock", "explain", table, "--json").document["holder"]
    assert hoodie("lock", "break", table, "--holder", holder["id"]).code == 0
    assert not file.exists()


def test_wrong_requests_are_refused(hoodie: Run, table: Path) -> None:
    assert hoodie("lock", "explain", table, "--holder", "x").code == 2
    assert hoodie("lock", "open", table).code == 2
    assert hoodie("lock", "explain", table / "no").code == 22
    threads = hoodie("lock", "explain", table, "--lock", "in-process")
    assert (threads.code, "is not visible to other processes" in threads.err) == (21, True)
