"""What a read would do, and what of the table it leaves out: a row for each means."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from hoodie.cli import grids, quantities
from hoodie.read import planning
from hoodie.read.planning import Means


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The plan of a read.

    Attributes:
        table: The table's URI.
        has_metadata_table: Whether the files were taken from the metadata table; otherwise they
            were listed.
        steps: What the filter leaves out, by one means after the other.
        files: Base files and log files of the file slices that are read.
        bytes: The size of these files.
        requests: How many requests planning made, by their kinds.
    """

    table: str
    has_metadata_table: bool
    steps: tuple[planning.Step, ...]
    files: int
    bytes: int
    requests: Mapping[str, int]


def document(uri: str, plan: planning.Plan, requests: Mapping[str, int]) -> Document:
    """Return the document of a plan."""
    sizes = [each.size_bytes for file_slice in plan.slices for each in file_slice.data_files]
    return Document(
        table=uri,
        has_metadata_table=plan.has_metadata_table,
        steps=plan.steps,
        files=len(sizes),
        bytes=sum(sizes),
        requests=dict(sorted(requests.items())),
    )


_LISTINGS = ("list", "names", "names_by_directory")
_STEPS = {
    Means.PARTITION_VALUES: "partitions, by their values",
    Means.PARTITION_STATISTICS: "partitions, by their statistics",
    Means.KEY_BUCKETS: "file slices, by buckets of keys",
    Means.RECORD_INDEX: "file slices, by the record index",
    Means.SECONDARY_INDEX: "file slices, by secondary indexes",
    Means.EXPRESSION_INDEX: "file slices, by expression indexes",
    Means.COLUMN_STATISTICS: "file slices, by column statistics",
    Means.BLOOM_FILTERS: "file slices, by bloom filters",
}


def grid(shown: Document) -> grids.Grid:
    """Return what each means leaves out."""
    return grids.Grid(
        columns=(
            grids.Column(heading="what"),
            grids.Column(heading="of", is_number=True),
            grids.Column(heading="skipped", is_number=True),
            grids.Column(heading="left", is_number=True),
        ),
        rows=tuple(
            (
                _STEPS[each.means],
                *map(quantities.count_text, (each.considered, each.skipped, each.left)),
            )
            for each in shown.steps
        ),
    )


def lines(shown: Document) -> list[str]:
    """Return what is said below the grid."""
    source = "the metadata table" if shown.has_metadata_table else "a listing of the storage"
    kinds: Counter[str] = Counter()
    for name, count in shown.requests.items():
        kinds["listing" if name in _LISTINGS else "read"] += count
    size = quantities.size_text(shown.bytes)
    return [
        *(
            "looked for the partitions that the filter names"
            for each in shown.steps
            if each.is_named
        ),
        *(f"{each.means.value} not used: {each.unused}" for each in shown.steps if each.unused),
        f"reads {quantities.counted(shown.files, 'file')}, {size}",
        f"files from {source}",
        f"{quantities.counted(kinds.total(), 'request')} to plan: "
        + ", ".join(quantities.counted(kinds[each], each) for each in sorted(kinds)),
    ]
