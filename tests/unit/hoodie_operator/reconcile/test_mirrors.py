"""What is decided about mirrors in Iceberg: by spec.mirror, and by TableActions of users."""

import dataclasses

import pydantic
import pytest

from hoodie.contract import job_results, job_specs
from hoodie.services.mirrors import names as mirror_names
from hoodie.services.mirrors import values
from hoodie_operator.api import hudi_table, hudi_table_status, kinds
from hoodie_operator.reconcile import facts, timelines
from support.operators import operator_world as ow
from support.operators.flights_world import Flights

MINUTE_MS = 60_000


class Mirrored(Flights):
    """A table that is mirrored."""

    def declare(self, **mirror: object) -> None:
        self.edit(self.table_key, mirror={"enabled": True, "interval": "5m"} | mirror)

    def see(self, commits: int, mirrored: int | None = None, *, after_ms: int = 0) -> None:
        """Have the observer see commits, of which the mirror has the first ones, after a time."""
        found = [ow.commit(number + 1) for number in range(commits)]
        self.see_table(self.table_key, found)
        uid = self.uid(self.table_key)
        mirror = None
        if mirrored is not None:
            newest = found[mirrored - 1]
            mirror = facts.Mirror(
                completion_time=newest.completion_time,
                instant=newest.requested_time,
                snapshots=2,
                unmirrored_groups=3,
                unmirrored_log_bytes=100,
            )
        self.tables[uid] = dataclasses.replace(self.tables[uid], mirror=mirror)
        first = found[min(mirrored or 0, commits - 1)]
        completed_ms = timelines.epoch_ms(self.tables[uid], first.completion_time)
        self.now_ms = max(self.now_ms + 1, completed_ms + after_ms)
        self.settle()

    @property
    def told(self) -> hudi_table_status.MirrorStatus | None:
        found: hudi_table_status.MirrorStatus | None = self.status(self.table_key).mirror
        return found

    @property
    def works(self) -> list[job_specs.Work]:
        return [start.work for start in self.started]


def test_a_table_that_declares_no_mirror_has_none() -> None:
    here = Mirrored()
    here.see(3, after_ms=60 * MINUTE_MS)
    assert here.told is None
    assert not here.actions()


def test_what_is_mirrored_by_hand_is_told_and_left_to_the_hand() -> None:
    here = Mirrored()
    here.see(3, 1, after_ms=60 * MINUTE_MS)
    assert here.told is not None
    assert (here.told.unmirrored_commits, here.told.snapshots) == (2, 2)
    assert (here.told.unmirrored_file_groups, here.told.unmirrored_log_bytes) == (3, 100)
    assert here.told.unmirrored_since is not None
    assert not here.actions()


def test_a_mirror_is_due_an_interval_after_the_first_commit_that_it_lacks() -> None:
    here = Mirrored()
    here.declare(keepSnapshots=4)
    here.see(2, 1, after_ms=MINUTE_MS)
    assert not here.actions()
    assert here.told is not None
    assert here.told.message == "due 5m after the first commit"
    here.see(3, 1, after_ms=5 * MINUTE_MS)
    (action,) = here.actions()
    assert here.works == [job_specs.Mirror(kept=4)]
    assert here.told is not None
    assert here.told.action == action.name
    here.see(4, 1, after_ms=6 * MINUTE_MS)
    assert here.actions() == [action]
    here.end(here.uid(action), result=job_results.JobResult(attempt=1, files=7))
    here.see(4, 4, after_ms=6 * MINUTE_MS)
    assert here.condition(action) == ("Succeeded", "Succeeded", "the mirror names 7 base files")
    assert here.told is not None
    assert (here.told.unmirrored_commits, here.told.unmirrored_since) == (0, None)
    assert (here.told.action, here.told.message) == (None, None)
    here.see(5, 4, after_ms=5 * MINUTE_MS)
    assert len(here.actions()) == 2


def test_one_run_of_a_table_at_a_time() -> None:
    here = Mirrored()
    here.declare()
    here.add(kinds.TABLE_ACTION, "one", {"tableRef": {"name": "flights"}, "type": "Mirror"})
    here.add(kinds.TABLE_ACTION, "two", {"tableRef": {"name": "flights"}, "type": "Mirror"})
    here.see(1, after_ms=5 * MINUTE_MS)
    assert here.works == [job_specs.Mirror(kept=10)]
    assert len(here.actions()) == 2
    assert here.told is not None
    assert here.told.action in {"one", "two"}


def test_a_mirror_that_is_not_wanted_any_more_does_not_start_again() -> None:
    here = Mirrored()
    here.declare()
    here.see(1, after_ms=5 * MINUTE_MS)
    (action,) = here.actions()
    here.end(here.uid(action))
    here.edit(here.table_key, mirror={"enabled": False})
    here.see(1, after_ms=60 * MINUTE_MS)
    assert len(here.works) == 1
    assert here.condition(action)[0] == "Cancelled"


def test_a_mirror_is_in_the_catalog_that_is_declared() -> None:
    here = Mirrored()
    catalog = {"name": "postgresql+psycopg2://mirror@db/catalog", "table": "lake.trips"}
    here.declare(catalog=catalog)
    here.see(1, after_ms=5 * MINUTE_MS)
    (action,) = here.actions()
    here.end(here.uid(action))
    here.declare(catalog=catalog | {"table": "lake.rides"})
    here.see(1, after_ms=60 * MINUTE_MS)
    assert here.condition(action)[0] == "Cancelled"
    assert here.works == [
        job_specs.Mirror(kept=10, catalog=catalog["name"], table=table)
        for table in ("lake.trips", "lake.rides")
    ]


def test_the_mirror_that_is_declared_is_the_one_that_is_looked_at() -> None:
    catalog = hudi_table.MirrorCatalog(name="glue", table="lake.trips")
    assert hudi_table.Mirror().consumer == mirror_names.CONSUMER
    declared = hudi_table.Mirror(catalog=catalog).consumer
    assert declared == values.Catalog(name="glue", table="lake.trips").consumer


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("postgresql://mirror:secret@db/catalog", "lake.trips"),
        ("https://user:secret@host/api", "lake.trips"),
        ("a catalog", "lake.trips"),
        ("glue", "trips"),
        ("glue", "lake/trips"),
    ],
)
def test_a_catalog_with_a_password_or_a_table_without_a_namespace_is_refused(
    name: str, table: str
) -> None:
    with pytest.raises(pydantic.ValidationError):
        hudi_table.MirrorCatalog(name=name, table=table)
