"""The chain: every change of the table is first an epoch, a file that is created once.

Terms:
    head         the epoch with the greatest number
    to finish    to publish what an epoch says, whoever made it; done already is fine
    boundary     the first number that is still kept; it stands in each epoch and only grows

Of all who create the file of one number one wins, and that is its commit: no lock is needed for it.
Whoever is to change the table finishes the head, decides on the timeline as it is then, and creates
the next epoch; who finds the number taken decides again. So decisions and what readers see are in
the order of the chain, whatever a lock says and however long anybody is paused.

An answer that was lost is read back: the id in the file tells whose it is. A number below the
boundary is free again, and a process that was paused may create it a second time. So a number is
trusted only if a listing that began after it was created, or read, shows none that is greater by
as many as the chain keeps: it was never deleted then. Otherwise an epoch has won only if what it
says was published.

What was archived or taken back may be published once more by a process that was paused. Readers of
ours do not see it, since the head does not know it, or says that everything up to there is archived
and the archive holds it; the next change takes it off (CH7).

An archiver publishes a manifest of the archive by an epoch. From then on the archive holds what it
lists, and the next change removes the files of these instants from the timeline (E15).

Other engines know nothing of epochs. Where they write as well, the table lock keeps them apart from
us, as in tables without a chain, and a head that its author did not publish is finished only if
none of them has changed the table since (CH1).

Cost of a change: a listing of the epochs, which are some hundred at most, and a read of the head
where this client did not make it; one creation, one more listing, and the files that are published.

Source: the user's issue on the chain (rules CH1 to CH16); protocol.md: The chain.
"""

import base64
import binascii
import logging
from collections.abc import Callable, Container, Iterable
from dataclasses import replace

from hoodie import deferred, errors
from hoodie.model import instants, table_config
from hoodie.storage.protocol import Storage
from hoodie.timeline import (
    active,
    epochs,
    history_tree,
    metadata_timelines,
    table_properties,
    transitions,
)
from hoodie.timeline.epochs import Change, Epoch, Head, Publication, View

with deferred.imports():
    from hoodie.timeline import history_writing

logger = logging.getLogger(__name__)

Check = Callable[[], None]
"""Called right before something is created; raises when it must not be."""

INLINE_BYTES_MAX = 1 << 16
"""Larger contents are staged, so that a head is read in one small request."""

_LOOKS_MAX = 10


def begin(
    storage: Storage, config: table_config.TableConfig, author: str, kept: int = epochs.KEPT
) -> table_config.TableConfig:
    """Create the first epoch of a table that is to be created, if it is to have a chain.

    Args:
        storage: The table's.
        config: Of the table that is to be.
        author: Whose change it is.
        kept: How many epochs the chain keeps at least.

    Returns:
        The configuration, with the chain that is there: of several creators, and after one that
        died, all have the same.

    Raises:
        FormatError: Something else is in its place.
        UnsupportedError: The storage creates a file that is there already.
    """
    if config.chain is None:
        return config
    path = epochs.path_of(0)
    content = epochs.encoded(epochs.beginning(config.chain, author, kept))
    try:
        storage.create(path, content)
    except (errors.AlreadyExistsError, errors.StorageError) as error:
        try:
            found = epochs.decoded(storage.read(path), f"{storage.uri}/{path}")
        except errors.NotFoundError:
            raise error from None
        name = table_config.ChainName(id=found.epoch.chain, version=found.epoch.version)
        return replace(config, chain=name)
    if max(_numbers(storage), default=0) >= 2 * kept:
        storage.delete(path)  # The boundary is above it: there has been a table for long.
    _check_creates_once(storage, config.chain.id)
    return config


def switch_on(
    storage: Storage,
    wanted: table_config.TableConfig,
    author: str,
    timeline: active.ActiveTimeline,
    check: Check,
) -> None:
    """Give a table a chain that has none.

    If it had one, or a process died that was about to give it one, the numbers go on.

    Args:
        storage: The table's.
        wanted: Its configuration, with the chain that it is to have.
        author: Whose change it is.
        timeline: Read under the table lock.
        check: Of the table lock.

    Raises:
        OvertakenError: Another does so at the same time, without the lock.
        UnsupportedError: The storage creates a file that is there already.
    """
    assert wanted.chain is not None, storage.uri
    changes = properties(wanted)
    epoch = epochs.beginning_after(_newest(storage), wanted.chain, author, timeline, changes)
    path, content = epochs.path_of(epoch.number), epochs.encoded(epoch)
    check()
    try:
        storage.create(path, content)
    except (errors.AlreadyExistsError, errors.StorageError) as error:
        if _read_or_none(storage, path) != content:
            raise errors.OvertakenError(f"{storage.uri}: {path} is of another") from error
    _check_creates_once(storage, wanted.chain.id)
    table_properties.put(storage, changes, epoch.number, check)


