"""Tables of each kind that Apache Hudi and we both write: which combinations are tried, and a page.

A `Combination` has a value of each factor. `covering` draws so few of the valid ones that every two
values of two factors that go together are in one of them. `NAMED` are those that somebody asked
for, or in which something was wrong once.

What a reader does not return as it should is a `Deviation`, known by name and reason. `page` tells
of what a run of all found: docs/compatibility.md.
"""

import dataclasses
import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.peer.peer_options import RECORD_INDEX, PeerTable

FACTORS: Mapping[str, Sequence[str]] = {
    "maker": ("ours", "theirs"),
    "type": ("merge-on-read", "copy-on-write"),
    "version": ("9", "8"),
    "index": (
        "bucket",
        "simple",
        "bloom",
        "global simple",
        "global bloom",
        "record",
        "consistent hashing",
        "counts by partition",
    ),
    "moves": ("none", "followed", "ignored"),
    "operation": (
        "upsert",
        "delete",
        "insert",
        "bulk_insert",
        "insert_overwrite",
        "insert_overwrite_table",
        "delete_partition",
    ),
    "merge": ("event time", "commit time", "partial, event time", "partial, commit time"),
    "logs": ("parquet", "avro"),
    "partitions": ("plain", "none", "Hive"),
    "keys": ("simple", "complex", "timestamp", "custom", "slashes"),
    "metadata": ("none", "default"),
    "concurrency": ("single-writer", "optimistic", "non-blocking"),
}
"""The values of each factor."""
ADDED = ("consistent hashing", "counts by partition")
"""Values that came later. What is drawn without them stays, and with it the results."""

