"""What is to be done about a HudiTable: bring it into being, compare it, tell how it is.

    gates, in order: deletion, a run at work, rules, location (R14), lock, observation, existence,
    comparison

Success is read from the storage: a table is there when its properties are, and as declared when
they are equal.
"""

from collections.abc import Sequence

from hoodie import errors
from hoodie.contract import job_specs
from hoodie.model import settings, table_config
from hoodie.transaction import preconditions
from hoodie.write import compatibility
from hoodie_operator.api import hudi_table, hudi_table_status, kinds, lock_provider, objects
from hoodie_operator.api.conditions import Type
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import (
    allowances,
    comparisons,
    deletions,
    effective,
    facts,
    metadata_tables,
    mirrors,
    own_runs,
    references,
    runs,
    stuck,
    table_conditions,
    table_services,
    timelines,
)
from hoodie_operator.reconcile.effects import Effect, SetStatus
from hoodie_operator.reconcile.own_runs import Purpose
from hoodie_operator.reconcile.verdicts import (
    Verdict,
    broken_rule,
    stated,
    unreachable,
)
from hoodie_operator.reconcile.world import World

_OF_TABLES = ("version", "commits", "latest_commit", "backlog", "consumers", "mismatches")
"""Fields of the status that a table without data does not have."""


def decide(world: World, table: objects.Table) -> Sequence[Effect]:
    """Return what to do about a table, and about its services."""
    resolved = resolve(world, table)
    if table.is_deleting:
        return deletions.decide(world, table, _cleared(world, table, resolved))
    services = table_services.look(world, table)
    pending = stuck.look(world, table)
    metadata = metadata_tables.look(world, table)
    mirror = mirrors.look(world, table)
    status = _told(world, table, resolved).model_copy(
        update={
            "services": services.services,
            "stuck": pending.instants or None,
            "metadata": metadata.status,
            "mirror": mirror.status,
        }
    )
    return [
        *_decide(world, table, resolved, status),
        *services.effects,
        *pending.effects,
        *metadata.effects,
        *mirror.effects,
    ]


def _decide(
    world: World,
    table: objects.Table,
    resolved: effective.EffectiveTable | Verdict,
    status: hudi_table_status.HudiTableStatus,
) -> Sequence[Effect]:
    """Return what to do about a table itself."""
    found = own_runs.situation(world, table, Purpose.CREATION, resolved)
    if found.run is not None or not table.status.provisioned:
        status = status.model_copy(update={"runs": found.status})
    if found.run is not None:
        unwanted = f"HudiTable {table.name} is suspended" if table.spec.suspend else None
        step = own_runs.watch(world, table, found, resolved, unwanted)
        return [*step.effects, _provisioning(world, table, status, step.verdict)]
    if isinstance(resolved, Verdict):
        return [_set(table, status, resolved, world)]
    conflict = _location_conflict(world, table, resolved.uri)
    if conflict is not None:
        return [_set(table, status, conflict, world)]
    return _provide(world, table, status, resolved, found)


def resolve(world: World, table: objects.Table) -> effective.EffectiveTable | Verdict:
    """Return the table's effective configuration, or why it has none now."""
    refused = broken_rule(table) or _account_refusal(world, table) or _storage_refusal(world, table)
    if refused is not None:
        return refused
    uri = effective.location(table.spec, world.limits.data_roots)
    if isinstance(uri, effective.Refusal):
        return _stalled(uri.reason, uri.message)
    wanted = effective.config(table)
    if isinstance(wanted, effective.Refusal):
        return _stalled(wanted.reason, wanted.message)
    locked = _lock(world, table)
    if isinstance(locked, Verdict):
        return locked
    found = effective.locked(table, uri, wanted, *locked)
    if isinstance(found, effective.Refusal):
        return _stalled(found.reason, found.message)
    return found


def _cleared(
    world: World, table: objects.Table, resolved: effective.EffectiveTable | Verdict
) -> effective.EffectiveTable | Verdict:
    """Return the configuration of a table that is at its place, or why the place is not its own."""
    if isinstance(resolved, Verdict):
        return resolved
    conflict = _location_conflict(world, table, resolved.uri)
    if conflict is not None:
        return conflict
    seen = world.seen.tables.get(table.uid)
    if seen is None or seen.config is None:
        return resolved
    return comparisons.another_table(resolved, seen.config) or resolved


