"""A random table of Apache Hudi that it and we change in turn, compared after each step."""

import collections
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.peer import chains, peer_ours, strangers, traits
from support.peer.judge import Gate, Judge, JudgeError, JudgeLostError, Query, Settings
from support.peer.peer_cases import Model
from support.peer.peer_options import PeerTable, filesystem_lock, table_properties
from support.peer.peer_rows import assert_same_rows
from support.peer.strangers import TEXTS

_FRESH = 100
"""Rows of inserts have numbers from here on, so that no key is inserted twice."""
_REFUSED = {20, 21, 22}
_CONFLICT = 17
"""With what Apache Hudi has begun and failed at."""
_SELDOM = 3
"""Some readers of changes pull after so many steps."""
_WRITES = {"commit", "deltacommit"}
_EMPTY = {"empty upsert", "delete nothing"}
_NOWHERE = 90
"""No row has such a number: a multiple of _FRESH and some more is that of a new one."""
_GROWN = {"grow", "widen"}
_GROWING = "hoodie.datasource.write.reconcile.schema"
_PARTITION_PATH = "_hoodie_partition_path"
_BLOOM_FILTERS = "hoodie.metadata.index.bloom.filter.enable"
_SERVICES = {"compact", "plan", "finish", "cluster", "clean", "archive"}
_CHOOSING = {"delete where", "update", "delete_partition"}
_STATEMENTS = {"update", "delete where", "merge", "add column", *traits.STATEMENTS}
_RETYPED = {
    pa.int32(): ("bigint", pa.int64()),
    pa.float32(): ("double", pa.float64()),
}
_SPECIAL = {
    "savepoint",
    "rollback",
    strangers.COPIED,
    *strangers.UPGRADED_BY,
    "killed upsert",
    "killed insert",
}
_HEARTBEATS = {"hoodie.client.heartbeat.interval_in_ms": "1000"}
"""Of a writer that is killed, and of who takes back what it left: seconds later it counts as dead.
"""
_EXPIRY_S = 5
_WAIT_S = 60
_POLL_S = 0.005
_UNSUPPORTED = 21
_READABLE = 8
"""The first table version that we read."""


class DifferenceError(AssertionError):
    """Readers do not return the same, or something of ours failed."""


class _NotMadeError(Exception):
    """Apache Hudi does not make such a table."""


