"""Fences in a real ZooKeeper: two leaders, and attempts that read what the last one wrote."""

import threading

import pytest

from hoodie import errors
from hoodie.clock import SystemClock
from hoodie.contract import attempt_fences
from hoodie.transaction import fence_nodes
from hoodie.transaction.locks.addresses import ZooKeeperAddress

CLOCK = SystemClock()


@pytest.fixture
def node(zookeeper: str, lock_path: str) -> attempt_fences.FenceNode:
    lock = ZooKeeperAddress(servers=(zookeeper,), path=lock_path)
    return fence_nodes.address(lock, lock_path, "file:///data/t", "writer.w.u1")


def _fence(attempt: int, lease: int) -> attempt_fences.Fence:
    return attempt_fences.Fence(attempt=attempt, protocol_hash="h", lease=lease)


def test_fence_is_beside_the_lock_and_never_below_it(
    node: attempt_fences.FenceNode, lock_path: str
) -> None:
    assert not node.path.startswith(f"{lock_path}/")
    assert node.path.rpartition("/")[0].rpartition("/")[0] == lock_path.rpartition("/")[0]


def test_written_fence_is_read(node: attempt_fences.FenceNode) -> None:
    assert fence_nodes.read(node, CLOCK) is None
    for fence in (_fence(1, 3), _fence(1, 3), _fence(2, 3), _fence(0, 4)):
        fence_nodes.write(node, fence, CLOCK)
        assert fence_nodes.read(node, CLOCK) == fence
    fence_nodes.remove(node, 2, 4, CLOCK)
    fence_nodes.remove(node, 2, 4, CLOCK)
    assert fence_nodes.read(node, CLOCK) is None


def test_removing_leaves_another_attempt_and_another_leader_alone(
    node: attempt_fences.FenceNode,
) -> None:
    fence_nodes.write(node, _fence(6, 2), CLOCK)
    fence_nodes.remove(node, 5, 3, CLOCK)
    with pytest.raises(errors.FencedError, match="lease 1 may not change"):
        fence_nodes.remove(node, 6, 1, CLOCK)
    assert fence_nodes.read(node, CLOCK) == _fence(6, 2)


def test_leader_of_a_lower_lease_changes_nothing(node: attempt_fences.FenceNode) -> None:
    fence_nodes.write(node, _fence(5, 2), CLOCK)
    with pytest.raises(errors.FencedError, match="lease 1 may not change"):
        fence_nodes.write(node, _fence(6, 1), CLOCK)
    assert fence_nodes.read(node, CLOCK) == _fence(5, 2)


def test_closed_fence_lets_its_attempt_commit_no_more(node: attempt_fences.FenceNode) -> None:
    fence_nodes.close(node, 5, 2, CLOCK)
    assert fence_nodes.read(node, CLOCK) is None
    fence_nodes.write(node, _fence(5, 2), CLOCK)
    fence_nodes.close(node, 5, 3, CLOCK)
    assert fence_nodes.read(node, CLOCK) == _fence(0, 3)


def test_closing_leaves_another_attempt_and_another_leader_alone(
    node: attempt_fences.FenceNode,
) -> None:
    fence_nodes.write(node, _fence(6, 2), CLOCK)
    fence_nodes.close(node, 5, 3, CLOCK)
    with pytest.raises(errors.FencedError, match="lease 1 may not change"):
        fence_nodes.close(node, 6, 1, CLOCK)
    assert fence_nodes.read(node, CLOCK) == _fence(6, 2)


def test_of_leaders_who_write_at_once_the_one_of_the_highest_lease_prevails(
    node: attempt_fences.FenceNode,
) -> None:
    outcomes: dict[int, str] = {}

    def lead(lease: int) -> None:
        while True:
            try:
                fence_nodes.write(node, _fence(lease * 10, lease), CLOCK)
            except errors.ConflictError:
                continue
            except errors.FencedError:
                outcomes[lease] = "refused"
                return
            outcomes[lease] = "written"
            return

    threads = [threading.Thread(target=lead, args=(lease,)) for lease in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes[3] == "written"
    assert fence_nodes.read(node, CLOCK) == _fence(30, 3)


def test_silent_server_is_told(tmp_path: object) -> None:
    node = attempt_fences.FenceNode(servers=("127.0.0.1:1",), path="/a.fences/b")
    impatient = _Impatient()
    with pytest.raises(errors.StorageError, match="does not answer"):
        fence_nodes.read(node, impatient)


class _Impatient(SystemClock):
    """A clock by which every wait is over soon."""

    def monotonic_s(self) -> float:
        return super().monotonic_s() * 100
