"""LockProvider: where the locks of tables are."""

import enum
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from hoodie_operator.api import conditions, fields, rules

# Without credentials, a query and a fragment.
ENDPOINT_PATTERN: Final = r"^https?://[A-Za-z0-9._~:/\[\]%-]+$"


class LockType(enum.Enum):
    """Which kind of lock."""

    ZOOKEEPER = "ZooKeeper"
    STORAGE = "Storage"
    DYNAMODB = "DynamoDB"
    HIVE_METASTORE = "HiveMetastore"
    FILE_SYSTEM = "FileSystem"
    IN_PROCESS = "InProcess"


Server = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.\-]+:[0-9]{1,5}$", max_length=262)]


class ZooKeeper(fields.Block):
    """A ZooKeeper ensemble, and the path of its locks."""

    servers: tuple[Server, ...] | None = Field(
        default=None, min_length=1, max_length=9, description="host:port of each server."
    )
    base_path: (
        Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9._-]+)+$", max_length=256)] | None
    ) = Field(
        default=None,
        description=(
            "Parent path of the locks, as hoodie.write.lock.zookeeper.base_path: a lock is at "
            "basePath/TABLENAME. Defaults to the path that Apache Hudi derives from the table's "
            "location."
        ),
    )


class DynamoDb(fields.Block):
    """A lock table in DynamoDB. The lock's key is derived from the Hudi table's location."""

    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+$", max_length=32)] = Field(
        description="The region of the lock table."
    )
    table: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{3,255}$", max_length=255)] = (
        Field(description="The name of the lock table.")
    )
    endpoint: Annotated[str, StringConstraints(pattern=ENDPOINT_PATTERN, max_length=256)] | None = (
        Field(default=None, description="URL of the service. Defaults to the region's own.")
    )


class HiveMetastore(fields.Block):
    """A Hive Metastore. Locks are named database.TABLENAME."""

    servers: tuple[Server, ...] = Field(
        min_length=1, max_length=9, description="host:port of each server."
    )
    database: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+$", max_length=128)] = Field(
        description="The database in the names of locks."
    )


class LockProviderSpec(fields.Block):
    """The lock service that tables use."""

    type: LockType
    embedded: bool = Field(default=False, description="Run a ZooKeeper server for this object.")
    zookeeper: ZooKeeper | None = None
    dynamodb: DynamoDb | None = None
    hive_metastore: HiveMetastore | None = None
    acquire_timeout: fields.Duration = Field(
        default="60s", description="How long a run waits for a table lock."
    )

    @property
    def servers(self) -> tuple[Server, ...]:
        """The servers that are declared; none where there are no servers, or ours."""
        if self.zookeeper is not None:
            return self.zookeeper.servers or ()
        return () if self.hive_metastore is None else self.hive_metastore.servers


class LockProviderStatus(conditions.Status):
    """The observed state of the lock service."""

    address: fields.Text | None = None
    tables: tuple[fields.Word, ...] | None = Field(default=None, max_length=100)


def _has_servers(spec: LockProviderSpec) -> bool:
    return spec.zookeeper is not None and spec.zookeeper.servers is not None


RULES: rules.Rules[LockProviderSpec] = rules.Rules(
    within=(
        rules.Rule(
            name="zookeeper-block",
            field="zookeeper",
            message="is valid with type ZooKeeper only",
            cel="!has(self.zookeeper) || self.type == 'ZooKeeper'",
            holds=lambda spec: spec.zookeeper is None or spec.type is LockType.ZOOKEEPER,
        ),
        rules.Rule(
            name="dynamodb-block",
            field="dynamodb",
            message="is required with type DynamoDB, and valid with no other type",
            cel="has(self.dynamodb) == (self.type == 'DynamoDB')",
            holds=lambda spec: (spec.dynamodb is not None) == (spec.type is LockType.DYNAMODB),
        ),
        rules.Rule(
            name="hive-metastore-block",
            field="hiveMetastore",
            message="is required with type HiveMetastore, and valid with no other type",
            cel="has(self.hiveMetastore) == (self.type == 'HiveMetastore')",
            holds=lambda spec: (
                (spec.hive_metastore is not None) == (spec.type is LockType.HIVE_METASTORE)
            ),
        ),
        rules.Rule(
            name="embedded-zookeeper",
            field="embedded",
            message="is valid with type ZooKeeper only",
            cel="!self.embedded || self.type == 'ZooKeeper'",
            holds=lambda spec: not spec.embedded or spec.type is LockType.ZOOKEEPER,
        ),
        rules.Rule(
            name="servers-or-embedded",
            field="zookeeper.servers",
            message="is required with type ZooKeeper, unless embedded is true",
            cel=(
                "self.type != 'ZooKeeper' || "
                "(self.embedded != (has(self.zookeeper) && has(self.zookeeper.servers)))"
            ),
            holds=lambda spec: (
                spec.type is not LockType.ZOOKEEPER or spec.embedded != _has_servers(spec)
            ),
        ),
    ),
    between=(rules.immutable("type", lambda spec: spec.type),),
)
