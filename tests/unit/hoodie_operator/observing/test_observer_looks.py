"""Looks of an observer that fail in a way that nobody foresaw, or end while others ask."""

import functools
import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import environment, errors
from hoodie.maintenance import consumers
from hoodie.model import instants, settings, table_config
from hoodie.services.mirrors import values as mirrors
from hoodie.storage import local
from hoodie.timeline import active, partition_buckets, transitions
from hoodie_operator.api import writer
from hoodie_operator.observing import dialogue, inputs, tables
from hoodie_operator.observing.observer import Bounds, Observer
from hoodie_operator.reconcile import facts
from support.tables.cleans import clean_plan
from support.tables.tables import CONFIG, SmallTable


def test_look_that_fails_is_told_and_costs_no_other_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look(self: tables.TableObserver, target: tables.TableTarget) -> facts.TableFacts:
        if target.uri == "file:///data/bad":
            raise KeyError("unforeseen")
        return facts.TableFacts(observed_ms=1)

    def look_at_source(
        self: inputs.InputObserver, generation: int, source: writer.Source
    ) -> facts.SourceFacts:
        raise KeyError("unforeseen")

    monkeypatch.setattr(tables.TableObserver, "look", look)
    monkeypatch.setattr(inputs.InputObserver, "look", look_at_source)
    env = environment.system(allowed_roots=("/data",))
    observer = Observer(env, ("/data",), Bounds())
    questions = [
        dialogue.TableQuestion(uri=f"file:///data/{name}", settings=settings.WriteSettings())
        for name in ("bad", "good")
    ]
    bad, good = observer.look_at_tables(dialogue.TablesQuestion(tables=tuple(questions))).tables
    files = writer.FilesSource(path="in/*.csv", format=writer.FileFormat.CSV)
    question = dialogue.source_question(writer.Source(files=files))
    source = observer.look_at_source(question).source
    assert bad.table is not None
    assert good.table is not None
    assert source is not None
    assert good.table.problem is None
    for problem in (bad.table.problem, source.problem):
        assert problem is not None
        assert problem.is_transient
        assert "KeyError: 'unforeseen'" in problem.message


