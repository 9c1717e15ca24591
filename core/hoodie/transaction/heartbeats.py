"""Heartbeats: how others know that whoever works on an instant is alive (rules H1 to H3, C2, P1).

The file `.hoodie/.heartbeat/{requested time}` is touched every interval; its modification time is
the heartbeat. Silence for the expiry, or no file, means dead: others may then take the work back.

- Time is the store's: a file's age is measured against a file touched now on the same store (H1).
  Where the store rounds times, the age is the least that it can be.
- The owner judges itself by its own clock, which does not stop while the process is paused, and
  from before each touch: it never thinks itself alive longer than others do. Once it was silent for
  too long it is dead for good; the file is not touched again (C2).
- The first beat is written before the instant is on the timeline. Beats go on in the background
  while the owner works or waits for the lock.
- The file's content, which Apache Hudi neither writes nor reads, names the owner: it proves whose
  instant it is when an answer was lost, and lets a successor on the same machine see that the owner
  is dead without waiting for the expiry. A dead owner's file is taken over in one step (P1), by who
  executes its instant; a new instant never has the time of one that has a heartbeat.
- A process that is proved dead may have asked an object store for its completed file right before.
  There it counts as alive until an interval, in which it would have beaten once more, and the time
  that a request takes are over, if that is sooner than the expiry. Where its last beats had failed
  this is too short: `late_completions` ends the rollback that is met by the completed file then.

Source: `HoodieHeartbeatClient.java`, `HoodieHeartbeatUtils.java`; protocol.md: Heartbeats.
"""

import enum
import functools
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hoodie import clock, errors, identity
from hoodie.background.protocol import Background
from hoodie.model import instants, json_values, settings
from hoodie.storage.protocol import Storage
from hoodie.transaction import layout

logger = logging.getLogger(__name__)

_WRITE_TIMEOUT_MS_MAX = 10_000


NO_ROWS = "no rows"
"""The claim of a write that changes no row, as a service makes one (ADR 0050)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who works on an instant: the content of its heartbeat file.

    Attributes:
        name: For messages.
        write_id: Fresh for each write and each execution.
        process: Where it runs.
        author: Name of its author's attempt record; empty for an author without an id.
        claim: What it does to the table while it is at work, for those who want to work beside it;
            made and understood by `hoodie.write`. Empty for none; `NO_ROWS`.
    """

    name: str
    write_id: str
    process: identity.ProcessIdentity
    author: str = ""
    claim: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.process})"


class Liveness(enum.Enum):
    """What is known of an instant's owner."""

    BEATING = "beating"
    EXPIRED = "expired"  # Silent for too long.
    PROVED_DEAD = "proved dead"  # Of this machine, and its process and its requests are gone.
    MISSING = "missing"  # No file: never was, ended, or was taken back.

    @property
    def is_alive(self) -> bool:
        """Whether the owner must be left alone."""
        return self is Liveness.BEATING


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatStatus:
    """What was seen of an instant's heartbeat.

    Attributes:
        liveness: By the store's clock.
        owner: None when the file is missing, or of a writer that does not name itself.
        silence_ms: Since the last beat; None when the file is missing.
    """

    liveness: Liveness
    owner: Owner | None = None
    silence_ms: int | None = None


