"""A transaction client: what one author needs to change one table, and the writes it has open.

One client is one owner of the table lock (L3) and has one write open at a time (S113): threads that
change a table at the same time have a client, and a lock provider, each.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hoodie import environment, errors, identity
from hoodie.model import instants, settings, table_config, time_zones
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, chain, true_time
from hoodie.transaction import authors, heartbeats, table_lock, writer_batches
from hoodie.transaction.locks.protocol import LockProvider

Companions = Mapping[instants.Instant, heartbeats.HeartbeatStatus]
"""The other writes at work: pending, and their owners not known to be dead."""

AdmitBeside = Callable[[Companions], None]
"""Raises when a write must not begin beside those that are at work."""

Guard = Callable[[], None]
"""Raises, usually FencedError, when nothing of ours may be published any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """What a client is made of.

    Attributes:
        storage: The table's.
        provider: Of the table lock, for this client alone; whoever opened it closes it.
        env: Time, ids, threads.
        settings: Equal for everything that writes the table.
        author: On whose behalf.
        guards: Called in the lock scope right before anything is published.
        claim: What a write of ours does to the table, put into its heartbeat for later ones.
        admit_beside: Asked in the lock scope before a write begins; None admits it beside anybody.
        table_chain: Of the table; None for a table without one.
        beside: The storage of the table's metadata table; of a metadata table, the data's; None for
            a table without one.
        time_zone: Of the timeline.
        lock_session_ms: Silence after which the lock's service gives a holder up; 0 for none.
        is_proved_dead: Tells of processes of this machine.
    """

    storage: Storage
    provider: LockProvider
    env: environment.Environment
    settings: settings.WriteSettings
    author: authors.Author
    guards: tuple[Guard, ...] = ()
    claim: str = ""
    admit_beside: AdmitBeside | None = None
    table_chain: chain.Chain | None = None
    beside: Storage | None = None
    time_zone: time_zones.TimeZone = time_zones.UTC_ZONE
    lock_session_ms: int = 0
    is_proved_dead: Callable[[identity.ProcessIdentity], bool] = identity.is_proved_dead


class Client:
    """One author's way to change one table."""

    def __init__(self, connection: Connection) -> None:
        """Put the parts together; nothing is requested yet.

        Raises:
            ConfigurationError: The settings contradict each other, or heartbeats by them could
                expire though all is well (H3).
        """
        contradiction = connection.settings.contradiction
        if contradiction is not None:
            raise errors.ConfigurationError(contradiction)
        refusal = heartbeats.settings_refusal(connection.settings, connection.lock_session_ms)
        if refusal is not None:
            raise refusal
        env = connection.env
        self.storage = connection.storage
        self.settings = connection.settings
        self.author = connection.author
        self.guards = connection.guards
        self.claim = connection.claim
        self.admit_beside = connection.admit_beside
        self.clock = env.clock
        self.random = env.random
        self.parallelism = env.engine.parallelism
        self.process = identity.as_of_now(env.process)
        self.chain = connection.table_chain
        self.beside = connection.beside
        self.time_zone = connection.time_zone
        self.times = true_time.TimeGenerator(env.clock, connection.settings, connection.time_zone)
        self.lock = table_lock.TableLock(
            connection.provider,
            connection.storage,
            env.clock,
            table_lock.Patience.of(connection.settings),
            self.chain,
            self.beside,
        )
        self.heartbeats = heartbeats.Heartbeats(
            connection.storage,
            env.clock,
            env.background,
            connection.settings,
            connection.is_proved_dead,
        )
        self._provider = connection.provider
        self._opened: instants.InstantTime | None = None

    @property
    def slowest_ms(self) -> int:
        """What a clock says now that lags ours by as much as clocks may, since the epoch."""
        return self.clock.now_ms() - self.settings.clock_skew_ms_max

    def close(self) -> None:
        """End the access to the table's lock."""
        self._provider.close()

    def check_idle(self) -> None:
        """Refuse a second write beside an open one; in the lock scope that is to begin it.

        Raises:
            InvalidInputError: This client has a write open, in whichever thread.
        """
        if self._opened is not None:
            raise errors.InvalidInputError(
                f"{self.author} has {self._opened} open on {self.storage.uri}: two concurrent "
                "writes need two clients"
            )

    def opened(self, requested_time: instants.InstantTime) -> None:
        """Take down what is open now; in the lock scope that has begun it."""
        self._opened = requested_time

    def closed(self) -> None:
        """Take down that nothing is open any more: it was completed, or given up."""
        self._opened = None

    def time_after(
        self, scope: table_lock.LockScope, parity: true_time.Parity
    ) -> instants.InstantTime:
        """Return a time above all that a scope's timeline and chain show.

        Raises:
            HoodieError: As `true_time.TimeGenerator.generate`.
        """
        self.times.rise_above(scope.floor)
        if scope.view is None:
            return self.times.generate(scope.timeline)
        return self.times.generate_chained(
            scope.timeline, scope.view.head.epoch.time, parity, is_waiting=not scope.is_courtesy
        )

    def time_before_another(self, scope: table_lock.LockScope) -> instants.InstantTime:
        """Return a time as `time_after`, without a wait: a greater one is taken in this scope.

        Raises:
            HoodieError: As `time_after`.
        """
        self.times.rise_above(scope.floor)
        if scope.view is None:
            return self.times.next(scope.timeline)
        return self.times.generate_chained(
            scope.timeline, scope.view.head.epoch.time, true_time.Parity.EPOCH, is_waiting=False
        )

    def check_guards(self) -> None:
        """Refuse to publish when somebody outside says so.

        Raises:
            FencedError: This attempt was replaced.
        """
        for guard in self.guards:
            guard()


