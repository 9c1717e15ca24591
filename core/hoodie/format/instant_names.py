"""Names of the files that instants are on the timeline (timeline layout 2).

    requested   {requested time}.{action}.requested; a savepoint has none
    inflight    {requested time}.{action}.inflight; a commit's is `{requested time}.inflight`
    completed   {requested time}_{completion time}.{action}, as the completed action

A time of 14 digits stays as it is in the names of all files of its instant.

Whatever has another name is no instant, as it is none for Hudi: among them are the temporary names
that files are written under before they appear. Source: `InstantFileNameGeneratorV2.java`,
`InstantGeneratorV2.java`.
"""

import functools
import re

from hoodie import errors
from hoodie.model import instants

_NAME = re.compile(
    r"(?P<requested>\d{14}(?:\d{3})?)(?:_(?P<completion>\d{14}(?:\d{3})?))?\.(?P<suffix>[a-z.]+)",
    re.ASCII,
)


@functools.cache
def _suffix(action: instants.Action, state: instants.State) -> str | None:
    """Return what follows the times in the name of an action in a state; None when it has none."""
    if state is instants.State.COMPLETED:
        return action.value if action.completed is action else None
    if action is instants.Action.COMMIT and state is instants.State.INFLIGHT:
        return "inflight"
    if action is instants.Action.SAVEPOINT and state is instants.State.REQUESTED:
        return None
    return f"{action.value}.{state.value}"


_MEANINGS = {
    suffix: (action, state)
    for action in instants.Action
    for state in instants.State
    if (suffix := _suffix(action, state)) is not None
}


def file_name(instant: instants.Instant) -> str:
    """Return the name of the file that puts an instant into its state."""
    suffix = _suffix(instant.action, instant.state)
    assert suffix is not None, instant
    completed = instant.short_completion or instant.completion_time
    completion = f"_{completed}" if instant.is_completed else ""
    return f"{instant.short_name or instant.requested_time}{completion}.{suffix}"


@functools.lru_cache(maxsize=1 << 16)
def parse(name: str) -> instants.Instant | None:
    """Return the instant and state that a name in `.hoodie/timeline/` says; None for other names.

    Raises:
        UnsupportedError: A completed instant without completion time, as timelines of layout 1
            hold. Hudi counts it as completed, so it must not be overlooked.
    """
    # Remembered: every lock scope lists the timeline anew, and most of its names were there before.
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    requested, completion, suffix = match.groups()
    meaning = _MEANINGS.get(suffix)
    if meaning is None:
        return None
    action, state = meaning
    if state is not instants.State.COMPLETED and completion is not None:
        return None
    if state is instants.State.COMPLETED and completion is None:
        raise errors.UnsupportedError(
            f"instant {name} of timeline layout 1 is not read, "
            f"expected {requested}_{{completion time}}.{action.value}"
        )
    return instants.Instant(
        requested_time=instants.whole_time(requested),
        action=action,
        state=state,
        completion_time=instants.whole_time(completion) if completion else None,
        short_name=instants.short_text(requested),
        short_completion=instants.short_text(completion) if completion else None,
    )