class Heartbeat:
    """The beating heart of one instant, until it is stopped or was silent for too long."""

    def __init__(
        self, storage: Storage, own_clock: clock.Clock, path: str, owner: Owner, expiry_ms: int
    ) -> None:
        """Take over a file that was just created or replaced with the owner as its content."""
        self._storage = storage
        self._clock = own_clock
        self._path = path
        self._owner = owner
        self._content = json_values.encode(owner)
        self._expiry_s = expiry_ms / 1000
        self._last_s = own_clock.monotonic_s()
        self._process_id = identity.process_id()
        self._is_dead = False
        self._is_in_doubt = False
        self._stop: Callable[[], None] = lambda: None

    def begin(self, background: Background, interval_s: float, last_s: float) -> None:
        """Beat every interval from now on; the first beat was begun at that moment."""
        self._last_s = last_s
        self._stop = background.every(interval_s, self._beat, name=f"heartbeat {self._path}").stop

    @property
    def owner(self) -> Owner:
        """Who it stands for."""
        return self._owner

    def is_alive(self) -> bool:
        """Return whether it never expired, by our own clock; no request.

        In a process that was forked since it never is alive: nothing beats there.
        """
        if not self._is_dead and self._clock.monotonic_s() - self._last_s >= self._expiry_s:
            self.kill("was silent for too long")
        if not self._is_dead and identity.process_id() != self._process_id:
            self.kill(f"stays with process {self._process_id}, from which this one was forked")
        return not self._is_dead

    def check(self) -> None:
        """Refuse to go on after it expired; no request.

        Raises:
            HeartbeatExpiredError: It did.
        """
        if not self.is_alive():
            raise errors.HeartbeatExpiredError(
                f"the heartbeat of {self._owner} expired: others may have removed its files"
            )

    def is_own(self) -> bool:
        """Return whether the file is there and still names us; one read."""
        try:
            return self._storage.read(self._path) == self._content
        except errors.NotFoundError:
            return False

    def kill(self, reason: str) -> None:
        """Be dead for good, leaving the file as it is: it expires by itself."""
        if not self._is_dead:
            logger.warning("%s/%s: %s %s", self._storage.uri, self._path, self._owner, reason)
        self._is_dead = True

    def doubt(self, reason: str) -> None:
        """Be dead for good, with something on its way to the storage: others are to wait for that.

        It has come, or will not come, when the file has expired.
        """
        self._is_in_doubt = True
        self.kill(reason)

    @property
    def is_in_doubt(self) -> bool:
        """Whether something of what it stands for may take effect yet."""
        return self._is_in_doubt

    def stop(self) -> None:
        """Stop beating; the file stays."""
        self._stop()

    def end(self) -> None:
        """Stop beating and delete the file, so that nobody waits for it to expire."""
        self._stop()
        self._is_dead = True
        self._storage.delete_all([self._path])

    def _beat(self) -> bool:
        """Touch the file, unless it is too late for that; return whether to go on."""
        if not self.is_alive():
            return False
        begun_s = self._clock.monotonic_s()
        try:
            info = self._storage.touch(self._path)
        except errors.HoodieError as error:
            logger.warning("%s: no heartbeat: %s", self._owner, error)
            return self.is_alive()
        if not self.is_alive():
            return False
        if info.size_bytes != len(self._content):
            self.kill("lost its heartbeat file to another")
            return False
        self._last_s = begun_s
        return True


class Watch:
    """Sees for the tasks of a process whether the write that they work for has its heartbeat.

    One that was judged dead must not open another file: what it writes would lie beside the files
    of whoever took its work over. A look holds for an interval, by a clock that goes on while the
    process is paused; so it costs a read an interval and process, not one a file.
    """

    def __init__(
        self,
        requested_time: instants.InstantTime,
        write_id: str,
        interval_ms: int,
        own_clock: clock.Clock,
    ) -> None:
        """Watch the heartbeat of an instant that this write began."""
        self._requested_time = requested_time
        self._write_id = write_id
        self._interval_s = interval_ms / 1000
        self._clock = own_clock
        self._seen_s: float | None = None

    def check(self, storage: Storage) -> None:
        """Refuse to go on without it; a read, unless there was one within the interval.

        Raises:
            HeartbeatExpiredError: The file is gone, or names another.
        """
        now_s = self._clock.monotonic_s()
        if self._seen_s is not None and now_s - self._seen_s < self._interval_s:
            return
        path = path_of(self._requested_time)
        content = _read(storage, path)
        owner = None if content is None else decode_owner(content, path)
        if owner is None or owner.write_id != self._write_id:
            found = f"is now of {owner}" if owner else "was deleted"
            raise errors.HeartbeatExpiredError(
                f"the heartbeat of instant {self._requested_time} of {storage.uri} {found}: the "
                "write was rolled back or taken over; no further file is written"
            )
        self._seen_s = now_s


@functools.lru_cache(maxsize=64)
def watch(requested_time: instants.InstantTime, write_id: str, interval_ms: int) -> Watch:
    """Return this process's watch over a write, by the machine's clock."""
    return Watch(requested_time, write_id, interval_ms, clock.SystemClock())


