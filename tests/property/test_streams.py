"""Random histories under streams (T-Q04): whatever is killed, a stream's rows lead to the table.

Queries of both formats begin anywhere, read by any limit, and are killed at any point between two
looks at the table, while writes and services of the table go on. What the sink has got in the end,
each micro-batch once, is the table; a micro-batch that is read again has the same rows.
"""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.read.changed_rows import CHANGE, DELETE
from hoodie_jobs.spark import data_source, read_options
from support.tables.random_histories import KINDS, STEPS, RandomHistory
from support.tables.streams import Kill, Query, Rows

Held = dict[tuple[str, str], dict[str, object]]


@dataclass
class Stream:
    """A query, and what its sink began with; None until that is known."""

    query: Query
    is_cdc: bool
    begun: Held | None = None


class History(RandomHistory):
    """A table, and the queries that read it."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(path, KINDS[kind])
        self.streams: list[Stream] = []

    def take(self, step: tuple[object, ...]) -> None:
        match step:
            case ("begin", start, is_cdc, limit):
                self.begin(start, limit, is_cdc=is_cdc)
            case ("step", number, kill):
                if self.streams:
                    self.run(self.streams[number % len(self.streams)], kill)
            case _:
                super().take(step)

    def begin(self, start: str, limit: dict[str, str], *, is_cdc: bool) -> None:
        options = {"path": str(self.small.path), read_options.START: start, **limit}
        if is_cdc:
            options |= {read_options.FORMAT: "cdc", "images": "struct"}
        else:
            options["deletes"] = "true"
        source = data_source.HoodieDataSource(options)
        schema = source.schema()
        self.streams.append(Stream(Query(lambda: source.streamReader(schema)), is_cdc))

    def run(self, stream: Stream, kill: Kill | None) -> bool:
        try:
            was_there = stream.query.step(kill)
            if stream.begun is None and stream.query.ends:
                stream.begun = self.begun(json.loads(stream.query.ends[0]))
        except errors.GoneError:
            event("a range was gone")
            self.streams.remove(stream)
            return False
        return was_there

    def begun(self, end: dict[str, str]) -> Held:
        """Return the table where a query began: beside the end of its first micro-batch."""
        if "begin" not in end:
            return {}
        rows = self.small.table.changes(until=end["begin"]).read().read_all().to_pylist()
        return {(row["id"], row["part"]): without_change(row) for row in rows}

    def check(self, stream: Stream) -> None:
        """Let a query read all that there is, and check that it has the table."""
        while self.run(stream, None):
            pass
        if stream not in self.streams:
            return
        assert stream.begun is not None
        held = dict(stream.begun)
        for rows in stream.query.batches:
            (self.apply_changes if stream.is_cdc else self.apply_rows)(held, rows)
        expected = {(str(row["id"]), str(row["part"])): row for row in self.small.rows()}
        assert held == expected, (held, expected)

    def apply_rows(self, held: Held, rows: Rows) -> None:
        keys = [(row["id"], row["part"]) for row in rows]
        assert len(keys) == len(set(keys)), "a key comes twice in a micro-batch"
        for row in rows:
            key = row["id"], row["part"]
            if row[CHANGE] == DELETE:
                del held[key]
                continue
            if self.config.has_global_index:
                for other in [each for each in held if each[0] == key[0]]:
                    del held[other]
            held[key] = without_change(row)

    def apply_changes(self, held: Held, rows: Rows) -> None:
        archived = [each.instant for each in self.small.table.archived_instants()]
        found = {*archived, *self.small.table.timeline().completed}
        ordered = sorted(found, key=lambda each: str(each.completion_time))
        writes = [each.requested_time for each in ordered]
        # Those of a write in any order: what moves to another partition goes and comes.
        for row in sorted(rows, key=lambda row: writes.index(row["ts_ms"])):
            key = row["record_key"], row["partition_path"]
            assert row["before"] == held.get(key), row
            if row["after"] is None:
                del held[key]
            else:
                held[key] = row["after"]


def without_change(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name != CHANGE}


limits = st.sampled_from(
    [{}, {"maxCommitsPerTrigger": "1"}, {"maxFilesPerTrigger": "2"}, {"maxBytesPerTrigger": "9000"}]
)
begins = st.tuples(st.just("begin"), st.sampled_from(["earliest", "latest"]), st.booleans(), limits)
kills = st.tuples(st.just("step"), st.integers(0, 3), st.sampled_from([None, None, *Kill]))


@settings(
    max_examples=25,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    st.sampled_from(sorted(KINDS)),
    begins,
    st.lists(st.one_of(*STEPS, kills, kills, begins), min_size=6, max_size=30),
)
def test_what_a_stream_gives_is_the_table(
    kind: str, begin: tuple[object, ...], found: list[tuple[object, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder) / "t", kind)
        for step in (begin, *found):
            history.take(step)
        while history.late:
            history.finish_late()
        for stream in list(history.streams):
            history.check(stream)
        event(kind)
