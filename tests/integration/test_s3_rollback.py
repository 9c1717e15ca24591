"""Rollback of failed writes on an S3 server (moto), where a directory is but a prefix."""

import re
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from hoodie import environment, errors, identity, table
from hoodie.model import commits, instants, schemas, settings, table_config
from hoodie.storage import locations, objects
from hoodie.storage.protocol import Storage
from hoodie.timeline import active
from hoodie.transaction import authors, manager, markers
from hoodie.transaction.locks import address_texts
from hoodie.write import batches, sessions, tasks, write_task
from support.simulation import faulty_storage, invariants, schedule
from support.simulation.faulty_storage import Fault
from support.tables.tables import COLUMNS, CONFIG, QUICK

Types = table_config.TableType
MODES = {
    Types.MERGE_ON_READ: settings.ConcurrencyMode.NON_BLOCKING,
    Types.COPY_ON_WRITE: settings.ConcurrencyMode.OPTIMISTIC,
}
KEPT = [
    {"id": str(number), "part": f"p{number % 2}", "a": number, "b": "kept"} for number in (1, 2)
]
LOST = [{**row, "b": "lost"} for row in KEPT]


class Silence:
    """The heartbeats of processes that are to be dead: nobody beats after the first."""

    def every(self, interval_s: float, call: Callable[[], bool], *, name: str) -> "Silence":
        del interval_s, call, name
        return self

    def stop(self) -> None:
        """Nothing runs."""


class DeathAt:
    """A process dies at its first call of a kind."""

    def __init__(self, call: str, fault: Fault = Fault.CRASH_AFTER) -> None:
        self._call = call
        self._fault = fault

    def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
        del process, is_mutation
        return self._fault if kind_of(call) == self._call else Fault.NONE


ENDED = "a machine that is off"
"""The boot of processes that are judged dead as soon as they are looked at."""


@pytest.fixture(autouse=True)
def _processes_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    state_of = identity.state_of

    def state_seen(process: identity.ProcessIdentity) -> identity.ProcessState:
        has_ended = process.boot_id == ENDED
        return identity.ProcessState.ENDED if has_ended else state_of(process)

    monkeypatch.setattr(identity, "state_of", state_seen)
    # Nothing of a process that ended is on its way here, so that nothing waits for it.
    monkeypatch.setattr(objects.ObjectStorage, "request_time_ms", 0)


def kind_of(call: str) -> str:
    """Return a call without what is of one instant or file group only."""
    return re.sub(r"\.CREATE\..*", ".CREATE", re.sub(r"[0-9][0-9a-f-]*", "#", call))


