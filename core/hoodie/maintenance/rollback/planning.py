"""Which files a rollback deletes: those that carry the instant in their names.

Every data file carries the requested time of what wrote it, log files since table version 8, so a
write is taken back by deleting whole files: no command block is appended to any log. (Apache Hudi
1.2.0 does the same for versions 8 and 9.)

By markers, where the write made them itself: one listing of its own markers. Else, where markers
may be missing, by listing the table as well, whose cost grows with it. Source:
`MarkerBasedRollbackStrategy.java`, `ListingBasedRollbackStrategy.java`; protocol.md: Rollback.
"""

from collections.abc import Iterable

from hoodie.filegroup import listing
from hoodie.format import file_names
from hoodie.model import instants, plans
from hoodie.storage import paths, protocol

_OWN_FOLDER = ".hoodie/"


def plan_of(target: instants.Instant, left: Iterable[str]) -> plans.RollbackPlan:
    """Return the plan that takes an instant back.

    Args:
        target: Pending.
        left: Data files that it may have left, below the table's root; what does not carry its
            time is no file of it, whatever a marker says.
    """
    own = {path for path in left if is_of(path, target.requested_time)}
    return plans.RollbackPlan(
        target=target.requested_time,
        action=target.action,
        requests=tuple(_request(target, path) for path in sorted(own)),
    )


def listed_files(storage: protocol.Storage, requested_time: instants.InstantTime) -> list[str]:
    """Return the data files of an instant, found by listing the whole table once."""
    return [
        path
        for path in listing.own_paths(storage)
        if not path.startswith(_OWN_FOLDER) and is_of(path, requested_time)
    ]


def is_of(path: str, requested_time: instants.InstantTime) -> bool:
    """Return whether a data file, base, log or change data, was written for an instant.

    One that was never finished counts, too.
    """
    return f"_{requested_time}." in (paths.finished(path) or path).rpartition("/")[2]


def _request(target: instants.Instant, path: str) -> plans.RollbackRequest:
    """Return the request for one file, with what Apache Hudi tells of it."""
    partition_path, _, name = path.rpartition("/")
    parsed = file_names.parse(path, 0)
    return plans.RollbackRequest(
        partition_path=partition_path,
        file_names=(name,),
        file_id=parsed.group.file_id if parsed else None,
        base_instant_time=target.requested_time,
    )
