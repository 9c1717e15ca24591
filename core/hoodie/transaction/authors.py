"""Who changes a table: a writer's or an action's run, and the ids it leaves on the timeline.

In the extra metadata of inflights, plans and commits stand, as far as they apply, the ids of writer
or action, attempt and batch, and an id of this very write, by which its author knows it again;
their keys are those of `hoodie.model.commits`.
"""

import urllib.parse
from dataclasses import dataclass

from hoodie import errors
from hoodie.model import commits

_ID_LENGTH_MAX = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """On whose behalf a process changes a table.

    Attributes:
        writer_id: Unique among the table's writers; None for a table service.
        action_id: The TableAction; None for a writer, and for a service that nobody fences.
        attempt: Counts from 1; a higher one takes the place of a lower one.
    """

    writer_id: str | None = None
    action_id: str | None = None
    attempt: int = 1

    def __post_init__(self) -> None:
        for name, text in (("writer", self.writer_id), ("action", self.action_id)):
            if text is not None and not 0 < len(text) <= _ID_LENGTH_MAX:
                raise errors.InvalidInputError(
                    f"{name} id {text[:_ID_LENGTH_MAX]!r} has {len(text)} characters, "
                    f"expected 1 to {_ID_LENGTH_MAX}"
                )

    @property
    def record_name(self) -> str | None:
        """The name of the author's attempt record; None for one without an id."""
        for kind, text in (("writer", self.writer_id), ("action", self.action_id)):
            if text is not None:
                return f"{kind}-{urllib.parse.quote(text, safe='')}"
        return None

    def __str__(self) -> str:
        for kind, text in (("writer", self.writer_id), ("action", self.action_id)):
            if text is not None:
                return f"{kind} {text}"
        return "an unnamed process"


def action_of(record_name: str) -> str | None:
    """Return the action whose attempt record has a name; None for that of a writer."""
    kind, _, text = record_name.partition("-")
    return urllib.parse.unquote(text) if kind == "action" else None


def extra_metadata(author: Author, write_id: str, batch_id: str | None = None) -> dict[str, str]:
    """Return what an author puts into the extra metadata of its instants."""
    ids = {
        commits.WRITE_ID_KEY: write_id,
        commits.WRITER_ID_KEY: author.writer_id,
        commits.ACTION_ID_KEY: author.action_id,
        commits.ATTEMPT_KEY: str(author.attempt),
        commits.BATCH_ID_KEY: batch_id,
    }
    return {key: text for key, text in ids.items() if text is not None}


def checked_batch_id(batch_id: str) -> str:
    """Return a batch id if it is one.

    Raises:
        InvalidInputError: It is empty or too long to stand in every commit.
    """
    if not 0 < len(batch_id) <= _ID_LENGTH_MAX:
        raise errors.InvalidInputError(
            f"batch id {batch_id[:_ID_LENGTH_MAX]!r} has {len(batch_id)} characters, "
            f"expected 1 to {_ID_LENGTH_MAX}"
        )
    return batch_id
