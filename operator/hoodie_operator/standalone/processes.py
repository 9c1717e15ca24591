"""Runs as local processes: started at most once, found again, stopped, remembered.

Each attempt has a folder STATE/runs/RUN with

    run.json       written before anything starts: which attempt, of whom, with which protocol
    spec.json      the job's only argument
    process.json   who it is; see `launch`
    progress.json  what it told last
    result.json    what it told at its end
    batch.json     settings for its next batch, newer than those in spec.json
    stop.json      that it was asked to stop, when and why
    end.json       that its end was seen, when, and its exit code if it was our child
    log.txt        what it printed

A process is known by host, boot, process id and start time, so that a number given to another
process is not mistaken for it.
"""

import contextlib
import dataclasses
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hoodie import clock, errors, identity
from hoodie.contract import attempt_fences, batch_settings, job_results, job_specs
from hoodie.model import table_config
from hoodie_operator.api import objects
from hoodie_operator.reconcile import facts, observed_times
from hoodie_operator.reconcile.effects import GiveBatchSettings, StartRun, StopRun
from hoodie_operator.standalone import launch, state_files

logger = logging.getLogger(__name__)

_KEPT_PER_OWNER = 5
_CLOSING_S_MAX = 10.0
_BATCH_SETTINGS = "batch.json"
_LOG = "log.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """The content of `run.json`."""

    id: facts.RunId
    protocol_hash: str
    run_hash: str
    batch_settings_hash: str
    started_ms: int


class Processes:
    """The runs of one state folder."""

    def __init__(
        self,
        state: Path,
        operator_clock: clock.Clock,
        *,
        allowed_roots: tuple[str, ...] = (),
        programs: Mapping[type, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Take the state folder.

        Args:
            state: The folder.
            operator_clock: For start, stop and end times.
            allowed_roots: What every table and input lies below, told to the jobs.
            programs: Other modules for kinds of work than the usual ones.
            environment: Of the jobs; by default the operator's own.
        """
        self._runs = state / "runs"
        self._fences = state / "fences"
        self._clock = operator_clock
        self._allowed_roots = allowed_roots
        self._programs = programs or {}
        self._environment = environment
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._ended: dict[str, float] = {}
        self._heard: dict[facts.RunId, facts.Run] = {}
        # What has ended does not change, and is read once.
        self._past: dict[Path, facts.Run] = {}

    def start(self, effect: StartRun) -> None:
        """Start an attempt, unless it was ever started.

        Raises:
            StorageError: The folder cannot be written, or the process not started.
        """
        folder = self._folder(effect.id)
        if (folder / "run.json").exists():
            return
        self._write_intent(effect, folder)
        # -P: the folder that the operator was started in is nobody's to import from.
        python = [sys.executable, "-P", "-m"]
        module = self._programs.get(type(effect.work), effect.program)
        program = [*python, module, str(folder / "spec.json")]
        command = [*python, launch.__name__, str(folder), *program]
        try:
            with (folder / _LOG).open("ab") as log:
                self._children[str(effect.id)] = subprocess.Popen(  # noqa: S603 - our own command
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=None if self._environment is None else dict(self._environment),
                    # In a session of its own: it outlives the operator, and an interrupt of its
                    # terminal.
                    start_new_session=True,
                )
        except OSError as error:
            raise errors.StorageError(f"{effect.id}: cannot be started: {error}") from error
        logger.info("%s: started for %s", effect.id, effect.table.uri)

    def stop(self, effect: StopRun) -> None:
        """Ask an attempt to stop, or end it; nothing when it has ended.

        From here on it may not commit either: what made it unwanted may be how it commits.
        """
        folder = self._folder(effect.id)
        process = _process(folder)
        if process is None or _state_of(process) is identity.ProcessState.ENDED:
            return
        if not (folder / "stop.json").exists():
            stop = {"requested_ms": self._clock.now_ms(), "reason": effect.reason}
            state_files.replace_json(folder / "stop.json", stop)
            self._fence(effect.id.uid, 0, "")
            logger.info("%s: asked to stop: %s", effect.id, effect.reason)
        if _state_of(process) is not identity.ProcessState.RUNNING:
            logger.warning(
                "%s: did not signal %s: the process id may belong to another process",
                effect.id,
                process,
            )
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL if effect.is_killed else signal.SIGTERM)

    def give_batch_settings(self, effect: GiveBatchSettings) -> None:
        """Have an attempt take up settings at its next batch; nothing when there is none.

        Raises:
            StorageError: The file cannot be written.
        """
        folder = self._folder(effect.id)
        if not (folder / "run.json").exists():
            return
        state_files.replace(folder / _BATCH_SETTINGS, batch_settings.encode(effect.settings))
        logger.info("%s: has batch settings %s", effect.id, effect.settings.hash)

    def observe(self) -> dict[str, list[facts.Run]]:
        """Return what is known of all attempts, by the uid of their owners."""
        found: dict[str, list[facts.Run]] = {}
        heard: dict[facts.RunId, facts.Run] = {}
        now_ms = clock.monotonic_ms(self._clock)
        for folder in sorted(self._runs.glob("*")):
            run = self._look(folder)
            if run is not None:
                heard[run.id] = observed_times.stamp_run(self._heard.get(run.id), run, now_ms)
                found.setdefault(run.id.uid, []).append(heard[run.id])
        self._heard = heard
        return found

    def forget(self, runs: Mapping[str, Sequence[facts.Run]], owners: Collection[str]) -> None:
        """Remove what nobody asks for any more.

        Args:
            runs: As observed.
            owners: The uids of all objects: of each the newest ended attempts are kept, and
                nothing of any other.
        """
        for uid, owned in runs.items():
            ended = sorted(
                (run for run in owned if not run.is_running), key=lambda run: run.id.attempt
            )
            kept = _KEPT_PER_OWNER if uid in owners else 0
            if len(ended) == len(owned) and kept == 0:
                self._fence_path(uid).unlink(missing_ok=True)
            for run in ended[: max(0, len(ended) - kept)]:
                shutil.rmtree(self._folder(run.id), ignore_errors=True)
                self._past.pop(self._folder(run.id), None)

    def log(self, uids: Collection[str], attempt: int | None = None) -> Path | None:
        """Return where the output of an attempt is; None where there is none.

        Args:
            uids: Whose attempts.
            attempt: Its number; None for the one that was started last.
        """
        records = (_record(folder) for folder in self._runs.glob("*"))
        owned = [
            record
            for record in records
            if record is not None and record.id.uid in uids and attempt in (None, record.id.attempt)
        ]
        if not owned:
            return None
        newest = max(owned, key=lambda record: (record.started_ms, record.id.attempt))
        return self._folder(newest.id) / _LOG

    def _folder(self, run: facts.RunId) -> Path:
        return self._runs / str(run)

    def _write_intent(self, effect: StartRun, folder: Path) -> None:
        protocol_hash = effect.table.protocol_hash
        fence_path = self._fence(effect.id.uid, effect.fence_number, protocol_hash)
        spec = job_specs.JobSpec(
            table_uri=effect.table.uri,
            allowed_roots=self._allowed_roots,
            table_properties=table_config.to_properties(effect.table.config),
            settings=effect.table.settings,
            lock=effect.table.lock,
            protocol_hash=protocol_hash,
            writer_id=effect.writer_id,
            action_id=effect.action_id,
            attempt=effect.fence_number,
            fence=attempt_fences.FenceFile(path=str(fence_path)),
            work=effect.work,
            engine=effect.engine,
            progress_path=str(folder / "progress.json"),
            result_path=str(folder / "result.json"),
            batch_settings_path=str(folder / _BATCH_SETTINGS),
        )
        state_files.replace(folder / "spec.json", job_specs.encode_spec(spec))
        record = _Record(
            id=effect.id,
            protocol_hash=protocol_hash,
            run_hash=effect.run_hash,
            batch_settings_hash=effect.batch_settings_hash,
            started_ms=self._clock.now_ms(),
        )
        state_files.replace_json(folder / "run.json", dataclasses.asdict(record))

    def _fence(self, uid: str, attempt: int, protocol_hash: str) -> Path:
        """Let one attempt of an object commit, and none with another number."""
        path = self._fence_path(uid)
        fence = attempt_fences.Fence(attempt=attempt, protocol_hash=protocol_hash)
        state_files.replace(path, attempt_fences.encode_fence(fence))
        return path

    def _fence_path(self, uid: str) -> Path:
        return self._fences / f"{uid}.json"

    def _look(self, folder: Path) -> facts.Run | None:
        if folder in self._past:
            return self._past[folder]
        record = _record(folder)
        if record is None:
            return None
        stop = state_files.read_json(folder / "stop.json") or {}
        run = facts.Run(
            id=record.id,
            protocol_hash=record.protocol_hash,
            run_hash=record.run_hash,
            batch_settings_hash=_batch_settings_hash(folder, record),
            started_ms=record.started_ms,
            stop_requested_ms=stop.get("requested_ms"),
            stop_reason=stop.get("reason", ""),
            progress=_progress(folder),
        )
        end = self._end(folder, record)
        if end is None:
            process = _process(folder)
            return dataclasses.replace(run, process=str(process) if process else "")
        past = dataclasses.replace(
            run, ended_ms=end["ended_ms"], exit_code=end["exit_code"], result=_result(folder)
        )
        self._past[folder] = past
        return past

    def _end(self, folder: Path, record: _Record) -> dict[str, int | None] | None:
        """Return when an attempt was seen to have ended; None while it is at work.

        It has ended when its process has and everything in its session is gone too: an engine
        that closes down by itself, for a while; then it is ended.
        """
        path = folder / "end.json"
        known = state_files.read_json(path)
        if known is not None:
            return known
        run = str(record.id)
        if run not in self._ended:
            if not self._has_ended(run, folder):
                return None
            self._ended[run] = self._clock.monotonic_s()
        survivors = _survivors(folder)
        if survivors:
            if self._clock.monotonic_s() - self._ended[run] > _CLOSING_S_MAX:
                _kill(run, survivors)
            return None
        child = self._children.pop(run, None)
        code = None if child is None else child.returncode
        del self._ended[run]
        end = {"ended_ms": self._clock.now_ms(), "exit_code": code}
        state_files.replace_json(path, end)
        logger.info("%s: ended with exit code %s", run, "unknown" if code is None else code)
        return end

    def _has_ended(self, run: str, folder: Path) -> bool:
        """Return whether a process has ended, or never will begin."""
        child = self._children.get(run)
        if child is not None:
            return child.poll() is not None
        if not (folder / launch.NAME).exists():
            # Started by an operator that was killed, and not begun: it never may now.
            launch.claim(str(folder), None)
        process = _process(folder)
        return process is None or _state_of(process) is identity.ProcessState.ENDED


