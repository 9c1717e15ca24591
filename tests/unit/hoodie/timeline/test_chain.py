"""The chain: one winner a number, whatever is lost on the way; damage is named (CH1 to CH16)."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from hoodie import errors
from hoodie.model import instants, table_config
from hoodie.storage.memory import MemoryStorage, MemoryStore
from hoodie.timeline import active, chain, epochs
from hoodie.timeline.chain import Chain
from hoodie.timeline.epochs import Change, Head, View

NAME = table_config.ChainName(id="c")
CONFIG = table_config.TableConfig(
    name="t", record_key_fields=("id",), chain=NAME, has_foreign_writers=False
)
TIMES = [instants.InstantTime(f"202601010000{n:02d}000") for n in range(60)]


def path(number: int) -> str:
    return f"{epochs.DIRECTORY}/{number:020d}"


def shown(number: int) -> str:
    return f"{active.DIRECTORY}/{TIMES[number]}.compaction.requested"


def change(number: int, author: str = "a", content: bytes = b"plan") -> Change:
    return Change(
        id=f"{author}-{number}",
        time=TIMES[number],
        author=author,
        files={shown(number): content},
    )


def always() -> None:
    return


def on(head: Head) -> View:
    """Return what a change was decided on that looks at no instant."""
    return View(head=head, timeline=active.from_files(()), has_foreign_writers=False)


@pytest.fixture
def storage() -> MemoryStorage:
    made = MemoryStorage()
    chain.begin(made, CONFIG, "creation", kept=3)
    return made


def opened(storage: MemoryStorage) -> Chain:
    return Chain(storage, NAME.id, has_foreign_writers=False)


def grown(storage: MemoryStorage, count: int) -> Head:
    """Let one client make changes, one after the other."""
    client = opened(storage)
    head = client.head()
    for number in range(head.epoch.number + 1, head.epoch.number + 1 + count):
        head = client.append(on(head), change(number), always)
        client.publish(head, always)
        client.collect(head)
    return head


def test_of_two_that_decided_on_one_head_one_wins(storage: MemoryStorage) -> None:
    first, second = opened(storage), opened(storage)
    head = first.head()
    won = first.append(on(second.head()), change(1, "first"), always)
    with pytest.raises(errors.OvertakenError, match="epoch 1 is of first"):
        second.append(on(head), change(1, "second"), always)
    assert second.head() == won


def test_whoever_comes_next_finishes_the_work_of_the_dead(storage: MemoryStorage) -> None:
    dead, next_one = opened(storage), opened(storage)
    dead.append(on(dead.head()), change(1), always)
    view = next_one.look(always)
    assert storage.read(shown(1)) == b"plan"
    assert view == next_one.look(always)
    assert view.timeline == active.listed(storage)


class Unsteady(MemoryStorage):
    """A storage that does something else at the creation of an epoch."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.at_creation: Callable[[str, bytes], None] = lambda path, content: None
        self.at_listing: Callable[[], None] = lambda: None

    def create(self, path: str, content: bytes) -> object:  # type: ignore[override] # passed on
        if path.startswith(epochs.DIRECTORY):
            self.at_creation(path, content)
        return super().create(path, content)

    def names(self, directory: str) -> list[str]:
        found = super().names(directory)
        if directory == active.DIRECTORY:
            self.at_listing()
        return found


@pytest.fixture
def unsteady() -> Unsteady:
    made = Unsteady(MemoryStore())
    chain.begin(made, CONFIG, "creation", kept=3)
    return made


def test_own_request_that_is_repeated_is_no_loss(unsteady: Unsteady) -> None:
    """The store carries out the request, the client repeats it, and is told that it exists."""
    client = opened(unsteady)
    head = client.head()

    def carry_out(path: str, content: bytes) -> None:
        MemoryStorage.create(unsteady, path, content)

    unsteady.at_creation = carry_out
    assert client.append(on(head), change(1), always).epoch.number == 1


