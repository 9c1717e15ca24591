"""The chain, where processes are paused for as long as others need to delete the number they use.

An author is paused between its look and its creation, or right after its creation; a finisher or a
reader between its listing of the epochs and its read of the head; and two of them at once.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from hoodie import clock, errors
from hoodie.model import instants, table_config
from hoodie.storage.memory import MemoryStorage, MemoryStore
from hoodie.storage.protocol import FileInfo
from hoodie.timeline import active, chain, epochs, table_properties
from hoodie.timeline.chain import Chain
from hoodie.timeline.epochs import Change, Head
from support.tables import history

NAME = table_config.ChainName(id="c")
CONFIG = table_config.TableConfig(
    name="t", record_key_fields=("id",), chain=NAME, has_foreign_writers=False
)
FIRST = epochs.path_of(1)
MANY = 9
"""Changes after which the number 1 is free again."""

LARGE = bytes(chain.INLINE_BYTES_MAX + 1)


class Pausing(MemoryStorage):
    """A storage whose user is paused once, right before or right after a call."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.meanwhile: dict[str, Callable[[], object]] = {}

    def create(self, path: str, content: bytes) -> FileInfo:
        self._pause(f"before create {path}")
        found = super().create(path, content)
        self._pause(f"after create {path}")
        return found

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        self._pause(f"before read {path}")
        return super().read(path, offset=offset, length=length)

    def _pause(self, place: str) -> None:
        self.meanwhile.pop(place, lambda: None)()


def time(number: int) -> instants.InstantTime:
    return instants.InstantTime(f"20260101{number:06d}002")


def shown(number: int, author: str = "0") -> str:
    return f"{active.DIRECTORY}/20250101{number:06d}00{author}_{time(number)}.deltacommit"


def change(number: int, author: str = "0", content: bytes = b"commit") -> Change:
    return Change(
        id=f"{author}-{number}",
        time=time(number),
        author=author,
        files={shown(number, author): content},
    )


SETTING = Change(id="setting", time="", author="s", properties={"some.key": "set"})


def go_on() -> None:
    """Be no check: nobody asks for a lock."""


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore()
    config = chain.begin(MemoryStorage(made), CONFIG, "creation", kept=3)
    table_properties.create(MemoryStorage(made), config, clock.SystemClock())
    return made


@pytest.fixture
def storage(store: MemoryStore) -> MemoryStorage:
    return MemoryStorage(store)


@pytest.fixture
def paused(store: MemoryStore) -> Pausing:
    return Pausing(store)


def opened(storage: MemoryStorage) -> Chain:
    return Chain(storage, NAME.id, has_foreign_writers=False)


def grow(storage: MemoryStorage, count: int = MANY) -> None:
    """Let another client finish the head, and make changes, one after the other."""
    client = opened(storage)
    for _ in range(count):
        view = client.look(go_on)
        head = client.append(view, change(view.head.epoch.number + 1), go_on)
        client.publish(head, go_on)
        client.collect(head)


def archive(storage: MemoryStorage) -> None:
    """Archive the first instant, and make a change that does not know it."""
    requested = instants.InstantTime(shown(1).rpartition("/")[2].partition("_")[0])
    history.put_manifest(storage, 1, history.put_rows(storage, (requested, time(1))))
    storage.delete(shown(1))
    grow(storage, 1)


def seen(storage: MemoryStorage) -> list[instants.InstantTime | None]:
    return [each.completion_time for each in chain.load(storage, CONFIG).completed]


def zombie_of(storage: MemoryStorage, wanted: Change) -> Callable[[], None]:
    """Return what an author does later that decides on a change now."""
    zombie = opened(storage)
    view = zombie.look(go_on)

    def create() -> None:
        with pytest.raises(errors.OvertakenError):
            zombie.append(view, wanted, go_on)

    return create


@pytest.mark.parametrize("wanted", [SETTING, replace(SETTING, is_last=True)])
def test_change_without_files_does_not_win_a_number_that_was_used(
    storage: MemoryStorage, wanted: Change
) -> None:
    """Nothing shows that it was made: it is decided again."""
    create = zombie_of(storage, wanted)
    grow(storage)
    create()