def load(storage: Storage, config: table_config.TableConfig) -> active.ActiveTimeline:
    """Read a table's timeline: a prefix of the order of completion.

    Of a table without foreign writers what its newest epoch knows, whatever a listing shows or
    lacks: two listings, and a read. Of others as `active.load`.

    Raises:
        FormatError: The chain is damaged, or an instant is gone that it knows.
        UnsupportedError: The timeline holds a completed instant of timeline layout 1.
    """
    found = opened(storage, config)
    if found is None or found.has_foreign_writers:
        return active.load(storage)
    try:
        return found.timeline()
    except (errors.ConflictError, errors.UnsupportedError) as error:
        # It was switched off meanwhile, or is of a later release, which may be read.
        logger.info("%s is read by its timeline alone: %s", storage.uri, error)
        return active.load(storage)


def properties(wanted: table_config.TableConfig) -> dict[str, str | None]:
    """Return the change of properties by which a table has a chain, or none."""
    return {
        table_config.CHAIN_KEY: None,
        table_config.FOREIGN_WRITERS_KEY: None,
        **table_config.chain_properties(wanted),
    }


def opened(storage: Storage, config: table_config.TableConfig) -> "Chain | None":
    """Return the chain of a table by its configuration; None where it has none."""
    if config.chain is None:
        return None
    return Chain(storage, config.chain.id, has_foreign_writers=config.has_foreign_writers)