def test_look_that_has_just_ended_is_made_again_and_by_one_thread_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who asks may know that a look has ended before the observer has taken note of it."""
    notes: list[Callable[[], object]] = []
    waits: queue.SimpleQueue[list[Future[object]]] = queue.SimpleQueue()
    goes_on = threading.Event()

    def note_later(look: Future[object], note: Callable[[Future[object]], object]) -> None:
        notes.append(functools.partial(note, look))

    def wait(looks: Sequence[Future[object]], timeout: float) -> None:
        if looks:
            waits.put(list(looks))
        futures.wait(looks, timeout)

    def look(self: tables.TableObserver, target: tables.TableTarget) -> facts.TableFacts:
        assert goes_on.wait(30)
        return facts.TableFacts(observed_ms=1)

    monkeypatch.setattr(Future, "add_done_callback", note_later)
    monkeypatch.setattr("hoodie_operator.observing.observer.wait", wait)
    monkeypatch.setattr(tables.TableObserver, "look", look)
    env = environment.system(allowed_roots=("/data",))
    observer = Observer(env, ("/data",), Bounds(time_limit_s=60))
    question = dialogue.TableQuestion(uri="file:///data/t", settings=settings.WriteSettings())

    def is_seen() -> bool:
        (told,) = observer.look_at_tables(dialogue.TablesQuestion(tables=(question,))).tables
        return told.table == dialogue.Table()

    goes_on.set()
    for _ in range(2):
        assert is_seen()
        waits.get()
    goes_on.clear()
    with ThreadPoolExecutor(2) as threads:
        try:
            first = threads.submit(is_seen)
            looks = waits.get(timeout=30)
            for note in notes[:2]:
                note()
            second = threads.submit(is_seen)
            assert waits.get(timeout=30) == looks
        finally:
            goes_on.set()
        assert first.result()
        assert second.result()


def test_commit_that_is_archived_before_it_was_read_is_no_problem(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    for number in range(2):
        small.upsert([{"id": "1", "part": "p", "a": number}])
    oldest, newest = small.table.timeline().completed_writes

    class Archived(local.LocalStorage):
        def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
            if path == transitions.path(oldest):
                self.delete(path)
            return super().read(path, offset=offset, length=length)

    observer = tables.TableObserver(replace(small.env, open_storage=Archived))
    seen = observer.look(tables.TableTarget(uri=small.table.uri, settings=settings.WriteSettings()))
    assert seen.problem is None
    assert [each.requested_time for each in seen.commits] == [newest.requested_time]


def test_bucket_counts_by_partition_reach_the_operator(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    observer = tables.TableObserver(small.env)
    target = tables.TableTarget(uri=small.table.uri, settings=settings.WriteSettings())
    assert not observer.look(target).has_partition_buckets
    folder = small.path / partition_buckets.DIRECTORY
    folder.mkdir(parents=True)
    (folder / "20260101000000000.hashing_config").write_text("{}")
    answer = dialogue.told_table(observer.look(target)).table
    assert answer is not None
    assert dialogue.heard_table(answer, 1).has_partition_buckets


def test_interference_reaches_the_operator(tmp_path: Path) -> None:
    """CH13: found by the observer before any writer comes."""
    name = table_config.ChainName(id="c")
    small = SmallTable(tmp_path / "t", replace(CONFIG, chain=name, has_foreign_writers=False))
    small.upsert([{"id": "1", "part": "p", "a": 1}])
    observer = tables.TableObserver(small.env)
    target = tables.TableTarget(uri=small.table.uri, settings=settings.WriteSettings())
    assert not observer.look(target).interference
    (ours,) = small.table.timeline().completed_writes
    theirs = replace(
        ours, completion_time=instants.InstantTime(f"{int(ours.completion_time or 0) + 1}")
    )
    path = small.path / transitions.path(theirs)
    path.write_bytes((small.path / transitions.path(ours)).read_bytes())
    answer = dialogue.told_table(observer.look(target)).table
    assert answer is not None
    (found,) = dialogue.heard_table(answer, 1).interference
    assert "was completed by another engine, expected none" in found


@pytest.mark.parametrize(
    ("lost", "problem"),
    [
        ("metadata/files/*.log.*", "/files has no log file of"),
        ("metadata/files/*", "/files has no log file of"),
        ("metadata/.hoodie/timeline/*", "has no completed instant"),
        ("metadata/.hoodie/timeline/{newest}*", "lacks"),
    ],
)
def test_metadata_table_that_lost_files_reaches_the_operator(
    tmp_path: Path, lost: str, problem: str
) -> None:
    small = SmallTable(tmp_path / "t")
    small.upsert([{"id": "1", "part": "p", "a": 1}])
    small.table = small.table.initialise_metadata(small.options().transaction)
    observer = tables.TableObserver(small.env)
    target = tables.TableTarget(uri=small.table.uri, settings=settings.WriteSettings())
    assert observer.look(target).metadata == facts.MetadataTable(delta_commits=1)
    small.upsert([{"id": "1", "part": "p", "a": 2}])
    assert observer.look(target).metadata == facts.MetadataTable(delta_commits=2)
    newest = small.table.timeline().completed_writes[-1].requested_time
    for each in (small.path / ".hoodie").glob(lost.format(newest=newest)):
        if each.is_file():
            each.unlink()
    answer = dialogue.told_table(observer.look(target)).table
    assert answer is not None
    found = dialogue.heard_table(answer, 1).metadata
    assert found is not None
    assert problem in found.problem
    assert found.problem == small.table.metadata_status().problem
    small.table.drop_metadata(small.options().transaction)
    assert observer.look(target).metadata is None


def test_write_that_an_index_lacks_reaches_the_operator(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    small.upsert([{"id": "1", "part": "p", "a": 1}])
    small.table = small.table.initialise_metadata(small.options().transaction)
    assert small.table.config.has_foreign_writers
    observer = tables.TableObserver(small.env)
    target = tables.TableTarget(uri=small.table.uri, settings=settings.WriteSettings())
    for number in (2, 3):
        small.upsert([{"id": "1", "part": "p", "a": number}])
    assert observer.look(target).metadata == facts.MetadataTable(delta_commits=3)
    first = small.table.timeline().completed_writes[-2].requested_time
    for log in (small.path / ".hoodie/metadata/column_stats").glob(f".*{first}.log*"):
        log.unlink()
    answer = dialogue.told_table(observer.look(target)).table
    assert answer is not None
    found = dialogue.heard_table(answer, 1).metadata
    assert found is not None
    assert (found.problem, found.behind) == (
        "",
        (facts.IndexBehind(name="column_stats", instant=first),),
    )


def test_index_that_is_being_built_reaches_the_operator(tmp_path: Path) -> None:
    chained = replace(CONFIG, chain=table_config.ChainName(id="c"), has_foreign_writers=False)
    small = SmallTable(tmp_path / "t", chained)
    small.upsert([{"id": "1", "part": "p", "a": 1}])
    transaction = small.options().transaction
    small.table = small.table.initialise_metadata(transaction, has_statistics=False)
    observer = tables.TableObserver(small.env)
    target = tables.TableTarget(uri=small.table.uri, settings=settings.WriteSettings())
    looks: list[facts.TableFacts] = []

    def look(phase: str) -> None:
        if phase != "publishing":
            return
        answer = dialogue.told_table(observer.look(target)).table
        assert answer is not None
        looks.append(dialogue.heard_table(answer, 1))

    author = replace(transaction.author, writer_id=None, action_id="build-it")
    small.table.build_index(["bloom_filters"], replace(transaction, author=author), look)
    (seen,) = looks
    (building,) = (each for each in seen.pending if each.action == "indexing")
    assert building.indexes == ("bloom_filters",)
    assert (building.action_id, building.is_alive) == ("build-it", True)
    assert seen.config is not None
    assert seen.config.metadata_partitions_inflight == ("bloom_filters",)
    after = observer.look(target)
    assert not after.pending
    assert after.config is not None
    assert "bloom_filters" in after.config.metadata_partitions


def test_times_of_another_zone_reach_the_operator(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    small.upsert([{"id": "1", "part": "p", "a": 1}])
    small.upsert([{"id": "1", "part": "p", "a": 2}])
    observer = tables.TableObserver(small.env)
    target = tables.TableTarget(uri=small.table.uri, settings=settings.WriteSettings())
    properties = small.path / ".hoodie" / "hoodie.properties"
    local = properties.read_text().replace("timezone=UTC", "timezone=LOCAL")
    properties.write_text(f"{local}{table_config.TIME_ZONE_KEY}=Etc/UCT\n")
    assert observer.look(target).interference == ()
    newest = small.table.timeline().completed[-1]
    (file,) = small.path.glob(f".hoodie/timeline/{newest.requested_time}_*")
    # As if a JVM two hours behind had given the time.
    later_s = file.stat().st_mtime + 2 * 3600
    os.utime(file, (later_s, later_s))
    (found,) = observer.look(target).interference
    assert found.startswith(f"{newest} has a time that is 120 min behind Etc/UCT")


def test_consumer_that_a_foreign_clean_has_passed_reaches_the_operator(tmp_path: Path) -> None:
    """R6: Apache Hudi's cleaner reads no declarations."""
    small = SmallTable(tmp_path / "t")
    for number in range(3):
        small.upsert([{"id": "1", "part": "p", "a": number}])
    observer = tables.TableObserver(small.env)
    target = tables.TableTarget(uri=small.table.uri, settings=settings.WriteSettings())
    consumed = small.table.timeline().completed_writes[0].completion_time
    assert consumed is not None
    small.table.advance_consumer("billing", consumers.Progress(to=consumed))
    assert not observer.look(target).passed_consumers
    time = instants.format_time(small.env.clock.now_ms())
    clean = small.path / f".hoodie/timeline/{time}.clean.requested"
    clean.write_bytes(clean_plan("p/x_0-0-0_20200101000000000.parquet"))
    answer = dialogue.told_table(observer.look(target)).table
    assert answer is not None
    (found,) = dialogue.heard_table(answer, 1).passed_consumers
    assert found == facts.PassedConsumer(name="billing", consumed=consumed, clean=time)
    small.table.remove_consumer("billing")
    assert not observer.look(target).passed_consumers