def test_change_without_files_that_lost_its_number_has_lost_when_that_is_deleted(
    storage: MemoryStorage, paused: Pausing
) -> None:
    """It is paused between the refusal and its look at who has won."""
    author = opened(paused)
    view = author.look(go_on)
    grow(storage, 1)
    paused.meanwhile[f"before read {FIRST}"] = lambda: grow(storage)
    with pytest.raises(errors.OvertakenError):
        author.append(view, SETTING, go_on)


def test_finisher_does_not_put_properties_of_an_epoch_that_was_refused(
    storage: MemoryStorage, paused: Pausing
) -> None:
    """E8: it looks first whether the epoch is still the head."""
    create = zombie_of(storage, replace(change(1, "9"), properties={"some.key": "lost"}))
    grow(storage, 1)

    def others() -> None:
        grow(storage)
        create()

    paused.meanwhile[f"before read {FIRST}"] = others
    opened(paused).look(go_on)
    assert b"lost" not in storage.read(table_properties.PATH)


@pytest.mark.parametrize(
    "answer", [errors.UnansweredError("lost"), errors.AlreadyExistsError("repeated")]
)
def test_author_has_won_though_a_zombie_has_made_its_number_again(
    storage: MemoryStorage, paused: Pausing, answer: errors.HoodieError
) -> None:
    """Its answer was lost, so that it looks whose the file of the number is."""
    create = zombie_of(storage, change(1, "9"))
    author = opened(paused)
    view = author.look(go_on)

    def others() -> None:
        grow(storage)
        create()
        raise answer

    paused.meanwhile[f"after create {FIRST}"] = others
    author.append(view, change(1), go_on)
    assert time(1) in seen(storage)


def test_reader_does_not_take_a_refused_epoch_for_the_head(
    storage: MemoryStorage, paused: Pausing
) -> None:
    """It misses a change that was acknowledged before it began."""
    create = zombie_of(storage, change(1, "9"))
    grow(storage, 1)

    def others() -> None:
        grow(storage)
        create()

    paused.meanwhile[f"before read {FIRST}"] = others
    assert time(1) in seen(paused)


def test_author_has_won_though_the_chain_was_replaced_since(
    storage: MemoryStorage, paused: Pausing
) -> None:
    """It was switched off and on again: the author looks, and reports a conflict."""

    def others() -> None:
        other = opened(storage)
        ending = replace(
            SETTING, properties=chain.properties(replace(CONFIG, chain=None)), is_last=True
        )
        other.publish(other.append(other.look(go_on), ending, go_on), go_on)
        wanted = replace(CONFIG, chain=table_config.ChainName(id="d"))
        chain.switch_on(storage, wanted, "o", active.listed(storage), go_on)

    author = opened(paused)
    view = author.look(go_on)
    paused.meanwhile[f"after create {FIRST}"] = others
    author.append(view, change(1), go_on)
    assert storage.read(shown(1)) == b"commit"


def made_by(storage: MemoryStorage, content: bytes = b"commit") -> tuple[Chain, Head]:
    """Return an author that has created its epoch, and has published nothing."""
    author = opened(storage)
    return author, author.append(author.look(go_on), change(1, content=content), go_on)


@pytest.mark.parametrize("content", [b"commit", LARGE])
def test_author_publishes_what_others_have_published_and_collected(
    storage: MemoryStorage, content: bytes
) -> None:
    """Staged content that was collected is not damage."""
    author, head = made_by(storage, content)
    grow(storage)
    author.publish(head, go_on)
    assert storage.read(shown(1)) == content


def test_finisher_of_what_others_have_published_and_collected_goes_on(
    storage: MemoryStorage, paused: Pausing
) -> None:
    """Staged content that was collected is not damage."""
    _, head = made_by(storage, LARGE)
    paused.meanwhile[f"before read {head.epoch.publications[0].staged}"] = lambda: grow(storage)
    opened(paused).look(go_on)
    assert storage.read(shown(1)) == LARGE