def _account_refusal(world: World, table: objects.Table) -> Verdict | None:
    """Return why pods may not run as whom a table names."""
    account = table.spec.storage.service_account
    allowed = world.limits.service_accounts
    if account is None or allowed is None or account in allowed:
        return None
    return _stalled(
        Reason.ACCOUNT_NOT_ALLOWED,
        f"storage.serviceAccount is {account}, expected an allowed one: "
        f"{', '.join(sorted(allowed))}",
    )


def _storage_refusal(world: World, table: objects.Table) -> Verdict | None:
    """Return why pods may not take what a table's storage names."""
    allowed = world.limits.allowed
    why = None if allowed is None else allowances.refused_storage(table.spec.storage, allowed)
    return None if why is None else _stalled(Reason.NOT_ALLOWED, why)


def _location_conflict(world: World, table: objects.Table, uri: str) -> Verdict | None:
    """Return the conflict with another table at, below or above the location (R14), or None.

    A table that exists has precedence over one that does not, then the older one. A table that was
    refused or cannot be created blocks no location. The message names no table of another
    namespace.
    """
    others = [
        other
        for other in world.tables_overlapping(table)
        if other.uid != table.uid and _goes_before(world, other, table)
    ]
    if not others:
        return None
    oldest = min(others, key=lambda other: other.seniority)
    who = "a HudiTable of another namespace"
    if oldest.key.namespace == table.key.namespace:
        found = effective.location(oldest.spec, world.limits.data_roots)
        who = f"HudiTable {oldest.name} at {found}"
    return _stalled(
        Reason.LOCATION_CONFLICT,
        f"{uri} overlaps with {who}; expected a location of its own",
    )


def _goes_before(world: World, other: objects.Table, table: objects.Table) -> bool:
    is_there = _is_begun(world, table)
    if _is_begun(world, other):
        return not is_there or other.seniority <= table.seniority
    return not is_there and other.seniority <= table.seniority and _can_begin(world, other)


def _is_begun(world: World, table: objects.Table) -> bool:
    """Return whether a table exists or is being created."""
    runs_told = table.status.runs
    is_tried = runs_told is not None and runs_told.attempts > 0
    return (
        table.status.provisioned
        or world.has_run_at_work(table)
        or (is_tried and not table.status.is_true(Type.STALLED))
    )


def _can_begin(world: World, table: objects.Table) -> bool:
    """Return whether nothing prevents the creation of a table."""
    seen = world.seen.tables.get(table.uid)
    return (
        not (table.is_deleting or table.spec.suspend or table.status.is_true(Type.STALLED))
        and seen is not None
        and seen.problem is None
        and isinstance(resolve(world, table), effective.EffectiveTable)
    )


def _lock(
    world: World, table: objects.Table
) -> tuple[lock_provider.LockProviderSpec | None, Sequence[str]] | Verdict:
    reference = table.spec.concurrency.lock_ref
    if reference is None:
        return None, ()
    lock = world.lock(table.key.namespace, reference.name)
    if lock is None:
        return references.missing(world, table, kinds.LOCK_PROVIDER, reference.name)
    is_in_process = lock.spec.type is lock_provider.LockType.IN_PROCESS
    if is_in_process and (table.spec.takes_many_writers or table.spec.concurrency.external_writers):
        return _stalled(
            Reason.LOCK_NOT_SHARED,
            f"LockProvider {lock.name} is InProcess and excludes no other process, expected "
            "another type for a table with several writers",
        )
    seen = world.seen.locks.get(lock.uid)
    if lock.status.is_true(Type.READY) and seen is not None and seen.is_ready:
        return lock.spec, seen.servers
    ready = lock.status.condition(Type.READY)
    why = f": {ready.message}" if ready else ""
    return Verdict(
        state=State.STALLED if lock.status.is_true(Type.STALLED) else State.PENDING,
        reason=Reason.LOCK_NOT_READY,
        message=f"LockProvider {lock.name} is not ready{why}",
    )