def test_lost_answer_is_read_back(unsteady: Unsteady) -> None:
    def lose(path: str, content: bytes) -> None:
        MemoryStorage.create(unsteady, path, content)
        raise errors.UnansweredError("lost")

    client = opened(unsteady)
    head = client.head()
    unsteady.at_creation = lose
    assert client.append(on(head), change(1), always).epoch.id == "a-1"


def test_two_lost_requests_leave_the_outcome_unknown(unsteady: Unsteady) -> None:
    def lose(path: str, content: bytes) -> None:
        raise errors.UnansweredError("lost")

    client = opened(unsteady)
    head = client.head()
    unsteady.at_creation = lose
    with pytest.raises(errors.OutcomeUnknownError, match="epoch 1"):
        client.append(on(head), change(1), always)


def test_check_is_asked_before_the_creation(storage: MemoryStorage) -> None:
    def refuse() -> None:
        raise errors.FencedError("replaced")

    client = opened(storage)
    with pytest.raises(errors.FencedError):
        client.append(on(client.head()), change(1), refuse)
    assert client.head().epoch.number == 0


def test_number_that_was_used_is_not_won_again(storage: MemoryStorage) -> None:
    """CH7: the zombie decided on an old head, whose next number was collected meanwhile."""
    zombie = opened(storage)
    old = zombie.head()
    grown(storage, 9)
    with pytest.raises(errors.OvertakenError, match="epoch 1 was used before"):
        zombie.append(on(old), change(40, "zombie"), always)
    assert zombie.head().epoch.number == 9


@pytest.mark.parametrize(
    "answer", [errors.UnansweredError("paused"), errors.AlreadyExistsError("repeated")]
)
def test_own_epoch_that_was_collected_has_won(
    unsteady: Unsteady, answer: errors.HoodieError
) -> None:
    """Its author was paused right after its creation; others have published it (found by seed)."""

    def create_and_let_others_go_on(path: str, content: bytes) -> None:
        unsteady.at_creation = lambda path, content: None
        MemoryStorage.create(unsteady, path, content)
        opened(unsteady).look(always)
        grown(unsteady, 9)
        raise answer

    paused = opened(unsteady)
    head = paused.head()
    unsteady.at_creation = create_and_let_others_go_on
    assert paused.append(on(head), change(1), always).epoch.id == "a-1"
    assert unsteady.read(shown(1)) == b"plan"


def test_finisher_of_a_number_that_is_old_looks_again(unsteady: Unsteady) -> None:
    dead, finisher = opened(unsteady), opened(unsteady)
    dead.append(on(dead.head()), change(1), always)

    def let_others_go_on() -> None:
        unsteady.at_listing = lambda: None
        opened(unsteady).look(always)
        grown(unsteady, 3)
        unsteady.delete(shown(1))  # As it was archived since.

    unsteady.at_listing = let_others_go_on
    assert finisher.look(always).head.epoch.number == 4
    assert shown(1) not in [info.path for info in unsteady.list(active.DIRECTORY)]


def test_chain_stays_short(storage: MemoryStorage) -> None:
    head = grown(storage, 40)
    assert head.epoch.number == 40
    assert len(storage.names(epochs.DIRECTORY)) <= 6


def test_large_content_is_staged_and_collected(storage: MemoryStorage) -> None:
    large = bytes(chain.INLINE_BYTES_MAX + 1)
    client = opened(storage)
    head = client.append(on(client.head()), change(1, content=large), always)
    assert len(storage.read(path(1))) < 1_000
    client.publish(head, always)
    assert storage.read(shown(1)) == large
    grown(storage, 9)
    assert not storage.names(epochs.STAGED)


def test_staged_content_of_a_loser_is_deleted(storage: MemoryStorage) -> None:
    loser = opened(storage)
    head = loser.head()
    grown(storage, 1)
    with pytest.raises(errors.OvertakenError):
        loser.append(on(head), change(1, "loser", bytes(chain.INLINE_BYTES_MAX + 1)), always)
    assert not storage.names(epochs.STAGED)


