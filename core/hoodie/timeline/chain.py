"""The chain: every change of the timeline is first an epoch, a file that is created once.

    .hoodie/.aux/epoch/{number, 20 digits}              an epoch: the whole intent, as JSON
    .hoodie/.aux/epoch/staged/{number}.{id}.{place}     content too large to stand in one

Terms:
    head         the epoch with the greatest number
    to finish    to publish what an epoch says, whoever made it; done already is fine
    boundary     the first number that is still kept; it stands in each epoch and only grows

Of all who create the file of one number one wins, and that is its commit: no lock is needed for it.
Whoever is to change the table finishes the head, decides on the timeline as it is then, and creates
the next epoch; who finds the number taken decides again. So decisions and what readers see are in
the order of the chain, whatever a lock says and however long anybody is paused.

An answer that was lost is read back: the id in the file tells whose it is. A number below the
boundary may be free again since its file was deleted; so who has created an epoch looks once more.
If the head's boundary is above it by then, it has won only if what it says was published (CH7).

Cost of a change: a listing of the epochs, which are some hundred at most, and a read of the head
where this client did not make it; one creation, one more listing, and the files that are published.

Source: the user's issue on the chain (rules CH1 to CH16); protocol.md: The chain.
"""

import base64
import binascii
import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hoodie import errors
from hoodie.format import instant_names
from hoodie.model import instants, json_values, table_config
from hoodie.storage.protocol import Storage
from hoodie.timeline import active

logger = logging.getLogger(__name__)

DIRECTORY = ".hoodie/.aux/epoch"
STAGED = f"{DIRECTORY}/staged"

KEPT = 100
"""So many epochs are kept at least: more than anybody misses while a listing lasts."""

SLACK = 100
"""The boundary moves by as many epochs at once."""

INLINE_BYTES_MAX = 1 << 16
"""Larger contents are staged, so that a head is read in one small request."""

