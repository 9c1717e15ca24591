"""Dropping indexes of a table, and giving up what is being built of them.

The properties come first, then the plan, then files. These are deleted by names that are never made
again, as their times show, and that were listed before the properties changed: a process that was
paused meanwhile deletes nothing of a later build. Other engines make names again: where they write
as well, files are deleted in the scope that changes the properties.

Source: RFC-45; protocol.md: Indexes built beside writers.
"""

import contextlib
import logging
from collections.abc import Callable, Sequence
from contextlib import closing

from hoodie import environment, errors
from hoodie.metadata import index_decisions, index_steps
from hoodie.model import instants, secondary_indexes, table_config
from hoodie.timeline import (
    active,
    index_definitions,
    metadata_timelines,
    table_properties,
    transitions,
)
from hoodie.transaction import (
    admission,
    configuration,
    lifecycle,
    manager,
    publication,
    table_lock,
)
from hoodie.transaction.client import Client

logger = logging.getLogger(__name__)


def drop(
    target: manager.Target,
    names: Sequence[str],
    transaction: manager.TransactionOptions,
    env: environment.Environment,
) -> tuple[str, ...]:
    """Drop indexes of a table, and give up what is being built of them; return which there were.

    A plan is given up with all that it builds.

    Raises:
        InvalidInputError: They are not dropped, or one that stays needs them.
        ConflictError: Somebody alive builds one.
        HoodieError: Lock or storage failed; files that are left do no harm.
    """
    with closing(manager.open_client(target, transaction, env)) as client:
        return drop_by(client, target.config, names)


def drop_by(
    client: Client, expected: table_config.TableConfig, names: Sequence[str]
) -> tuple[str, ...]:
    """Drop indexes of a table by a client of it; as `drop`."""
    refusal = index_decisions.drop_refusal(names, expected)
    if refusal is not None:
        raise refusal
    given_up = [
        name
        for each in index_steps.pending(client.storage, active.listed(client.storage))
        if each.is_given_up or not set(names).isdisjoint(each.plan.names)
        for name in give_up(client, expected, each)
    ]
    return tuple(sorted({*given_up, *_drop(client, names)}))


def give_up(
    client: Client, expected: table_config.TableConfig, found: index_decisions.Build
) -> tuple[str, ...]:
    """Give a plan up that nobody alive executes, with what is there of it; return its partitions.

    Raises:
        ConflictError: Somebody alive executes it.
    """
    if found.is_given_up:
        # Without a plan its execution cannot begin, even if its executor is alive.
        inflight = found.instant.pending_in(instants.State.INFLIGHT)
        with client.lock.scope() as scope:
            scope.check()
            client.storage.delete(transitions.path(inflight))
        return ()
    opened = index_steps.taken_over(client, expected, found)
    if opened is None:
        return ()
    # By the epoch, so that nobody executes the plan before they are gone: of what another had
    # completed a process that is paused right before it deletes one would leave half.
    plan_files = tuple(map(transitions.path, (opened.inflight, opened.requested)))
    try:

        def decide(scope: table_lock.LockScope) -> Sequence[str] | None:
            is_ours = admission.holding(scope, opened.heartbeat)
            is_ours()
            if opened.requested_time not in scope.timeline.pending_times:
                # Where the lock is given to all it may have been completed while it was taken over.
                return None
            config = table_properties.load(client.storage, client.clock)
            names = [each for each in found.plan.names if each not in config.metadata_partitions]
            left = _take_out(client, scope, names, config, is_ours, plan_files)
            is_by_epoch = not config.has_foreign_writers and index_decisions.without(names, config)
            if scope.view is not None and not is_by_epoch:
                # Else the plan, if it is what the head publishes, comes again.
                publication.take_number(client, scope, is_ours, withdrawn=plan_files)
            return left

        left = client.lock.decide(decide)
        if left is None:
            return ()
        if client.chain is None:
            with client.lock.scope() as scope:
                for path in plan_files:
                    admission.holding(scope, opened.heartbeat)()
                    client.storage.delete(path)
        client.storage.delete_unordered(left)
    finally:
        lifecycle.abort(client, opened)
    logger.info("%s: %s is given up", client.storage.uri, found.instant)
    return found.plan.names


def _drop(client: Client, names: Sequence[str]) -> set[str]:
    """Drop ready partitions, and what is left of builds without a plan; return which there were."""
    there: set[str] = set()
    _undefine(client, [name for name in names if name not in index_decisions.BUILDABLE])

    def decide(scope: table_lock.LockScope) -> Sequence[str]:
        config = table_properties.load(client.storage, client.clock)
        refusal = index_decisions.drop_refusal(names, config)
        if refusal is not None:
            raise refusal
        there.update(
            set(names).intersection(
                (*config.metadata_partitions, *config.metadata_partitions_inflight)
            )
        )
        left = _take_out(client, scope, names, config, scope.check)
        if left and not index_decisions.without(names, config):
            # Else a build that has begun since the properties were read has listed files here.
            publication.take_number(client, scope, scope.check)
        return left

    left = client.lock.decide(decide)
    client.storage.delete_unordered(left)
    return there


def _undefine(client: Client, names: Sequence[str]) -> None:
    """Take indexes out of the definitions, by which Apache Hudi's readers use them, in any case.

    Who writes knows their columns by the properties from then on, so that nobody has to wait if
    this process dies.
    """

    def decide(scope: table_lock.LockScope) -> None:
        scope.check()
        config = table_properties.load(client.storage, client.clock)
        columns: dict[str, str | None] = {}
        for name in set(names).intersection(config.metadata_partitions):
            # What is not kept up has no column that matters.
            with contextlib.suppress(errors.FormatError, errors.UnsupportedError):
                for each in index_definitions.of_secondary_indexes(client.storage, config, [name]):
                    columns[secondary_indexes.column_key(name)] = each.column
                for found in index_definitions.of_expressions(client.storage, config, [name]):
                    text = index_definitions.expression_text(found)
                    columns[secondary_indexes.column_key(name)] = text
        if not columns.items() <= config.properties.items():
            if config.has_foreign_writers:
                table_properties.update(client.storage, columns, client.clock, scope.check)
            else:
                configuration.put(client, scope, columns)
        index_definitions.remove(client.storage, names)

    if names:
        client.lock.decide(decide)


def _take_out(
    client: Client,
    scope: table_lock.LockScope,
    names: Sequence[str],
    config: table_config.TableConfig,
    check: Callable[[], None],
    withdrawn: tuple[str, ...] = (),
) -> Sequence[str]:
    """Take partitions out of the properties; return the paths of their files.

    They are listed before, so that none of a later build is among them. Where other engines write
    as well, which make names again, they are deleted here, and none are returned. Where an epoch
    changes the properties it deletes the files of a plan as well.
    """
    client.check_guards()
    changes = index_decisions.without(names, config)
    if not config.has_foreign_writers:
        left = index_steps.left_in(client, names)
        if changes:
            configuration.put(client, scope, changes, withdrawn=withdrawn)
        return [f"{metadata_timelines.DIRECTORY}/{path}" for path in left]
    # Not by an epoch: finished later it would undo what others have changed until then. And also
    # if nothing changes: a builder that lost its lock right before its own change fails then.
    table_properties.update(client.storage, changes, client.clock, check)
    try:
        index_steps.clear(client, scope, names, check)
    except index_steps.CompactedError as error:
        logger.info("%s: files are left, and do no harm: %s", client.storage.uri, error)
    return ()