def _provide(
    world: World,
    table: objects.Table,
    status: hudi_table_status.HudiTableStatus,
    wanted: effective.EffectiveTable,
    found: runs.Situation,
) -> Sequence[Effect]:
    if table.spec.suspend:
        verdict = Verdict(
            state=State.SUSPENDED,
            reason=Reason.SUSPENDED,
            message="spec.suspend is true: no run starts on it",
        )
        return [_set(table, status, verdict, world)]
    seen = world.seen.tables.get(table.uid)
    if seen is None:
        verdict = _pending(Reason.NOT_OBSERVED, f"{wanted.uri} has not been observed yet")
        return [_set(table, status, verdict, world)]
    if seen.problem is not None:
        verdict = _unreadable(seen.problem)
        return [_set(table, status, verdict, world)]
    if not status.provisioned:
        return _provision(world, table, status, wanted, found)
    return [_set(table, status, _compared(status, wanted, seen), world)]


def _provision(
    world: World,
    table: objects.Table,
    status: hudi_table_status.HudiTableStatus,
    wanted: effective.EffectiveTable,
    found: runs.Situation,
) -> Sequence[Effect]:
    """Create or adopt, by a run; done when it succeeded and the table is there."""
    seen = runs.confirmed(world, table, world.seen.tables.get(table.uid))
    if isinstance(seen, Verdict):
        return [_provisioning(world, table, status, seen)]
    if seen.config is not None and own_runs.has_succeeded(world, table, found, Purpose.CREATION):
        verdict = _compared(status, wanted, seen)
        status = status.model_copy(update={"provisioned": verdict.state is State.READY})
        return [_set(table, status, verdict, world)]
    refused = _creation_refusal(table, wanted, seen, found)
    if refused is not None:
        return [_set(table, status, refused, world)]
    if status.origin is None:
        is_created = seen.config is None or _may_be_ours(found)
        origin = (
            hudi_table_status.Origin.CREATED if is_created else hudi_table_status.Origin.ADOPTED
        )
        status = status.model_copy(update={"origin": origin})
    adoption = table.spec.adoption
    work = job_specs.CreateTable(
        may_create=adoption is not hudi_table.Adoption.ADOPT_ONLY,
        may_adopt=adoption is not hudi_table.Adoption.CREATE_ONLY or _may_be_ours(found),
        has_metadata_table=bool(table.spec.metadata.enabled),
        time_zone=table.spec.time_zone,
        key_options=table.spec.keys.options or {},
        bucket_counts=effective.bucket_counts(table.spec),
    )
    step = own_runs.go_on(world, table, found, wanted, work)
    status = status.model_copy(update={"runs": step.status})
    return [*step.effects, _provisioning(world, table, status, step.verdict)]


def _creation_refusal(
    table: objects.Table,
    wanted: effective.EffectiveTable,
    seen: facts.TableFacts,
    found: runs.Situation,
) -> Verdict | None:
    """Return why what is at the table's place, or that nothing is, is not as it should be."""
    adoption = table.spec.adoption
    if seen.config is None:
        if adoption is not hudi_table.Adoption.ADOPT_ONLY:
            return None
        return _stalled(
            Reason.TABLE_NOT_FOUND,
            f"there is no table at {wanted.uri}, expected one with adoption {adoption.value}",
        )
    if adoption is hudi_table.Adoption.CREATE_ONLY and not _may_be_ours(found):
        return _stalled(
            Reason.ALREADY_EXISTS,
            f"a table exists at {wanted.uri}, expected none with adoption {adoption.value}",
        )
    return comparisons.mismatch(wanted, seen.config, is_taken_over=False)


def _may_be_ours(found: runs.Situation) -> bool:
    """Return whether a table that is there may be what a killed attempt of ours has made."""
    history = found.status.history or ()
    was_there = any(each.error_kind == errors.AlreadyExistsError.kind for each in history)
    return found.status.attempts > 0 and not was_there


