"""Plans and metadata of cleans, for tables that were not cleaned."""

from hoodie.format import clean_avro
from hoodie.model import instants, plans


def clean_plan(*paths: str) -> bytes:
    """Return the plan of a clean of some files."""
    return clean_avro.encode_plan(_plan("", paths), "s3://b/t")


def cleaned(earliest: str, *paths: str) -> bytes:
    """Return the metadata of a clean that has deleted some files.

    Args:
        earliest: The first commit that it retains; empty where it counts file versions.
        paths: Below the table's root.
    """
    requested_time = instants.InstantTime("20260101000000000")
    return clean_avro.encode_metadata(_plan(earliest, paths), requested_time, duration_ms=1)


def _plan(earliest: str, paths: tuple[str, ...]) -> plans.CleanPlan:
    names: dict[str, tuple[str, ...]] = {}
    for path in paths:
        partition, _, name = path.rpartition("/")
        names[partition] = (*names.get(partition, ()), name)
    retained = None
    if earliest:
        retained = instants.Instant(
            requested_time=instants.InstantTime(earliest),
            action=instants.Action.COMMIT,
            state=instants.State.REQUESTED,
        )
    return plans.CleanPlan(
        policy="KEEP_LATEST_COMMITS",
        earliest_retained=retained,
        last_completed=None,
        file_names=names,
    )