def stage_of(write_id: str) -> int:
    """Return a number for the middle of write tokens that follows from an id."""
    return int(write_id.replace("-", "")[:7], 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAction:
    """A write, or the execution of a plan, that is on the timeline and not completed.

    Attributes:
        requested_time: Its instant.
        action: Delta commit, commit, compaction, rollback.
        batch_id: The writer's batch; None for a table service, and where none was given.
        heartbeat: Stands for it until it is completed or aborted.
        timeline: As it was when the action began: what is pending there may conflict later.
        epoch: Number of the table's newest epoch then; None for a table without a chain.
        config: The table's configuration: as it was then, or is when the action completes.
        prepared_for: The configuration that its data was made for.
        ledger: Batches known then.
        lock_times_before: What the client had waited and held when the action began.
    """

    requested_time: instants.InstantTime
    action: instants.Action
    batch_id: str | None
    heartbeat: heartbeats.Heartbeat
    timeline: active.ActiveTimeline
    epoch: int | None
    config: table_config.TableConfig
    prepared_for: table_config.TableConfig
    ledger: writer_batches.Ledger
    lock_times_before: table_lock.LockTimes

    @property
    def write_id(self) -> str:
        """What no other write, and no other execution of the same plan, has."""
        return self.heartbeat.owner.write_id

    @property
    def stage(self) -> int:
        """A number for the middle of write tokens, from the write id.

        Files of two executions of one plan then have different names, so that one which was taken
        for dead cannot write into the files of its successor.
        """
        return stage_of(self.write_id)

    @property
    def own_stage(self) -> int | None:
        """The stage that tells its files from those of others with its time; None for all files.

        A write is alone with its time: its inflight file, which is created once, names it.
        """
        return None if self.action in instants.WRITES else self.stage

    @property
    def requested(self) -> instants.Instant:
        """The instant as requested."""
        return self._in(instants.State.REQUESTED)

    @property
    def inflight(self) -> instants.Instant:
        """The instant as inflight."""
        return self._in(instants.State.INFLIGHT)

    def _in(self, state: instants.State) -> instants.Instant:
        return instants.Instant(requested_time=self.requested_time, action=self.action, state=state)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyWritten:
    """The table holds the batch already: there is nothing to write (WR1)."""

    batch_id: str
    lock_times: table_lock.LockTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """An action that took effect.

    Attributes:
        instant: Completed.
        lock_times: Waited and held for it in all, where waiting was in vain included.
        findings: What the table's user should know though nothing failed.
        is_metadata_due: Whether the table's metadata table is to be compacted now.
    """

    instant: instants.Instant
    lock_times: table_lock.LockTimes
    findings: tuple[str, ...] = ()
    is_metadata_due: bool = False