def _compared(
    status: hudi_table_status.HudiTableStatus,
    wanted: effective.EffectiveTable,
    seen: facts.TableFacts,
) -> Verdict:
    if seen.config is None:
        message = f"there is no table at {wanted.uri}, expected the one that was created or adopted"
        if status.uri is not None and status.uri != wanted.uri:
            message += f"; it was at {status.uri}: the operator's data root has changed since"
        return _stalled(Reason.TABLE_NOT_FOUND, message)
    mismatch = comparisons.mismatch(wanted, seen.config)
    if mismatch is not None:
        return mismatch
    count = len(seen.commits)
    message = f"{count} commit{'' if count == 1 else 's'} at {wanted.uri}"
    refusal = preconditions.table_refusal(seen.config, seen.config)
    if refusal is None and seen.has_partition_buckets:
        refusal = compatibility.counts_refusal(wanted.uri, wanted.settings.concurrency)
    if refusal is not None:
        message += f"; the table is read-only: {refusal}"
    message += _writers_differ(wanted, seen.config)
    message += _change_data_differs(wanted, seen.config)
    return Verdict(state=State.READY, reason=Reason.READY, message=message)


def _writers_differ(wanted: effective.EffectiveTable, stored: table_config.TableConfig) -> str:
    """Return what to do where a table admits other engines than it declares; empty for nothing."""
    is_external = wanted.config.has_foreign_writers
    if stored.chain is None or stored.has_foreign_writers is is_external:
        return ""
    does = "excludes" if is_external else "admits"
    return (
        f"; concurrency.externalWriters is {str(is_external).lower()}, but the table {does} other "
        "engines: a TableAction of type Configure changes that"
    )


def _change_data_differs(wanted: effective.EffectiveTable, stored: table_config.TableConfig) -> str:
    """Return what to do where writes store other changes than declared; empty for nothing."""
    declared, does = wanted.config.change_data, stored.change_data
    if declared is does:
        return ""
    stores = "none of their changes" if does is None else f"change data of mode {does.value}"
    expected = "none" if declared is None else declared.value
    return (
        f"; writes store {stores}, expected {expected} by changeData: a TableAction of type "
        "Configure changes that"
    )


def _told(
    world: World, table: objects.Table, resolved: effective.EffectiveTable | Verdict
) -> hudi_table_status.HudiTableStatus:
    """Return the status with everything that is known of the table put into it."""
    update: dict[str, object] = {
        "writers": tuple(
            writer.name for writer in world.writers_of(table) if world.has_run_at_work(writer)
        )
        or None
    }
    seen = world.seen.tables.get(table.uid)
    is_there = seen is not None and seen.config is not None
    if isinstance(resolved, effective.EffectiveTable):
        update |= {
            "lock": resolved.lock,
            "protocol_hash": resolved.protocol_hash,
            "settings": settings.to_properties(resolved.settings),
        }
        if is_there or not table.status.provisioned:
            # Where it was stays told while it is not where the operator's data root would have it.
            update["uri"] = resolved.uri
    if seen is not None and seen.config is None and seen.problem is None:
        update |= dict.fromkeys(_OF_TABLES)
    if seen is not None and seen.config is not None:
        update |= {
            "version": seen.config.version,
            "commits": len(seen.commits),
            "latest_commit": timelines.latest_commit(seen),
            "backlog": timelines.backlog(seen),
            "consumers": timelines.consumers(seen) or None,
        }
        if isinstance(resolved, effective.EffectiveTable):
            update["mismatches"] = comparisons.mismatches(resolved.config, seen.config) or None
    return table.status.model_copy(update=update)


def _provisioning(
    world: World, table: objects.Table, status: hudi_table_status.HudiTableStatus, verdict: Verdict
) -> SetStatus:
    return _set(table, status, own_runs.told(verdict, State.PROVISIONING, Reason.CREATING), world)


def _set(
    table: objects.Table, status: hudi_table_status.HudiTableStatus, verdict: Verdict, world: World
) -> SetStatus:
    statements = table_conditions.statements(world, table, status)
    status = stated(status, table, verdict, world.now(table), statements)
    return SetStatus(key=table.key, uid=table.uid, status=status)


def _unreadable(problem: facts.Problem) -> Verdict:
    if problem.is_transient:
        return unreachable(problem)
    message = f"{problem.kind}: {problem.message}"
    is_outside = problem.kind == errors.InvalidInputError.kind
    return _stalled(Reason.PATH_NOT_ALLOWED if is_outside else Reason.TABLE_UNREADABLE, message)


def _pending(reason: Reason, message: str) -> Verdict:
    return Verdict(state=State.PENDING, reason=reason, message=message)


def _stalled(reason: Reason, message: str) -> Verdict:
    return Verdict(state=State.STALLED, reason=reason, message=message)
