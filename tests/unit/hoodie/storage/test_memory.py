"""The memory storage: a shared store with its own clock."""

from hoodie.storage.memory import MemoryStorage, MemoryStore


class ManualClock:
    def __init__(self) -> None:
        self.time_ms = 1_000

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic_s(self) -> float:
        return self.time_ms / 1000

    def sleep_s(self, seconds: float) -> None:
        self.time_ms += int(seconds * 1000)


def test_storages_on_one_store_see_each_other_and_its_clock() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    one, two = MemoryStorage(store), MemoryStorage(store)
    one.create("file", b"x")
    assert two.stat("file").modified_ms == 1_000
    clock.time_ms = 2_000
    assert two.touch("file").modified_ms == 2_000
    assert one.read("file") == b"x"


def test_unfinished_stream_is_an_empty_file() -> None:
    storage = MemoryStorage()
    file = storage.open_write("data")
    file.write(b"x")
    assert storage.read("data") == b""
    file.close()
    assert storage.read("data") == b"x"
