"""What the operator asks an observer, and what it answers: values as JSON, over HTTP.

    POST /v1/tables   TablesQuestion -> TablesAnswer
    POST /v1/source   SourceQuestion -> SourceAnswer
    GET  /healthz     empty

An answer carries a digest of what it tells. Who asks again names the digest that is known, and is
told no more than that nothing has changed.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pydantic

from hoodie import errors
from hoodie.model import json_values, settings, table_config
from hoodie_operator.api import writer
from hoodie_operator.reconcile import facts

TABLES_PATH: Final = "/v1/tables"
SOURCE_PATH: Final = "/v1/source"
HEALTH_PATH: Final = "/healthz"
TABLES_MAX: Final = 500
BODY_BYTES_MAX: Final = 4 << 20

_DIGEST_LENGTH: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuestion:
    """A table to look at.

    Attributes:
        uri: Where.
        settings: By which heartbeats are judged.
        known: The digest of what is known of it; empty for nothing.
    """

    uri: str
    settings: settings.WriteSettings
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
    ledger: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAnswer:
    """About one table.

    Attributes:
        digest: Of what it tells.
        table: What it tells; None that it is what is known.
    """

    digest: str
    table: Table | None = None


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
        ledger=seen.ledger,
    )
    digest = _digest(table)
    return TableAnswer(digest=digest, table=None if digest == known else table)


def heard_table(told: Table, observed_ms: int) -> facts.TableFacts:
    """Return what an answer tells.

    Args:
        told: The answer.
        observed_ms: When it was asked for, by the monotonic time of who asked.

    Raises:
        FormatError: Its properties are those of no table.
        UnsupportedError: They are those of a table that this version does not read.
    """
    return facts.TableFacts(
        observed_ms=observed_ms,
        problem=told.problem,
        config=None if told.properties is None else table_config.from_properties(told.properties),
        commits=told.commits,
        pending=told.pending,
        ledger=told.ledger,
    )


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
        raise errors.InvalidInputError(f"the source asked for is none: {error}") from error


def told_source(seen: facts.SourceFacts, known: str = "") -> SourceAnswer:
    """Return the answer about a source."""
    source = Source(problem=seen.problem, groups=seen.groups, columns=seen.columns)
    digest = _digest(source)
    return SourceAnswer(digest=digest, source=None if digest == known else source)


def heard_source(told: Source, generation: int, observed_ms: int) -> facts.SourceFacts:
    """Return what an answer tells.

    Args:
        told: The answer.
        generation: Of the Writer that it was asked for.
        observed_ms: When it was asked for, by the monotonic time of who asked.
    """
    return facts.SourceFacts(
        generation=generation,
        observed_ms=observed_ms,
        problem=told.problem,
        groups=told.groups,
        columns=told.columns,
    )


def _digest(told: Table | Source) -> str:
    # Maps in one order, whatever order they came in.
    text = json.dumps(json.loads(json_values.encode(told)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]
