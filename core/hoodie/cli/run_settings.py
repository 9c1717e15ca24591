"""What `--set`, `--lock` and `--concurrency` mean together, for a write or a table service.

A `--set` key is one of four: a writer's setting, an option of compaction, a part of the lock's
address, or a fact about the table. A fact changes nothing: it must agree with the table, so that
the options of a Hudi writer can be passed on as they are, and a wrong one does not go unnoticed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hoodie import errors
from hoodie.cli import options
from hoodie.door import writers
from hoodie.model import compaction_options, settings, table_config
from hoodie.services import table_facts
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts, addresses, hudi_options

_MODE_KEY = "hoodie.write.concurrency.mode"
_NAME_KEY = "hoodie.table.name"
_LOCK_NAMES = frozenset(key.name for key in hudi_options.KEYS)
_SETTING_NAMES = frozenset(name for key in settings.KEYS for name in (key.name, *key.aliases))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What holds for one run.

    Attributes:
        settings: Of the writer or service.
        lock: The table lock.
        facts: Properties that the table must agree with.
        compaction: Which compactions are planned.
    """

    settings: settings.WriteSettings
    lock: addresses.LockAddress
    facts: Mapping[str, str]
    compaction: compaction_options.CompactionOptions = compaction_options.DEFAULTS

    def transaction(self, author: authors.Author) -> manager.TransactionOptions:
        """Return how the author changes the table."""
        return manager.TransactionOptions(settings=self.settings, lock=self.lock, author=author)


def parse(
    uri: str,
    set_texts: Sequence[str] | None,
    lock_text: str | None,
    concurrency: options.Concurrency | None = None,
) -> RunSettings:
    """Return what the options mean.

    Args:
        uri: The table's, whose storage has the lock if no option names one.
        set_texts: Of `--set`.
        lock_text: Of `--lock`.
        concurrency: Of `--concurrency`.

    Raises:
        InvalidInputError: A text is malformed.
        ConfigurationError: A key is unknown, a value is not one of its key, options contradict
            each other, or the lock does not protect the table.
        UnsupportedError: The lock is of a kind that we do not have.
    """
    properties = options.properties(set_texts)
    given = {key: value for key, value in properties.items() if key in _SETTING_NAMES}
    lock_properties = {
        key: value
        for key, value in properties.items()
        if (key.startswith(hudi_options.PREFIX) or key in _LOCK_NAMES) and key not in given
    }
    facts = {key: value for key, value in properties.items() if key in table_facts.FACTS}
    planning = {key: value for key, value in properties.items() if key in compaction_options.NAMES}
    known = given.keys() | lock_properties.keys() | facts.keys() | planning.keys()
    unknown = properties.keys() - known
    if refused := sorted(unknown & table_facts.REFUSED.keys()):
        raise errors.ConfigurationError(f"--set {refused[0]}: {table_facts.REFUSED[refused[0]]}")
    if unknown:
        raise errors.ConfigurationError(f"--set {min(unknown)}: unknown setting")
    defaults = settings.WriteSettings()
    if concurrency is not None:
        mode = options.CONCURRENCY_MODES[concurrency]
        defaults = settings.WriteSettings(concurrency=mode)
    effective = settings.from_properties(given, defaults)
    if concurrency is not None and effective.concurrency is not defaults.concurrency:
        raise errors.ConfigurationError(
            f"--concurrency {concurrency.value} with --set {_MODE_KEY}={given[_MODE_KEY]}: "
            "expected one of them"
        )
    if effective.contradiction is not None:
        raise errors.ConfigurationError(effective.contradiction)
    lock = _lock(uri, lock_text, lock_properties, {**facts, **given})
    is_alone = effective.concurrency is settings.ConcurrencyMode.SINGLE_WRITER
    if not is_alone and isinstance(lock, addresses.InProcessAddress):
        name = options.name_of(effective.concurrency)
        raise errors.ConfigurationError(
            f"--lock in-process with several writers ({name}): the lock excludes no other "
            "process, expected filesystem, zookeeper://HOST:PORT/BASE/KEY or another lock that "
            "all writers share"
        )
    compaction = compaction_options.from_properties(planning)
    return RunSettings(settings=effective, lock=lock, facts=facts, compaction=compaction)


def parse_for_service(
    uri: str, set_texts: Sequence[str] | None, lock_text: str | None
) -> RunSettings:
    """Return what the options of a table service mean, which is a process beside the writers.

    Raises:
        ConfigurationError: As `parse`; or the lock excludes no other process (S81).
    """
    run = parse(uri, set_texts, lock_text)
    if isinstance(run.lock, addresses.InProcessAddress):
        raise errors.ConfigurationError(
            "--lock in-process: the lock excludes no other process, expected the lock of the "
            "table's writers"
        )
    return run


def parse_beside_writers(
    uri: str, set_texts: Sequence[str] | None, lock_text: str | None
) -> RunSettings:
    """Return the same of a service that runs beside several writers, whose mode is their concern.

    Raises:
        ConfigurationError: As `parse_for_service`.
    """
    states_mode = _MODE_KEY in options.properties(set_texts)
    run = parse(uri, set_texts, lock_text, None if states_mode else options.Concurrency.OPTIMISTIC)
    if isinstance(run.lock, addresses.InProcessAddress):
        return parse_for_service(uri, set_texts, lock_text)
    return run


_COMPACTION_OPTIONS = {
    "--trigger": "hoodie.compact.inline.trigger.strategy",
    "--strategy": "hoodie.compaction.strategy",
    "--max-file-groups": "hoodie.operator.compaction.file.groups.max",
    "--max-bytes": "hoodie.operator.compaction.bytes.max",
}
"""The key that an option of the command stands for."""


def with_compaction(run: RunSettings, given: Mapping[str, str | None]) -> RunSettings:
    """Return what holds for a run with options of the command that say what is planned.

    Args:
        run: From `--set`.
        given: The text of each option; None for one that was not given.

    Raises:
        ConfigurationError: A text is not one of the option, or `--set` has its key as well.
    """
    texts = {name: text for name, text in given.items() if text is not None}
    before = compaction_options.to_properties(run.compaction)
    compaction = run.compaction
    for name, text in texts.items():
        key = _COMPACTION_OPTIONS[name]
        if key in before:
            raise errors.ConfigurationError(f"{name} with --set {key}: expected one of them")
        try:
            compaction = compaction_options.from_properties({key: text}, compaction)
        except errors.ConfigurationError as error:
            raise errors.ConfigurationError(f"{name}: {error}") from None
    return replace(run, compaction=compaction)


def check_facts(facts: Mapping[str, str], config: table_config.TableConfig) -> None:
    """Refuse properties that a table does not agree with.

    Raises:
        ConfigurationError: One differs; the message has both values.
    """
    table_facts.check(facts, config, lambda key, value: f"--set {key}={value}")


def _lock(
    uri: str,
    lock_text: str | None,
    lock_properties: Mapping[str, str],
    others: Mapping[str, str],
) -> addresses.LockAddress:
    if lock_properties and lock_text is not None:
        raise errors.ConfigurationError(
            f"--lock {lock_text} with --set {min(lock_properties)}: expected one of them"
        )
    if not lock_properties:
        return writers.lock_of(uri) if lock_text is None else address_texts.parse(lock_text)
    # Of some providers a setting of the writer is a part as well: how long it waits is their lease.
    lock = hudi_options.from_options(
        {**others, **lock_properties}, table_name=others.get(_NAME_KEY)
    )
    if lock is None:
        raise errors.ConfigurationError(
            f"--set {min(lock_properties)} without hoodie.write.lock.provider"
        )
    return lock