def test_lag_of_consumers_reaches_the_operator(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    small.upsert([{"id": "1", "part": "p", "a": 0}])
    observer = tables.TableObserver(small.env)
    target = tables.TableTarget(uri=small.table.uri, settings=settings.WriteSettings())
    small.table.advance_consumer("billing", consumers.Progress())
    small.upsert([{"id": "1", "part": "p", "a": 1}])
    small.table.advance_consumer("audit", consumers.Progress())
    small.upsert([{"id": "1", "part": "p", "a": 2}])
    small.compact()
    times = [each.completion_time for each in small.table.timeline().completed_writes]
    answer = dialogue.told_table(observer.look(target)).table
    assert answer is not None
    assert dialogue.heard_table(answer, 1).consumers == (
        facts.Consumer(name="billing", consumed=times[0], unread=2, unread_since=times[1]),
        facts.Consumer(name="audit", consumed=times[1], unread=1, unread_since=times[2]),
    )
    wrong = replace(answer, consumers=answer.consumers * 51)
    with pytest.raises(errors.FormatError, match="102 consumers, expected at most 100"):
        dialogue.heard_table(wrong, 1)
    (small.path / active.consumer_path("billing")).write_bytes(b"?")
    assert [each.name for each in observer.look(target).consumers] == ["audit"]


def test_progress_of_a_mirror_reaches_the_operator(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    small.upsert([{"id": "1", "part": "p", "a": 0}])
    observer = tables.TableObserver(small.env)
    target = tables.TableTarget(uri=small.table.uri, settings=settings.WriteSettings())
    assert observer.look(target).mirror is None
    small.table.mirror(mirrors.Options())
    (write,) = small.table.timeline().completed_writes
    small.upsert([{"id": "1", "part": "p", "a": 1}])
    answer = dialogue.told_table(observer.look(target)).table
    assert answer is not None
    assert answer.mirror is not None
    assert dialogue.heard_table(answer, 1).mirror == facts.Mirror(
        completion_time=write.completion_time,
        instant=write.requested_time,
        snapshots=1,
        unmirrored_groups=1,
        unmirrored_log_bytes=answer.mirror.unmirrored_log_bytes,
    )
    wrong = replace(answer, mirror=replace(answer.mirror, snapshots=-1))
    with pytest.raises(errors.FormatError, match="snapshots"):
        dialogue.heard_table(wrong, 1)
    (small.path / "metadata" / "v1.metadata.json").write_text("{}")
    assert observer.look(target).mirror is None
