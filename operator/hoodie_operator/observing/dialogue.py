"""What the operator asks an observer, and what it answers: values as JSON, over HTTP.

    POST /v1/tables   TablesQuestion -> TablesAnswer
    POST /v1/source   SourceQuestion -> SourceAnswer
    GET  /healthz     empty

An answer carries a digest of what it tells. Who asks again names the digest that is known, and is
told no more than that nothing has changed.

An observer is a tenant's. The operator takes answers of a bounded length and of a bounded number of
values, since a value costs its reader far more than its text. An observer keeps within both: what
does not fit beside others is left for the next question, what does not fit alone is a problem.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pydantic

from hoodie import errors
from hoodie.maintenance import consumers
from hoodie.model import instants, json_values, schemas, settings, table_config
from hoodie.services.mirrors import names as mirror_names
from hoodie_operator.api import writer
from hoodie_operator.reconcile import facts

TABLES_PATH: Final = "/v1/tables"
SOURCE_PATH: Final = "/v1/source"
HEALTH_PATH: Final = "/healthz"
TABLES_MAX: Final = 500
BODY_BYTES_MAX: Final = 4 << 20
VALUES_MAX: Final = 200_000
"""In one answer: about 10,000 commits, or 30,000 files."""

_BETWEEN_VALUES: Final = (b",", b":", b"[", b"{")
_VALUE_BYTES: Final = 64
_FRAME_BYTES: Final = 64 << 10
_FRAME_VALUES: Final = 8_000
"""For what is around the tables of an answer, and for what says that some are left."""
_DIGEST_LENGTH: Final = 32
_ACTIONS: Final = frozenset(action.value for action in instants.Action)
_TIME: Final = re.compile(r"[0-9]{1,32}", re.ASCII)
_NUMBER_MAX: Final = (1 << 63) - 1
_MESSAGE_LENGTH_MAX: Final = 1024
_COLUMN_LENGTH_MAX: Final = 256
_INDEXES_MAX: Final = 100
_SHOWN_MAX: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuestion:
    """A table to look at.

    Attributes:
        uri: Where.
        settings: By which heartbeats are judged.
        known: The digest of what is known of it; empty for nothing.
        mirror: The consumer of the mirror that is looked at.
    """

    uri: str
    settings: settings.WriteSettings
    mirror: str = mirror_names.CONSUMER
    known: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesQuestion:
    """Tables to look at, at most `TABLES_MAX`."""

    tables: tuple[TableQuestion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What a table's storage tells, as `facts.TableFacts`, its properties as they are stored."""

    problem: facts.Problem | None = None
    properties: Mapping[str, str] | None = None
    commits: tuple[facts.Commit, ...] = ()
    pending: tuple[facts.Pending, ...] = ()
    last_clean: instants.InstantTime | None = None
    savepoints: tuple[facts.Savepoint, ...] = ()
    archived: Mapping[str, str] = field(default_factory=dict)
    ledger: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    has_partition_buckets: bool = False
    batch_settings: Mapping[str, str] = field(default_factory=dict)
    consumers: tuple[facts.Consumer, ...] = ()
    passed_consumers: tuple[facts.PassedConsumer, ...] = ()
    interference: tuple[str, ...] = ()
    metadata: facts.MetadataTable | None = None
    mirror: facts.Mirror | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAnswer:
    """About one table.

    Attributes:
        digest: Of what it tells.
        table: What it tells; None that it is what is known.
        is_left: Whether it is left for the next question, because the answer is full.
    """

    digest: str
    table: Table | None = None
    is_left: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesAnswer:
    """About the tables that were asked for, in their order."""

    tables: tuple[TableAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceQuestion:
    """A Writer's source to look at.

    Attributes:
        source: As in its spec, as JSON.
        known: As in `TableQuestion`.
    """

    source: str
    known: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a source tells, as `facts.SourceFacts`."""

    problem: facts.Problem | None = None
    groups: tuple[tuple[facts.SourceFile, ...], ...] = ()
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAnswer:
    """As `TableAnswer`."""

    digest: str
    source: Source | None = None


def told_table(seen: facts.TableFacts, known: str = "") -> TableAnswer:
    """Return the answer about a table."""
    table = Table(
        problem=seen.problem,
        properties=None if seen.config is None else dict(seen.config.properties),
        commits=seen.commits,
        pending=seen.pending,
        last_clean=seen.last_clean,
        savepoints=seen.savepoints,
        archived=seen.archived,
        ledger=seen.ledger,
        has_partition_buckets=seen.has_partition_buckets,
        batch_settings=seen.batch_settings,
        consumers=seen.consumers,
        passed_consumers=seen.passed_consumers,
        interference=seen.interference,
        metadata=seen.metadata,
        mirror=seen.mirror,
    )
    content = json_values.encode(table)
    if not _is_fitting_alone(content):
        table = Table(problem=_too_much(f"its timeline of {len(seen.commits)} commits", content))
    digest = _digest(table)
    return TableAnswer(digest=digest, table=None if digest == known else table)


def heard_table(told: Table, observed_ms: int) -> facts.TableFacts:
    """Return what an answer tells.

    Args:
        told: The answer.
        observed_ms: When it was asked for, by the monotonic time of who asked.

    Raises:
        FormatError: Its properties are those of no table, or it tells what no timeline holds.
        InvalidInputError: It names a consumer as none is named.
        UnsupportedError: They are those of a table that this version does not read.
    """
    for commit in told.commits:
        _check_instant(commit.action, commit.requested_time, commit.completion_time)
        _check_number("log_bytes", commit.log_bytes)
    for pending in told.pending:
        target = () if pending.target is None else (pending.target,)
        _check_instant(pending.action, pending.requested_time, *target)
        _check_number("attempt", pending.attempt or 0)
        if len(pending.process) > _MESSAGE_LENGTH_MAX:
            raise errors.FormatError(
                f"a process of {len(pending.process)} characters, expected at most "
                f"{_MESSAGE_LENGTH_MAX}"
            )
        if pending.plan_size is not None:
            _check_number("file_groups", pending.plan_size.file_groups)
            _check_number("log_bytes_max", pending.plan_size.log_bytes_max or 0)
        _check_indexes(pending.indexes)
    if told.last_clean is not None:
        _check_instant(instants.Action.CLEAN.value, told.last_clean)
    for saved in told.savepoints:
        _check_instant(instants.Action.SAVEPOINT.value, saved.requested_time, saved.completion_time)
    _check_consumers(told)
    _check_mirror(told.mirror)
    config = None
    if told.properties is not None:
        config = table_config.from_properties(told.properties)
        if config.create_schema is not None:
            schemas.from_avro(config.create_schema)  # What decisions compare can be read.
    return facts.TableFacts(
        observed_ms=observed_ms,
        problem=_known(told.problem),
        config=config,
        commits=told.commits,
        pending=told.pending,
        last_clean=told.last_clean,
        savepoints=told.savepoints,
        archived=told.archived,
        ledger=told.ledger,
        has_partition_buckets=told.has_partition_buckets,
        batch_settings={
            writer_id: digest[:_DIGEST_LENGTH] for writer_id, digest in told.batch_settings.items()
        },
        consumers=told.consumers,
        passed_consumers=told.passed_consumers,
        interference=told.interference,
        metadata=_metadata(told.metadata),
        mirror=told.mirror,
    )


def _check_mirror(told: facts.Mirror | None) -> None:
    if told is None:
        return
    times = () if told.instant is None else (told.instant,)
    _check_instant(instants.Action.COMMIT.value, told.completion_time, *times)
    _check_number("snapshots", told.snapshots)
    _check_number("unmirrored_groups", told.unmirrored_groups)
    _check_number("unmirrored_log_bytes", told.unmirrored_log_bytes)


def _check_consumers(told: Table) -> None:
    for each in told.consumers:
        consumers.checked_name(each.name)
        since = () if each.unread_since is None else (each.unread_since,)
        _check_instant(instants.Action.DELTA_COMMIT.value, each.consumed, *since)
        _check_number("unread", each.unread)
    if len(told.consumers) > facts.CONSUMERS_MAX:
        raise errors.FormatError(
            f"{len(told.consumers)} consumers, expected at most {facts.CONSUMERS_MAX}"
        )
    for passed in told.passed_consumers:
        consumers.checked_name(passed.name)
        _check_instant(instants.Action.CLEAN.value, passed.clean, passed.consumed)


def source_question(source: writer.Source, known: str = "") -> SourceQuestion:
    """Return the question about a source."""
    text = source.model_dump_json(by_alias=True, exclude_none=True)
    return SourceQuestion(source=text, known=known)


def asked_source(question: SourceQuestion) -> writer.Source:
    """Return the source that is asked for.

    Raises:
        InvalidInputError: It is none.
    """
    try:
        return writer.Source.model_validate_json(question.source)
    except pydantic.ValidationError as error:
        raise errors.InvalidInputError(f"invalid source: {error}") from error


def told_source(seen: facts.SourceFacts, known: str = "") -> SourceAnswer:
    """Return the answer about a source."""
    source = Source(problem=seen.problem, groups=seen.groups, columns=seen.columns)
    content = json_values.encode(source)
    if not _is_fitting_alone(content):
        count = sum(len(group) for group in seen.groups)
        source = Source(problem=_too_much(f"its source of {count} files", content))
    digest = _digest(source)
    return SourceAnswer(digest=digest, source=None if digest == known else source)


def heard_source(told: Source, generation: int, observed_ms: int) -> facts.SourceFacts:
    """Return what an answer tells.

    Args:
        told: The answer.
        generation: Of the Writer that it was asked for.
        observed_ms: When it was asked for, by the monotonic time of who asked.

    Raises:
        FormatError: A column has a longer name than any.
    """
    if any(len(name) > _COLUMN_LENGTH_MAX for name in told.columns or ()):
        raise errors.FormatError(
            f"a column of the source has a longer name than {_COLUMN_LENGTH_MAX} characters"
        )
    return facts.SourceFacts(
        generation=generation,
        observed_ms=observed_ms,
        problem=_known(told.problem),
        groups=told.groups,
        columns=told.columns,
    )


def _known(problem: facts.Problem | None) -> facts.Problem | None:
    """Return a problem as it may be told: its kind is one of ours, its message short."""
    if problem is None:
        return None
    message = _line(problem.message)
    kind = problem.kind if problem.kind in errors.EXIT_CODES else errors.HoodieError.kind
    return facts.Problem(kind=kind, message=message, is_transient=problem.is_transient)


def _metadata(told: facts.MetadataTable | None) -> facts.MetadataTable | None:
    if told is None:
        return None
    _check_number("delta_commits", told.delta_commits)
    _check_indexes([each.name for each in told.behind])
    for each in told.behind:
        _check_instant(instants.Action.COMMIT.value, each.instant)
    return replace(told, problem=_line(told.problem))


def _line(text: str) -> str:
    return " ".join(text[:_MESSAGE_LENGTH_MAX].split())


def _check_instant(action: str, *times: str) -> None:
    """Raise where it is none.

    Raises:
        FormatError: It is none.
    """
    if action not in _ACTIONS:
        raise errors.FormatError(f"an action {action[:_SHOWN_MAX]!r}, expected one of a timeline")
    for time in times:
        if _TIME.fullmatch(time) is None:
            raise errors.FormatError(f"an instant {time[:_SHOWN_MAX]!r}, expected its digits")


def _check_indexes(names: Sequence[str]) -> None:
    """Raise where a table has no such indexes.

    Raises:
        FormatError: They are too many, or a name is too long.
    """
    if len(names) > _INDEXES_MAX or any(len(name) > _COLUMN_LENGTH_MAX for name in names):
        raise errors.FormatError(
            f"{len(names)} indexes, expected at most {_INDEXES_MAX} with names of at most "
            f"{_COLUMN_LENGTH_MAX} characters"
        )


def _check_number(name: str, number: int) -> None:
    if not 0 <= number <= _NUMBER_MAX:
        raise errors.FormatError(f"{name} of {number:.3g}, expected 0 to {_NUMBER_MAX}")


def count_values(content: bytes) -> int:
    """Return how many values a JSON text holds at most, without making any of them."""
    return sum(content.count(each) for each in _BETWEEN_VALUES)


def memory_bytes(content: bytes) -> int:
    """Return about how much memory what an answer tells takes while it is held."""
    is_wide = not content.isascii() or b"\\u" in content
    return len(content) * (4 if is_wide else 1) + _VALUE_BYTES * count_values(content)


def _is_fitting_alone(content: bytes) -> bool:
    return (
        len(content) <= BODY_BYTES_MAX - 2 * _FRAME_BYTES
        and count_values(content) <= VALUES_MAX - 2 * _FRAME_VALUES
    )


def _too_much(what: str, content: bytes) -> facts.Problem:
    return facts.Problem(
        kind=errors.UnsupportedError.kind,
        message=(
            f"{what} does not fit into one answer of an observer: {count_values(content)} values "
            f"in {len(content)} bytes, expected at most {VALUES_MAX} in {BODY_BYTES_MAX}"
        ),
        is_transient=False,
    )


def fitted(answers: Sequence[TableAnswer]) -> TablesAnswer:
    """Return an answer about tables that is no longer than one may be."""
    taken: list[TableAnswer] = []
    left_bytes, left_values = BODY_BYTES_MAX - _FRAME_BYTES, VALUES_MAX - _FRAME_VALUES
    for answer in answers:
        content = json_values.encode(answer)
        size, count = len(content) + 1, count_values(content) + 1
        # Each that follows has at least to be told that it is left.
        if size <= left_bytes and count <= left_values:
            taken.append(answer)
            left_bytes, left_values = left_bytes - size, left_values - count
        else:
            taken.append(TableAnswer(digest="", is_left=True))
    return TablesAnswer(tables=tuple(taken))


def _digest(told: Table | Source) -> str:
    # Maps in one order, whatever order they came in.
    text = json.dumps(json.loads(json_values.encode(told)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]
