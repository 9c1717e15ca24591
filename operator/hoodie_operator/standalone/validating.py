"""Checking a folder of manifests without doing anything: all that it alone can tell."""

from collections.abc import Iterator

from hoodie_operator.api import (
    hudi_table,
    hudi_table_status,
    kinds,
    manifests,
    objects,
    service_policy,
)
from hoodie_operator.reconcile import effective
from hoodie_operator.standalone.folder import FolderState


def problems(state: FolderState, data_root: str) -> list[manifests.Problem]:
    """Return everything that is wrong with a folder's manifests, their references included."""
    found = list(state.problems)
    for manifest in state.declared:
        found.extend(_references(manifest, state))
        if isinstance(manifest.spec, hudi_table.HudiTableSpec):
            found.extend(_table(manifest, manifest.spec, data_root))
    return found


def _references(manifest: manifests.Manifest, state: FolderState) -> Iterator[manifests.Problem]:
    for path, kind, name in _referred(manifest):
        key = objects.ObjectKey(kind=kind.name, namespace=manifest.key.namespace, name=name)
        if not state.may_declare(key):
            yield _problem(
                manifest, path, f"refers to {key}, which no manifest of this folder declares"
            )


def _referred(manifest: manifests.Manifest) -> Iterator[tuple[str, kinds.Kind, str]]:
    match manifest.spec:
        case hudi_table.HudiTableSpec() as spec:
            if spec.concurrency.lock_ref is not None:
                name = spec.concurrency.lock_ref.name
                yield "spec.concurrency.lockRef", kinds.LOCK_PROVIDER, name
        case spec if isinstance(spec, objects.SpecOfTable):
            yield "spec.tableRef", kinds.HUDI_TABLE, spec.table_ref.name
        case service_policy.Policy() as spec:
            if spec.target.table_ref is not None:
                yield "spec.target.tableRef", kinds.HUDI_TABLE, spec.target.table_ref.name


def _table(
    manifest: manifests.Manifest, spec: hudi_table.HudiTableSpec, data_root: str
) -> Iterator[manifests.Problem]:
    table: objects.Table = objects.Object(
        key=manifest.key,
        uid="",
        generation=1,
        created_ms=0,
        spec=spec,
        status=hudi_table_status.HudiTableStatus(),
    )
    for part in (effective.location(spec, (data_root,)), effective.config(table)):
        if isinstance(part, effective.Refusal):
            yield _problem(manifest, "spec", part.message)


def _problem(manifest: manifests.Manifest, path: str, message: str) -> manifests.Problem:
    return manifests.Problem(
        source=manifest.source,
        document=manifest.document,
        path=path,
        message=message,
        key=manifest.key,
    )
