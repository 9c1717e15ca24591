"""Clients of a hostile ZooKeeper: the size of its responses is limited before they are read.

The author of a LockProvider chooses the servers that the operator of the cluster connects to.
"""

import subprocess
import sys
import textwrap

import pytest

from support.operators import hostile_servers

GROWTH_MAX_MIB = 64
"""The operator's container is given 384 MiB; without a bound one answer takes 2 GiB."""

ATTACKED = textwrap.dedent(
    """
    import sys, threading, time
    from hoodie import clock, errors
    from hoodie.contract import attempt_fences
    from hoodie.transaction import fence_nodes
    from hoodie.transaction.locks import addresses, zookeeper_session
    from support.tables import peak_memory

    fence_nodes._ANSWER_S = 4.0
    node = attempt_fences.FenceNode(servers=(sys.argv[1],), path="/locks/t.fences/w")
    before, threads = peak_memory.begin(), threading.active_count()
    try:
        fence_nodes.write(
            node, attempt_fences.Fence(attempt=1, protocol_hash="h", lease=1), clock.SystemClock()
        )
    except errors.StorageError:
        pass
    else:
        sys.exit("the fence was taken for written")
    deadline = time.monotonic() + 60
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.1)
    print(peak_memory.peak_mib() - before, threading.active_count() - threads)
    """
)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(hostile_servers.announce(0x7FFF_FFF0), id="two gibibytes"),
        pytest.param(hostile_servers.announce(900 << 10), id="more than a fence is"),
        pytest.param(hostile_servers.announce(-1), id="less than nothing"),
        pytest.param(hostile_servers.chatter, id="without end"),
        pytest.param(hostile_servers.fall_silent, id="the half of an answer"),
    ],
)
def test_fence_at_a_hostile_server_costs_neither_memory_nor_threads(
    answer: hostile_servers.Answer,
) -> None:
    with hostile_servers.serving(answer) as server:
        found = subprocess.run(
            [sys.executable, "-c", ATTACKED, server],
            capture_output=True,
            text=True,
            check=False,
            env=hostile_servers.ENVIRONMENT,
        )
    assert found.returncode == 0, found.stderr
    growth_mib, threads_left = map(int, found.stdout.split())
    assert growth_mib < GROWTH_MAX_MIB
    assert threads_left == 0
