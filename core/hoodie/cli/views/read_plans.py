"""What a read would do, and what of the table it leaves out: a row a step."""

from collections.abc import Mapping
from dataclasses import dataclass

from hoodie.cli import grids, quantities
from hoodie.read import planning


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The plan of a read.

    Attributes:
        table: The table's URI.
        has_metadata_table: Whether the files were taken from the metadata table; otherwise they
            were listed.
        partitions: How many partitions the table has.
        partitions_read: Those that the filter does not exclude by their values.
        slices: File slices of those partitions.
        slices_left_by_index: Those whose bucket may hold a key of the filter.
        slices_left_by_statistics: Those of them whose column statistics do not exclude the filter.
        slices_left_by_bloom_filters: Those of them whose bloom filters do not exclude its keys.
        files: Base files and log files of them.
        bytes: The size of these files.
        requests: How many requests planning made, by their kinds.
    """

    table: str
    has_metadata_table: bool
    partitions: int
    partitions_read: int
    slices: int
    slices_left_by_index: int
    slices_left_by_statistics: int
    slices_left_by_bloom_filters: int
    files: int
    bytes: int
    requests: Mapping[str, int]


def document(uri: str, plan: planning.Plan, requests: Mapping[str, int]) -> Document:
    """Return the document of a plan."""
    slices = [task.file_slice for task in plan.tasks]
    sizes = [
        each.size_bytes
        for file_slice in slices
        for each in (file_slice.base_file, *file_slice.log_files)
        if each is not None
    ]
    return Document(
        table=uri,
        has_metadata_table=plan.has_metadata_table,
        partitions=plan.partitions,
        partitions_read=plan.partitions_read,
        slices=plan.slices,
        slices_left_by_index=plan.slices_left_by_index,
        slices_left_by_statistics=plan.slices_left_by_statistics,
        slices_left_by_bloom_filters=plan.slices_left_by_bloom_filters,
        files=len(sizes),
        bytes=sum(sizes),
        requests=dict(sorted(requests.items())),
    )


def grid(shown: Document) -> grids.Grid:
    """Return what each step leaves."""
    steps = (
        ("partitions, by their values", shown.partitions, shown.partitions_read),
        ("file slices, by the index", shown.slices, shown.slices_left_by_index),
        (
            "file slices, by column statistics",
            shown.slices_left_by_index,
            shown.slices_left_by_statistics,
        ),
        (
            "file slices, by bloom filters",
            shown.slices_left_by_statistics,
            shown.slices_left_by_bloom_filters,
        ),
    )
    return grids.Grid(
        columns=(
            grids.Column(heading="what"),
            grids.Column(heading="of", is_number=True),
            grids.Column(heading="read", is_number=True),
            grids.Column(heading="skipped", is_number=True),
        ),
        rows=tuple(
            (name, *map(quantities.count_text, (count, left, count - left)))
            for name, count, left in steps
        ),
    )


def lines(shown: Document) -> list[str]:
    """Return what is said below the grid."""
    source = "the metadata table" if shown.has_metadata_table else "a listing of the storage"
    kinds = ", ".join(f"{count} {name}" for name, count in shown.requests.items())
    return [
        f"reads {quantities.counted(shown.files, 'file')}, {quantities.size_text(shown.bytes)}",
        f"files from {source}",
        f"{quantities.counted(sum(shown.requests.values()), 'request')} to plan: {kinds}",
    ]