class Heartbeats:
    """A table's heartbeats: starts one's own, judges those of others."""

    def __init__(
        self,
        storage: Storage,
        own_clock: clock.Clock,
        background: Background,
        write_settings: settings.WriteSettings,
        is_proved_dead: Callable[[identity.ProcessIdentity], bool] = identity.is_proved_dead,
        *,
        is_only_watching: bool = False,
    ) -> None:
        """Take what beats, and by which interval and expiry.

        Args:
            storage: The table's.
            own_clock: By which a heartbeat judges itself.
            background: Runs the beats.
            write_settings: Interval and expiry; equal for everything that works on the table.
            is_proved_dead: Tells of processes of this machine.
            is_only_watching: For who must not write: others are judged by `own_clock`, and what is
                found is not to be acted upon without another look by the store's.
        """
        self._storage = storage
        self._clock = own_clock
        self._is_only_watching = is_only_watching
        self._background = background
        self._settings = write_settings
        self._is_proved_dead = is_proved_dead

    @property
    def expiry_ms(self) -> int:
        """Silence of this length is death."""
        return self._settings.heartbeat_expiry_ms

    def start(self, requested_time: instants.InstantTime, owner: Owner) -> Heartbeat:
        """Write the first beat of a new instant and begin; the caller holds the table lock.

        Raises:
            AlreadyExistsError: Another has taken that time, dead or alive.
            StorageError: The first beat could not be written.
        """
        begun_s = self._clock.monotonic_s()
        self._create(path_of(requested_time), json_values.encode(owner))
        return self._begin(requested_time, owner, begun_s)

    def take_over(self, requested_time: instants.InstantTime, owner: Owner) -> Heartbeat:
        """Write the first beat for a pending instant and begin; the caller holds the table lock.

        A dead owner's heartbeat is replaced.

        Raises:
            ConflictError: Somebody alive works on that instant; the message names it.
            StorageError: The first beat could not be written.
        """
        begun_s = self._clock.monotonic_s()
        content = json_values.encode(owner)
        try:
            self._create(path_of(requested_time), content)
        except errors.AlreadyExistsError:
            try:
                self._replace_dead(requested_time, content)
            except errors.NotFoundError as error:
                raise errors.ConflictError(
                    f"another process just stopped working on instant {requested_time}: {error}"
                ) from error
        return self._begin(requested_time, owner, begun_s)

    def look(self, requested_time: instants.InstantTime) -> HeartbeatStatus:
        """Return what is known of an instant's owner; three requests at most."""
        return self.look_at([requested_time])[requested_time]

    def look_at(
        self, requested_times: Iterable[instants.InstantTime]
    ) -> dict[instants.InstantTime, HeartbeatStatus]:
        """Return what is known of the owners of instants; two requests each, and one."""
        begun_s = self._clock.monotonic_s()
        found = {time: self._find(time) for time in requested_times}
        now_ms = 0
        if any(seen is not None for seen in found.values()):
            now_ms = self._now_since(begun_s)
        return {time: self._judge(seen, now_ms) for time, seen in found.items()}

    def silence_ms(self, paths: Iterable[str], directory: str) -> int | None:
        """Return how long ago any of some files was changed, by the store's clock.

        A request each and two.

        Args:
            paths: Of files that may be there.
            directory: All files below it count, too.

        Returns:
            None when there is no such file.
        """
        begun_s = self._clock.monotonic_s()
        changes = list(self._storage.list(directory, is_recursive=True))
        for path in paths:
            try:
                changes.append(self._storage.stat(path))
            except errors.NotFoundError:
                continue
        if not changes:
            return None
        return _silence_ms(
            self._now_since(begun_s), max(each.modified_before_ms for each in changes)
        )

    def _now_since(self, begun_s: float) -> int:
        """Return the store's time at which a look began, or a little earlier.

        Who looks may be paused meanwhile: that is not the silence of an owner.
        """
        now_ms = self._now_ms()
        return now_ms - math.ceil((self._clock.monotonic_s() - begun_s) * 1000)

    def _now_ms(self) -> int:
        if self._is_only_watching:
            return self._clock.now_ms()
        return self._storage.touch(layout.PROBE).modified_ms

    def _find(self, requested_time: instants.InstantTime) -> tuple[int, Owner | None] | None:
        """Return when an instant's heartbeat file was touched at the latest, and whom it names."""
        path = path_of(requested_time)
        try:
            beat_ms = self._storage.stat(path).modified_before_ms
            return beat_ms, decode_owner(self._storage.read(path), path)
        except errors.NotFoundError:
            return None

    def _judge(self, seen: tuple[int, Owner | None] | None, now_ms: int) -> HeartbeatStatus:
        if seen is None:
            return HeartbeatStatus(liveness=Liveness.MISSING)
        beat_ms, owner = seen
        silence_ms = _silence_ms(now_ms, beat_ms)
        if silence_ms >= self._settings.heartbeat_expiry_ms:
            liveness = Liveness.EXPIRED
        elif (
            owner is not None
            and silence_ms >= self._settled_ms()
            and self._is_proved_dead(owner.process)
        ):
            liveness = Liveness.PROVED_DEAD
        else:
            liveness = Liveness.BEATING
        return HeartbeatStatus(liveness=liveness, owner=owner, silence_ms=silence_ms)

    def _settled_ms(self) -> int:
        """Return after which silence no request of a dead owner is under way any more."""
        request_ms = self._storage.request_time_ms
        return self._settings.heartbeat_interval_ms + request_ms if request_ms else 0

    def _create(self, path: str, content: bytes) -> None:
        try:
            self._storage.create(path, content)
        except errors.HoodieError:
            if _read(self._storage, path) != content:
                raise  # Otherwise the answer to our own creation was lost.

    def _begin(
        self, requested_time: instants.InstantTime, owner: Owner, begun_s: float
    ) -> Heartbeat:
        path, expiry_ms = path_of(requested_time), self._settings.heartbeat_expiry_ms
        heartbeat = Heartbeat(self._storage, self._clock, path, owner, expiry_ms)
        heartbeat.begin(self._background, self._settings.heartbeat_interval_ms / 1000, begun_s)
        return heartbeat

    def _replace_dead(self, requested_time: instants.InstantTime, content: bytes) -> None:
        path = path_of(requested_time)
        version = self._storage.stat(path).version
        status = self.look(requested_time)
        if status.liveness.is_alive:
            raise errors.ConflictError(
                f"instant {requested_time} of {self._storage.uri} is owned by "
                f"{status.owner or 'another process'}, last sign of life "
                f"{status.silence_ms} ms ago"
            )
        try:
            self._storage.replace(path, content, if_match=version)
        except (errors.ConflictError, errors.StorageError):
            if _read(self._storage, path) != content:
                raise
        logger.info(
            "%s: %s is taken over from %s, which is %s",
            self._storage.uri,
            requested_time,
            status.owner or "another",
            status.liveness.value,
        )


