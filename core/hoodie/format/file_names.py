"""Names of data files and of their markers.

    base file  {file id}_{write token}_{instant time}.parquet
    log file   .{file id}_{instant time}.log.{version}_{write token}
               with `.cdc` behind it of change data
    marker     {data file}.marker.{CREATE|MERGE}, in `.hoodie/.temp/{instant}/{partition path}/`

The instant time is the requested time of the write that made the file; for log files that is so
since table version 8. The write token, `{task}-{stage}-{attempt}`, makes the files of a repeated
task distinct. Source: `org/apache/hudi/common/fs/FSUtils.java` (BASE_FILE_PATTERN,
LOG_FILE_PATTERN).
"""

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from hoodie.model import files, instants

PARQUET = ".parquet"
PARTITION_METADATA = ".hoodie_partition_metadata"
"""The file that makes a directory a partition; others' may be in the base files' format."""

CHANGE_DATA = ".cdc"
"""The end of a log file's name that holds change data, which no normal read looks at."""

PARTITION_METADATA_NAMES = frozenset(
    (PARTITION_METADATA, *(f"{PARTITION_METADATA}{extension}" for extension in (PARQUET, ".orc")))
)
"""Names of files that make their directories partitions; see `is_partition_metadata`."""

_TIME = r"(\d{14}(?:\d{3})?)"
_REST_OF_BASE = rf"_([a-zA-Z0-9-]+)_{_TIME}(\.[a-zA-Z0-9]+)"
_BASE_FILE_ID = r"[a-zA-Z0-9-]+"
_BASE_NAME = rf"({_BASE_FILE_ID}){_REST_OF_BASE}"
# Log files before 0.6 have no write token.
_LOG_NAME = rf"\.([^\0\n]+)_{_TIME}\.log\.(\d{{1,9}})(?:_(\d+-\d+-\d+))?"
_BASE = re.compile(_BASE_NAME, re.ASCII)
# File groups of a record index are named after partitions of the data table.
_INDEX_BASE = re.compile(rf"([^\0\n_/]+){_REST_OF_BASE}", re.ASCII)
_LOG = re.compile(_LOG_NAME, re.ASCII)
_ANY_NAME = rf"{_LOG_NAME}({re.escape(CHANGE_DATA)})?|{_BASE_NAME}"
_ANY = re.compile(_ANY_NAME, re.ASCII)
# Those of many names, separated by null characters.
_MANY = re.compile(rf"(?:\A|\0)({_ANY_NAME})(?=\0|\Z)", re.ASCII)
_MARKER = re.compile(r"(?P<data_file>.+)\.marker\.(?:CREATE|MERGE|APPEND)")
_FILE_ID = re.compile(r"[^\0\n_/]+")
_TOKEN = re.compile(r"\d+-\d+-\d+", re.ASCII)


def is_base_file_id(text: str) -> bool:
    """Return whether a text can be the id of a file group with base files, or begin one."""
    return re.fullmatch(_BASE_FILE_ID, text, re.ASCII) is not None


def write_token(task: int, stage: int, attempt: int) -> str:
    """Return the token that tells a task's attempt from every other one's."""
    return f"{task}-{stage}-{attempt}"


def base_file_name(
    file_id: str,
    token: str,
    instant_time: instants.InstantTime,
    extension: str = PARQUET,
) -> str:
    """Return the name of a base file."""
    assert _FILE_ID.fullmatch(file_id), file_id
    assert _TOKEN.fullmatch(token), token
    return f"{file_id}_{token}_{instant_time}{extension}"


def log_file_name(
    file_id: str, instant_time: instants.InstantTime, version: int, token: str
) -> str:
    """Return the name of a log file; versions count from `files.LOG_VERSION_FIRST`."""
    assert _FILE_ID.fullmatch(file_id), file_id
    assert _TOKEN.fullmatch(token), token
    assert version >= files.LOG_VERSION_FIRST, version
    return f".{file_id}_{instant_time}.log.{version}_{token}"


def change_data_name(
    file_id: str, instant_time: instants.InstantTime, version: int, token: str
) -> str:
    """Return the name of a log file of change data."""
    return log_file_name(file_id, instant_time, version, token) + CHANGE_DATA


def as_log_file(path: str) -> str:
    """Return a file's path, that of a log file of change data as if it held data."""
    return path.removesuffix(CHANGE_DATA)