MEANINGS = {
    "maker": "creates the table and writes it first; the other engine continues",
    "index": (
        "of Apache Hudi's writers; beside a record index those of this project have the simple "
        "one, the global simple one if records change their partition"
    ),
    "moves": (
        "whether records change their partition, and whether they are moved there or updated where "
        "they are (`hoodie.*.index.update.partition.path`)"
    ),
    "operation": "what the maker does to the table before the other one continues",
    "merge": "`hoodie.record.merge.mode`, and whether updates are partial",
    "logs": "format of data blocks in log files",
    "keys": (
        "key generator: of one key field and one partition; of two key fields; of times in "
        "milliseconds as `yyyy/MM/dd`; the custom one, of two fields as they are; of dates with "
        "slashes. Without partitions it is the non-partitioned one"
    ),
    "metadata": "whether there is a metadata table, with what Apache Hudi makes by default",
}
MAKERS = {"ours": "this project", "theirs": "Apache Hudi"}
GLOBAL = ("global simple", "global bloom")
BUCKETS = ("bucket", "counts by partition", "consistent hashing")
COUNTS_BY_PARTITION = "(north|15),3"
"""What some partition paths with any key generator match, and its number of buckets."""
GENERATOR = "hoodie.datasource.write.keygenerator.class"
TRANSFORMED = ("timestamp", "slashes")
"""Key generators whose partition paths are not the values of their fields."""
PARTITION_FIELDS: Mapping[str, tuple[str, ...]] = {
    "timestamp": ("made",),
    "custom": ("part:SIMPLE", "day:SIMPLE"),
    "slashes": ("day",),
}
REPLACING = ("insert_overwrite", "insert_overwrite_table", "delete_partition")
_CANDIDATES = 30
_SEED = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """A value of each factor."""

    maker: str
    type: str
    version: str
    index: str
    moves: str
    operation: str
    merge: str
    logs: str
    partitions: str
    keys: str
    metadata: str
    concurrency: str

    def __str__(self) -> str:
        return ", ".join(dataclasses.astuple(self))

    @property
    def refusal(self) -> str | None:
        """Return why there is no such table, or no such write of it."""
        return next((reason for reason, holds in RULES.items() if holds(self)), None)

    @property
    def is_global(self) -> bool:
        """Whether a key is unique in the table, not in its partition."""
        return self.index in GLOBAL or self.moves != "none"

    @property
    def keeps_partitions(self) -> bool:
        """Whether writers update a record where it is if its partition changes."""
        # Tables with partial updates have to, even if no record moves.
        return self.moves == "ignored" or self.merge.startswith("partial")

    @property
    def our_index(self) -> str:
        """The index of this project's writers, as the command line names it."""
        if self.index == "record":
            return "global-simple" if self.is_global else "simple"
        if self.index == "counts by partition":
            return "bucket"
        return self.index.replace(" ", "-")

    @property
    def our_bucket_options(self) -> Sequence[str]:
        """Options of the command line with the counts, which Apache Hudi does not store."""
        is_by_partition = self.index == "counts by partition"
        return ("--buckets-by-partition", COUNTS_BY_PARTITION) if is_by_partition else ()

    @property
    def key_options(self) -> Mapping[str, str]:
        """Options of the table's key generator."""
        match self.keys:
            case "timestamp":
                return {
                    GENERATOR: "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
                    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
                    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
                    "hoodie.keygen.timebased.output.timezone": "UTC",
                }
            case "custom":
                return {GENERATOR: "org.apache.hudi.keygen.CustomKeyGenerator"}
            case "slashes":
                return {"hoodie.datasource.write.slash.separated.date.partitioning": "true"}
            case _:
                return {}

    @property
    def unstated_key_options(self) -> Mapping[str, str]:
        """Those that Apache Hudi leaves to its writers: an adoption states them."""
        is_unstated = self.keys == "slashes" and self.partitions == "Hive"
        return self.key_options if is_unstated else {}

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The partition fields, as Apache Hudi is told."""
        if self.partitions == "none":
            return ()
        return PARTITION_FIELDS.get(self.keys, ("part",))

    @property
    def table(self) -> PeerTable:
        """The table as Apache Hudi is told to make it."""
        is_bucket = self.index in BUCKETS
        extra: dict[str, str] = dict(self.key_options)
        if self.index in {"bloom", *GLOBAL}:
            extra["hoodie.index.type"] = self.index.upper().replace(" ", "_")
        if self.index == "record":
            extra |= RECORD_INDEX
        if self.is_global:
            for name in ("simple", "bloom", "record"):
                option = f"hoodie.{name}.index.update.partition.path"
                extra[option] = str(not self.keeps_partitions).lower()
        if self.index == "consistent hashing":
            extra["hoodie.index.bucket.engine"] = "CONSISTENT_HASHING"
        if self.index == "counts by partition":
            extra["hoodie.bucket.index.partition.expressions"] = COUNTS_BY_PARTITION
        if is_bucket and self.operation == "bulk_insert":
            # By rows, its default, Apache Hudi makes second file groups of the same buckets, which
            # are refused.
            extra["hoodie.datasource.write.row.writer.enable"] = "false"
        if self.partitions == "Hive":
            extra["hoodie.datasource.write.hive_style_partitioning"] = "true"
        return PeerTable(
            name="combined",
            record_key=("id", "line") if self.keys == "complex" else ("id",),
            partition_by=self.partition_by,
            ordering="ts" if "event" in self.merge else None,
            merge_on_read=self.type == "merge-on-read",
            table_version=int(self.version),
            buckets=2 if is_bucket else None,
            partial_updates=self.merge.startswith("partial"),
            parquet_logs=self.logs == "parquet",
            bloom_filter=not is_bucket,
            metadata_table=self.metadata == "default",
            # Tasks of Apache Hudi 1.2.0 side by side fail with new expressions now and then
            # (ConcurrentModificationException in PartitionBucketIndexCalculator.getInstance).
            parallelism=1 if self.index == "counts by partition" else 2,
            extra=extra,
        )


RULES: Mapping[str, Callable[[Combination], bool]] = {
    "A copy-on-write table has no log files": lambda each: (
        each.type == "copy-on-write" and each.logs == "avro"
    ),
    "Non-blocking writers need a merge-on-read table and buckets": lambda each: (
        each.concurrency == "non-blocking"
        and (each.type == "copy-on-write" or each.index != "bucket")
    ),
    "Non-blocking writers do not replace file groups": lambda each: (
        each.concurrency == "non-blocking" and each.operation in REPLACING
    ),
    "A bulk insert of Apache Hudi's non-blocking writers gives buckets second file groups, which "
    "this project does not write": lambda each: (
        each.concurrency == "non-blocking"
        and each.operation == "bulk_insert"
        and each.maker == "theirs"
    ),
    "Apache Hudi has consistent hashing in merge-on-read tables alone": lambda each: (
        each.index == "consistent hashing" and each.type == "copy-on-write"
    ),
    "Of partitions with consistent hashing that it has replaced Apache Hudi 1.2.0 loses what it "
    "writes afterwards, and this project replaces none": lambda each: (
        each.index == "consistent hashing" and each.operation in REPLACING
    ),
    "With consistent hashing Apache Hudi 1.2.0 bulk inserts into partitions that are new alone": (
        lambda each: (
            each.index == "consistent hashing"
            and each.operation == "bulk_insert"
            and each.maker == "theirs"
        )
    ),
    "Without partitions none has a number of buckets of its own": lambda each: (
        each.index == "counts by partition" and each.partitions == "none"
    ),
    "A record index is in the metadata table": lambda each: (
        each.index == "record" and each.metadata == "none"
    ),
    "Only Apache Hudi creates a table with a record index": lambda each: (
        each.index == "record" and each.maker == "ours"
    ),
    "Only with an index of the whole table a record changes its partition": lambda each: (
        each.moves != "none" and each.index not in {*GLOBAL, "record"}
    ),
    "In a table without partitions no record changes its partition": lambda each: (
        each.moves != "none" and each.partitions == "none"
    ),
    "Of merge-on-read tables with a global simple or bloom index, whose records are updated where "
    "they are if their partition changes, Apache Hudi 1.2.0 writes keys twice": lambda each: (
        each.moves == "ignored" and each.index in GLOBAL and each.type == "merge-on-read"
    ),
    "This project does not move a record by a partial update": lambda each: (
        each.moves == "followed" and each.merge.startswith("partial")
    ),
    "Only Apache Hudi creates tables with the key generators timestamp and custom, or dates with "
    "slashes": lambda each: each.keys not in {"simple", "complex"} and each.maker == "ours",
    "The non-partitioned key generator has no partition paths": lambda each: (
        each.keys not in {"simple", "complex"} and each.partitions == "none"
    ),
    "A table without partitions has none to delete": lambda each: (
        each.operation == "delete_partition" and each.partitions == "none"
    ),
}
"""Which combinations are left out, by reason."""


def _pairs(combination: Combination) -> set[tuple[str, str, str, str]]:
    values = dataclasses.asdict(combination).items()
    return {(*one, *other) for one, other in itertools.combinations(values, 2)}


def covering() -> list[Combination]:
    """Return combinations in which all pairs of values are that go together; always the same."""
    rng = random.Random(_SEED)
    first = {
        name: [each for each in values if each not in ADDED] for name, values in FACTORS.items()
    }
    found = list(_covering(first, [], rng))
    return [*found, *_covering(FACTORS, found, rng)]


def _covering(
    factors: Mapping[str, Sequence[str]], found: Sequence[Combination], rng: random.Random
) -> Iterator[Combination]:
    """Yield combinations with the pairs of values that are in none of those that were found."""
    left: dict[tuple[str, str, str, str], None] = {}
    for one, other in itertools.combinations(factors, 2):
        for values in itertools.product(factors[one], factors[other]):
            left[one, values[0], other, values[1]] = None
    for each in found:
        for pair in _pairs(each):
            left.pop(pair, None)
    while left:
        one, value, other, second = next(iter(left))
        drawn = list(_drawn(factors, {one: value, other: second}, rng))
        if not drawn:
            del left[one, value, other, second]  # They do not go together.
            continue
        best = max(drawn, key=lambda each: sum(pair in left for pair in _pairs(each)))
        yield best
        for pair in _pairs(best):
            left.pop(pair, None)


def _drawn(
    factors: Mapping[str, Sequence[str]], fixed: Mapping[str, str], rng: random.Random
) -> Iterator[Combination]:
    tries = 0
    for _ in range(_CANDIDATES):
        while tries < _CANDIDATES * len(factors) ** 2:
            tries += 1
            drawn = {name: rng.choice(values) for name, values in factors.items()}
            combination = Combination(**drawn | fixed)
            if combination.refusal is None:
                yield combination
                break


_PLAIN = Combination(
    maker="ours",
    type="merge-on-read",
    version="9",
    index="bucket",
    moves="none",
    operation="upsert",
    merge="event time",
    logs="parquet",
    partitions="plain",
    keys="simple",
    metadata="none",
    concurrency="non-blocking",
)
NAMED: Mapping[str, Combination] = {
    "what this project makes by default": _PLAIN,
    "what Apache Hudi makes by default": dataclasses.replace(
        _PLAIN,
        maker="theirs",
        type="copy-on-write",
        index="simple",
        merge="commit time",
        metadata="default",
        concurrency="single-writer",
    ),
    "streams of columns into one table": dataclasses.replace(
        _PLAIN, merge="partial, commit time", metadata="default"
    ),
    "the default of Apache Hudi 1.0": dataclasses.replace(
        _PLAIN,
        maker="theirs",
        version="8",
        index="bloom",
        logs="avro",
        metadata="default",
        concurrency="optimistic",
    ),
}
"""Combinations that somebody asked for."""


def combinations() -> list[Combination]:
    """Return all that are tried, those with a name first."""
    return list(dict.fromkeys([*NAMED.values(), *covering()]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """Where a reader does not return what it should.

    Attributes:
        reader: Its name, or what that begins with.
        holds: Whether it does so of a combination after a step.
        reason: Why.
    """

    reader: str
    holds: Callable[[Combination, str], bool]
    reason: str


DEVIATIONS: Sequence[Deviation] = (
    Deviation(
        reader="hudi-rs",
        holds=lambda each, step: (
            each.version == "8" and each.merge.startswith("partial") and step != "compacted"
        ),
        reason=(
            "hudi-rs 0.5.0 refuses tables of version 8 with a payload class, which partial updates "
            "need there"
        ),
    ),
    Deviation(
        reader="hudi-rs",
        holds=lambda each, _step: each.metadata == "default",
        reason=(
            "hudi-rs 0.5.0 returns no rows of file groups without a base file if a metadata table "
            "lists them"
        ),
    ),
    Deviation(
        reader="hudi-rs",
        holds=lambda each, _step: each.keys == "custom",
        reason="hudi-rs 0.5.0 refuses the partition fields of a custom key generator",
    ),
)


def deviation(reader: str, combination: Combination, step: str) -> Deviation | None:
    """Return the known deviation of a reader, if there is one."""
    return next(
        (
            each
            for each in DEVIATIONS
            if reader.startswith(each.reader) and each.holds(combination, step)
        ),
        None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What readers returned of a combination.

    Attributes:
        combination: Of what.
        same: After how many steps each reader returned the rows of the model.
        deviating: After how many steps it did not, as it is known to.
    """

    combination: Combination
    same: Mapping[str, int]
    deviating: Mapping[str, int]


