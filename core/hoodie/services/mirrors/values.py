"""How a table is mirrored, and what became of it: values that need no PyIceberg."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hoodie import errors
from hoodie.model import instants
from hoodie.services.mirrors import names, states

KEPT_DEFAULT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """A catalog that a mirror is in.

    Attributes:
        name: One of PyIceberg's configuration, or the URI of a REST or SQL catalog.
        table: The mirror's name there, such as `lake.trips`.
        options: Of the catalog, under PyIceberg's names.
    """

    name: str
    table: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def consumer(self) -> str:
        """The mirror's consumer."""
        return names.consumer_of(self.name, self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a table is mirrored.

    Attributes:
        kept: How many snapshots the mirror keeps, the newest included.
        catalog: In which it is; None for the table's folder alone.
        limit_ms: How long cleaning waits for a mirror that is not brought up to date; None for what
            it was, at first seven days.
    """

    kept: int = KEPT_DEFAULT
    catalog: Catalog | None = None
    limit_ms: int | None = None

    def __post_init__(self) -> None:
        if self.kept < 1:
            raise errors.InvalidInputError(
                f"{self.kept} snapshots cannot be kept, expected at least 1: the newest"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """What became of a mirror, or would.

    Attributes:
        location: URI of its metadata; empty for one that is not there yet.
        snapshot_id: Of its newest snapshot; None where it has none yet.
        is_new: Whether this run made that snapshot.
        instant: Requested time of the table's newest write that it has; None for none.
        completion_time: Up to which it has followed the table.
        files: How many base files it names.
        added: How many were added.
        removed: How many were removed.
        kept: How many snapshots it has.
        dropped: How many were dropped.
        unmirrored: What is in log files alone.
    """

    location: str
    snapshot_id: int | None
    is_new: bool
    instant: instants.InstantTime | None
    completion_time: instants.InstantTime
    files: int
    added: int
    removed: int
    kept: int
    dropped: int
    unmirrored: states.Unmirrored


def catalog_of(name: str | None, table: str | None, options: Mapping[str, str]) -> Catalog | None:
    """Return a catalog as people name it; None for none.

    Raises:
        InvalidInputError: One of catalog and table is given alone, or options without them.
    """
    if name is None and table is None and not options:
        return None
    if not name or not table:
        raise errors.InvalidInputError(
            "a mirror in a catalog has both: expected the catalog (a name or a URI) and the name "
            "of the table there, such as lake.trips"
        )
    return Catalog(name=name, table=table, options=options)


def summary(done: Mirrored, *, is_dry_run: bool) -> str:
    """Return what became of a mirror, or would, as part of a sentence."""
    changed = f"{done.added:,} added, {done.removed:,} removed"
    kept = f"{_count(done.kept, 'snapshot')} kept, {done.dropped} dropped"
    verb = "would name" if is_dry_run else "names"
    return (
        f"{verb} {_count(done.files, 'base file')} as of {done.completion_time} ({changed}); {kept}"
    )


def findings(done: Mirrored) -> tuple[str, ...]:
    """Return what a mirror lacks, as sentences."""
    left = done.unmirrored
    if not left.groups:
        return ()
    have = "has" if left.groups == 1 else "have"
    what = f"{_count(left.groups, 'file group')} {have} rows in log files alone"
    return (f"{what} ({left.log_bytes:,} bytes): they are in the mirror after a compaction",)


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"
