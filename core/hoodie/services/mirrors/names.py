"""What the folder of a mirror and its consumer are called.

Nothing else is imported here: an API of the operator names mirrors, and looks at none.
"""

import hashlib
import re

FOLDER = "metadata"
"""Where a mirror lies below the table's root: where engines look for metadata of Iceberg."""

CONSUMER = "iceberg-mirror"
"""The consumer of the mirror in the folder, by which cleaning keeps the files that it names."""

_CATALOG_HINT = "current-metadata.text"
"""Names the newest metadata that a catalog took: others may lie beside it that it did not."""

_NAME_PARTS = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)
_NAME_LENGTH_MAX = 39


def consumer_of(catalog: str, table: str) -> str:
    """Return the consumer of a mirror in a catalog.

    Of two mirrors of one table each has its own, and a folder of its own with it (`folder_of`): a
    run deletes files there that its mirror does not name.

    Args:
        catalog: As it was given: a name or a URI.
        table: The mirror's name in the catalog.
    """
    plain = _NAME_PARTS.sub("-", table)[:_NAME_LENGTH_MAX]
    digest = hashlib.sha256(f"{catalog}\n{table}".encode()).hexdigest()[:8]
    return f"{CONSUMER}.{plain}.{digest}"


def folder_of(consumer: str) -> str:
    """Return where the metadata of a mirror lie, below the table's root."""
    return f"{FOLDER}/{consumer.removeprefix(CONSUMER)[1:]}".removesuffix("/")


def catalog_hint_of(consumer: str) -> str:
    """Return the file that names the newest metadata of a mirror in a catalog."""
    return f"{folder_of(consumer)}/{_CATALOG_HINT}"
