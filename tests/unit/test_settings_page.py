"""docs/settings.md tells of every key, and of no other: it is the code's own table."""

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic.alias_generators import to_camel

from hoodie.cli import run_settings
from hoodie.model import settings
from hoodie.services import table_facts
from hoodie.transaction.locks import hudi_options
from hoodie_operator.api import kinds

TOOL = Path(__file__).parents[2] / "tools" / "settings_page.py"
PREFIX = hudi_options.PREFIX
READ_OVER = {f"{PREFIX}app_id", f"{PREFIX}dynamodb.table_creation_timeout"}
GIVEN = {
    "dynamodb.table": "locks",
    "dynamodb.partition_key": "trips",
    "dynamodb.billing_mode": "PROVISIONED",
    "zookeeper.url": "zk",
    "zookeeper.base_path": "/hudi",
    "zookeeper.lock_key": "trips",
    "hivemetastore.uris": "thrift://metastore:9083",
    "hivemetastore.database": "lake",
    "hivemetastore.table": "trips",
}
OF_THE_SOURCES = (
    # The page on concurrency control.
    "hoodie.write.concurrency.mode",
    "hoodie.cleaner.policy.failed.writes",
    "hoodie.datasource.write.insert.drop.duplicates",
    "hoodie.combine.before.insert",
    "hoodie.write.concurrency.early.conflict.detection.enable",
    "hoodie.aws.access.key",
    "hoodie.aws.secret.key",
    "hoodie.aws.session.token",
    *(
        PREFIX + name
        for name in (
            "provider",
            "zookeeper.url",
            "zookeeper.port",
            "zookeeper.base_path",
            "hivemetastore.database",
            "hivemetastore.table",
            "dynamodb.table",
            "dynamodb.partition_key",
            "dynamodb.region",
            "dynamodb.endpoint_url",
            "filesystem.path",
            "filesystem.expire",
            "wait_time_ms",
            "num_retries",
            "client.wait_time_ms",
            "client.num_retries",
        )
    ),
    # RFC-45.
    "hoodie.base.path",
    "hoodie.metadata.enable",
    "hoodie.metadata.index.async",
    "hoodie.metadata.index.column.stats.enable",
    "hoodie.metadata.index.check.timeout.seconds",
    # The blog on non-blocking concurrency control.
    "table.type",
    "index.type",
    "write.tasks",
    "metadata.enabled",
    "compaction.schedule.enabled",
    "compaction.async.enabled",
    "clean.async.enabled",
)
"""Every key that the sources name (S89 to S112, S141, S168), Flink's connector and path apart."""
PROVIDERS = sorted({name for key in hudi_options.KEYS for name in key.providers})


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("settings_page", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Recording(Mapping[str, str]):
    """Options that remember what was asked for."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = given
        self.asked: set[str] = set()

    def __getitem__(self, key: str) -> str:
        self.asked.add(key)
        return self.given[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.given)

    def __len__(self) -> int:
        return len(self.given)


def test_page_is_up_to_date(tool: ModuleType) -> None:
    assert tool.PAGE.read_text() == tool.page(), "run make generate"


@pytest.mark.parametrize("key", OF_THE_SOURCES)
def test_key_that_the_sources_name_is_known(tool: ModuleType, key: str) -> None:
    assert f"`{key}`" in tool.page()


def test_every_setting_has_one_key(tool: ModuleType) -> None:
    assert tool.unlisted() == set()
    fields = [key.field for key in settings.KEYS if key.field is not None]
    assert len(fields) == len(set(fields))


def test_fields_of_manifests_are_there(tool: ModuleType) -> None:
    assert tool.MANIFEST_FIELDS.keys() <= {key.field for key in settings.KEYS}
    for place in tool.MANIFEST_FIELDS.values():
        kind, path = place.split()
        block: Any = kinds.BY_NAME[kind].spec
        for name in path.split("."):
            fields = {each.alias or to_camel(n): each for n, each in block.model_fields.items()}
            assert name in fields, place
            block = fields[name].annotation


@pytest.mark.parametrize("key", settings.KEYS, ids=lambda key: key.name)
def test_value_that_is_none_of_its_key_is_refused_and_the_default_is_one(
    tool: ModuleType, key: settings.Key
) -> None:
    with pytest.raises(ValueError, match="expected"):
        key.parse("neither this nor that")
    default = None if key.field is None else getattr(settings.WriteSettings(), key.field)
    if default is not None:
        assert key.parse(tool.default_of(key)) == default


@pytest.mark.parametrize("provider", PROVIDERS)
def test_keys_of_a_lock_are_those_that_are_read(provider: str) -> None:
    own = {key.name for key in hudi_options.KEYS if not key.providers or provider in key.providers}
    given = {PREFIX + name: text for name, text in GIVEN.items() if PREFIX + name in own}
    options = Recording({**given, f"{PREFIX}provider": provider, "hoodie.base.path": "/t"})
    assert hudi_options.from_options(options) is not None
    of_writers = {name for key in settings.KEYS for name in (key.name, *key.aliases)}
    assert options.asked <= own | of_writers
    # What only Hive's own clients read, and the keys of every lock, are for others of these.
    dedicated = {
        key.name
        for key in hudi_options.KEYS
        if provider in key.providers
        and not ("zookeeper" in key.name and provider.startswith("Hive"))
        and not ("Implicit" in provider and key.name.endswith(("partition_key", "lock_key")))
        and not (
            provider == "ZookeeperBasedImplicitBasePathLockProvider" and "base_path" in key.name
        )
    }
    assert dedicated - READ_OVER <= options.asked


def test_misspelt_key_of_a_lock_is_refused() -> None:
    texts = [f"{PREFIX}provider=ZookeeperBasedLockProvider", f"{PREFIX}zookeeper.ulr=zk"]
    with pytest.raises(Exception, match=r"zookeeper\.ulr is not a setting of Zookeeper"):
        run_settings.parse("/data/trips", texts, None)


@pytest.mark.parametrize("key", table_facts.REFUSED)
def test_key_that_is_not_honoured_is_refused_with_the_reason(key: str) -> None:
    """T-L19 (credentials)."""
    with pytest.raises(Exception, match=table_facts.REFUSED[key]) as raised:
        run_settings.parse("/data/trips", [f"{key}=AKIA123"], None)
    assert "AKIA123" not in str(raised.value)


def test_no_key_is_in_two_tables() -> None:
    names = [name for key in settings.KEYS for name in (key.name, *key.aliases)]
    names += [key.name for key in hudi_options.KEYS]
    names += [*table_facts.FACTS, *table_facts.REFUSED]
    assert len(names) == len(set(names))