def test_racing_creators_have_one_chain(storage: MemoryStorage) -> None:
    other = replace(CONFIG, chain=table_config.ChainName(id="other"))
    assert chain.begin(storage, other, "creation", kept=3) == CONFIG


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b'{"version":1,"chain":"c","num', errors.FormatError, "is not JSON"),
        (b'{"version":5,"what":"else"}', errors.UnsupportedError, "of version 5"),
        (b"[]", errors.FormatError, "epoch/0"),
    ],
)
def test_damaged_epoch_is_named(
    storage: MemoryStorage, content: bytes, kind: type[errors.HoodieError], message: str
) -> None:
    storage.create(path(1), content)
    with pytest.raises(kind, match=message):
        opened(storage).head()


@pytest.mark.parametrize(
    ("key", "wrong", "message"),
    [
        ("chain", "other", "of chain other, expected c"),
        ("number", 7, "says that it is epoch 7"),
        ("version", 5, "of version 5"),
        ("removals", [f"{active.DIRECTORY}/1.indexing.requested"], "expected a savepoint's file"),
        ("withdrawn", [f"{active.DIRECTORY}/1.savepoint.inflight"], "a file of a plan"),
        ("withdrawn", [f"{active.DIRECTORY}/1_2.indexing"], "a file of a plan"),
        ("withdrawn", ["p/1.indexing.requested"], "a file of a plan"),
    ],
)
def test_epoch_of_elsewhere_is_refused(
    storage: MemoryStorage, key: str, wrong: object, message: str
) -> None:
    grown(storage, 1)
    found = json.loads(storage.read(path(1)))
    storage.delete(path(1))
    storage.create(path(1), json.dumps({**found, key: wrong}).encode())
    with pytest.raises(errors.HoodieError, match=message):
        opened(storage).head()


@pytest.mark.parametrize(
    "wrong", ["../escaped", ".hoodie/hoodie.properties", ".hoodie/timeline/x", "p/data.parquet"]
)
def test_epoch_publishes_instants_only(storage: MemoryStorage, wrong: str) -> None:
    head = grown(storage, 1)
    publications = [
        {"path": wrong, "digest": each.digest, "content": each.content}
        for each in head.epoch.publications
    ]
    found = json.loads(storage.read(path(1)))
    storage.delete(path(1))
    storage.create(path(1), json.dumps({**found, "publications": publications}).encode())
    with pytest.raises(errors.FormatError, match="expected an instant's file"):
        opened(storage).head()


def test_gap_is_found(storage: MemoryStorage) -> None:
    grown(storage, 3)
    storage.delete(path(2))
    with pytest.raises(errors.FormatError, match="epoch 2 is missing"):
        opened(storage).head()


def test_chain_that_was_replaced_is_found(storage: MemoryStorage) -> None:
    """As by a backup that was put back while a writer was at work."""
    client = opened(storage)
    grown(storage, 1)
    head = client.head()
    storage.delete(path(1))
    other = opened(storage)
    first = other.append(on(other.head()), change(1, "o"), always)
    other.append(on(first), change(2, "o"), always)
    with pytest.raises(errors.FormatError, match="does not follow epoch 1"):
        client.head()
    with pytest.raises(errors.FormatError, match="does not follow epoch 1"):
        client.append(on(head), change(2), always)


def test_lost_staged_content_is_named(storage: MemoryStorage) -> None:
    client = opened(storage)
    large = bytes(chain.INLINE_BYTES_MAX + 1)
    head = client.append(on(client.head()), change(1, content=large), always)
    (name,) = storage.names(epochs.STAGED)
    storage.delete(f"{epochs.STAGED}/{name}")
    with pytest.raises(errors.FormatError, match="is gone or damaged"):
        client.publish(head, always)
    storage.create(f"{epochs.STAGED}/{name}", b"other")
    with pytest.raises(errors.FormatError, match="has digest"):
        client.publish(head, always)