class Place:
    """A table in a bucket, and processes on it that others can prove to be dead."""

    def __init__(self, bucket: str, table_type: Types) -> None:
        self.uri = f"s3a://{bucket}/lake/{table_type.value.lower()}"
        self.storage: Storage = locations.open_storage(self.uri)
        self.settings = replace(QUICK, concurrency=MODES[table_type])
        config = replace(CONFIG, table_type=table_type)
        schema = schemas.from_arrow(COLUMNS, "t")
        self.table = table.create_table(self.uri, config, schema, environment.system())
        self.write("first", faulty_storage.NoFaults()).commit(self.stats)

    def env(self, name: str, faults: faulty_storage.Faults) -> environment.Environment:
        """Return what a process has that ends when this test's own does, by what others see."""
        process = schedule.Process(schedule.Schedule(), name)
        return replace(
            environment.system(parallelism=1),
            open_storage=lambda uri: faulty_storage.FaultyStorage(
                locations.open_storage(uri), process, faults
            ),
            process=replace(identity.current_process(), boot_id=ENDED),
            background=Silence(),
        )

    def transaction(self, author: authors.Author) -> manager.TransactionOptions:
        return manager.TransactionOptions(
            settings=self.settings, lock=address_texts.parse("in-process"), author=author
        )

    def write(self, name: str, faults: faulty_storage.Faults) -> sessions.WriteSession:
        """Begin a write, and write its data files."""
        env = self.env(name, faults)
        options = sessions.WriteOptions(
            operation=commits.Operation.UPSERT,
            transaction=self.transaction(authors.Author(writer_id=name)),
        )
        data = pa.Table.from_pylist(KEPT if name == "first" else LOST, COLUMNS)
        session = table.open_table(self.uri, env).begin_write(options, data.column_names)
        assert isinstance(session, sessions.WriteSession)
        task = session.task
        batch = batches.prepare(data, task.config, task.schema, task.operation)
        storage = env.open_storage(self.uri)
        self.stats = tasks.run(task, batch, write_task.WriteToken(), storage, env.engine)
        return session

    def fail(self) -> instants.InstantTime:
        """Have a writer die once its data files are there, and a compactor if there can be one."""
        if self.table.config.table_type is Types.MERGE_ON_READ:
            service = self.transaction(authors.Author())
            planned = self.table.schedule_compaction(service)
            assert planned is not None
            # Its data files are there by then.
            death = DeathAt("create .hoodie/timeline/#_#.commit", Fault.CRASH_BEFORE)
            env = self.env("compactor", death)
            with pytest.raises(schedule.Crash):
                table.open_table(self.uri, env).compact(planned, service)
        return self.write("dying", faulty_storage.NoFaults()).requested_time

    def clean_up(self, name: str, faults: faulty_storage.Faults) -> None:
        """Take back what failed, as one process; a compaction only goes back to being planned."""
        opened = table.open_table(self.uri, self.env(name, faults))
        service = self.transaction(authors.Author())
        opened.roll_back_failed(service)
        for each in opened.timeline().pending_compactions:
            if each.state is instants.State.INFLIGHT:
                opened.roll_back(each.requested_time, service)

    def check(self) -> None:
        """Check that nothing is left of what failed, and everything of what did not."""
        timeline = active.load(self.storage)
        invariants.check_all(self.storage, ())
        for planned in timeline.pending_compactions:
            assert planned.state is instants.State.REQUESTED
            self.table.compact(planned.requested_time, self.transaction(authors.Author()))
        invariants.check_quiescence(self.storage, active.load(self.storage))
        found = self.table.read().read_all().to_pylist()
        assert sorted(found, key=lambda row: str(row["id"])) == KEPT


def test_rollback_killed_after_each_kind_of_call_is_finished_by_another(
    new_bucket: Callable[[], str],
) -> None:
    """T-R01."""
    for table_type in Types:
        recorder = faulty_storage.NoFaults()
        clean = Place(new_bucket(), table_type)
        clean.fail()
        clean.clean_up("janitor", recorder)
        clean.check()
        kinds = dict.fromkeys(map(kind_of, recorder.mutations))
        assert any(kind.startswith("delete p#/") for kind in kinds), kinds
        for kind in kinds:
            place = Place(new_bucket(), table_type)
            place.fail()
            with pytest.raises(schedule.Crash):
                place.clean_up("janitor", DeathAt(kind))
            place.clean_up("successor", faulty_storage.NoFaults())
            place.check()


@pytest.mark.parametrize("table_type", Types)
def test_files_are_found_without_markers(bucket: str, table_type: Types) -> None:
    """T-R05."""
    place = Place(bucket, table_type)
    failed = place.fail()
    place.storage.delete_directory(markers.directory_of(failed))
    place.clean_up("janitor", faulty_storage.NoFaults())
    place.check()


def test_server_that_does_not_answer_leaves_what_failed_pending(bucket: str) -> None:
    place = Place(bucket, Types.MERGE_ON_READ)
    failed = place.fail()
    before = place.table.timeline()
    with pytest.raises(errors.StorageError, match="simulated"):
        place.clean_up("janitor", faulty_storage.FaultAt("janitor", 0, Fault.FAIL_BEFORE))
    assert place.table.timeline() == before
    place.clean_up("successor", faulty_storage.NoFaults())
    assert place.table.timeline().find(failed) is None
    place.check()
