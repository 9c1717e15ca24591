"""A lock that is a file, at the path of Apache Hudi's `FileSystemBasedLockProvider`.

Whoever creates the file has the lock, whoever removes it gives it back; so programs of both kinds
exclude each other. Ours is a JSON object: who, in which process, since when, and the fencing token.

- Removing is a move to `lock.last`, of exactly the version that was seen: of several who find the
  same dead holder's file one moves it, and a new holder's file stays. It also keeps the last token.
- A token is greater than the last one and than the wall clock's milliseconds at the time it was
  taken, so that it grows even where `lock.last` was lost or a program that knows none came between.
- A holder proved dead on this machine is replaced at once. Any other, one from before the machine
  was restarted included, and a file that is not ours (Apache Hudi's is empty or a text of its own),
  only after the configured expiry.
- Apache Hudi removes the file when it closes a provider, whosever it is, and creates it without
  excluding others for some microseconds: `is_held` tells a holder whose file went or changed.

Source: `org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider`.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Protocol, runtime_checkable

from hoodie import clock, errors, identity
from hoodie.storage.protocol import FileInfo
from hoodie.transaction.locks import polling
from hoodie.transaction.locks.inspection import Holder, Holding, Liveness
from hoodie.transaction.locks.protocol import LockOwner

logger = logging.getLogger(__name__)

DEFAULT_PATH = ".hoodie/lock"

_MARGIN_MAX_S = 10.0
_TEXT_MAX = 200

_LIVENESS: Mapping[identity.ProcessState, tuple[Liveness, str]] = {
    identity.ProcessState.RUNNING: (Liveness.ALIVE, "its process runs on this machine"),
    identity.ProcessState.ENDED: (Liveness.DEAD, "its process, of this machine, has ended"),
    identity.ProcessState.UNKNOWN: (
        Liveness.MAYBE,
        "its process belongs to another machine, boot or container and cannot be inspected here",
    ),
}


@runtime_checkable
class LockFiles(Protocol):
    """What the lock asks of a file system; an object store cannot move, and has no such lock."""

    @property
    def uri(self) -> str:
        """Where the files are."""
        ...

    def stat(self, path: str) -> FileInfo:
        """Return what is known of a file."""
        ...

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        ...

    def create_volatile(self, path: str, content: bytes) -> FileInfo:
        """Create a file atomically; a crash of the machine may lose it."""
        ...

    def replace(self, path: str, content: bytes, *, if_match: str) -> FileInfo:
        """Replace a file's content, if its version is still `if_match`."""
        ...

    def move(self, path: str, destination: str, *, if_match: str) -> None:
        """Give a file another name, deleting what has it, if its version is still `if_match`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The content of a lock file.

    Attributes:
        owner: Who has the lock.
        token: The fencing token.
        taken_ms: When it was taken, by the holder's wall clock.
    """

    owner: LockOwner
    token: int
    taken_ms: int


def encode(claim: Claim) -> bytes:
    """Return a claim as JSON."""
    fields = {
        "owner": claim.owner.id,
        "name": claim.owner.name,
        **asdict(claim.owner.process),
        "token": claim.token,
        "taken_ms": claim.taken_ms,
    }
    return json.dumps(fields).encode()


def decode(content: bytes) -> Claim | None:
    """Return the claim in a lock file; None for what another program wrote."""
    try:
        fields = json.loads(content)
        process = identity.ProcessIdentity(
            host=str(fields["host"]),
            boot_id=str(fields["boot_id"]),
            pid_namespace=str(fields["pid_namespace"]),
            pid=int(fields["pid"]),
            start_ticks=int(fields["start_ticks"]),
        )
        owner = LockOwner(id=str(fields["owner"]), name=str(fields["name"]), process=process)
        return Claim(owner=owner, token=int(fields["token"]), taken_ms=int(fields["taken_ms"]))
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hold:
    version: str
    token: int
    since_s: float