def test_author_does_not_bring_back_what_was_archived(storage: MemoryStorage) -> None:
    """Readers leave it out, but the next author takes it for a change of another engine."""
    author, head = made_by(storage)
    grow(storage)
    archive(storage)
    author.publish(head, go_on)
    assert time(1) not in seen(storage)
    grow(storage, 1)
    assert time(1) not in seen(storage)


def test_finisher_does_not_bring_back_what_was_archived(
    storage: MemoryStorage, paused: Pausing
) -> None:
    """It was paused after it had seen that the epoch is the head."""
    made_by(storage)

    def others() -> None:
        grow(storage)
        archive(storage)

    paused.meanwhile[f"before create {shown(1)}"] = others
    opened(paused).look(go_on)
    assert time(1) not in seen(storage)
    grow(storage, 1)
    assert time(1) not in seen(storage)


def test_author_of_what_was_archived_has_won(storage: MemoryStorage, paused: Pausing) -> None:
    """Else it would report a conflict, or make its change a second time."""

    def others() -> None:
        grow(storage)
        archive(storage)

    author = opened(paused)
    view = author.look(go_on)
    paused.meanwhile[f"after create {FIRST}"] = others
    assert author.append(view, change(1), go_on).epoch.number == 1


def test_creator_of_a_table_whose_first_epoch_was_collected_is_not_refused(
    paused: Pausing, storage: MemoryStorage
) -> None:
    """It is paused before it tries whether the store creates a file twice; another goes on."""

    def others() -> None:
        table_properties.create(storage, CONFIG, clock.SystemClock())
        grow(storage)

    for info in storage.list("", is_recursive=True):
        storage.delete(info.path)
    paused.meanwhile[f"after create {epochs.path_of(0)}"] = others
    assert chain.begin(paused, CONFIG, "creation", kept=3) == CONFIG


def test_late_creator_of_a_table_leaves_no_epoch_of_another_chain(storage: MemoryStorage) -> None:
    """The epochs can be listed by all, as `hoodie check` does, until these are collected."""
    grow(storage)
    chain.begin(
        storage, replace(CONFIG, chain=table_config.ChainName(id="late")), "creation", kept=3
    )
    assert [each.epoch.chain for each in opened(storage).all()][-1] == NAME.id


def test_creator_whose_first_epoch_was_taken_does_not_delete_it(
    paused: Pausing, storage: MemoryStorage
) -> None:
    """It is below as many as are kept, and above the boundary still."""

    def others() -> None:
        table_properties.create(storage, CONFIG, clock.SystemClock())
        grow(storage, 5)

    for info in storage.list("", is_recursive=True):
        storage.delete(info.path)
    paused.meanwhile[f"after create {epochs.path_of(0)}"] = others
    chain.begin(paused, CONFIG, "creation", kept=3)
    assert len(seen(storage)) == 5


def test_chain_begins_with_what_completed_since_a_dead_process_began_it(
    storage: MemoryStorage,
) -> None:
    """Else readers would miss it, and the next change would take it off."""
    storage.create(shown(1), b"commit")
    wanted = replace(CONFIG, chain=table_config.ChainName(id="d"))
    chain.switch_on(storage, wanted, "admin", active.listed(storage), go_on)
    found = chain.load(storage, wanted).completed
    assert [each.completion_time for each in found] == [time(1)]


def test_executor_of_a_plan_that_another_has_completed_has_lost_when_that_is_archived(
    storage: MemoryStorage,
) -> None:
    """Its instant is archived, by the completion of another."""
    zombie = opened(storage)
    view = zombie.look(go_on)
    grow(storage)
    archive(storage)
    late = instants.InstantTime("20260101999999002")
    path = shown(1).replace(time(1), late)
    mine = Change(id="9-1", time=late, author="9", files={path: b"commit"})
    with pytest.raises(errors.OvertakenError):
        zombie.append(view, mine, go_on)


def test_finding_is_not_of_a_refused_epoch(storage: MemoryStorage, paused: Pausing) -> None:
    create = zombie_of(storage, change(1, "9"))
    grow(storage, 1)

    def others() -> None:
        grow(storage)
        create()

    paused.meanwhile[f"before read {FIRST}"] = others
    assert opened(paused).findings() == ()