def has_ended(log: Path) -> bool:
    """Return whether nothing is added any more to the output of an attempt, whoever looks."""
    process = _process(log.parent)
    return process is not None and _state_of(process) is identity.ProcessState.ENDED


def _record(folder: Path) -> _Record | None:
    data = state_files.read_json(folder / "run.json")
    if data is None:
        return None
    return _Record(
        # An older record says no namespace.
        id=facts.RunId(**{"namespace": objects.DEFAULT_NAMESPACE, **data["id"]}),
        protocol_hash=data["protocol_hash"],
        run_hash=data.get("run_hash", ""),
        batch_settings_hash=data.get("batch_settings_hash", ""),
        started_ms=data["started_ms"],
    )


def _batch_settings_hash(folder: Path, record: _Record) -> str:
    """Return the hash of the settings that an attempt takes up next, or has taken up."""
    path = folder / _BATCH_SETTINGS
    content = state_files.read(path)
    if content is None:
        return record.batch_settings_hash
    try:
        return batch_settings.decode(content, str(path)).hash
    except errors.HoodieError as error:
        # Given again.
        logger.warning("%s", error)
        return "unreadable"


def _state_of(process: identity.ProcessIdentity) -> identity.ProcessState:
    """Return what has become of a run's process; a state folder is of one machine."""
    return identity.state_of(process, is_host_unique=True)