class FileSystemLock:
    """One transaction's access."""

    def __init__(  # noqa: PLR0913 - all of it is passed in, by keyword
        self,
        files: LockFiles,
        owner: LockOwner,
        *,
        path: str = DEFAULT_PATH,
        expiry_s: float | None = None,
        polls: polling.Polling,
        waiting_clock: clock.Clock,
        random: identity.Random,
        state_of: Callable[[identity.ProcessIdentity], identity.ProcessState] = identity.state_of,
    ) -> None:
        """Take the directory, and who we are.

        Args:
            files: Where the lock is.
            owner: Who takes it.
            path: Of the lock file.
            expiry_s: Age at which a file may be taken over whoever made it; None is never.
            polls: How often to look while another has it.
            waiting_clock: For waiting and for the age of files: the writers' clocks and the file
                system's must agree as far as the expiry is meant to be exact.
            random: Jitter, so that those who wait do not march in step.
            state_of: Tells of processes of this machine.
        """
        self._files = files
        self._owner = owner
        self._path = path
        self._last_path = f"{path}.last"
        self._expiry_s = expiry_s
        self._polls = polls
        self._clock = waiting_clock
        self._random = random
        self._state_of = state_of
        self._hold: _Hold | None = None

    @property
    def description(self) -> str:
        """The lock in words."""
        return f"lock file {self._files.uri}/{self._path}"

    def acquire(self, wait_s: float) -> None:
        """Take the lock, waiting no longer than that."""
        if self._hold is not None:
            raise errors.InvalidInputError(f"{self._owner} already holds the {self.description}")
        waiting = polling.Waiting(self._polls, wait_s, self._clock, self._random)
        while not self._take():
            if self._cleared():
                continue
            if not waiting.pause():
                raise errors.LockTimeoutError(
                    f"{self._owner} timed out after {wait_s:g} s waiting for the "
                    f"{self.description}: "
                    f"{self._holder()}"
                )

    def _take(self) -> bool:
        claim = self._next_claim()
        # Before the file is there: it counts from the moment others may see it.
        since_s = self._clock.monotonic_s()
        try:
            info = self._files.create_volatile(self._path, encode(claim))
        except errors.AlreadyExistsError:
            return False
        except errors.HoodieError:
            self._withdraw()
            raise
        self._hold = _Hold(version=info.version, token=claim.token, since_s=since_s)
        try:
            if self._last_token() >= claim.token:
                # Somebody had the lock between our look at the last token and our taking it.
                claim = self._next_claim()
                info = self._files.replace(self._path, encode(claim), if_match=info.version)
                self._hold = _Hold(version=info.version, token=claim.token, since_s=since_s)
        except BaseException:
            self._withdraw()
            raise
        return True

    def _withdraw(self) -> None:
        """Remove our file, if there is one, after a failure that left it unknown."""
        self._hold = None
        try:
            info = self._files.stat(self._path)
            claim = decode(self._files.read(self._path))
            if claim is not None and claim.owner.id == self._owner.id:
                self._files.move(self._path, self._last_path, if_match=info.version)
        except errors.NotFoundError:
            return  # It was not created, or is gone.
        except errors.HoodieError:
            logger.warning("%s may have left the %s behind", self._owner, self.description)

    def _next_claim(self) -> Claim:
        now_ms = self._clock.now_ms()
        token = max(self._last_token() + 1, now_ms)
        return Claim(owner=self._owner, token=token, taken_ms=now_ms)

    def _last_token(self) -> int:
        try:
            claim = decode(self._files.read(self._last_path))
        except errors.NotFoundError:
            return 0
        return claim.token if claim is not None else 0

    def _cleared(self) -> bool:
        """Remove the file of a holder that is dead or expired; whether the lock may be free now."""
        try:
            info = self._files.stat(self._path)
            claim = decode(self._files.read(self._path))
        except errors.NotFoundError:
            return True
        if claim is not None and self._state_of(claim.owner.process) is identity.ProcessState.ENDED:
            reason = "has died"
        elif self._is_too_old(info):
            reason = f"has held it for {self._age_s(info):.0f} s"
        else:
            return False
        try:
            self._files.move(self._path, self._last_path, if_match=info.version)
        except errors.ConflictError:
            return True  # Another was quicker, or it was given back.
        logger.warning(
            "%s takes over the %s: %s %s",
            self._owner,
            self.description,
            claim.owner if claim else "a holder that left no name",
            reason,
        )
        return True

    def _age_s(self, info: FileInfo) -> float:
        return (self._clock.now_ms() - info.modified_ms) / 1000

    def _is_too_old(self, info: FileInfo) -> bool:
        return self._expiry_s is not None and self._age_s(info) > self._expiry_s

    def holding(self) -> Holding | None:
        """Return who has the lock, by the lock file and the processes of this machine."""
        try:
            info = self._files.stat(self._path)
            content = self._files.read(self._path)
        except errors.NotFoundError:
            return None
        claim = decode(content)
        if claim is None:
            holder, since_ms = _stranger(content, info), info.modified_ms
            liveness, evidence = Liveness.MAYBE, "a writer of another kind left the file"
        else:
            process = claim.owner.process
            holder = Holder(
                id=claim.owner.id, name=claim.owner.name, host=process.host, pid=process.pid
            )
            since_ms = claim.taken_ms
            liveness, evidence = _LIVENESS[self._state_of(process)]
        if self._is_too_old(info):
            liveness, evidence = Liveness.DEAD, f"{evidence}; {self._expiry_text(info)}"
        return Holding(
            holder=holder,
            since_ms=since_ms,
            liveness=liveness,
            evidence=evidence,
            release=self._release_text(liveness),
            version=info.version,
        )

    def _expiry_text(self, info: FileInfo) -> str:
        return f"the file is {self._age_s(info):.0f} s old and expires after {self._expiry_s:g} s"

    def _release_text(self, liveness: Liveness) -> str:
        if liveness is Liveness.DEAD:
            return "the next waiting process takes it over at once"
        if self._expiry_s is not None:
            return f"the holder releases it, or the file reaches an age of {self._expiry_s:g} s"
        if liveness is Liveness.ALIVE:
            return "the holder releases it, or its process ends"
        return (
            "the holder releases it, or `hoodie lock break` removes it after the death of the "
            "holder: "
            "this lock has no expiry"
        )

    def take_away(self, found: Holding) -> bool:
        """Move exactly the file that was seen."""
        try:
            self._files.move(self._path, self._last_path, if_match=found.version)
        except errors.ConflictError:
            return False
        return True

    def _holder(self) -> str:
        try:
            claim = decode(self._files.read(self._path))
        except errors.HoodieError:
            return "it was released just now, and another process acquired it"
        if claim is None:
            return "held by a writer that left no name, as Apache Hudi's do"
        held_s = (self._clock.now_ms() - claim.taken_ms) / 1000
        return f"held by {claim.owner} for {held_s:.1f} s"

    def release(self) -> None:
        """Give the lock back, if the file is still ours."""
        hold, self._hold = self._hold, None
        if hold is None:
            raise errors.InvalidInputError(f"{self._owner} does not hold the {self.description}")
        try:
            self._files.move(self._path, self._last_path, if_match=hold.version)
        except errors.ConflictError:
            logger.warning("%s had lost the %s before releasing it", self._owner, self.description)

    def is_held(self) -> bool:
        """Return whether the file is still ours and not about to expire."""
        if self._hold is None:
            return False
        if self._expiry_s is not None:
            margin_s = min(self._expiry_s / 10, _MARGIN_MAX_S)
            held_s = self._clock.monotonic_s() - self._hold.since_s
            if held_s > self._expiry_s - margin_s:
                return False
        try:
            return self._files.stat(self._path).version == self._hold.version
        except errors.HoodieError:
            return False

    @property
    def fencing_token(self) -> int:
        """The token in the lock file."""
        if self._hold is None:
            raise errors.LockLostError(f"{self._owner} does not hold the {self.description}")
        return self._hold.token

    def close(self) -> None:
        """Give the lock back if it is taken."""
        if self._hold is not None:
            self.release()


def _stranger(content: bytes, info: FileInfo) -> Holder:
    text = content.decode(errors="replace")[:_TEXT_MAX]
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    return Holder(id=info.version, name=f"a writer that left {shown or 'no name'}")