class Meeting:
    """One table at work."""

    def __init__(self, judge: Judge, stranger: strangers.Stranger, folder: Path) -> None:
        self.judge, self.stranger, self.folder = judge, stranger, folder
        self.is_adopted = False
        made = stranger.table
        by_key = made if not stranger.is_global else replace(made, partition_by=())
        by_key = replace(by_key, record_key=stranger.row_key)
        self.model = Model(table=by_key, schema=stranger.schema)
        self.first_columns = {each.name: each for each in stranger.columns}
        self.counts: collections.Counter[str] = collections.Counter()
        self.looks = 0
        self.is_restored = False
        self.kills = 0
        self._become(folder / "table", stranger.before or made)

    def _become(self, path: Path, made: PeerTable) -> None:
        """Go on with a table of a kind."""
        self.path, self.made = path, made
        names = self.stranger.traits
        is_free = traits.NON_BLOCKING in names
        self.options = (made.nbcc_options if is_free else made.occ_options)(filesystem_lock())
        self.query = Query(options=traits.EVOLVING if traits.ON_READ in names else {})
        self.ours = peer_ours.Hoodie(table=made, concurrency="nbcc" if is_free else "occ")
        self.chains = {
            "increments": chains.Chain(path, has_images=False),
            "seldom increments": chains.Chain(path, has_images=False),
            "change data": chains.Chain(path, has_images=True),
            "seldom change data": chains.Chain(path, has_images=True),
        }

    @property
    def key(self) -> list[str]:
        return [*self.stranger.row_key, *self.made.partition_columns]

    @property
    def by_metadata(self) -> Query:
        skipping = {"hoodie.enable.data.skipping": "true"}
        return replace(
            self.query, use_metadata_table=True, options={**self.query.options, **skipping}
        )

    @property
    def is_refused(self) -> bool:
        """Whether the table is still one that we refuse."""
        return self.made is self.stranger.before

    def run(self) -> str:
        """Do all steps; return what became of the table."""
        for step in self.stranger.steps:
            if step.who == "ours" and not self.is_adopted:
                refusal = self._adopt()
                if refusal is not None:
                    return f"adoption is refused: {refusal}"
            try:
                self._take(step)
            except _NotMadeError:
                return "Apache Hudi does not make such a table"
        self._check()
        for name, chain in self.chains.items():
            self.counts[f"changes pulled as {name}"] = sum(chain.counts.values())
            self.counts["chains begun again"] += chain.counts["begun again"]
        return ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))

    def _adopt(self) -> str | None:
        try:
            peer_ours.hoodie("adopt", self.path, *self.stranger.adoption, "--lock", "filesystem")
        except peer_ours.CommandFailedError as error:
            return str(error)
        self.is_adopted = True
        self._look("adopted")
        return None

    def _take(self, step: strangers.Step) -> None:
        act = self._theirs if step.who == "theirs" else self._ours
        before, stranger, schema = dict(self.model.rows), self.stranger, self.model.schema
        try:
            act(step)
        except JudgeError as error:
            self.counts["refused by Apache Hudi"] += 1
            print(f"    {step}: Apache Hudi: {error.causes[-1].message[:200]}", flush=True)
            if step is self.stranger.steps[0]:
                raise _NotMadeError from error
            self._learn()  # What failed halfway may have taken effect.
        except peer_ours.CommandFailedError as error:
            # No column was added either.
            self.model.rows, self.stranger, self.model.schema = before, stranger, schema
            has_begun = self.counts["refused by Apache Hudi"] or self._has_clustering()
            is_allowed = error.exit_code == _CONFLICT and has_begun
            if error.exit_code not in _REFUSED and not is_allowed:
                raise DifferenceError(f"{step}: {error}") from error
            self.counts["refused by us"] += 1
            print(f"    {step}: {error}", flush=True)
        else:
            self.counts[step.who] += 1
        self._notice_upgrade()
        self._look(str(step))
        if {traits.FILTERED, traits.EXPRESSION_INDEX} & {*self.stranger.traits}:
            self._look_filtered(step)

    def _rows(self, step: strangers.Step) -> pa.Table:
        numbers: Sequence[int] = step.numbers
        is_keyless = not self.made.record_key and step.what != "insert_overwrite"
        is_change = step.what in {"update", "delete where", "merge", "merge update"}
        if step.what in _EMPTY:
            numbers = [_NOWHERE + each for each in numbers] if "delete" in step.what else ()
            return self.stranger.rows(numbers, step.ts)
        if step.what in {"insert", "bulk_insert"} or (is_keyless and not is_change):
            numbers = [_FRESH * step.ts + each for each in numbers]
        return self.stranger.rows(numbers, step.ts - step.late_by)

    def _theirs(self, step: strangers.Step) -> None:
        path, options, rows = self.path, {**self.options, **step.settings}, self._rows(step)
        if step.what in _SPECIAL:
            self._special(step, rows)
        elif step.what in traits.CALLS:
            self._call(step)
        elif step.what in _SERVICES:
            self._serve_by_theirs(step, options)
        elif step.what in _STATEMENTS:
            self._change_by_sql(step, rows)
        elif step.what == "delete_partition":
            gone = self._partition(step)
            if gone is not None:
                wanted = {"hoodie.datasource.write.partitions.to.delete": gone[0]}
                self.judge.write(path, rows.slice(0, 1), options | wanted, operation=step.what)
                self.model.delete(gone[1])
        else:
            operation, rows = self._prepared(step, rows)
            self.judge.write(path, rows, options, operation=operation)
            self._follow(step, rows)

    def _serve_by_theirs(self, step: strangers.Step, options: dict[str, str]) -> None:
        path = self.path
        match step.what:
            case "compact":
                instant = self.judge.schedule_compaction(path, options)
                if instant is not None:
                    self.judge.execute_compaction(path, instant, options)
            case "plan":
                self.judge.schedule_compaction(path, options)
            case "finish":
                for instant in self._planned():
                    self.judge.execute_compaction(path, instant, options)
            case "cluster":
                self._sql(f"CALL run_clustering(path => '{path}')")
            case "clean":
                few = {"hoodie.clean.commits.retained": "1", "hoodie.clean.automatic": "true"}
                self.judge.clean(path, options | few)
            case _:
                few = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
                self.judge.archive(path, options | few | {"hoodie.clean.commits.retained": "1"})

    def _call(self, step: strangers.Step) -> None:
        """Have Apache Hudi do what its SQL alone does."""
        name, path = self.made.name, self.path
        match step.what:
            case traits.PLAN_CLUSTERING:
                self._sql(f"CALL run_clustering(path => '{path}', op => 'schedule')")
            case traits.RUN_CLUSTERING:
                self._sql(f"CALL run_clustering(path => '{path}', op => 'execute')")
            case _:
                is_plain = step.what == traits.CREATE_INDEX
                what = "(place)" if is_plain else traits.EXPRESSION
                self._sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{path}'")
                self._sql(f"CREATE INDEX IF NOT EXISTS of_place ON {name} {what}")

    def _planned(self) -> list[str]:
        """Return the compactions that are pending."""
        return [
            each.requested_time
            for each in self.judge.timeline(self.path)
            if each.action == "compaction" and not each.completion_time
        ]

    def _has_clustering(self) -> bool:
        """Return whether a clustering is pending, whose file groups are not written to."""
        return any(
            each.action == "clustering" and not each.completion_time
            for each in self.judge.timeline(self.path)
        )

    def _partition(self, step: strangers.Step) -> tuple[str, list[dict[str, Any]]] | None:
        """Return the path of some partition, and its rows; None if no row says which it has."""
        if not self.made.partition_by or strangers.NO_META_COLUMNS in self.made.extra:
            return None
        found = self.judge.read(self.path, self.query, meta_columns=True).to_pylist()
        paths = sorted({each[_PARTITION_PATH] for each in found})
        if not paths:
            return None
        path = paths[step.numbers.start % len(paths)]
        return path, [each for each in found if each[_PARTITION_PATH] == path]

    def _prepared(self, step: strangers.Step, rows: pa.Table) -> tuple[str, pa.Table]:
        """Return the operation of a write, and its rows, which new columns may come with."""
        upsert = "upsert" if self.made.record_key else "insert"
        match step.what:
            case "empty upsert":
                return upsert, rows
            case "delete nothing":
                return "delete", rows
            case traits.FLAGGED:
                flags = pa.array([True] * rows.num_rows)
                place = rows.column_names.index(traits.FLAG)
                return upsert, rows.set_column(place, traits.FLAG, flags)
            case "grow" | "widen":
                columns = list(self.stranger.columns)
                if step.what == "grow":
                    columns.append(_added(f"grown_{step.ts}"))
                columns = [
                    replace(each, type=traits.WIDER.get(each.name, each.type))
                    if step.what == "widen"
                    else each
                    for each in columns
                ]
                self.stranger = replace(self.stranger, columns=columns)
                self.model.schema = self.stranger.schema
                # Its SQL writes by the columns that a table of its catalog was made with.
                self._sql(f"DROP TABLE IF EXISTS {self.made.name}")
                return upsert, self._rows(replace(step, what=upsert))
            case operation:
                return operation, rows

    def _special(self, step: strangers.Step, rows: pa.Table) -> None:
        """Do what is more than a write or a service."""
        match step.what:
            case "savepoint":
                self._restore(step)
            case strangers.COPIED:
                self._copy()
            case how if how in strangers.UPGRADED_BY:
                self._upgrade(how, step, rows)
            case "rollback":
                last = [each for each in self.judge.timeline(self.path) if each.completion_time]
                # Without its first commit a table has no columns.
                if len(last) > 1 and last[-1].action in _WRITES:
                    self.judge.rollback(self.path, last[-1].requested_time, self.options)
                    self._learn()
            case _:
                self._kill_theirs(step, rows)

    def _ours(self, step: strangers.Step) -> None:
        rows = self._rows(step)
        if self.made.metadata_table:
            self._mend_metadata()
        if step.what in _SERVICES:
            self._serve_by_ours(step)
        elif step.what in _CHOOSING:
            self._change_chosen(step, rows)
        elif step.what.startswith("killed"):
            self._kill_ours(step, rows)
        else:
            operation, rows = self._prepared(step, rows)
            own = {key: each for key, each in step.settings.items() if "metadata" not in key}
            self.ours.settings = own | ({_GROWING: "true"} if step.what in _GROWN else {})
            self.ours.write(self.path, rows, operation)
            self._follow(step, rows)

    def _serve_by_ours(self, step: strangers.Step) -> None:
        lock = ("--lock", "filesystem")
        match step.what:
            case "compact":
                plan = self.ours.schedule_compaction(self.path)
                if plan is not None:
                    self.ours.execute_compaction(self.path, plan)
            case "plan":
                self.ours.schedule_compaction(self.path)
            case "finish":
                for instant in self._planned():
                    self.ours.execute_compaction(self.path, instant)
            case "clean":
                peer_ours.hoodie("clean", self.path, "--keep-commits", "1", "--grace", "0", *lock)
            case _:
                peer_ours.hoodie("archive", self.path, "--keep-min", "2", "--keep-max", "3", *lock)

    def _change_chosen(self, step: strangers.Step, rows: pa.Table) -> None:
        """Change rows that a filter, or a partition, chooses."""
        as_one = ("--concurrency", "occ", "--lock", "filesystem")
        where = ("--where", _where(self.key[0], rows))
        match step.what:
            case "delete where":
                peer_ours.hoodie("delete", self.path, *where, *as_one)
                self._forget(rows)
            case "update":
                changed = self.stranger.columns[-1].name
                peer_ours.hoodie("update", self.path, f"{changed} = null", *where, *as_one)
                for row in self._chosen(rows):
                    self.model.rows[row] = {**self.model.rows[row], changed: None}
            case _:
                gone = self._partition(step)
                if gone is not None:
                    peer_ours.hoodie("delete", self.path, "--partition", gone[0], *as_one)
                    self.model.delete(gone[1])

    def _follow(self, step: strangers.Step, rows: pa.Table) -> None:
        """Have the dictionary do what a write does."""
        found = rows.to_pylist()
        if step.what in {"delete", "delete nothing", traits.FLAGGED}:
            self.model.delete(found)
            return
        if step.what == "insert_overwrite_table":
            self.model.rows = {}
        if step.what == "insert_overwrite":
            names = self.made.partition_columns
            places = {tuple(each[name] for name in names) for each in found}
            self.model.rows = {
                key: each
                for key, each in self.model.rows.items()
                if tuple(each[name] for name in names) not in places
            }
        self.model.upsert(found)

    def _forget(self, rows: pa.Table) -> None:
        """Have the dictionary forget rows by their first key field, in whatever partition."""
        for key in self._chosen(rows):
            del self.model.rows[key]

    def _chosen(self, rows: pa.Table) -> list[tuple[object, ...]]:
        """Return the keys of the rows that a filter by their first key field keeps."""
        name = self.key[0]
        wanted = set(map(str, _quotable(rows.column(name).to_pylist())))
        return [key for key, each in self.model.rows.items() if str(each[name]) in wanted]

    def _learn(self) -> None:
        """Have the dictionary hold what Apache Hudi reads.

        So of columns, which a rollback takes back, or a statement adds that fails afterwards.
        """
        found = self.judge.read(self.path, self.query)
        columns = [
            # A write that failed has not widened it.
            replace(each, type=found.schema.field(each.name).type)
            if each.name in traits.WIDER
            else each
            for each in self.stranger.columns
            if each.name in found.column_names
        ]
        known = {each.name for each in columns}
        columns += [
            self.first_columns.get(name) or _added(name)
            for name in found.column_names
            if name not in known
        ]
        self.stranger = replace(self.stranger, columns=columns)
        self.model.schema = self.stranger.schema
        self.model.rows = {}
        self.model.upsert(found.to_pylist())

    def _change_by_sql(self, step: strangers.Step, rows: pa.Table) -> None:
        name, key = self.made.name, self.key[0]
        self._sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{self.path}'")
        match step.what:
            case "update":
                changed = self.stranger.columns[-1].name
                self._sql(f"UPDATE {name} SET {changed} = NULL WHERE {_where(key, rows)}")
            case "delete where":
                self._sql(f"DELETE FROM {name} WHERE {_where(key, rows)}")
            case "merge":
                keys = ", ".join(f"{each} AS of_{each}" for each in self.key)
                if self.made.ordering is not None:
                    keys += f", {self.made.ordering}"
                pairs = " AND ".join(f"t.{each} = s.of_{each}" for each in self.key)
                where = _where(key, rows)
                self._sql(
                    f"MERGE INTO {name} t USING (SELECT {keys} FROM {name} WHERE {where}) s "
                    f"ON {pairs} WHEN MATCHED THEN DELETE"
                )
            case "merge update":
                self._merge_column(step, rows)
            case "retype" | "drop column":
                self._alter(step)
            case _:
                added = _added(f"added_{step.ts}")
                self._sql(f"ALTER TABLE {name} ADD COLUMNS ({added.name} int)")
                columns = (*self.stranger.columns, added)
                self.stranger = replace(self.stranger, columns=columns)
                self.model.schema = self.stranger.schema
        # Its SQL misses some rows, by keys that are dates for example.
        self._learn()

    def _changeable(self) -> list[strangers.Column]:
        """Return the columns that a table can do without."""
        kept = {*self.key, "ts", "turn", traits.FLAG}
        return [each for each in self.stranger.columns if each.name not in kept]

    def _merge_column(self, step: strangers.Step, rows: pa.Table) -> None:
        """Have some rows take a column of new ones, and leave the others as they are."""
        name, free = self.made.name, self._changeable()
        changed = free[step.ts % len(free)].name
        fields = [each for each in (self.made.ordering or "").split(",") if each]
        source = self.folder / f"merged-{step.ts}.parquet"
        pq.write_table(rows, source, coerce_timestamps="us", store_schema=False)
        # A source that is the table itself Apache Hudi does not resolve.
        self.judge.execute(
            f"CREATE OR REPLACE TEMPORARY VIEW new_{name} USING parquet OPTIONS (path '{source}')"
        )
        taken = ", ".join(dict.fromkeys([*self.key, *fields]))
        pairs = " AND ".join(f"t.{each} = s.{each}" for each in self.key)
        updates = ", ".join(f"t.{each} = s.{each}" for each in fields)
        self._sql(
            f"MERGE INTO {name} t USING (SELECT {taken}, {changed} AS new_one FROM new_{name}) s "
            f"ON {pairs} WHEN MATCHED THEN UPDATE SET t.{changed} = s.new_one"
            + (f", {updates}" if updates else "")
        )

    def _alter(self, step: strangers.Step) -> None:
        """Widen or drop a column, whose id is not given to another one."""
        name, free = self.made.name, self._changeable()
        if step.what == "drop column" and len(free) > 1:
            self._sql(f"ALTER TABLE {name} DROP COLUMN {free[step.ts % len(free)].name}")
        narrow = [each for each in free if each.type in _RETYPED]
        if step.what == "retype" and narrow:
            old = narrow[step.ts % len(narrow)]
            sql, kind = _RETYPED[old.type]
            self._sql(f"ALTER TABLE {name} ALTER COLUMN {old.name} TYPE {sql}")
            self.stranger = replace(
                self.stranger,
                columns=[
                    replace(each, type=kind) if each is old else each
                    for each in self.stranger.columns
                ],
            )

    def _sql(self, statement: str) -> None:
        """Run a statement with the options of Apache Hudi's writers.

        A table whose columns evolve on read has one writer meanwhile: Apache Hudi 1.2.0 takes its
        own change of columns for one of another writer, and fails halfway.
        """
        is_alone = traits.ON_READ in self.stranger.traits and statement.startswith("ALTER")
        options = self.made.write_options() if is_alone else self.options
        for key, value in options.items():
            self.judge.execute(f"SET {key}={value}")
        try:
            self.judge.execute(statement)
        finally:
            for key in options:
                self.judge.execute(f"RESET {key}")

    def _restore(self, step: strangers.Step) -> None:
        """Make a savepoint, write, and go back to it."""
        self.is_restored = True
        completed = [each for each in self.judge.timeline(self.path) if each.completion_time]
        writes = [each for each in completed if each.action in _WRITES]
        time_of = writes[-1].requested_time
        before = dict(self.model.rows)
        self.judge.sql(f"CALL create_savepoint(path => '{self.path}', commit_time => '{time_of}')")
        operation = "upsert" if self.made.record_key else "insert"
        self.judge.write(self.path, self._rows(step), self.options, operation=operation)
        self.judge.sql(
            f"CALL rollback_to_savepoint(path => '{self.path}', instant_time => '{time_of}')"
        )
        self.judge.sql(f"CALL delete_savepoint(path => '{self.path}', instant_time => '{time_of}')")
        self.model.rows = before
        if writes[-1] != completed[-1]:
            self._learn()  # What came after that write is taken back, too.

    def _upgrade(self, how: str, step: strangers.Step, rows: pa.Table) -> None:
        """Have Apache Hudi make a table of version 6 one of a later version, if it is not."""
        if not self.is_refused:
            return
        made = self.stranger.table
        later = made.occ_options(filesystem_lock()) | {"hoodie.write.auto.upgrade": "true"}
        if how == strangers.UPGRADED_BY[0]:
            self.judge.write(self.path, rows, later)
            self._follow(step, rows)
        else:
            name, version = made.name, {8: "EIGHT", 9: "NINE"}[made.table_version]
            self._sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{self.path}'")
            call = f"CALL upgrade_table(table => '{name}', to_version => '{version}')"
            if not self.judge.sql(call)["result"][0].as_py():
                # So with several partition fields and one key field, whatever the session's options
                # are; the way out is what docs/adopt.md says.
                self.counts["upgrades that a procedure of theirs refused"] += 1
                self._upgrade(strangers.UPGRADED_BY[0], step, rows)
                return
        self._become(self.path, made)

    def _notice_upgrade(self) -> None:
        """See whether Apache Hudi has upgraded the table by itself, as its procedures do."""
        if not self.is_refused or not (self.path / ".hoodie" / "hoodie.properties").exists():
            return
        version = int(table_properties(self.path)["hoodie.table.version"])
        if self.made.table_version < _READABLE <= version:
            self.counts["upgraded by the way"] += 1
            self._become(self.path, replace(self.stranger.table, table_version=version))

    def _copy(self) -> None:
        """Have Apache Hudi copy a table without meta columns to one that has them."""
        rows = self.judge.read(self.path, self.query)
        path = self.folder / "copy"
        options = self.stranger.table.occ_options(filesystem_lock())
        self.judge.write(path, rows, options, operation="insert")
        # SQL knows the other one by this name.
        self.judge.execute(f"DROP TABLE IF EXISTS {self.made.name}")
        self._become(path, self.stranger.table)

    def _kill_theirs(self, step: strangers.Step, rows: pa.Table) -> None:
        """Kill a JVM of Apache Hudi in its write."""
        self.kills += 1
        gate = Gate(path=self.folder / f"gate-{self.kills}")
        settings = Settings(name=f"victim-{self.kills}", memory_mb=1024, zone=self.stranger.zone)
        victim = Judge(self.folder / "victims", settings)
        operation = step.what.removeprefix("killed ")
        options = self.options | _HEARTBEATS
        failed: list[JudgeError] = []

        def write() -> None:
            try:
                victim.write(self.path, rows, options, operation=operation, gate=gate)
            except JudgeLostError:
                pass
            except JudgeError as error:
                failed.append(error)

        victim.start()
        try:
            writing = threading.Thread(target=write)
            writing.start()
            _wait_for(lambda: gate.is_reached or not writing.is_alive())
            if step.delay_ms:
                gate.open()
                time.sleep(step.delay_ms / 1000)
        finally:
            victim.kill()
        writing.join()
        self._settle(rows)
        if failed:
            raise failed[0]

    def _kill_ours(self, step: strangers.Step, rows: pa.Table) -> None:
        """Kill a process of ours in its write."""
        self.kills += 1
        source = self.folder / f"killed-{self.kills}.parquet"
        pq.write_table(rows, source)
        operation = step.what.removeprefix("killed ")
        arguments = peer_ours.write_arguments(self.path, source, operation, {})
        arguments += ["--concurrency", "occ", "--writer-id", f"victim-{self.kills}"]
        before = self._begun()
        process = peer_ours.start(*arguments, "--lock", "filesystem")
        try:
            _wait_for(lambda: self._begun() != before or process.poll() is not None)
            time.sleep(step.delay_ms / 1000)
        finally:
            process.kill()
            said, _ = process.communicate()
        if process.returncode > 0:
            raise peer_ours.CommandFailedError(list(map(str, arguments)), process.returncode, said)
        self._settle(rows)

    def _begun(self) -> set[str]:
        return {each.name for each in (self.path / ".hoodie" / "timeline").glob("*.requested")}

    def _settle(self, rows: pa.Table) -> None:
        """Have the dictionary hold all that a killed writer wrote, or nothing; free its lock."""
        lock = peer_ours.hoodie("lock", "explain", self.path, "--lock", "filesystem")
        if lock["holder"] is not None:
            holder = ("--holder", lock["holder"]["id"])
            peer_ours.hoodie("lock", "break", self.path, "--lock", "filesystem", *holder)
        before = dict(self.model.rows)
        self.model.upsert(rows.to_pylist())
        found = self.judge.read(self.path, self.query)
        try:
            assert_same_rows(found, self.model.content(), self.key)
        except AssertionError:
            self.model.rows = before
        else:
            self.counts["completed before they were killed"] += 1

    def _look_refused(self, step: str) -> None:
        """Have us refuse a table, by a sentence that names why and the way out."""
        is_old = self.made.table_version < _READABLE
        expected = ("version 6", "upgrade") if is_old else ("populate.meta.fields", "copy them")
        rows = self.folder / "refused.parquet"
        pq.write_table(self.stranger.rows(range(1), 1), rows)
        for command in (
            ("count", self.path),
            ("adopt", self.path, *self.stranger.adoption, "--dry-run"),
            ("write", self.path, "--input", rows),
            ("check", self.path),
        ):
            try:
                peer_ours.hoodie(*command)
            except peer_ours.CommandFailedError as error:
                is_named = all(each in str(error) for each in expected)
                if error.exit_code == _UNSUPPORTED and is_named:
                    continue
                raise DifferenceError(f"after {step}: {error}") from error
            raise DifferenceError(f"after {step}: hoodie {command[0]} does not refuse the table")

    def _mend_metadata(self) -> None:
        """Make a metadata table again that a restore of Apache Hudi took something off."""
        problem = peer_ours.hoodie("metadata", "status", self.path)["problem"] or ""
        is_known = "lacks" in problem and "clean completed" in problem
        if is_known or (self.is_restored and "has no log file" in problem):
            peer_ours.hoodie("metadata", "init", self.path, "--rebuild", "--lock", "filesystem")

    def _look(self, step: str) -> None:
        """Compare what both engines read with one another, and with the dictionary."""
        wanted = self.model.content()
        readers: dict[str, Callable[[], pa.Table]] = {
            "Apache Hudi": lambda: self.judge.read(self.path, self.query),
            "hoodie": lambda: peer_ours.read(self.path),
        }
        if self.is_refused:
            del readers["hoodie"]
            self._look_refused(step)
        if self.made.metadata_table:
            readers["Apache Hudi by its metadata table"] = lambda: self.judge.read(
                self.path, self.by_metadata
            )
        for name, read in readers.items():
            try:
                assert_same_rows(read(), wanted, self.key)
            except Exception as error:
                raise DifferenceError(f"{name}, after {step}: {error}") from error
        if not self.is_refused:
            self._pull(step)

    def _look_filtered(self, step: strangers.Step) -> None:
        """Compare what filters let through, of both engines and of the dictionary."""
        content = self.model.content()
        rows = self._rows(step) if step.what not in _SPECIAL else self.stranger.rows(range(4), 1)
        for where, is_kept in self._filters(step, rows):
            kept = [each for each in content.to_pylist() if is_kept(each)]
            wanted = pa.Table.from_pylist(kept, content.schema)
            readers: dict[str, Callable[[], pa.Table]] = {
                "Apache Hudi": lambda where=where: self.judge.read(
                    self.path, replace(self.by_metadata, where=where)
                ),
                "hoodie": lambda where=where: peer_ours.read(self.path, "--where", where),
            }
            if self.is_refused:
                del readers["hoodie"]
            for name, read in readers.items():
                try:
                    assert_same_rows(read(), wanted, self.key)
                except Exception as error:
                    said = f"{name}, where {where}, after {step}: {error}"
                    raise DifferenceError(said) from error

    def _filters(
        self, step: strangers.Step, rows: pa.Table
    ) -> Iterator[tuple[str, Callable[[dict[str, Any]], bool]]]:
        """Yield a filter by the first key field, and one by some column of plain values."""
        key = self.key[0]
        # By bloom filters Apache Hudi misses keys that are in log files alone (limits.md).
        is_missed = self.made.merge_on_read and _BLOOM_FILTERS in self.made.extra
        if rows.num_rows and not is_missed:
            wanted = set(map(str, _quotable(rows.column(key).to_pylist())))
            yield _where(key, rows), lambda row: str(row[key]) in wanted
        if traits.EXPRESSION_INDEX in self.stranger.traits:
            text = TEXTS[1 + step.ts % 4].lower()
            yield f"lower(place) = '{text}'", lambda row: row["place"].lower() == text
        # Where a partition has no value, comparisons may fail in Apache Hudi (limits.md).
        others = {key, *self.made.partition_by}
        plain = [each for each in self.stranger.columns if each.name not in others]
        plain = [each for each in plain if _is_plain(each)]
        if not plain:
            return
        column = plain[step.ts % len(plain)]
        name, pivot = column.name, column.value(step.numbers.start + 3, step.ts)
        if pivot is None or not _quotable([pivot]):
            yield f"{name} IS NULL", lambda row: row[name] is None
        elif pa.types.is_string(column.type):
            yield f"{name} = '{pivot}'", lambda row: row[name] == pivot
        else:
            text = f"'{pivot}'" if pa.types.is_date(column.type) else str(pivot)
            yield f"{name} >= {text}", lambda row: row[name] is not None and row[name] >= pivot

    def _pull(self, step: str) -> None:
        """Have readers of changes pull, some of them seldom, and compare what they hold.

        A chain is the snapshot, whatever both engines did in between.
        """
        self.looks += 1
        if not list(self.path.glob(".hoodie/timeline/*.*commit")):
            return  # A table without a write has no columns yet.
        snapshot = peer_ours.read(self.path)
        for name, chain in self.chains.items():
            if name.startswith("seldom") and self.looks % _SELDOM:
                continue
            try:
                chain.pull()
                assert_same_rows(chain.rows(snapshot.schema), snapshot, self.key)
            except Exception as error:
                raise DifferenceError(f"a chain of {name}, after {step}: {error}") from error

    def _check(self) -> None:
        """Take back what failed, and find nothing wrong with the table, or other rows."""
        if self.is_adopted:
            settings = []
            if self.stranger.has_kills:
                self._expire()
                settings = [f"--set={key}={value}" for key, value in _HEARTBEATS.items()]
            peer_ours.hoodie("rollback", self.path, "--all", "--lock", "filesystem", *settings)
            if not self.counts["refused by Apache Hudi"]:
                # Else what it began may look alive for some minutes.
                peer_ours.hoodie("check", self.path)
            self._look("what failed was taken back")

    def _expire(self) -> None:
        """Wait until the last signs of life of killed writers are old."""
        newest = max(
            (each.stat().st_mtime for each in (self.path / ".hoodie").rglob("*")), default=0.0
        )
        time.sleep(max(0.0, newest + _EXPIRY_S - time.time()))


