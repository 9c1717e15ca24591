"""What `hoodie adopt` changed of a table, or would change."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hoodie.model import table_config


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The adoption of a table.

    Attributes:
        table: Its URI.
        index: How writers find records, by Hudi's constant.
        buckets: Of a bucket index; None for another.
        time_zone: Of the timeline.
        is_done: Whether the table was changed; otherwise it was only compared.
        changes: Properties that the table lacked, with their values; none where it had them.
    """

    table: str
    index: str | None
    buckets: int | None
    time_zone: str
    is_done: bool
    changes: Mapping[str, str]


def document(
    uri: str, config: table_config.TableConfig, changes: Mapping[str, str], *, is_done: bool
) -> Document:
    """Return the document of an adoption."""
    return Document(
        table=uri,
        index=None if config.index_kind is None else config.index_kind.value,
        buckets=config.bucket_count,
        time_zone=config.zone.name,
        is_done=is_done,
        changes=changes,
    )


def lines(shown: Document) -> Iterator[str]:
    """Yield what is shown of it."""
    what = f"index {shown.index or 'not stated'}, times of {shown.time_zone}"
    if not shown.changes:
        yield f"{shown.table} states this already: {what}; nothing to change"
        return
    verb = "was adopted" if shown.is_done else "can be adopted"
    yield f"{shown.table} {verb}: {what}"
    for key, value in shown.changes.items():
        yield f"{key}={value}"
