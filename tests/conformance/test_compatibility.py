"""Each kind of table, written by one engine, continued by the other, read by every reader.

`make conformance` runs all combinations and writes docs/compatibility.md from what they found;
`make test` runs a sample.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from support.peer import compatibility, peer_ours
from support.peer.compatibility import Combination, Result
from support.peer.judge import Judge, Query, Settings, release_name
from support.peer.peer_cases import SCHEMA as ROW
from support.peer.peer_cases import ApacheHudi, Maker, Model, row
from support.peer.peer_hudi_rs import read_with_hudi_rs
from support.peer.peer_options import filesystem_lock
from support.peer.peer_rows import assert_same_rows

SCHEMA = pa.schema([*ROW, ("line", pa.string()), ("day", pa.string()), ("made", pa.int64())])
DAYS = {"north": date(2024, 3, 15), "south": date(2024, 3, 16), "west": date(2024, 12, 31)}
"""The day of the rows of each `part`: a row moves to another partition by whatever fields."""

PEER = "Apache Hudi"
LAST = "continued by both"
"""The last step, at which all read."""

WITH_GAPS = (1, 3, 5, 9)
"""The times of partial updates that leave a column out.

Not of 7, which brings back what was deleted since a compaction: Apache Hudi's readers fill such
gaps with values of the deleted row until the next one, and its compaction writes them
(docs/limits.md).
"""

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


@dataclass(frozen=True, kw_only=True)
class Filter:
    """A filter as a text and as it is meant."""

    where: str
    holds: Callable[[Mapping[str, Any]], bool]


BY_KEY = Filter(where="id = 'key-004'", holds=lambda each: each["id"] == "key-004")
BY_VALUE = Filter(
    where="quantity > 60",
    holds=lambda each: each["quantity"] is not None and each["quantity"] > 60,
)
BY_BOTH_KEYS = Filter(where=f"{BY_KEY.where} AND line = 'line-0'", holds=BY_KEY.holds)
BY_PART = Filter(where="part = 'north'", holds=lambda each: each["part"] == "north")
BY_PARTITION = {
    "timestamp": replace(BY_PART, where="made < 1710547200000"),
    "slashes": replace(BY_PART, where="day = '2024-03-15'"),
}


def entry(number: int, *, ts: int, shift: int = 0, **values: object) -> dict[str, Any]:
    """Return a row of SCHEMA, in the partition so many after that of its number."""
    place = row(number + shift, ts=ts)["part"]
    moment = datetime.combine(DAYS[place], time(), UTC) + timedelta(seconds=number)
    more = {
        "line": f"line-{number % 2}",
        "day": DAYS[place].isoformat(),
        "made": int(moment.timestamp()) * 1000,
    }
    return row(number, ts=ts, part=place) | more | values


Reader = Callable[[Sequence[Filter]], Mapping[Filter | None, pa.Table]]
"""What takes filters, and returns all rows, and those of each filter that it tried."""


class Run:
    """A combination at work: both engines, and what should be in the table."""

    def __init__(self, combination: Combination, readers: Mapping[str, Judge], path: Path) -> None:
        self.combination = combination
        self.table = combination.table
        self.readers = readers
        self.path = path
        identified_by = () if combination.is_global else self.table.partition_by
        self.model = Model(table=replace(self.table, partition_by=identified_by), schema=SCHEMA)
        self.same: Counter[str] = Counter()
        self.deviating: Counter[str] = Counter()
        options = self.table.write_options()
        match combination.concurrency:
            case "optimistic":
                options = self.table.occ_options(filesystem_lock())
            case "non-blocking":
                options = self.table.nbcc_options(filesystem_lock())
        self.options = options
        concurrency = {"optimistic": "occ", "non-blocking": "nbcc"}.get(combination.concurrency)
        creation = [*combination.our_bucket_options]
        if self.table.metadata_table:
            creation.append("--metadata-table")
        self.concurrency = concurrency or "single-writer"
        self.makers: dict[str, Maker] = {
            "ours": peer_ours.Hoodie(
                table=self.table,
                concurrency=self.concurrency,
                creation=creation,
            ),
            "theirs": ApacheHudi(judge=readers[""], options=options),
        }

    def steps(self) -> Iterator[str]:
        """Change the table, and yield after each step what was done."""
        maker = self.combination.maker
        other = "theirs" if maker == "ours" else "ours"
        self.write(maker, range(12), 1)
        self.operate(maker)
        yield self.combination.operation
        if maker == "theirs":
            self.adopt()
        self.write(other, range(3, 15), 3)
        yield "continued"
        self.delete(other, range(5, 8), 4)
        yield "deleted"
        if self.table.merge_on_read:
            self.compact(other)
            yield "compacted"
        self.write(maker, range(6, 18), 5)
        self.delete(maker, range(9, 12), 6)
        yield "continued, and deleted, by the maker"
        self.write(other, range(10, 20), 7)
        yield "continued again"
        if self.table.merge_on_read:
            self.compact(maker)
            yield "compacted by the maker"
        self.write(maker, range(4, 13), 8)
        self.write(other, range(2, 9), 9)
        yield LAST

    def adopt(self) -> None:
        """Have the table state what Apache Hudi leaves to its writers."""
        options = ["--index", self.combination.our_index, *self.combination.our_bucket_options]
        if self.table.buckets is not None:
            options += ["--buckets", str(self.table.buckets)]
        if self.combination.is_global and self.combination.keeps_partitions:
            options += ["--keep-partitions"]
        for key, value in self.combination.unstated_key_options.items():
            options += ["--key-option", f"{key}={value}"]
        adopted = peer_ours.hoodie("adopt", self.path, *options, "--lock", "filesystem")
        assert adopted["is_done"]

    def compact(self, who: str) -> None:
        plan = self.makers[who].schedule_compaction(self.path)
        assert plan is not None
        self.makers[who].execute_compaction(self.path, plan)

    def operate(self, maker: str) -> None:
        """Do what the combination names."""
        match self.combination.operation:
            case "delete":
                self.delete(maker, range(4), 2)
            case "upsert":
                self.write(maker, range(8, 16), 2)
            case "insert" | "bulk_insert" as operation:
                self.write(maker, range(20, 26), 2, operation)
            case operation:
                self.replace(maker, operation)

    def rows(self, numbers: Iterable[int], ts: int, **values: object) -> pa.Table:
        """Return rows, of which a later batch has some in other partitions if records move."""
        shift = ts // 2 if self.combination.moves != "none" else 0
        found = [entry(n, ts=ts, shift=shift, **values) for n in numbers]
        return pa.Table.from_pylist(found, SCHEMA)

    def write(self, who: str, numbers: range, ts: int, operation: str = "upsert") -> None:
        gaps = {"amount": None} if self.table.partial_updates and ts in WITH_GAPS else {}
        rows = self.rows(numbers, ts, **gaps)
        self.makers[who].write(self.path, rows, operation)
        self.model.upsert(rows.to_pylist())

    def delete(self, who: str, numbers: range, ts: int) -> None:
        empty = dict.fromkeys(("name", "amount", "quantity"))
        rows = self.rows(numbers, ts, **empty)
        self.makers[who].write(self.path, rows, "delete")
        self.model.delete(rows.to_pylist())

    def replace(self, who: str, operation: str) -> None:
        """Replace file groups: of the partition of two rows, or of the whole table."""
        rows = pa.Table.from_pylist([entry(n, ts=2) for n in (0, 30)], SCHEMA)
        if operation == "delete_partition" and who == "ours":
            part = "part=north" if self.combination.partitions == "Hive" else "north"
            concurrency = ("--concurrency", self.concurrency, "--lock", "filesystem")
            peer_ours.hoodie("delete", self.path, "--partition", part, *concurrency)
        else:
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
        """Compare what each reader returns with the model, all rows and those of filters."""
        for reader, read in self.read(step).items():
            known = compatibility.deviation(reader, self.combination, step)
            try:
                self.compare(reader, read(self.filters(reader, step)))
            except Exception as error:
                if known is None:
                    raise AssertionError(f"{reader}, {step}: {error}") from error
                self.deviating[reader] += 1
            else:
                self.same[reader] += 1

    def filters(self, reader: str, step: str) -> Sequence[Filter]:
        """Return filters by key, by another column, and by partition where the reader knows it.

        Of Apache Hudi, to which each costs a second, one of them in turn.
        """
        found = [BY_BOTH_KEYS if self.combination.keys == "complex" else BY_KEY, BY_VALUE]
        if not self.by_path(reader):
            found.append(BY_PARTITION.get(self.combination.keys, BY_PART))
        if not reader.startswith(PEER):
            return found
        turn = self.same[reader] + self.deviating[reader]
        return found if step == LAST and release_name() in reader else [found[turn % len(found)]]

    def by_path(self, reader: str) -> Sequence[str]:
        """Return the columns of which the reader returns what the path says, not the row's value.

        Where a record is updated in its partition, though another one was written with it, both are
        right.
        """
        is_transformed = self.combination.keys in compatibility.TRANSFORMED
        if self.combination.moves == "ignored" or (is_transformed and reader.startswith(PEER)):
            return self.table.partition_columns
        return ()

    def compare(self, reader: str, found: Mapping[Filter | None, pa.Table]) -> None:
        """Compare what a reader returned, of all rows and of filters, with the model."""
        rows = self.model.content().to_pylist()
        dropped = self.by_path(reader)
        key = list(self.table.record_key)
        if not self.combination.is_global and not dropped:
            key += self.table.partition_columns
        for each, read in found.items():
            wanted = rows if each is None else list(filter(each.holds, rows))
            expected = pa.Table.from_pylist(wanted, SCHEMA).drop_columns(list(dropped))
            try:
                assert_same_rows(read.drop_columns(list(dropped)), expected, key)
            except AssertionError as error:
                raise AssertionError(f"{each.where if each else 'all rows'}: {error}") from error

    def read(self, step: str) -> Mapping[str, Reader]:
        """Return the readers.

        Apache Hudi reads by the metadata table if there is one, and at last by listing, too; its
        other releases read at last.
        """

        def ours(filters: Sequence[Filter]) -> Mapping[Filter | None, pa.Table]:
            found = {each: peer_ours.read(self.path, "--where", each.where) for each in filters}
            return {None: peer_ours.read(self.path), **found}

        def theirs(release: str, *, by_metadata: bool) -> Reader:
            options = {"hoodie.enable.data.skipping": str(by_metadata).lower()}

            def read(filters: Sequence[Filter]) -> Mapping[Filter | None, pa.Table]:
                # One request: each costs more than what it reads.
                scans = [None, *filters]
                select = " UNION ALL ".join(
                    f"SELECT {number} AS scan, * FROM scanned"
                    + ("" if each is None else f" WHERE {each.where}")
                    for number, each in enumerate(scans)
                )
                query = Query(select=select, use_metadata_table=by_metadata, options=options)
                rows = self.readers[release].read(self.path, query)
                number = rows.column("scan")
                rows = rows.drop_columns(["scan"])
                return {each: rows.filter(pc.equal(number, n)) for n, each in enumerate(scans)}

            return read

        def hudi_rs(_filters: Sequence[Filter]) -> Mapping[Filter | None, pa.Table]:
            return {None: read_with_hudi_rs(self.path)}

        has_metadata = self.table.metadata_table
        found: dict[str, Reader] = {"hoodie": ours}
        for release in self.readers if step == LAST else [""]:
            if release.startswith("1.0") and self.combination.version != "8":
                continue
            name = f"{PEER} {release_name(release)}"
            if not has_metadata or step == LAST:
                found[name] = theirs(release, by_metadata=False)
            if has_metadata:
                found[f"{name} by its metadata table"] = theirs(release, by_metadata=True)
        return found | {"hudi-rs": hudi_rs}


def _left() -> list[Combination]:
    """Return the combinations without a result yet: a run that was stopped goes on."""
    known = Path(RESULTS) if RESULTS else None
    found = compatibility.read(known) if known is not None and known.exists() else []
    done = {each.combination for each in found}
    return [each for each in compatibility.combinations() if each not in done]


@pytest.mark.sample(2)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("combination", _left(), ids=str)
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