def _is_plain(column: strangers.Column) -> bool:
    """Return whether values are texts, dates or whole numbers, which filters of both name alike."""
    kinds = (pa.types.is_integer, pa.types.is_string, pa.types.is_date)
    return any(each(column.type) for each in kinds)


def _added(name: str) -> strangers.Column:
    """Return a column that a table is given after it was made."""
    return strangers.Column(name=name, type=pa.int32(), value=lambda n, ts: n * ts)


def _wait_for(is_so: Callable[[], bool]) -> None:
    """Wait until something is so.

    Raises:
        TimeoutError: It is not in time.
    """
    end = time.monotonic() + _WAIT_S
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"nothing within {_WAIT_S} s")
        time.sleep(_POLL_S)


def _quotable(values: Sequence[object]) -> list[object]:
    """Return those values that both dialects of SQL quote alike."""
    return [each for each in values if not set("'\n\\") & set(str(each))]


def _where(name: str, rows: pa.Table) -> str:
    """Return a filter of rows by a column."""
    values = _quotable(rows.column(name).to_pylist()) or ["nothing"]
    is_number = pa.types.is_integer(rows.schema.field(name).type)
    texts = [str(each) if is_number else f"'{each}'" for each in values]
    return " OR ".join(f"{name} = {each}" for each in texts)
