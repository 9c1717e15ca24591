"""What a writer takes up at its next batch, without being stopped.

The first settings of a run stand in its spec. Later ones are in a file beside it, which the run
reads before each batch. Every commit carries the hash of the settings it was made under.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hoodie.model import compaction_options, json_values


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """The settings of one batch.

    Attributes:
        hash: Of all of them, as the operator computes it; empty where there is no operator.
        compaction: Which compactions are planned after the commit, by the keys of
            `compaction_options`; none for none.
    """

    hash: str = ""
    compaction: Mapping[str, str] = field(default_factory=dict)


def encode(settings: BatchSettings) -> bytes:
    """Return the content of a file."""
    return json_values.encode(settings)


def decode(content: bytes, source: str) -> BatchSettings:
    """Return the settings in a file's content.

    Raises:
        ConfigurationError: An option of compaction is unknown, or has another value.
        InvalidInputError: The content does not fit; the message names source and field.
    """
    found = json_values.decode(BatchSettings, content, source)
    compaction_options.from_properties(found.compaction)
    return found
