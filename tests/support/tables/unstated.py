"""Tables that say as little of themselves as Apache Hudi's do."""

from collections.abc import Mapping
from pathlib import Path

from hoodie import environment
from hoodie.model import table_config
from hoodie.timeline import table_properties


def forget_index(path: Path) -> None:
    """Take from a table what Apache Hudi does not store: its index."""
    stored = (
        table_config.INDEX_KEY,
        table_config.BUCKET_COUNT_KEY,
        table_config.HASH_FIELDS_KEY,
    )
    put(path, dict.fromkeys(stored))


def put(path: Path, changes: Mapping[str, str | None]) -> None:
    """Change properties of a table, as another program may; None takes one out."""
    env = environment.system()
    storage = env.open_storage(str(path))
    table_properties.update(storage, changes, env.clock, lambda: None)
