"""Attempts at an API server in memory: started after a try that was cut off, stopped."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping

import pytest

from hoodie import clock
from hoodie.contract import attempt_fences, batch_settings, job_specs
from hoodie.model import json_values
from hoodie.transaction import fence_nodes
from hoodie_operator.api import resources
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster.adapters import names
from hoodie_operator.cluster.adapters.fences import Fences
from hoodie_operator.cluster.adapters.runs import JobRuns
from hoodie_operator.cluster.client import api, api_errors
from hoodie_operator.cluster.control import ports
from hoodie_operator.manifests import observed
from hoodie_operator.manifests import runs as manifests
from hoodie_operator.reconcile import effects
from hoodie_operator.reconcile import runs as decided_runs
from support.operators import attempts_world
from support.operators.api_server import ApiServer
from support.operators.attempts_world import TOLD, Attempt

CLOCK = clock.SystemClock()


@pytest.fixture
def attempt() -> Attempt:
    return attempts_world.attempt()


def use(server: ApiServer, scenario: Callable[[JobRuns], Awaitable[None]]) -> None:
    async def run(client: api.Api) -> None:
        system = clock.SystemClock()
        # The lock is a file: fences are records in the table, which runs write themselves.
        runs = JobRuns(client, Fences(lambda: 1, system), TOLD, system)
        try:
            await scenario(runs)
        finally:
            await runs.close()

    server.use(run)


def spec_of(server: ApiServer) -> job_specs.JobSpec:
    """Return what was told last."""
    *_, found = server.of("configmaps")
    return job_specs.decode_spec(found["data"][manifests.SPEC].encode(), "spec")


def test_attempt_whose_table_was_edited_since_a_refused_try_has_the_new_spec(
    attempt: Attempt,
) -> None:
    server = ApiServer()

    async def scenario(runs: JobRuns) -> None:
        server.refused = lambda method, path: method == "POST" and "/jobs/" in path
        with pytest.raises(api_errors.ForbiddenError):
            await runs.start(attempt.start, attempt.owner, attempt.table)
        assert spec_of(server).protocol_hash == attempt.start.table.protocol_hash
        server.refused = lambda method, path: False
        edited = attempt.of_edited_table()
        (job,) = await runs.start(edited.start, edited.owner, edited.table)
        assert job["metadata"]["annotations"]["hudi.dev/protocol-hash"] == "edited"
        assert spec_of(server).protocol_hash == "edited"
        (job,) = server.of("jobs")
        # What the refused try was to be told is nobody's any more.
        (told,) = server.of("configmaps")
        assert manifests.told_by(job) == told["metadata"]["name"]

    use(server, scenario)


def test_what_a_refused_try_left_goes_with_the_attempt_at_the_latest(attempt: Attempt) -> None:
    """The Job is made by a try whose answer was lost, and found by the watch."""
    server = ApiServer()

    async def scenario(runs: JobRuns) -> None:
        server.refused = lambda method, path: method == "POST" and "/jobs/" in path
        for each in (attempt, attempt.of_edited_table()):
            with pytest.raises(api_errors.ForbiddenError):
                await runs.start(each.start, each.owner, each.table)
        made = manifests.Attempt(
            start=attempt.start, owner=attempt.owner, table=attempt.table, told=TOLD
        )
        assert len(server.of("configmaps")) == 2
        of = ports.RunOwner(found=attempt.owner, table=attempt.start.table)
        job = manifests.job(made)
        job["metadata"]["uid"] = "of-the-job"
        await runs.forget(attempt.start.id, of, job)
        assert not server.of("configmaps")

    use(server, scenario)


def test_attempt_is_started_though_what_a_refused_try_left_cannot_be_removed(
    attempt: Attempt,
) -> None:
    server = ApiServer()

    async def scenario(runs: JobRuns) -> None:
        server.refused = lambda method, path: method == "POST" and "/jobs/" in path
        with pytest.raises(api_errors.ForbiddenError):
            await runs.start(attempt.start, attempt.owner, attempt.table)
        server.refused = lambda method, path: method == "DELETE"
        edited = attempt.of_edited_table()
        (job,) = await runs.start(edited.start, edited.owner, edited.table)
        assert server.of("jobs") == [job]

    use(server, scenario)


def test_config_map_that_somebody_put_there_first_tells_no_run_what_to_do(
    attempt: Attempt,
) -> None:
    server = ApiServer()

    async def scenario(runs: JobRuns) -> None:
        made = manifests.Attempt(
            start=attempt.start, owner=attempt.owner, table=attempt.table, told=TOLD
        )
        forged = manifests.config_map(made)
        forged["data"] = {manifests.SPEC: "{}"}
        namespace, name = forged["metadata"]["namespace"], forged["metadata"]["name"]
        server.objects[resources.CONFIG_MAP.path(namespace, name)] = forged
        await runs.start(attempt.start, attempt.owner, attempt.table)
        assert spec_of(server) == manifests.job_spec(made)

    use(server, scenario)


class Slow(api.Api):
    """An API server that the network delivers some changes to late, if at all.

    Attributes:
        first: Made just before the next Job.
        lost: How many resumptions are not answered.
        is_done: Whether those were done all the same.
    """

    first: Manifest | None = None
    lost = 0
    is_done = False

    async def create(self, manifest: Manifest) -> Manifest:
        if self.first is not None and manifest["kind"] == "Job":
            first, self.first = self.first, None
            await super().create(first)
        return await super().create(manifest)

    async def merge_patch(
        self, resource: resources.Resource, namespace: str, name: str, patch: Mapping[str, object]
    ) -> Manifest:
        if not self.lost:
            return await super().merge_patch(resource, namespace, name, patch)
        self.lost -= 1
        if self.is_done:
            await super().merge_patch(resource, namespace, name, patch)
        raise api_errors.UnavailableError("no answer")


@dataclasses.dataclass
class Network:
    """Attempts over an API server that changes may reach late."""

    server: ApiServer
    slow: Slow
    runs: JobRuns

    @property
    def job(self) -> Manifest:
        """The only Job that there is."""
        (found,) = self.server.of("jobs")
        return found


def over_network(scenario: Callable[[Network], Awaitable[None]]) -> None:
    server = ApiServer()

    async def run(client: api.Api) -> None:
        slow = Slow(client.login)
        runs = JobRuns(slow, Fences(lambda: 1, CLOCK), TOLD, CLOCK)
        try:
            await scenario(Network(server, slow, runs))
        finally:
            await slow.close()
            await runs.close()

    server.use(run)


def path_of(job: Manifest) -> str:
    return resources.JOB.path(job["metadata"]["namespace"], job["metadata"]["name"])


def unstarted(attempt: Attempt) -> Manifest:
    """Return the Job of an attempt as it is made."""
    made = manifests.Attempt(
        start=attempt.start, owner=attempt.owner, table=attempt.table, told=TOLD
    )
    return manifests.job(made)


def test_job_is_made_suspended_and_then_resumed(attempt: Attempt) -> None:
    async def scenario(network: Network) -> None:
        (job,) = await network.runs.start(attempt.start, attempt.owner, attempt.table)
        assert job == network.job
        assert not job["spec"]["suspend"]
        assert observed.is_started(job)

    over_network(scenario)


def test_job_that_is_made_late_gives_way_to_that_of_the_next_decision(attempt: Attempt) -> None:
    async def scenario(network: Network) -> None:
        late = await network.slow.create(unstarted(attempt))
        edited = attempt.of_edited_table()
        (job,) = await network.runs.start(edited.start, edited.owner, edited.table)
        assert job["metadata"]["uid"] != late["metadata"]["uid"]
        assert job == network.job
        # Of what the one and the other were told the one that counts is left.
        (told,) = network.server.of("configmaps")
        assert told["metadata"]["name"] == manifests.told_by(job)
        assert spec_of(network.server).protocol_hash == "edited"

    over_network(scenario)


def test_job_that_is_made_late_while_another_is_made_gives_way(attempt: Attempt) -> None:
    async def scenario(network: Network) -> None:
        network.slow.first = unstarted(attempt)
        edited = attempt.of_edited_table()
        (job,) = await network.runs.start(edited.start, edited.owner, edited.table)
        assert job == network.job
        assert job["metadata"]["annotations"]["hudi.dev/protocol-hash"] == "edited"

    over_network(scenario)


def test_job_that_was_withdrawn_cannot_be_resumed(attempt: Attempt) -> None:
    async def scenario(network: Network) -> None:
        job = await network.slow.create(unstarted(attempt))
        assert await network.runs.withdraw(job) is None
        again = await network.slow.create(unstarted(attempt))
        metadata = job["metadata"]
        with pytest.raises(api_errors.ConflictError):
            await network.slow.merge_patch(
                resources.JOB,
                metadata["namespace"],
                metadata["name"],
                manifests.start_request(job, 1),
            )
        assert network.job == again
        # Twice is once.
        assert await network.runs.withdraw(job) is None
        assert network.job == again

    over_network(scenario)


def test_job_that_its_controller_changes_meanwhile_is_withdrawn(attempt: Attempt) -> None:
    async def scenario(network: Network) -> None:
        job = await network.slow.create(unstarted(attempt))
        path = path_of(job)
        changes = iter(range(3))

        def change(method: str, _: str) -> None:
            if method == "DELETE" and next(changes, None) is not None:
                network.server.change(path)

        network.server.heard = change
        assert await network.runs.withdraw(job) is None
        assert not network.server.of("jobs")

    over_network(scenario)


def test_job_that_is_resumed_while_it_is_withdrawn_stays(attempt: Attempt) -> None:
    async def scenario(network: Network) -> None:
        job = await network.slow.create(unstarted(attempt))
        path = path_of(job)
        request = manifests.start_request(job, 1)

        def resume(method: str, _: str) -> None:
            if method == "DELETE":
                network.server.change(path, request)

        network.server.heard = resume
        found = await network.runs.withdraw(job)
        assert found == network.job
        assert observed.is_started(found)

    over_network(scenario)


@pytest.mark.parametrize("is_done", [True, False])
def test_resumption_without_an_answer_is_done_or_never_will_be(
    attempt: Attempt, *, is_done: bool
) -> None:
    async def scenario(network: Network) -> None:
        network.slow.lost, network.slow.is_done = 1, is_done
        if is_done:
            (job,) = await network.runs.start(attempt.start, attempt.owner, attempt.table)
            assert job == network.job
            return
        with pytest.raises(api_errors.UnavailableError):
            await network.runs.start(attempt.start, attempt.owner, attempt.table)
        assert not network.server.of("jobs")

    over_network(scenario)


class Noted(Fences):
    """Notes which fences are changed, and talks with nobody."""

    def __init__(self) -> None:
        super().__init__(lambda: 1, CLOCK)
        self.closed: list[tuple[attempt_fences.FenceNode, int]] = []
        self.forgotten: list[tuple[attempt_fences.FenceNode, int]] = []

    async def admit(
        self, namespace: str, node: attempt_fences.FenceNode, attempt: int, protocol_hash: str
    ) -> None:
        del node, attempt, protocol_hash

    async def close(self, namespace: str, node: attempt_fences.FenceNode, attempt: int) -> None:
        del namespace
        self.closed.append((node, attempt))

    async def forget(self, namespace: str, node: attempt_fences.FenceNode, attempt: int) -> None:
        self.forgotten.append((node, attempt))


LOCK = "zookeeper://zk:2181/hudi/flights"


def locked(attempt: Attempt, lock: str = LOCK) -> Attempt:
    """Return an attempt with a lock in a ZooKeeper."""
    table = dataclasses.replace(attempt.start.table, lock=lock)
    number = decided_runs.fence_number(attempt.owner, attempt.start.id.attempt)
    start = dataclasses.replace(attempt.start, table=table, fence_number=number)
    return dataclasses.replace(attempt, start=start)


@pytest.mark.parametrize("is_new_leader", [True, False])
def test_fence_is_where_the_table_says_whatever_a_job_says(
    attempt: Attempt, *, is_new_leader: bool
) -> None:
    server = ApiServer()
    attempt = locked(attempt)
    node = attempt_fences.FenceNode(servers=("evil:2181",), path="/a.fences/b")
    elsewhere = json_values.encode(node).decode()

    async def scenario(client: api.Api) -> None:
        fences = Noted()
        runs = JobRuns(client, fences, TOLD, CLOCK)
        (job,) = await runs.start(attempt.start, attempt.owner, attempt.table)
        job["metadata"]["annotations"] |= {
            "hudi.dev/fence": elsewhere,
            "hudi.dev/fence-number": "7",
        }
        if is_new_leader:
            runs = JobRuns(client, fences, TOLD, CLOCK)
        stop = effects.StopRun(id=attempt.start.id, is_killed=False, reason="suspended")
        of = ports.RunOwner(found=attempt.owner, table=attempt.start.table)
        await runs.stop(stop, of, job, ())
        await runs.forget(attempt.start.id, of, job)
        true = (manifests.fence(attempt.start), attempt.start.fence_number)
        assert fences.closed == [true]
        assert fences.forgotten == [true]

    server.use(scenario)


@pytest.mark.parametrize("now", ["zookeeper://moved:2181/hudi/flights", None])
def test_who_started_an_attempt_knows_its_fence_though_the_lock_was_moved_since(
    attempt: Attempt, now: str | None
) -> None:
    server = ApiServer()
    attempt = locked(attempt)

    async def scenario(client: api.Api) -> None:
        fences = Noted()
        runs = JobRuns(client, fences, TOLD, CLOCK)
        (job,) = await runs.start(attempt.start, attempt.owner, attempt.table)
        table = None if now is None else locked(attempt, now).start.table
        of = ports.RunOwner(found=attempt.owner, table=table)
        stop = effects.StopRun(id=attempt.start.id, is_killed=False, reason="its lock was moved")
        await runs.stop(stop, of, job, ())
        assert [each for each, _ in fences.closed] == [manifests.fence(attempt.start)]

    server.use(scenario)


def test_changed_batch_settings_reach_a_run_by_a_config_map_that_goes_with_it(
    attempt: Attempt,
) -> None:
    server = ApiServer()

    async def scenario(runs: JobRuns) -> None:
        (job,) = await runs.start(attempt.start, attempt.owner, attempt.table)
        assert len(server.of("configmaps")) == 1
        for digest in ("1-a", "1-b"):
            settings = batch_settings.BatchSettings(hash=digest)
            given = effects.GiveBatchSettings(id=attempt.start.id, settings=settings)
            job = await runs.give_batch_settings(given, attempt.owner, job)
            found = runs.read(job, [], None, 0)
            assert found is not None
            assert found.batch_settings_hash == digest
        *_, told = server.of("configmaps")
        content = told["data"][manifests.BATCH_SETTINGS].encode()
        assert batch_settings.decode(content, "map").hash == "1-b"
        (mounted,) = [
            each["configMap"]
            for each in job["spec"]["template"]["spec"]["volumes"]
            if "configMap" in each and each["configMap"].get("optional")
        ]
        assert mounted["name"] == told["metadata"]["name"]
        of = ports.RunOwner(found=attempt.owner, table=attempt.start.table)
        await runs.forget(attempt.start.id, of, job)
        assert not server.objects

    use(server, scenario)


def test_forgotten_attempt_takes_only_what_tells_it_what_to_do(attempt: Attempt) -> None:
    server = ApiServer()
    other = resources.CONFIG_MAP.path("default", "kube-root-ca.crt")

    async def scenario(runs: JobRuns) -> None:
        (job,) = await runs.start(attempt.start, attempt.owner, attempt.table)
        server.objects[other] = {"metadata": {"name": "kube-root-ca.crt", "uid": "u"}}
        volumes = job["spec"]["template"]["spec"]["volumes"]
        volumes.insert(0, {"name": "forged", "configMap": {"name": "kube-root-ca.crt"}})
        of = ports.RunOwner(found=attempt.owner, table=attempt.start.table)
        await runs.forget(attempt.start.id, of, job)
        assert list(server.objects) == [other]

    use(server, scenario)


def test_fence_is_not_changed_without_the_lease() -> None:
    node = attempt_fences.FenceNode(servers=("127.0.0.1:1",), path="/a.fences/b")
    fences = Fences(lambda: 1, CLOCK, lambda: False)
    for change in (
        fences.admit("n", node, 1, "h"),
        fences.close("n", node, 1),
        fences.forget("n", node, 1),
    ):
        with pytest.raises(api_errors.NotLeadingError, match="not held for certain"):
            asyncio.run(change)


def test_fence_is_written_by_the_number_that_the_lease_has_by_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody has deleted the Lease, and this leader has made it anew."""
    written: list[int] = []

    def write(node: attempt_fences.FenceNode, fence: attempt_fences.Fence, waiting: object) -> None:
        written.append(fence.lease)

    monkeypatch.setattr(fence_nodes, "write", write)
    node = attempt_fences.FenceNode(servers=("192.0.2.7:2181",), path="/a.fences/b")
    lease = [4]
    fences = Fences(lambda: lease[-1], CLOCK, found=names.Names(("192.0.2.7",)))
    asyncio.run(fences.admit("n", node, 1, "h"))
    lease.append(9)
    asyncio.run(fences.admit("n", node, 2, "h"))
    assert written == [4, 9]
