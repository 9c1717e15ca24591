"""Observers that are the operator's enemies: what they answer is bounded before it is understood.

An observer is a pod of a tenant's namespace, as its table's account, with its volumes.
"""

import functools
import subprocess
import sys

import pytest

from support.operators import attacked_observers, hostile_servers

GROWTH_MAX_MIB = 64


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        pytest.param(hostile_servers.many_values, (), id="many values"),
        pytest.param(hostile_servers.long_texts, (), id="wide texts"),
        pytest.param(hostile_servers.packed, ("Content-Encoding: gzip",), id="packed"),
        pytest.param(
            functools.partial(hostile_servers.one_table, 40_000), (), id="much to remember"
        ),
    ],
)
def test_operator_asks_hostile_observers_of_many_tables_within_bounded_memory(
    body: hostile_servers.Body, headers: tuple[str, ...]
) -> None:
    answer = hostile_servers.http(body, "Connection: close", *headers)
    with hostile_servers.serving(answer) as server:
        found = subprocess.run(
            [sys.executable, attacked_observers.__file__, f"http://{server}", "20"],
            capture_output=True,
            text=True,
            check=False,
            env=hostile_servers.ENVIRONMENT,
        )
    assert found.returncode == 0, found.stderr
    growth_mib, _, problem = found.stdout.partition(" ")
    print(growth_mib, problem)
    assert int(growth_mib) < GROWTH_MAX_MIB