def path_of(requested_time: instants.InstantTime) -> str:
    """Return the path of an instant's heartbeat file."""
    return f"{layout.HEARTBEATS}/{requested_time}"


def decode_owner(content: bytes, path: str) -> Owner | None:
    """Return whom a heartbeat file names; None for one of Apache Hudi's, which names nobody."""
    try:
        return json_values.decode(Owner, content, path)
    except errors.InvalidInputError:
        return None


def settings_refusal(
    write_settings: settings.WriteSettings, lock_session_ms: int
) -> errors.ConfigurationError | None:
    """Return why a heartbeat by these settings could expire though its owner is well (H3).

    Args:
        write_settings: Interval and misses.
        lock_session_ms: Silence after which the lock service gives up on a holder; 0 for none.
    """
    interval_ms = write_settings.heartbeat_interval_ms
    # A beat must be written well before the next one is due (H2).
    write_ms = min(interval_ms // 2, _WRITE_TIMEOUT_MS_MAX)
    least_ms = interval_ms + write_ms + lock_session_ms
    if write_settings.heartbeat_expiry_ms > least_ms:
        return None
    return errors.ConfigurationError(
        f"heartbeats expire after {write_settings.heartbeat_expiry_ms} ms, expected more than "
        f"{least_ms} ms: interval {interval_ms}, {write_ms} to write one, "
        f"lock session {lock_session_ms}"
    )


def _silence_ms(now_ms: int, beat_ms: int) -> int:
    return max(0, now_ms - beat_ms)


def _read(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except errors.NotFoundError:
        return None