def kept(result: Result, file: Path) -> None:
    """Add a result to a file."""
    with file.open("a") as lines:
        lines.write(json.dumps(dataclasses.asdict(result)) + "\n")


def read(file: Path) -> list[Result]:
    """Return the results in a file, the newest of each combination, in the order of trying."""
    found: dict[Combination, Result] = {}
    for line in file.read_text().splitlines():
        fields: dict[str, Any] = json.loads(line)
        combination = Combination(**fields.pop("combination"))
        found[combination] = Result(combination=combination, **fields)
    return [found[each] for each in combinations() if each in found]


def page(results: Sequence[Result]) -> str:
    """Return the page that tells of results, at most one of each combination."""
    return "\n".join(_lines(results)) + "\n"


def _lines(results: Sequence[Result]) -> Iterator[str]:
    yield "# Compatibility"
    yield ""
    yield (
        "Written by `make conformance`. Each combination is a table that one engine creates and "
        "writes, the other one continues, then both, with deletes and compactions by each; after "
        "each step each reader has to return the same rows, all of them and those of filters by "
        "key, by partition and by another column."
    )
    yield ""
    yield "## What is combined"
    yield ""
    tried = len(combinations())
    missing = tried - len(results)
    yield (
        "Every two values of two factors that go together are in one combination at least "
        f"({tried} combinations{f', {missing} of which have not been run' if missing else ''})."
    )
    yield ""
    rows = [
        (name, "; ".join(MAKERS.get(each, each) for each in values), MEANINGS.get(name, ""))
        for name, values in FACTORS.items()
    ]
    yield from _grid(("factor", "values", "meaning"), rows)
    yield ""
    yield "Left out:"
    yield ""
    yield from (f"- {reason}." for reason in RULES)
    yield ""
    yield "## Results"
    yield ""
    yield (
        "Steps after which a reader returned the rows, of all steps at which it was asked. Other "
        "releases of Apache Hudi read at the end, 1.0.2 only tables of version 8."
    )
    yield ""
    yield (
        "Apache Hudi returns of partition columns what the path says, this project what was "
        "written: they are not compared where the key generator changes values, or a record is "
        "updated in its partition though another one was written with it. No partial update with "
        "gaps follows the delete of its key without a compaction between them: Apache Hudi's "
        "readers would return values of the deleted row ([limits.md](limits.md))."
    )
    yield ""
    names = itertools.chain.from_iterable((*each.same, *each.deviating) for each in results)
    readers = list(dict.fromkeys(names))
    heading = ("#", *FACTORS, *readers)
    yield from _grid(heading, _results(results, readers))
    yield ""
    yield "## Deviations"
    yield ""
    for each in DEVIATIONS:
        yield f"- **{each.reader}**: {each.reason}."


def _results(results: Sequence[Result], readers: Sequence[str]) -> Iterator[Sequence[str]]:
    known = {each.combination: each for each in results}
    for number, combination in enumerate(combinations(), start=1):
        values = [MAKERS.get(each, each) for each in dataclasses.astuple(combination)]
        result = known.get(combination, Result(combination=combination, same={}, deviating={}))
        counts = []
        for name in readers:
            same, deviating = result.same.get(name, 0), result.deviating.get(name, 0)
            counts.append(f"{same} of {same + deviating}" if same + deviating else "")
        yield [str(number), *values, *counts]


def _grid(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heading)} |"
    yield f"|{'---|' * len(heading)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
