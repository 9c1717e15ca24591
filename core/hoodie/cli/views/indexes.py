"""Indexes of a table: a row each, with who builds it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from hoodie.cli import grids, quantities
from hoodie.filegroup import metadata_table
from hoodie.metadata import build_progress, index_decisions
from hoodie.model import key_changes, results, table_config

NO_PROGRESS: Mapping[str, build_progress.Progress] = MappingProxyType({})

_READY = "ready"
_MISSING = "missing"
_PLANNED = "planned"
_BUILDING = "being built"
_INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """One index.

    Attributes:
        name: Of its partition of the metadata table.
        state: ready; missing; planned; being built; or interrupted, if its builder has died.
        instant: Requested time of the action that builds it; null for none.
        through: Requested time of the last write without a hole before it when it was planned.
        owner: Who builds it; null for nobody.
        silence_ms: Since the builder's last sign of life; null for none.
        is_partitioned: Whether a record index is one of each partition; null for one that is
            missing, and for other indexes.
        of: Of what it is: the column or function of a column, the columns that were chosen, the
            whole table or each partition; null where that is not chosen, or not known.
        phase: What the builder does; null if it has not said so yet.
        done: Of `total`, in the units of the phase, such as files.
        total: Null if the phase has no units.
        left_ms: Until the build is published, by what it has taken; null if that is not known.
    """

    name: str
    state: str
    instant: str | None = None
    through: str | None = None
    owner: str | None = None
    silence_ms: int | None = None
    is_partitioned: bool | None = None
    of: str | None = None
    phase: str | None = None
    done: int | None = None
    total: int | None = None
    left_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The indexes of a table.

    Attributes:
        table: The table's URI.
        indexes: Those that can be built, and others that are there.
    """

    table: str
    indexes: tuple[IndexRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltDocument:
    """Indexes that are ready.

    Attributes:
        table: The table's URI.
        instant: Requested time of the indexing action that completed last; null if all were ready.
        completion_time: When that was.
        built: Those that were not.
        findings: What is to be known though nothing failed.
    """

    table: str
    instant: str | None
    completion_time: str | None
    built: tuple[str, ...]
    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedDocument:
    """Indexes that were dropped.

    Attributes:
        table: The table's URI.
        dropped: Those that were there, ready or not.
    """

    table: str
    dropped: tuple[str, ...]


def document(
    uri: str,
    config: table_config.TableConfig,
    builds: Sequence[index_decisions.Build],
    pending: Iterable[results.PendingInstant],
    progress: Mapping[str, build_progress.Progress] = NO_PROGRESS,
    *,
    has_partitioned_record_index: bool = False,
) -> Document:
    """Return the document of a table's indexes.

    Args:
        uri: The table's.
        config: Its configuration.
        builds: The pending indexing actions.
        pending: What is pending on the timeline, with its owners.
        progress: How far builds are, by the requested times of their actions.
        has_partitioned_record_index: Whether its record index is one of each partition.
    """
    owners = {str(each.instant.requested_time): each for each in pending}
    names = dict.fromkeys(
        (
            *index_decisions.BUILDABLE,
            *config.metadata_partitions,
            *config.metadata_partitions_inflight,
            *(name for each in builds for name in each.plan.names),
        )
    )
    rows = (
        _row(name, config, builds, owners, has_partitioned_record_index)
        for name in names
        if name != metadata_table.FILES
    )
    return Document(
        table=uri,
        indexes=tuple(_with_progress(replace(row, of=_kind(row)), progress) for row in rows),
    )


def with_columns(shown: Document, columns: Mapping[str, str]) -> Document:
    """Return the document with that of which indexes of columns are, by name."""
    rows = (replace(each, of=columns.get(each.name, each.of)) for each in shown.indexes)
    return replace(shown, indexes=tuple(rows))


def _kind(row: IndexRow) -> str | None:
    """Return of what a record index is."""
    if row.is_partitioned is None:
        return None
    return "each partition" if row.is_partitioned else "the whole table"


def _with_progress(row: IndexRow, progress: Mapping[str, build_progress.Progress]) -> IndexRow:
    """Return a row with how far its builder is, if that is alive."""
    found = progress.get(row.instant or "")
    if found is None or row.state != _BUILDING:
        return row
    counts = (found.done, found.total) if found.total else (None, None)
    return replace(row, phase=found.phase, done=counts[0], total=counts[1], left_ms=found.left_ms)


def _row(
    name: str,
    config: table_config.TableConfig,
    builds: Sequence[index_decisions.Build],
    owners: dict[str, results.PendingInstant],
    has_partitioned: bool,
) -> IndexRow:
    is_record_index = name == key_changes.RECORD_INDEX
    if name in config.metadata_partitions:
        kind = has_partitioned if is_record_index else None
        return IndexRow(name=name, state=_READY, is_partitioned=kind)
    for build in builds:
        for partition in build.plan.partitions:
            if partition.name == name:
                owner = owners.get(build.instant.requested_time)
                return IndexRow(
                    name=name,
                    state=_state(name, config, owner),
                    instant=build.instant.requested_time,
                    through=partition.through or None,
                    owner=owner.owner if owner else None,
                    silence_ms=owner.silence_ms if owner else None,
                    is_partitioned=partition.is_partitioned if is_record_index else None,
                )
    is_left = name in config.metadata_partitions_inflight
    return IndexRow(name=name, state=_INTERRUPTED if is_left else _MISSING)


def _state(
    name: str, config: table_config.TableConfig, owner: results.PendingInstant | None
) -> str:
    if owner is not None and owner.is_alive:
        return _BUILDING
    return _INTERRUPTED if name in config.metadata_partitions_inflight else _PLANNED


def built(uri: str, result: results.IndexResult) -> BuiltDocument:
    """Return the document of a build."""
    return BuiltDocument(
        table=uri,
        instant=result.instant.requested_time if result.instant else None,
        completion_time=result.instant.completion_time if result.instant else None,
        built=result.built,
        findings=result.findings,
    )


def grid(shown: Document) -> grids.Grid:
    """Return the indexes as texts."""
    return grids.Grid(
        columns=(
            grids.Column(heading="index"),
            grids.Column(heading="of", importance=3),
            grids.Column(
                heading="state",
                styles={_READY: "green", _BUILDING: "yellow", _INTERRUPTED: "red"},
            ),
            grids.Column(heading="instant", importance=1),
            grids.Column(heading="silent for", importance=2, is_number=True),
            grids.Column(heading="owner", importance=0, width_min=12),
        ),
        rows=tuple(
            (
                each.name,
                each.of or "",
                each.state,
                each.instant or "",
                "" if each.silence_ms is None else quantities.duration_text(each.silence_ms),
                each.owner or "",
            )
            for each in shown.indexes
        ),
    )


def hints(shown: Document) -> list[str]:
    """Return a line for each build that says how far it is, and for what waits for somebody."""
    lines = list(dict.fromkeys(filter(None, map(_progress_line, shown.indexes))))
    waiting = [each for each in shown.indexes if each.state in (_INTERRUPTED, _PLANNED)]
    built = [each for each in waiting if index_decisions.is_buildable(each.name)]
    if built:
        kind = " --partitioned" if any(each.is_partitioned for each in built) else ""
        words = f"hoodie index build {shown.table} {' '.join(each.name for each in built)}{kind}"
        lines.append(f"`{words}` continues the build, `hoodie index drop` gives it up")
    others = [each.name for each in waiting if each not in built]
    if others:
        names = " ".join(others)
        lines.append(f"another engine builds {names}: `hoodie index drop {shown.table} {names}`")
    return lines


def _progress_line(row: IndexRow) -> str:
    if row.phase is None:
        return ""
    count = "" if row.total is None else f", {row.done} of {row.total}"
    left = "" if row.left_ms is None else f", {quantities.duration_text(row.left_ms)} left"
    return f"{row.instant}: {row.phase}{count}{left}"


def built_line(shown: BuiltDocument) -> str:
    """Return what is said of a build."""
    if shown.instant is None:
        return f"{shown.table}: all of these indexes are ready"
    return f"{shown.table}: built {', '.join(shown.built)}, instant {shown.instant}"


def dropped_line(shown: DroppedDocument) -> str:
    """Return what is said of a drop."""
    if not shown.dropped:
        return f"{shown.table}: none of these indexes was there"
    return f"{shown.table}: dropped {', '.join(shown.dropped)}"
