"""The register of kinds: names, types, rules, states and the columns that `get` prints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hoodie_operator.api import (
    compaction_policy,
    conditions,
    fields,
    hudi_table,
    hudi_table_rules,
    hudi_table_status,
    index_request,
    lock_provider,
    retention_policy,
    rules,
    savepoint,
    states,
    table_action,
    writer,
)

CATEGORIES: Final = ("hudi", "lakehouse")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrinterColumn:
    """One column of `get`.

    Attributes:
        name: Its heading.
        type: As OpenAPI names it: string, integer, boolean, date.
        path: A JSON path as `kubectl` and `hoodie_operator.api.json_paths` take it.
        is_wide: Whether it is shown with `-o wide` only.
    """

    name: str
    type: str
    path: str
    is_wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of object."""

    name: str
    plural: str
    short_names: Sequence[str]
    short_word: str
    spec: type[fields.Block]
    status: type[conditions.Status]
    rules: rules.Rules[Any]
    states: Mapping[states.State, states.Row]
    columns: Sequence[PrinterColumn]
    selectable_fields: Sequence[str] = ()

    @property
    def singular(self) -> str:
        """The name in lower case."""
        return self.name.lower()


def _condition(condition_type: str, part: str) -> str:
    return f'.status.conditions[?(@.type=="{condition_type}")].{part}'


_STATE: Final = PrinterColumn(name="State", type="string", path=".status.state")
_LAST: Final = (
    PrinterColumn(name="Ready", type="string", path=_condition("Ready", "status")),
    PrinterColumn(name="Reason", type="string", path=_condition("Ready", "reason")),
    PrinterColumn(name="Age", type="date", path=".metadata.creationTimestamp"),
    PrinterColumn(name="Message", type="string", path=_condition("Ready", "message"), is_wide=True),
)
COMMON_COLUMNS: Final = (_STATE, *_LAST)
"""Those that every kind has."""

