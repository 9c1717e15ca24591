"""Full paths of files in metadata on the timeline: as Hudi writes them, a local one has no scheme.

What is read of one is the partition and the last part, so that a table that was moved is served,
and a path that leads out of the table is refused. Source: format.md: Paths in metadata.
"""

from hoodie import errors
from hoodie.format import avro_values

_LOCAL_SCHEME = "file://"


def of(table_uri: str, path: str) -> str:
    """Return the full path of a path below a table's root."""
    if table_uri.startswith(_LOCAL_SCHEME):
        # Our URIs of local tables escape the percent sign, and nothing else.
        table_uri = table_uri.removeprefix(_LOCAL_SCHEME).replace("%25", "%")
    return f"{table_uri}/{path}"


def name_in(record: avro_values.Record, partition_path: str, path: str) -> str:
    """Return the bare name of a file whose full path stands in a plan.

    Raises:
        FormatError: It is not in that partition, or leads out of the table.
    """
    directory, _, name = path.rpartition("/")
    is_there = not partition_path or directory.endswith(f"/{partition_path}")
    if not is_there or not name or ".." in partition_path.split("/"):
        raise errors.FormatError(
            f"{record.source}: names {path!r}, expected a file of partition {partition_path!r}"
        )
    return name
