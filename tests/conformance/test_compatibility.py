"""Each kind of table, written by one engine, continued by the other, read by every reader.

`make conformance` runs all combinations and writes docs/compatibility.md from what they found;
`make test` runs a sample.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from support.peer import compatibility, peer_ours
from support.peer.compatibility import Combination, Result
from support.peer.judge import Judge, Query, Settings, release_name
from support.peer.peer_cases import SCHEMA, ApacheHudi, Maker, Model, key_of, row
from support.peer.peer_hudi_rs import read_with_hudi_rs
from support.peer.peer_options import filesystem_lock
from support.peer.peer_rows import assert_same_rows

FILTERS: Mapping[str, Callable[[dict[str, object]], bool]] = {
    "id = 'key-004'": lambda each: each["id"] == "key-004",
    "part = 'north'": lambda each: each["part"] == "north",
    "quantity > 60": lambda each: each["quantity"] is not None and int(str(each["quantity"])) > 60,
}
"""Filters by key, by partition and by another column, as texts and as they are meant."""

FILTERED = ("continued", "continued again")
"""The steps after which the filters are tried; all rows are read after each."""

RESULTS = os.environ.get("COMPATIBILITY_RESULTS")
"""The file that `make conformance` collects results in."""
RELEASES = os.environ.get("COMPATIBILITY_RELEASES", "").split()
"""Further releases of Apache Hudi that read the tables."""


@pytest.fixture(scope="module")
def readers(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Judge]]:
    """Apache Hudi in each release that reads."""
    found = {"": judge}
    try:
        for release in RELEASES:
            settings = Settings(name=f"judge-{release}", release=release)
            found[release] = Judge(tmp_path_factory.mktemp(release), settings)
            found[release].start()
        yield found
    finally:
        for release in RELEASES:
            if release in found:
                found[release].close()


class Run:
    """A combination at work: both engines, and what should be in the table."""

    def __init__(self, combination: Combination, readers: Mapping[str, Judge], path: Path) -> None:
        self.combination = combination
        self.table = combination.table
        self.readers = readers
        self.path = path
        self.model = Model(table=self.table, schema=SCHEMA)
        self.same: Counter[str] = Counter()
        self.deviating: Counter[str] = Counter()
        options = self.table.write_options()
        match combination.concurrency:
            case "optimistic":
                options = self.table.occ_options(filesystem_lock())
            case "non-blocking":
                options = self.table.nbcc_options(filesystem_lock())
        self.options = options
        index = combination.index.replace("record", "simple")
        self.adoption = ["--index", index] + (["--buckets", "2"] if index == "bucket" else [])
        concurrency = {"optimistic": "occ", "non-blocking": "nbcc"}.get(combination.concurrency)
        self.makers: dict[str, Maker] = {
            "ours": peer_ours.Hoodie(
                table=self.table,
                concurrency=concurrency or "single-writer",
                creation=["--metadata-table"] if self.table.metadata_table else [],
            ),
            "theirs": ApacheHudi(judge=readers[""], options=options),
        }

    def steps(self) -> Iterator[str]:
        """Change the table, and yield after each step what was done."""
        maker = self.combination.maker
        other = "theirs" if maker == "ours" else "ours"
        self.write(maker, range(12), 1)
        yield "created"
        self.operate(maker)
        yield self.combination.operation
        if maker == "theirs":
            adopted = peer_ours.hoodie("adopt", self.path, *self.adoption, "--lock", "filesystem")
            assert adopted["is_done"]
        self.write(other, range(3, 15), 3)
        yield "continued"
        self.delete(other, range(5, 8))
        yield "deleted"
        if self.table.merge_on_read:
            plan = self.makers[other].schedule_compaction(self.path)
            assert plan is not None
            self.makers[other].execute_compaction(self.path, plan)
            yield "compacted"
        self.write(maker, range(6, 18), 4)
        yield "continued by the maker"
        self.write(other, range(10, 20), 5)
        yield "continued again"

    def operate(self, maker: str) -> None:
        """Do what the combination names."""
        match self.combination.operation:
            case "delete":
                self.delete(maker, range(4))
            case "upsert":
                self.write(maker, range(8, 16), 2)
            case "insert" | "bulk_insert" as operation:
                self.write(maker, range(20, 26), 2, operation)
            case operation:
                self.replace(maker, operation)

    def write(self, who: str, numbers: range, ts: int, operation: str = "upsert") -> None:
        gaps = {"amount": None} if self.table.partial_updates and ts % 2 else {}
        rows = pa.Table.from_pylist([row(n, ts=ts, **gaps) for n in numbers], SCHEMA)
        self.makers[who].write(self.path, rows, operation)
        self.model.upsert(rows.to_pylist())

    def delete(self, who: str, numbers: range) -> None:
        rows = pa.Table.from_pylist([key_of(n) for n in numbers], SCHEMA)
        self.makers[who].write(self.path, rows, "delete")
        self.model.delete(rows.to_pylist())

    def replace(self, who: str, operation: str) -> None:
        """Replace file groups: of the partitions of two rows, or of the whole table."""
        rows = pa.Table.from_pylist([row(n, ts=2) for n in (0, 30)], SCHEMA)
        self.makers[who].write(self.path, rows, operation)
        is_of_all = operation == "insert_overwrite_table" or not self.table.partition_by
        parts = {each["part"] for each in rows.to_pylist()}
        self.model.rows = {
            key: each
            for key, each in self.model.rows.items()
            if not is_of_all and each["part"] not in parts
        }
        if operation != "delete_partition":
            self.model.upsert(rows.to_pylist())

    def look(self, step: str) -> None:
        """Compare what each reader returns with the model."""
        for reader, read in self.read().items():
            known = compatibility.deviation(reader, self.combination, step)
            try:
                self.compare(read, FILTERS if step in FILTERED else {})
            except Exception as error:
                if known is None:
                    raise AssertionError(f"{reader}, {step}: {error}") from error
                self.deviating[reader] += 1
            else:
                self.same[reader] += 1

    def compare(
        self,
        read: Callable[[str | None], pa.Table | None],
        filters: Mapping[str, Callable[[dict[str, object]], bool]],
    ) -> None:
        rows = self.model.content()
        key = [*self.table.partition_by, "id"]
        found = read(None)
        assert found is not None
        assert_same_rows(found, rows, key)
        for where, holds in filters.items():
            filtered = read(where)
            if filtered is not None:
                wanted = [each for each in rows.to_pylist() if holds(each)]
                assert_same_rows(filtered, pa.Table.from_pylist(wanted, SCHEMA), key)

    def read(self) -> dict[str, Callable[[str | None], pa.Table | None]]:
        """Return the readers, each of which takes a filter, or returns None if it has none."""

        def ours(where: str | None) -> pa.Table:
            return peer_ours.read(self.path, *([] if where is None else ["--where", where]))

        def theirs(release: str, *, by_metadata: bool) -> Callable[[str | None], pa.Table]:
            return lambda where: self.readers[release].read(
                self.path,
                Query(
                    where=where,
                    use_metadata_table=by_metadata,
                    options={"hoodie.enable.data.skipping": str(by_metadata).lower()},
                ),
            )

        def hudi_rs(where: str | None) -> pa.Table | None:
            return read_with_hudi_rs(self.path) if where is None else None

        has_metadata = self.table.metadata_table
        found: dict[str, Callable[[str | None], pa.Table | None]] = {"hoodie": ours}
        for release in self.readers:
            if release.startswith("1.0") and self.combination.version != "8":
                continue
            name = f"Apache Hudi {release_name(release)}"
            found[name] = theirs(release, by_metadata=False)
            if has_metadata:
                found[f"{name} by its metadata table"] = theirs(release, by_metadata=True)
        found["hudi-rs"] = hudi_rs
        return found


def _names(tried: Sequence[Combination]) -> list[str]:
    return [str(each) for each in tried]


@pytest.mark.sample(3)
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "combination",
    compatibility.combinations(),
    ids=_names(compatibility.combinations()),
)
def test_both_engines_write_it_and_all_read_it(
    combination: Combination, readers: dict[str, Judge], tmp_path: Path
) -> None:
    run = Run(combination, readers, tmp_path / "combined")
    for step in run.steps():
        run.look(step)
    peer_ours.hoodie("check", run.path)
    if RESULTS:
        result = Result(combination=combination, same=dict(run.same), deviating=dict(run.deviating))
        compatibility.kept(result, Path(RESULTS))
