"""What is known of the cluster: our objects as types, the attempts of runs as Jobs and Pods.

Fed by the watch, by listings and by the answers to what we did ourselves, in any order: of each
object the newest version counts, and one that is gone never comes back, since its uid does not.
"""

import dataclasses
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from hoodie import clock, errors
from hoodie.contract import job_results
from hoodie_operator.api import documents, kinds, objects, resources, shared_parts
from hoodie_operator.api.resources import Manifest, Resource
from hoodie_operator.manifests import naming, observed, ownership
from hoodie_operator.reconcile import catalog, effective, effects, facts, observed_times

_GONE_MAX: Final = 100_000


class ReadRun(Protocol):
    """See `ports.Runs.read`."""

    def __call__(
        self,
        job: Manifest | None,
        pods: Sequence[Manifest],
        progress: job_results.JobProgress | None,
        now_ms: int,
    ) -> facts.Run | None:
        """Return what a Job and its Pods mean."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What an object's metadata tells beside what decisions see.

    Attributes:
        uid: Of the object.
        version: Its resource version.
        finalizers: What keeps it from going.
        problem: Why its content cannot be read; None when it can.
        generation: Counts changes of the spec.
        raw_status: As it stands, of an object that cannot be read.
    """

    uid: str
    version: int
    finalizers: Sequence[str]
    problem: str | None = None
    generation: int = 0
    raw_status: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of a run.

    Attributes:
        id: Which.
        job: Its Job; None before it is there, and when it is gone.
        candidates: The Pods that name a parent as its own do, by uid.
        pods: Those of them that are its own, see `ownership.pods_of`.
        progress: What it told last.
        unreached: Where the network was in the way of asking it, and how; empty where it was not.
        started: The mark that it is being started; None once its Job was seen to be.
    """

    id: facts.RunId
    job: Manifest | None = None
    candidates: Mapping[str, Manifest] = field(default_factory=dict)
    pods: Sequence[Manifest] = ()
    progress: job_results.JobProgress | None = None
    unreached: str = ""
    started: facts.Run | None = None


_Place = tuple[Resource, str, str]


class Store:
    """Everything known, by what it is asked for. Every change tells which objects it is about."""

    def __init__(self, locate: catalog.Locate, read_run: ReadRun, our_clock: clock.Clock) -> None:
        """Hold nothing yet.

        Args:
            locate: Tells where a table is.
            read_run: Tells what a Job and its Pods mean.
            our_clock: The operator's.
        """
        self.by_key = catalog.Catalog(locate, identify=effective.spot)
        self.stored: dict[objects.ObjectKey, Stored] = {}
        self._statuses = observed_times.ObservedStatuses()
        self._read_run = read_run
        self._clock = our_clock
        self._attempts: dict[str, dict[facts.RunId, Attempt]] = {}
        self._at_work: dict[facts.RunId, facts.Run] = {}
        self._runs: dict[str, list[facts.Run]] = {}
        self._versions: dict[_Place, tuple[str, int]] = {}
        self._run_ids: dict[str, facts.RunId] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()

    @property
    def runs(self) -> Mapping[str, Sequence[facts.Run]]:
        """All runs by the uid of their owner."""
        return self._runs

    @property
    def runs_at_work(self) -> Collection[facts.Run]:
        """Those that have not ended."""
        return self._at_work.values()

    @property
    def waits(self) -> Mapping[str, facts.Waits]:
        """What statuses tell to be waited for, by the uid of their object."""
        return self._statuses.waits

    def take(self, manifest: Manifest) -> set[objects.ObjectKey]:
        """Hold a version of an object, unless a newer one is held.

        Returns:
            What changed by it; empty when nothing did.
        """
        if not self.is_news(manifest):
            return set()
        metadata = manifest["metadata"]
        resource = resources.of(manifest)
        place = (resource, metadata["namespace"], metadata["name"])
        uid, version = metadata["uid"], resources.version_of(manifest)
        held_uid, _ = self._versions.get(place, ("", -1))
        changed = set()
        if held_uid not in ("", uid):
            changed |= self.drop(resource, place[1], place[2], held_uid)
        self._versions[place] = (uid, version)
        return changed | self._put(resource, manifest)

    def drop(
        self, resource: Resource, namespace: str, name: str, uid: str
    ) -> set[objects.ObjectKey]:
        """Hold an object no longer, for good.

        Returns:
            What changed by it; empty when it was not held.
        """
        self._gone[uid] = None
        if len(self._gone) > _GONE_MAX:
            self._gone.popitem(last=False)
        place = (resource, namespace, name)
        if self._versions.get(place, ("", 0))[0] != uid:
            return set()
        del self._versions[place]
        if resource in (resources.JOB, resources.POD):
            return self._drop_part(resource, uid)
        key = objects.ObjectKey(kind=resource.kind, namespace=namespace, name=name)
        self.by_key.remove(key)
        self.stored.pop(key, None)
        self._statuses.forget(uid)
        return {key}

    def drop_unlisted(
        self,
        resource: Resource,
        listed: Collection[str],
        version: int,
        namespace: str | None = None,
    ) -> set[objects.ObjectKey]:
        """Hold no longer what a listing has not: a watch that was cut may have missed its end.

        Args:
            resource: What was listed.
            listed: The uids that it has.
            version: The listing's.
            namespace: Where; None for all namespaces.

        Returns:
            What changed by it.
        """
        changed: set[objects.ObjectKey] = set()
        for place, (uid, held_version) in list(self._versions.items()):
            is_there = place[0] == resource and namespace in (None, place[1])
            # What is newer than the listing was made by us since.
            if is_there and uid not in listed and held_version <= version:
                changed |= self.drop(*place, uid)
        return changed

    def is_news(self, manifest: Manifest) -> bool:
        """Return whether a version of an object is newer than what is known of it."""
        metadata = manifest["metadata"]
        place = (resources.of(manifest), metadata["namespace"], metadata["name"])
        _, held_version = self._versions.get(place, ("", -1))
        return metadata["uid"] not in self._gone and resources.version_of(manifest) > held_version

    def is_gone(self, uid: str) -> bool:
        """Return whether an object of that uid was held once and is gone."""
        return uid in self._gone

    def attempt(self, run: facts.RunId) -> Attempt | None:
        """Return what is held of an attempt."""
        return self._attempts.get(run.uid, {}).get(run)

    def attempts(self) -> Iterator[Attempt]:
        """Yield all attempts."""
        for numbered in self._attempts.values():
            yield from numbered.values()

    def attempts_at_work(self) -> list[Attempt]:
        """Return the attempts that have not ended."""
        return [self._attempts[run.uid][run] for run in self._at_work]

    def unstarted_jobs(self) -> list[Manifest]:
        """Return the Jobs that were made and not started."""
        found = [attempt.job for attempt in self.attempts() if attempt.job is not None]
        return [job for job in found if not observed.is_started(job)]

    def ends_without_pod(self, uid: str) -> list[facts.RunId]:
        """Return the attempts of an object that have ended, and of which no driver was seen.

        Its pod tells how an attempt ended: it is yet to come, or gone.
        """
        runs = self._runs.get(uid, ())
        return [run.id for run in runs if not run.is_running and not run.process]

    def mark_started(self, start: effects.StartRun) -> None:
        """Know of an attempt before its Job has started: nothing may start beside it."""
        run = facts.Run(
            id=start.id,
            protocol_hash=start.table.protocol_hash,
            run_hash=start.run_hash,
            started_ms=self._clock.now_ms(),
        )
        before = self._attempt(start.id)
        self._hold(dataclasses.replace(before, started=run))

    def unmark_started(self, run: facts.RunId) -> None:
        """Know that an attempt was not started after all."""
        before = self.attempt(run)
        if before is not None:
            self._hold(dataclasses.replace(before, started=None))

    def note_progress(
        self, run: facts.RunId, told: job_results.JobProgress | str
    ) -> set[objects.ObjectKey]:
        """Hold what an attempt tells of itself, or why the network kept it from being asked.

        Returns:
            What changed by it.
        """
        before = self.attempt(run)
        if before is None:
            return set()
        if isinstance(told, str):
            after = dataclasses.replace(before, unreached=told)
        else:
            after = dataclasses.replace(before, progress=told, unreached="")
        return set() if after == before else self._hold(after)

    def reread(self, run: facts.RunId) -> set[objects.ObjectKey]:
        """Find out what an attempt's Job and Pods mean by now."""
        before = self.attempt(run)
        return set() if before is None else self._hold(before)

    def _put(self, resource: Resource, manifest: Manifest) -> set[objects.ObjectKey]:
        manifest["metadata"].pop("managedFields", None)
        if resource in (resources.JOB, resources.POD):
            return self._put_part(resource, manifest)
        return self._put_object(manifest)

    def _put_object(self, manifest: Manifest) -> set[objects.ObjectKey]:
        metadata = manifest["metadata"]
        key = objects.ObjectKey(
            kind=manifest["kind"], namespace=metadata["namespace"], name=metadata["name"]
        )
        problem = None
        try:
            found = documents.from_document(manifest)
        except errors.FormatError as error:
            problem = str(error)
            self.by_key.remove(key)
        else:
            before = self.by_key.get(key)
            if before is not None and before.spec == found.spec:
                spec = before.spec
            else:
                spec = shared_parts.with_shared_parts(found.spec)
            status = shared_parts.with_shared_services(found.status)
            found = dataclasses.replace(found, spec=spec, status=status)
            self.by_key.put(found)
            self._statuses.hear(found, clock.monotonic_ms(self._clock))
        self.stored[key] = Stored(
            uid=metadata["uid"],
            version=resources.version_of(manifest),
            finalizers=tuple(metadata.get("finalizers") or ()),
            problem=problem,
            generation=metadata["generation"],
            raw_status=manifest.get("status") or {} if problem else {},
        )
        return {key}

    def _put_part(self, resource: Resource, manifest: Manifest) -> set[objects.ObjectKey]:
        is_job = resource == resources.JOB
        run = ownership.attempt_of_job(manifest) if is_job else ownership.attempt_of_pod(manifest)
        if run is None or run.kind not in kinds.BY_NAME:
            # Of an observer, or a lock server; or labelled by somebody else.
            return self._forget_part(resource, manifest)
        uid = manifest["metadata"]["uid"]
        self._run_ids[uid] = run
        before = self._attempt(run)
        kept = observed.kept(manifest)
        if is_job:
            mark = None if observed.is_started(kept) else before.started
            return self._hold(dataclasses.replace(before, job=kept, started=mark))
        candidates = {**before.candidates, uid: kept}
        return self._hold(dataclasses.replace(before, candidates=candidates))

    def _forget_part(self, resource: Resource, manifest: Manifest) -> set[objects.ObjectKey]:
        """Know that a Job or Pod is no attempt's; if it once was, it is not any more."""
        changed = self._drop_part(resource, manifest["metadata"]["uid"])
        named = naming.run_id(manifest)
        # Pods that were taken for an attempt's before their Job was known are none, either.
        return changed if named is None else changed | self.reread(named)

    def _drop_part(self, resource: Resource, uid: str) -> set[objects.ObjectKey]:
        run = self._run_ids.pop(uid, None)
        before = None if run is None else self.attempt(run)
        if before is None:
            return set()
        if resource == resources.JOB:
            return self._hold(dataclasses.replace(before, job=None))
        candidates = {key: pod for key, pod in before.candidates.items() if key != uid}
        return self._hold(dataclasses.replace(before, candidates=candidates))

    def _attempt(self, run: facts.RunId) -> Attempt:
        """Return what is held of an attempt, which may be new."""
        return self.attempt(run) or Attempt(id=run)

    def _hold(self, attempt: Attempt) -> set[objects.ObjectKey]:
        """Hold an attempt, and what it means."""
        uid = attempt.id.uid
        pods = ownership.pods_of(attempt.candidates, self._foreign_job(attempt))
        attempt = dataclasses.replace(attempt, pods=pods)
        numbered = self._attempts.setdefault(uid, {})
        numbered[attempt.id] = attempt
        read = self._read(attempt)
        before = next((run for run in self._runs.get(uid, []) if run.id == attempt.id), None)
        if before is not None and read is not None and not (before.is_running or read.is_running):
            read = _ended(before, read)
        if read is not None:
            read = observed_times.stamp_run(before, read, clock.monotonic_ms(self._clock))
        if read is not None and read.is_running:
            self._at_work[attempt.id] = read
        else:
            self._at_work.pop(attempt.id, None)
        if read is None and attempt.job is None and not attempt.candidates:
            del numbered[attempt.id]
        if not numbered:
            del self._attempts[uid]
        others = [run for run in self._runs.get(uid, []) if run.id != attempt.id]
        runs = others if read is None else sorted([*others, read], key=lambda run: run.id.attempt)
        changed = runs != self._runs.get(uid, [])
        if runs:
            self._runs[uid] = runs
        else:
            self._runs.pop(uid, None)
        return {attempt.id.owner} if changed else set()

    def _read(self, attempt: Attempt) -> facts.Run | None:
        if attempt.job is None and not attempt.pods:
            return attempt.started
        read = self._read_run(attempt.job, attempt.pods, attempt.progress, self._clock.now_ms())
        if read is None:
            return attempt.started
        return dataclasses.replace(read, unreached=attempt.unreached) if read.is_running else read

    def _foreign_job(self, attempt: Attempt) -> str | None:
        """Return the uid of a Job that has an attempt's name, and is not the attempt."""
        place = (resources.JOB, attempt.id.namespace, naming.run(attempt.id))
        uid, _ = self._versions.get(place, (None, 0))
        return uid if attempt.job is None else None


def _ended(before: facts.Run, read: facts.Run) -> facts.Run:
    """Return what is to be known of an attempt that has ended, and is read again.

    What has ended does not change: neither when that was seen, nor what it told. But before its pod
    was seen it has told nothing: a Job may come to us long before its pod does.
    """
    if before.process or not read.process:
        return before
    return dataclasses.replace(read, ended_ms=before.ended_ms)