class Chain:
    """A table's chain, as one process sees it; any number of threads may use it."""

    def __init__(self, storage: Storage, chain_id: str, *, has_foreign_writers: bool) -> None:
        """Take the table's storage, and what its properties say of the chain."""
        self._storage = storage
        self._id = chain_id
        self._has_foreign_writers = has_foreign_writers
        self._seen: Head | None = None

    @property
    def has_foreign_writers(self) -> bool:
        """Whether other engines change the table as well, who know nothing of the chain."""
        return self._has_foreign_writers

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
            try:
                found = self._read(newest)
            except (errors.ConflictError, errors.FormatError):
                if self._is_kept(newest):
                    raise
                found = None
            if found is None:
                continue  # Collected since it was listed: there are many newer ones.
            missing = set(range(found.epoch.boundary, newest)) - numbers
            if not missing:
                return self._continued(found)
            # The pages of a listing are of several moments: an epoch may have come between them.
            first = min(missing)
            if gap == (newest, first):
                raise errors.FormatError(
                    f"{self._storage.uri}/{epochs.DIRECTORY}: epoch {first} is missing, "
                    f"expected all from {found.epoch.boundary} to {newest}"
                )
            gap = newest, first
        raise errors.StorageError(
            f"{self._storage.uri}/{epochs.DIRECTORY} changed during each of {_LOOKS_MAX} listings"
        )

    def look(self, check: Check) -> View:
        """Return what a change is to be decided on: the head, finished, and the timeline.

        Raises:
            FormatError: The chain is damaged.
            StorageError: The storage failed, or the chain changes faster than it can be read.
        """
        for _ in range(_LOOKS_MAX):
            head = self.head()
            try:
                view = self._finished(self._view(head, self._listed()), check)
                return self._without_late(view, check)
            except errors.OvertakenError as overtaken:
                logger.info("looking again: %s", overtaken)
        raise errors.StorageError(
            f"{self._storage.uri}/{epochs.DIRECTORY} changed during each of {_LOOKS_MAX} looks"
        )

    def append(self, view: View, change: Change, check: Check) -> Head:
        """Make a change the next epoch; return it.

        Args:
            view: What it was decided on.
            change: The change.
            check: Called right before each creation.

        Raises:
            ConflictError: The chain has ended: the table has none, or another.
            OvertakenError: Another change is next; nothing was done.
            OutcomeUnknownError: Neither done nor not done, as far as could be found out; it is not
                done once another has the number.
            StorageError: Not done.
        """
        before = view.head.epoch
        self._refuse_ended(before)
        number = before.number + 1
        publications = [
            self._publication(change, number, place, path)
            for place, path in enumerate(change.files)
        ]
        beside = [
            self._publication(change, number, place, path)
            for place, path in enumerate(change.beside, start=len(publications))
        ]
        epoch = epochs.following(view, change, publications, beside)
        content = epochs.encoded(epoch)
        self._create(view.head, epoch, content, check)
        self._refuse_used(epoch)
        made = Head(epoch=epoch, digest=epochs.digest(content))
        self._note(made)
        return made

    def publish(self, head: Head, check: Check) -> None:
        """Publish all that an epoch of this client says.

        Args:
            head: The epoch.
            check: Called right before each file.

        Raises:
            StorageError: The storage failed twice; whoever changes the table next publishes it.
        """
        try:
            self._publish_all(head, head.epoch.beside, check)
            if head.epoch.properties:
                self._put_properties(head, check)
            self._publish_all(head, head.epoch.publications, check)
        except errors.OvertakenError as overtaken:
            logger.info("%s", overtaken)
        for path in head.epoch.deleted:
            check()
            self._storage.delete(path)

    def _publish_all(self, head: Head, publications: Iterable[Publication], check: Check) -> None:
        for each in publications:
            check()
            try:
                self._publish(head, each, check)
            except errors.StorageError as error:
                logger.warning("%s: %s: retried: %s", self._storage.uri, each.path, error)
                check()
                self._publish(head, each, check)

    def collect(self, head: Head) -> int:
        """Delete what is below the boundary of an epoch of this client that has raised it.

        Two listings, and a request for each file, where the boundary was raised; else none.

        Raises:
            StorageError: The storage failed; who raises the boundary next deletes the rest.
        """
        if head.epoch.boundary != head.epoch.number - head.epoch.kept:
            return 0
        below = [epochs.path_of(each) for each in self._numbers() if each < head.epoch.boundary]
        for name in self._storage.names(epochs.STAGED):
            number = epochs.number_of(name)
            if number is not None and number < head.epoch.boundary:
                below.append(f"{epochs.STAGED}/{name}")
        self._storage.delete_all(sorted(below))
        return len(below)

    def timeline(self) -> active.ActiveTimeline:
        """Return the timeline as of the newest epoch, as far as it is published.

        Raises:
            ConflictError: The chain has ended: changes are not ordered by it.
            FormatError: The chain is damaged, or an instant is gone that it knows.
            StorageError: The storage failed, or the chain changes faster than it can be read.
        """
        lack = ""
        for _ in range(_LOOKS_MAX):
            epoch = self.head().epoch
            names = active.names(self._storage)
            visible, missing = epochs.prefix(epoch, names)
            # If it hides nothing, it does not matter whether it is the head.
            if (epoch.is_last or visible != names) and not self._is_kept(epoch.number):
                continue
            self._refuse_ended(epoch)
            found = active.of_names(self._storage, visible)
            if all(epochs.is_archived(each, found) for each in missing):
                seen = self._without_archived(epoch, found)
                # Else the listing shows some instants of those that an archiver takes off.
                if not active.has_gap(missing, seen):
                    return seen
            lack = f"lacks {min(missing)}, which epoch {epoch.number} knows"
            logger.warning("%s/%s %s: listed again", self._storage.uri, active.DIRECTORY, lack)
        if not lack:
            raise errors.StorageError(
                f"{self._storage.uri}/{epochs.DIRECTORY} changed during each of {_LOOKS_MAX} looks"
            )
        raise errors.FormatError(
            f"{self._storage.uri}/{active.DIRECTORY} {lack}: it was deleted, or only a part of the "
            "table was restored from a backup"
        )

    def findings(self) -> tuple[epochs.Finding, ...]:
        """Return what other engines did that the table's users should know, as far as it is kept.

        Two listings and a read; one more listing where another engine has changed the table since.
        """
        timeline = self._listed()
        head = self.head()
        others = self._foreign(head, timeline)
        if others and not self._is_kept(head.epoch.number):
            head = self.head()  # What was read is of a process that was paused.
            others = self._foreign(head, timeline)
        if others:
            # What was archived before the head, and after the timeline was read, is none.
            timeline = self._listed()
            others = tuple(each for each in others if timeline.has_file(each))
        return (*head.epoch.findings, *epochs.findings(self._view(head, timeline), others))

    def all(self) -> list[Head]:
        """Return the epochs that are there, by number; two listings and a read each."""
        newest = self.head().epoch
        numbers = sorted(each for each in self._numbers() if each >= newest.boundary)
        found = (self._read(number, newest.earlier) for number in numbers)
        return [each for each in found if each is not None]

    def _numbers(self) -> set[int]:
        return _numbers(self._storage)

    def _refuse_ended(self, epoch: Epoch) -> None:
        if epoch.is_last:
            raise errors.ConflictError(
                f"the chain of {self._storage.uri} was switched off by {epoch.author}"
            )

    def _view(self, head: Head, timeline: active.ActiveTimeline) -> View:
        return View(head=head, timeline=timeline, has_foreign_writers=self._has_foreign_writers)

    def _listed(self) -> active.ActiveTimeline:
        if self._has_foreign_writers:
            return active.listed(self._storage)
        # Its epochs say what was archived.
        return active.of_names(self._storage, active.names(self._storage))

    def _finished(self, view: View, check: Check) -> View:
        """Return a view after what its head says and its timeline lacks was published.

        Raises:
            OvertakenError: It is the head no more. Its file may even be of somebody who won a
                number that was used before, if this process was paused before it read that. (The
                simulation found that.)
            FormatError: Staged content is not what the epoch says.
            StorageError: The storage failed.
        """
        head, epoch = view.head, view.head.epoch
        lacking = epochs.lacking(epoch, view.timeline)
        remaining = epochs.remaining(epoch, view.timeline)
        if not lacking and not remaining and not epoch.properties and not epoch.is_last:
            return view
        self._refuse_old(head)
        if epoch.properties or lacking:
            for each in epoch.beside:
                check()
                self._publish(head, each, check)
        if epoch.properties:
            self._put_properties(head, check)
        if not lacking and not remaining:
            return view
        obstacle = self._obstacle(view)
        if obstacle is not None:
            annulled = (
                *(
                    each.path
                    for each in lacking
                    if not epochs.is_archived(each.path, view.timeline)
                ),
                *remaining,
            )
            for path in annulled:
                logger.warning(
                    "%s: %s of %s is not carried out: %s",
                    self._storage.uri,
                    path,
                    epoch.author,
                    obstacle,
                )
            return replace(view, annulled=annulled)
        for each in lacking:
            check()
            self._publish(head, each, check)
            logger.info("%s: finished %s of %s", self._storage.uri, each.path, epoch.author)
        for path in remaining:
            check()
            self._storage.delete(path)
            logger.info("%s: deleted %s, as %s decided", self._storage.uri, path, epoch.author)
        return replace(view, timeline=self._listed())

    def _obstacle(self, view: View) -> str | None:
        """Return what another engine has done that forbids to finish the head; None for nothing."""
        if not self._has_foreign_writers:
            return None
        epoch = view.head.epoch
        if table_properties.has_metadata_table(self._storage):
            beside = active.listed(metadata_timelines.opened(self._storage))
            if any(
                metadata_timelines.is_lacking(beside, each)
                for each in epochs.completing(epoch, view.timeline)
            ):
                return "the table was given a metadata table, which would lack it"
        return epochs.obstacle(epoch, view.timeline)

    def _without_late(self, view: View, check: Check) -> View:
        """Return a view after what a paused process has brought back was taken off the timeline."""
        late = self._brought_back(view.head, view.timeline)
        timeline = view.timeline
        if late:
            # A listing may lack what was requested while it lasted: the next one has it.
            late &= self._brought_back(view.head, self._listed())
            self._refuse_old(view.head)
            # Completed files in their order, and last: other readers take them from the beginning.
            for each in sorted(late, key=lambda each: (each.is_completed, str(each))):
                check()
                self._storage.delete(transitions.path(each))
                logger.info("%s: %s is over: taken off", self._storage.uri, each)
            timeline = self._listed()
        below = view.head.epoch.archived_below
        return replace(view, timeline=active.without_archived(timeline, below, ()))

    def _without_archived(
        self, epoch: Epoch, timeline: active.ActiveTimeline
    ) -> active.ActiveTimeline:
        gone = self._archived(epoch, timeline)
        return active.without_archived(timeline, epoch.archived_below, gone)

    def _archived(
        self, epoch: Epoch, timeline: active.ActiveTimeline
    ) -> frozenset[instants.Instant]:
        """Return files of instants that were archived, and that are there still or again."""
        return frozenset(
            each
            for each in epochs.doubtful(epoch, timeline)
            if epochs.is_over(epoch, each, timeline)
        )

    def _brought_back(
        self, head: Head, timeline: active.ActiveTimeline
    ) -> frozenset[instants.Instant]:
        """Return files of instants that were archived or taken back, and are there all the same."""
        if self._has_foreign_writers:
            return frozenset()
        others = epochs.foreign(head.epoch, timeline)
        alone = frozenset(each for each in others if epochs.is_alone(each, timeline))
        return alone | self._archived(head.epoch, timeline)

    def _foreign(self, head: Head, timeline: active.ActiveTimeline) -> tuple[instants.Instant, ...]:
        late = self._brought_back(head, timeline)
        return tuple(each for each in epochs.foreign(head.epoch, timeline) if each not in late)

    def _refuse_old(self, head: Head) -> None:
        """Refuse to go on by an epoch that is not the newest; a listing."""
        if max(self._numbers(), default=-1) > head.epoch.number:
            raise errors.OvertakenError(f"{self._storage.uri}: epoch {head.epoch.number} is old")

    def _is_kept(self, number: int) -> bool:
        """Return whether an epoch that was read or created before was never deleted; a listing."""
        newest = max(self._numbers(), default=number)
        if self._seen is None:
            return newest < number + epochs.KEPT
        # A listing may lag behind what this client has seen.
        seen = self._seen.epoch
        return max(newest, seen.number) < number + seen.kept

    def _put_properties(self, head: Head, check: Check) -> None:
        table_properties.put(self._storage, head.epoch.properties, head.epoch.number, check)

    def _read(self, number: int, earlier: Container[str] = ()) -> Head | None:
        """Return an epoch; None where it is gone, or of an earlier chain whose id is given."""
        try:
            content = self._storage.read(epochs.path_of(number))
        except errors.NotFoundError:
            return None
        return self._decoded(number, content, earlier)

    def _decoded(self, number: int, content: bytes, earlier: Container[str] = ()) -> Head | None:
        source = f"{self._storage.uri}/{epochs.path_of(number)}"
        found = epochs.decoded(content, source)
        if found.epoch.chain in earlier:
            return None
        if self._id in found.epoch.earlier:
            raise errors.ConflictError(
                f"the chain of {self._storage.uri} was switched off, and on again by "
                f"{found.epoch.author}"
            )
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
        self._note(found)
        return found

    def _note(self, head: Head) -> None:
        """Remember the newest epoch that was seen; one that is a little older does no harm."""
        seen = self._seen
        if seen is None or head.epoch.number > seen.epoch.number:
            self._seen = head

    def _broken(self, found: Head, before: Head) -> errors.FormatError:
        return errors.FormatError(
            f"{self._storage.uri}/{epochs.path_of(found.epoch.number)} does not follow epoch "
            f"{before.epoch.number} that was there, {before.digest[:12]}: the chain was replaced, "
            "as when a table is restored from a backup while it is written"
        )

    def _publication(self, change: Change, number: int, place: int, path: str) -> Publication:
        content = {**change.beside, **change.files}[path]
        digest = epochs.digest(content)
        if len(content) <= INLINE_BYTES_MAX:
            return Publication(
                path=path, digest=digest, content=base64.b64encode(content).decode("ascii")
            )
        staged = epochs.staged_path(number, change, place)
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
        path = epochs.path_of(epoch.number)
        try:
            self._storage.create(path, content)
        except (errors.AlreadyExistsError, errors.StorageError) as error:
            is_taken = isinstance(error, errors.AlreadyExistsError)
            try:
                found, is_kept = self._found(epoch.number)
                has_won = (
                    found is not None and found.epoch.id == epoch.id
                    if is_kept
                    else self._is_published(epoch)
                )
            except errors.StorageError:
                if is_taken or isinstance(error, errors.UnansweredError):
                    raise self._doubt(epoch, error) from error
                raise error from None
            if has_won:
                logger.warning("%s: the answer to %s was lost", self._storage.uri, path)
                return
            if is_kept and found is None and not is_taken:
                raise
            if found is not None and found.epoch.previous != head.digest:
                raise self._broken(found, head) from error
            if found is not None:
                self._note(found)  # Even where listings lag, the next look finds it.
            self._discard(epoch)
            raise errors.OvertakenError(
                f"{self._storage.uri}: epoch {epoch.number} is of "
                f"{found.epoch.author if found is not None else 'another'}"
            ) from error

    def _found(self, number: int) -> tuple[Head | None, bool]:
        """Return who has a number, if anybody, and whether the number is kept.

        A read and a listing, in that order. Of a number that is not kept nobody is returned.
        """
        try:
            content = self._storage.read(epochs.path_of(number))
        except errors.NotFoundError:
            return None, self._is_kept(number)
        if not self._is_kept(number):
            return None, False
        return self._decoded(number, content), True

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
            is_used = not self._is_kept(number) and not self._is_published(epoch)
        except errors.StorageError as error:
            raise errors.OutcomeUnknownError(
                f"{self._storage.uri}: it is unknown whether epoch {number} counts: {error}"
            ) from error
        if is_used:
            raise errors.OvertakenError(
                f"{self._storage.uri}: epoch {number} was used before, and was deleted since"
            )

    def _is_published(self, epoch: Epoch) -> bool:
        """Return whether an epoch was certainly finished, its instants archived since or not.

        One that publishes no file never certainly was: its change is decided again, and is found to
        be made.
        """
        timeline = self._listed()
        return bool(epoch.publications) and all(
            epochs.is_archived_as(each.path, timeline)
            or (
                (content := _read_or_none(self._storage, each.path)) is not None
                and epochs.digest(content) == each.digest
            )
            for each in epoch.publications
        )

    def _discard(self, epoch: Epoch) -> None:
        """Delete the staged content of an epoch that lost its number."""
        try:
            published = (*epoch.beside, *epoch.publications)
            self._storage.delete_all(each.staged for each in published if each.staged)
        except errors.StorageError as error:
            logger.warning("%s: staged content is left: %s", self._storage.uri, error)

    def _publish(self, head: Head, publication: Publication, check: Check) -> None:
        """Create a file that an epoch publishes, if it is not there.

        A manifest of the archive then counts, unless there is a newer one.

        Raises:
            FormatError: Its staged content is gone, or is not what the epoch says.
            OvertakenError: It is gone since all was published, and the epoch was collected.
        """
        content = self._content(head, publication)
        manifest = history_tree.manifest_number_of_path(publication.path)
        if manifest is not None:
            history_writing.put_manifest(self._storage, publication.path, content, check)
            history_writing.raise_version(self._storage, manifest, check)
            return
        try:
            self._storage.create(publication.path, content)
        except errors.AlreadyExistsError:
            logger.debug("%s/%s: published already", self._storage.uri, publication.path)

    def _content(self, head: Head, publication: Publication) -> bytes:
        source = f"{self._storage.uri}/{epochs.path_of(head.epoch.number)}"
        try:
            content = (
                self._storage.read(publication.staged)
                if publication.staged
                else base64.b64decode(publication.content, validate=True)
            )
        except (binascii.Error, errors.NotFoundError) as error:
            number = head.epoch.number
            if publication.staged and not self._is_kept(number):
                raise errors.OvertakenError(
                    f"{self._storage.uri}: epoch {number} was finished by others"
                ) from error
            raise errors.FormatError(
                f"{source}: the content of {publication.path} is gone or damaged: {error}"
            ) from error
        if epochs.digest(content) != publication.digest:
            raise errors.FormatError(
                f"{source}: the content of {publication.path} has digest "
                f"{epochs.digest(content)[:12]}, expected {publication.digest[:12]}"
            )
        return content


def _numbers(storage: Storage) -> set[int]:
    found = (epochs.number_of(name) for name in storage.names(epochs.DIRECTORY) if "." not in name)
    return {number for number in found if number is not None}


def _newest(storage: Storage) -> Head | None:
    """Return the newest epoch of whichever chain; None where there is none."""
    number = max(_numbers(storage), default=None)
    if number is None:
        return None
    path = epochs.path_of(number)
    return epochs.decoded(storage.read(path), f"{storage.uri}/{path}")


def _check_creates_once(storage: Storage, name: str) -> None:
    """Refuse a storage that creates a file that is there, by which nothing could be decided."""
    path = f"{epochs.STAGED}/{epochs.path_of(0).rpartition('/')[2]}.probe.{name}"
    try:
        for _ in range(2):
            storage.create(path, b"")
    except errors.AlreadyExistsError:
        return
    finally:
        storage.delete_all([path])
    raise errors.UnsupportedError(
        f"{storage.uri} has created {path} twice, expected the second creation to be refused: "
        "writers cannot be kept apart there, by locks neither"
    )


def _read_or_none(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except errors.NotFoundError:
        return None