def is_partition_metadata(name: str) -> bool:
    """Return whether a file of that name makes its directory a partition.

    Source: `HoodiePartitionMetadata.java`; `hoodie.partition.metafile.use.base.format`.
    """
    return name in PARTITION_METADATA_NAMES


REMEMBERED_MAX = 1 << 14
"""`parse` remembers so many files. A look at more of them finds none of these again."""


@functools.lru_cache(maxsize=REMEMBERED_MAX)
def parse(
    path: str, size_bytes: int, extension: str = PARQUET
) -> files.BaseFile | files.LogFile | None:
    """Return what a file's path says; None for anything but a base file or a log file.

    Args:
        path: Below the table root.
        size_bytes: Its length, for the value.
        extension: Of the table's base files; those of other formats are no base files of it.
    """
    # Remembered: who looks at a table again finds most of its files there that were there before.
    return parse_new(path, size_bytes, extension)


def parse_new(
    path: str, size_bytes: int, extension: str = PARQUET
) -> files.BaseFile | files.LogFile | None:
    """Return the same as `parse`, without remembering it: for one of very many files."""
    partition_path, _, name = path.rpartition("/")
    if name.startswith("."):
        return _parse_log(partition_path, name, size_bytes)
    base = (_BASE if extension == PARQUET else _INDEX_BASE).fullmatch(name)
    if base is None:
        return None
    file_id, token, time, found = base.groups()
    if found != extension:
        return None
    return files.BaseFile(
        group=_group(partition_path, file_id),
        name=name,
        instant_time=_padded(time),
        write_token=token,
        size_bytes=size_bytes,
    )


def _parse_log(partition_path: str, name: str, size_bytes: int) -> files.LogFile | None:
    log = _LOG.fullmatch(name)
    if log is None:
        return None
    file_id, time, version, token = log.groups()
    return files.LogFile(
        group=_group(partition_path, file_id),
        name=name,
        instant_time=_padded(time),
        version=int(version),
        write_token=token or "",
        size_bytes=size_bytes,
    )


def is_data_file(name: str) -> bool:
    """Return whether a file of that name is a base file in Parquet, or a log file of any data."""
    match = _ANY.fullmatch(name)
    return match is not None and match[_ANY.groups] in (None, PARQUET)


ByInstant: TypeAlias = dict[instants.InstantTime, tuple[str, ...]]
"""Names of files by the instant time in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileNames:
    """Names of data files by file id and instant time, those of one place in their given order.

    Attributes:
        base_files: Of base files in Parquet.
        log_files: Of log files.
        change_data: Of log files of change data.
    """

    base_files: dict[str, ByInstant] = field(default_factory=dict)
    log_files: dict[str, ByInstant] = field(default_factory=dict)
    change_data: dict[str, ByInstant] = field(default_factory=dict)


def data_files_among(names: Iterable[str]) -> DataFileNames:
    """Return those of many names that are data files', sorted into what they say.

    It takes a fraction of what `parse_new` does, which makes a value of each.
    """
    found = DataFileNames()
    for parts in _MANY.findall("\0".join(names)):
        name, log_id, log_time, _, _, is_change_data, base_id, _, base_time, extension = parts
        if log_id:
            by_file_id = found.change_data if is_change_data else found.log_files
            file_id, time = log_id, log_time
        elif extension == PARQUET:
            by_file_id, file_id, time = found.base_files, base_id, base_time
        else:
            continue
        by_instant = by_file_id.get(file_id)
        if by_instant is None:
            by_instant = by_file_id[file_id] = {}
        time = _padded(time)
        before = by_instant.get(time)
        by_instant[time] = (name,) if before is None else (*before, name)
    return found


_group = functools.lru_cache(maxsize=REMEMBERED_MAX)(files.FileGroupId)
"""Makes one value for all files of a file group."""

# A table has few instants, and many files of each.
_padded = functools.lru_cache(maxsize=REMEMBERED_MAX)(instants.checked_time)


def marker_name(data_file_name: str, kind: str = "CREATE") -> str:
    """Return the name of a data file's marker.

    Log files are marked CREATE, too: since table version 8 an APPEND marker stops Hudi's rollback.
    """
    assert kind in ("CREATE", "MERGE"), kind
    return f"{data_file_name}.marker.{kind}"


def marked_file(marker: str) -> str | None:
    """Return the name or path of the data file that a marker's name or path is of, if it is one."""
    match = _MARKER.fullmatch(marker)
    return match["data_file"] if match else None
