"""Telling what happens while the operator runs: a live table on a terminal, lines elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hoodie_operator.api import conditions, kinds, manifests, objects, times
from hoodie_operator.api.conditions import Type
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import decide

_STYLES = {Type.STALLED: "bold red", Type.RECONCILING: "yellow", Type.READY: "green"}


_PROGRESS_PERIOD_MS = 2_000
_SAME_UNTIL_NEXT_STATE = frozenset({State.STARTING.value, State.PENDING.value})


class Reporter(Protocol):
    """Hears what changes."""

    def changed(self, before: conditions.Status, after: objects.AnyObject, now_ms: int) -> None:
        """Hear that an object's status changed."""
        ...

    def told(self, message: str, now_ms: int) -> None:
        """Hear something that is about no single object."""
        ...

    def round_ended(self, found: Mapping[objects.ObjectKey, objects.AnyObject]) -> None:
        """Hear how everything stands."""
        ...

    def close(self) -> None:
        """End; what stands is left on the screen."""
        ...


class Lines:
    """One line a change, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress_ms: dict[str, int] = {}

    def changed(self, before: conditions.Status, after: objects.AnyObject, now_ms: int) -> None:
        """Print the change; of mere progress some of it."""
        ready = after.status.condition(Type.READY)
        if ready is None:
            return
        old = before.condition(Type.READY)
        if old is not None and before.state == after.status.state:
            if before.state in _SAME_UNTIL_NEXT_STATE or old.message == ready.message:
                return
            if before.state == State.RUNNING.value and self._is_too_soon(after.uid, now_ms):
                return
        state = after.status.state or ""
        reason = "" if ready.reason == state else f" {ready.reason}"
        self.told(f"{after.key}: {state}{reason}: {ready.message}", now_ms)

    def _is_too_soon(self, uid: str, now_ms: int) -> bool:
        if now_ms - self._progress_ms.get(uid, 0) < _PROGRESS_PERIOD_MS:
            return True
        self._progress_ms[uid] = now_ms
        return False

    def told(self, message: str, now_ms: int) -> None:
        """Print the message with the time."""
        self._console.print(
            f"{times.text(now_ms)[11:]} {message}", markup=False, highlight=False, soft_wrap=True
        )

    def round_ended(self, found: Mapping[objects.ObjectKey, objects.AnyObject]) -> None:
        """Nothing: the lines have told."""

    def close(self) -> None:
        """Nothing."""


class Screen:
    """A table that follows what happens, below the lines of what is done."""

    def __init__(self, console: Console) -> None:
        self._lines = Lines(console)
        self._live = Live(console=console, refresh_per_second=4, transient=False)
        self._live.start()

    def changed(self, before: conditions.Status, after: objects.AnyObject, now_ms: int) -> None:
        """Print what is worth a line of its own: an end, good or bad."""
        is_end = after.status.is_true(Type.STALLED) or after.status.is_true(Type.READY)
        if is_end and before.state != after.status.state:
            self._lines.changed(before, after, now_ms)

    def told(self, message: str, now_ms: int) -> None:
        """Print the message above the table."""
        self._lines.told(message, now_ms)

    def round_ended(self, found: Mapping[objects.ObjectKey, objects.AnyObject]) -> None:
        """Draw the table."""
        grid = Table(box=None, pad_edge=False, expand=True)
        for heading, width in (("KIND", 6), ("NAME", 28), ("STATE", 12), ("WHAT", None)):
            ratio = 1 if width is None else None
            grid.add_column(heading, width=width, ratio=ratio, no_wrap=True, overflow="ellipsis")
        for each in ordered(found):
            ready = each.status.condition(Type.READY)
            grid.add_row(
                kinds.BY_NAME[each.key.kind].short_word,
                each.name,
                Text(each.status.state or "", style=_style(each.status)),
                Text(ready.message if ready else ""),
            )
        self._live.update(grid)

    def close(self) -> None:
        """Leave the last table."""
        self._live.stop()


def reporter(console: Console) -> Reporter:
    """Return what fits the console."""
    return Screen(console) if console.is_terminal else Lines(console)


def ordered(
    found: Mapping[objects.ObjectKey, objects.AnyObject],
) -> list[objects.AnyObject]:
    """Return objects in the order in which people look at them."""
    return sorted(
        found.values(), key=lambda each: (decide.ORDER.index(each.key.kind), each.seniority)
    )


def made_for(
    found: objects.AnyObject, everything: Iterable[objects.AnyObject]
) -> list[objects.AnyObject]:
    """Return those of all objects that were made for one."""
    return [each for each in everything if each.owner and each.owner.uid == found.uid]


def problems_text(problems: Sequence[manifests.Problem]) -> str:
    """Return problems as lines."""
    return "\n".join(str(problem) for problem in problems)


def _style(status: conditions.Status) -> str:
    return next((style for each, style in _STYLES.items() if status.is_true(each)), "")
