"""Worlds for tests of decisions: objects from specs, facts by name, effects carried out in memory.

What runs do is up to the test; everything else follows the contract of an outside.
"""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from hoodie.contract import job_results
from hoodie.model import instants
from hoodie_operator.api import kinds, objects
from hoodie_operator.api.conditions import Type
from hoodie_operator.reconcile import (
    catalog,
    decide,
    effective,
    effects,
    facts,
    observed_times,
    world,
)
from hoodie_operator.reconcile.decide import decide as decide_about
from support.operators import rule_examples

START_MS = 1_800_000_000_000
DATA_ROOT = "file:///data"

TABLE = rule_examples.edited(
    rule_examples.TABLE,
    schema={
        "columns": [
            {"name": "id", "type": "string"},
            {"name": "a", "type": "string"},
            {"name": "b", "type": "int"},
        ]
    },
    merge={"partialUpdates": True},
    concurrency={"mode": "NonBlocking", "lockRef": {"name": "zk"}},
)
SINGLE = rule_examples.edited(
    TABLE, concurrency={"mode": "SingleWriter", "lockRef": {"name": "zk"}}
)
LOCK = {"type": "FileSystem"}


def writer_spec(**edits: object) -> rule_examples.Spec:
    """Return a Writer's spec, edited."""
    return rule_examples.edited(rule_examples.WRITER, **edits)


def limits(**edits: object) -> world.Limits:
    """Return the operator's own settings, edited."""
    plain = world.Limits(data_roots=(DATA_ROOT,))
    return dataclasses.replace(plain, **edits)  # type: ignore[arg-type]  # fields of it


