"""From manifests to objects: what is new, what changed, what vanished. Pure.

A vanished manifest removes nothing unless pruning is asked for and the same complete state was seen
twice; a state with any problem freezes removals, and so does one that declares nothing at all: that
is what a folder looks like whose file system is not mounted. A table whose data would go stays as
long as its deletionProtection is on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hoodie_operator.api import hudi_table, hudi_table_status, kinds, manifests, objects
from hoodie_operator.standalone.folder import FolderState


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What applying a folder does.

    Attributes:
        put: Objects to store, new or changed.
        problems: What was refused, beside the folder's own problems.
        vanished: Declared objects without a manifest that stay because nobody may prune them now.
        protected: Those that stay until their deletionProtection is taken off.
    """

    put: Sequence[objects.AnyObject]
    problems: Sequence[manifests.Problem]
    vanished: Sequence[objects.ObjectKey]
    protected: Sequence[objects.ObjectKey]


def apply(
    stored: Mapping[objects.ObjectKey, objects.AnyObject],
    state: FolderState,
    *,
    may_prune: bool,
    now_ms: int,
    new_uid: Callable[[], str],
) -> Changes:
    """Return what a folder's state changes.

    Args:
        stored: The objects.
        state: The folder's.
        may_prune: Whether this complete state was seen before, and pruning was asked for.
        now_ms: The operator's clock.
        new_uid: Makes the uid of a new object.
    """
    put: list[objects.AnyObject] = []
    problems: list[manifests.Problem] = []
    for manifest in state.declared:
        found = stored.get(manifest.key)
        if found is None:
            put.append(_new(manifest, now_ms, new_uid()))
        elif found.is_deleting:
            # It comes back as a new object once this one is gone.
            continue
        elif refused := _refusals(manifest, found):
            problems.extend(refused)
        elif (found.spec, dict(found.labels)) != (manifest.spec, dict(manifest.labels)):
            put.append(_changed(manifest, found))
    declared = {manifest.key for manifest in state.declared}
    gone = [
        found
        for key, found in stored.items()
        if found.owner is None and key not in declared and not found.is_deleting
    ]
    protected = [found for found in gone if _is_protected(found)]
    gone = [found for found in gone if not _is_protected(found)]
    if may_prune and state.declared and state.is_complete and not problems:
        put.extend(replace(found, deletion_ms=now_ms) for found in gone)
        gone = []
    return Changes(
        put=tuple(put),
        problems=tuple(problems),
        vanished=tuple(found.key for found in gone),
        protected=tuple(found.key for found in protected),
    )


def _is_protected(found: objects.AnyObject) -> bool:
    return isinstance(found.spec, hudi_table.HudiTableSpec) and found.spec.is_protected


def _new(manifest: manifests.Manifest, now_ms: int, uid: str) -> objects.AnyObject:
    return objects.Object(
        key=manifest.key,
        uid=uid,
        generation=1,
        created_ms=now_ms,
        labels=manifest.labels,
        spec=manifest.spec,
        status=kinds.BY_NAME[manifest.key.kind].status(),
    )


def _changed(manifest: manifests.Manifest, found: objects.AnyObject) -> objects.AnyObject:
    generation = found.generation + (found.spec != manifest.spec)
    return replace(found, generation=generation, labels=manifest.labels, spec=manifest.spec)


def _refusals(manifest: manifests.Manifest, found: objects.AnyObject) -> list[manifests.Problem]:
    rules = kinds.BY_NAME[manifest.key.kind].rules
    status = found.status
    is_provisioned = not isinstance(status, hudi_table_status.HudiTableStatus) or status.provisioned
    return [
        manifests.Problem(
            source=manifest.source,
            document=manifest.document,
            path=f"spec.{rule.field}",
            message=f"{rule.message} ({manifest.key} exists)",
            key=manifest.key,
        )
        for rule in rules.forbidden_changes(
            manifest.spec, found.spec, is_provisioned=is_provisioned
        )
    ]
