"""Table services as people call them: `Table.maintain`. Each can be tried first, by `dry_run`."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from hoodie import errors, guesses
from hoodie.door import writing
from hoodie.maintenance import savepoints, table_service
from hoodie.maintenance.archiving import planning as archive_planning
from hoodie.maintenance.archiving import service as archiving
from hoodie.maintenance.cleaning import retention
from hoodie.maintenance.cleaning import service as cleaning
from hoodie.maintenance.compaction import service as compaction
from hoodie.maintenance.rollback import service as rollback
from hoodie.metadata import index_building, index_decisions, index_dropping, initialising
from hoodie.model import instants, results
from hoodie.services import mirroring
from hoodie.services.mirrors import values as mirrors
from hoodie.timeline import chain
from hoodie.transaction import liveness, manager

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """What a table service did, or would do.

    Attributes:
        service: Its name.
        is_dry_run: Whether nothing was done.
        summary: In a sentence.
        instants: The requested times of what it completed.
        findings: What you should know though nothing failed.
        detail: What the service itself returns.
    """

    service: str
    is_dry_run: bool
    summary: str
    instants: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    detail: Any = None

    def __repr__(self) -> str:
        verb = f"{self.service}, dry run" if self.is_dry_run else self.service
        return "\n".join(
            [f"{verb}: {self.summary}", *(f"  note: {each}" for each in self.findings)]
        )


@guesses.of_names(guesses.MAINTAIN)
class Maintenance:
    """The services of a table, on behalf of no writer, with the lock of its writers."""

    def __init__(self, renewed: Callable[[], writing.Job], job: writing.Job) -> None:
        """Take the table.

        Args:
            renewed: Refreshes the table, and returns it as it is then.
            job: The table.
        """
        self._renewed = renewed
        self._job = job

    def __repr__(self) -> str:
        names = ", ".join(each for each in vars(type(self)) if not each.startswith("_"))
        return f"<Maintenance of {self._job.target.storage.uri}: {names}>"

    @property
    def _service(self) -> manager.TransactionOptions:
        return self._job.writer.service

    @guesses.of_arguments()
    def compact(self, *, dry_run: bool = False) -> Maintained:
        """Merge log files into new base files: pending plans first, then one of what is due.

        Which file groups a plan takes the settings of the table say (`hoodie.compaction.*`).

        Raises:
            ConfigurationError: The table is copy-on-write.
            HoodieError: What failed published nothing; the next compaction takes it up.
        """
        target, env, options = self._job.target, self._job.env, self._job.writer.compaction
        if dry_run:
            decision = compaction.preview(target, options, env)
            return Maintained(
                service="compact", is_dry_run=True, summary=decision.message, detail=decision
            )
        done: list[results.CommitResult] = []
        for left in chain.load(target.storage, target.config).pending_compactions:
            # One that another process executes, or has executed meanwhile, is not ours.
            with contextlib.suppress(errors.ConflictError):
                done.append(self._execute(left.requested_time))
        planned = compaction.schedule(target, options, self._service, env)
        if planned.instant is not None:
            done.append(self._execute(planned.instant))
        groups = sum(each.group_count for each in done)
        summary = f"merged {groups} file groups, {sum(each.records for each in done):,} rows"
        return Maintained(
            service="compact",
            is_dry_run=False,
            summary=summary if done else planned.message,
            instants=tuple(each.instant.requested_time for each in done),
            findings=tuple(found for each in done for found in each.findings),
            detail=tuple(done),
        )

    def _execute(self, requested_time: instants.InstantTime) -> results.CommitResult:
        return table_service.execute(
            compaction.Compaction(), self._job.target, requested_time, self._service, self._job.env
        )

    @guesses.of_arguments()
    def clean(
        self,
        *,
        keep_commits: int | None = None,
        keep_hours: int | None = None,
        keep_versions: int | None = None,
        grace_minutes: int = 60,
        dry_run: bool = False,
    ) -> Maintained:
        """Delete the file versions that no reader needs any more.

        Args:
            keep_commits: So many of the newest commits stay readable; 10 if nothing is given.
            keep_hours: Everything of so many hours does.
            keep_versions: So many versions of each file group do.
            grace_minutes: How long a reader may take: what was replaced since then stays.
            dry_run: Only return what would be deleted.

        Raises:
            InvalidInputError: Two of the three are given.
            ConfigurationError: A number is too small.
            ConflictError: The table is being restored, or changes faster than a clean is planned.
        """
        given = {
            retention.Policy.COMMITS: keep_commits,
            retention.Policy.HOURS: keep_hours,
            retention.Policy.VERSIONS: keep_versions,
        }
        chosen = [(policy, count) for policy, count in given.items() if count is not None]
        if len(chosen) > 1:
            raise errors.InvalidInputError(
                "clean: expected at most one of keep_commits, keep_hours and keep_versions"
            )
        how = retention.Retention(grace_ms=grace_minutes * _MINUTE_MS)
        if chosen:
            how = replace(how, policy=chosen[0][0], retained=chosen[0][1])
        target = self._job.target
        if dry_run:
            proposal = cleaning.propose(target.storage, target.config, how, has_sizes=True)
            paths = [path for each in proposal.removals for path in each.paths]
            size = sum(proposal.sizes.get(path, 0) for path in paths)
            return Maintained(
                service="clean",
                is_dry_run=True,
                summary=f"would delete {len(paths)} files, {size:,} bytes; {proposal.hold.reason}",
                detail=proposal,
            )
        done = cleaning.clean(target, how, self._service, self._job.env)
        deleted = sum(len(each.deleted) for each in done.done)
        return Maintained(
            service="clean",
            is_dry_run=False,
            summary=f"deleted {deleted} files; {done.held_by}",
            instants=tuple(each.instant.requested_time for each in done.done),
            findings=tuple(found for each in done.done for found in each.findings),
            detail=done,
        )

    @guesses.of_arguments()
    def archive(
        self,
        *,
        keep_min: int = 20,
        keep_max: int = 30,
        history_days: int | None = None,
        dry_run: bool = False,
    ) -> Maintained:
        """Move old instants from the active timeline into the table's history.

        Args:
            keep_min: So many commits stay.
            keep_max: Nothing is archived unless there are more.
            history_days: So many days of the history stay; None for all of it.
            dry_run: Only return what would be moved.

        Raises:
            ConfigurationError: The bounds contradict each other.
            ConflictError: The table is being restored, or its configuration has changed.
        """
        policy = archive_planning.Policy(
            commits_min=keep_min, commits_max=keep_max, history_days=history_days
        )
        policy.check()
        target, env = self._job.target, self._job.env
        if dry_run:
            plan = archiving.preview(target, policy, env)
            held = tuple(each.text for each in plan.holds)
            return Maintained(
                service="archive",
                is_dry_run=True,
                summary=f"would archive {len(plan.chosen)} instants",
                findings=held,
                detail=plan,
            )
        done = archiving.archive(target, policy, self._service, env)
        return Maintained(
            service="archive",
            is_dry_run=False,
            summary=f"archived {len(done.archived)} instants",
            findings=done.holds,
            detail=done,
        )

    @guesses.of_arguments()
    def roll_back(self, *, dry_run: bool = False) -> Maintained:
        """Roll back all failed writes: those whose writers are proved dead.

        Raises:
            HoodieError: Storage or lock failed; the rest was not tried.
        """
        target, env = self._job.target, self._job.env
        if dry_run:
            timeline = chain.load(target.storage, target.config)
            found = liveness.pending(target.storage, timeline, self._service.settings, env)
            failed = [each for each in found if each.remedy is results.Remedy.ROLL_BACK]
            return Maintained(
                service="roll_back",
                is_dry_run=True,
                summary=f"would roll back {len(failed)} of {len(found)} pending instants",
                detail=tuple(failed),
            )
        done = rollback.roll_back_failed(target, self._service, env)
        return Maintained(
            service="roll_back",
            is_dry_run=False,
            summary=f"rolled back {len(done.done)} writes",
            instants=tuple(each.instant.requested_time for each in done.done),
            findings=done.passed_over,
            detail=done,
        )

    @guesses.of_arguments()
    def savepoint(
        self, comment: str = "", *, instant: str | None = None, dry_run: bool = False
    ) -> Maintained:
        """Keep the files of a commit until the savepoint is deleted.

        Args:
            comment: Why.
            instant: Of the commit; None for the newest one.
            dry_run: Only return which one.

        Raises:
            NotFoundError: There is no such commit.
            ConflictError: Files of it were cleaned, or are about to be.
        """
        target = self._job.target
        wanted = savepoints.Wanted(
            commit=None if instant is None else instants.checked_time(instant), comment=comment
        )
        if dry_run:
            found = _commit(chain.load(target.storage, target.config).completed_writes, wanted)
            return Maintained(
                service="savepoint", is_dry_run=True, summary=f"would keep the files of {found}"
            )
        with closing(manager.open_client(target, self._service, self._job.env)) as client:
            done = savepoints.create(client, target.config, wanted)
        return Maintained(
            service="savepoint",
            is_dry_run=False,
            summary=f"keeps the files of {done.instant.requested_time}",
            instants=(done.instant.requested_time,),
            detail=done,
        )

    @guesses.of_arguments()
    def delete_savepoint(self, instant: str, *, dry_run: bool = False) -> Maintained:
        """Delete a savepoint; what it kept is cleaned as other files are.

        Args:
            instant: Of the commit that it keeps.
            dry_run: Only look whether it is there.

        Raises:
            NotFoundError: There is none of that commit.
        """
        target = self._job.target
        commit = instants.checked_time(instant)
        if dry_run:
            timeline = chain.load(target.storage, target.config)
            there = sorted({each.requested_time for each in timeline.savepoints})
            if commit not in there:
                raise errors.NotFoundError(
                    f"commit {commit} of {target.storage.uri} has no savepoint"
                )
            return Maintained(
                service="delete_savepoint",
                is_dry_run=True,
                summary=f"would delete the savepoint of {commit}",
            )
        with closing(manager.open_client(target, self._service, self._job.env)) as client:
            doomed = savepoints.Doomed(commits=frozenset((commit,)))
            deleted = savepoints.delete(client, target.config, doomed)
        return Maintained(
            service="delete_savepoint",
            is_dry_run=False,
            summary=f"deleted the savepoint of {commit}",
            instants=tuple(each.requested_time for each in deleted),
        )

    @guesses.of_arguments()
    def mirror(
        self,
        *,
        kept: int = mirrors.KEPT_DEFAULT,
        catalog: str | None = None,
        table: str | None = None,
        catalog_options: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> Maintained:
        """Register the table's base files in an Iceberg table beside it (docs/mirror.md).

        What is in log files alone is not in it before it is compacted.

        Args:
            kept: How many snapshots the mirror keeps, whose files are not cleaned.
            catalog: One of PyIceberg's configuration, or the URI of a REST or SQL catalog; None for
                the table's folder alone.
            table: The mirror's name in the catalog, such as `lake.trips`.
            catalog_options: Of the catalog, under PyIceberg's names.
            dry_run: Only return what would be done.

        Raises:
            ConfigurationError: PyIceberg is not installed, the catalog cannot be opened, or what is
                there is no mirror of the table.
            InvalidInputError: A catalog has no table, or a table no catalog.
            UnsupportedError: Iceberg cannot hold the table.
            ConflictError: Other processes mirror the table at the same time.
        """
        options = mirrors.Options(
            kept=kept, catalog=mirrors.catalog_of(catalog, table, catalog_options or {})
        )
        done = mirroring.mirror(self._job.target, options, self._job.env, is_dry_run=dry_run)
        return Maintained(
            service="mirror",
            is_dry_run=dry_run,
            summary=mirrors.summary(done, is_dry_run=dry_run),
            instants=(done.instant,) if done.is_new and done.instant else (),
            findings=mirrors.findings(done),
            detail=done,
        )

    @guesses.of_arguments()
    def make_metadata_table(self, *, dry_run: bool = False) -> Maintained:
        """Make the table's metadata table: its files, and statistics of their columns.

        The table that makes it reads by it; others that are open do after `Table.refresh`.

        Raises:
            AlreadyExistsError: It has one.
            ConflictError: The table is being restored, or changes faster than it can be listed.
        """
        target = self._job.target
        if target.config.metadata_partitions:
            raise errors.AlreadyExistsError(f"{target.storage.uri} has a metadata table")
        if dry_run:
            summary = "would make a metadata table with statistics"
            return Maintained(service="make_metadata_table", is_dry_run=True, summary=summary)
        initialising.initialise(target, self._service, self._job.env, has_statistics=True)
        self._job = self._renewed()
        summary = "made a metadata table with statistics"
        return Maintained(service="make_metadata_table", is_dry_run=False, summary=summary)

    @guesses.of_arguments()
    def build_index(
        self,
        *names: str,
        columns: Sequence[str] | None = None,
        secondary: Mapping[str, str] | None = None,
        partitioned: bool = False,
        dry_run: bool = False,
    ) -> Maintained:
        """Build indexes beside the table's writers (docs/indexes.md).

        Args:
            names: `column_stats`, `partition_stats`, `bloom_filters`, `record_index`,
                `secondary_index_NAME` or `expr_index_NAME`.
            columns: Of `column_stats`; None for all.
            secondary: The columns of secondary indexes, and of expression indexes calls such as
                `lower(name)`, by the names of these.
            partitioned: Whether `record_index` is one of each partition, which has a key once in
                each of them.
            dry_run: Only look whether they can be built.

        Raises:
            InvalidInputError: They are not built, or not in this table.
            NotFoundError: The table has no metadata table, or no such column.
            UnsupportedError: Readers of Apache Hudi would miss rows.
            ConflictError: A process that is alive builds them.
        """
        # Its metadata table may have been made, and indexes built, since the table was opened.
        self._job = self._renewed()
        target, service = self._job.target, self._job.writer.service_beside_writers
        request = index_decisions.Request(
            names, columns, secondary=secondary or {}, is_partitioned=partitioned
        )
        refusal = index_decisions.asked_refusal(request, target.config, service.settings)
        if refusal is not None:
            raise refusal
        if dry_run:
            there = [each for each in names if each in target.config.metadata_partitions]
            new = [each for each in names if each not in there]
            return Maintained(
                service="build_index",
                is_dry_run=True,
                summary=f"would build {', '.join(new) or 'nothing'}",
            )
        done = index_building.build(target, request, service, self._job.env)
        self._job = self._renewed()
        return Maintained(
            service="build_index",
            is_dry_run=False,
            summary=f"built {', '.join(done.built) or 'nothing: all were ready'}",
            instants=() if done.instant is None else (done.instant.requested_time,),
            findings=done.findings,
            detail=done,
        )

    def drop_index(self, *names: str, dry_run: bool = False) -> Maintained:
        """Drop indexes; readers and writers do without them from then on.

        Raises:
            HoodieError: They are not indexes of the table.
        """
        target = self._job.target
        if dry_run:
            there = [each for each in names if each in target.config.metadata_partitions]
            summary = f"would drop {', '.join(there) or 'nothing'}"
            return Maintained(service="drop_index", is_dry_run=True, summary=summary)
        dropped = index_dropping.drop(target, names, self._service, self._job.env)
        self._job = self._renewed()
        return Maintained(
            service="drop_index",
            is_dry_run=False,
            summary=f"dropped {', '.join(dropped) or 'nothing'}",
        )


def _commit(writes: Sequence[instants.Instant], wanted: savepoints.Wanted) -> instants.InstantTime:
    """Return which commit a savepoint would keep.

    Raises:
        NotFoundError: There is no such commit.
    """
    times = [each.requested_time for each in writes]
    if not times or wanted.commit not in (None, *times):
        raise errors.NotFoundError(f"there is no commit {wanted.commit or ''} on the timeline")
    return wanted.commit or max(writes, key=lambda each: str(each.completion_time)).requested_time