def _process(folder: Path) -> identity.ProcessIdentity | None:
    content = state_files.read(folder / launch.NAME)
    if content is None or content.strip() == b"null":
        return None
    data = state_files.read_json(folder / launch.NAME)
    assert data is not None
    return identity.ProcessIdentity(**data)


def _progress(folder: Path) -> job_results.JobProgress | None:
    content = state_files.read(folder / "progress.json")
    if content is None:
        return None
    try:
        return job_results.decode_progress(content, str(folder / "progress.json"))
    except errors.InvalidInputError as error:
        logger.warning("%s", error)
        return None


def _result(folder: Path) -> job_results.JobResult | None:
    content = state_files.read(folder / "result.json")
    if content is None:
        return None
    try:
        return job_results.decode_result(content, str(folder / "result.json"))
    except errors.InvalidInputError as error:
        logger.warning("%s", error)
        return None


def _survivors(folder: Path) -> list[int]:
    """Return the processes that an ended attempt has left in its session; none if nobody knows."""
    process = _process(folder)
    if process is None:
        return []
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[3]) == process.pid:
            members.append(int(stat.parent.name))
    # A process of the leader's number is another one, in a session of its own making.
    return [] if process.pid in members else members


def _kill(run: str, pids: Sequence[int]) -> None:
    for pid in pids:
        logger.info("%s: stopping process %s, which it left behind", run, pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