def test_lagging_listing_does_not_go_back(storage: MemoryStorage) -> None:
    client = opened(storage)
    head = client.append(on(client.head()), change(1), always)
    content = storage.read(path(1))
    storage.delete(path(1))  # Listed no more, as by a store that is behind.
    assert client.head() == head
    storage.create(path(1), content)


def test_table_without_epoch_is_named() -> None:
    with pytest.raises(errors.FormatError, match="has no epoch"):
        opened(MemoryStorage()).head()


class TestReaders:
    """They see what the newest epoch knows, whatever a listing shows or lacks (CH10)."""

    TIMES = tuple(f"2026010100000{n}" for n in range(9))

    @pytest.fixture
    def committed(self, storage: MemoryStorage) -> list[str]:
        """Two commits, and one whose epoch is not published."""
        client = opened(storage)
        for number in range(1, 4):
            requested = f"{self.TIMES[number]}001"
            for state in ("requested", "inflight"):
                storage.create(f"{active.DIRECTORY}/{requested}.deltacommit.{state}", b"")
            view = client.look(always)
            head = client.append(
                view,
                Change(
                    id=f"{number}",
                    time=instants.InstantTime(f"{self.TIMES[number]}002"),
                    author="a",
                    files={self.completed(number): b"commit"},
                ),
                always,
            )
            if number < 3:
                client.publish(head, always)
        return [self.completed(number) for number in range(4)]

    def completed(self, number: int) -> str:
        time = self.TIMES[number]
        return f"{active.DIRECTORY}/{time}001_{time}002.deltacommit"

    def seen(self, storage: MemoryStorage) -> tuple[str, ...]:
        found = chain.load(storage, CONFIG)
        return tuple(str(each.requested_time)[:14] for each in found.completed_writes)

    def test_what_is_not_published_is_not_seen(
        self, storage: MemoryStorage, committed: list[str]
    ) -> None:
        assert self.seen(storage) == self.TIMES[1:3]
        storage.create(committed[3], b"commit")
        assert self.seen(storage) == self.TIMES[1:4]

    def test_what_comes_after_the_head_was_read_is_not_seen(
        self, storage: MemoryStorage, committed: list[str]
    ) -> None:
        """Another may be missing in the same listing that completed before it."""
        storage.create(self.completed(4), b"commit")
        assert self.seen(storage) == self.TIMES[1:3]
        assert len(active.load(storage).completed_writes) == 3

    def test_listing_that_lags_is_repeated(
        self, storage: MemoryStorage, committed: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lists, hidden = storage.names, [committed[2]] * 3

        def names(directory: str) -> list[str]:
            found = lists(directory)
            late = hidden.pop() if directory == active.DIRECTORY and hidden else ""
            return [each for each in found if each != late.rpartition("/")[2]]

        monkeypatch.setattr(storage, "names", names)
        assert self.seen(storage) == self.TIMES[1:3]
        assert not hidden

    def test_instant_that_was_deleted_is_named(
        self, storage: MemoryStorage, committed: list[str]
    ) -> None:
        storage.delete(committed[1])
        name = committed[1].rpartition("/")[2]
        with pytest.raises(errors.FormatError, match=f"lacks {name}, which epoch 3 knows"):
            chain.load(storage, CONFIG)

    def test_chain_that_ended_is_not_gone_by(
        self, storage: MemoryStorage, committed: list[str]
    ) -> None:
        """A reader has the table open since before it was switched off."""
        client = opened(storage)
        view = client.look(always)
        client.append(view, Change(id="x", time="", author="a", is_last=True), always)
        storage.create(self.completed(4), b"commit")
        assert self.seen(storage) == self.TIMES[1:5]