class Outside:
    """An outside in memory, whose clock and runs the test moves.

    Time is told by `now_ms`; the clock of whoever leads may be elsewhere, and its monotonic time
    begins anew with it.
    """

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.clock_ahead_ms = 0
        self._began_ms = 0
        self.limits = limits()
        self.identify: catalog.Identify = lambda uri, table: uri
        self.by_key: dict[objects.ObjectKey, objects.AnyObject] = {}
        self.tables: dict[str, facts.TableFacts] = {}
        self.sources: dict[str, facts.SourceFacts] = {}
        self.locks: dict[str, facts.LockFacts] = {}
        self.runs: dict[str, list[facts.Run]] = {}
        self.refusals: dict[str, facts.Refusal] = {}
        self.started: list[effects.StartRun] = []
        self.stopped: list[effects.StopRun] = []
        self.given: list[effects.GiveBatchSettings] = []
        self._uids = 0
        self._heard: dict[facts.RunId, facts.Run] = {}
        self._waits: dict[str, facts.Waits] = {}

    def add(
        self,
        kind: kinds.Kind,
        name: str,
        spec: rule_examples.Spec,
        *,
        labels: dict[str, str] | None = None,
        owner: objects.Owner | None = None,
        namespace: str = "default",
    ) -> objects.ObjectKey:
        """Declare an object."""
        key = objects.ObjectKey(kind=kind.name, namespace=namespace, name=name)
        self._uids += 1
        self.by_key[key] = objects.Object(
            key=key,
            uid=f"{self._uids:06d}-{name}",
            generation=1,
            created_ms=START_MS + self._uids * 1000,
            labels=labels or {},
            owner=owner,
            spec=kind.spec.model_validate_json(json.dumps(spec)),
            status=kind.status(),
        )
        return key

    def edit(self, key: objects.ObjectKey, **edits: object) -> None:
        """Change an object's spec."""
        found = self.by_key[key]
        spec = found.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
        edited = rule_examples.edited(spec, **edits)
        self.by_key[key] = dataclasses.replace(
            found,
            generation=found.generation + 1,
            spec=kinds.BY_NAME[key.kind].spec.model_validate_json(json.dumps(edited)),
        )

    def delete(self, key: objects.ObjectKey) -> None:
        """Have an object go."""
        self.by_key[key] = dataclasses.replace(self.by_key[key], deletion_ms=self.now_ms)

    def uid(self, key: objects.ObjectKey) -> str:
        """Return an object's uid."""
        return self.by_key[key].uid

    def condition(self, key: objects.ObjectKey) -> tuple[str, str, str]:
        """Return an object's state, and reason and message of its Ready condition."""
        status = self.by_key[key].status
        ready = status.condition(Type.READY)
        assert ready is not None
        return status.state or "", ready.reason, ready.message

    def status(self, key: objects.ObjectKey) -> Any:  # noqa: ANN401 - a type for each kind
        """Return an object's status, of its kind."""
        return self.by_key[key].status

    def lead_anew(self, *, clock_ahead_ms: int) -> None:
        """Have another process decide from here on, which has seen and heard nothing yet.

        Args:
            clock_ahead_ms: By how much its clock is ahead of the first one's; less than 0: behind.
        """
        self.clock_ahead_ms = clock_ahead_ms
        self._began_ms = self.now_ms
        for known in (self.tables, self.sources, self.locks, self.refusals):
            known.clear()
        self._heard.clear()
        self._waits.clear()

    @property
    def wall_ms(self) -> int:
        """The clock of whoever leads."""
        return self.now_ms + self.clock_ahead_ms

    @property
    def monotonic_ms(self) -> int:
        """The monotonic time of whoever leads."""
        return self.now_ms - self._began_ms

    @property
    def world(self) -> world.World:
        """The world now."""
        for found in self.by_key.values():
            heard = observed_times.hear_status(
                self._waits.get(found.uid), found.status, self.monotonic_ms
            )
            self._waits[found.uid] = heard
        return world.World(
            now_ms=self.wall_ms,
            monotonic_ms=self.monotonic_ms,
            limits=self.limits,
            by_key=catalog.Catalog(
                effective.locator(self.limits.data_roots), self.by_key.values(), self.identify
            ),
            seen=facts.Facts(
                tables=dict(self.tables),
                sources=dict(self.sources),
                locks=dict(self.locks),
                runs={uid: [self._hear(run) for run in runs] for uid, runs in self.runs.items()},
                refusals=dict(self.refusals),
                waits=dict(self._waits),
            ),
        )

    def decide(self, key: objects.ObjectKey) -> Sequence[effects.Effect]:
        """Return what is to be done about an object."""
        return decide_about(self.world, key)

    def reconcile(self, key: objects.ObjectKey) -> Sequence[effects.Effect]:
        """Decide about an object and do it."""
        todo = self.decide(key)
        for effect in todo:
            self.carry_out(effect)
        return todo

    def settle(self) -> None:
        """Reconcile everything until nothing is to be done at this moment."""
        for _ in range(50):
            keys = sorted(self.by_key, key=lambda key: (decide.ORDER.index(key.kind), key))
            effects_count = sum(len(self.reconcile(key)) for key in keys)
            if effects_count == 0:
                return
        raise AssertionError("it does not come to rest")

    def carry_out(self, effect: effects.Effect) -> None:
        """Do what an effect asks for."""
        match effect:
            case effects.SetStatus():
                found = self.by_key[effect.key]
                assert found.uid == effect.uid
                # As a stored status comes back: what does not fit the schema must not be set.
                text = effect.status.model_dump_json(by_alias=True, exclude_none=True)
                status = kinds.BY_NAME[effect.key.kind].status.model_validate_json(text)
                assert status == effect.status
                self.by_key[effect.key] = dataclasses.replace(found, status=status)
            case effects.StartRun():
                self._start(effect)
            case effects.StopRun():
                self._stop(effect)
            case effects.GiveBatchSettings():
                self._give(effect)
            case effects.CreateObject():
                spec = effect.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
                kind = kinds.BY_NAME[effect.key.kind]
                self.add(kind, effect.key.name, spec, owner=effect.owner)
            case effects.RemoveObject():
                self._remove(effect)
            case effects.ServeLock():
                pass

    def _remove(self, effect: effects.RemoveObject) -> None:
        assert not any(run.is_running for run in self.runs.get(effect.uid, ())), "it is at work"
        assert self.by_key.pop(effect.key).uid == effect.uid
        for key, found in list(self.by_key.items()):
            if found.owner is not None and found.owner.uid == effect.uid:
                self.delete(key)

    def _start(self, effect: effects.StartRun) -> None:
        runs = self.runs.setdefault(effect.id.uid, [])
        assert effect.id not in [run.id for run in runs], "an attempt is started twice"
        assert not any(run.is_running for run in runs), "two attempts of one object at work"
        self.started.append(effect)
        run = facts.Run(
            id=effect.id,
            protocol_hash=effect.table.protocol_hash,
            run_hash=effect.run_hash,
            batch_settings_hash=effect.batch_settings_hash,
            started_ms=self.now_ms,
            process="pid 1 on test",
        )
        runs.append(self._hear(run))

    def _stop(self, effect: effects.StopRun) -> None:
        self.stopped.append(effect)
        run = self.run(effect.id.uid)
        if run.stop_requested_ms is None:
            self.put_run(
                dataclasses.replace(run, stop_requested_ms=self.now_ms, stop_reason=effect.reason)
            )
        if effect.is_killed:
            self.end(effect.id.uid)

    def _give(self, effect: effects.GiveBatchSettings) -> None:
        self.given.append(effect)
        run = self.run(effect.id.uid)
        self.put_run(dataclasses.replace(run, batch_settings_hash=effect.settings.hash))

    def run(self, uid: str) -> facts.Run:
        """Return an object's newest attempt."""
        return self.runs[uid][-1]

    def put_run(self, run: facts.Run) -> None:
        """Replace what is known of an attempt."""
        runs = self.runs[run.id.uid]
        runs[[each.id for each in runs].index(run.id)] = self._hear(run)

    def _hear(self, run: facts.Run) -> facts.Run:
        heard = observed_times.stamp_run(self._heard.get(run.id), run, self.monotonic_ms)
        self._heard[run.id] = heard
        return heard

    def progress(self, uid: str, phase: str = "writing", done: int = 0, total: int = 0) -> None:
        """Have an object's newest attempt tell of progress."""
        told = job_results.JobProgress(phase=phase, done=done, total=total, updated_ms=self.now_ms)
        self.put_run(dataclasses.replace(self.run(uid), progress=told))

    def end(
        self,
        uid: str,
        error: str | None = None,
        *,
        is_told: bool = False,
        result: job_results.JobResult | None = None,
    ) -> None:
        """End an object's newest attempt: killed, or with a result that tells success or error."""
        run = self.run(uid)
        if is_told or error is not None:
            problem = job_results.JobError(kind=error, message="as told") if error else None
            result = job_results.JobResult(attempt=run.id.attempt, error=problem)
        self.put_run(dataclasses.replace(run, ended_ms=self.wall_ms, result=result))

    def see_table(
        self,
        key: objects.ObjectKey,
        commits: Sequence[facts.Commit] = (),
        pending: Sequence[facts.Pending] = (),
        *,
        is_there: bool = True,
    ) -> None:
        """Have the observer see a table as its spec wants it."""
        table = self.world.table(key.namespace, key.name)
        assert table is not None
        config = effective.config(table)
        assert not isinstance(config, effective.Refusal)
        self.tables[table.uid] = facts.TableFacts(
            observed_ms=self.monotonic_ms,
            config=config if is_there else None,
            commits=tuple(commits),
            pending=tuple(pending),
        )

    def see_source(
        self,
        key: objects.ObjectKey,
        groups: Sequence[Sequence[str]],
        columns: Sequence[str] | None,
    ) -> None:
        """Have the observer see a writer's source."""
        found = self.by_key[key]
        self.sources[found.uid] = facts.SourceFacts(
            generation=found.generation,
            observed_ms=self.monotonic_ms,
            groups=tuple(
                tuple(facts.SourceFile(path=f"/data/{name}", token=token(name)) for name in group)
                for group in groups
            ),
            columns=tuple(columns) if columns is not None else None,
        )

    def see_lock(
        self, key: objects.ObjectKey, *, is_ready: bool = True, servers: tuple[str, ...] = ()
    ) -> None:
        """Have the observer see a lock provider."""
        found = self.by_key[key]
        self.locks[found.uid] = facts.LockFacts(
            generation=found.generation,
            is_ready=is_ready,
            servers=servers,
            message="as told",
            since_ms=self.wall_ms,
        )


def token(name: str) -> str:
    """Return the token of a test's file."""
    return f"{name}@0"


def commit(number: int, **fields: object) -> facts.Commit:
    """Return the delta commit of a number: requested and completed in its second."""
    return dataclasses.replace(
        facts.Commit(
            requested_time=time(number),
            completion_time=time(number, 500),
            action="deltacommit",
            log_bytes=100,
        ),
        **fields,  # type: ignore[arg-type]  # the caller names the fields
    )


def compaction(number: int, action_id: str | None = None) -> facts.Commit:
    """Return the completed compaction of a number."""
    return facts.Commit(
        requested_time=time(number),
        completion_time=time(number, 500),
        action="commit",
        is_compaction=True,
        action_id=action_id,
    )


def planned(number: int, **fields: object) -> facts.Pending:
    """Return the pending compaction of a number."""
    return dataclasses.replace(
        facts.Pending(requested_time=time(number), action="compaction"),
        **fields,  # type: ignore[arg-type]  # the caller names the fields
    )


def time(number: int, milliseconds: int = 0) -> instants.InstantTime:
    """Return an instant time that many seconds after the start."""
    return instants.format_time(START_MS + number * 1000 + milliseconds)