HUDI_TABLE: Final = Kind(
    name="HudiTable",
    plural="huditables",
    short_names=("ht",),
    short_word="table",
    spec=hudi_table.HudiTableSpec,
    status=hudi_table_status.HudiTableStatus,
    rules=hudi_table_rules.RULES,
    states=states.HUDI_TABLE,
    columns=(
        PrinterColumn(name="Mode", type="string", path=".spec.concurrency.mode"),
        PrinterColumn(name="Commits", type="integer", path=".status.commits"),
        PrinterColumn(name="Backlog", type="integer", path=".status.backlog.deltaCommits"),
        PrinterColumn(name="Last-Commit", type="string", path=".status.latestCommit.instant"),
        _STATE,
        *_LAST,
        PrinterColumn(name="Type", type="string", path=".spec.tableType", is_wide=True),
        PrinterColumn(name="Version", type="integer", path=".spec.tableVersion", is_wide=True),
        PrinterColumn(name="URI", type="string", path=".status.uri", is_wide=True),
        PrinterColumn(name="Lock", type="string", path=".status.lock", is_wide=True),
        PrinterColumn(
            name="Unmirrored", type="integer", path=".status.mirror.unmirroredCommits", is_wide=True
        ),
    ),
)
WRITER: Final = Kind(
    name="Writer",
    plural="writers",
    short_names=("hw",),
    short_word="writer",
    spec=writer.WriterSpec,
    status=writer.WriterStatus,
    rules=writer.RULES,
    states=states.WRITER,
    columns=(
        PrinterColumn(name="Table", type="string", path=".spec.tableRef.name"),
        PrinterColumn(name="Files", type="integer", path=".status.files.total"),
        PrinterColumn(name="Committed", type="integer", path=".status.files.committed"),
        PrinterColumn(name="Attempts", type="integer", path=".status.runs.attempts"),
        PrinterColumn(name="Last-Commit", type="string", path=".status.lastCommit.instant"),
        _STATE,
        *_LAST,
        PrinterColumn(name="Operation", type="string", path=".spec.operation", is_wide=True),
        PrinterColumn(name="Engine", type="string", path=".spec.runtime.engine", is_wide=True),
    ),
    selectable_fields=(".spec.tableRef.name",),
)
_OF_POLICIES: Final = (
    PrinterColumn(name="Tables", type="integer", path=".status.matched"),
    PrinterColumn(name="Running", type="integer", path=".status.running"),
    PrinterColumn(name="Overdue", type="integer", path=".status.overdue"),
    _STATE,
    *_LAST,
)
COMPACTION_POLICY: Final = Kind(
    name="CompactionPolicy",
    plural="compactionpolicies",
    short_names=("hcomp",),
    short_word="policy",
    spec=compaction_policy.CompactionPolicySpec,
    status=compaction_policy.CompactionPolicyStatus,
    rules=compaction_policy.RULES,
    states=states.POLICY,
    columns=_OF_POLICIES,
)
RETENTION_POLICY: Final = Kind(
    name="RetentionPolicy",
    plural="retentionpolicies",
    short_names=("hret",),
    short_word="retention",
    spec=retention_policy.RetentionPolicySpec,
    status=retention_policy.RetentionPolicyStatus,
    rules=retention_policy.RULES,
    states=states.POLICY,
    columns=_OF_POLICIES,
)
SAVEPOINT: Final = Kind(
    name="Savepoint",
    plural="savepoints",
    short_names=("hsp",),
    short_word="savepoint",
    spec=savepoint.SavepointSpec,
    status=savepoint.SavepointStatus,
    rules=savepoint.RULES,
    states=states.SAVEPOINT,
    columns=(
        PrinterColumn(name="Table", type="string", path=".spec.tableRef.name"),
        PrinterColumn(name="Commit", type="string", path=".status.commit"),
        _STATE,
        *_LAST,
        PrinterColumn(name="Comment", type="string", path=".spec.comment", is_wide=True),
    ),
    selectable_fields=(".spec.tableRef.name",),
)
INDEX_REQUEST: Final = Kind(
    name="IndexRequest",
    plural="indexrequests",
    short_names=("hix",),
    short_word="index",
    spec=index_request.IndexRequestSpec,
    status=index_request.IndexRequestStatus,
    rules=index_request.RULES,
    states=states.INDEX_REQUEST,
    columns=(
        PrinterColumn(name="Table", type="string", path=".spec.tableRef.name"),
        PrinterColumn(name="Indexes", type="string", path=".spec.indexes"),
        PrinterColumn(name="Ensure", type="string", path=".spec.ensure"),
        PrinterColumn(name="Built", type="string", path=".status.built"),
        _STATE,
        *_LAST,
        PrinterColumn(name="Progress", type="string", path=".status.progress", is_wide=True),
        PrinterColumn(name="Instant", type="string", path=".status.instant", is_wide=True),
        PrinterColumn(name="Validated", type="string", path=".status.validated", is_wide=True),
    ),
    selectable_fields=(".spec.tableRef.name",),
)
LOCK_PROVIDER: Final = Kind(
    name="LockProvider",
    plural="lockproviders",
    short_names=("hlp",),
    short_word="lock",
    spec=lock_provider.LockProviderSpec,
    status=lock_provider.LockProviderStatus,
    rules=lock_provider.RULES,
    states=states.LOCK_PROVIDER,
    columns=(
        PrinterColumn(name="Type", type="string", path=".spec.type"),
        PrinterColumn(name="Address", type="string", path=".status.address"),
        _STATE,
        *_LAST,
    ),
)
TABLE_ACTION: Final = Kind(
    name="TableAction",
    plural="tableactions",
    short_names=("hta",),
    short_word="action",
    spec=table_action.TableActionSpec,
    status=table_action.TableActionStatus,
    rules=table_action.RULES,
    states=states.TABLE_ACTION,
    columns=(
        PrinterColumn(name="Table", type="string", path=".spec.tableRef.name"),
        PrinterColumn(name="Type", type="string", path=".spec.type"),
        PrinterColumn(name="Instant", type="string", path=".status.instant"),
        PrinterColumn(name="Attempts", type="integer", path=".status.runs.attempts"),
        _STATE,
        *_LAST,
    ),
    selectable_fields=(".spec.tableRef.name", ".spec.type"),
)

KINDS: Final = (
    HUDI_TABLE,
    WRITER,
    COMPACTION_POLICY,
    RETENTION_POLICY,
    SAVEPOINT,
    INDEX_REQUEST,
    LOCK_PROVIDER,
    TABLE_ACTION,
)
BY_NAME: Final = {kind.name: kind for kind in KINDS}
POLICIES: Final = (COMPACTION_POLICY, RETENTION_POLICY)
"""Kinds of policies of table services."""
