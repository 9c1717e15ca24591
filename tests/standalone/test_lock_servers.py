"""Whether a lock provider answers, as the standalone operator finds out."""

import socket
from pathlib import Path

import pytest

from hoodie.clock import SystemClock
from hoodie_operator.api import kinds
from hoodie_operator.reconcile import facts
from hoodie_operator.standalone.lock_servers import LockServers
from support.operators import rule_examples
from support.operators.operator_world import Outside
from support.operators.rule_examples import Spec


def _look(state: Path, spec: Spec) -> facts.LockFacts:
    here = Outside()
    key = here.add(kinds.LOCK_PROVIDER, "lock", dict(spec))
    return LockServers(state, SystemClock()).look(here.by_key[key], None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"type": "Storage"}, "a lease in the storage of each table"),
        (
            {"type": "DynamoDB", "dynamodb": rule_examples.DYNAMODB},
            "a lease in a table of DynamoDB",
        ),
        ({"type": "FileSystem"}, "a lock file beside each table"),
    ],
)
def test_lock_without_a_server_of_its_own_is_ready(
    tmp_path: Path, spec: Spec, message: str
) -> None:
    seen = _look(tmp_path, spec)
    assert (seen.is_ready, seen.servers, seen.message) == (True, (), message)


def test_metastore_is_connected_to(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = f"127.0.0.1:{listening.getsockname()[1]}"
        block = {"servers": [server], "database": "lake"}
        spec: Spec = {"type": "HiveMetastore", "hiveMetastore": block}
        seen = _look(tmp_path, spec)
        assert (seen.is_ready, seen.servers, seen.message) == (True, (server,), "1 of 1 answer")
    seen = _look(tmp_path, spec)
    assert not seen.is_ready
    assert seen.message == f"{server} does not answer, expected a Hive Metastore"