_DIGITS = 20
_LOOKS_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A file that an epoch publishes.

    Attributes:
        path: Below the table's root.
        digest: SHA-256 of its content, in hexadecimal digits.
        content: In base64; empty where it is staged.
        staged: Path of the staged content; empty where it is not.
    """

    path: str
    digest: str
    content: str = ""
    staged: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A change of the timeline, as its file says it.

    Attributes:
        version: Of this format.
        chain: Id of the chain.
        number: Counts from 0, which is the table's creation.
        id: Of this try to create it.
        previous: Digest of the file of the epoch before; empty for the first.
        time: The greatest time that an epoch has given so far; empty for none.
        boundary: Epochs with smaller numbers may be gone.
        author: Whose change it is, for messages.
        publications: What it publishes, in that order.
    """

    version: int
    chain: str
    number: int
    id: str
    previous: str
    time: str
    boundary: int
    author: str
    publications: tuple[Publication, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """An epoch, and the digest of its file."""

    epoch: Epoch
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be the next epoch.

    Attributes:
        id: Fresh for each try.
        time: That it gives, above the one of the head.
        author: Whose it is.
        files: Contents to publish by path.
    """

    id: str
    time: instants.InstantTime
    author: str
    files: Mapping[str, bytes]


def begin(storage: Storage, name: table_config.ChainName, author: str) -> table_config.ChainName:
    """Create the first epoch of a new table's chain; return the name of the chain that is there.

    Raises:
        FormatError: Something else is in its place.
    """
    epoch = Epoch(
        version=table_config.CHAIN_VERSION,
        chain=name.id,
        number=0,
        id=name.id,
        previous="",
        time="",
        boundary=0,
        author=author,
    )
    try:
        storage.create(_path(0), json_values.encode(epoch))
    except (errors.AlreadyExistsError, errors.StorageError) as error:
        try:
            found = _decoded(storage.read(_path(0)), f"{storage.uri}/{_path(0)}")
        except errors.NotFoundError:
            raise error from None
        return table_config.ChainName(id=found.epoch.chain, version=found.epoch.version)
    return name


def opened(storage: Storage, name: table_config.ChainName | None) -> "Chain | None":
    """Return the chain that a table's configuration names; None where it names none."""
    return None if name is None else Chain(storage, name.id)


class Chain:
    """A table's chain, as one client sees it."""

    def __init__(
        self, storage: Storage, chain_id: str, *, kept: int = KEPT, slack: int = SLACK
    ) -> None:
        """Take the table's storage, the chain's id from its properties, and when to collect."""
        self._storage = storage
        self._id = chain_id
        self._kept = kept
        self._slack = slack
        self._seen: Head | None = None

    def head(self) -> Head:
        """Return the newest epoch; a listing, and a read if it is not known yet.

        Raises:
            FormatError: The chain has a gap, belongs to another table, or a file of it is damaged.
            StorageError: The storage failed, or the chain changes faster than it can be read.
            UnsupportedError: It is of a later version.
        """
        gap: tuple[int, int] | None = None
        for _ in range(_LOOKS_MAX):
            numbers = self._numbers()
            newest = max(numbers, default=-1)
            if self._seen is not None and newest <= self._seen.epoch.number:
                return self._seen  # A listing may lag behind what this client has seen.
            if newest < 0:
                raise errors.FormatError(f"{self._storage.uri}: the chain has no epoch")
            found = self._read(newest)
            if found is None:
                continue  # Collected since it was listed: there are many newer ones.
            missing = set(range(found.epoch.boundary, newest)) - numbers
            if not missing:
                return self._continued(found)
            # The pages of a listing are of several moments: an epoch may have come between them.
            first = min(missing)
            if gap == (newest, first):
                raise errors.FormatError(
                    f"{self._storage.uri}/{DIRECTORY}: epoch {first} is missing, expected all from "
                    f"{found.epoch.boundary} to {newest}"
                )
            gap = newest, first
        raise errors.StorageError(
            f"{self._storage.uri}/{DIRECTORY} changed during each of {_LOOKS_MAX} looks at it"
        )

    def finish(self, head: Head, timeline: active.ActiveTimeline) -> bool:
        """Publish what the head says and a timeline lacks; return whether it lacked anything.

        Args:
            head: The newest epoch.
            timeline: Read after the head was.

        Raises:
            OvertakenError: It is the head no more. Its file may even be of somebody who won a
                number that was used before, if this process was paused before it read that. (The
                simulation found that.)
            FormatError: Staged content is not what the epoch says.
            StorageError: The storage failed.
        """
        lacking = [each for each in head.epoch.publications if not _shows(timeline, each.path)]
        if lacking and max(self._numbers(), default=-1) > head.epoch.number:
            raise errors.OvertakenError(f"{self._storage.uri}: epoch {head.epoch.number} is old")
        for each in lacking:
            self._publish(head, each)
            logger.info("%s: finished %s of %s", self._storage.uri, each.path, head.epoch.author)
        return bool(lacking)

    def append(self, head: Head, change: Change, check: Callable[[], None]) -> Head:
        """Make a change the next epoch; return it.

        Args:
            head: The epoch that it was decided on.
            change: The change.
            check: Called right before each creation; raises when it must not be.

        Raises:
            OvertakenError: Another change is next; nothing was done.
            OutcomeUnknownError: Neither done nor not done, as far as could be found out; it is not
                done once another has the number.
            StorageError: Not done.
        """
        number = head.epoch.number + 1
        boundary = head.epoch.boundary
        if number - boundary >= self._kept + self._slack:
            boundary = number - self._kept
        epoch = Epoch(
            version=table_config.CHAIN_VERSION,
            chain=self._id,
            number=number,
            id=change.id,
            previous=head.digest,
            time=change.time,
            boundary=boundary,
            author=change.author,
            publications=tuple(
                self._publication(change, number, place, path)
                for place, path in enumerate(change.files)
            ),
        )
        content = json_values.encode(epoch)
        self._create(head, epoch, content, check)
        self._refuse_used(epoch)
        self._seen = Head(epoch=epoch, digest=_digest(content))
        return self._seen

    def publish(self, head: Head) -> None:
        """Publish all that an epoch of this client says.

        Raises:
            StorageError: The storage failed twice; whoever changes the table next publishes it.
        """
        for each in head.epoch.publications:
            try:
                self._publish(head, each)
            except errors.StorageError as error:
                logger.warning("%s: %s: retried: %s", self._storage.uri, each.path, error)
                self._publish(head, each)

    def collect(self, head: Head) -> int:
        """Delete what is below the boundary of an epoch of this client that has raised it.

        Two listings, and a request for each file, where the boundary was raised; else none.

        Raises:
            StorageError: The storage failed; who raises the boundary next deletes the rest.
        """
        if head.epoch.boundary != head.epoch.number - self._kept:
            return 0
        below = [_path(each) for each in self._numbers() if each < head.epoch.boundary]
        for name in self._storage.names(STAGED):
            number = name.partition(".")[0]
            if number.isdecimal() and int(number) < head.epoch.boundary:
                below.append(f"{STAGED}/{name}")
        self._storage.delete_all(sorted(below))
        return len(below)

    def epochs(self) -> list[Head]:
        """Return the epochs that are there, by number; a listing and a read each."""
        found = (self._read(number) for number in sorted(self._numbers()))
        return [each for each in found if each is not None]

    def _numbers(self) -> set[int]:
        names = self._storage.names(DIRECTORY)
        return {int(name) for name in names if len(name) == _DIGITS and name.isdecimal()}

    def _read(self, number: int) -> Head | None:
        """Return an epoch; None where it is gone."""
        try:
            content = self._storage.read(_path(number))
        except errors.NotFoundError:
            return None
        source = f"{self._storage.uri}/{_path(number)}"
        found = _decoded(content, source)
        if found.epoch.chain != self._id:
            raise errors.FormatError(
                f"{source} is of chain {found.epoch.chain}, expected {self._id}, which "
                f"{table_config.CHAIN_KEY} names: two tables, or two states of one, were mixed"
            )
        if found.epoch.number != number:
            raise errors.FormatError(f"{source} says that it is epoch {found.epoch.number}")
        return found

    def _continued(self, found: Head) -> Head:
        """Return a head that follows what this client has seen."""
        seen = self._seen
        follows = seen is not None and found.epoch.number == seen.epoch.number + 1
        if seen is not None and follows and found.epoch.previous != seen.digest:
            raise self._broken(found, seen)
        self._seen = found
        return found

    def _broken(self, found: Head, before: Head) -> errors.FormatError:
        return errors.FormatError(
            f"{self._storage.uri}/{_path(found.epoch.number)} does not follow epoch "
            f"{before.epoch.number} that was there, {before.digest[:12]}: the chain was replaced, "
            "as when a table is restored from a backup while it is written"
        )

    def _publication(self, change: Change, number: int, place: int, path: str) -> Publication:
        content = change.files[path]
        digest = _digest(content)
        if len(content) <= INLINE_BYTES_MAX:
            return Publication(
                path=path, digest=digest, content=base64.b64encode(content).decode("ascii")
            )
        staged = f"{STAGED}/{number:0{_DIGITS}d}.{change.id}.{place}"
        try:
            self._storage.create(staged, content)
        except (errors.AlreadyExistsError, errors.StorageError):
            # The id is of this try: what is there is what an answer was lost to.
            if _read_or_none(self._storage, staged) != content:
                raise
        return Publication(path=path, digest=digest, staged=staged)

    def _create(self, head: Head, epoch: Epoch, content: bytes, check: Callable[[], None]) -> None:
        """Create an epoch's file, and find out what happened when the storage does not say."""
        try:
            check()
            self._create_once(head, epoch, content)
        except errors.UnansweredError as unanswered:
            logger.warning(
                "%s: epoch %d is retried: %s", self._storage.uri, epoch.number, unanswered
            )
            try:
                check()
                self._create_once(head, epoch, content)
            except errors.OvertakenError:
                raise
            except errors.HoodieError as error:
                raise self._doubt(epoch, error) from error

    def _create_once(self, head: Head, epoch: Epoch, content: bytes) -> None:
        path = _path(epoch.number)
        try:
            self._storage.create(path, content)
        except (errors.AlreadyExistsError, errors.StorageError) as error:
            is_taken = isinstance(error, errors.AlreadyExistsError)
            try:
                found = self._read(epoch.number)
            except errors.StorageError:
                if is_taken or isinstance(error, errors.UnansweredError):
                    raise self._doubt(epoch, error) from error
                raise error from None
            if found is not None and found.epoch.id == epoch.id:
                logger.warning("%s: the answer to %s was lost", self._storage.uri, path)
                return
            if found is None and not is_taken:
                raise
            is_next = found is not None and found.epoch.previous == head.digest
            if found is not None and not is_next and self._is_kept(head):
                raise self._broken(found, head) from error
            if is_next:
                self._seen = found  # Even where listings lag, the next look finds it.
            self._discard(epoch)
            raise errors.OvertakenError(
                f"{self._storage.uri}: epoch {epoch.number} is of "
                f"{found.epoch.author if found is not None else 'another'}"
            ) from error

    def _is_kept(self, head: Head) -> bool:
        """Return whether an epoch is not below the boundary, where others may reuse its number."""
        newest = self._read(max(self._numbers(), default=head.epoch.number))
        return newest is not None and newest.epoch.boundary <= head.epoch.number

    def _doubt(self, epoch: Epoch, error: errors.HoodieError) -> errors.OutcomeUnknownError:
        return errors.OutcomeUnknownError(
            f"it is unknown whether epoch {epoch.number} of {self._storage.uri} was created: "
            f"{error}"
        )

    def _refuse_used(self, epoch: Epoch) -> None:
        """Refuse an epoch whose number was used before, its file having been deleted since.

        Its own may have been collected as well, where its author was paused right after it was
        created: then somebody has published what it says. (The simulation found that.)

        Raises:
            OutcomeUnknownError: Whether it was could not be found out.
            OvertakenError: It was.
        """
        number = epoch.number
        try:
            newest = max(self._numbers(), default=number)
            if newest <= number:
                return
            head = self._read(newest)
            is_kept = head is not None and head.epoch.boundary <= number
            is_used = not is_kept and not self._is_published(epoch)
        except errors.StorageError as error:
            raise errors.OutcomeUnknownError(
                f"{self._storage.uri}: it is unknown whether epoch {number} counts: {error}"
            ) from error
        if is_used:
            raise errors.OvertakenError(
                f"{self._storage.uri}: epoch {number} was used before; the chain is at {newest}"
            )

    def _is_published(self, epoch: Epoch) -> bool:
        found = ((each, _read_or_none(self._storage, each.path)) for each in epoch.publications)
        return all(
            content is not None and _digest(content) == each.digest for each, content in found
        )

    def _discard(self, epoch: Epoch) -> None:
        """Delete the staged content of an epoch that lost its number."""
        try:
            self._storage.delete_all(each.staged for each in epoch.publications if each.staged)
        except errors.StorageError as error:
            logger.warning("%s: staged content is left: %s", self._storage.uri, error)

    def _publish(self, head: Head, publication: Publication) -> None:
        content = self._content(head, publication)
        try:
            self._storage.create(publication.path, content)
        except errors.AlreadyExistsError:
            logger.debug("%s/%s: published already", self._storage.uri, publication.path)

    def _content(self, head: Head, publication: Publication) -> bytes:
        source = f"{self._storage.uri}/{_path(head.epoch.number)}"
        try:
            content = (
                self._storage.read(publication.staged)
                if publication.staged
                else base64.b64decode(publication.content, validate=True)
            )
        except (binascii.Error, errors.NotFoundError) as error:
            raise errors.FormatError(
                f"{source}: the content of {publication.path} is gone or damaged: {error}"
            ) from error
        if _digest(content) != publication.digest:
            raise errors.FormatError(
                f"{source}: the content of {publication.path} has digest {_digest(content)[:12]}, "
                f"expected {publication.digest[:12]}"
            )
        return content


def _shows(timeline: active.ActiveTimeline, path: str) -> bool:
    """Return whether a timeline shows that a file was published.

    A write that was archived was shown before it was.
    """
    directory, _, name = path.rpartition("/")
    instant = instant_names.parse(name) if directory == active.DIRECTORY else None
    if instant is None:
        return False
    return timeline.has_file(instant)


def _decoded(content: bytes, source: str) -> Head:
    try:
        epoch = json_values.decode(Epoch, content, source)
    except errors.InvalidInputError as error:
        version = _version(content)
        if version is not None and version > table_config.CHAIN_VERSION:
            raise errors.UnsupportedError(
                f"{source} is of version {version}, expected {table_config.CHAIN_VERSION} at most: "
                "a later release of this project has written it"
            ) from error
        raise errors.FormatError(f"{error}") from error
    if epoch.version > table_config.CHAIN_VERSION:
        raise errors.UnsupportedError(
            f"{source} is of version {epoch.version}, expected {table_config.CHAIN_VERSION} at most"
        )
    for each in epoch.publications:
        directory, _, name = each.path.rpartition("/")
        staged, _, _ = each.staged.rpartition("/")
        if directory != active.DIRECTORY or instant_names.parse(name) is None:
            raise errors.FormatError(
                f"{source} publishes {each.path!r}, expected an instant's file"
            )
        if staged not in ("", STAGED):
            raise errors.FormatError(f"{source} has content in {each.staged!r}")
    return Head(epoch=epoch, digest=_digest(content))


def _version(content: bytes) -> int | None:
    """Return the version of an epoch that is not understood; None where it does not say."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    version = found.get("version") if isinstance(found, dict) else None
    return version if isinstance(version, int) else None


def _path(number: int) -> str:
    return f"{DIRECTORY}/{number:0{_DIGITS}d}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read_or_none(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except errors.NotFoundError:
        return None
